/*
 * The slot of a relocating key moves from one home to another (runtime/store/slots/slot_send.c, move.c) while workers push and
 * localize: closing, its echo, SLOT behind which the old home forwards, the new home's wait, the origins' fence.
 *
 * N nodes; the slot moves once, from OLD to NEW. Every node's worker issues OPS operations (an operation is a push that
 * returns the row) and LOCS localizes, in any order and asynchronously. The row is the set of pushes applied; `done` is a
 * ghost: what has been executed anywhere. Checked whenever an operation executes:
 *   one copy     the row executed on is `done`
 *   once         the push is not in `done` yet
 *   order        all earlier pushes of the same worker are in the row
 * and at rest: every operation answered, nothing parked, the slot at NEW, one owner, which the directory names.
 *
 * Relocation itself, and what copies, caches and duplicates do to it, is reloc.pml's. The directory is one variable: only
 * the home that has the slot uses it, and nobody does while the slot is in flight (asserted).
 *
 * Weakenings, each must be refuted:
 *   NOCLOSE   the slot leaves at once: what it forwarded to an owner may come there after the new home's HAND
 *   NOECHO    the slot is closed, and leaves before what went out earlier has been dealt with
 *   WISHES    a closed slot still sends HAND
 *   NOWAIT    the new home deals with the slot before it has come
 *   NOFENCE   an origin takes the new way while operations by the old one are unanswered
 *   NOTHELD   the new home's own operations run on a row that came with the slot, whatever it has unanswered
 *   KEPT      a closed slot keeps wishes for what is here, too
 *   QUEUED    a home that waits for the row keeps operations, whoever gets it in the end
 *   FORMER    who is the home no more keeps what was sent to it as the home, if it has the row or waits for it
 *   FRONT     the old home forwards what it kept ahead of the slot
 *
 * OPMASK, LOCMASK: the nodes whose workers have operations, and localizes (all).
 */
#ifndef N
#define N 3
#endif
#ifndef OPS
#define OPS 2
#endif
#ifndef LOCS
#define LOCS 1
#endif
#ifndef OPMASK
#define OPMASK ((1 << N) - 1)
#endif
#ifndef LOCMASK
#define LOCMASK ((1 << N) - 1)
#endif
#ifndef CAP
#define CAP 14
#endif
#define OLD 0
#define NEW (N - 1)

/* messages */
#define OP 1    /* who = origin, seq; term = 1: to the owner, by its home */
#define REPLY 2 /* seq */
#define LOC 3   /* who = requester */
#define HAND 4  /* who = new owner, term */
#define XFER 5  /* term, row */
#define SLOT 6  /* who = 1: with a row; term, row */
#define FLUSH 7
#define FLUSHED 8
/* what a worker asks of its own node */
#define OWN 9   /* an operation: seq */
#define WANT 10 /* a localize */

#define ABSENT 0
#define ARRIVING 1
#define OWNED 2

#define HERE 0 /* the slot: at OLD */
#define EXPECTED 1
#define CLOSED 2
#define LEFT 3
#define ARRIVED 4

#define IX(from, to) ((from) * N + (to))
#define BIT(w, s) (1 << ((w) * OPS + (s)))
chan link[N * N] = [CAP] of { byte, byte, byte, byte, short };
chan waiting[N] = [N * OPS + 2] of { byte, byte };    /* of an ARRIVING key */
chan parked[N] = [N * OPS + N + 2] of { byte, byte, byte }; /* of the slot */

byte slot;            /* where it is in flight */
byte echoes;          /* OLD: members that have not answered */
byte home[N];         /* as each node knows it */
byte dir, term;
byte st[N], seen[N];
short row[N], done;
byte succ[N], succ_term[N];
byte issued[N], located[N];
byte out[N], fence[N]; /* operations unanswered; of those, by the old way */
bit hold[N];           /* until none of them is */
bit held;              /* NEW: the row came with the slot under a hold */
byte again[N];         /* so many parked ones are looked at again, before anything else */

inline post(dst, kind, who, num, when, what) {
    assert(nfull(link[IX(n, dst)]));
    link[IX(n, dst)]!kind,who,num,when,what
}

inline park() { parked[n]!ty,w,s }
inline retry() { again[n] = len(parked[n]) }

/* Does the slot's state say that what needs the directory waits? */
#ifdef NOCLOSE
#define SHUT_OLD false
#elif defined(KEPT)
#define SHUT_OLD (n == OLD && slot == CLOSED && (dir != OLD || ty == LOC))
#else
#define SHUT_OLD (n == OLD && slot == CLOSED && dir != OLD)
#endif
#ifdef NOWAIT
#define SHUT SHUT_OLD
#else
#define SHUT (SHUT_OLD || (n == NEW && home[n] == NEW && slot < ARRIVED))
#endif
#ifdef WISHES
#define SHUT_TO_WISHES (SHUT && n != OLD)
#else
#define SHUT_TO_WISHES SHUT
#endif

