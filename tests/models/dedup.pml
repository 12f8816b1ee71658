/*
 * Exactly once: ids beside the row, pruned by low-water marks.
 * Page: docs/internals/replication.md.
 *
 * One worker with OPS pushes, at most WINDOW unanswered, each sent up to SENDS times (a resend
 * after a reconnect or a view). Copies of a push are anywhere and arrive at any node in any order,
 * an unanswered worker's or not ("stale copies anywhere"); a node that has not the row lets them
 * travel on. The row moves MOVES times between NODES nodes with its `recent` ids; heartbeats bring
 * the worker's low-water mark (its oldest unanswered push) to each node at any time; each node
 * sweeps `recent` by the mark it heard. Answers may be late too.
 *
 * Checked: no push is applied twice; what is dropped by the mark was applied; at the end all are
 * applied and answered; `recent` never holds more than what is outstanding as far as the node
 * heard.
 *
 * Weakenings, each must be refuted:
 *   NOLOW     apply iff not in `recent`, without seq >= low
 *   NOSHIP    the row travels without the mark its ids were pruned with
 *   LOWSENT   the worker's mark is its oldest unsent push, not its oldest unanswered
 * Holds all the same: NOMAX (the receiver takes the mark that came, even if it heard a higher one):
 * what it then knows is exactly what the ids were pruned with.
 *
 * States: base 344,722; OPS=3 WINDOW=2 NODES=3 331,811; NOMAX 344,722.
 */
#ifndef OPS
#define OPS 4
#endif
#ifndef WINDOW
#define WINDOW 3
#endif
#ifndef SENDS
#define SENDS 2
#endif
#ifndef MOVES
#define MOVES 3
#endif
#ifndef NODES
#define NODES 2
#endif

byte copies[OPS];   /* of each push, anywhere */
byte sends[OPS];
byte applied;       /* ghost and row at once: the row is one, wherever it is */
byte executed;      /* answers in flight */
byte answered;
byte issued;
byte recent;        /* travels with the row */
byte low[NODES];    /* last heard by each node */
byte at;            /* who has the row; NODES = in flight */
byte to, shipped, moves;

#define BIT(s) (1 << (s))

inline oldest() { /* the worker's oldest unanswered push */
    l = 0;
    do
#ifdef LOWSENT
    :: l < issued -> l++
#else
    :: l < issued && (answered & BIT(l)) -> l++
#endif
    :: else -> break
    od
}

inline sweep(n) {
    for (l : 0 .. OPS - 1) {
        if :: l < low[n] -> recent = recent & ~BIT(l) :: else fi
    }
    l = 0
}

active proctype world() {
    byte s, n, l;
end:
    do
    :: atomic { /* a new push */
        issued < OPS -> oldest();
#ifdef LOWSENT
        l = 0;
#endif
        if
        :: issued < l + WINDOW -> copies[issued] = 1; sends[issued] = 1; issued++
        :: else
        fi;
        l = 0
       }
    :: atomic { /* a resend */
        select(s : 0 .. OPS - 1);
        if
        :: s < issued && !(answered & BIT(s)) && sends[s] < SENDS -> copies[s]++; sends[s]++
        :: else
        fi;
        s = 0
       }
    :: atomic { /* a copy arrives where the row is */
        at < NODES -> select(s : 0 .. OPS - 1);
        if
        :: copies[s] > 0 ->
            copies[s]--;
            if
#ifndef NOLOW
            :: s < low[at] -> assert(applied & BIT(s)) /* dropped: nobody waits for it */
#endif
            :: (recent & BIT(s)) -> executed = executed | BIT(s)
#ifndef NOLOW
            :: s >= low[at] && !(recent & BIT(s)) ->
#else
            :: !(recent & BIT(s)) ->
#endif
                assert(!(applied & BIT(s))); /* applied twice */
                applied = applied | BIT(s);
                recent = recent | BIT(s);
                executed = executed | BIT(s)
            fi
        :: else
        fi;
        s = 0
       }
    :: atomic { /* an answer reaches the worker */
        select(s : 0 .. OPS - 1);
        if :: executed & BIT(s) -> executed = executed & ~BIT(s); answered = answered | BIT(s) :: else fi;
        s = 0
       }
    :: atomic { /* a heartbeat reaches a node, which sweeps */
        select(n : 0 .. NODES - 1);
        oldest();
        if :: l > low[n] -> low[n] = l; l = 0; if :: n == at -> sweep(n) :: else fi :: else fi;
        l = 0; n = 0
       }
    :: atomic { /* the row leaves */
        at < NODES && moves < MOVES -> select(n : 0 .. NODES - 1);
        if
        :: n != at -> moves++; to = n; shipped = low[at]; at = NODES
        :: else
        fi;
        n = 0
       }
    :: atomic { /* and arrives */
        at == NODES ->
        at = to; to = 0;
#ifndef NOSHIP
#ifdef NOMAX
        low[at] = shipped;
#else
        if :: shipped > low[at] -> low[at] = shipped :: else fi;
#endif
#endif
        shipped = 0;
        sweep(at)
       }
    :: atomic { answered == BIT(OPS) - 1 && copies[0] + copies[1] + copies[2] == 0 -> assert(applied == BIT(OPS) - 1); break }
    od
}
