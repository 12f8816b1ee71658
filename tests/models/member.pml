/*
 * Membership: suspicion by two observers, death final for an incarnation, views and commands fenced
 * by term.
 * Page: docs/internals/membership.md.
 *
 * Three nodes, two controllers with one journal. The link between nodes 1 and 2 is broken from the
 * start, so each of them suspects the other for ever; node 0 hears all. VICTIM (2) may be killed
 * and started again; who does not hear an incarnation reports it, once, and reports travel. A death
 * is declared when two observers agree, and is journalled. The second controller takes over at any
 * moment with a higher term; the first one does not know, and what it sends or has sent still
 * arrives, in any order relative to the other's. Commands (here: to whom the victim's slot belongs)
 * carry (term, index); a node keeps the highest.
 *
 * Checked: no living incarnation is declared dead (one broken link is not a death); a node never
 * goes back to an older command; at rest all living nodes hold the leader's last command and nobody
 * holds a dead owner's.
 *
 * Weakenings, each must be refuted:
 *   NOTERM    commands ordered by index alone       ONEOBS   one observer's word suffices
 *   REUSE     an incarnation is used again
 *
 * States: base 34,329.
 */
#define VICTIM 2
#define NODES 3

chan reports = [4] of { byte, byte };               /* observer, incarnation of the victim */
chan command[2 * NODES] = [4] of { byte, byte, byte }; /* from each controller to each node: term, index, owner */

bit up = 1;             /* the victim */
byte life = 1, ended;   /* its incarnation; the last one that ended */
byte restarts;
bit reported[NODES];    /* of the present incarnation, by each observer */
byte accused;           /* at the journal's side: observers, for incarnation `whom` */
byte whom = 1;
bit dead_declared[4];   /* by incarnation, journalled */

byte leader;            /* 0 or 1 */
byte index[2];          /* last command of each controller */
byte decided[2] = VICTIM; /* its last owner */
byte held_term[NODES], held_index[NODES], held[NODES] = VICTIM;

inline send_all(c) {
    index[c]++;
    for (n : 0 .. NODES - 1) {
        if
        :: n == VICTIM && !up
        :: else -> assert(nfull(command[c * NODES + n])); command[c * NODES + n]!c + 1,index[c],decided[c]
        fi
    }
    n = 0
}

active proctype world() {
    byte n;
end:
    do
    :: atomic { up && restarts < 1 -> up = 0; ended = life }  /* killed */
    :: atomic { !up && restarts < 1 -> /* and started again */
        restarts++; up = 1;
#ifndef REUSE
        life++;
#endif
        reported[0] = 0; reported[1] = 0;
        do :: nempty(command[VICTIM]) -> command[VICTIM]?_,_,_ :: empty(command[VICTIM]) -> break od;
        do
        :: nempty(command[NODES + VICTIM]) -> command[NODES + VICTIM]?_,_,_
        :: empty(command[NODES + VICTIM]) -> break
        od;
        held_term[VICTIM] = leader + 1; held_index[VICTIM] = index[leader]; held[VICTIM] = decided[leader] /* joins */
       }
    :: atomic { !up && !reported[0] -> reported[0] = 1; reports!0,life }
    :: atomic { !reported[1] -> reported[1] = 1; reports!1,life } /* hears it never */
    :: atomic { leader == 0 -> leader = 1; index[1] = index[0]; decided[1] = decided[0]; send_all(1) } /* from the journal */
    od
}

#ifdef ONEOBS
#define AGREED (accused != 0)
#else
#define AGREED (accused == 3)
#endif

active proctype controllers() {
    byte o, l, n;
end:
    do
    :: atomic {
        reports?o,l;
        if
        :: l > whom -> whom = l; accused = 1 << o
        :: l == whom -> accused = accused | (1 << o)
        :: l < whom
        fi;
        o = 0; l = 0
       }
    :: atomic {
        AGREED && !dead_declared[whom] ->
        assert(!up || life != whom); /* one that lives is not declared dead */
        dead_declared[whom] = 1;
        decided[leader] = 1; /* its slot goes to node 1 */
        send_all(leader)
       }
    :: atomic { /* a policy of the leader, once: the slot to node 0 */
        index[leader] < 1 && !dead_declared[1] -> decided[leader] = 0; send_all(leader)
       }
    :: atomic { /* the old controller, not knowing that it is old, also decides once more */
        leader == 1 && index[0] < 2 -> decided[0] = 0; send_all(0)
       }
    od
}

proctype node(byte me) {
    byte t, i, v;
end:
    do
    :: atomic {
        if
        :: command[me]?t,i,v
        :: command[NODES + me]?t,i,v
        fi;
        if
#ifdef NOTERM
        :: i > held_index[me] ->
#else
        :: t > held_term[me] || (t == held_term[me] && i > held_index[me]) ->
#endif
            held_term[me] = t; held_index[me] = i; held[me] = v
        :: else
        fi;
        t = 0; i = 0; v = 0
       }
    od
}

init {
    byte n;
    atomic { for (n : 0 .. NODES - 1) { run node(n) } }
    atomic {
        timeout ->
        for (n : 0 .. NODES - 1) {
            if
            :: n == VICTIM && !up
            :: else -> assert(held[n] == decided[leader])
            fi
        }
    }
}