/* An operation to the home of a row that is here, or to be, but not in the end; or to who was the home. */
#ifdef FORMER
#define ELSEWHERE (t == 0 && home[n] == n && (SHUT || dir != n))
#elif defined(QUEUED)
#define ELSEWHERE (t == 0 && home[n] != n)
#else
#define ELSEWHERE (t == 0 && (SHUT || home[n] != n || dir != n))
#endif

inline complete(op_) {
    out[n] = out[n] & ~(1 << (op_));
    fence[n] = fence[n] & ~(1 << (op_))
}

inline execute(ow, os) {
    assert(!(done & BIT(ow, os)));                     /* once */
    assert(row[n] == done);                            /* one copy */
    assert((os) == 0 || (row[n] & BIT(ow, (os) - 1))); /* order */
    row[n] = row[n] | BIT(ow, os);
    done = done | BIT(ow, os);
    if
    :: (ow) == n -> complete(os)
    :: else -> post(ow, REPLY, 0, os, 0, 0)
    fi
}

inline give(gto, gterm) {
    st[n] = ABSENT;
    a = row[n];
    row[n] = 0;
    post(gto, XFER, 0, 0, gterm, a);
    a = 0
}

inline install(it, ir) {
    st[n] = OWNED; seen[n] = it; row[n] = ir;
    do
    :: nempty(waiting[n]) -> waiting[n]?w2,s2; execute(w2, s2)
    :: empty(waiting[n]) -> break
    od;
    if
    :: succ[n] != 0 ->
        assert(succ_term[n] == it + 1);
        w2 = succ[n] - 1; s2 = succ_term[n];
        succ[n] = 0; succ_term[n] = 0;
        give(w2, s2)
    :: else
    fi;
    w2 = 0; s2 = 0
}

inline home_loc(hr) {
    assert(slot != LEFT && dir != (hr) && ((hr) != n || st[n] == ARRIVING)); /* each wish has one answer */
    w2 = dir;
    term++;
    dir = hr;
    if
    :: w2 == n && st[n] == OWNED -> give(hr, term)
    :: w2 == n && st[n] != OWNED -> assert(succ[n] == 0); succ[n] = hr + 1; succ_term[n] = term
    :: else -> post(w2, HAND, hr, 0, term, 0)
    fi;
    w2 = 0
}

inline operation() { /* w, s: it is not here, nor awaited */
    if
    :: SHUT -> park()
    :: !SHUT && home[n] == n -> assert(slot != LEFT && dir != n); post(dir, OP, w, s, 1, 0)
    :: !SHUT && home[n] != n -> post(home[n], OP, w, s, 0, 0)
    fi
}

inline learn() {
    home[n] = NEW;
#ifndef NOFENCE
    fence[n] = out[n];
    hold[n] = 1
#endif
}

inline close() {
    slot = CLOSED;
#if !defined(NOCLOSE) && !defined(NOECHO)
    for (w : 1 .. N - 1) {
        post(w, FLUSH, 0, 0, 0, 0);
        echoes++
    }
    w = 0
#endif
}

inline depart() {
#ifdef FRONT
    home[OLD] = NEW;
    do
    :: nempty(parked[OLD]) -> parked[OLD]?ty,w,s; post(NEW, (ty == OWN -> OP : (ty == WANT -> LOC : ty)), w, s, 0, 0)
    :: empty(parked[OLD]) -> break
    od;
#endif
    slot = LEFT;
    home[OLD] = NEW;
    if
    :: st[OLD] == OWNED ->
        term++;
        dir = NEW;
        st[OLD] = ABSENT;
        post(NEW, SLOT, 1, 0, term, row[OLD]);
        row[OLD] = 0
    :: else ->
        if :: dir == OLD && st[OLD] == ABSENT -> dir = NEW :: else fi; /* never made */
        post(NEW, SLOT, 0, 0, 0, 0)
    fi;
    retry()
}

/* Nobody touched the key yet: its first row is made where its home is. */
inline make() {
    if
    :: st[n] == ABSENT && home[n] == n && dir == n && !SHUT && slot != LEFT &&
       (ty == OP || ty == LOC || ((ty == OWN || ty == WANT) && !hold[n])) ->
        st[n] = OWNED; seen[n] = term; held = (n == NEW && hold[n])
    :: else
    fi
}

