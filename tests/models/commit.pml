/*
 * Exact clocks: staged updates, the journalled commit, loss of a worker and of the controller.
 * Page: docs/internals/models.md (on_worker_loss = "exact").
 *
 * A chunk of data is worker 0's; its clock changes one row at each of two owners. It stages both,
 * waits for the acknowledgements and reports; the controller journals a commit and tells the
 * owners, which make what is staged visible. At any moment worker 0 may be declared lost (it may
 * live on for a while, and what it sent still arrives); the controller journals the abort, tells
 * the owners and gives the chunk to worker 1. The controller may stop at any moment, losing what it
 * has not journalled, and resumes from its journal, telling the owners again.
 *
 * Checked: at each owner the chunk is visible at most once at any time and exactly once at rest,
 * from the same worker everywhere (no half clock), and nothing stays staged.
 *
 * Weakenings, each must be refuted:
 *   EARLY     a worker reports before all it staged is acknowledged
 *   FORGET    the abort is not journalled                     NOFENCE  an owner stages what comes after the abort
 *   TELLFIRST owners are told before the journal
 *
 * States: base 6,071.
 */
#define WORKERS 2
#define OWNERS 2
#define NONE 9

chan to_owner[OWNERS] = [6] of { byte };            /* staging, by worker */
chan order[OWNERS] = [8] of { byte, byte };         /* from the controller: 1 commit / 2 abort, worker */
chan acks[WORKERS] = [4] of { byte };
chan report = [4] of { byte };

byte staged[OWNERS], visible[OWNERS], refused[OWNERS];
bit lost, lease1;              /* worker 0 declared; worker 1 has the chunk */
byte journal_commit = NONE;
bit journal_abort;
byte commit = NONE;            /* in the controller's memory */
bit aborted;
byte crashes;

inline tell(kind, w) {
    for (i : 0 .. OWNERS - 1) { assert(nfull(order[i])); order[i]!kind,w }
    i = 0
}

proctype worker(byte me) {
    byte got;
end1: /* the second one may never be asked */
    if :: me == 1 && lease1 :: me == 0 fi;
    to_owner[0]!me;
    to_owner[1]!me;
#ifdef EARLY
    report!me;
#endif
end2: /* what was refused is never acknowledged */
    do
    :: atomic { got < OWNERS && nempty(acks[me]) -> acks[me]?_; got++ }
    :: got == OWNERS -> break
    od;
#ifndef EARLY
    report!me
#else
    skip
#endif
}

proctype owner(byte me) {
    byte w, k;
end:
    do
    :: atomic {
        to_owner[me]?w ->
        if
#ifndef NOFENCE
        :: refused[me] & (1 << w) /* aborted already */
        :: !(refused[me] & (1 << w)) ->
#else
        :: true ->
#endif
            staged[me] = staged[me] | (1 << w);
            acks[w]!0
        fi;
        w = 0
       }
    :: atomic {
        order[me]?k,w ->
        if
        :: k == 1 && (staged[me] & (1 << w)) ->
            staged[me] = staged[me] & ~(1 << w);
            assert(visible[me] == 0); /* at most once */
            visible[me] = visible[me] | (1 << w)
        :: k == 1 && !(staged[me] & (1 << w)) ->
            assert(visible[me] & (1 << w)) /* told again; what was never staged cannot be committed */
        :: k == 2 -> staged[me] = staged[me] & ~(1 << w); refused[me] = refused[me] | (1 << w)
        fi;
        w = 0; k = 0
       }
    od
}

active proctype controller() {
    byte w, i;
end:
    do
    :: atomic {
        report?w ->
        if
        :: commit == NONE && !(aborted && w == 0) -> commit = w;
#ifdef TELLFIRST
            tell(1, w)
#endif
        :: else /* too late, or known */
        fi;
        w = 0
       }
    :: atomic { commit != NONE && journal_commit == NONE -> journal_commit = commit;
#ifndef TELLFIRST
        tell(1, commit)
#endif
       }
    :: atomic { /* the worker is declared lost by the view */
        !lost && commit == NONE -> lost = 1; aborted = 1;
#ifndef FORGET
        journal_abort = 1;
#endif
        tell(2, 0);
        lease1 = 1
       }
    :: atomic { /* stops and resumes from the journal; unjournalled reports are asked for again */
        crashes < 1 -> crashes++;
        if
        :: commit != NONE && journal_commit == NONE -> report!commit
        :: else
        fi;
        commit = journal_commit; aborted = journal_abort;
        if :: commit != NONE -> tell(1, commit) :: else fi;
        if :: aborted -> tell(2, 0) :: else fi
       }
    od
}

init {
    atomic { run worker(0); run worker(1); run owner(0); run owner(1) }
    atomic {
        timeout ->
        assert(visible[0] != 0 && visible[0] == visible[1] && staged[0] == 0 && staged[1] == 0)
    }
}
