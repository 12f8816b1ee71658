/*
 * The options of a run. Each is drawn from a generator of its own, made of the seed and the
 * option's name: to pin one, or to add another, changes no other draw.
 */
#include "swarm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum kind {
    WHOLE,   /* a whole number, logarithmically even */
    REAL,    /* logarithmically even */
    SHARE,   /* evenly between least and most */
    LIMITED, /* WHOLE, or with probability 1/2 no limit (0) */
    RARE,    /* REAL, or with probability 3/4 none (0) */
    FAULT    /* off (0) with probability 1/2, else REAL; most 0: off, unless a profile asks */
};

static const struct option {
    const char *name;
    enum kind kind;
    double least, most;
} options[SWARM_OPTIONS] = {
    [SWARM_NODES] = {"nodes", WHOLE, 3, 9},
    [SWARM_THREADS] = {"threads", WHOLE, 1, 3},
    [SWARM_FIBERS] = {"fibers", WHOLE, 1, 2}, /* workers of each thread */
    [SWARM_TABLES] = {"tables", WHOLE, 1, 4},
    [SWARM_KEYS] = {"keys", WHOLE, 1, 200}, /* in use at one time */
    [SWARM_WIDTH] = {"width", WHOLE, 4, 64},
    [SWARM_RELOCATE] = {"relocate", SHARE, 0, 1}, /* share of tables whose rows move */
    [SWARM_REPLICAS] = {"replicas", SHARE, 0,
                        1}, /* share of the other tables, with 1 or 2 copies */
    [SWARM_HASHED] = {"hashed", SHARE, 0, 0.6},
    [SWARM_COUNTERS] = {"counters", SHARE, 0, 0.7}, /* share of tables; the others are one-hot */
    [SWARM_MAILBOX] = {"mailbox", WHOLE, 1, 1024},
    [SWARM_CHUNK] = {"chunk", WHOLE, 64, 65536}, /* bytes that arrive at a time */
    [SWARM_LATENCY_US] = {"latency_us", REAL, 10, 100000},
    [SWARM_JITTER] = {"jitter", SHARE, 0, 1}, /* least latency = (1 - jitter) x latency */
    [SWARM_NIC_MBIT] = {"nic_mbit", LIMITED, 50, 100000},
    [SWARM_SLOWNESS] = {"slowness", REAL, 1, 100}, /* of the slowest node */
    [SWARM_BATCH] = {"batch", WHOLE, 1, 64},       /* keys of an operation */
    [SWARM_DEPTH] = {"depth", WHOLE, 1, 16},       /* asynchronous operations of a worker */
    [SWARM_BURST] = {"burst", WHOLE, 4, 24},       /* operations of a worker in a burst */
    [SWARM_SYNC] = {"sync", SHARE, 0, 1},
    [SWARM_PUSHES] = {"pushes", SHARE, 0.2, 0.8},
    [SWARM_LOCALIZES] = {"localizes", SHARE, 0, 0.5},
    [SWARM_MESSAGES] = {"messages", SHARE, 0, 0.4}, /* share of casts and calls */
    [SWARM_PAYLOAD] = {"payload", WHOLE, 16, 400000},
    [SWARM_CHAOS_S] = {"chaos_s", SHARE, 45, 45},
    [SWARM_HEAL_S] = {"heal_s", SHARE, 15, 15},
    [SWARM_BUGGIFY] = {"buggify", FAULT, 0.25, 0.25}, /* how often an armed site fires */
    [SWARM_RESET_S] = {"reset_s", FAULT, 1, 10},
    [SWARM_PARTITION_S] = {"partition_s", FAULT, 4, 20},
    [SWARM_PAUSE_S] = {"pause_s", FAULT, 4, 20},
    [SWARM_SLOW_S] = {"slow_s", FAULT, 3, 20},
    [SWARM_DELAY_S] = {"delay_s", FAULT, 3, 20},
    [SWARM_GARBAGE_S] = {"garbage_s", FAULT, 5, 40},
    [SWARM_LEAVE_S] = {"leave_s", FAULT, 5, 30},
    [SWARM_JOIN_S] = {"join_s", FAULT, 5, 30},
    [SWARM_CRASH_S] = {"crash_s", FAULT, 10, 60},
    [SWARM_SHARED] = {"shared", SHARE, 0,
                      0}, /* share of tables whose keys have copies where used */
    [SWARM_DRIFT_PPM] = {"drift_ppm", SHARE, 0, 0}, /* no clock is off by more than this */
    [SWARM_WINDOW] = {"window", SHARE, 0, 0}, /* share of tables with copies, durability window */
    [SWARM_MEMORY_S] = {"memory_s", FAULT, 3, 20},
    [SWARM_QUEUE_KIB] = {"queue_kib", LIMITED, 1, 1024},  /* of operations of one node in flight */
    [SWARM_CHECKPOINT_S] = {"checkpoint_s", SHARE, 0, 0}, /* mean rest between two; 0: none */
    [SWARM_DISK] = {"disk", SHARE, 0, 0},       /* share of operations on files that fail */
    [SWARM_CAP_MIB] = {"cap_mib", SHARE, 0, 0}, /* least memory cap of a node; 0: none has one */
    [SWARM_BALLAST_S] = {"ballast_s", SHARE, 0, 0}, /* between two times that one fills up */
    [SWARM_DISK_CRASH] = {"disk_crash", SHARE, 0,
                          0}, /* share of changes in which the disk crashes */
    [SWARM_FLIP_S] = {"flip_s", FAULT, 0, 0},
    [SWARM_DISK_S] = {"disk_s", FAULT, 0, 0},
    [SWARM_CONTROLLER_S] = {"controller_s", FAULT, 0, 0},
    [SWARM_MAILBOX_KIB] = {"mailbox_kib", LIMITED, 1, 4096}, /* of echo actors; 0: as usual */
    [SWARM_TIER] = {"tier", SHARE, 0, 0}, /* share of tables without copies whose rows freeze */
    [SWARM_DROP_S] = {"drop_s", SHARE, 0.5, 6}, /* mean rest between two tables that come and go */
    [SWARM_CLIENTS] = {"clients", SHARE, 0, 0},
    [SWARM_CLIENT_S] = {"client_s", FAULT, 0, 0}, /* one is cut off, reset or paused */
    [SWARM_RECEIVERS] = {"receivers", SHARE, 0, 3}, /* their fibers, rounded down; 0: a handler */
    [SWARM_LIMITS] = {"limits", RARE, 0.02, 0.5}, /* share of the limits that are drawn */
};

