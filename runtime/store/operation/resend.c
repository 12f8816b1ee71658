/*
 * Unanswered operations on tables with copies, at their origin: which have to go out again when a
 * group changed. Their messages are kept for it (remote.c). And the end of unanswered operations: of all
 * when this node is a member no more, for no node answers it then; of a table that is dropped.
 */
#include "store/core/send.h"
#include "store/core/table_drop.h"
#include "store/operation/resend.h"
#include "store/rows/slot_index.h"
#include "store/operation/shard.h"

/* Lock held. */
static bool is_affected(const struct tide__pending *p, const uint64_t *moved, uint16_t node) {
    for (uint32_t i = 0; i < p->count; i++) {
        const uint32_t slot = tide__slot_of(p->table, tide__pending_key(p, i));
        if (p->at[i] && ((node && p->at[i] == node) || (moved[slot / 64] >> (slot % 64) & 1))) {
            return true;
        }
    }
    return false;
}

uint64_t *tide__pending_affected(struct tide_table *table, const uint64_t *moved, uint16_t node, size_t *count) {
    struct tide__pending_table *t = &table->store->pending;
    uint64_t *ids = NULL;
    size_t limit = 0;
    *count = 0;
    tide_lock(&t->lock);
    for (struct tide__pending *p = t->first; p; p = p->next) {
        limit += p->table == table;
    }
    ids = limit ? tide_alloc(limit * sizeof *ids) : NULL;
    for (struct tide__pending *p = t->first; p && ids; p = p->next) {
        if (p->table == table && is_affected(p, moved, node)) {
            ids[(*count)++] = p->id;
        }
    }
    tide_unlock(&t->lock);
    if (limit && !ids) {
        tide_log(TIDE_LOG_ERROR, tide_node_name(table->store->node),
                 "no memory to repeat operations on table '%s': they will time out", table->name);
    }
    return ids;
}

bool tide__pending_again(struct tide_store *store, uint64_t id, uint8_t **data, struct tide__job *job,
                         uint32_t **indices, uint32_t *count) {
    struct tide__pending_table *t = &store->pending;
    struct tide__pending *p = tide__pending_take(t, id);
    if (!p) {
        return false; /* answered meanwhile */
    }
    TIDE_SOMETIMES(operation_sent_again);
    const size_t size = p->message->size;
    *data = tide_alloc(size);
    *indices = tide_alloc(p->count * sizeof **indices);
    *count = 0;
    if (*data) {
        memcpy(*data, p->message->data, size);
    }
    bool good = *data && *indices && tide__job_parse(*data, size, store, job) == 0;
    tide_lock(&t->lock);
    for (uint32_t i = 0; good && i < p->count; i++) {
        if (p->at[i]) {
            (*indices)[(*count)++] = i;
        }
    }
    job->low = t->first->sequence;
    p->busy = false;
    tide_unlock(&t->lock);
    job->own = true;
    job->map_version = (uint32_t)atomic_load_explicit(&job->table->map_version, memory_order_relaxed);
    if (!good) {
        tide_free(*data);
        tide_free(*indices);
        tide__pending_refused(store, id, TIDE_ENOMEM, "no memory to repeat an operation");
    }
    return good;
}

void tide__pending_moved(struct tide_store *store, uint64_t id, uint32_t position, uint16_t node) {
    struct tide__pending_table *t = &store->pending;
    const uint16_t self = tide__store_self(store);
    const uint32_t slot = (uint32_t)id;
    tide_lock(&t->lock);
    struct tide__pending *p = slot < t->capacity ? t->by_slot[slot] : NULL;
    if (p && p->id == id && p->at && position < p->count && p->at[position] && node) {
        p->out += node != self;
        p->out -= p->at[position] != self;
        p->at[position] = node;
    }
    tide_unlock(&t->lock);
}

int tide__lost_fail(struct tide_table *table, uint32_t slot, uint64_t key) {
    char name[96];
    uint32_t route = atomic_load_explicit(&table->slots[slot].route, memory_order_relaxed);
    tide__node_text(table->store, tide__route_home(route), name);
    return tide_fail(TIDE_ELOST,
                     "key %llu (slot %u) of table '%s' is lost: node %s died, and no copy was "
                     "left; start again from what was saved last",
                     (unsigned long long)key, (unsigned)slot, table->name, name);
}

int tide__fenced_fail(struct tide_store *store) {
    int code = atomic_load_explicit(&store->fenced, memory_order_relaxed);
    return tide_fail(code, "%s",
                     code == TIDE_EFENCED ? "this node was declared dead, or lost the controller: "
                                            "it has to be started again"
                                          : "this node has left its cluster");
}

/* An unanswered operation of the table, NULL: of any, that is not busy; 0: there is none. */
static uint64_t unanswered(struct tide_store *store, const struct tide_table *table) {
    struct tide__pending_table *t = &store->pending;
    uint64_t id = 0;
    tide_lock(&t->lock);
    for (const struct tide__pending *p = t->first; p && !id; p = p->next) {
        id = p->busy || (table && p->table != table) ? 0 : p->id;
    }
    tide_unlock(&t->lock);
    return id;
}

void tide__pending_fenced(struct tide_store *store) {
    for (uint64_t id; (id = unanswered(store, NULL)) != 0;) {
        int code = tide__fenced_fail(store);
        tide__pending_refused(store, id, code, tide_error_message());
    }
}

void tide__pending_fail_dropped(struct tide_table *table) {
    for (uint64_t id; (id = unanswered(table->store, table)) != 0;) {
        int code = tide__table_dropped(table);
        tide__pending_refused(table->store, id, code, tide_error_message());
    }
}
