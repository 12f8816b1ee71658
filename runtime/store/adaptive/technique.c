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

static const struct tide__operations relocating = {
    .owners = true,
    .walk = tide__walk_owned,
    .hand_over = tide__owner_hand_over,
    .take_back = tide__owner_take_back,
    .job = relocating_job,
};

static int relocating_create(struct tide_table *table, const uint64_t *chains) {
    (void)chains;
    const bool relocates = (tide_technique_relocates(table->options.technique) || table->tier) && table->store->system;
    int code = relocates ? tide__owner_table_init(table) : 0;
    table->relocates = relocates && !code;
    table->operations = table->relocates ? &relocating : table->operations;
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
    } else if (event == TIDE__TABLE_SLOTS_DONE && table->relocates) {
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
    if (!table->relocates) {
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
    .slot_event = relocating_slot,
};

/* ---- hot keys, and intents, by which keys become hot ---- */

static void hot_changed(struct tide_table *table, uint64_t key, uint16_t changer) {
    tide__hot_changed(tide__hot_of(table), key, changer);
}

static int hot_subscribe(struct tide__job *job, uint32_t index) {
    return index == TIDE__ALL_KEYS ? tide__subscribe_job(job) : tide__resubscribe(job, index);
}

static const struct tide__hot_operations hot = {.changed = hot_changed, .subscribe = hot_subscribe};

static int hot_create(struct tide_table *table, const uint64_t *chains) {
    (void)chains;
    table->hot = &hot;
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
        tide__intents_destroy(table);
        tide__interest_destroy(table);
        tide__hot_destroy(table);
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
