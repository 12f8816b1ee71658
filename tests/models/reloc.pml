/*
 * Relocation of one key: homes, terms, HAND/XFER, location caches and their fence (runtime/store/adaptive/location_cache.h).
 *
 * N nodes, node 0 is the home and the first owner. Every node's worker issues OPS operations (an
 * operation is a push that returns the row) and LOCS localizes, in any order. The row is the set of
 * pushes applied, so that a row tells exactly what it holds. `done` is a ghost: what has been
 * executed anywhere. Checked whenever an operation executes:
 *   one copy     the row executed on is `done`: nothing lost, no second row (with it, linearizable when synchronous)
 *   once         the push is not in `done` yet
 *   order        all earlier pushes of the same worker are in the row
 * and at rest: every operation answered, one owner, the directory names it, its row is complete,
 * nobody waits.
 *
 * Conditions (they widen the world)          Weakenings (each must be refuted)
 *   SYNC      one operation outstanding         NOFENCE   the way changes while operations are unanswered
 *   CACHE     location caches                   LOCNOW    LOC does not wait for operations that went straight
 *   REORDER   links reorder                     ANYTERM   a straight operation runs whenever the row is there
 *   OWNLANE   answers, XFER in own lanes        LEAP      after a return later ones go by the home at once
 *   DUPDATA   one operation sent twice, late    CONTROL   LOC, HAND in a lane of their own
 *   DUPCTL    one LOC/HAND/XFER twice, late     NOIDS, LOCALIDS, COUNT   no ids; ids stay; answers counted
 *   FOCUS     only node 1 has operations        NOTERMS   no terms; LOCDIR: LOC judged by the directory entry alone
 *   BLOCK     a full link blocks the handler    LATE, NOQUEUE   owner recorded at the end; requester does not queue
 *
 * States: SYNC 35,859; SYNC LOCS=2 821,644; SYNC N=4 OPS=1 593,839; base 160,651; CACHE 398,933;
 * CACHE FOCUS OPS=4 LOCS=2 319,842; SYNC REORDER 2,129,571; SYNC CONTROL 199,561; OWNLANE 411,183;
 * DUPDATA 4,443,473; DUPCTL SYNC 881,531; SYNC BLOCK CAP=1 35,969; SYNC NOQUEUE 92,043.
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
#ifndef CAP
#define CAP 12
#endif
#ifdef NOTERMS
#define TERMS 0
#else
#define TERMS 1
#endif
#define HOME 0
#define NOBODY 15

#define OP 1    /* who = origin, seq; CACHE: term = that of the owner if it comes straight, else 0 */
#define REPLY 2 /* who = executing node, seq */
#define LOC 3   /* who = requester, term = highest it has seen */
#define HAND 4  /* who = new owner, term */
#define XFER 5  /* term, row */
#define HERE 6  /* LATE only: who = new owner */
#define PASSED 7 /* CACHE: home to origin: who = owner, term */
#define BACK 8  /* CACHE: a straight operation comes back: seq */

#define ABSENT 0
#define ARRIVING 1
#define OWNED 2

#if defined(REORDER) || defined(CONTROL) || defined(OWNLANE)
#define LANES 2
#else
#define LANES 1
#endif
#define IX(from, to) ((from) * N + (to))
chan link[N * N * LANES] = [CAP] of { byte, byte, byte, byte, short };
chan waiting[N] = [N * OPS + 2] of { byte, byte }; /* of an ARRIVING key */

byte st[N];
short row[N];
byte seen[N];
byte succ[N], succ_term[N];
byte dir, term;   /* at the home */
byte given[N];    /* at the home: the last term given to each node */
short done;
byte issued[N], located[N];
byte out[N];      /* operations unanswered, one bit each */
#ifdef COUNT
byte count[N];
#endif
#ifdef LOCALIDS
short ids[N];
#endif
#ifdef CACHE
byte cache[N], cache_term[N]; /* owner + 1 as last heard; 0: by the home */
byte last[N];                /* operation + 1 that left last; 0: none */
bit straight[N], stale[N], closing[N]; /* the way in use; one came back; nothing more may go it */
#endif
#if defined(DUPDATA) || defined(DUPCTL)
chan late = [1] of { byte, byte, byte, byte, byte, short };
bit duplicated;
#endif

#define BIT(w, s) (1 << ((w) * OPS + (s)))

