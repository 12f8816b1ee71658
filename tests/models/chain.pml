/*
 * Copies against loss (runtime/store): a slot's home, its chain of copies, numbers, the change of a group and the
 * opening of a new home, as in replica.c, strict.c, chain_replica.c, failover.c, rebuild.c and groups.c. One slot with one row,
 * durability strict.
 *
 * Nodes 1..N may hold the slot; 1 is home at first, and CHAIN its copies. Node 0 is an origin, whose worker issues OPS
 * operations without waiting, pushes and at most PULLS pulls; node 1's own worker makes one push more (OWN) and the
 * workers of any home read in place while leases and the row allow it. The controller never fails. A row is the
 * sequence of the pushes it has had, two bits each; a push's id is its number.
 *
 *   OP    origin -> home            with the version of the group that the origin knows
 *   REPL  home -> chain             a push, barrier or JOIN with the slot's number, passed on to the last, which answers
 *                                   to the home (ACKR, in a lane of its own)
 *   SNAP  last -> who joins         the row, its number and ids, in front of JOIN
 *   GROUP controller -> all         a new version: home and chain; also successor -> old home
 *   ORDER controller -> home        bring a node in, or (0) say when all is with the copies
 *   GRANT copy -> home              a lease, once more
 *
 * Checked: no push is applied twice to a row, no number is missing at a copy ("a gap cannot be"), a worker's pushes are
 * applied in their order, a pull has all earlier pushes of its worker and none later one, no read misses what was
 * acknowledged or read before. At rest all is answered, and the home and its copies, and nobody else, have equal rows,
 * numbers and ids with all that was acknowledged.
 *
 * Nothing is assumed of sessions with a dead node: what it sent may come at any time, or (CRASH) be lost from some
 * moment on. Leases: whoever waits for one to run out ends it, which is when its holder has stopped to use it.
 *
 * Faults: DEATHS nodes crash (CRASH), are declared dead although they live, and learn it later (SUSPECT), or either.
 * JOIN: the controller brings in node N, once more if that is cancelled. FIRST, SECOND: these nodes leave in order.
 * RENEW: this node grants node 1 its lease once more.
 *
 * Weakenings: NOFENCE (a copy takes what any home sends), NONUMBERS (a copy applies what comes), SNAPNOIDS (ids do not
 * go with a row), NOBARRIER (a new home opens when leases have run out), NOWAIT (and when they have not), LASTONLY (it
 * waits for those of the last home alone), NOLEASE (reads in place ask for none),
 * NOTELL (a former home is not told before it is granted anything again), TELLONE (its successor alone tells it),
 * PULLNOW (a pull is answered while pushes are in flight), FIRSTACK (answered by the first of the chain),
 * NORETARGET (what is unanswered does not go down a new chain), BACKWARDS (sent again, the last first), PASSEARLY (a former home passes on for who has not heard), NOORDER (a push
 * does not wait for an earlier pull of its worker), NOTSETTLED (a home goes before all is with the copies), FRONT (JOIN
 * in front of its SNAP), OLDREPORT (the word that a node has joined counts, of whatever order it is).
 */
#ifndef N
#define N 3
#endif
#ifndef CHAIN
#define CHAIN (2 | 3 << 3)
#endif
#ifndef OPS
#define OPS 1
#endif
#ifndef PULLS
#define PULLS 0
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef CAP
#define CAP 6
#endif

#define OP 1
#define REPL 2
#define SNAP 3
#define GROUP 4
#define ORDER 5
#define GRANT 6

#define PUSH 1 /* kinds of REPL */
#define BARRIER 2
#define JOINS 3

#ifdef OWN
#define OWN_PUSH 3 /* id of node 1's own push */
#else
#define OWN_PUSH 8
#endif
#define OPENING 7  /* in place of an operation: a new home's barrier */

#define OPEN 0
#define AT 1    /* waits until leases have run out */
#define ASKED 2 /* waits for its barrier */

