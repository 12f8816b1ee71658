/* Relocation and hot keys as techniques of the store (technique.h). */
#include "store/adaptive/hot_keys.h"
#include "store/adaptive/intent.h"
#include "store/adaptive/location_cache.h"
#include "store/adaptive/owner.h"

/* ---- rows that relocate ---- */

static bool relocating_job(struct tide__job *job) {
    /* An own operation comes back from where it went straight; perhaps it was answered meanwhile. */
    const bool returns = tide__job_straight(job) && job->origin == tide__store_self(job->table->store);
    if (TIDE_LIKELY(!returns) || tide__locations_returned(job)) {
        tide__owner_job(job);
    }
    return true;
}

static void relocating_begins(struct tide__pending *p, const void *keys, bool async) {
    (void)async;
    struct tide__owned *o = p->part;
    for (uint32_t i = 0; i < p->count; i++) {
        o->keys[i] = (struct tide__owned_key){.key = 0};
        memcpy(&o->keys[i].key, (const char *)keys + (size_t)i * sizeof o->keys[i].key, sizeof o->keys[i].key);
    }
}

/* The key is at that node, or that node was to pass it on and perhaps died before the message was out. */
static bool hangs_on(const struct tide__pending *p, uint32_t i, uint16_t node) {
    const struct tide__owned *o = p->part;
    return p->at[i] == node || (p->at[i] && o->keys[i].way.via == node && !TIDE_MUTANT(reloc_passer_forgotten));
}

/* What has not left this node waits in the store actor itself. */
static bool left(const struct tide__pending *p, uint64_t sequence) {
    const struct tide__owned *o = p->part;
    return p->out && o->sent <= sequence;
}

static void relocating_ends(struct tide__pending *p) {
    const struct tide__owned *o = p->part;
    if (o->waited_for) {
        tide__owners_of(p->table)->look_again = true;
        p->table->store->look_again = true;
    }
}

static void relocating_stats(struct tide_table *table, struct tide_table_stats *out) {
    const struct tide__owners *o = tide__owners_of(table);
    out->relocate_ns_max = o ? atomic_load_explicit(&o->relocate_max_ns, memory_order_relaxed) : 0;
    for (size_t i = 0; o && i < TIDE_RELOCATE_BUCKETS; i++) {
        out->relocate_hist[i] = atomic_load_explicit(&o->relocate_hist[i], memory_order_relaxed);
    }
}

static const struct tide__operations relocating = {
    .owners = true,
    .walk = tide__walk_owned,
    .hand_over = tide__owner_hand_over,
    .take_back = tide__owner_take_back,
    .part_bytes = sizeof(struct tide__owned),
    .part_key_bytes = sizeof(struct tide__owned_key),
    .begins = relocating_begins,
    .ends = relocating_ends,
    .hangs_on = hangs_on,
    .left = left,
    .job = relocating_job,
};

static int relocating_create(struct tide_table *table, const uint64_t *chains) {
    (void)chains;
    const bool relocates =
        (tide_technique_relocates(table->options.technique) || tide__tiered_of(table)) && table->store->system;
    int code = relocates ? tide__owner_table_init(table) : 0;
    table->operations = tide__owners_of(table) ? &relocating : table->operations;
    return code;
}

static void relocating_member(struct tide_store *store, const struct tide_member *member) {
    if (member->state == TIDE_MEMBER_DEAD || member->state == TIDE_MEMBER_LEFT) {
        tide__owner_member_gone(store, member->id);
    }
}

static uint64_t relocating_end_of_turn(struct tide_store *store) {
    tide__locations_retry(store);
    return 0;
}

static void relocating_event(struct tide_table *table, enum tide__table_event event) {
    if (event == TIDE__TABLE_FREED) {
        tide__owner_table_deinit(table);
    } else if (event == TIDE__TABLE_SLOTS_DONE && table->operations->owners) {
        tide__owner_finish(table);
    }
}

static bool relocating_works(struct tide_table *table, enum tide__table_work work) {
    return work == TIDE__WORK_IN_FLIGHT && !tide__owner_idle(table);
}