#ifdef BLOCK
#define ROOM(c)
#else
#define ROOM(c) assert(nfull(link[c]))
#endif

inline post(src, dst, kind, who, num, when, what) {
    d = IX(src, dst);
#ifdef REORDER
    if :: d = d :: d = d + N * N fi;
#endif
#ifdef CONTROL
    if :: kind == LOC || kind == HAND -> d = d + N * N :: else fi;
#endif
#ifdef OWNLANE
    if :: kind == REPLY || kind == XFER -> d = d + N * N :: else fi;
#endif
    ROOM(d);
    link[d]!kind,who,num,when,what;
#ifdef DUPDATA
    if :: kind == OP && !duplicated -> duplicated = 1; late!d,kind,who,num,when,what :: true fi;
#endif
#ifdef DUPCTL
    if :: kind >= LOC && !duplicated -> duplicated = 1; late!d,kind,who,num,when,what :: true fi;
#endif
}

#define ANSWERED(n) (last[n] == 0 || !(out[n] & (1 << (last[n] - 1))))

inline learn(owner_, term_) { /* a location came for free */
#ifdef CACHE
    if
    :: n == HOME || owner_ == n || straight[n] -> skip
    :: else -> cache[n] = (owner_ == HOME -> 0 : owner_ + 1); cache_term[n] = (owner_ == HOME -> 0 : term_)
    fi
#else
    skip
#endif
}

inline by_home() {
#ifdef CACHE
    if :: stale[n] -> cache[n] = 0; cache_term[n] = 0 :: else fi;
    straight[n] = 0; stale[n] = 0; closing[n] = 0
#else
    skip
#endif
}

/* dest := where n sends an operation; NOBODY: it waits */
inline route() {
    if
    :: n == HOME -> dest = dir
    :: else ->
        dest = HOME;
#ifdef CACHE
#ifdef NOFENCE
        if :: cache[n] != 0 -> dest = cache[n] - 1 :: else fi
#else
        if :: straight[n] && ANSWERED(n) -> by_home() :: else fi;
        if
        :: straight[n] && closing[n] -> dest = NOBODY
        :: straight[n] && !closing[n] -> dest = cache[n] - 1
        :: !straight[n] && cache[n] != 0 && ANSWERED(n) -> straight[n] = 1; dest = cache[n] - 1
        :: else
        fi
#endif
#endif
    fi
}

inline complete(op_) {
#ifdef COUNT
    assert(count[n] > 0); /* one answer too many */
    count[n]--;
#endif
    out[n] = out[n] & ~(1 << (op_))
}

inline execute(ow, os) {
    if
#ifdef LOCALIDS
    :: ids[n] & BIT(ow, os)
#else
#ifndef NOIDS
    :: row[n] & BIT(ow, os)
#else
    :: false
#endif
#endif
        -> skip /* applied before: only answered */
    :: else ->
        assert(!(done & BIT(ow, os)));                /* once */
        assert(row[n] == done);                     /* one copy */
        assert((os) == 0 || (row[n] & BIT(ow, (os) - 1))); /* order */
        row[n] = row[n] | BIT(ow, os);
        done = done | BIT(ow, os);
#ifdef LOCALIDS
        ids[n] = ids[n] | BIT(ow, os)
#endif
    fi;
    if
    :: (ow) == n -> complete(os)
    :: else -> post(n, ow, REPLY, n, os, 0, 0)
    fi
}

inline give(gto, gterm) {
    st[n] = ABSENT;
    a = row[n];
    row[n] = 0;
    learn(gto, gterm);
    post(n, gto, XFER, 0, 0, gterm, a);
    a = 0
}

inline install(it, ir) {
    st[n] = OWNED; seen[n] = it; row[n] = ir;
#ifdef LATE
    if :: n == HOME -> dir = HOME :: else -> post(n, HOME, HERE, n, 0, 0, 0) fi;
#endif
    do
    :: nempty(waiting[n]) -> waiting[n]?w2,s2; execute(w2, s2)
    :: empty(waiting[n]) -> break
    od;
    w2 = 0; s2 = 0;
    if
    :: succ[n] != 0 ->
        assert(!TERMS || succ_term[n] == it + 1);
        w2 = succ[n] - 1; s2 = succ_term[n];
        succ[n] = 0; succ_term[n] = 0;
        give(w2, s2);
        w2 = 0; s2 = 0
    :: else
    fi
}

