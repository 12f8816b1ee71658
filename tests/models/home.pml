/*
 * The death of a home: CLAIM, retained copies, RELEASE.
 * Page: docs/internals/replication.md. Only what those steps add: hand-overs are as in replica.pml, operations are
 * pushes of one writer at whoever owns the row, and each is acknowledged only when owner and copy
 * have it.
 *
 * Node 0 is the home and the first owner, node 1 follows it as home (and holds the copy of what the
 * home owns), node 2 is a third. The row moves along 0 -> 2 -> 0 (towards and from the home), or 0
 * -> 1 -> 0, while PUSHES pushes happen; the giver retains (term, row) until the home says RELEASE,
 * which the home does when the receiver reported arrival and its copy set is complete. The home
 * dies at any moment; each message it sent to a node arrives or is lost from some point on. Then
 * the controller names node 1, which waits for the lease it granted to the home, asks all living
 * for claims, and serves from the highest: OWNED at t, ARRIVING (retained by a giver: counts for
 * the receiver), or its own copy.
 *
 * A row is a count of pushes. Checked: what the new home settles on holds every acknowledged push,
 * one owner, and nobody serves an old row after the new home serves (the dead home's lease
 * included: it may be only unreachable).
 *
 * Weakenings, each must be refuted:
 *   NORETAIN   the giver drops its row when it sends it       NOFLIGHT  a row in flight is not counted in the claims
 *   NOLEASE    no wait for the old home's lease               STRANGER  node 2 becomes home: it granted no lease and
 *                                                                       has no copy of what the home owned
 *   TIE        at equal terms a retained row wins over the new home's copy: the home got the row at t, acknowledged
 *              pushes that the copy has, and died before it said RELEASE
 *
 * States: base 6,845; PUSHES=5 MOVES=5 48,171.
 */
#ifndef PUSHES
#define PUSHES 3
#endif
#ifndef MOVES
#define MOVES 3
#endif
#define NOBODY 9

byte owner;            /* of record */
byte term = 1;
byte row[3];           /* at the owner */
bit have[3];           /* owned here */
byte have_term[3];
byte copy[3];          /* safety copy: at the home for other owners, at node 1 for the home */
byte copy_term[3];
byte kept[3], kept_term[3], kept_for[3]; /* retained by a giver; term 0: nothing */
byte fly_to = NOBODY, fly_row, fly_term, fly_from; /* the row in flight */
byte acked, pushed, moves;
bit home_up = 1, home_stopped; /* !home_up: declared; stopped: it really does nothing any more */
bit lease = 1;         /* of the old home, granted by node 1 */
bit held = 1;          /* as it counts itself */
bit settled;
byte best, best_row, best_who;

#ifdef STRANGER
#define NEXT 2
#else
#define NEXT 1
#endif

inline claim(t_, r_, who_) {
    if :: t_ > best -> best = t_; best_row = r_; best_who = who_ :: else fi
}

proctype world() {
    byte n, to;
end:
    do
    :: atomic { /* a push at the owner; acknowledged when the copy has it (one step: REPL and ACKR are replica.pml's) */
        pushed < PUSHES && home_up && fly_to == NOBODY && have[owner] ->
        pushed++;
        row[owner]++;
        if
        :: owner == 0 -> copy[1] = row[0]; copy_term[1] = term
        :: else -> copy[0] = row[owner]; copy_term[0] = term
        fi;
        acked = row[owner]
       }
    :: atomic { /* the home orders a move and the owner gives */
        moves < MOVES && home_up && fly_to == NOBODY && have[owner] && kept_term[owner] == 0 ->
        if :: owner != 0 -> to = 0 :: owner == 0 -> to = 1 :: owner == 0 -> to = 2 fi;
        moves++;
        term++;
        fly_to = to; fly_from = owner; fly_row = row[owner]; fly_term = term;
#ifndef NORETAIN
        kept[owner] = row[owner]; kept_term[owner] = term; kept_for[owner] = to;
#endif
        have[owner] = 0; row[owner] = 0; have_term[owner] = 0;
        owner = to; to = 0
       }
    :: atomic { /* the row arrives; a new owner completes its copy set before it acknowledges anything */
        fly_to != NOBODY && (fly_to != 0 || !home_stopped) && !settled ->
        have[fly_to] = 1; row[fly_to] = fly_row; have_term[fly_to] = fly_term;
        fly_to = NOBODY; fly_row = 0; fly_term = 0; fly_from = 0
       }
    :: atomic { /* copy set complete at the new owner, the home releases the giver; the home's own copy is node 1's */
        home_up && fly_to == NOBODY && have[owner] ->
        if
        :: owner == 0 -> copy[1] = row[0]; copy_term[1] = term
        :: else -> copy[0] = row[owner]; copy_term[0] = term
        fi;
        for (n : 0 .. 2) { kept[n] = 0; kept_term[n] = 0; kept_for[n] = 0 }
        n = 0
       }
    :: atomic { home_up -> home_up = 0; /* declared dead: killed, or only cut off */
        if
        :: home_stopped = 1; held = 0; row[0] = 0; have[0] = 0; have_term[0] = 0; kept[0] = 0; kept_term[0] = 0
        :: skip
        fi;
        if /* what it had sent of the row may be lost with it */
        :: fly_to != NOBODY && fly_from == 0 && home_stopped -> fly_to = NOBODY; fly_row = 0; fly_term = 0; fly_from = 0
        :: true
        fi
       }
    :: atomic { held && !home_up -> held = 0 }
    :: atomic { lease && !held -> lease = 0 }
    :: atomic { /* CLAIM?: every living node answers; highest term wins */
#ifdef NOLEASE
        !home_up && !settled ->
#else
        !home_up && !settled && !lease ->
#endif
        settled = 1;
#ifndef TIE
        if :: copy_term[NEXT] != 0 -> claim(copy_term[NEXT], copy[NEXT], NEXT) :: else fi; /* first: it wins a tie */
#endif
        for (n : 1 .. 2) {
            if :: have[n] -> claim(have_term[n], row[n], n) :: else fi;
#ifndef NOFLIGHT
            if :: kept_term[n] != 0 -> claim(kept_term[n], kept[n], NEXT) :: else fi
#endif
        }
        n = 0;
#ifndef NOFLIGHT
        if /* the receiver says ARRIVING at its term; whether the row comes or not, the retained one is the same */
        :: fly_to != NOBODY && fly_to != 0 -> claim(fly_term, fly_row, fly_to)
        :: else
        fi;
#endif
#ifdef TIE
        if :: copy_term[NEXT] != 0 -> claim(copy_term[NEXT], copy[NEXT], NEXT) :: else fi;
#endif
        assert(best_row == acked); /* no acknowledged push lost */
        assert(!(have[0] && held)) /* the old home serves nothing any more */
       }
    :: atomic { settled -> break }
    od
}

init {
    atomic { have[0] = 1; have_term[0] = 1; copy_term[1] = 1; run world() }
}
