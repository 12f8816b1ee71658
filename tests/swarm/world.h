/* Private to the swarm: one run, its nodes, tables, workers and what they did. */
#ifndef TIDE_SWARM_WORLD_H
#define TIDE_SWARM_WORLD_H

#include "net/net_state.h"
#include "store/adaptive/owner.h"
#include "store/replica/replica.h"
#include "store/adaptive/hot_keys.h"
#include "swarm.h"

#define MS UINT64_C(1000000)
#define BURST_SPREAD (50 * MS) /* workers begin one so much apart, at most */

enum {
    NODES_MAX = 64, /* lives, those that are over included */
    NODES_UP_MAX = 12,
    TABLES_MAX = 4,
    WORKERS_MAX = 1024,
    COUNTING_MAX = 64, /* workers that count: one coordinate each */
    BATCH_MAX = 64,
    GENERATIONS = 24, /* one-hot rows fill up: the keys in use change with time */
    BURSTS_MAX = 256,
    LANES = 2,         /* of casts: control, bulk */
    INTENT_CLOCKS = 8, /* so far ahead workers intend at most */
};

enum node_state { NODE_OFF, NODE_JOINING, NODE_UP, NODE_LEAVING, NODE_CRASHED, NODE_GONE };

struct world;

/* What the echo actor of a node has heard. */
struct echo {
    struct world *world;
    struct node *node;
    uint32_t heard[WORKERS_MAX][LANES];
};

struct node { /* one life of a node */
    struct world *world;
    struct tide_port *port;
    struct tide_node *node;
    struct echo *echo;
    tide_address echo_address;
    char name[16];
    uint16_t id;
    uint8_t state; /* enum node_state */
    bool lost;     /* crashed, or declared dead: its rows are gone */
    uint64_t lost_at;
    uint64_t restart_at;     /* crashed, or about to: when its next life begins; TIDE_NEVER */
    bool short_once;         /* of memory: what its workers ask for may fail */
    unsigned tries;          /* to join, of the lives before that were refused too: the next comes later */
    uint64_t since;          /* when `state` began */
    uint64_t ballast;        /* bytes of its budget that nothing stands for: faults.c */
    unsigned running;        /* workers */
    bool forgot[TABLES_MAX]; /* its life is over, and so: updates of its copies may not have arrived
                              */
};

/* One key of one operation. */
struct operation {
    uint64_t invoked, returned; /* returned TIDE_NEVER: it may have happened, or not, at any time */
    uint64_t set;               /* pull of one-hot rows: coordinates that are 1 */
    uint32_t key, step;         /* step: of the worker, ascending */
    uint16_t worker;
    int8_t push; /* coordinate; -1: a pull */
    bool ok;
};

struct history {
    struct operation *list;
    size_t count, room;
};

struct table {
    char name[16];
    struct tide_table_options options;
    bool shared;              /* keys have copies where they are used */
    bool counts;              /* one coordinate a worker; else one-hot: one a push */
    uint32_t keys;            /* in use at one time */
    uint32_t total;           /* ever */
    uint8_t *pushes;          /* one-hot: issued, of each key */
    uint16_t *issued, *acked; /* counters: [key][worker]; acked: those that returned well */
    struct history history;   /* one-hot */
    uint64_t *rest;           /* one-hot, durability window: [key] at rest; UINT64_MAX: not known */
};

struct doing { /* for a run that hangs: put into words only then */
    const char *verb, *object;
    uint32_t count;
    const char *of;
};

struct worker {
    struct world *world;
    struct node *node;
    struct tide_random random;
    struct tide_table *tables[TABLES_MAX];
    uint16_t index;
    bool ended, rests; /* rests: between two bursts, nothing of it is in flight */
    uint32_t step;
    struct ring *ring; /* workload.c */
    uint32_t sent[NODES_MAX][LANES];
    uint16_t *seen[TABLES_MAX]; /* counters: [key][worker] of its last pull */
    struct doing doing;
};