inline home_loc(hr, ht) {
    if
#ifdef LOCDIR
    :: TERMS && dir == (hr) -> skip
#else
    :: TERMS && (dir == (hr) || ht < given[hr]) -> skip /* a duplicate */
#endif
    :: else ->
        w2 = dir;
        term++;
        given[hr] = term;
#ifndef LATE
        dir = hr;
#endif
        if
        :: w2 == HOME && st[HOME] == OWNED -> give(hr, term)
        :: w2 == HOME && st[HOME] != OWNED -> assert(succ[HOME] == 0); succ[HOME] = hr + 1; succ_term[HOME] = term
        :: else -> post(HOME, w2, HAND, hr, 0, term, 0)
        fi;
        w2 = 0
    fi
}

/* The home waits for the row, but is not the owner in the end. */
#ifdef NOQUEUE
#define PASSES false
#else
#define PASSES (n == HOME && dir != HOME)
#endif

inline handle() {
    if
#ifdef CACHE
    :: ty == OP && t != 0 -> /* it came straight */
        if
#ifdef ANYTERM
        :: st[n] == OWNED -> execute(w, s)
        :: st[n] != OWNED -> post(n, w, BACK, 0, s, 0, 0)
#else
        :: st[n] == OWNED && seen[n] == t -> execute(w, s)
        :: !(st[n] == OWNED && seen[n] == t) -> post(n, w, BACK, 0, s, 0, 0)
#endif
        fi
    :: ty == BACK ->
        closing[n] = straight[n]; stale[n] = straight[n];
#ifndef LOCNOW
        assert(st[n] == ABSENT); /* LOC waited */
#endif
        post(n, HOME, OP, n, s, 0, 0);
#ifdef LEAP
        if :: straight[n] -> by_home() :: else fi
#else
        if :: straight[n] && last[n] == s + 1 -> by_home() :: else fi
#endif
    :: ty == PASSED -> learn(w, t)
    :: ty == OP && t == 0 ->
#else
    :: ty == OP ->
#endif
        if
        :: st[n] == OWNED -> execute(w, s)
#ifdef NOQUEUE
        :: st[n] == ARRIVING && n != HOME -> post(n, HOME, OP, w, s, 0, 0)
        :: st[n] == ARRIVING && n == HOME -> waiting[n]!w,s
#else
        :: st[n] == ARRIVING && !PASSES -> waiting[n]!w,s
#endif
        :: (st[n] == ABSENT && n == HOME) || (st[n] == ARRIVING && PASSES) ->
            assert(dir != HOME);
#ifdef CACHE
            if :: w != HOME -> post(HOME, w, PASSED, dir, 0, term, 0) :: else fi;
#endif
            post(HOME, dir, OP, w, s, 0, 0)
        :: st[n] == ABSENT && n != HOME -> post(n, HOME, OP, w, s, 0, 0)
        fi
    :: ty == REPLY ->
#ifdef COUNT
        complete(s)
#else
        if :: out[n] & (1 << s) -> complete(s) :: else fi
#endif
    :: ty == LOC && n != HOME -> post(n, HOME, LOC, w, 0, t, 0)
    :: ty == LOC && n == HOME -> home_loc(w, t)
    :: ty == HAND ->
        if
        :: st[n] == OWNED && (!TERMS || t == seen[n] + 1) -> give(w, t)
        :: st[n] == OWNED && TERMS && t != seen[n] + 1 -> assert(t <= seen[n])
        :: st[n] == ARRIVING && (!TERMS || t > seen[n] + 1) ->
            assert(succ[n] == 0 || (TERMS && succ_term[n] == t)); /* at most one successor */
            succ[n] = w + 1; succ_term[n] = t
        :: st[n] == ARRIVING && TERMS && t <= seen[n] + 1 -> skip
        :: st[n] == ABSENT -> assert(TERMS && t <= seen[n] + 1) /* neither here nor coming */
        fi
    :: ty == XFER ->
        if
        :: st[n] == ARRIVING && (!TERMS || t > seen[n]) -> install(t, r)
        :: else -> assert(TERMS && t <= seen[n]) /* a row that nobody asked for must be a duplicate */
        fi
    :: ty == HERE -> dir = w
    fi
}

