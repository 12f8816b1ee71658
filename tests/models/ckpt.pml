/*
 * The checkpoint's cut without stopping: updates tagged with clocks, two versions of a row,
 * walkers, moving rows.
 * Page: docs/internals/checkpoints.md.
 *
 * Two workers, each pushing once to each of two rows in every clock 1..CLOCKS (a push is the pair
 * (worker, clock)). Two nodes; row r starts on node r and MOVES moves happen while all continues. A
 * push goes by the home (node 0) and is forwarded to where the row is, so it arrives later than one
 * that was not. The controller chooses the cut c* = highest running clock + 1, tells the nodes one
 * after the other (a worker starts clock c* + 1 only when all know), completes it when all pushes
 * with clock <= c* are acknowledged. Then each node's walker writes the cut versions of its rows,
 * one at a time.
 *
 * Checked: what is written of each row is exactly the pushes with clock <= c*; every row is
 * written.
 *
 * Weakenings, each must be refuted:
 *   MARKERS   instead of tags: a worker sends a marker to each node when it passes c*; a node's rows are cut when the
 *             markers of all workers have come, and what came before is in         (a forwarded push comes later)
 *   MOVED     a row that moves before it was written is left to the receiver's walker (which has passed, missed)
 *   LOWCUT    c* = highest running clock - 1                                        (a later update is in already)
 *   HASTY     complete when all workers' clocks passed c*, acknowledged or not       (an update is missing)
 *   ONEVER    no second version: an update with clock > c* goes into the row         (an update of after the cut is in)
 *   LATETELL  a worker passes c* before every node knows c*                         (the version was not kept)
 *
 * States: base 234,005.
 */
#ifndef CLOCKS
#define CLOCKS 4
#endif
#ifndef MOVES
#define MOVES 2
#endif
#define WORKERS 2
#define ROWS 2
#define BIT(w, c) (1 << ((w) * CLOCKS + (c) - 1))

chan to_home[WORKERS] = [3] of { byte, byte };  /* row, clock; clock 0: a marker (row = node) */
chan forwarded = [2] of { byte, byte, byte };   /* home -> node 1: worker, row, clock */
byte clock[WORKERS];      /* the clock a worker is in */
byte pushed[WORKERS];     /* rows pushed in it */
byte at[ROWS];            /* where a row is */
byte row[ROWS], cut[ROWS];
bit split[ROWS];          /* the row keeps a second version */
byte acked;               /* of row 0 */
byte acked1;              /* of row 1 */
byte star;                /* c*; 0 = not announced */
bit told[2];              /* nodes */
bit complete;
byte moves;
bit written[ROWS], walked[2];
byte marks[2];

inline wanted(r) { /* pushes with clock <= c* */
    want = 0;
    for (i : 1 .. CLOCKS) {
        if :: i <= star -> want = want | BIT(0, i) | BIT(1, i) :: else fi
    }
    i = 0
}

inline apply(w, r, c) {
#ifdef MARKERS
    row[r] = row[r] | BIT(w, c);
    if :: !split[r] -> cut[r] = row[r] :: else fi;
#else
    if
    :: told[at[r]] && c > star && !split[r] -> split[r] = 1; cut[r] = row[r]
    :: told[at[r]] && c <= star && split[r] -> cut[r] = cut[r] | BIT(w, c)
    :: else
    fi;
    row[r] = row[r] | BIT(w, c);
#endif
    if :: r == 0 -> acked = acked | BIT(w, c) :: else -> acked1 = acked1 | BIT(w, c) fi
}

/* A node's rows are cut when all markers came (MARKERS only). */
inline marker(m) {
    marks[m]++;
    if
    :: marks[m] == WORKERS ->
        for (i : 0 .. ROWS - 1) {
            if :: at[i] == m && !split[i] -> split[i] = 1; cut[i] = row[i] :: else fi
        }
        i = 0
    :: else
    fi
}