struct dropper { /* dropper.c */
    const char *doing;
    char name[16];
    unsigned count; /* tables that it has made */
    bool ended;
};

struct world {
    struct swarm_options options;
    struct swarm_report *report;
    struct tide_sim *sim;
    struct node *nodes[NODES_MAX];
    unsigned node_count, names;
    struct table tables[TABLES_MAX];
    unsigned table_count;
    struct worker *workers[WORKERS_MAX];
    unsigned worker_count;
    uint64_t bursts[BURSTS_MAX];
    unsigned burst_count;
    bool stopping;      /* workers begin nothing new */
    bool lost_too_many; /* at one time more nodes than some table has copies: slots may be lost */
    bool healing;
    bool looks;         /* all is at rest: what is read now has no excuse but the dead */
    bool limited; /* some limit differs from its default */
    uint64_t chaos_end, event_limit;
    struct tide_random random;
    struct faults *faults;
    struct saver *saver; /* NULL: nothing is saved */
    struct dropper dropper;
    bool restored;
};

static inline double option(const struct world *w, enum swarm_option o) {
    return w->options.value[o];
}
/* What may take a time is granted it; much more with limits of 1, under which links stop and wait. */
uint64_t patience(const struct world *w, uint64_t ns);
static inline bool chance(struct tide_random *random, double p) {
    return tide_random_uniform(random) < p;
}
/* Between least and most, both included. */
static inline uint64_t between(struct tide_random *random, uint64_t least, uint64_t most) {
    return least + tide_random_below(random, most - least + 1);
}

