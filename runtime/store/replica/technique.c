/* Copies against loss as a technique of the store (technique.h), and what workers of a home do in place. */
#include "store/operation/inbox.h"
#include "store/operation/resend.h"
#include "store/replica/async_replication.h"
#include "store/replica/program_order.h"
#include "store/slots/move.h"

/* Has everything run that workers handed over to the store actor? */
static bool all_handled(const struct tide_table *table) {
    /* acquire, and in this order: equal means that all that was handed over before has run */
    uint64_t handled = atomic_load_explicit(&table->self_handled, memory_order_acquire);
    uint64_t sent = atomic_load_explicit(&table->self_sent, memory_order_relaxed);
    return handled == sent;
}

/* A worker at a table with copies. In place while nothing that workers handed over is in flight to
 * the store actor, nothing of the row in flight to its copies (durability strict), no slot about
 * to go to another home (window), and the leases hold until after the rows were read; else all of
 * the call goes to the store actor. */
static int walk_pull(struct tide__pass *pass) {
    struct tide_table *table = pass->table;
    const uint64_t going = tide__async_going(table);
    if (!all_handled(table) || (uint32_t)going > 0) {
        return tide__pass_miss_all(pass);
    }
    pass->deadline = TIDE_NEVER;
    int code = tide__walk_copied(pass, TIDE__PULL);
    const bool expired = pass->deadline != TIDE_NEVER && tide_port_now(table->store->port) >= pass->deadline;
    if (!code && (expired || tide__async_going(table) != going)) {
        return tide__pass_miss_all(pass);
    }
    return code;
}

/* In place if the copies may follow later (async_replication.h); else the store actor sends it to them. */
static int walk_push(struct tide__pass *pass) {
    struct tide_table *table = pass->table;
    unsigned guard;
    if (!tide__replicas_of(table)->async || !all_handled(table) || !tide__async_enter(table, &guard)) {
        return tide__pass_miss_all(pass);
    }
    int code = tide__walk_copied(pass, TIDE__PUSH);
    tide__async_leave(table, guard);
    return code;
}

static int walk(struct tide__pass *pass, enum tide__kind kind) {
    return kind == TIDE__PULL ? walk_pull(pass) : walk_push(pass);
}

static int row_event(struct tide__pass *pass, enum tide__row_event event, uint32_t slot, uint64_t key, uint64_t *word,
                     const void *delta) {
    (void)delta;
    if (event == TIDE__ROW_READ) {
        const uint64_t until = tide__lease_deadline(pass->table, slot);
        pass->deadline = until < pass->deadline ? until : pass->deadline;
        return 0;
    }
    return event == TIDE__ROW_CHANGES ? tide__async_list(pass->table, key, word) : 0;
}

static bool at_risk(struct tide_table *table, uint16_t node, size_t count, bool answered_here) {
    if (!answered_here) {
        tide__lost_updates_taken(table, node, count);
    }
    return !answered_here || (tide__replicas_of(table)->async && tide__lost_updates_given(table, node, count));
}

/* The home passes pushes on down the chains of their slots: those whose copies begin at one node go together. */
static uint8_t bucket(const struct tide_table *table, uint32_t slot) {
    const uint64_t chain = atomic_load_explicit(&tide__replicas_of(table)->chain[slot], memory_order_relaxed);
    return (uint8_t)(tide__chain_at(chain, 0) % TIDE__BUCKETS);
}

static int enter(struct tide_table *table, const uint64_t *keys, size_t count) {
    const bool fenced = atomic_load_explicit(&table->store->fenced, memory_order_relaxed);
    return fenced ? tide__fenced_fail(table->store) : tide__program_order_wait(table, keys, count);
}

static bool job(struct tide__job *job) {
    tide__strict_job(job);
    return true;
}

static const struct tide__operations replicated = {
    .groups = true,
    .walk = walk,
    .row_event = row_event,
    .bucket = bucket,
    .enter = enter,
    .part_bytes = sizeof(struct tide__program_order),
    .begins = tide__program_order_begin,
    .ends = tide__program_order_end,
    .job = job,
    .at_risk = at_risk,
};

static int create(struct tide_table *table, const uint64_t *chains) {
    int code = table->options.replicas && table->store->system ? tide__replicas_init(table, chains) : 0;
    table->operations = tide__replicas_of(table) ? &replicated : table->operations;
    return code;
}

static void table_event(struct tide_table *table, enum tide__table_event event) {
    if (event == TIDE__TABLE_BEGINS && tide__replicas_of(table)) {
        tide__lease_start(table->store);
    } else if (event == TIDE__TABLE_FREED) {
        tide__replicas_deinit(table);
    }
}

static bool table_works(struct tide_table *table, enum tide__table_work work) {
    return work == TIDE__WORK_IN_FLIGHT && !tide__replicas_idle(table);
}

static void member_changed(struct tide_store *store, const struct tide_member *member) {
    tide__lost_updates_member(store, member);
    if (member->state == TIDE_MEMBER_DEAD) {
        tide__redundancy_death(store, member);
    }
}

bool tide__replication_timer(struct tide_store *store, uint64_t id) {
    if (store->replication && store->replication->beating && id == store->replication->beat) {
        tide__lease_beat(store);
        return true;
    }
    return tide__async_timer(store, id);
}

static void store_event(struct tide_store *store, enum tide__store_event event) {
    const bool advances = event == TIDE__STORE_SLOTS_ADVANCE && store->replication;
    const unsigned tables = atomic_load_explicit(&store->table_count, memory_order_relaxed);
    for (unsigned id = 1; id <= tables && advances; id++) {
        struct tide_table *table = tide__table_at(store, id);
        if (table && tide__replicas_of(table) && tide__replicas_of(table)->unopened) {
            tide__replicas_advance(table);
        }
    }
}

const struct tide__technique tide__replicated = {
    .name = "replicated",
    .store_event = store_event,
    .member_changed = member_changed,
    .table_create = create,
    .table_event = table_event,
    .table_works = table_works,
    .table_stats = tide__lost_updates_stats,
};

static int advanced(struct tide_store *store) {
    tide__plan_advance(store);
    tide__moves_advance(store);
    return 0;
}

int tide__rebuild_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.REBUILD) *m = &in->as.REBUILD;
    struct tide_table *table = tide__incoming_table(store, in, m->table);
    if (!table || !tide__are_slots(&m->slots)) {
        return TIDE_EPROTO;
    }
    if (in->from == tide_net_controller(store->net) && tide__replicas_of(table)) {
        tide__rebuild_order(table, m->version, m->node, m->slots.at, m->slots.count);
    }
    return advanced(store);
}

int tide__rebuilt_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.REBUILT) *m = &in->as.REBUILT;
    if (!tide__incoming_table(store, in, m->table) || !tide__are_slots(&m->slots)) {
        return TIDE_EPROTO;
    }
    tide__groups_rebuilt(store, in->from, m->table, m->version, m->node, m->slots.at, m->slots.count);
    return advanced(store);
}

int tide__copy_failed_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.COPY_FAILED) *m = &in->as.COPY_FAILED;
    if (!tide__incoming_table(store, in, m->table) || !tide__are_slots(&m->slots)) {
        return TIDE_EPROTO;
    }
    tide__groups_copy_failed(store, m->table, m->node, m->slots.at, m->slots.count);
    return advanced(store);
}
