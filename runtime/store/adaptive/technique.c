/* Relocation and hot keys as techniques of the store (technique.h). */
#include "store/adaptive/hot_keys.h"
#include "store/adaptive/intent.h"
#include "store/adaptive/location_cache.h"
#include "store/adaptive/owner.h"

/* ---- rows that relocate ---- */

static const struct tide__operations relocating = {
    .hand_over = tide__owner_hand_over,
    .take_back = tide__owner_take_back,
    .where = tide__owner_of,
    .job = tide__owner_job,
    .returned = tide__locations_returned,
    .answered = tide__locations_answered,
    .slot_send = tide__owner_depart,
    .slot_clear = tide__owner_clear,
    .slot_settled = tide__owner_wish_again,
    .slot_opens = tide__owner_release_slot,
    .finish = tide__owner_finish,
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

static uint64_t relocating_rest(struct tide_store *store) {
    tide__locations_retry(store);
    return 0;
}

/* This node may learn of the death of a home before it learns which slots moved there. */
static void dead_homes(struct tide_table *table, const uint8_t *slots, size_t count) {
    for (size_t i = 0; i < count && table->relocates; i++) {
        const uint32_t slot = tide__number_at(slots, i);
        const uint32_t route = tide__route_of(table, slot);
        const uint16_t home = tide__route_home(route);
        if (!(route & TIDE__MINE) && tide__member_gone(table->store, home) && !TIDE_MUTANT(dead_home_mapped)) {
            tide__loss_home(table, slot, home);
        }
    }
    if (table->relocates) {
        tide__owner_finish(table);
    }
}

const struct tide__technique tide__relocating = {
    .name = "relocating",
    .member = relocating_member,
    .rest = relocating_rest,
    .leave = tide__owner_leave,
    .table_create = relocating_create,
    .table_destroy = tide__owner_table_deinit,
    .table_idle = tide__owner_idle,
    .homes_told = dead_homes,
};

/* ---- hot keys, and intents, by which keys become hot ---- */

static int hot_operate(struct tide_table *table, struct tide__pass *pass, enum tide__kind kind,
                       struct tide__ticket *ticket, bool wait) {
    return tide__hot_operate(tide__hot_of(table), pass, kind, ticket, wait);
}

static void hot_changed(struct tide_table *table, uint64_t key, uint16_t changer) {
    tide__hot_changed(tide__hot_of(table), key, changer);
}

static const struct tide__hot_operations hot = {
    .operate = hot_operate,
    .read = tide__hot_read,
    .stays = tide__hot_stays,
    .changed = hot_changed,
    .subscribe = tide__subscribe_job,
    .resubscribe = tide__resubscribe,
};

static int hot_create(struct tide_table *table, const uint64_t *chains) {
    (void)chains;
    table->hot = &hot;
    return 0;
}

static void hot_destroy(struct tide_table *table) {
    tide__intents_destroy(table);
    tide__interest_destroy(table);
    tide__hot_destroy(table);
}

static void hot_end(struct tide_table *table) {
    tide__hot_end(table);
    tide__intents_end(table);
}

static bool hot_ended(struct tide_table *table) {
    return tide__hot_ended(table) && tide__intents_ended(table);
}

static bool hot_leave(struct tide_store *store, bool offer) {
    (void)offer;
    return tide__hot_gone(store); /* updates in copies go to the owners */
}

const struct tide__technique tide__hot_keys = {
    .name = "hot keys",
    .member = tide__hot_member,
    .leave = hot_leave,
    .welcome = tide__technique_order_tell,
    .table_create = hot_create,
    .table_destroy = hot_destroy,
    .table_begins = tide__hot_table,
    .table_again = tide__technique_order_recall,
    .table_ends = hot_end,
    .table_ended = hot_ended,
    .slot_forgotten = tide__hot_slot_left,
};
