/*
 * A node's store, put together: the techniques there are, which function deals with which message, and
 * the store actor. The files below are rooms of it; they know techniques by core/technique.h only.
 */
#include "store/actor.h"
#include "store/operation/drop.h"
#include "store/operation/resend.h"
#include "store/adaptive/hot_keys.h"
#include "store/adaptive/intent.h"
#include "store/adaptive/owner.h"
#include "store/checkpoint/node_part.h"
#include "store/clocked/clocked.h"
#include "store/slots/catalog.h"
#include "store/forget/hand.h"
#include "store/operation/shard.h"
#include "store/replica/async_replication.h"
#include "store/slots/move.h"
#include "store/tier/tier.h"

enum { STORE_MESSAGES_MAX = 1 << 20, STORE_BYTES_MAX = 1 << 30 };

static const struct tide__technique *const techniques[TIDE__PARTS + 1] = {
    [TIDE__PART_PLAIN] = &tide__plain,
    [TIDE__PART_TIER] = &tide__tiering,
    [TIDE__PART_OWNERS] = &tide__relocating,
    [TIDE__PART_SLOTS] = &tide__slots,
    [TIDE__PART_CHECKPOINTS] = &tide__checkpoints,
    [TIDE__PART_REPLICAS] = &tide__replicated,
    [TIDE__PART_HOT] = &tide__hot_keys,
    [TIDE__PART_CLOCKS] = &tide__clocked,
    [TIDE__PART_FORGET] = &tide__forgetful,
};

static const struct tide__handlers handlers[TIDE__OP_COUNT] = {
#define TIDE__MESSAGE(name, on_cast, on_call, what, fields) [TIDE__OP_##name] = {.cast = on_cast, .call = on_call},
#include "store/core/message.def"
#undef TIDE__MESSAGE
};

int tide__store_create_bare(struct tide_store **out) {
    struct tide_store *store = tide_alloc_zero(1, sizeof *store);
    if (!store) {
        return tide_fail(TIDE_ENOMEM, "no memory for the store");
    }
    atomic_init(&store->self, 1);
    atomic_init(&store->synced, true);
    store->stalled_end = &store->stalled;
    store->techniques = techniques;
    store->handlers = handlers;
    int code = tide__runs_create(store);
    if (code) {
        tide_free(store);
        return code;
    }
    tide__admission_init(&store->admission);
    *out = store;
    return 0;
}

/* I/O thread 0. */
static void member_changed(void *arg, const struct tide_member *member) {
    struct tide_store *store = arg;
    bool gone = member->state == TIDE_MEMBER_DEAD || member->state == TIDE_MEMBER_LEFT;
    if (gone && member->id == tide__store_self(store)) {
        atomic_store_explicit(&store->fenced, member->state == TIDE_MEMBER_DEAD ? TIDE_EFENCED : TIDE_ECLOSED,
                              memory_order_relaxed);
        tide__pending_fenced(store);
    } else if (member->state == TIDE_MEMBER_DEAD || member->state == TIDE_MEMBER_LEFT) {
        char text[256];
        (void)snprintf(text, sizeof text, "node %s (%u) %s: %s", member->name, (unsigned)member->id,
                       member->state == TIDE_MEMBER_DEAD ? "died" : "left", member->reason);
        tide__pending_node_gone(store, member->id, text);
    }
    tide__store_look_at(store, member->id);
}

int tide_store_create(struct tide_system *system, struct tide_net *net, uint64_t memory_cap, struct tide_store **out) {
    struct tide_store *store;
    int code = tide__store_create_bare(&store);
    if (code) {
        return code;
    }
    store->system = system;
    store->net = net;
    store->budget.cap = memory_cap;
    store->port = tide_system_port(system);
    tide_port_random(store->port, "store.yield", &store->yields);
    store->node = tide_system_node(system);
    atomic_store(&store->self, 0);
    const uint16_t self = tide__store_self(store); /* 0: it joins, and waits for its tables */
    atomic_store(&store->synced, !net || (self != 0 && tide_net_controller(net) == self));
    struct tide_actor_options options = {.type = "store",
                                         .handle = tide__store_handle,
                                         .state = store,
                                         .role = TIDE_ROLE_IO,
                                         .messages_max = STORE_MESSAGES_MAX,
                                         .bytes_max = STORE_BYTES_MAX};
    tide_address address;
    code = tide__catalog_create(store);
    code = code ? code : tide__moves_create(store);
    code = code ? code : tide_spawn(store->node, &options, &address);
    if (code) {
        tide_store_destroy(store);
        return code;
    }
    TIDE_ASSERT(tide_address_id(address) == TIDE_ID_STORE);
    if (net) {
        store->watch = (struct tide_member_watch){.changed = member_changed, .arg = store};
        tide_net_watch(net, &store->watch);
        tide__pressure_watch(store);
        tide_net_expect_evacuation(net);
        tide__store_look(store);
    }
    *out = store;
    return 0;
}

void tide_store_destroy(struct tide_store *store) {
    if (!store) {
        return;
    }
    tide__pending_deinit(store);
    tide__admission_deinit(&store->admission);
    tide__shard_release(store);
    tide__drop_release(store);
    unsigned count = atomic_load(&store->table_count);
    for (unsigned id = 1; id <= count; id++) {
        tide__table_destroy(tide__table_at(store, id));
    }
    tide__catalog_destroy(store);
    tide__replication_destroy(store);
    tide__generations_destroy(store);
    tide__moves_destroy(store);
    tide__runs_destroy(store, tide__sync_destroy);
    tide_free(store);
}
