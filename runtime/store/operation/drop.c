/*
 * Tables that go: what nodes do; slots/catalog.c has the controller's side.
 *
 *   CLOSE  the table has no name any more and takes no new operations. What is in flight ends as
 *          always: rows arrive, copies acknowledge, parts leave; what still waits after a while
 *          fails. A node answers when nothing of the table is in flight at it
 *   DROP   when all have answered: the table is taken out of the list, and freed when no thread
 *          looks at what it found there and no holder is left
 *
 * What is said of it later finds nothing: an id has a life, which is never given again, so it does
 * not touch a later table in the same place. Operations that come late are answered ENOENT.
 *
 * When no thread has a table any more that was taken out: core/table_drop.c.
 */
#include "store/core/send.h"
#include "store/core/table_drop.h"
#include "store/operation/drop.h"
#include "store/operation/resend.h"
#include "store/operation/shard.h"

enum stage { CLOSE = 1, DROP = 2 };

struct tide__dropping {
    struct tide__dropping *next;
    struct tide_table *table;
    uint64_t since;
    uint32_t epoch;        /* when it was taken out */
    bool quiet;            /* and the controller knows */
    bool out, unreachable; /* of the list; and for all but its holders */
};

#define FAIL_NS TIDE_SECOND

/* Begins one if the last but one has no readers. */
static void next_epoch(struct tide_store *store) {
    const unsigned epoch = atomic_load(&store->table_epoch);
    (void)atomic_fetch_add(&store->table_epoch, 0); /* behind what was taken out: one of the two sees the other */
    if (atomic_load(&store->table_readers[(epoch + 1) & 1]) == 0) {
        atomic_store(&store->table_epoch, epoch + 1);
    }
}

/* ---- is anything in flight? ---- */

static bool is_stalled(const struct tide_store *store, const struct tide_table *table) {
    const struct tide__job *job = store->stalled;
    while (job && job->table != table) {
        job = job->next;
    }
    return job;
}

static bool is_pending(struct tide_store *store, const struct tide_table *table) {
    tide_lock(&store->pending.lock);
    const struct tide__pending *p = store->pending.first;
    while (p && p->table != table) {
        p = p->next;
    }
    tide_unlock(&store->pending.lock);
    return p;
}

static bool is_quiet(struct tide_table *table) {
    struct tide_store *store = table->store;
    return !table->parked && !is_stalled(store, table) && !is_pending(store, table) &&
           !tide__table_works(table, TIDE__WORK_FIBERS) && !tide__table_works(table, TIDE__WORK_IN_FLIGHT);
}

/* ---- a node ---- */

static void say(struct tide_store *store, uint32_t id, enum stage stage) {
    (void)tide__store_tell(store, tide_net_controller(store->net),
                           TIDE__AS(DROPPED, .table = id, .stage = (uint8_t)stage));
}

static void begin(struct tide_store *store, struct tide_table *table) {
    struct tide__dropping *d = tide_alloc_vital(sizeof *d);
    *d = (struct tide__dropping){.next = store->dropping, .table = table, .since = tide_port_now(store->port)};
    store->dropping = table->dropping = d;
    atomic_store(&table->closing, true);
    store->tables_removed = true;
    tide__table_event(table, TIDE__TABLE_ENDS);
}

static void take_out(struct tide_store *store, struct tide__dropping *d) {
    if (!d->out) {
        d->out = true;
        atomic_store(&store->tables[d->table->id & (TIDE__TABLES_MAX - 1)], NULL);
        d->epoch = atomic_load(&store->table_epoch);
    }
}

