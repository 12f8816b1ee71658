/* Operations at other nodes that are not answered yet (pending.c), and how they are sent (remote.c). */
#ifndef TIDE_STORE_PENDING_H
#define TIDE_STORE_PENDING_H

#include "store/core/admission.h"
#include "store/operation/access.h"
#include "store/operation/ticket.h"

enum { TIDE__PENDING_MAX = 1 << 20 };

/* An unanswered message of operations. In the store's list, in order of `sequence`, from
 * registration to the end. */
struct tide__pending {
    struct tide__pending *next, *prev;
    uint64_t id, sequence;
    struct tide_table *table;
    struct tide__ticket *ticket; /* NULL: no waiter any more */
    uint32_t count, left;        /* keys in it; keys not yet answered */
    uint16_t node;               /* where it was sent; this node: to the own store actor */
    /* Static tables: where the store actor or old homes passed parts of it on to. */
    uint16_t *passed, passed_count;
    bool passed_anywhere; /* there was no memory to note where */
    bool busy;            /* an answer is being worked in on the I/O thread */
    uint8_t kind;
    bool raw, subscribes;   /* as its flags say */
    uint32_t stamp, domain; /* push: of its worker */
    /* Owners and groups: per key the node that has it now; 0: answered. NULL: all at `node`. */
    uint16_t *at;
    void *part; /* of the table's operations (technique.h) */
    /* Groups: the message, to be sent again, and where its keys are. */
    struct tide_blob *message;
    uint32_t keys_at;
    uint32_t out;             /* keys at other nodes */
    struct tide__token token; /* given back at its end */
    uint32_t index[];         /* position in the call */
};
/* Groups: key i of its message. */
static inline uint64_t tide__pending_key(const struct tide__pending *p, size_t i) {
    return tide__long_at((const char *)p->message->data + p->keys_at, i);
}
struct tide__pending_table {
    struct tide_lock lock;
    struct tide__pending *first, *last;
    struct tide__pending **by_slot;
    uint32_t *generation;
    uint32_t *free_slots;
    uint32_t capacity, free_count;
    uint64_t sequence;
    uint8_t gone[65536 / 8]; /* bit of a node: dead or left */
};

int tide__remote_start(struct tide__pass *pass, enum tide__kind kind, struct tide__ticket *ticket);

/* Answers of the store actor: a part of an operation is done. `from`: the node that says so, 0 this
 * one; positions NULL: all in order. */
int tide__pending_answer(struct tide_store *store, uint16_t from, uint64_t id, int code, const char *text,
                         const void *positions, size_t count, int rows_code, const void *rows, size_t row_bytes);
/* An id for a message that is being made; it becomes an entry, or is given back with what was made
 * of it. */
int tide__pending_reserve(struct tide__pending_table *table, uint64_t *id);
void tide__pending_unused(struct tide__pending_table *table, struct tide__pending *p);
/* Lock held. Entries were notified of its death: no more may be registered. */
bool tide__pending_is_gone(const struct tide__pending_table *table, uint16_t node);
/* The entry, now in the caller's hands (busy); NULL: unknown or busy. */
struct tide__pending *tide__pending_take(struct tide__pending_table *table, uint64_t id);
/* All of a taken entry that is unanswered has failed; *takes* it. */
void tide__pending_fail(struct tide_store *store, struct tide__pending *p, int code, const char *text);
/* The whole operation was refused. */
void tide__pending_refused(struct tide_store *store, uint64_t id, int code, const char *text);
void tide__pending_passed_on(struct tide_store *store, uint64_t id, uint16_t node);
/* Relocating tables: is any key of an unanswered operation at a node that leaves? */
bool tide__pending_at_leaver(struct tide_table *table);
void tide__pending_node_gone(struct tide_store *store, uint16_t node, const char *text);
/* Is an operation of the table up to `sequence` unanswered? */
bool tide__pending_before(struct tide_store *store, const struct tide_table *table, uint64_t sequence);
/* What was registered last; is a pull or push of the table up to `sequence` unanswered? */
uint64_t tide__pending_newest(struct tide_store *store);
bool tide__pending_older(struct tide_store *store, const struct tide_table *table, uint64_t sequence);
/* Is a push of a worker of the domain unanswered that was made before clock `clock`? */
bool tide__pending_stamped(struct tide_store *store, uint32_t domain, uint32_t clock);
void tide__pending_deinit(struct tide_store *store);

#endif