inline handle() {
    make();
    if
    :: ty == OWN ->
        if
#ifdef NOTHELD
        :: st[n] == OWNED -> execute(n, s)
#else
        :: st[n] == OWNED && n == NEW && held -> park()
        :: st[n] == OWNED && !(n == NEW && held) -> execute(n, s)
#endif
        :: st[n] == ARRIVING -> waiting[n]!n,s
        :: st[n] == ABSENT && hold[n] -> park()
        :: st[n] == ABSENT && !hold[n] -> operation()
        fi
    :: ty == OP ->
        if
        :: st[n] == OWNED && !ELSEWHERE -> execute(w, s)
        :: st[n] == ARRIVING && !ELSEWHERE -> waiting[n]!w,s
        :: st[n] == ABSENT || ELSEWHERE -> operation()
        fi
    :: ty == REPLY -> complete(s)
    :: ty == WANT ->
        if
        :: st[n] != ABSENT -> skip
        :: st[n] == ABSENT && (hold[n] || SHUT) -> park()
        :: st[n] == ABSENT && !(hold[n] || SHUT) ->
            st[n] = ARRIVING;
            if :: home[n] == n -> home_loc(n) :: else -> post(home[n], LOC, n, 0, 0, 0) fi
        fi
    :: ty == LOC ->
        if
        :: SHUT_TO_WISHES -> park()
        :: !SHUT_TO_WISHES && home[n] == n -> home_loc(w)
        :: !SHUT_TO_WISHES && home[n] != n -> post(home[n], LOC, w, 0, 0, 0)
        fi
    :: ty == HAND ->
        if
        :: st[n] == OWNED -> assert(t == seen[n] + 1); give(w, t)
        :: st[n] == ARRIVING -> assert(t > seen[n] + 1 && succ[n] == 0); succ[n] = w + 1; succ_term[n] = t
        :: st[n] == ABSENT -> assert(false)
        fi
    :: ty == XFER -> assert(st[n] == ARRIVING && t > seen[n]); install(t, r)
    :: ty == SLOT ->
        slot = ARRIVED;
        if
        :: w == 0 -> skip
        :: w == 1 ->
            assert(st[n] == ABSENT); /* its wish was dealt with before */
            st[n] = OWNED; seen[n] = t; row[n] = r; held = hold[n]
        fi;
        retry()
    :: ty == FLUSH -> post(OLD, FLUSHED, 0, 0, 0, 0)
    :: ty == FLUSHED -> echoes--
    fi
}

#define FREE (again[n] == 0)
#define TO_ISSUE(n) (OPMASK >> (n) & 1 -> OPS : 0)
#define TO_LOCALIZE(n) (LOCMASK >> (n) & 1 -> LOCS : 0)

proctype node(byte n) {
    byte ty, w, s, t, w2, s2;
    short r, a;
end:
    do
    :: atomic {
        if
        :: again[n] > 0 -> parked[n]?ty,w,s; again[n]--
        :: FREE && issued[n] < TO_ISSUE(n) -> ty = OWN; w = n; s = issued[n]; issued[n]++; out[n] = out[n] | (1 << s)
        :: FREE && located[n] < TO_LOCALIZE(n) -> ty = WANT; w = n; located[n]++
        :: FREE && nempty(link[IX(0, n)]) -> link[IX(0, n)]?ty,w,s,t,r
        :: FREE && nempty(link[IX(1, n)]) -> link[IX(1, n)]?ty,w,s,t,r
        :: FREE && nempty(link[IX(2, n)]) -> link[IX(2, n)]?ty,w,s,t,r
#if N > 3
        :: FREE && nempty(link[IX(3, n)]) -> link[IX(3, n)]?ty,w,s,t,r
#endif
        fi;
        handle();
        ty = 0; w = 0; s = 0; t = 0; r = 0
       }
    :: atomic { n == NEW && FREE && slot == HERE -> slot = EXPECTED; learn() } /* EXPECT */
    :: atomic { /* what this node has unanswered of other keys keeps it, too */
        hold[n] && FREE && fence[n] == 0 ->
        hold[n] = 0;
        if :: n == NEW -> held = 0 :: else fi;
        retry()
       }
    :: atomic { n == OLD && FREE && slot == EXPECTED -> close() }             /* MOVE */
    :: atomic { n == OLD && FREE && slot == CLOSED && echoes == 0 -> depart() }
    :: atomic { n != OLD && FREE && home[n] == OLD && slot >= LEFT -> learn() } /* MAP */
    od
}

init {
    byte n, owners, applied;
    atomic {
        if :: true -> st[OLD] = OWNED :: true fi; /* or nobody touched it yet */
        for (n : 0 .. N - 1) { run node(n) }
    }
    atomic {
        timeout ->
        assert(slot == ARRIVED);
        for (n : 0 .. N - 1) {
            assert(issued[n] == TO_ISSUE(n) && located[n] == TO_LOCALIZE(n) && out[n] == 0); /* nobody hangs */
            assert(home[n] == NEW && !hold[n] && empty(parked[n]));
            assert(st[n] != ARRIVING && empty(waiting[n]) && succ[n] == 0);
            for (applied : 0 .. issued[n] - 1) { assert(done & BIT(n, applied)) }
            if :: st[n] == OWNED -> owners++; assert(dir == n && row[n] == done) :: else fi
        }
        assert(!held && (owners == 1 || (done == 0 && dir == NEW && st[NEW] == ABSENT)))
    }
}