int tide__drop_message(struct tide_store *store, struct tide__incoming *in) {
    if (in->from != tide_net_controller(store->net)) {
        return 0;
    }
    const uint32_t id = in->as.DROP.table, stage = in->as.DROP.stage;
    if (stage != CLOSE && stage != DROP) {
        return TIDE_EPROTO;
    }
    struct tide_table *table = tide__table_by_id(store, id);
    if (!table) { /* it never was here, or is gone: a new controller resends */
        TIDE_SOMETIMES(drop_of_an_unknown_table);
        say(store, id, (enum stage)stage);
        return 0;
    }
    if (!table->dropping) {
        begin(store, table);
    }
    table->dropping->quiet = false; /* it is to be said, perhaps to another controller */
    if (stage == DROP) {
        take_out(store, table->dropping);
    }
    store->drop_at = 0;
    return 0;
}

static void free_table(struct tide__dropping *d) {
    tide__table_event(d->table, TIDE__TABLE_UNLISTED);
    tide__table_destroy(d->table);
    tide_free(d);
}

/* True: it is gone. */
static bool advance(struct tide_store *store, struct tide__dropping *d, uint64_t now) {
    struct tide_table *table = d->table;
    if ((!d->quiet || d->unreachable) && now - d->since > FAIL_NS) {
        /* when unreachable: begun as it was closed, and never answered */
        TIDE_SOMETIMES(drop_ends_what_waits);
        tide__pending_fail_dropped(table);
    }
    if (!d->out) {
        if (!d->quiet && is_quiet(table)) {
            d->quiet = true;
            if (!TIDE_MUTANT(drop_unanswered) || tide__slab_used(&table->slab) == 0) {
                say(store, table->id, CLOSE);
            }
        }
        return false;
    }
    if (!d->unreachable && atomic_load(&store->table_epoch) - d->epoch >= 2) {
        d->unreachable = true;
        say(store, table->id, DROP);
    }
    /* acquire: pairs with tide_table_release */
    if (!d->unreachable ||
        (atomic_load_explicit(&table->holders, memory_order_acquire) > 0 && !TIDE_MUTANT(drop_frees_held)) ||
        is_pending(store, table)) {
        return false;
    }
    if (tide__table_works(table, TIDE__WORK_FIBERS)) { /* begun as it was closed */
        tide__table_event(table, TIDE__TABLE_ENDS);
        return false;
    }
    free_table(d);
    return true;
}

uint64_t tide__drop_advance(struct tide_store *store) {
    if (!store->dropping) {
        return 0;
    }
    const uint64_t now = tide_port_now(store->port);
    if (now < store->drop_at) {
        return store->drop_at - now;
    }
    next_epoch(store);
    uint64_t again = 0;
    for (struct tide__dropping **at = &store->dropping; *at;) {
        struct tide__dropping *d = *at, *next = d->next;
        if (advance(store, d, now)) {
            *at = next;
            continue;
        }
        const bool waits = d->unreachable || (d->quiet && !d->out);
        const uint64_t look = tide_limit(store_drop_look) * (waits ? 5 : 1); /* held, there is no hurry */
        again = !again || look < again ? look : again;
        at = &d->next;
    }
    store->drop_at = again ? now + again : 0;
    return again;
}

const char *tide__drop_unfinished(const struct tide_store *store) {
    return store->dropping ? store->dropping->table->name : NULL;
}

void tide__drop_release(struct tide_store *store) {
    while (store->dropping) {
        struct tide__dropping *d = store->dropping;
        store->dropping = d->next;
        d->table->dropping = NULL; /* the node has no threads any more */
        if (d->out) {              /* else it is in the list, and goes with that */
            tide__table_destroy(d->table);
        }
        tide_free(d);
    }
}

/* ---- requesters ---- */

int tide_table_drop(struct tide_node *node, const char *name) {
    struct tide_store *store = tide_store_of(node);
    if (!store || !store->net) {
        return tide_fail(TIDE_EUNSUPPORTED, "this node has no cluster that tables could be dropped of");
    }
    if (!name || !tide_identifier_valid(name)) {
        return tide_fail(TIDE_EINVAL, "the name of the table is no identifier");
    }
    return tide__ask_controller(store, TIDE__AS(DROP_TABLE, .name = TIDE__LIST(name, strlen(name))),
                                true); /* busy: its slots move */
}