/* This node may learn of the death of a home before it learns which slots moved there. */
static void home_announced(struct tide_table *table, uint32_t slot) {
    const uint32_t route = tide__route_of(table, slot);
    const uint16_t home = tide__route_home(route);
    if (!(route & TIDE__MINE) && tide__member_gone(table->store, home) && !TIDE_MUTANT(dead_home_mapped)) {
        tide__loss_home(table, slot, home);
    }
}

static int relocating_slot(struct tide_table *table, enum tide__slot_event event, uint32_t slot, uint16_t to) {
    int code = 0;
    if (!table->operations->owners) {
        return 0;
    }
    switch (event) {
    case TIDE__SLOT_HOME_ANNOUNCED:
        home_announced(table, slot);
        break;
    case TIDE__SLOT_SENDS_ROWS:
        code = tide__owner_depart(table, slot, to);
        return code ? code : 1;
    case TIDE__SLOT_CLEARED:
        tide__owner_clear(table, slot);
        return 1;
    case TIDE__SLOT_SETTLED:
        tide__owner_wish_again(table, slot);
        break;
    case TIDE__SLOT_OPENED:
        tide__owner_release_slot(table, slot);
        break;
    default:
        break;
    }
    return 0;
}

const struct tide__technique tide__relocating = {
    .name = "relocating",
    .member_changed = relocating_member,
    .end_of_turn = relocating_end_of_turn,
    .has_left = tide__owner_leave,
    .table_create = relocating_create,
    .table_event = relocating_event,
    .table_works = relocating_works,
    .table_stats = relocating_stats,
    .slot_event = relocating_slot,
};

/* ---- hot keys, and intents, by which keys become hot ---- */

static int hot_subscribe(struct tide__job *job, uint32_t index) {
    return index == TIDE__ALL_KEYS ? tide__subscribe_job(job) : tide__resubscribe(job, index);
}

static int hot_create(struct tide_table *table, const uint64_t *chains) {
    (void)chains;
    struct tide__hot_part *part = table->parts[TIDE__PART_HOT] = tide_alloc_zero(1, sizeof *part);
    if (!part) {
        return tide_fail(TIDE_ENOMEM, "no memory for table '%s'", table->name);
    }
    part->face.changed = tide__hot_changed;
    part->face.subscribe = hot_subscribe;
    return 0;
}

static void hot_event(struct tide_table *table, enum tide__table_event event) {
    switch (event) {
    case TIDE__TABLE_BEGINS:
        tide__hot_table(table);
        break;
    case TIDE__TABLE_REANNOUNCED:
        tide__technique_order_recall(table);
        break;
    case TIDE__TABLE_ENDS:
        tide__hot_end(table);
        tide__intents_end(table);
        break;
    case TIDE__TABLE_FREED:
        if (tide__hot_part(table)) {
            tide__intents_destroy(table);
            tide__node_sets_free(&tide__hot_part(table)->interest);
            tide__hot_destroy(table);
            tide_free(tide__hot_part(table));
        }
        break;
    default:
        break;
    }
}

static bool hot_works(struct tide_table *table, enum tide__table_work work) {
    return work == TIDE__WORK_FIBERS && !(tide__hot_ended(table) && tide__intents_ended(table));
}

static int hot_slot(struct tide_table *table, enum tide__slot_event event, uint32_t slot, uint16_t to) {
    (void)to;
    if (event == TIDE__SLOT_FORGOTTEN) {
        tide__hot_slot_left(table, slot);
    }
    return 0;
}

static bool hot_has_left(struct tide_store *store, bool offer) {
    (void)offer;
    return tide__hot_gone(store); /* updates in copies go to the owners */
}

const struct tide__technique tide__hot_keys = {
    .name = "hot keys",
    .member_changed = tide__hot_member,
    .has_left = hot_has_left,
    .table_create = hot_create,
    .table_event = hot_event,
    .table_works = hot_works,
    .slot_event = hot_slot,
};