/* What a profile pins; the rest is drawn. */
static const struct setting {
    const char *profile, *name;
    double value;
} settings[] = {
    {"overload", "cap_mib", 32},   {"overload", "ballast_s", 2},  {"calm", "faults", 0},
    {"calm", "buggify", 0},        {"overload", "mailbox", 1},    {"overload", "burst", 24},
    {"overload", "depth", 16},     {"overload", "messages", 0.6}, {"overload", "queue_kib", 2},
    {"overload", "crash_s", 0},    {"overload", "memory_s", 0},   {"elastic", "leave_s", 6},
    {"elastic", "join_s", 5},      {"elastic", "crash_s", 0},     {"elastic", "memory_s", 0},
    {"copies", "relocate", 0},     {"copies", "replicas", 1},     {"copies", "crash_s", 12},
    {"copies", "join_s", 10},      {"copies", "leave_s", 15},     {"shared", "shared", 0.85},
    {"shared", "localizes", 0.3},  {"shared", "leave_s", 10},     {"shared", "join_s", 8},
    {"shared", "replicas", 0}, /* their leases would hide what is
                                  in flight at rest */
    {"window", "relocate", 0},     {"window", "replicas", 1},     {"window", "window", 1},
    {"window", "counters", 0},     {"window", "crash_s", 12},     {"window", "join_s", 10},
    {"window", "leave_s", 15},     {"disk", "checkpoint_s", 1},   {"disk", "disk", 0.01},
    {"disk", "disk_crash", 0.01}, {"disk", "flip_s", 30},        {"disk", "join_s", 10},
    {"disk", "leave_s", 15},       {"disk", "memory_s", 0},       {"journal", "controller_s", 8},
    {"journal", "crash_s", 20},    {"journal", "join_s", 10},     {"journal", "leave_s", 15},
    {"journal", "memory_s", 0},    {"clocks", "drift_ppm", 500}, /* any two differ by the thousandth
                                                                    that is promised, or less */
    {"clocks", "replicas", 0.8},   {"clocks", "crash_s", 20},
    {"tier", "tier", 1},           {"tier", "replicas", 0},       {"tier", "leave_s", 8},
    {"tier", "join_s", 6},         {"tier", "memory_s", 0},
    {"tier", "disk_s", 4},
    {"clients", "clients", 3},     {"clients", "client_s", 1.5},  {"clients", "join_s", 8},
    {"clients", "leave_s", 10},    {"clients", "memory_s", 0},    {"clients", "messages", 0.1},
};
/* Rare branches that each profile reaches within some hundred seeds: one that it does not reach any
 * more is a part of the product that it does not test any more. */