/* The first failure counts. */
void swarm_fail(struct world *w, const char *checker, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- world.c ---- */
struct node *node_start(struct world *w, const char *name); /* NULL: it has failed */
void node_leave(struct node *node);
void node_crash(struct node *node, uint64_t restart_at);
unsigned nodes_in(const struct world *w, enum node_state state);
bool world_pass(struct world *w, uint64_t ns);                    /* false: something failed */
struct node *node_named(const struct world *w, const char *name); /* its newest life */
/* The controller, in any of its lives. */
static inline bool is_first(const struct node *node) {
    return strcmp(node->name, "n1") == 0;
}
/* Does the controller keep a journal, and crash? */
static inline bool journals(const struct world *w) {
    return option(w, SWARM_CONTROLLER_S) > 0;
}
/* May no row be lost? Those that are would be in no generation, and who was the controller has
 * rows. */
static inline bool keeps_all(const struct world *w) {
    return journals(w) || (option(w, SWARM_CHECKPOINT_S) > 0 && option(w, SWARM_CRASH_S) > 0);
}
/* May acknowledged pushes of the table be gone? */
bool may_lose(const struct world *w, const struct table *table);
/* Also one that has given up and was not looked at yet. */
bool node_is_lost(const struct node *node);
/* May an operation of this node fail so? Without copies the text names a node that is lost.
 * table NULL: a message. */
bool excused(const struct world *w, const struct node *node, const struct table *table, int code,
             const char *text);

/* ---- workload.c, flush_barrier.c ---- */
void workload_init(struct world *w);
void workload_deinit(struct world *w);
bool workload_spawn(struct node *node); /* false: not yet */
/* Do rows relocate? */
static inline bool moves(const struct table *table) {
    return tide_technique_relocates(table->options.technique);
}
uint64_t key_of(const struct table *table, uint32_t number);
int echo_spawn(struct node *node);
void echo_message(struct worker *worker);

/* Did a node that is short of memory refuse it? Then nothing of it happened at that node. */
bool refused_for_memory(const struct world *w, int code, const char *text);

/* ---- faults.c ---- */
void faults_plan(struct world *w);
uint64_t faults_next(const struct world *w); /* when the next is due, or TIDE_NEVER */
void faults_due(struct world *w);
/* When a burst begins; the last is behind the chaos. */
static inline uint64_t burst_begins(const struct world *w, unsigned burst) {
    return burst < w->burst_count ? w->bursts[burst] : w->chaos_end + TIDE_SECOND;
}
/* While nothing is in flight and nothing is due for long: what is planned comes earlier. */
void faults_hasten(struct world *w);
void faults_heal(struct world *w);
bool faults_lost_too_many(const struct world *w); /* at one time, for some table with copies */
void faults_release(struct world *w);
/* One more line of the report's faults. */
void fault_note(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- check.c ---- */
void history_add(struct world *w, struct table *table, const struct operation *operation,
                 size_t *index);
void check_histories(struct world *w);
void check_windows(struct world *w); /* the same, when `rest` is known */
void check_messages(struct world *w);

/* ---- hot_keys.c ---- */
void shared_table(const struct world *w, struct table *table, unsigned index);
bool any_shared(const struct world *w);
bool any_intends(const struct world *w); /* workers have clocks, and intents */
void shared_begin(struct worker *worker); /* it has clocks from now */
void shared_clocks(struct worker *worker, unsigned count);
/* Fibers. Techniques of some keys, or an intent to use them; drawn. */
int shared_manage(struct worker *worker, struct tide_table *table, const uint64_t *keys,
                  size_t count);
int shared_intent(struct worker *worker, struct tide_table *table, const uint64_t *keys,
                  size_t count);
/* Must every push of the worker that returned well be in the row, unless the row is lost? */
bool is_vouched(const struct worker *worker, const struct table *table);
void shared_forget(struct node *node); /* its life ends */
bool shared_quiet(const struct node *node, struct tide_table *table, char *why, size_t size);
void check_shared(struct world *w);    /* at rest */
void check_stillness(struct world *w); /* nothing is sent for copies at rest; lets time pass */

/* ---- saver.c ---- */
bool saves(const struct world *w);
void saver_init(struct world *w);
void saver_release(struct world *w);
void saver_start(struct world *w);
void saver_heal(struct world *w);
bool saver_ended(const struct world *w);
void saver_flip(struct world *w); /* a bit of a generation that counts */
void saver_spawn(struct world *w,
                 int (*run)(void *)); /* a fiber of the first node, with the world */
void saver_crashed(struct world *w, const char *name);
struct generation { /* an attempt to write one; a number may be tried again */
    uint64_t number, began;
    bool counts;  /* it was said to */
    bool flipped; /* a bit of one of its own files has changed */
};
/* The last attempt with that number, or with the highest that counts (0); NULL: there is none. */
struct generation *saver_generation(const struct world *w, uint64_t number);
/* Changes a bit of one of its files. False: its manifest cannot be read, or the file is not there.
 */
bool saver_damage(struct world *w, uint64_t number);
extern const char saver_place[], saver_directory[];

/* ---- dropper.c ---- */
bool drops(const struct world *w);
void dropper_start(struct world *w);
bool dropper_ended(const struct world *w);

/* ---- clients.c ---- */
int clients_create_tables(struct world *w); /* fiber of the first node */
void clients_start(struct world *w);
bool clients_ended(char *why, size_t size);
/* A fault of one of them. True: it is to be healed after `lasts`. */
bool clients_fault(struct world *w, struct tide_random *random, unsigned *client, uint64_t *lasts);
void clients_heal(struct world *w, unsigned client);
bool clients_look(struct world *w); /* at rest; false: there are none */
bool clients_looked(struct world *w);
void clients_release(struct world *w);

/* ---- restorer.c ---- */
void restorer_look(struct world *w);
bool restorer_start(struct world *w); /* false: there is nothing to bring back */
bool restorer_ended(struct world *w);

/* ---- rest.c ---- */
/* The row as this node has it, home, owner or replica; NULL: it has none. */
const float *row_at(const struct table *table, const struct node *n, uint64_t key);
void check_running(struct world *w); /* now and then, while everything moves */
bool is_quiet(struct world *w, char *why, size_t size);
/* Is every row of every table with copies where it should be, as often as it should be? */
bool is_redundant(const struct world *w, char *why, size_t size);
void check_rest(struct world *w);
void dump(struct world *w, char *out, size_t size);

#endif