#define BIT(n) (1 << (n))
#define IX(from, to) ((from) * N + (to) - 1)
#define IN_CHAIN(c, n) (((c) & 7) == (n) || ((c) >> 3 & 7) == (n) || ((c) >> 6 & 7) == (n))
#define MEMBERS(c) ((BIT((c) & 7) | BIT((c) >> 3 & 7) | BIT((c) >> 6 & 7)) & ~1)
#define SET(l) ((BIT((l) & 3) | BIT((l) >> 2 & 3) | BIT((l) >> 4 & 3)) & ~1)

#define LETS(h, g) (!(g) || (leases[h] | again[h]) & BIT(g))
#ifdef NOLEASE
#define LEASED(h) 1
#else
#define LEASED(h) (LETS(h, chain[h] & 7) && LETS(h, chain[h] >> 3 & 7) && LETS(h, chain[h] >> 6 & 7))
#endif

/* type, version, a, b, token, number, home, chain */
chan store[(N + 1) * N] = [CAP] of { byte, byte, byte, byte, byte, byte, byte, short };
chan orders[N + 1] = [5] of { byte, byte, byte, byte, short }; /* type, version, a, b, chain */
chan acks[(N + 1) * N] = [6] of { byte };                             /* token */
chan reports = [4] of { byte, byte, byte };                      /* version, home, node */
chan ring[N + 1] = [6] of { byte, byte, byte, byte, byte };      /* token, kind, number, operation, value */
chan parked[N + 1] = [4] of { byte, byte };                      /* operation, version */

/* of each node */
byte version[N + 1], home[N + 1], row[N + 1], number[N + 1], ids[N + 1], fence[N + 1], opening[N + 1], token[N + 1];
byte unacked[N + 1], former[N + 1], dead[N + 1]; /* former: homes that it granted leases for the slot */
short chain[N + 1];
bit alive[N + 1], held[N + 1], over[N + 1];
byte leases[N + 1], again[N + 1]; /* as the holder: a bit of each granter; again: granted since it follows another */
byte order_version[N + 1], order_node[N + 1];
bit ordered[N + 1];

/* the controller's */
byte now_version, now_home, joining, declared, leaving, settled;
short now_chain;
byte failed, deaths;

/* the origin's, and what was seen */
byte issued, out, pushes, pulls, must[4], acked, known;
bit own_issued, renewed;

/* ---- sending ---- */

inline post(to, pt, pv, pa, pb, pk, pm, ph, pc) {
    if
    :: !alive[to] -> skip
    :: else -> assert(nfull(store[IX(n, to)])); store[IX(n, to)]!pt,pv,pa,pb,pk,pm,ph,pc
    fi
}

/* On to the first of the chain c_. */
inline pass(v_, k_, o_, t_, m_, h_, c_) {
#ifdef FRONT
    post((c_) & 7, REPL, v_, k_, o_, t_, m_, h_, (c_) >> 3);
#endif
    if
    :: k_ == JOINS && (c_) >> 3 == 0 ->
        newest = (version[n] > fence[n] -> version[n] : fence[n]);
        post((c_) & 7, SNAP, newest, row[n], ids[n], 0, number[n], 0, 0);
        newest = 0
    :: else
    fi
#ifndef FRONT
    ;
    post((c_) & 7, REPL, v_, k_, o_, t_, m_, h_, (c_) >> 3)
#endif
}

inline answer(o_, x_) {
    if
    :: o_ == OWN_PUSH -> acked = acked | BIT(OWN_PUSH)
    :: o_ != OWN_PUSH && (out & BIT(o_)) ->
        out = out & ~BIT(o_);
        if
        :: pushes & BIT(o_) -> acked = acked | BIT(o_)
        :: else ->
            assert((SET(x_) & must[o_]) == must[o_]);                           /* all that it must */
            assert(!(SET(x_) & ~(BIT(o_) - 1) & ~BIT(OWN_PUSH))); /* nothing its worker did later */
            known = known | SET(x_);
            must[o_] = 0
        fi
    :: else
    fi
}

