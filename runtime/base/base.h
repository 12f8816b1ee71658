/* The ground floor: memory, error slots, assertions, locks, random streams, hashing. Uses no other room. */
#ifndef TIDE_BASE_H
#define TIDE_BASE_H

#include "base/watch.h"
#include "tide/actor.h"
#include "tide/package.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- assertions (on in release: our own bugs, never a caller's mistake) ---- */
_Noreturn void tide__assert_failed(const char *expression, const char *file, int line);
#define TIDE_ASSERT(e) ((e) ? (void)0 : tide__assert_failed(#e, __FILE__, __LINE__))
/* One that costs to test: tested in the simulator alone, a branch elsewhere. */
#define TIDE_INVARIANT(e) (!TIDE_WATCHED || (e) ? (void)0 : tide__assert_failed(#e, __FILE__, __LINE__))
#define TIDE_LIKELY(e) __builtin_expect(!!(e), 1)
#define TIDE_UNLIKELY(e) __builtin_expect(!!(e), 0)
/* A place where a build for tests breaks a rule on purpose when tide__mutant has its name (at first
 * TIDE_MUTANT of the environment): the tests must notice. */
#ifdef TIDE_MUTANTS
#include <string.h>
extern const char *tide__mutant;
#define TIDE_MUTANT(name) (tide__mutant && strcmp(tide__mutant, #name) == 0)
#else
#define TIDE_MUTANT(name) 0
#endif
#define TIDE_CONTAINER(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* ---- unlikely choices: legal ones that production never makes and the simulator tries; not on per-row paths ---- */
extern bool tide__buggify_on;
void tide__buggify_set(uint64_t seed, double probability); /* of an armed site; 0: none */
bool tide__buggify_hit(const char *site);
#define TIDE_BUGGIFY(site) (TIDE_UNLIKELY(tide__buggify_on) && tide__buggify_hit(#site))

/* ---- errors: each fiber owns a slot; the scheduler points the thread at the slot of the fiber that runs ---- */
struct tide_error_slot {
    int code;
    uint32_t retry_after_ms; /* 0: unknown */
    char text[500];
};
/* Makes `slot` the current one of this thread and returns the previous (NULL: the thread's own). */
struct tide_error_slot *tide__error_slot_swap(struct tide_error_slot *slot);
/* A code of libuv or -errno as ours; other codes pass unchanged. */
int tide__error_from_errno(int negative_errno);

/* Bucket of a wait in histograms of TIDE_WAIT_BUCKETS: below 1, 2, 4, ... us, the last all longer ones. */
static inline unsigned tide_wait_bucket(uint64_t ns) {
    uint64_t us = ns / 1000;
    unsigned bucket = us == 0 ? 0 : 64 - (unsigned)__builtin_clzll(us);
    return bucket < TIDE_WAIT_BUCKETS ? bucket : TIDE_WAIT_BUCKETS - 1;
}

/* ---- memory: every allocation of runtime/ goes here; NULL on failure with ENOMEM set ---- */
/* Who allocates on this thread. What users call reports ENOMEM (ASKED). The runtime's own actors and the scheduler
 * (VITAL) have taken over what is not theirs to drop, a row that moves or an answer: when they get no memory the
 * process ends with a message, as if the system had killed it for memory; but over 1 MiB at once comes from a request,
 * which gets ENOMEM. TOOL: the simulator and its checks, which no simulated shortage concerns. */
enum tide_memory_use { TIDE_MEMORY_ASKED, TIDE_MEMORY_VITAL, TIDE_MEMORY_TOOL };
enum tide_memory_use tide__memory_swap(enum tide_memory_use use); /* of this thread, or fiber; gives what it was */
/* For a program's main: what messages leave is kept for the next ones, so many megabytes a heap.
 * Else the C library gives it back at once, and each page of the next message is a fault. A host
 * has its own opinion. */
void tide__memory_keep(void);
/* VITAL, whatever runs: never NULL. For small parts of what was accepted already. */
void *tide_alloc_vital(size_t size); /* zeroed */
void *tide_realloc_vital(void *memory, size_t size);
/* Records that so much was rejected to the running code; VITAL cannot continue, whatever the size. */
void tide__memory_needed(size_t size);
/* Called before each allocation; true: there is no memory. NULL: none. For the simulator. */
extern bool (*tide__memory_refuses)(enum tide_memory_use use);
/* For what stays: glibc before 2.38 does not use again what it gets back of these. A kernel's megabytes are workspaces.
 */
