/*
 * The store actor (TIDE_ID_STORE, I/O thread 0): what happens to members and with the controller, timers, and what each
 * turn ends with. What its messages are: operation/inbox.c.
 */
#include "store/actor.h"

#include "store/adaptive/hot_keys.h"
#include "store/checkpoint/node_part.h"
#include "store/clocked/clocked.h"
#include "store/operation/drop.h"
#include "store/operation/inbox.h"
#include "store/operation/resend.h"
#include "store/operation/shard.h"
#include "store/replica/replica.h"
#include "store/slots/groups.h"
#include "store/slots/move.h"

/* Another controller has no notifications that the former one got. */
static void look_for_leader(struct tide_store *store) {
    const uint64_t term = tide_net_term(store->net);
    if (store->leader_term != term) {
        store->leader_term = term;
        tide__drain_again(store);
    }
}

/* Techniques are notified last to first; see store.c. */
static void on_member(struct tide_store *store, const struct tide_member *member) {
    if (store->member_state[member->id] == 1 + member->state) {
        return;
    }
    store->member_state[member->id] = (uint8_t)(1 + member->state);
    if (member->id >= store->members_end && member->id < TIDE__NODES) {
        store->members_end = member->id + 1u;
    }
    tide__catalog_member(store, member);
    if (member->state == TIDE_MEMBER_UP && tide__catalog_commands(store)) {
        tide__technique_order_tell(store, member->id);
        tide__catalog_welcomed(store, member->id);
    }
    tide__pressure_member(store, member->id);
    TIDE__EACH_TECHNIQUE_BACK(store, member_changed, store, member);
    tide__moves_settle(store, member);
}

int tide__members_message(struct tide_store *store, struct tide__incoming *in) {
    tide__pressure_begin(store);
    look_for_leader(store);
    (void)tide__catalog_commands(store); /* perhaps since now, or no more */
    const uint16_t id = in->as.MEMBERS.node;
    bool missed = atomic_exchange_explicit(&store->members_missed, false, memory_order_relaxed);
    /* When its own state changes a node looks at all members: those gone before it came are not announced. */
    bool all = missed || id == 0 || id == tide__store_self(store);
    struct tide_member members[8];
    size_t got;
    if (!all && tide_net_member(store->net, id, members)) {
        on_member(store, members);
    }
    while (all && (got = tide_net_news(store->net, store->member_state, members, TIDE_COUNT(members))) > 0) {
        for (size_t i = 0; i < got; i++) {
            on_member(store, &members[i]);
        }
    }
    if (atomic_load_explicit(&store->fenced, memory_order_relaxed)) {
        tide__pending_fenced(store); /* also what a worker sent before its links were closed */
    }
    tide__groups_tell(store);
    if (tide__catalog_commands(store)) {
        tide__catalog_resume(store);
        tide__plan_resume(store);
        tide__plan_advance(store);
    }
    return 0;
}

static void on_timer(struct tide_store *store, uint64_t id) {
    if (store->drop_timer && id == store->drop_timer) {
        store->drop_timer = 0;
        return;
    }
    const bool taken = tide__pressure_timer(store, id) || tide__replication_timer(store, id);
    store->timer_set = store->timer_set && taken;
}

/* After each message and timer. */
static void end_of_turn(struct tide_store *store) {
    tide__stalled_retry(store);
    for (size_t i = 0; store->techniques[i]; i++) {
        const uint64_t again = store->techniques[i]->end_of_turn ? store->techniques[i]->end_of_turn(store) : 0;
        if (again) {
            tide__retry_later(store, again);
        }
    }
    const uint64_t drops = tide__drop_advance(store);
    tide__runs_sweep(store, tide__sync_destroy);
    if (drops && !store->drop_timer && tide_timer_start(drops, &store->drop_timer)) {
        store->drop_timer = 0; /* the next message looks */
    }
}

int tide__store_handle(void *state, const struct tide_message *message) {
    struct tide_store *store = state;
    switch (message->kind) {
    case TIDE_CAST:
        tide__cast_handle(store, message, tide_address_node(message->from));
        break;
    case TIDE_CALL:
        tide__call_handle(store, message);
        break;
    case TIDE_TIMER:
        on_timer(store, message->call);
        break;
    case TIDE_EXIT:
        tide__generation_exit(store, message->call);
        break;
    default:
        break;
    }
    end_of_turn(store);
    return 0;
}