/* All copies have it. */
inline finished(k_, o_, x_) {
    if
    :: o_ == OPENING -> if :: opening[n] == ASKED -> opening[n] = OPEN :: else fi
    :: o_ == 0 -> reports!order_version[n],n,x_
    :: else ->
        if :: k_ == PUSH -> unacked[n]-- :: else fi;
        answer(o_, x_)
    fi
}

/* Down the chain. */
inline down(k_, o_, m_, x_) {
    if
    :: chain[n] == 0 -> finished(k_, o_, x_)
    :: else ->
        token[n]++;
        assert(nfull(ring[n]));
        ring[n]!token[n],k_,m_,o_,x_;
        pass(version[n], k_, o_, token[n], m_, n, chain[n])
    fi
}

/* ---- operations at their home ---- */

inline execute(eo) {
    if
    :: eo == OWN_PUSH || (pushes & BIT(eo)) ->
        if
        :: ids[n] & BIT(eo) -> down(BARRIER, eo, number[n], 0) /* answered behind its first */
        :: else ->
            assert(!(SET(row[n]) & BIT(eo)));                                              /* once */
            assert(eo == OWN_PUSH || (SET(row[n]) & pushes & (BIT(eo) - 1)) == (pushes & (BIT(eo) - 1))); /* in order */
            row[n] = row[n] | eo << (2 * number[n]);
            ids[n] = ids[n] | BIT(eo);
            number[n]++;
            unacked[n]++;
            down(PUSH, eo, number[n], 0)
        fi
    :: else ->
        if
#ifdef PULLNOW
        :: true -> answer(eo, row[n])
#else
        :: !unacked[n] && LEASED(n) ->
            answer(eo, row[n])
        :: chain[n] != 0 -> down(BARRIER, eo, number[n], row[n]) /* or no lease is left */
#endif
        fi
    fi
}

#define MINE(n) (home[n] == (n))
/* Can nothing be said yet of an operation of an origin that knows version v? */
#define WAITS(n, v) (MINE(n) && opening[n] != OPEN || !MINE(n) && (dead[n] & BIT(home[n]) || (v) > version[n]))

/* Does it know the version of the first operation that is parked? */
#define KNOWS_OF(n, v) (version[n] >= v && parked[n]?[b, v])
#define KNOWS(n) (KNOWS_OF(n, 1) || KNOWS_OF(n, 2) || KNOWS_OF(n, 3) || KNOWS_OF(n, 4) || KNOWS_OF(n, 5))

inline operate(oo, ov) {
    if
    :: MINE(n) -> execute(oo)
    :: else ->
        assert(ov < version[n]); /* who knows as much sends to the home */
#ifdef PASSEARLY
        post(home[n], OP, version[n], oo, 0, 0, 0, 0, 0)
#endif
    fi
}

/* ---- changes of groups ---- */

inline retarget() {
    left = len(ring[n]);
    do
    :: left > 0 ->
        left--;
        ring[n]?t,k,m,o,x;
        if
        :: MINE(n) && o != 0 -> down(k, o, m, x)
        :: MINE(n) && o == 0 -> skip /* its order is cancelled */
        :: else -> if :: k == PUSH -> unacked[n]-- :: else fi
        fi
    :: else -> break
    od;
    t = 0; k = 0; m = 0; o = 0; x = 0
}

inline drop_copy() {
    held[n] = 0; row[n] = 0; ids[n] = 0; number[n] = 0; former[n] = 0
}

#ifdef TELLONE
#define TELLS (gh == n)
#else
#define TELLS 1
#endif