void *tide_alloc_aligned(size_t alignment, size_t size);
char *tide_strdup(const char *text);
/* Address space that is committed when touched (slabs, fiber stacks); NULL on failure. `guard`: lowest page faults. */
void *tide_map(size_t size, bool guard);
void tide_unmap(void *memory, size_t size);

/* ---- option structs of the public headers, which begin with their size ---- */
/* Size of a first layout, whose last field is named. A field that is added later begins behind it, in a multiple of 8:
 * what fills it up to there may be garbage of an older program. Calls inside of the library that set such a field set
 * the size too, as programs do. */
#define TIDE_LAYOUT(type, last) ((offsetof(type, last) + sizeof(((type *)NULL)->last) + 7) & ~(size_t)7)
/* Copies the options of a program that was compiled with another version's header, perhaps: `own` bytes, 0 where it
 * knew less. EVERSION: it knew more, and set it. */
int tide__layout_read(const char *what, const void *given, size_t first, void *out, size_t own);

/* ---- text ---- */
/* Into `out`, cut to its size. What snprintf("%s") does, which takes many times as long in a process where a library
 * has registered conversions of its own (libquadmath, which OpenBLAS brings). */
static inline void tide_text_copy(char *out, size_t size, const char *text) {
    const size_t length = strnlen(text, size - 1);
    memcpy(out, text, length);
    out[length] = '\0';
}

/* ---- builds for sanitizers ---- */
#if defined(__SANITIZE_ADDRESS__)
#define TIDE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TIDE_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define TIDE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TIDE_TSAN 1
#endif
#endif

/* ---- spin lock: for a few instructions, never across a fiber switch ---- */
struct tide_lock {
    atomic_bool held;
};
void tide_lock(struct tide_lock *lock);
void tide_unlock(struct tide_lock *lock);
/* To other threads: on a machine with fewer cores than threads, the thread that is waited for may need the core. */
void tide_lend_core(void);
static inline void tide_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- random: besides the streams of tide/package.h a pure function of (seed, key, index), for initial values ---- */
/* Philox4x32-10: four words from counter (key, index) under `seed`. Same on every machine and device. */
void tide_philox(uint64_t seed, uint64_t key, uint64_t index, uint32_t out[4]);

/* ---- hashing ---- */
uint64_t tide_hash(const void *data, size_t size, uint64_t seed);  /* XXH3-64 */
void tide_sha256_hex(const void *data, size_t size, char out[65]); /* identity of code and files */
/* The same of data that comes in pieces: begin (NULL: no memory), add, then hex, which also destroys; or drop. */
struct tide_sha256;
struct tide_sha256 *tide_sha256_begin(void);
void tide_sha256_add(struct tide_sha256 *sum, const void *data, size_t size);
void tide_sha256_hex_of(struct tide_sha256 *sum, char out[65]);
void tide_sha256_drop(struct tide_sha256 *sum); /* NULL: nothing */
/* CRC-32C of `data` behind data whose sum is `crc` (0: none before). */
uint32_t tide_crc32c(uint32_t crc, const void *data, size_t size);
uint32_t tide__crc32c_table(uint32_t crc, const void *data, size_t size); /* the same, without the instruction */

/* ---- log: one line a record to stderr or a sink: time, level, node, text. Any thread. ---- */
enum tide_level { TIDE_LOG_DEBUG, TIDE_LOG_INFO, TIDE_LOG_WARN, TIDE_LOG_ERROR };
typedef void (*tide_log_sink)(void *arg, enum tide_level level, const char *node, const char *text);
void tide_log_set(enum tide_level least, tide_log_sink sink, void *arg); /* sink NULL: stderr */
typedef uint64_t (*tide_log_clock)(void);
void tide__log_set_clock(tide_log_clock clock); /* wall ns for stderr lines; the real port sets it */
void tide_log(enum tide_level level, const char *node, const char *format, ...) __attribute__((format(printf, 3, 4)));
enum { TIDE_LOG_KEPT = 256 };
struct tide_log_line {
    uint64_t number;  /* from 1, of this process */
    uint64_t wall_ns; /* since 1970; 0 where there is no clock (simulator) */
    enum tide_level level;
    char text[400];
};
/* The newest records of this process, at most TIDE_LOG_KEPT, oldest first: how many of `out`. */
size_t tide_log_recent(struct tide_log_line *out, size_t limit);

/* Whether a name is an identifier: [a-z0-9][a-z0-9._-]{0,62} */
bool tide_identifier_valid(const char *name);

#endif
