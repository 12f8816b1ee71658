/*
 * A copy of a shared key: COMING and HELD, epochs, subscriptions and notices, updates, forgetting.
 * Code: runtime/store/adaptive/hot_keys.h, hot_keys.c, hot_keys_sync.c, subscribe.c.
 *
 * One key, one node with a copy, its worker and its fiber. The row is at one of two other nodes and
 * moves between them (that operations follow it, each sender's in order, is reloc.pml's); workers of
 * theirs push to it. What the fiber sends may overtake what the worker sent: each has a queue of its
 * own. An owner remembers that the node has a copy, tells it once when somebody else changes the row
 * or the row leaves, and notices of different owners overtake each other. An update of the copy may be
 * answered with the row, if the owner owes a notice or does not know the node. Whether a copy is wanted
 * changes at any moment, and a fetch may fail.
 *
 * A row is how often the worker pushed and how often others did. Checked: whatever the worker reads
 * has exactly the pushes that it issued before, from the copy or from the owner; at rest the row has
 * them all, once, and a copy equals it.
 *
 * Weakenings, each must be refuted:
 *   UNSYNC      no wait for operations that looked before     NOPENDING    none for those that were sent
 *   PASSQUEUE   pulls pass pushes that wait for the row       PASSGIVEUP   or that go the ordinary way after all
 *   LATESUB     subscribed after the row was read             LATECLEAR    notices that came with the fetch are forgotten
 *   SILENTMOVE  a row leaves and nobody is told               FORGETUNSENT a copy goes with its updates
 *   NOACC       a fetched row replaces what was not sent      CHANGERALL   whoever changes a row, nobody is told
 *   FRESHUNSUB  a row comes with an answer, unsubscribed      NEWSLOST     no row does, and the notice is forgotten
 */
#ifndef OPS
#define OPS 3
#endif
#ifndef PUSHES
#define PUSHES 2
#endif
#ifndef MOVES
#define MOVES 2
#endif
#ifndef TOGGLES
#define TOGGLES 2
#endif
#ifndef FAILS
#define FAILS 1
#endif
#define NONE 0
#define COMING 1
#define HELD 2
#define PUSH 0
#define PULL 1
#define UPDATE 2

byte row_own, row_other;   /* at the owner */
byte owner;
bit moving, subscribed[2];
byte notices[2];           /* in flight */
byte moves, pushes, toggles = 1, fails;

byte mine;                 /* pushes that the worker has issued */
byte state, copy_own, copy_other, acc, queued;
bit wanted = 1, unseen, giving_up, inside;
byte stint;                /* of the worker inside */
byte sent, answered;       /* operations of the worker */
bit worker_answered, fiber_answered, late;
byte late_owner;

chan from_worker = [OPS] of { bit };
chan from_fiber = [1] of { byte, byte };
chan rows = [1] of { byte, byte };

inline fire() {
    if
    :: subscribed[owner] -> subscribed[owner] = 0; notices[owner]++
    :: else
    fi
}

proctype worker() {
    byte ops;
    bit direct;
    do
    :: ops < OPS ->
        atomic {
            ops++; mine++; inside = 1; direct = 0;
            if
            :: state == NONE -> direct = 1
            :: state == COMING -> queued++
            :: state == HELD -> acc++; copy_own++
            fi
        }
        if
        :: direct -> atomic { from_worker!PUSH; sent++ }
        :: else
        fi;
        atomic { inside = 0; stint++ }
    :: ops < OPS ->
        ops++;
again:
        atomic {
            inside = 1; direct = 0;
            if
            :: state == HELD -> assert(copy_own == mine)
#ifdef PASSQUEUE
            :: state != HELD -> direct = 1
#elif defined(PASSGIVEUP)
            :: state == NONE || (state == COMING && queued == 0) -> direct = 1
            :: state == COMING && queued > 0 -> inside = 0; stint++; goto later
#else
            :: state == NONE || (state == COMING && queued == 0 && !giving_up) -> direct = 1
            :: state == COMING && (queued > 0 || giving_up) -> inside = 0; stint++; goto later
#endif
            fi
        }
        if
        :: direct -> atomic { from_worker!PULL; sent++; worker_answered = 0 }
        :: else
        fi;
        atomic { inside = 0; stint++ }
        if
        :: direct -> worker_answered
        :: else
        fi;
        goto done;
later:
        !(state == COMING && (queued > 0 || giving_up)) -> goto again;
done:
        skip
    :: ops == OPS -> break
    od
}