inline regroup(gv, gh, cause, gc) {
    dead[n] = dead[n] | (cause -> BIT(cause) : 0);
    if
    :: gv > version[n] ->
        was_home = home[n]; was_chain = chain[n];
        version[n] = gv; home[n] = gh; chain[n] = gc;
        if
        :: was_home != gh ->
            if :: was_home == n -> opening[n] = OPEN :: else fi;
            if
            :: held[n] && was_home != n ->
#ifdef LASTONLY
                former[n] = 0;
#endif
                former[n] = former[n] | BIT(was_home);
#ifndef NOTELL
                if :: TELLS -> post(was_home, GROUP, gv, gh, cause, 0, 0, 0, gc) :: else fi
#endif
            :: else
            fi;
            if :: gh == n -> opening[n] = AT :: else fi
        :: else
        fi;
        if
        :: was_home != gh || was_chain != gc ->
            if
            :: held[n] && !MINE(n) && !IN_CHAIN(gc, n) && fence[n] < gv -> drop_copy()
            :: else
            fi;
            ordered[n] = 0; order_version[n] = 0; order_node[n] = 0;
#ifndef NORETARGET
            retarget()
#endif
        :: else
        fi;
        assert(!IN_CHAIN(gc, n) || held[n]); /* the controller counts on it */
        was_home = 0; was_chain = 0
    :: else
    fi
}

inline grow(gc, gn) {
    gc = gc | gn << (gc == 0 -> 0 : (gc < 8 -> 3 : 6))
}

/* The controller's order, when its slot is open. */
inline obey() {
    ordered[n] = 0;
    if
    :: MINE(n) && version[n] <= order_version[n] && order_node[n] == 0 -> down(BARRIER, 0, number[n], 0)
    :: MINE(n) && version[n] <= order_version[n] && order_node[n] != 0 ->
        assert(!IN_CHAIN(chain[n], order_node[n]));
        o = order_node[n];
        grow(chain[n], o);
        down(JOINS, 0, number[n], o);
        o = 0
    :: else
    fi
}

/* ---- copies ---- */

#ifdef NOFENCE
#define CURRENT(v) 1
#else
#define CURRENT(v) ((v) >= fence[n] && !(MINE(n) && version[n] >= (v)))
#endif

inline copy() { /* v, a = kind, b = operation, t = token, m = number, h = home, c = rest of the chain */
    if
    :: CURRENT(v) && held[n] ->
        fence[n] = (v > fence[n] -> v : fence[n]);
        if
#ifdef NONUMBERS
        :: a == PUSH ->
#else
        :: m > number[n] ->
            assert(a == PUSH && m == number[n] + 1);
#endif
            assert(!(SET(row[n]) & BIT(b)));
            row[n] = row[n] | b << (2 * number[n]);
            ids[n] = ids[n] | BIT(b);
            number[n]++
        :: else
        fi;
#ifdef FIRSTACK
        if :: n == 2 && a == PUSH && alive[h] -> assert(nfull(acks[IX(n, h)])); acks[IX(n, h)]!t :: else fi;
#endif
        if
        :: c != 0 -> pass(v, a, b, t, m, h, c)
        :: c == 0 && alive[h] -> assert(nfull(acks[IX(n, h)])); acks[IX(n, h)]!t
        :: else
        fi
    :: else
    fi
}

inline snapshot() { /* v, a = row, b = ids, m = number */
    if
    :: CURRENT(v) && v >= version[n] ->
        row[n] = a; number[n] = m; fence[n] = v; held[n] = 1;
#ifndef SNAPNOIDS
        ids[n] = b
#endif
    :: else
    fi
}

inline handle() {
    if
    :: ty == OP && (nempty(parked[n]) || WAITS(n, v)) -> assert(nfull(parked[n])); parked[n]!a,v
    :: ty == OP && empty(parked[n]) && !WAITS(n, v) -> operate(a, v)
    :: ty == REPL -> copy()
    :: ty == SNAP -> snapshot()
    :: ty == GROUP -> regroup(v, a, b, c)
    :: ty == ORDER -> ordered[n] = 1; order_version[n] = v; order_node[n] = a
    :: ty == GRANT ->
        if
        :: a -> again[n] = again[n] | BIT(src)
        :: !a && !over[src] -> leases[n] = leases[n] | BIT(src)
        :: else
        fi
    fi
}

