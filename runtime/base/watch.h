/*
 * The watch: what a simulated run is judged by beside its results. Two things a test of results does not see: a system
 * that is busy without progress, and one that sleeps with work to do. The rooms look at themselves (watch_*.c, and
 * where fibers suspend and turns end) and report what breaks a rule; the simulator ends the run. The watch changes
 * nothing: a watched run takes the same course.
 *
 * Off: each place costs a branch on a flag that is false. On while a simulator exists, whose one thread runs all.
 */
#ifndef TIDE_BASE_WATCH_H
#define TIDE_BASE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern bool tide__watch_on;
#define TIDE_WATCHED __builtin_expect(tide__watch_on, 0)

typedef void (*tide_watch_verdict)(void *arg, const char *checker, const char *text);
/* verdict NULL: what is found goes to stderr and ends the process, as a failed assertion does. */
void tide__watch_set(bool on, tide_watch_verdict verdict, void *arg);
/* A rule is broken. May return: the caller continues as if it were not. */
void tide__watch_found(const char *checker, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- threads that serve others: a file, a sync or a name that is looked up there stops them all ---- */
struct tide_serving {
    const char *whom;
    bool files; /* short uses of files are its work: a sync alone stops it */
};
/* The work of this thread must not block from now on; NULL: it may. Gives what was said before. `serving` is static. */
const struct tide_serving *tide__watch_thread(const struct tide_serving *serving);
/* A known wait: does the work, whatever of it blocks, on a thread that must not. */
void tide__watch_aside(void (*work)(void *arg), void *arg);
bool tide__watch_serves(void); /* must this thread's work not block, not even on files? */
/* About to block on `path`, or NULL. Where it must not: found if the watch is on, else logged once in a build for
 * tests (without NDEBUG), so that real nodes show it too. */
void tide__watch_blocks(const char *call, const char *path);

/* ---- rare branches that a campaign must have reached, counted while the watch is on ---- */
struct tide_sometimes {
    const char *name;
    uint64_t count;
};
#define TIDE_SOMETIMES(point)                                                                                          \
    do {                                                                                                               \
        static struct tide_sometimes here = {#point, 0};                                                               \
        static struct tide_sometimes *listed __attribute__((section("tide_sometimes"), used)) = &here;                 \
        if (TIDE_WATCHED) { /* in the simulator, on its one thread */                                                  \
            here.count++;                                                                                              \
        }                                                                                                              \
    } while (0)
/* All points of this program, by name, those never reached too; a name that stands at several places is one. Returns
 * how many there are. */
size_t tide__sometimes_list(struct tide_sometimes *out, size_t limit);

#endif
