/*
 * The inbox of a scheduler and the sleep of its executor: push, drain, sleep, wake. Modelled from
 * runtime/actor/scheduler.c (inbox_push, drain_inbox, scheduler_pending) and
 * runtime/port/real_executor.c (tide__real_executor_wake, tide__real_awake, run_turn, on_prepare,
 * on_wake).
 *
 * SENDERS threads push MESSAGES messages each on a lock-free stack; whoever found it empty wakes
 * the executor. The executor runs turns; between two it polls, and blocks there when it may sleep.
 * A stream of the loop may have news at any poll (NEWS times), which calls tide__real_awake. Each
 * atomic operation is one step (sequential consistency; every operation that matters is a
 * read-modify-write of one variable, see the head of real_executor.c). STORE shows what a plain
 * store in place of the exchange does on a machine with store buffers.
 *
 * Checked: each message is taken exactly once, each sender's in order, and never does the executor
 * sleep for ever on a non-empty inbox (at the end of everything all messages were taken).
 *
 * Weakenings, each must be refuted:
 *   NOTRY     run_turn exchanges to SLEEPING and neither looks at what was before nor asks `pending`   (wake lost)
 *   EARLY     it asks whether there is work, and only then declares itself asleep                      (wake lost)
 *   STORE     SLEEPING is stored (buffered), not exchanged, and `pending` is asked                     (wake lost)
 *   ONCE      a waker writes the eventfd when it reads AWAKE instead of SLEEPING                       (wake lost)
 *   RACY      push = load head, store head, not compare-exchange                                       (message lost)
 *   NOREVERSE drain does not reverse the stack                                                         (order)
 *   DOUBLE    a poll is taken to end by one wake each: the eventfd counts, and a sleeper that drained it assumes
 *             a message in the inbox ("double wake assumed")
 * Holds all the same: NOPENDING (`pending` not asked): the state of before the exchange suffices;
 * LATEWAKE (every pusher wakes, not only the first).
 *
 * States: base 234,236; NOPENDING 143,720; LATEWAKE 442,414.
 */
#ifndef SENDERS
#define SENDERS 2
#endif
#ifndef MESSAGES
#define MESSAGES 2
#endif
#ifndef NEWS
#define NEWS 1
#endif
#define AWAKE 0
#define SLEEPING 1
#define NOTIFIED 2
#define TOTAL (SENDERS * MESSAGES)

byte state = AWAKE;
byte event;      /* eventfd: not zero = readable */
byte head;       /* 0 = empty, else message + 1 */
byte below[TOTAL]; /* message->next */
byte taken[SENDERS]; /* of each sender, how many */
byte news = NEWS;
byte sent_all;
#ifdef STORE
bit buffered;    /* the executor's store of SLEEPING waits in its buffer */
#endif

inline wake() {
    atomic {
        before = state;
        state = NOTIFIED
    }
#ifdef ONCE
    if :: before == AWAKE -> event = 1 :: else fi;
#else
    if :: before == SLEEPING -> event = 1 :: else fi;
#endif
    before = 0
}

proctype sender(byte me) {
    byte k, old, before;
    do
    :: k < MESSAGES ->
#ifdef RACY
        old = head;
        below[me * MESSAGES + k] = old;
        head = me * MESSAGES + k + 1;
#else
        do
        :: old = head; /* message->next = old is nobody else's yet */
            atomic {
                if
                :: head == old -> below[me * MESSAGES + k] = old; head = me * MESSAGES + k + 1; break
                :: else
                fi
            }
        od;
#endif
#ifdef LATEWAKE
        wake();
#else
        if :: old == 0 -> wake() :: else fi;
#endif
        old = 0;
        k++
    :: else -> break
    od;
    sent_all++
}

/* A turn: the stack is taken whole and read backwards. */
inline turn() {
    if
    :: head == 0 -> /* relaxed look first */
#ifdef DOUBLE
        assert(!promised)
#else
        skip
#endif
    :: else ->
        atomic {
            newest = head;
            head = 0;
            do
            :: newest != 0 -> list[length] = newest - 1; length++; newest = below[newest - 1]
            :: else -> break
            od;
#ifdef NOREVERSE
            at = 0;
            do
            :: at < length -> take(list[at]); at++
            :: else -> break
            od;
#else
            at = length;
            do
            :: at > 0 -> at--; take(list[at])
            :: else -> break
            od;
#endif
            for (at : 0 .. TOTAL - 1) { list[at] = 0 }
            at = 0; length = 0
        }
    fi
}

inline take(m) {
    assert(taken[(m) / MESSAGES] == (m) % MESSAGES); /* once and in order */
    taken[(m) / MESSAGES]++
}

proctype executor() {
    byte newest, length, at, before;
    byte list[TOTAL];
    bit sleep;
#ifdef DOUBLE
    bit promised;
#endif

    do
    ::  /* on_prepare */
        state = AWAKE;
        turn();
#ifdef DOUBLE
        promised = 0;
#endif
#ifdef EARLY
        sleep = (head == 0);
        atomic { if :: sleep -> state = SLEEPING :: else fi };
#else
#ifdef STORE
        atomic { before = state; buffered = 1 };
        sleep = (before != NOTIFIED && head == 0);
        before = 0;
        atomic { state = SLEEPING; buffered = 0 };
#else
        atomic { before = state; state = SLEEPING };
#ifdef NOTRY
        sleep = 1;
#else
#ifdef NOPENDING
        sleep = (before != NOTIFIED);
#else
        sleep = (before != NOTIFIED);
        if :: sleep -> sleep = (head == 0) :: else fi;
#endif
#endif
        before = 0;
#endif
#endif
        /* the poll: blocks when it may sleep, else only looks */
end:
        if
        :: event -> event = 0;
#ifdef DOUBLE
            promised = 1
#endif
        :: news > 0 -> news--;
            if
            :: state == SLEEPING -> atomic { state = AWAKE } /* tide__real_awake: a relaxed load, then an exchange */
            :: else
            fi
        :: !sleep && !event
        fi;
        sleep = 0
    od
}

init {
    byte i;
    atomic {
        run executor();
        for (i : 0 .. SENDERS - 1) { run sender(i) }
    }
    atomic {
        timeout -> /* the executor blocks in its poll and nobody is left to wake it */
        for (i : 0 .. SENDERS - 1) { assert(taken[i] == MESSAGES) }
        assert(sent_all == SENDERS && head == 0)
    }
}