#define COMES(from) alive[n] && nempty(store[IX(from, n)]) -> src = from; store[IX(from, n)]?ty,v,a,b,t,m,h,c
#define ACKED(from) alive[n] && nempty(acks[IX(from, n)]) -> acks[IX(from, n)]?t

proctype node(byte n) {
    byte ty, v, a, b, t, m, h, k, o, x, src, left, was_home, newest;
    short c, was_chain;
end:
    do
    :: atomic {
        if
        :: COMES(0)
        :: COMES(1)
        :: COMES(2)
        :: COMES(3)
#if N == 4
        :: COMES(4)
#endif
        :: alive[n] && nempty(orders[n]) -> orders[n]?ty,v,a,b,c
        fi;
        handle();
        ty = 0; v = 0; a = 0; b = 0; t = 0; m = 0; h = 0; c = 0; src = 0
       }
    :: atomic {
        if
        :: ACKED(1)
        :: ACKED(2)
        :: ACKED(3)
#if N == 4
        :: ACKED(4)
#endif
        fi;
        if
        :: ring[n]??[eval(t), k, m, o, x] -> ring[n]??eval(t),k,m,o,x; finished(k, o, x)
        :: else
        fi;
        t = 0; k = 0; m = 0; o = 0; x = 0
       }
    :: atomic {
        alive[n] && nempty(parked[n]) &&
        (MINE(n) && opening[n] == OPEN || !MINE(n) && !(dead[n] & BIT(home[n])) && KNOWS(n)) ->
        parked[n]?a,v;
        operate(a, v);
        a = 0; v = 0
       }
    :: atomic { alive[n] && ordered[n] && (!MINE(n) || opening[n] == OPEN) -> obey() }
    :: atomic { /* what it granted to former homes has run out */
        alive[n] && opening[n] == AT ->
#ifndef NOWAIT
        for (a : 1 .. N) { if :: former[n] & BIT(a) -> leases[a] = leases[a] & ~BIT(n) :: else fi }
        a = 0;
        over[n] = 1;
#endif
        former[n] = 0;
#ifdef NOBARRIER
        opening[n] = OPEN
#else
        opening[n] = ASKED;
        down(BARRIER, OPENING, number[n], 0)
#endif
       }
#ifdef OWN
    :: atomic {
        n == 1 && alive[n] && !own_issued && MINE(n) && opening[n] == OPEN ->
        own_issued = 1;
        execute(OWN_PUSH)
       }
#endif
#ifdef READS
    :: atomic { /* in place */
        alive[n] && MINE(n) && opening[n] == OPEN && !unacked[n] && LEASED(n) && (known != SET(row[n]) || (acked | known) & ~SET(row[n])) -> /* something is to be learnt */
        assert(((acked | known) & ~SET(row[n])) == 0);
        known = SET(row[n])
       }
#endif
#ifdef RENEW
    :: atomic {
        n == RENEW && alive[n] && !renewed ->
        renewed = 1;
        a = over[n] || former[n] & BIT(1);
        post(1, GRANT, 0, a, 0, 0, 0, 0, 0);
        a = 0
       }
#endif
    od
}

/* ---- the origin ---- */

#ifdef NOORDER
#define HOLDS_UP 0
#else
#define HOLDS_UP 255
#endif

proctype origin() {
    byte n, v, i, at = 1, known_version = 1;
end:
    do
    :: atomic {
        issued < OPS && !(HOLDS_UP & out & ~pushes) ->
        issued++;
        if
        :: true -> pushes = pushes | BIT(issued)
        :: pulls < PULLS -> pulls++; must[issued] = acked | known | (pushes & (BIT(issued) - 1))
        fi;
        out = out | BIT(issued);
        post(at, OP, known_version, issued, 0, 0, 0, 0, 0)
       }
    :: atomic { /* resends all that is unanswered, in order */
        orders[0]?_,v,i,_,_ ->
        if
        :: v > known_version ->
            known_version = v;
            if
            :: i != at ->
                at = i;
#ifdef BACKWARDS
                i = OPS;
                do :: i > 0 -> if :: out & BIT(i) -> post(at, OP, known_version, i, 0, 0, 0, 0, 0) :: else fi; i-- :: else -> break od
#else
                for (i : 1 .. OPS) { if :: out & BIT(i) -> post(at, OP, known_version, i, 0, 0, 0, 0, 0) :: else fi }
#endif
            :: else
            fi
        :: else
        fi;
        v = 0; i = 0
       }
    od
}

