/*
 * The crash-tolerant scheme (durability = strict, one copy): REPL/ACKR, wait lists, leases, freeze,
 * VIEW, fail-over.
 * Page: docs/internals/replication.md.
 *
 * Three nodes; node 0 is the home (reliable here; home.pml kills it), owner at first, and holds the
 * copy of what another node owns. OPMASK says which nodes' workers have an operation (push or pull,
 * chosen freely), LOCMASK which localize once. One of nodes 1 and 2 fails:
 *   CRASH     at any moment; what it has sent to each node arrives whole or not at all; declared dead later
 *   SUSPECT   declared dead while alive; it learns that later and stops
 * Leases: everybody holds one at first; a holder's runs out at any moment, and at the granter only
 * after that (the holder counts from when it asked). RENEW: the home renews it once to whom it has
 * not declared dead.
 *
 * A row is the set of pushes in it. Ghosts: `known` = pushes acknowledged or seen by an answered
 * pull; must[n] = `known` when n's operation was called. Checked:
 *   a pull holds must[n]      (no acknowledged push lost, nothing read vanishes, reads linearizable)
 *   a push is acknowledged    only when owner and copy have it, and applied once
 *   at rest (everybody living): answered; one owner, the chain names it, its row = the copy and holds `known`
 *
 * Weakenings, each must be refuted:
 *   PULLVALID   a pull that waited answers with the row at validation    NODRAIN   given before the wait list drained
 *   NOLEASE     pulls neither validated nor leased                       NOFENCE   REPL accepted from anybody
 *   NOWAIT      fail-over waits for no lease                             NOIDS     no ids
 *   SUSPECTONLY ... only for the suspect's                               EARLYACK  answered before copied
 *   NORESEND    no resend after VIEW                                     DUPNOW    a duplicate is answered at once,
 *   LOCDIR      LOC judged by the last owner alone                                 though its first is not copied yet
 *
 * States: base 209,823; CRASH OPMASK=3 719,044; CRASH OPMASK=6 LOCMASK=6 130,045; CRASH LOCMASK=2
 * 133,531; CRASH RENEW OPMASK=3 LOCMASK=6 1,044,091; CRASH LOCMASK=6 1,951,483; SUSPECT OPMASK=6
 * LOCMASK=6 442,867; SUSPECT OPMASK=3 LOCMASK=6 531,613.
 */
#ifndef OPMASK
#define OPMASK 7
#endif
#ifndef LOCMASK
#define LOCMASK 7
#endif
#ifndef CAP
#define CAP 8
#endif
#define N 3
#define HOME 0
#define CHAIN 6

#define OP 1      /* who = origin, x = is a push */
#define REPLY 2   /* x = row, 0 to a push */
#define LOC 3     /* who, t = seen */
#define HAND 4    /* who = new owner, t */
#define XFER 5    /* t, x = row */
#define REPL 6    /* t, x = push's bit or 0 */
#define ACKR 7    /* t */
#define ARRIVED 8 /* t */
#define VIEW 9    /* t = new term, 0: the key is not concerned */
#define CONFIRM 10
#define GRANT 11

#define ABSENT 0
#define ARRIVING 1
#define OWNED 2
#define LEAVING 3

#define IX(from, to) ((from) * N + (to))
chan link[N * N] = [CAP] of { byte, byte, byte, byte };
chan waiting[N] = [6] of { byte, byte };    /* operations on an ARRIVING key: origin, push */
chan wait_list[N] = [6] of { byte, byte, byte }; /* not copied yet: origin, push, result */

byte st[N], row[N], seen[N], succ[N], succ_term[N];
byte chain_term[CHAIN], chain_node[CHAIN], length; /* at the home */
bit frozen;
byte need;          /* at the home: members of the old chain that have not confirmed */
bit alive[N], viewed[N];
byte dead;          /* declared; 0 nobody */
byte failed;        /* crashed or suspected */
bit held[N], granted[N]; /* leases as the holder, the granter counts them */
#ifdef RENEW
bit renewed, flying; /* one renewal, to `tenant` */
byte tenant;
#endif
byte issued, located, out; /* masks of nodes */
byte pushing;
byte known, must[N];

#define BIT(n) (1 << (n))
#define LAST (length - 1)