inline write_row(r) {
    wanted(r);
#ifdef ONEVER
    assert(row[r] == want);
#else
    assert((split[r] -> cut[r] : row[r]) == want);
#endif
    written[r] = 1;
    want = 0
}

#ifdef LATETELL
#define MAY_PASS (star != 0 || clock[me] < CLOCKS - 2)
#else
#define MAY_PASS (star == 0 -> clock[me] < CLOCKS - 2 : clock[me] < star || (told[0] && told[1]))
#endif

proctype worker(byte me) {
    do
    :: atomic {
        clock[me] < CLOCKS && pushed[me] == 0 && MAY_PASS && len(to_home[me]) == 0 ->
        clock[me]++;
#ifdef MARKERS
        if :: star != 0 && clock[me] == star + 1 -> to_home[me]!0,0; to_home[me]!1,0 :: else fi;
#endif
        pushed[me] = 1; to_home[me]!0,clock[me]
       }
    :: atomic { pushed[me] == 1 -> pushed[me] = 0; to_home[me]!1,clock[me] }
    :: atomic { clock[me] == CLOCKS && pushed[me] == 0 ->
#ifdef MARKERS
        if :: star == CLOCKS -> to_home[me]!0,0; to_home[me]!1,0 :: else fi;
#endif
        break }
    od
}

active proctype nodes() {
    byte r, c, w, i;
end:
    do
    :: atomic {
        if
        :: nfull(forwarded) && nempty(to_home[0]) -> to_home[0]?r,c; w = 0
        :: nfull(forwarded) && nempty(to_home[1]) -> to_home[1]?r,c; w = 1
        fi;
        if
        :: c == 0 -> marker(r)
        :: c != 0 && at[r] == 0 -> apply(w, r, c)
        :: c != 0 && at[r] == 1 -> forwarded!w,r,c
        fi;
        r = 0; c = 0; w = 0
       }
    :: atomic { forwarded?w,r,c -> apply(w, r, c); r = 0; c = 0; w = 0 } /* back at home meanwhile: applied there */
    od
}

active proctype mover() {
    byte r, i, want;
end:
    do
    :: atomic {
        moves < MOVES && (clock[0] != 0 || clock[1] != 0) ->
        if :: r = 0 :: r = 1 fi;
        moves++;
#ifndef MOVED
        if
        :: complete && !written[r] -> write_row(r) /* the giver writes it first */
        :: else
        fi;
#endif
        at[r] = 1 - at[r];
        r = 0
       }
    od
}

active proctype controller() {
    byte i, want;
    atomic {
        clock[0] > 0 && clock[1] > 0 && clock[0] < CLOCKS - 1 && clock[1] < CLOCKS - 1 ->
        star = (clock[0] > clock[1] -> clock[0] : clock[1]) + 1
#ifdef LOWCUT
        ; star = star - 2;
        if :: star == 0 -> star = 1 :: else fi
#endif
    }
    told[0] = 1;
    told[1] = 1;
    atomic {
        wanted(0);
#ifdef HASTY
        clock[0] > star && clock[1] > star ->
#else
#ifdef MARKERS
        marks[0] == WORKERS && marks[1] == WORKERS ->
#else
        (acked & want) == want && (acked1 & want) == want ->
#endif
#endif
        want = 0;
        complete = 1
    }
    do /* walkers, a row at a time, node by node in any order */
    :: atomic { !walked[0] && (at[0] != 0 || written[0]) && (at[1] != 0 || written[1]) -> walked[0] = 1 }
    :: atomic { !walked[1] && (at[0] != 1 || written[0]) && (at[1] != 1 || written[1]) -> walked[1] = 1 }
    :: atomic { !walked[at[0]] && !written[0] -> write_row(0) }
    :: atomic { !walked[at[1]] && !written[1] -> write_row(1) }
    :: atomic { walked[0] && walked[1] -> assert(written[0] && written[1]); break }
    od
}

init {
    atomic { at[1] = 1; run worker(0); run worker(1) }
}