/* ---- the controller ---- */

inline tell(cause) {
    now_version++;
    settled = 0;
    for (i : 0 .. N) {
        if
        :: alive[i] && !(declared & BIT(i)) ->
            assert(nfull(orders[i])); orders[i]!GROUP,now_version,now_home,cause,now_chain
        :: else
        fi
    }
    i = 0
}

inline without(c_, gone) {
    c = c_; c_ = 0;
    do
    :: c != 0 -> i = c & 7; c = c >> 3; if :: !(gone & BIT(i)) -> grow(c_, i) :: else fi
    :: else -> break
    od;
    i = 0
}

inline bury(d) {
    declared = declared | BIT(d);
    if
    :: now_home == d || IN_CHAIN(now_chain, d) || joining == d ->
        joining = 0;
        without(now_chain, BIT(d));
        if
        :: now_home == d ->
            without(now_chain, declared);
            assert(now_chain != 0); /* else it is lost, with more than it has copies */
            now_home = now_chain & 7; now_chain = now_chain >> 3
        :: else
        fi;
        tell(d)
    :: else
    fi
}

#ifdef OLDREPORT
#define OLD_REPORT 1
#else
#define OLD_REPORT 0
#endif

proctype controller() {
    byte i, d, joins, v;
    short c;
end:
    do
    :: atomic { /* a death */
        (failed & ~declared) -> d = 1;
        do :: !(failed & ~declared & BIT(d)) -> d++ :: else -> break od;
        if :: d < N && (failed & ~declared & ~BIT(d)) -> /* of two, either first */
            if :: true :: true -> d++; do :: !(failed & ~declared & BIT(d)) -> d++ :: else -> break od fi
        :: else
        fi;
        bury(d);
        d = 0
       }
#ifdef JOIN
    :: atomic {
        joins < 2 && !joining && now_home != N && !IN_CHAIN(now_chain, N) && !(declared & BIT(N)) ->
        joins++;
        joining = N;
        if :: alive[now_home] -> orders[now_home]!ORDER,now_version,N,0,0 :: else fi
       }
#endif
    :: atomic {
        reports?v,i,d ->
        if
        :: d != 0 && now_home == i && joining == d && !(declared & BIT(d)) && (now_version <= v || OLD_REPORT) ->
            joining = 0;
            grow(now_chain, d);
            tell(0)
        :: d == 0 && now_home == i && now_version <= v -> settled = 2
        :: else
        fi;
        v = 0; i = 0; d = 0
       }
#ifdef FIRST
    :: atomic { leaving == 0 -> leaving = BIT(FIRST) }
#ifdef SECOND
    :: atomic { leaving == BIT(FIRST) -> leaving = leaving | BIT(SECOND) }
#endif
    :: atomic { !joining && leaving & MEMBERS(now_chain) -> without(now_chain, leaving); tell(0) }
    :: atomic {
        !joining && !(leaving & MEMBERS(now_chain)) && leaving & BIT(now_home) && now_chain != 0 && settled != 1 ->
        if
#ifndef NOTSETTLED
        :: settled == 0 ->
            settled = 1;
            if :: alive[now_home] -> orders[now_home]!ORDER,now_version,0,0,0 :: else fi
        :: settled == 2 ->
#else
        :: true ->
#endif
            now_home = now_chain & 7; now_chain = now_chain >> 3;
            tell(0)
        fi
       }
#endif
    od
}

/* ---- faults ---- */