static const struct {
    const char *profile, *points;
} expected[] = {
    {"swarm", "copy_made_again fence_set frames_written_again job_stalled message_cut operation_waits_in_line "
              "owner_hands_a_row_over peer_asked_to_dial redialled_later ring_full row_given_up sender_waits_for_room "
              "session_ended session_resumed slot_departs slot_has_a_new_home waiters_of_a_lost_row"},
    {"clients", "client_deadline_passed client_push_orphaned client_push_sent_again client_redirected"},
};
static const char profile_names[] =
    "swarm calm overload elastic copies shared window clocks disk journal tier clients";

/* Crashes lose rows of tables without copies, and most checks of these then say less: seldom. So
 * do nodes that are short of memory. */
static const double crash_share = 0.3, memory_share = 0.2;

const char *swarm_profiles(void) {
    return profile_names;
}

const char *swarm_expects(const char *profile) {
    for (size_t i = 0; i < TIDE_COUNT(expected); i++) {
        if (strcmp(expected[i].profile, profile) == 0) {
            return expected[i].points;
        }
    }
    return "";
}

const char *swarm_option_name(unsigned option) {
    return option < SWARM_OPTIONS ? options[option].name : NULL;
}

bool swarm_option_is_fault(unsigned option) {
    return option < SWARM_OPTIONS && options[option].kind == FAULT;
}

static double draw(uint64_t seed, const struct option *o) {
    struct tide_random random;
    tide_random_seed(&random, tide_hash(o->name, strlen(o->name), tide_mix64(seed)));
    double chance = tide_random_uniform(&random), at = tide_random_uniform(&random);
    double on = o->most == 0                    ? 0
                : o == &options[SWARM_CRASH_S]  ? crash_share
                : o == &options[SWARM_MEMORY_S] ? memory_share
                                                : 0.5;
    if ((o->kind == FAULT && chance >= on) || (o->kind == LIMITED && chance >= 0.5) ||
        (o->kind == RARE && chance >= 0.25)) {
        return 0;
    }
    if (o->kind == SHARE) {
        return o->least + at * (o->most - o->least);
    }
    if (o->kind == WHOLE || o->kind == LIMITED) {
        return floor(exp(log(o->least) + at * (log(o->most + 1) - log(o->least))));
    }
    return o->least * exp(at * log(o->most / o->least));
}

static bool is_word(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += length) {
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == 0)) {
            return length > 0;
        }
    }
    return false;
}

static void pin_drawn(struct swarm_options *out, const char *name, uint64_t value) {
    const unsigned limit = tide__limit_find(name);
    out->pinned[limit] = true;
    out->limit[limit] = value;
}

/* Of a table with a tier: files and blocks that some rows fill, few rows in memory, few reads at once. */
static void draw_small_tier(uint64_t seed, struct swarm_options *out) {
    pin_drawn(out, "store_tier_segment_bytes", UINT64_C(4096) << tide_mix64(seed) % 4);
    pin_drawn(out, "store_tier_block_bytes", UINT64_C(4096) << tide_mix64(seed + 1) % 2);
    pin_drawn(out, "store_tier_rows", UINT64_C(8) << tide_mix64(seed + 2) % 6);
    pin_drawn(out, "store_tier_reads", UINT64_C(1) << tide_mix64(seed + 3) % 6);
    pin_drawn(out, "store_tier_readers", 1 + tide_mix64(seed + 4) % 4);
}

/* Every third run writes checkpoints. No node crashes then: its rows would be in no generation. */
static void draw_generations(uint64_t seed, struct swarm_options *out) {
    if (tide_mix64(seed ^ 0x6e7e) % 3 == 0) {
        out->value[SWARM_CHECKPOINT_S] = 1;
        out->value[SWARM_CRASH_S] = 0;
    }
}

