/* The public headers of the first layouts (SOVERSION 1), kept as they were: program.c is compiled with them and runs on the
 * library of today. This file is not changed; a later layout gets a file of its own. */
#ifndef TIDE_ABI_1_H
#define TIDE_ABI_1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TIDE_VERSION "0.1.0"
#define TIDE_PROTOCOL 6u
#define TIDE_NEVER UINT64_MAX
#define TIDE_SECOND UINT64_C(1000000000)
#define TIDE_CALL_TIMEOUT (30 * TIDE_SECOND)
enum { TIDE_WAIT_BUCKETS = 28 };
enum {
    TIDE_EINVAL = -10001,
    TIDE_ENOMEM = -10002,
    TIDE_EBUSY = -10003,
    TIDE_ETIMEDOUT = -10004,
    TIDE_EUNREACHABLE = -10005,
    TIDE_EDIED = -10006,
    TIDE_EREFUSED = -10007,
    TIDE_ECANCELED = -10008,
    TIDE_ENOENT = -10009,
    TIDE_EEXIST = -10010,
    TIDE_EFULL = -10011,
    TIDE_EPROTO = -10012,
    TIDE_ELIMIT = -10013,
    TIDE_ERANGE = -10014,
    TIDE_EIO = -10015,
    TIDE_ENOSPC = -10016,
    TIDE_EPERM = -10017,
    TIDE_EVERSION = -10018,
    TIDE_EMISMATCH = -10019,
    TIDE_ENAN = -10020,
    TIDE_EADDRINUSE = -10021,
    TIDE_ECLOSED = -10022,
    TIDE_EUNSUPPORTED = -10023,
    TIDE_EKILLED = -10024,
    TIDE_ECRASHED = -10025,
    TIDE_ELOST = -10026,
    TIDE_EFENCED = -10027,
    TIDE_ENOREPLICA = -10028,
    TIDE_EACCES = -10029,
    TIDE_EMFILE = -10030,
};
const char *tide_error_name(int code);
const char *tide_error_message(void);
int tide_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
int tide_fail_busy(uint32_t retry_after_ms, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint32_t tide_error_retry_after_ms(void);
typedef uint64_t tide_address;
#define TIDE_NOBODY ((tide_address)0)
static inline uint16_t tide_address_node(tide_address a) {
    return (uint16_t)(a >> 48);
}
static inline uint64_t tide_address_id(tide_address a) {
    return a & UINT64_C(0xffffffffffff);
}
enum tide_right { TIDE_RIGHT_NONE, TIDE_RIGHT_READ, TIDE_RIGHT_OPERATE, TIDE_RIGHT_ADMIN, TIDE_RIGHT_NODE };
enum tide_lane {
    TIDE_LANE_SYSTEM,
    TIDE_LANE_ANSWER,
    TIDE_LANE_STORE,
    TIDE_LANE_CONTROL,
    TIDE_LANE_BULK,
    TIDE_LANE_COUNT
};
enum tide_message_kind {
    TIDE_CAST,
    TIDE_CALL,
    TIDE_REPLY,
    TIDE_ERROR,
    TIDE_EXIT,
    TIDE_TIMER,
    TIDE_CANCEL,
    TIDE_STOP,
};
struct tide_message {
    tide_address from;
    tide_address to;
    uint64_t call;
    const uint8_t *data;
    uint32_t size;
    int32_t code;
    uint8_t kind;
    uint8_t lane;
    uint8_t right;
};
struct tide_blob {
    void *data;
    size_t size;
    void (*release)(struct tide_blob *blob);
    uint32_t refs;
};
struct tide_blob *tide_blob_create(size_t size);
struct tide_blob *tide_blob_ref(struct tide_blob *blob);
void tide_blob_unref(struct tide_blob *blob);
struct tide_node;
#define TIDE_NODE_OPTIONS_INIT .size = sizeof(struct tide_node_options)
struct tide_node_options {
    size_t size;
    const char
        *cluster;
    const char *name;
    const char
        *listen;
    const char *keys;
    unsigned right;
    const char *join;
    const char
        *state;
    unsigned controllers;
    unsigned workers;
    bool no_store;
    bool client;
    uint64_t seed;
    void *loop;
    const void *port;
    uint64_t queue_limit;
    uint64_t memory;
    uint64_t silence;
    double rate_operations, rate_bytes;
};
int tide_node_create(const struct tide_node_options *options, struct tide_node **out);
void tide_node_destroy(struct tide_node *node, uint64_t timeout);
uint16_t tide_node_id(const struct tide_node *node);
const char *tide_node_name(const struct tide_node *node);
const char *tide_node_endpoint(const struct tide_node *node);
struct tide_node *tide_node_current(void);
uint64_t tide_node_now(const struct tide_node *node);
typedef int (*tide_handler)(void *state, const struct tide_message *message);
typedef int (*tide_fiber_main)(void *state);
enum tide_role { TIDE_ROLE_IO, TIDE_ROLE_COMPUTE, TIDE_ROLE_CONTROL, TIDE_ROLE_DISK, TIDE_ROLE_EXCHANGE };
enum tide_look_how {
    TIDE_LOOK_RESTS,
    TIDE_LOOK_ASKS,
    TIDE_LOOK_FORCED
};
#define TIDE_ACTOR_OPTIONS_INIT .size = sizeof(struct tide_actor_options)
struct tide_actor_options {
    size_t size;
    const char *name;
    const char *type;
    tide_handler handle;
    tide_fiber_main run;
    void *state;
    void (*release)(void *state);
    void (*interrupt)(void *state);
    int (*look)(void *state, enum tide_look_how how, char *out, size_t size);
    size_t stack_bytes;
    uint32_t messages_max;
    uint32_t bytes_max;
    uint8_t role;
    uint8_t thread;
    tide_address link;
    uint8_t opens;
};
int tide_spawn(struct tide_node *node, const struct tide_actor_options *options, tide_address *out);
tide_address tide_self(void);
void tide_exit(int reason);
void tide_refused(void);
void tide_open(enum tide_right right);
int tide_kill(tide_address who, int reason);
int tide_interrupt(tide_address who);
int tide_look(tide_address who, char *out, size_t size);
void tide_look_here(void);
int tide_send(tide_address to, enum tide_lane lane, const void *data, size_t size);
int tide_send_blob(tide_address to, enum tide_lane lane, const void *data, size_t size, struct tide_blob *tail);
int tide_post(struct tide_node *node, tide_address to, const void *data, size_t size);
struct tide_reply;
int tide_call(tide_address to, const void *data, size_t size, uint64_t timeout, struct tide_reply **out);
const void *tide_reply_data(const struct tide_reply *reply, size_t *size);
void tide_reply_free(struct tide_reply *reply);
int tide_call_start(tide_address to, const void *data, size_t size, uint64_t timeout, uint64_t *id);
void tide_call_cancel(uint64_t id);
int tide_answer(tide_address from, uint64_t call, const void *data, size_t size);
int tide_answer_error(tide_address from, uint64_t call, int code, const char *text);
int tide_receive(uint64_t deadline, const struct tide_message **out);
void tide_message_free(const struct tide_message *message);
int tide_sleep(uint64_t duration);
int tide_yield(void);
int tide_yield_to_actors(void);
int tide_monitor(tide_address who, uint64_t *id);
void tide_demonitor(uint64_t id);
int tide_link(tide_address who);
void tide_unlink(tide_address who);
void tide_trap_exits(bool on);
int tide_timer_start(uint64_t delay, uint64_t *id);
void tide_timer_cancel(uint64_t id);
int tide_register(struct tide_node *node, const char *name, tide_address who);
int tide_whereis(struct tide_node *node, const char *name, tide_address *out);
enum tide_restart { TIDE_PERMANENT, TIDE_TRANSIENT, TIDE_TEMPORARY };
enum tide_strategy { TIDE_ONE_FOR_ONE, TIDE_REST_FOR_ONE, TIDE_ALL_FOR_ONE };
struct tide_child {
    int (*start)(void *argument, void **state);
    void *argument;
    enum tide_restart restart;
    struct tide_actor_options actor;
};
#define TIDE_SUPERVISOR_OPTIONS_INIT                                                                                   \
    .size = sizeof(struct tide_supervisor_options), .child_size = sizeof(struct tide_child)
struct tide_supervisor_options {
    size_t size;
    size_t child_size;
    const char *name;
    enum tide_strategy strategy;
    uint32_t restarts_max;
    uint64_t period;
    uint64_t backoff;
    const struct tide_child *children;
    size_t child_count;
    uint8_t role;
    tide_address link;
};
int tide_supervise(struct tide_node *node, const struct tide_supervisor_options *options, tide_address *out);
struct tide_actor_info {
    tide_address address;
    char name[64];
    char type[24];
    char waits_for[112];
    uint64_t waits_since;
    uint64_t messages_handled;
    uint64_t messages_refused;
    uint64_t handling_ns;
    uint32_t mailbox_messages;
    uint32_t mailbox_bytes;
    uint8_t role;
    uint8_t thread;
    bool fiber;
};
size_t tide_actors(struct tide_node *node, struct tide_actor_info *out, size_t limit);
struct tide_slow_handler {
    char type[24];
    uint8_t role;
    uint64_t count, total_ns, longest_ns;
};
size_t tide_slow_handlers(struct tide_node *node, struct tide_slow_handler *out, size_t limit);

struct tide_update_rule;
enum { TIDE_SLOTS = 4096 };
enum tide_keys { TIDE_KEYS_DENSE, TIDE_KEYS_HASHED };
enum tide_evict { TIDE_EVICT_NONE, TIDE_EVICT_LFU };
enum { TIDE_ADMIT_MOST = 15 };
#define TIDE_UNUSED_NS_MIN UINT64_C(1000000000)
#define TIDE_UNUSED_NS_MAX (UINT64_C(3650) * 86400 * 1000000000)
enum tide_slots { TIDE_SLOTS_HASH, TIDE_SLOTS_RANGE };
enum tide_init { TIDE_INIT_ZERO, TIDE_INIT_UNIFORM, TIDE_INIT_NORMAL, TIDE_INIT_XAVIER };
enum tide_update {
    TIDE_UPDATE_ADD,
    TIDE_UPDATE_ASSIGN,
    TIDE_UPDATE_SGD,
    TIDE_UPDATE_ADAGRAD,
    TIDE_UPDATE_ADAM,
    TIDE_UPDATE_MOMENTUM,
    TIDE_UPDATE_NESTEROV,
    TIDE_UPDATE_TOTAL,
    TIDE_UPDATE_OWN,
};
enum tide_wire_type { TIDE_WIRE_F32, TIDE_WIRE_F16, TIDE_WIRE_BF16 };
enum tide_technique {
    TIDE_STATIC,
    TIDE_RELOCATE,
    TIDE_REPLICATE,
    TIDE_INTENT,
};
static inline bool tide_technique_relocates(uint8_t technique) {
    return technique == TIDE_RELOCATE || technique == TIDE_INTENT;
}
enum tide_clients { TIDE_CLIENTS_WRITE, TIDE_CLIENTS_READ, TIDE_CLIENTS_NONE };
enum tide_durability {
    TIDE_DURABLE_DEFAULT,
    TIDE_DURABLE_NONE,
    TIDE_DURABLE_STRICT,
    TIDE_DURABLE_WINDOW,
};
enum { TIDE_REPLICAS_MAX = 2 };
#define TIDE_WINDOW_NS_MIN UINT64_C(4000000)
#define TIDE_WINDOW_NS_MAX UINT64_C(10000000000)
#define TIDE_WINDOW_BYTES_MIN (UINT64_C(64) << 10)
#define TIDE_WINDOW_BYTES_MAX (UINT64_C(1) << 30)
enum tide_model {
    TIDE_SEQUENTIAL,
    TIDE_BSP,
    TIDE_SSP,
    TIDE_ESSP,
    TIDE_ASYNC,
    TIDE_VAP,
};
struct tide_consistency {
    uint8_t model;
    bool reproducible;
    uint32_t staleness;
    uint32_t age_ms;
    double bound;
    bool flat;
};
enum { TIDE_STALENESS_MAX = 60 };
enum tide_send_order { TIDE_SEND_AT_CLOCK, TIDE_SEND_MAGNITUDE, TIDE_SEND_AGE, TIDE_SEND_RANDOM };
int tide_consistency_parse(const char *text, struct tide_consistency *out);
enum { TIDE_CONSISTENCY_TEXT = 40 };
void tide_consistency_print(const struct tide_consistency *consistency, char out[TIDE_CONSISTENCY_TEXT]);
#define TIDE_TABLE_OPTIONS_INIT .size = sizeof(struct tide_table_options)
struct tide_table_options {
    size_t size;
    const char *name;
    uint8_t keys;
    uint8_t slots;
    uint8_t init;
    uint8_t update;
    uint8_t wire;
    uint8_t technique;
    uint8_t replicas;
    uint8_t durability;
    uint64_t window_ns, window_bytes;
    uint8_t clients;
    bool refuse_nan;
    uint64_t key_count;
    uint64_t key_limit;
    uint8_t admit_after, evict;
    uint64_t unused_ns;
    uint32_t width;
    float init_a, init_b;
    __extension__ union {
        __extension__ struct { float lr, beta1, beta2, epsilon, sum_init; };
        float numbers[8];
    };
    char rule[48], rule_version[65], rule_file[160];
    const struct tide_update_rule *own;
    uint64_t seed;
    struct tide_consistency consistency;
    uint64_t cache_bytes;
    uint32_t unsubscribe_after;
    uint8_t send_order;
    uint64_t bandwidth;
    uint32_t run;
    uint32_t domain;
    uint64_t run_memory;
    uint64_t tier_memory;
    char tier_disk[160];
};

struct tide_table;
int tide_table_create(struct tide_node *node, const struct tide_table_options *options, struct tide_table **out);
int tide_tables_forget(struct tide_node *node);
int tide_table_find(struct tide_node *node, const char *name, struct tide_table **out);
void tide_table_release(struct tide_table *table);
int tide_table_drop(struct tide_node *node, const char *name);
const struct tide_table_options *tide_table_options(const struct tide_table *table);
float tide_table_rate(const struct tide_table *table);
int tide_table_set_rate(struct tide_table *table, float rate);
struct tide_ticket {
    void *opaque[6];
};
int tide_table_pull(struct tide_table *table, const uint64_t *keys, size_t key_count, float *rows,
                    struct tide_ticket *ticket);
int tide_table_push(struct tide_table *table, const uint64_t *keys, size_t key_count, const float *rows,
                    struct tide_ticket *ticket);
size_t tide_table_pull_local(struct tide_table *table, const uint64_t *keys, size_t key_count, float *rows,
                             uint64_t *hit);
bool tide_ticket_done(const struct tide_ticket *ticket);
int tide_ticket_wait(struct tide_ticket *ticket);
int tide_table_localize(struct tide_table *table, const uint64_t *keys, size_t key_count, struct tide_ticket *ticket);
int tide_table_where(struct tide_table *table, uint64_t key, uint16_t *node);
uint32_t tide_table_slot(const struct tide_table *table, uint64_t key);
int tide_table_save(struct tide_table *table, const char *path);
int tide_table_load(struct tide_table *table, const char *path);

enum tide_sampling { TIDE_SAMPLE_NAIVE, TIDE_SAMPLE_PRELOC, TIDE_SAMPLE_POOL, TIDE_SAMPLE_POSTPONE, TIDE_SAMPLE_LOCAL };
#define TIDE_SAMPLER_OPTIONS_INIT .size = sizeof(struct tide_sampler_options)
struct tide_sampler_options {
    size_t size;
    uint8_t scheme;
    uint32_t group, reuse;
    uint64_t first_key, key_count;
    const double *weights;
    int (*draw)(void *argument, uint64_t *key);
    void *argument;
    uint64_t seed;
};
struct tide_sampler_stats {
    uint64_t drawn, pulled, postponed;
    uint64_t not_found;
    uint64_t groups;
};
struct tide_sampler;
int tide_sampler_create(struct tide_table *table, const struct tide_sampler_options *options,
                        struct tide_sampler **out);
void tide_sampler_destroy(struct tide_sampler *sampler);
int tide_sampler_prepare(struct tide_sampler *sampler, size_t count, uint32_t *sample);
int tide_sampler_pull(struct tide_sampler *sampler, uint32_t sample, size_t count, uint64_t *keys, float *rows);
int tide_sampler_finish(struct tide_sampler *sampler, uint32_t sample);
void tide_sampler_stats(const struct tide_sampler *sampler, struct tide_sampler_stats *out);

void tide_table_slot_homes(struct tide_table *table, uint16_t *homes);
int tide_table_move(struct tide_table *table, const uint32_t *slots, size_t slot_count, uint16_t node);
#define TIDE_SHARE_OPTIONS_INIT .size = sizeof(struct tide_share_options)
struct tide_share_options {
    size_t size;
    const uint16_t *nodes;
    size_t node_count;
    uint32_t rate;
    float threshold;
    float clip;
};
int tide_table_manage(struct tide_table *table, const uint64_t *keys, size_t key_count, uint8_t technique,
                      const struct tide_share_options *options);
uint8_t tide_table_technique(struct tide_table *table, uint64_t key, bool *copy);
int tide_table_flush(struct tide_table *table);
int tide_table_intent(struct tide_table *table, const uint64_t *keys, size_t key_count, uint32_t clock_begin,
                      uint32_t clock_end);

int tide_worker_begin(struct tide_node *node, uint32_t worker, uint32_t clock);
int tide_worker_begin_in(struct tide_node *node, uint32_t domain, uint32_t worker, uint32_t clock);
void tide_worker_end(void);
int64_t tide_worker_clock(void);
int tide_clock(void);
struct tide_table_read {
    void *opaque[2];
};
int tide_table_read_begin(struct tide_table *table, uint64_t key, const float **row, struct tide_table_read *read);
void tide_table_read_end(struct tide_table_read *read);
int tide_table_add(struct tide_table *table, uint64_t key, const uint32_t *columns, const float *values, size_t count);
int tide_settle(void);
int tide_table_set_consistency(struct tide_table *table, const struct tide_consistency *consistency);
void tide_table_consistency(const struct tide_table *table, struct tide_consistency *out);

enum tide_cut {
    TIDE_CUT_AUTO,
    TIDE_CUT_CLOCK,
    TIDE_CUT_FUZZY,
};
#define TIDE_CHECKPOINT_OPTIONS_INIT .size = sizeof(struct tide_checkpoint_options)
struct tide_checkpoint_options {
    size_t size;
    const char *dir;
    uint8_t cut;
    uint32_t keep;
    uint32_t full_every;
    uint64_t timeout;
    uint32_t domain;
};
struct tide_checkpoint_info {
    uint64_t generation;
    uint64_t bytes, rows;
    uint64_t wall_ns;
    uint32_t clock;
    bool full;
    bool committed;
};
struct tide_checkpoint;
int tide_checkpoint_start(struct tide_node *node, const struct tide_checkpoint_options *options,
                          struct tide_checkpoint **out);
const struct tide_checkpoint_info *tide_checkpoint_get(const struct tide_checkpoint *checkpoint);
int tide_checkpoint_commit(struct tide_checkpoint *checkpoint, const void *job, size_t job_size);
void tide_checkpoint_abort(struct tide_checkpoint *checkpoint);
struct tide_restored {
    struct tide_checkpoint_info info;
    char *skipped;
    void *job;
    size_t job_size;
};
int tide_checkpoint_restore(struct tide_node *node, const char *dir, uint64_t generation, struct tide_restored *out);
void tide_restored_release(struct tide_restored *restored);

#define TIDE_LUA_OPTIONS_INIT .size = sizeof(struct tide_lua_options)
struct tide_lua_options {
    size_t size;
    const char *name;
    const char *source;
    const char *chunk;
    const void *argument;
    size_t argument_size;
    uint8_t role, thread;
    tide_address link;
    uint8_t opens;
};
int tide_spawn_lua(struct tide_node *node, const struct tide_lua_options *options, tide_address *out);
int tide_node_agent(struct tide_node *node);

#endif