/* Node v is no more; what it sent to each other arrives, or nothing of it. */
inline stop(v) {
    alive[v] = 0;
    version[v] = 0; home[v] = 0; row[v] = 0; number[v] = 0; ids[v] = 0; fence[v] = 0; opening[v] = OPEN; token[v] = 0;
    unacked[v] = 0; former[v] = 0; dead[v] = 0; chain[v] = 0; held[v] = 0; leases[v] = 0; again[v] = 0;
    order_version[v] = 0; order_node[v] = 0; ordered[v] = 0;
    do :: nempty(ring[v]) -> ring[v]?_,_,_,_,_ :: empty(ring[v]) -> break od;
    do :: nempty(parked[v]) -> parked[v]?_,_ :: empty(parked[v]) -> break od;
    do :: nempty(orders[v]) -> orders[v]?_,_,_,_,_ :: empty(orders[v]) -> break od;
    for (i : 0 .. N) {
        do :: nempty(store[IX(i, v)]) -> store[IX(i, v)]?_,_,_,_,_,_,_,_ :: empty(store[IX(i, v)]) -> break od;
        do :: nempty(acks[IX(i, v)]) -> acks[IX(i, v)]?_ :: empty(acks[IX(i, v)]) -> break od
    }
    for (i : 1 .. N) {
        if
        :: nempty(store[IX(v, i)]) || nempty(acks[IX(v, i)]) ->
            do :: nempty(store[IX(v, i)]) -> store[IX(v, i)]?_,_,_,_,_,_,_,_ :: empty(store[IX(v, i)]) -> break od;
            do :: nempty(acks[IX(v, i)]) -> acks[IX(v, i)]?_ :: empty(acks[IX(v, i)]) -> break od
        :: true
        fi
    }
    i = 0
}

#define LIVING (MEMBERS(now_chain << 3 | now_home) & ~failed)
/* Does the slot outlive it? */
#define MAY_FAIL(v) (deaths < DEATHS && alive[v] && !(failed & BIT(v)) && (LIVING & ~BIT(v)))

#if DEATHS > 0
proctype faults() {
    byte v, i;
end:
    do
    :: atomic {
        if
        :: MAY_FAIL(1) -> v = 1
        :: MAY_FAIL(2) -> v = 2
        :: MAY_FAIL(3) -> v = 3
        fi;
        deaths++;
        failed = failed | BIT(v);
        if
#ifdef CRASH
        :: true -> stop(v)
#endif
#ifdef SUSPECT
        :: true
#endif
        fi;
        v = 0
       }
#ifdef SUSPECT
    :: atomic { alive[1] && declared & BIT(1) -> stop(1) } /* it learns */
    :: atomic { alive[2] && declared & BIT(2) -> stop(2) }
    :: atomic { alive[3] && declared & BIT(3) -> stop(3) }
#endif
    od
}
#endif

init {
    byte n;
    atomic {
        now_version = 1; now_home = 1; now_chain = CHAIN;
        alive[0] = 1;
        for (n : 1 .. N) {
            alive[n] = 1; version[n] = 1; home[n] = 1; chain[n] = CHAIN;
            held[n] = n == 1 || IN_CHAIN(CHAIN, n);
            leases[n] = BIT(N + 1) - 2;
            run node(n)
        }
        run origin();
        run controller();
#if DEATHS > 0
        run faults()
#endif
    }
    atomic {
        timeout ->
        assert(out == 0);
        for (n : 1 .. N) {
            if
            :: alive[n] ->
                assert(version[n] == now_version && home[n] == now_home && chain[n] == now_chain);
                assert(opening[n] == OPEN && empty(ring[n]) && empty(parked[n]) && !unacked[n]);
                assert(held[n] == (n == now_home || IN_CHAIN(now_chain, n)));
                if
                :: held[n] ->
                    assert(row[n] == row[now_home] && number[n] == number[now_home] && ids[n] == ids[now_home]);
                    assert(!(acked & ~SET(row[n])))
                :: else
                fi
            :: else
            fi
        }
    }
}
