/*
 * Message blocks: three size classes from slabs of the scheduler that creates them, larger ones from the heap.
 * A block freed on another thread goes home in batches: up to 32 of one pool travel in one exchange, because a
 * malloc here and a free there costs six times as much (docs/internals/performance.md).
 */
#include "actor/internal.h"

static const uint32_t class_bytes[MESSAGE_CLASSES] = {224, 640, 4224};
enum { SLAB_BYTES = 64 << 10, SLAB_HEAD = 64, GIVE_BACK_MAX = 32, HEAP_CLASS = MESSAGE_CLASSES };

static unsigned class_of(size_t total) {
    for (unsigned i = 0; i < MESSAGE_CLASSES; i++) {
        if (total <= class_bytes[i]) {
            return i;
        }
    }
    return HEAP_CLASS;
}

/* A block that was never used. A slab's memory is touched as it is needed: many take a few blocks of one. */
static struct message *fresh_block(struct scheduler *s, unsigned size_class) {
    struct fresh_blocks *fresh = &s->fresh[size_class];
    if (fresh->left == 0) {
        char *slab = tide_alloc(SLAB_BYTES);
        if (!slab) {
            return NULL;
        }
        *(void **)(void *)slab = s->message_slabs;
        s->message_slabs = slab;
        fresh->at = slab + SLAB_HEAD;
        fresh->left = (SLAB_BYTES - SLAB_HEAD) / class_bytes[size_class];
    }
    struct message *m = (struct message *)(void *)fresh->at;
    fresh->at += class_bytes[size_class];
    fresh->left--;
    m->pool = s;
    m->size_class = (uint8_t)size_class;
    return m;
}

static void take_freed(struct scheduler *s) {
    /* acquire: pairs with the release in give_back, so that the freeing thread's last reads are over */
    struct message *m = atomic_exchange_explicit(&s->freed, NULL, memory_order_acquire);
    while (m) {
        struct message *next = m->next;
        m->next = s->free_messages[m->size_class];
        s->free_messages[m->size_class] = m;
        m = next;
    }
}

struct message *message_create(struct scheduler *pool, size_t inline_bytes) {
    size_t total = sizeof(struct message) + inline_bytes;
    unsigned size_class = !pool ? HEAP_CLASS : class_of(total);
    struct message *m;
    if (size_class == HEAP_CLASS) {
        m = tide_alloc(total);
        if (!m) {
            return NULL;
        }
        m->pool = NULL;
        m->size_class = HEAP_CLASS;
    } else {
        if (!pool->free_messages[size_class]) {
            take_freed(pool);
        }
        m = pool->free_messages[size_class];
        if (m) {
            pool->free_messages[size_class] = m->next;
        } else if (!(m = fresh_block(pool, size_class))) {
            return NULL;
        }
    }
    m->next = NULL;
    m->owner = NULL;
    m->account = NULL;
    m->queued_at = 0; /* also fiber */
    m->credit_bytes = 0;
    m->posted = false;
    m->op = OP_MESSAGE;
    return m;
}

static void give_back(struct scheduler *target, struct message *head, struct message *tail) {
    struct message *old = atomic_load_explicit(&target->freed, memory_order_relaxed);
    do {
        tail->next = old;
        /* release: pairs with take_freed */
    } while (
        !atomic_compare_exchange_weak_explicit(&target->freed, &old, head, memory_order_release, memory_order_relaxed));
}

void message_pool_flush(struct scheduler *s) {
    if (s->give_back.count > 0) {
        give_back(s->give_back.target, s->give_back.head, s->give_back.tail);
        s->give_back.count = 0;
        s->give_back.head = s->give_back.tail = NULL;
    }
}

static void free_elsewhere(struct scheduler *s, struct message *m) {
    if (!s) {
        give_back(m->pool, m, m);
        return;
    }
    if (s->give_back.count > 0 && s->give_back.target != m->pool) {
        message_pool_flush(s);
    }
    s->give_back.target = m->pool;
    m->next = s->give_back.head;
    s->give_back.head = m;
    if (!s->give_back.tail) {
        s->give_back.tail = m;
    }
    if (++s->give_back.count == GIVE_BACK_MAX) {
        message_pool_flush(s);
    }
}

static void settle_credit(struct message *m) {
    struct tide_credit_account *account = m->account;
    atomic_fetch_add_explicit(&account->consumed[m->u.in.lane], m->credit_bytes, memory_order_relaxed);
    struct scheduler *s = tide__scheduler;
    if (s && s->role != TIDE_ROLE_IO) { /* the link grants credit in its flush: see that one comes */
        tide_executor_wake(s->system->port, s->system->schedulers[0]->executor);
    }
    if (atomic_fetch_sub_explicit(&account->refs, 1, memory_order_acq_rel) == 1) {
        account->release(account);
    }
}