inline post(src, dst, kind, pw, px, pt) {
    if
    :: !alive[dst] || (dead == dst && (src == HOME || viewed[src])) -> skip /* no session with it */
    :: else -> assert(nfull(link[IX(src, dst)])); link[IX(src, dst)]!kind,pw,px,pt
    fi
}

/* An answer reaches its worker, on node fn. */
inline finish(fn, val_) {
    if
    :: out & BIT(fn) ->
        out = out & ~BIT(fn);
        if
        :: pushing & BIT(fn) ->
            assert(row[HOME] & BIT(fn)); /* acknowledged is copied */
            known = known | BIT(fn)
        :: else -> assert((val_ & must[fn]) == must[fn]); known = known | val_
        fi;
        must[fn] = 0
    :: else
    fi
}

inline answer(origin, value_) {
    if
    :: origin == n -> finish(n, value_)
    :: else -> post(n, origin, REPLY, 0, value_, 0)
    fi
}

inline execute(eo, ep) { /* at an OWNED key; says: answer now; copy: 1 an empty REPL, 2 the push */
    if
    :: n == HOME && ep ->
#ifdef NOIDS
        assert(!(row[n] & BIT(eo)));
#endif
        row[n] = row[n] | BIT(eo);
        says = 1
    :: n == HOME && !ep -> says = 1; value = row[n]
    :: n != HOME && ep && !(row[n] & BIT(eo)) ->
        row[n] = row[n] | BIT(eo);
#ifdef EARLYACK
        says = 1;
#endif
        copy = 2
    :: n != HOME && ep && (row[n] & BIT(eo)) -> /* a duplicate: answered behind its first */
#ifdef NOIDS
        assert(false);
#endif
#ifdef DUPNOW
        says = 1
#else
        if :: empty(wait_list[n]) -> says = 1 :: nempty(wait_list[n]) -> copy = 1 fi
#endif
    :: n != HOME && !ep ->
        value = row[n];
#ifdef NOLEASE
        if :: empty(wait_list[n]) -> says = 1 :: nempty(wait_list[n]) -> copy = 1 fi
#else
        if
        :: empty(wait_list[n]) && held[n] -> says = 1
        :: nempty(wait_list[n]) || !held[n] -> copy = 1
        fi
#endif
    fi;
    if
    :: copy ->
        copy = (copy == 2 -> BIT(eo) : 0);
        post(n, HOME, REPL, 0, copy, seen[n]);
        copy = 0;
        if :: !says -> wait_list[n]!eo,ep,value :: says fi
    :: else
    fi;
    if :: says -> says = 0; answer(eo, value) :: else fi;
    value = 0
}

inline operate(oo, op) { /* an operation at node n, from its worker or from the wire */
    if
    :: st[n] == OWNED -> execute(oo, op)
    :: st[n] == ARRIVING -> waiting[n]!oo,op
    :: (st[n] == ABSENT || st[n] == LEAVING) && n != HOME -> post(n, HOME, OP, oo, op, 0)
    :: st[n] == ABSENT && n == HOME -> post(HOME, chain_node[LAST], OP, oo, op, 0)
    fi
}

inline give_successor() { /* the key leaves n */
#ifndef NODRAIN
    assert(empty(wait_list[n]));
#endif
    st[n] = ABSENT;
    a = succ[n] - 1; b = succ_term[n];
    succ[n] = 0; succ_term[n] = 0;
    post(n, a, XFER, 0, row[n], b);
    if :: n != HOME -> row[n] = 0 :: else fi; /* the home's stays as the copy */
    a = 0; b = 0
}

inline leave() { /* give to the successor, now or when drained */
    if
    :: succ[n] == 0 || (st[n] != OWNED && st[n] != LEAVING)
    :: else ->
        if
#ifdef NODRAIN
        :: true -> give_successor()
#else
        :: empty(wait_list[n]) -> give_successor()
        :: nempty(wait_list[n]) -> st[n] = LEAVING
#endif
        fi
    fi
}

inline run_waiting() {
    do
    :: nempty(waiting[n]) -> waiting[n]?a,b; execute(a, b)
    :: empty(waiting[n]) -> break
    od;
    a = 0; b = 0
}