inline exchange(kind, amount) {
    atomic { fiber_answered = 0; from_fiber!kind, amount }
    fiber_answered
}

proctype fiber() {
    byte own, other, n, first, last;
    bit was;
end:
    do
    :: atomic { state == NONE && wanted -> state = COMING; was = inside; first = stint }
#ifndef UNSYNC
        !was || stint != first;
#endif
        last = sent;
#ifndef NOPENDING
        answered >= last;
#endif
        if
        :: exchange(PULL, 0);
            atomic {
                rows?own, other -> state = HELD; copy_own = own + queued; copy_other = other; acc = queued; queued = 0
            }
        :: atomic { fails < FAILS -> fails++ }
            do
            :: atomic { queued > 0 -> n = queued; queued = 0; giving_up = 1 }
                exchange(PUSH, n)
            :: atomic { queued == 0 -> giving_up = 0; state = NONE; unseen = 0; break }
            od
        fi
    :: atomic { state == HELD && acc > 0 -> n = acc; acc = 0; was = unseen; unseen = 0 }
        exchange(UPDATE, n);
        atomic {
            if
            :: nempty(rows) -> rows?own, other -> copy_own = own + acc; copy_other = other
            :: empty(rows) ->
#ifndef NEWSLOST
                unseen = unseen || was
#endif
            fi
        }
    :: atomic { state == HELD && wanted && unseen -> 
#ifndef LATECLEAR
        unseen = 0
#endif
        }
        exchange(PULL, 0);
        atomic {
            rows?own, other -> copy_other = other;
#ifdef NOACC
            copy_own = own;
#else
            copy_own = own + acc;
#endif
#ifdef LATECLEAR
            unseen = 0;
#endif
        }
#ifdef FORGETUNSENT
    :: atomic { state == HELD && !wanted -> acc = 0; state = NONE; unseen = 0 }
#else
    :: atomic { state == HELD && !wanted && acc == 0 -> state = NONE; unseen = 0 }
#endif
    od
}

inline told(node) {
    notices[node]--;
    if :: state != NONE -> unseen = 1 :: else fi
}

proctype world() {
    byte kind;
    byte n;
end:
    do
    :: atomic { !moving && nempty(from_worker) -> from_worker?kind; answered++;
        if
        :: kind == PUSH -> row_own++; fire()
        :: kind == PULL -> assert(row_own == mine); worker_answered = 1
        fi
       }
    :: atomic { !moving && !late && nempty(from_fiber) -> from_fiber?kind, n;
        if
        :: kind == PUSH || kind == UPDATE -> row_own = row_own + n
        :: kind == UPDATE && !subscribed[owner] -> row_own = row_own + n; rows!row_own, row_other;
#ifndef FRESHUNSUB
            subscribed[owner] = 1
#endif
        :: kind == PULL -> rows!row_own, row_other;
#ifdef LATESUB
            late = 1; late_owner = owner
#else
            subscribed[owner] = 1
#endif
        fi;
        fiber_answered = 1; n = 0
       }
    :: atomic { late -> late = 0; subscribed[late_owner] = 1 }
    :: atomic { !moving && pushes < PUSHES -> pushes++; row_other++;
#ifndef CHANGERALL
        fire()
#endif
       }
    :: atomic { !moving && moves < MOVES -> moves++; moving = 1;
#ifndef SILENTMOVE
        fire()
#endif
       }
    :: atomic { moving -> moving = 0; owner = 1 - owner }
    :: atomic { toggles < TOGGLES -> toggles++; wanted = 1 - wanted }
    :: atomic { toggles < TOGGLES -> toggles = TOGGLES } /* as it is now it stays */
    :: atomic { notices[0] > 0 -> told(0) }
    :: atomic { notices[1] > 0 -> told(1) }
    od
}

/* At rest: nobody can do anything any more. */
proctype rest() {
    timeout ->
    assert(state != COMING && acc == 0 && queued == 0 && row_own == mine);
    assert(state != HELD || (copy_own == row_own && copy_other == row_other))
}

init {
    atomic { run worker(); run fiber(); run world(); run rest() }
}
