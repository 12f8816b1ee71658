/*
 * Swarm testing: one seed decides everything about a cluster of simulated nodes, what its workers
 * do with tables and actors, and which faults happen; checkers watch, and the same seed does the
 * same again.
 *
 *   clients.c   programs that use the client library, on machines of their own (posix.c)
 *   dropper.c   tables that come and go
 *   options.c   what is drawn, in which ranges, by profile; what is pinned
 *   world.c     nodes, the two phases (chaos, then heal), the verdict
 *   workload.c  the workers: pushes, pulls, localize, casts and calls, in bursts
 *   flush_barrier.c      the actors they talk to
 *   faults.c    which faults, when, and that they stay within what can be recovered
 *   check.c     histories of operations: linearizable, ordered, exactly once
 *   hot_keys.c    tables whose keys have copies on several nodes: what workers do there, and its
 * rules saver.c     checkpoints on a disk that fails, crashes and forgets restorer.c  what they
 * bring back when bits have changed rest.c      nodes as they are: one owner, bounded memory,
 * nothing left, who waits for whom
 *
 * Not part of libtide: it reads the insides of the rooms below. One thread.
 */
#ifndef TIDE_SWARM_H
#define TIDE_SWARM_H

#include "base/limits.h"
#include "port/port.h"

/* ---- options ---- */

enum swarm_option {
    SWARM_NODES,
    SWARM_THREADS,
    SWARM_FIBERS,
    SWARM_TABLES,
    SWARM_KEYS,
    SWARM_WIDTH,
    SWARM_RELOCATE,
    SWARM_REPLICAS,
    SWARM_HASHED,
    SWARM_COUNTERS,
    SWARM_MAILBOX,
    SWARM_CHUNK,
    SWARM_LATENCY_US,
    SWARM_JITTER,
    SWARM_NIC_MBIT,
    SWARM_SLOWNESS,
    SWARM_BATCH,
    SWARM_DEPTH,
    SWARM_BURST,
    SWARM_SYNC,
    SWARM_PUSHES,
    SWARM_LOCALIZES,
    SWARM_MESSAGES,
    SWARM_PAYLOAD,
    SWARM_CHAOS_S,
    SWARM_HEAL_S,
    SWARM_BUGGIFY,
    /* faults: mean seconds between two; 0: none */
    SWARM_RESET_S,
    SWARM_PARTITION_S,
    SWARM_PAUSE_S,
    SWARM_SLOW_S,
    SWARM_DELAY_S,
    SWARM_GARBAGE_S,
    SWARM_LEAVE_S,
    SWARM_JOIN_S,
    SWARM_CRASH_S,
    SWARM_SHARED,
    SWARM_DRIFT_PPM,
    SWARM_WINDOW,
    SWARM_MEMORY_S,
    SWARM_QUEUE_KIB,
    SWARM_CHECKPOINT_S,
    SWARM_DISK,
    SWARM_CAP_MIB,
    SWARM_BALLAST_S,
    SWARM_DISK_CRASH,
    SWARM_FLIP_S,
    SWARM_DISK_S,
    SWARM_CONTROLLER_S,
    SWARM_MAILBOX_KIB,
    SWARM_RECEIVERS,
    SWARM_LIMITS,
    SWARM_TIER,
    SWARM_DROP_S,
    SWARM_CLIENTS,
    SWARM_CLIENT_S, /* new ones go to the end: faults are drawn by their place */
    SWARM_OPTIONS
};

struct swarm_options {
    uint64_t seed;
    const char *profile;
    double value[SWARM_OPTIONS];
    bool pinned[TIDE_LIMITS];
    uint64_t limit[TIDE_LIMITS]; /* of those that are pinned */
};

/* Draws all options of a seed. EINVAL: no such profile. */
int swarm_draw(uint64_t seed, const char *profile, struct swarm_options *out);
/* "name=value" of an option or a limit. EINVAL: says which names there are, or which values. */
int swarm_pin(struct swarm_options *options, const char *setting);
/* The value of a limit of base/limits.def in this run. */
uint64_t swarm_limit(const struct swarm_options *options, unsigned limit);
/* "nodes=5 threads=2 ..." into text; faults that are off and limits with their default are left out. */
void swarm_print(const struct swarm_options *options, char *text, size_t size);
const char *swarm_option_name(unsigned option); /* NULL: there are no more */
bool swarm_option_is_fault(unsigned option);
const char *swarm_profiles(void); /* "swarm calm ..." */
/* Rare branches (TIDE_SOMETIMES) that a campaign of the profile must reach: names and spaces. */
const char *swarm_expects(const char *profile);

/* ---- a run ---- */

enum { SWARM_TEXT = 6000, SWARM_POINTS = 256 };
struct swarm_report {
    bool failed;
    char checker[32];        /* that found it */
    char what[SWARM_TEXT];   /* what it found, and who waits for whom */
    char faults[SWARM_TEXT]; /* that happened: "1.203 s reset n1-n3\n..." */
    uint64_t hash, events, virtual_ns;
    uint64_t operations, messages, fault_count, lost_nodes, disk_crashes, operations_lost;
    uint64_t retried; /* operations that a node had no memory for, tried again */
    uint64_t reached[SWARM_POINTS]; /* rare branches, in the order of tide__sometimes_list */
};
/* The whole run of a seed. `observe`: told of every event, may be NULL. */
void swarm_run(const struct swarm_options *options, struct swarm_report *report,
               void (*observe)(void *arg, const struct tide_sim_event *event), void *arg);

#endif