inline append(an) { /* home: a new last owner */
    b = chain_term[LAST] + 1;
    length++;
    assert(length <= CHAIN);
    chain_term[LAST] = b; chain_node[LAST] = an;
    a = chain_node[LAST - 1];
    if
    :: a == HOME -> assert(succ[HOME] == 0); succ[HOME] = an + 1; succ_term[HOME] = b; a = 0; b = 0; leave()
    :: else -> post(HOME, a, HAND, an, 0, b); a = 0; b = 0
    fi
}

inline trim(tt) { /* home: a later owner has it */
    do
    :: length > 1 && chain_term[0] < tt ->
        for (a : 0 .. CHAIN - 2) { chain_term[a] = chain_term[a + 1]; chain_node[a] = chain_node[a + 1] }
        chain_term[CHAIN - 1] = 0; chain_node[CHAIN - 1] = 0;
        length--
    :: else -> break
    od;
    a = 0
}

inline resend() {
#ifndef NORESEND
    if
    :: out & BIT(n) -> a = (pushing & BIT(n) -> 1 : 0); b = n; operate(b, a)
    :: else
    fi;
    a = 0; b = 0
#else
    skip
#endif
}

inline confirmed() { /* home: may the copy be served? */
#ifdef NOWAIT
    ok = 1;
#else
    ok = !granted[dead];
#ifndef SUSPECTONLY
    if :: (need & 2) && granted[1] -> ok = 0 :: else fi;
    if :: (need & 4) && granted[2] -> ok = 0 :: else fi
#endif
#endif
}

inline drain_key() {
    do :: nempty(waiting[n]) -> waiting[n]?a,b :: empty(waiting[n]) -> break od;
    do :: nempty(wait_list[n]) -> wait_list[n]?a,b,_ :: empty(wait_list[n]) -> break od;
    a = 0; b = 0;
    succ[n] = 0; succ_term[n] = 0
}

inline view(vt) { /* at a living node that is not the home */
    viewed[n] = 1;
    if
    :: vt > 0 ->
        drain_key();
        row[n] = 0;
        seen[n] = vt;
        post(n, HOME, CONFIRM, n, 0, 0);
        if
        :: st[n] == ARRIVING -> post(n, HOME, LOC, n, 0, seen[n])
        :: else -> st[n] = ABSENT
        fi
    :: else
    fi;
    resend()
}

inline declare_dead(dx) { /* at the home */
    dead = dx;
    ok = 0;
    for (i : 0 .. CHAIN - 1) {
        if
        :: i < length && chain_node[i] == dx -> ok = 1
        :: i < length && chain_node[i] != dx && chain_node[i] != HOME -> need = need | BIT(chain_node[i])
        :: else
        fi
    }
    i = 3 - dx; /* the other */
    if
    :: ok ->
        t = chain_term[LAST] + 1;
        for (a : 0 .. CHAIN - 1) { chain_term[a] = 0; chain_node[a] = 0 }
        a = 0;
        length = 1; chain_term[0] = t; chain_node[0] = HOME;
        seen[HOME] = t;
        succ[HOME] = 0; succ_term[HOME] = 0;
        st[HOME] = ARRIVING; frozen = 1;
        a = ((need & BIT(i)) -> t : 0);
        post(HOME, i, VIEW, 0, 0, a)
    :: else ->
        need = 0;
        post(HOME, i, VIEW, 0, 0, 0)
    fi;
    i = 0; a = 0; t = 0; ok = 0;
    resend()
}

