/* Between move.c (what nodes do when slots move) and move_plan.c (what the controller does). I/O thread
 * 0. */
#ifndef TIDE_STORE_MOVE_H
#define TIDE_STORE_MOVE_H

#include "store/slots/catalog.h"
#include "store/core/technique.h"
#include "store/rows/cut.h"

struct batch;
struct tide__request;
struct leaver;
struct slot_receive;
struct slot_send;
struct told;

extern const struct tide__technique tide__slots;
/* Messages of moves to the store actor; message.def. */
tide__handler tide__move_map, tide__map_done_message, tide__expect_message, tide__expected_message, tide__move_message,
    tide__moved_message, tide__rows_message, tide__slot_done_message, tide__slot_here_message, tide__drained_message,
    tide__request_call, tide__flush_message, tide__flushed_message;

struct tide__moves {
    struct slot_receive *receives;
    struct slot_send *sends;
    struct batch *batches;
    struct leaver *leavers;
    uint32_t recording; /* changes of maps that are not recorded yet: nothing may follow from them */
    bool planning;
    struct told *told; /* groups.c: changes of groups that are recorded, and to be announced */
    uint32_t fences;
    uint32_t answers;  /* tables with map_rounds */
    uint32_t rounds;   /* controller: of MAP, so far */
    uint64_t barriers; /* asked for, so far */
};

/* A message of the fields of MOVE, as most about slots have; logged if it cannot be sent. */
void tide__move_send(struct tide_store *store, uint16_t to, enum tide__op op, uint32_t table, uint32_t version,
                     uint16_t node, const uint32_t *slots, size_t count, const uint32_t *lost, size_t lost_count);

/* ---- move.c: slots change their home ---- */
int tide__moves_create(struct tide_store *store);
void tide__moves_destroy(struct tide_store *store);
/* The state of a member is new, and all techniques have been notified: what follows for slots. */
void tide__moves_settle(struct tide_store *store, const struct tide_member *member);
/* Looks for work that other events made possible: fences to lift, departures to continue, slots to
 * plan. */
void tide__moves_advance(struct tide_store *store);
/* The controller: the same for its plans. */
void tide__plan_advance(struct tide_store *store);
bool tide__moves_waiting(const struct tide_store *store); /* fences or departures exist */
/* Changes of routes, between begin and end: under the pending lock. */
void tide__routes_begin(struct tide_table *table);
void tide__routes_end(struct tide_table *table);
void tide__route_set(struct tide_table *table, uint32_t slot, uint32_t route);
void tide__route_clear(struct tide_table *table, uint32_t slot, uint32_t flags); /* on its own */
/* Of an awaited slot: its home so far. */
uint16_t tide__slot_comes_from(const struct tide_table *table, uint32_t slot);
void tide__raise_version(struct tide_table *table, uint32_t version);
/* Workers hand over what they have for the slots until all they handed over has run. ENOMEM. */
int tide__fence_workers(struct tide_table *table, const uint32_t *slots, size_t count);

/* ---- move_plan.c: the controller ---- */
void tide__plan_member(struct tide_store *store, const struct tide_member *member);
void tide__plan_expected(struct tide_store *store, uint32_t table, uint32_t version);
void tide__plan_moved(struct tide_store *store, uint32_t table, uint32_t version, const uint8_t *lost,
                      size_t lost_count);
/* MAP_DONE of one table, for the leaver or batch of that round; round 0: all of them, the node is
 * gone. */
void tide__plan_answered(struct tide_store *store, uint16_t node, uint32_t table, uint32_t round);
/* Begins to move the slots with plan[slot] == to from `from`; none: does nothing. ENOMEM. */
int tide__plan_batch(struct tide_store *store, struct tide__catalog_entry *entry, uint16_t from, uint16_t to,
                     const uint16_t *plan, struct tide__request *request);
/* Sets the slots of a table that are on the move, or were, unknown to some node. */
void tide__plan_moving(const struct tide_store *store, uint32_t table, bool moving[TIDE_SLOT_COUNT]);
bool tide__plan_has(const struct tide_store *store, uint32_t table); /* slots are on the move */
void tide__plan_drained(struct tide_store *store, uint16_t node);
void tide__plan_release(struct tide_store *store);
/* A change of maps or groups is recorded (one of `recording`), or code: it cannot be. */
void tide__plan_recorded(struct tide_store *store, int code);
/* This node becomes the controller: leavers are found among the members. */
void tide__plan_begin(struct tide_store *store);
/* Reads back the unfinished batches; their new homes are notified by the
 * next tide__plan_resume, when the members are known. */
int tide__plan_load(struct tide_store *store);
void tide__plan_resume(struct tide_store *store);

/* ---- slot_send.c: slots leave this node ---- */

/* MOVE: `count` slots, unaligned u32. */
void tide__slot_send_begin(struct tide_store *store, struct tide_table *table, uint32_t version, uint16_t to,
                           const uint8_t *slots, size_t count);
void tide__slot_sends_advance(struct tide_store *store);
void tide__slot_sends_flushed(struct tide_store *store, uint16_t from, uint64_t turn);
/* SLOT_DONE and SLOT_HERE: [op, table, slot, version, lost to, or 0]. */
int tide__slot_say(struct tide_table *table, uint16_t to, enum tide__op op, uint32_t slot, uint32_t version,
                   uint16_t lost_to);
bool tide__slot_sends_has(const struct tide_store *store, const struct tide_table *table);
/* The new home has the slot. */
void tide__slot_send_came(struct tide_store *store, const struct tide_table *table, uint32_t slot);
/* What was to go there stays: the node is gone. */
void tide__slot_sends_end(struct tide_store *store, uint16_t to);
void tide__slot_sends_release(struct tide_store *store);

/* ---- flush_barrier.c: has what was sent been dealt with? ---- */

/* Of all members, behind everything that was sent to them before. */
struct tide__flush_barrier {
    uint64_t turn;                    /* 0: never asked */
    uint8_t awaited[TIDE__NODES / 8]; /* a bit of each node that has not answered */
};
void tide__flush_barrier_ask(struct tide_store *store, struct tide__flush_barrier *barrier); /* anew */
bool tide__flush_barrier_came(const struct tide_store *store, const struct tide__flush_barrier *barrier);
void tide__flush_barrier_hear(struct tide__flush_barrier *barrier, uint16_t from, uint64_t turn);

/* ---- drain.c: this node leaves ---- */
/* Looks whether rows of other homes are still here, or in flight from here. */
void tide__drain_advance(struct tide_store *store);
void tide__drain_flushed(struct tide_store *store, uint16_t from, uint64_t turn);
/* The controller is another one: it has to be notified once more. */
void tide__drain_again(struct tide_store *store);

/* ---- move_request.c: requested moves of slots ---- */

void tide__request_begins(struct tide__request *request); /* a batch */
/* A batch has ended: the last one answers. */
void tide__request_part(struct tide_store *store, struct tide__request *request, int code, uint16_t to);

#endif