void message_destroy(struct message *m) {
    if (m->op == OP_OUTGOING && m->u.out.tail) {
        tide_blob_unref(m->u.out.tail);
    }
    if (m->owner) {
        tide_blob_unref(m->owner);
    }
    if (m->account) {
        settle_credit(m);
    }
    struct scheduler *s = tide__scheduler;
    if (!m->pool) {
        tide_free(m);
    } else if (m->pool == s) {
        m->next = s->free_messages[m->size_class];
        s->free_messages[m->size_class] = m;
    } else {
        free_elsewhere(s, m);
    }
}

void message_pool_release(struct scheduler *s) {
    while (s->message_slabs) {
        void *next = *(void **)s->message_slabs;
        tide_free(s->message_slabs);
        s->message_slabs = next;
    }
}

void tide_outgoing_free(struct tide_outgoing *outgoing) {
    message_destroy(TIDE_CONTAINER(outgoing, struct message, u.out));
}

void tide_outgoing_free_all(struct tide_outgoing *first) {
    while (first) {
        struct tide_outgoing *next = first->next;
        tide_outgoing_free(first);
        first = next;
    }
}

void tide_message_free(const struct tide_message *message) {
    if (message) {
        message_destroy(message_of(message));
    }
}

struct tide_blob *tide_message_blob(const struct tide_message *message) {
    return message_of(message)->owner;
}

/* ---- blobs ---- */

static void release_own(struct tide_blob *blob) {
    tide_free(blob);
}

/* Blobs of about a frame's size that are unused, for the next request: the C library gives such memory back to the
 * system, and to touch it anew costs as much as the copying for which it is asked. A sanitizer is to see them freed. */
enum { SPARE_BYTES = 264 << 10, SPARE_LEAST = 128 << 10, SPARES_MAX = 8 };
static struct {
    struct tide_lock lock;
    struct tide_blob *at[SPARES_MAX];
    size_t count;
} spares;

static bool is_kept(size_t size) {
#if defined(TIDE_ASAN) || defined(TIDE_TSAN)
    (void)size;
    return false;
#else
    return size >= SPARE_LEAST && size <= SPARE_BYTES && !tide__memory_refuses;
#endif
}

static void release_spare(struct tide_blob *blob) {
    tide_lock(&spares.lock);
    const bool room = spares.count < SPARES_MAX;
    if (room) {
        spares.at[spares.count++] = blob;
    }
    tide_unlock(&spares.lock);
    if (!room) {
        tide_free(blob);
    }
}

static struct tide_blob *take_spare(void) {
    tide_lock(&spares.lock);
    struct tide_blob *blob = spares.count > 0 ? spares.at[--spares.count] : NULL;
    tide_unlock(&spares.lock);
    return blob;
}

struct tide_blob *tide_blob_create(size_t size) {
    const bool kept = is_kept(size);
    struct tide_blob *blob = kept ? take_spare() : NULL;
    blob = blob ? blob : tide_alloc(sizeof *blob + (kept ? SPARE_BYTES : size));
    if (blob) {
        *blob = (struct tide_blob){
            .data = blob + 1, .size = size, .release = kept ? release_spare : release_own, .refs = 1};
    }
    return blob;
}

struct slice {
    struct tide_blob blob;
    struct tide_blob *of;
};

static void release_slice(struct tide_blob *blob) {
    struct slice *slice = TIDE_CONTAINER(blob, struct slice, blob);
    tide_blob_unref(slice->of);
    tide_free(slice);
}

struct tide_blob *tide_blob_slice(struct tide_blob *of, const void *data, size_t size) {
    struct slice *slice = tide_alloc(sizeof *slice);
    if (!slice) {
        return NULL;
    }
    slice->blob =
        (struct tide_blob){.data = (void *)(uintptr_t)data, .size = size, .release = release_slice, .refs = 1};
    slice->of = tide_blob_ref(of);
    return &slice->blob;
}

struct tide_blob *tide_blob_ref(struct tide_blob *blob) {
    __atomic_fetch_add(&blob->refs, 1, __ATOMIC_RELAXED);
    return blob;
}

void tide_blob_unref(struct tide_blob *blob) {
    /* acq_rel: the last one sees all that others did with the bytes before it frees them */
    if (blob && __atomic_fetch_sub(&blob->refs, 1, __ATOMIC_ACQ_REL) == 1) {
        blob->release(blob);
    }
}