int swarm_draw(uint64_t seed, const char *profile, struct swarm_options *out) {
    if (!is_word(profile_names, profile)) {
        return tide_fail(TIDE_EINVAL, "profile '%s' is not known: %s", profile, profile_names);
    }
    *out = (struct swarm_options){.seed = seed, .profile = profile};
    for (unsigned i = 0; i < SWARM_OPTIONS; i++) {
        out->value[i] = draw(seed, &options[i]);
        for (size_t s = 0; s < TIDE_COUNT(settings); s++) {
            bool named = strcmp(settings[s].name, options[i].name) == 0 ||
                         (strcmp(settings[s].name, "faults") == 0 && options[i].kind == FAULT);
            if (named && strcmp(settings[s].profile, profile) == 0) {
                out->value[i] = settings[s].value;
            }
        }
    }
    if (out->value[SWARM_TIER] > 0) {
        draw_small_tier(seed, out);
        draw_generations(seed, out);
    }
    return 0;
}

static bool allowed(const struct option *o, double value) {
    bool whole = o->kind == WHOLE || o->kind == LIMITED;
    if (!isfinite(value) || (whole && value != floor(value)) || value < 0 || value > 1e9) {
        return false;
    }
    return o->kind == SHARE || o->kind == LIMITED || o->kind == FAULT || o->kind == RARE ||
           value >= 1;
}

uint64_t swarm_limit(const struct swarm_options *o, unsigned limit) {
    return o->pinned[limit] ? o->limit[limit]
                            : tide__limit_draw(limit, o->seed, o->value[SWARM_LIMITS]);
}

/* False: the setting is of no limit. */
static bool pin_limit(struct swarm_options *out, const char *setting, size_t length, int *code) {
    char name[64] = "";
    if (length < sizeof name) {
        memcpy(name, setting, length);
    }
    const unsigned limit = tide__limit_find(name);
    if (limit == TIDE_LIMITS) {
        return false;
    }
    char *end = NULL;
    const uint64_t value = setting[length] == '=' ? strtoull(setting + length + 1, &end, 10) : 0;
    const struct tide_limit *l = &tide__limits[limit];
    *code = end == NULL || end == setting + length + 1 || *end != 0 || value < l->least ||
                    value > l->most
                ? tide_fail(TIDE_EINVAL, "'%s' is no setting: %s takes %llu to %llu", setting, name,
                            (unsigned long long)l->least, (unsigned long long)l->most)
                : 0;
    out->pinned[limit] = true;
    out->limit[limit] = value;
    return true;
}

int swarm_pin(struct swarm_options *out, const char *setting) {
    const char *equals = strchr(setting, '=');
    size_t length = equals != NULL ? (size_t)(equals - setting) : strlen(setting);
    char names[700] = "";
    int code;
    if (pin_limit(out, setting, length, &code)) {
        return code;
    }
    for (unsigned i = 0; i < SWARM_OPTIONS; i++) {
        const struct option *o = &options[i];
        size_t used = strlen(names);
        (void)snprintf(names + used, sizeof names - used, " %s", o->name);
        if (strlen(o->name) != length || strncmp(o->name, setting, length) != 0) {
            continue;
        }
        char *end = NULL;
        double value = equals != NULL ? strtod(equals + 1, &end) : -1;
        if (equals == NULL || end == equals + 1 || *end != 0 || !allowed(o, value) ||
            (i == SWARM_NODES && value > 32) || (i == SWARM_WIDTH && value > 64) ||
            (i == SWARM_THREADS && value > 8) || (i == SWARM_TABLES && value > 4)) {
            return tide_fail(TIDE_EINVAL, "'%s' is no setting: %s takes %s", setting, o->name,
                             o->kind == FAULT ? "mean seconds, or 0 for never" : "a number");
        }
        out->value[i] = value;
        return 0;
    }
    return tide_fail(TIDE_EINVAL, "option '%.*s' is not known:%s", (int)length, setting, names);
}

void swarm_print(const struct swarm_options *out, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (unsigned i = 0; i < SWARM_OPTIONS && used < size; i++) {
        if ((options[i].kind == FAULT || options[i].kind == RARE) && out->value[i] == 0) {
            continue;
        }
        int n = snprintf(text + used, size - used, "%s%s=%.6g", used > 0 ? " " : "",
                         options[i].name, out->value[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    for (unsigned i = 0; i < TIDE_LIMITS && used < size; i++) {
        const uint64_t value = swarm_limit(out, i);
        if (value != tide__limits[i].initial) {
            int n = snprintf(text + used, size - used, " %s=%llu", tide__limits[i].name,
                             (unsigned long long)value);
            used += n > 0 ? (size_t)n : 0;
        }
    }
}