inline handle() {
    if
    :: (n == HOME && dead != 0 && src_ == dead) || (n != HOME && viewed[n] && src_ == dead) ->
#ifdef NOFENCE
        if
        :: n == HOME && ty == REPL ->
            row[HOME] = row[HOME] | x;
            if
            :: nfull(link[IX(HOME, src_)]) && alive[src_] -> link[IX(HOME, src_)]!ACKR,0,0,t
            :: full(link[IX(HOME, src_)]) || !alive[src_]
            fi
        :: else
        fi
#else
        skip /* its session is closed */
#endif
    :: else ->
        if
        :: ty == OP -> operate(w, x)
        :: ty == REPLY -> finish(n, x)
        :: ty == LOC ->
            if
            :: chain_node[LAST] == w -> skip
            :: chain_node[LAST] != w -> append(w)
            fi
        :: ty == HAND ->
            if
            :: st[n] == OWNED && t == seen[n] + 1 -> succ[n] = w + 1; succ_term[n] = t; leave()
            :: st[n] == ARRIVING && t > seen[n] + 1 -> succ[n] = w + 1; succ_term[n] = t
            :: else -> assert(t <= seen[n] + 1)
            fi
        :: ty == XFER ->
            if
            :: st[n] == ARRIVING && t > seen[n] ->
                if :: n == HOME -> assert(row[n] == x) :: else fi; /* the copy is the owner's */
                st[n] = OWNED; row[n] = x; seen[n] = t;
                if :: n == HOME -> trim(t) :: else -> post(n, HOME, ARRIVED, n, 0, t) fi;
                run_waiting();
                leave()
            :: else -> assert(t <= seen[n]) /* a row for somebody who did not ask is an old one */
            fi
        :: ty == REPL ->
            ok = 0;
#ifdef NOFENCE
            ok = 1;
#endif
            for (i : 0 .. CHAIN - 1) {
                if :: i < length && chain_term[i] == t && chain_node[i] == src_ -> ok = 1 :: else fi
            }
            i = 0;
            if
            :: ok ->
                row[HOME] = row[HOME] | x;
                post(HOME, src_, ACKR, 0, 0, t)
            :: else
            fi;
            ok = 0
        :: ty == ACKR ->
            if
            :: nempty(wait_list[n]) && (t == seen[n]) ->
                wait_list[n]?a,b,x;
#ifdef PULLVALID
                if :: !b -> x = row[n] :: else fi;
#endif
                answer(a, x);
                a = 0; b = 0;
                if
                :: st[n] == LEAVING && empty(wait_list[n]) -> give_successor()
                :: st[n] != LEAVING || nempty(wait_list[n])
                fi
            :: empty(wait_list[n]) || t != seen[n]
            fi
        :: ty == ARRIVED -> trim(t)
        :: ty == VIEW -> view(t)
        :: ty == CONFIRM -> need = need & ~BIT(w)
#ifdef RENEW
        :: ty == GRANT && flying -> flying = 0; held[n] = 1
        :: ty == GRANT && !flying -> skip /* ran out in flight */
#endif
        fi
    fi
}

proctype node(byte n) {
    byte ty, w, x, t, a, b, i, src_, copy, value;
    bit ok, says;
end:
    do
    :: atomic { /* the worker's operation */
        alive[n] && (OPMASK & BIT(n)) && !(issued & BIT(n)) ->
        issued = issued | BIT(n); out = out | BIT(n); must[n] = known;
        if :: x = 1; pushing = pushing | BIT(n) :: x = 0 fi;
        operate(n, x);
        x = 0
       }
    :: atomic { /* its localize */
        alive[n] && (LOCMASK & BIT(n)) && !(located & BIT(n)) && st[n] != LEAVING ->
        located = located | BIT(n);
        if
        :: st[n] == ABSENT -> st[n] = ARRIVING; if :: n == HOME -> append(HOME) :: else -> post(n, HOME, LOC, n, 0, seen[n]) fi
        :: else
        fi
       }
    :: atomic {
        if
        :: alive[n] && nempty(link[IX(0, n)]) -> link[IX(0, n)]?ty,w,x,t; src_ = 0
        :: alive[n] && nempty(link[IX(1, n)]) -> link[IX(1, n)]?ty,w,x,t; src_ = 1
        :: alive[n] && nempty(link[IX(2, n)]) -> link[IX(2, n)]?ty,w,x,t; src_ = 2
        fi;
        handle();
        ty = 0; w = 0; x = 0; t = 0; src_ = 0
       }
#if defined(CRASH) || defined(SUSPECT)
    :: atomic { n == HOME && dead == 0 && failed != 0 -> declare_dead(failed) }
    :: atomic { /* serve the copy */
        n == HOME && frozen -> confirmed();
        if
        :: ok -> ok = 0; frozen = 0; need = 0; st[HOME] = OWNED; run_waiting(); leave()
        :: else
        fi
       }
#endif
    od
}