#ifdef COUNT
#define ISSUED count[n]++
#else
#define ISSUED skip
#endif

inline issue() {
    s2 = issued[n];
    if
    :: st[n] == OWNED -> issued[n]++; out[n] = out[n] | (1 << s2); ISSUED; execute(n, s2)
#ifdef NOQUEUE
    :: st[n] == ARRIVING && n == HOME -> issued[n]++; out[n] = out[n] | (1 << s2); ISSUED; waiting[n]!n,s2
    :: st[n] == ABSENT || (st[n] == ARRIVING && n != HOME) ->
#else
    :: st[n] == ARRIVING -> issued[n]++; out[n] = out[n] | (1 << s2); ISSUED; waiting[n]!n,s2
    :: st[n] == ABSENT ->
#endif
        route();
        if
        :: dest == NOBODY -> skip /* the fence: tried again later */
        :: else ->
            issued[n]++;
            out[n] = out[n] | (1 << s2);
            ISSUED;
#ifdef CACHE
            last[n] = s2 + 1;
            if :: n != HOME && dest != HOME -> i = cache_term[n] :: else fi;
            post(n, dest, OP, n, s2, i, 0);
            i = 0
#else
            post(n, dest, OP, n, s2, 0, 0)
#endif
        fi;
        dest = 0
    fi;
    s2 = 0
}

inline localize() {
    if
    :: st[n] != ABSENT -> located[n]++ /* here, or attached to the request before */
    :: n == HOME && st[n] == ABSENT -> located[n]++; st[n] = ARRIVING; home_loc(HOME, seen[n])
#if defined(CACHE) && !defined(LOCNOW)
    :: n != HOME && st[n] == ABSENT && straight[n] && !ANSWERED(n) -> closing[n] = 1 /* tried again later */
    :: n != HOME && st[n] == ABSENT && !(straight[n] && !ANSWERED(n)) ->
#else
    :: n != HOME && st[n] == ABSENT ->
#endif
        located[n]++; st[n] = ARRIVING; post(n, HOME, LOC, n, 0, seen[n], 0)
    fi
}

#ifdef FOCUS
#define WORK(n) ((n) == 1 -> OPS : 0)
#else
#define WORK(n) OPS
#endif
#ifdef SYNC
#define MAY_ISSUE (issued[n] < WORK(n) && out[n] == 0)
#else
#define MAY_ISSUE (issued[n] < WORK(n))
#endif
#define RECEIVE(c) :: link[c]?ty,w,s,t,r

proctype node(byte n) {
    byte ty, w, s, t, d, dest, i, w2, s2;
    short r, a;
    bit ok;
end:
    do
    :: atomic { MAY_ISSUE -> issue(); d = 0 }
    :: atomic { located[n] < LOCS -> localize(); d = 0 }
    :: atomic {
        if
        RECEIVE(IX(0, n))
        RECEIVE(IX(1, n))
        RECEIVE(IX(2, n))
#if N > 3
        RECEIVE(IX(3, n))
#endif
#if LANES > 1
        RECEIVE(N * N + IX(0, n))
        RECEIVE(N * N + IX(1, n))
        RECEIVE(N * N + IX(2, n))
#endif
        fi;
        handle();
        ty = 0; w = 0; s = 0; t = 0; r = 0; d = 0
    }
    od
}

#if defined(DUPDATA) || defined(DUPCTL)
active proctype duplicator() {
    byte d, ty, w, s, t;
    short r;
end:
    atomic { late?d,ty,w,s,t,r -> link[d]!ty,w,s,t,r }
}
#endif

#ifdef FOCUS
#define ALL (((1 << OPS) - 1) << OPS)
#else
#define ALL ((1 << (N * OPS)) - 1)
#endif

init {
    byte n, owners;
    atomic {
        st[HOME] = OWNED;
        for (n : 0 .. N - 1) { run node(n) }
    }
    atomic {
        timeout ->
        for (n : 0 .. N - 1) {
            assert(issued[n] == WORK(n) && located[n] == LOCS && out[n] == 0); /* nobody hangs */
            assert(st[n] != ARRIVING && empty(waiting[n]) && succ[n] == 0);
            if :: st[n] == OWNED -> owners++; assert(dir == n && row[n] == done) :: else fi
        }
        assert(owners == 1 && done == ALL)
    }
}
