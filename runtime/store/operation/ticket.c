/*
 * Tickets: one operation of a caller, which may be many messages (remote.c). A ticket counts those
 * that are unanswered, keeps the first failure, and wakes the fiber that waits for it.
 *
 * An entry is `busy` while an answer is worked in; the setter owns it. A caller that times out
 * (killed, timed out) detaches its ticket from entries that are not busy and waits for those that
 * are.
 */
#include "store/core/technique.h"
#include "store/core/send.h"
#include "tide/stats.h"

#define COUNT_MASK UINT64_C(0xffff)
#define FIBER_MASK UINT64_C(0x7fffffffffff)

_Static_assert(sizeof(struct tide__ticket) <= sizeof(struct tide_ticket), "a ticket lies in the public one");

void tide__ticket_init(struct tide__ticket *ticket, struct tide_table *table, enum tide__kind kind, float *rows) {
    memset(ticket, 0, sizeof *ticket);
    ticket->table = table;
    ticket->rows = rows;
    ticket->kind = (uint8_t)kind;
}

static struct tide_fiber *ticket_fiber(uint64_t state) {
    return (struct tide_fiber *)(uintptr_t)((state >> 16) & FIBER_MASK);
}

/* Keeps the first failure. Only the owner of a busy entry of the ticket, or its caller, comes here.
 */
void tide__ticket_error(struct tide__ticket *ticket, int code, const char *text) {
    int none = 0;
    if (code && atomic_compare_exchange_strong(&ticket->result, &none, code)) {
        ticket->text = text ? tide_strdup(text) : NULL;
    }
}

/* One message is done. After the last the ticket is not touched any more: its memory may be gone.
 */
void tide__ticket_finish(struct tide__ticket *ticket, int code, const char *text) {
    tide__ticket_error(ticket, code, text);
    uint64_t old = atomic_load_explicit(&ticket->state, memory_order_relaxed), next;
    do {
        TIDE_ASSERT(old & COUNT_MASK);
        next = (old & COUNT_MASK) == 1 ? 0 : old - 1;
        /* release: rows, result and text before the count; pairs with the acquires of done and wait
         */
    } while (
        !atomic_compare_exchange_weak_explicit(&ticket->state, &old, next, memory_order_acq_rel, memory_order_relaxed));
    if (next == 0 && ticket_fiber(old)) {
        tide_fiber_wake(ticket_fiber(old)); /* it may have gone on by itself already: a late wake does no harm */
    }
}

/* Takes the ticket away from whatever is still unanswered. */
static void ticket_detach(struct tide__ticket *ticket) {
    struct tide__pending_table *pending = &ticket->table->store->pending;
    for (;;) {
        bool busy = false;
        tide_lock(&pending->lock);
        for (struct tide__pending *p = pending->first; p; p = p->next) {
            if (p->ticket == ticket && p->busy) {
                busy = true;
            } else if (p->ticket == ticket) {
                p->ticket = NULL;
            }
        }
        tide_unlock(&pending->lock);
        if (!busy) {
            return;
        }
        tide_pause();
    }
}

static int ticket_result(struct tide__ticket *ticket) {
    int code = atomic_load_explicit(&ticket->result, memory_order_relaxed);
    char *text = ticket->text;
    ticket->text = NULL;
    if (code == TIDE_EBUSY) { /* of a home; its text says why */
        tide_fail_busy(tide_tier_retry_ms(TIDE_TIER_FULL), "%s", text ? text : "EBUSY");
    } else if (code) {
        tide_fail(code, "%s", text ? text : tide_error_name(code));
    }
    tide_free(text);
    return code;
}

/* A fiber was suspended for it from `began` on. */
static void note_wait(struct tide__ticket *ticket, uint64_t began) {
    struct tide_table *table = ticket->table;
    unsigned bucket = tide_wait_bucket(tide_port_now(table->store->port) - began);
    atomic_fetch_add_explicit(&table->waits[ticket->kind == TIDE__PUSH][bucket], 1, memory_order_relaxed);
}

void tide_table_waits(struct tide_table *table, struct tide_table_waits *out) {
    for (unsigned i = 0; i < TIDE_WAIT_BUCKETS; i++) {
        out->pull[i] = atomic_load_explicit(&table->waits[0][i], memory_order_relaxed);
        out->push[i] = atomic_load_explicit(&table->waits[1][i], memory_order_relaxed);
    }
}

int tide__ticket_wait(struct tide__ticket *ticket) {
    struct tide_fiber *self = tide_fiber_current();
    uint64_t deadline = 0;
    for (;;) {
        uint64_t state = atomic_load_explicit(&ticket->state, memory_order_acquire); /* with tide__ticket_finish */
        if (state == 0) {
            if (deadline && (ticket->kind == TIDE__PULL || ticket->kind == TIDE__PUSH)) {
                note_wait(ticket, deadline - tide_limit(store_operation_timeout));
            }
            return ticket_result(ticket);
        }
        if (!self) {
            ticket_detach(ticket);
            tide_free(ticket->text);
            return tide_fail(TIDE_EINVAL, "only a fiber can wait for keys of other nodes");
        }
        if (!ticket_fiber(state)) {
            uint64_t next = state | (uint64_t)(uintptr_t)self << 16;
            /* release: the fiber before the last finish reads it */
            if (!atomic_compare_exchange_weak_explicit(&ticket->state, &state, next, memory_order_release,
                                                       memory_order_relaxed)) {
                continue;
            }
        }
        if (!deadline) {
            deadline = tide_port_now(ticket->table->store->port) + tide_limit(store_operation_timeout);
        }
        int code = tide_fiber_suspend(deadline, ticket->table->why[ticket->kind == TIDE__PUSH]);
        if (code && atomic_load_explicit(&ticket->state, memory_order_acquire) != 0) {
            ticket_detach(ticket);
            tide_free(ticket->text);
            atomic_store_explicit(&ticket->state, 0, memory_order_relaxed);
            return tide__store_gave_up(code, ticket->table->why[ticket->kind == TIDE__PUSH], "no answer");
        }
    }
}

bool tide_ticket_done(const struct tide_ticket *ticket) {
    const struct tide__ticket *t = (const struct tide__ticket *)(const void *)ticket;
    if (t->kind == TIDE__CLOCKED) { /* what was not here is read when it is waited for */
        return !t->text;
    }
    return atomic_load_explicit(&t->state, memory_order_acquire) == 0; /* with tide__ticket_finish */
}

void tide_ticket_abandon(struct tide_ticket *ticket) {
    struct tide__ticket *t = (struct tide__ticket *)(void *)ticket;
    if (atomic_load_explicit(&t->state, memory_order_acquire) != 0) { /* with tide__ticket_finish */
        ticket_detach(t);
    }
    tide_free(t->text);
    t->text = NULL;
}