#if defined(CRASH) || defined(SUSPECT)
active proctype faults() {
    byte v, i;
    atomic {
        alive[0] ->
#ifdef VICTIM
        v = VICTIM;
#else
        if :: v = 1 :: v = 2 fi;
#endif
        failed = v;
#ifdef CRASH
        alive[v] = 0; held[v] = 0;
        st[v] = 0; row[v] = 0; seen[v] = 0; succ[v] = 0; succ_term[v] = 0; must[v] = 0; out = out & ~BIT(v);
        do :: nempty(waiting[v]) -> waiting[v]?i,_ :: empty(waiting[v]) -> break od;
        do :: nempty(wait_list[v]) -> wait_list[v]?i,_,_ :: empty(wait_list[v]) -> break od;
        /* to each other node, all it sent arrives or nothing */
        if
        :: true -> do :: nempty(link[IX(v, 0)]) -> link[IX(v, 0)]?i,_,_,_ :: empty(link[IX(v, 0)]) -> break od
        :: true
        fi;
        if
        :: true -> do :: nempty(link[IX(v, 3 - v)]) -> link[IX(v, 3 - v)]?i,_,_,_ :: empty(link[IX(v, 3 - v)]) -> break od
        :: true
        fi;
        do :: nempty(link[IX(0, v)]) -> link[IX(0, v)]?i,_,_,_ :: empty(link[IX(0, v)]) -> break od;
        do :: nempty(link[IX(3 - v, v)]) -> link[IX(3 - v, v)]?i,_,_,_ :: empty(link[IX(3 - v, v)]) -> break od;
        i = 0
#endif
    }
#ifdef SUSPECT
    atomic { dead != 0 -> /* it learns, and stops */
        alive[v] = 0; held[v] = 0; out = out & ~BIT(v);
        st[v] = 0; row[v] = 0; seen[v] = 0; succ[v] = 0; succ_term[v] = 0; must[v] = 0;
        do :: nempty(waiting[v]) -> waiting[v]?i,_ :: empty(waiting[v]) -> break od;
        do :: nempty(wait_list[v]) -> wait_list[v]?i,_,_ :: empty(wait_list[v]) -> break od;
        do :: nempty(link[IX(0, v)]) -> link[IX(0, v)]?i,_,_,_ :: empty(link[IX(0, v)]) -> break od;
        do :: nempty(link[IX(3 - v, v)]) -> link[IX(3 - v, v)]?i,_,_,_ :: empty(link[IX(3 - v, v)]) -> break od;
        i = 0
    }
#endif
}

#ifdef RENEW
#define FLYING(v) (flying && tenant == (v))
#else
#define FLYING(v) 0
#endif
active proctype leases() {
end:
    do
    :: atomic { held[1] -> held[1] = 0 }
    :: atomic { held[2] -> held[2] = 0 }
    :: atomic { frozen && granted[1] && !held[1] && !FLYING(1) -> granted[1] = 0 }
    :: atomic { frozen && granted[2] && !held[2] && !FLYING(2) -> granted[2] = 0 }
#ifdef RENEW
    :: atomic { flying -> flying = 0 }
    :: atomic {
        !renewed -> renewed = 1;
        if :: tenant = 1 :: tenant = 2 fi;
        if
        :: granted[tenant] && dead != tenant && alive[tenant] ->
            if
            :: nfull(link[IX(HOME, tenant)]) -> flying = 1; link[IX(HOME, tenant)]!GRANT,0,0,0
            :: full(link[IX(HOME, tenant)])
            fi
        :: else
        fi
       }
#endif
    od
}
#endif

init {
    byte n, owners;
    atomic {
        st[HOME] = OWNED; length = 1;
        for (n : 0 .. N - 1) { alive[n] = 1; held[n] = 1; granted[n] = 1; run node(n) }
    }
    atomic {
        timeout ->
        assert(out == 0 && !frozen);
        for (n : 0 .. N - 1) {
            if
            :: alive[n] ->
                assert(st[n] != ARRIVING && st[n] != LEAVING && empty(waiting[n]) && empty(wait_list[n]) && !succ[n]);
                if
                :: st[n] == OWNED -> owners++; assert(row[n] == row[HOME] && chain_node[LAST] == n)
                :: else
                fi
            :: else
            fi
        }
        assert(owners == 1 && (row[HOME] & known) == known)
    }
}
