/*
 * Workers: fibers that push, pull and localize, alone or in each other's way, and talk to echo
 * actors. They work in bursts, which begin at times of the plan, and rest between them.
 *
 * A worker's operations are a ring in the order of their issue; synchronous ones are done when they
 * enter it. Results are looked at in that order. What a single result can show is checked here;
 * histories of one-hot rows are checked at the end (check.c).
 *
 * Counters: coordinate w of a key's row is how often worker w has pushed it. A pull shows, of each
 * worker, no less than had returned when it was issued, no more than has been issued by now, and no
 * less than this worker's last pull; of its own exactly what it has issued before.
 */
#include "store/core/options.h"
#include "store/core/table.h"
#include "world.h"
#include "tide/clock.h"

#include <math.h>

enum kind { PULL, PUSH, LOCALIZE, MANAGE, INTENT };

struct issued { /* an operation in flight */
    struct tide_ticket ticket;
    bool sync;
    uint8_t kind, table;
    int code; /* synchronous: its result */
    uint64_t returned;
    uint32_t step;
    unsigned count;
    char text[200];
    uint32_t numbers[BATCH_MAX];
    uint64_t keys[BATCH_MAX];
    size_t at[BATCH_MAX]; /* in the history */
    float *rows;
    uint16_t *acked; /* counters, pull: what must be there: [key][worker] */
    uint16_t *own;   /* counters, pull: what this worker had issued */
};

struct ring {
    struct issued *list;
    unsigned size, first, count;
};

uint64_t key_of(const struct table *table, uint32_t number) {
    return table->options.keys == TIDE_KEYS_HASHED ? tide_mix64(number + 1) : number;
}

/* ---- tables ---- */

/* Memory for 2 to 100 % of the rows of a node, but for what a tier needs at least. */
static void tiered_table(struct world *w, struct table *t, unsigned index, bool copied) {
    struct tide_random random;
    tide_random_seed(&random, tide_mix64(w->options.seed ^ (0x71e4 + index)));
    if (copied || t->options.technique > TIDE_RELOCATE || !chance(&random, option(w, SWARM_TIER))) {
        return;
    }
    const uint64_t row = t->options.width * sizeof(float) + sizeof(uint64_t);
    (void)snprintf(t->options.tier_disk, sizeof t->options.tier_disk, "/tmp");
    t->options.tier_memory = tide__tier_memory_least(&t->options) + row * t->total * between(&random, 2, 100) / 200;
}

static void table_init(struct world *w, struct table *t, unsigned index) {
    static const uint8_t wires[] = {TIDE_WIRE_F32, TIDE_WIRE_F32, TIDE_WIRE_F16, TIDE_WIRE_BF16};
    struct tide_random random;
    tide_random_seed(&random, tide_mix64(w->options.seed ^ (0x7ab1e + index)));
    (void)snprintf(t->name, sizeof t->name, "t%u", index);
    t->counts = chance(&random, option(w, SWARM_COUNTERS));
    t->keys = (uint32_t)option(w, SWARM_KEYS);
    t->total = t->counts ? t->keys : t->keys * GENERATIONS;
    bool hashed = chance(&random, option(w, SWARM_HASHED));
    bool moves = chance(&random, option(w, SWARM_RELOCATE)) && !keeps_all(w);
    uint8_t slots = tide_random_below(&random, 2) ? TIDE_SLOTS_HASH : TIDE_SLOTS_RANGE;
    uint8_t wire = wires[tide_random_below(&random, t->counts ? 2 : TIDE_COUNT(wires))];
    tide_random_seed(&random, tide_mix64(w->options.seed ^ (0xc0b1e5 + index)));
    bool copied = !moves && (chance(&random, option(w, SWARM_REPLICAS)) || keeps_all(w));
    t->options = (struct tide_table_options){
        .name = t->name,
        .keys = hashed ? TIDE_KEYS_HASHED : TIDE_KEYS_DENSE,
        .slots = hashed ? TIDE_SLOTS_HASH : slots,
        .init = TIDE_INIT_ZERO,
        .update = TIDE_UPDATE_ADD,
        .wire = wire,
        .technique = moves ? TIDE_RELOCATE : TIDE_STATIC,
        .replicas = (uint8_t)(copied ? 1 + tide_random_below(&random, 2) : 0),
        .key_count = hashed ? 0 : t->total,
        .width = t->counts ? COUNTING_MAX : (uint32_t)option(w, SWARM_WIDTH),
        .seed = 1};
    shared_table(w, t, index);
    tide_random_seed(&random, tide_mix64(w->options.seed ^ (0x317d0 + index)));
    if (copied && !t->counts && chance(&random, option(w, SWARM_WINDOW))) {
        t->options.durability = TIDE_DURABLE_WINDOW;
        t->options.window_ns = between(&random, 5, 200) * MS;
        t->options.window_bytes = TIDE_WINDOW_BYTES_MIN;
    }
    tiered_table(w, t, index, copied);
    t->pushes = tide_alloc_zero(t->total, 1);
    TIDE_ASSERT(t->pushes != NULL);
    if (t->counts) {
        t->issued = tide_alloc_zero((size_t)t->keys * COUNTING_MAX, sizeof *t->issued);
        t->acked = tide_alloc_zero((size_t)t->keys * COUNTING_MAX, sizeof *t->acked);
        TIDE_ASSERT(t->issued != NULL && t->acked != NULL);
    }
}

void workload_init(struct world *w) {
    w->table_count = (unsigned)option(w, SWARM_TABLES);
    for (unsigned i = 0; i < w->table_count; i++) {
        table_init(w, &w->tables[i], i);
    }
}

static void ring_free(struct ring *ring) {
    for (unsigned i = 0; i < ring->size; i++) {
        tide_free(ring->list[i].rows);
        tide_free(ring->list[i].acked);
        tide_free(ring->list[i].own);
    }
    tide_free(ring->list);
    tide_free(ring);
}

void workload_deinit(struct world *w) {
    for (unsigned i = 0; i < w->worker_count; i++) {
        ring_free(w->workers[i]->ring);
        for (unsigned t = 0; t < TABLES_MAX; t++) {
            tide_free(w->workers[i]->seen[t]);
        }
        tide_free(w->workers[i]);
    }
    for (unsigned t = 0; t < w->table_count; t++) {
        struct table *table = &w->tables[t];
        tide_free(table->pushes);
        tide_free(table->issued);
        tide_free(table->acked);
        tide_free(table->history.list);
        tide_free(table->rest);
    }
}

/* ---- results ---- */

static const char *const names[] = {"pull", "push", "localize", "manage", "intent"};

static void pulled_set(struct worker *worker, struct issued *op, unsigned i) {
    struct world *w = worker->world;
    struct table *table = &w->tables[op->table];
    struct operation *record = &table->history.list[op->at[i]];
    uint64_t set = 0;
    for (uint32_t c = 0; c < table->options.width; c++) {
        float value = op->rows[i * table->options.width + c];
        if (value == 1) {
            set |= UINT64_C(1) << c;
        } else if (value != 0) {
            swarm_fail(
                w, "exactly_once", "table %s key %u: coordinate %u is %g, pulled by worker %u (%s)",
                table->name, op->numbers[i], c, (double)value, worker->index, worker->node->name);
        }
    }
    uint64_t known = table->pushes[op->numbers[i]] >= 64
                         ? UINT64_MAX
                         : (UINT64_C(1) << table->pushes[op->numbers[i]]) - 1;
    if ((set & ~known) != 0) {
        swarm_fail(w, "exactly_once", "table %s key %u: a pull shows a push that nobody made",
                   table->name, op->numbers[i]);
    }
    record->set = set;
    record->ok = true;
    record->returned = op->returned;
}

static void pulled_counts(struct worker *worker, struct issued *op, unsigned i) {
    struct world *w = worker->world;
    struct table *table = &w->tables[op->table];
    uint16_t *seen = &worker->seen[op->table][op->numbers[i] * COUNTING_MAX];
    for (unsigned c = 0; c < COUNTING_MAX; c++) {
        float value = op->rows[i * COUNTING_MAX + c];
        uint16_t issued = table->issued[op->numbers[i] * COUNTING_MAX + c];
        const bool own = c == worker->index;
        /* Of copies it is its own pushes that a worker sees at once. */
        const bool judged = !table->shared || (own && is_vouched(worker, table));
        uint16_t least = judged ? op->acked[i * COUNTING_MAX + c] : 0;
        const char *wrong = NULL, *checker = "exactly_once";
        if (value != floorf(value) || value < 0 || value > (float)issued) {
            wrong = "is more than was pushed";
        } else if (value < (float)least) {
            wrong = "misses pushes that had returned before";
            checker = "linearizable";
        } else if (judged && value < (float)seen[c]) {
            wrong = "is less than this worker's last pull showed";
            checker = "order";
        } else if (own && value > (float)op->own[i]) {
            wrong = "has pushes of its own worker that were issued later";
            checker = "order";
        } else if (table->shared && own && value < (float)op->own[i] &&
                   w->report->lost_nodes == 0 && worker->node->state == NODE_UP &&
                   !worker->node->short_once) { /* or some may have failed */
            wrong = "misses pushes of its own worker";
            checker = "order";
        }
        if (wrong != NULL) {
            swarm_fail(w, checker,
                       "table %s key %u: the count of worker %u, pulled by worker %u (%s), %s: %g; "
                       "returned before %u, seen %u, issued %u",
                       table->name, op->numbers[i], c, worker->index, worker->node->name, wrong,
                       (double)value, least, seen[c], issued);
            return;
        }
        seen[c] = (uint16_t)value;
    }
}

static void finished(struct worker *worker, struct issued *op, int code, const char *text) {
    struct world *w = worker->world;
    struct table *table = &w->tables[op->table];
    if (code < 0) {
        w->report->operations_lost++;
        if (!excused(w, worker->node, table, code, text)) {
            swarm_fail(w, "answers", "worker %u (%s): %s of %u keys of %s (first %u) failed: %s %s",
                       worker->index, worker->node->name, names[op->kind], op->count, table->name,
                       op->numbers[0], tide_error_name(code), text);
        }
        return;
    }
    for (unsigned i = 0; i < op->count && op->kind < LOCALIZE; i++) {
        if (op->kind == PULL && table->counts) {
            pulled_counts(worker, op, i);
        } else if (op->kind == PULL) {
            pulled_set(worker, op, i);
        } else if (table->counts) {
            table->acked[op->numbers[i] * COUNTING_MAX + worker->index]++;
        } else {
            table->history.list[op->at[i]].ok = true;
            table->history.list[op->at[i]].returned = op->returned;
        }
    }
}

static int issue(struct worker *worker, struct issued *op, struct tide_ticket *ticket);
static bool goes_on(const struct worker *worker);

/* What a node had no memory for did not happen there: the same once more, as a later operation. Of
 * several keys others may have had room for theirs; that stays as it is, known to have happened
 * perhaps. */
static void try_again(struct worker *worker, struct issued *op) {
    const struct table *table = &worker->world->tables[op->table];
    while (op->kind == PUSH && op->count == 1 && goes_on(worker) &&
           refused_for_memory(worker->world, op->code, op->text)) {
        const uint32_t after_ms = tide_error_retry_after_ms();
        if (after_ms == 0) {
            swarm_fail(worker->world, "answers", "worker %u (%s): refused without a time: %s",
                       worker->index, worker->node->name, op->text);
        }
        (void)tide_sleep(after_ms * MS);
        worker->world->report->retried++;
        if (!table->counts) {
            table->history.list[op->at[0]].invoked = tide_sim_now(worker->world->sim);
            table->history.list[op->at[0]].step = ++worker->step;
        }
        op->code = issue(worker, op, NULL);
        op->returned = tide_sim_now(worker->world->sim);
        tide_text_copy(op->text, sizeof op->text, op->code < 0 ? tide_error_message() : "");
    }
}

static void finish_oldest(struct worker *worker) {
    struct ring *ring = worker->ring;
    struct issued *op = &ring->list[ring->first];
    int code = op->code;
    if (!op->sync) {
        worker->doing = (struct doing){
            "waits for", worker->world->tables[op->table].name, op->count, names[op->kind]};
        code = tide_ticket_wait(&op->ticket);
        op->returned = tide_sim_now(worker->world->sim);
        tide_text_copy(op->text, sizeof op->text, code < 0 ? tide_error_message() : "");
        op->code = code;
        try_again(worker, op);
        code = op->code;
    }
    ring->first = (ring->first + 1) % ring->size;
    ring->count--;
    finished(worker, op, code, op->text);
}

/* ---- issuing ---- */

static unsigned batch_most(const struct world *w) {
    const unsigned most = (unsigned)option(w, SWARM_BATCH);
    return most < BATCH_MAX ? most : BATCH_MAX;
}

static void choose_keys(struct worker *worker, struct issued *op, unsigned burst) {
    struct world *w = worker->world;
    const struct table *table = &w->tables[op->table];
    uint32_t base = table->counts ? 0 : table->keys * (burst / 3 % GENERATIONS);
    op->count = (unsigned)between(&worker->random, 1, batch_most(w));
    for (unsigned i = 0; i < op->count; i++) {
        op->numbers[i] = base + (uint32_t)tide_random_below(&worker->random, table->keys);
        op->keys[i] = key_of(table, op->numbers[i]);
    }
}

/* One-hot rows have room for so many pushes; keys that are full drop out. */
static void prepare_push(struct worker *worker, struct issued *op) {
    struct world *w = worker->world;
    struct table *table = &w->tables[op->table];
    const uint32_t width = table->options.width;
    unsigned kept = 0;
    memset(op->rows, 0, (size_t)op->count * width * sizeof *op->rows);
    for (unsigned i = 0; i < op->count; i++) {
        uint32_t number = op->numbers[i];
        if (!table->counts && table->pushes[number] >= width) {
            continue;
        }
        op->numbers[kept] = number;
        op->keys[kept] = op->keys[i];
        if (table->counts) {
            op->rows[kept * width + worker->index] = 1;
            table->issued[number * COUNTING_MAX + worker->index]++;
        } else {
            struct operation record = {.invoked = tide_sim_now(worker->world->sim),
                                       .returned = TIDE_NEVER,
                                       .key = number,
                                       .step = op->step,
                                       .worker = worker->index,
                                       .push = (int8_t)table->pushes[number]};
            op->rows[kept * width + table->pushes[number]++] = 1;
            history_add(w, table, &record, &op->at[kept]);
        }
        kept++;
    }
    op->count = kept;
}

static void prepare_pull(struct worker *worker, struct issued *op) {
    struct world *w = worker->world;
    struct table *table = &w->tables[op->table];
    for (unsigned i = 0; i < op->count; i++) {
        uint32_t number = op->numbers[i];
        if (table->counts) {
            size_t row = (size_t)number * COUNTING_MAX;
            memcpy(op->acked + i * COUNTING_MAX, table->acked + row,
                   COUNTING_MAX * sizeof *op->acked);
            op->own[i] = table->issued[row + worker->index];
            w->report->operations++;
        } else {
            struct operation record = {.invoked = tide_sim_now(worker->world->sim),
                                       .returned = TIDE_NEVER,
                                       .key = number,
                                       .step = op->step,
                                       .worker = worker->index,
                                       .push = -1};
            history_add(w, table, &record, &op->at[i]);
        }
    }
}

static int issue(struct worker *worker, struct issued *op, struct tide_ticket *ticket) {
    struct tide_table *table = worker->tables[op->table];
    switch (op->kind) {
    case PULL:
        return tide_table_pull(table, op->keys, op->count, op->rows, ticket);
    case PUSH:
        return tide_table_push(table, op->keys, op->count, op->rows, ticket);
    case LOCALIZE:
        return tide_table_localize(table, op->keys, op->count, ticket);
    case MANAGE:
        return shared_manage(worker, table, op->keys, op->count);
    default:
        return shared_intent(worker, table, op->keys, op->count);
    }
}

static void operate(struct worker *worker, unsigned burst) {
    struct world *w = worker->world;
    struct ring *ring = worker->ring;
    if (ring->count == ring->size) {
        finish_oldest(worker);
    }
    struct issued *op = &ring->list[(ring->first + ring->count) % ring->size];
    op->table = (uint8_t)tide_random_below(&worker->random, w->table_count);
    if (w->tables[op->table].counts && worker->index >= COUNTING_MAX) {
        return;
    }
    op->kind = chance(&worker->random, option(w, SWARM_LOCALIZES)) ? LOCALIZE
               : chance(&worker->random, option(w, SWARM_PUSHES))  ? PUSH
                                                                   : PULL;
    if (op->kind == LOCALIZE && w->tables[op->table].shared) {
        op->kind += (uint8_t)tide_random_below(&worker->random, 3);
    } else if (op->kind == LOCALIZE && w->tables[op->table].options.tier_disk[0] && chance(&worker->random, 0.5)) {
        op->kind = INTENT;
    }
    op->sync = chance(&worker->random, option(w, SWARM_SYNC)) || op->kind > LOCALIZE;
    op->step = ++worker->step;
    choose_keys(worker, op, burst);
    if (op->kind == PUSH) {
        prepare_push(worker, op);
    }
    if (op->count == 0) {
        op->kind = PULL; /* all are full */
        choose_keys(worker, op, burst);
    }
    if (op->kind == PULL) {
        prepare_pull(worker, op);
    }
    worker->doing =
        (struct doing){"works on", w->tables[op->table].name, op->count, names[op->kind]};
    op->code = issue(worker, op, op->sync ? NULL : &op->ticket);
    op->returned = tide_sim_now(worker->world->sim);
    tide_text_copy(op->text, sizeof op->text, op->code < 0 ? tide_error_message() : "");
    op->sync = op->sync || op->code < 0; /* a refused one has no ticket */
    try_again(worker, op);
    ring->count++;
    if (any_intends(w) && chance(&worker->random, 0.3)) {
        shared_clocks(worker, 1);
    }
}

/* ---- workers ---- */

static unsigned next_burst(const struct world *w, uint64_t now, unsigned from) {
    while (from < w->burst_count && w->bursts[from] + 200 * MS < now) {
        from++;
    }
    return from;
}

static bool goes_on(const struct worker *worker) {
    return !worker->world->stopping && worker->node->state == NODE_UP;
}

static void nothing(void *arg) {
    (void)arg;
}

/* An actor that lives for a moment, so that slots and addresses are used again. */
static void hop(struct worker *worker) {
    struct world *w = worker->world;
    enum tide_memory_use use = tide__memory_swap(TIDE_MEMORY_TOOL);
    void *arg = tide_alloc(1);
    tide__memory_swap(use);
    worker->doing = (struct doing){"hops", "to another thread", 0, ""};
    const int code = tide_hop(worker->node->node, TIDE_ROLE_COMPUTE, nothing, arg, tide_free);
    if (code == 0) {
        tide_free(arg);
    } else if (!excused(w, worker->node, NULL, code, tide_error_message())) {
        swarm_fail(w, "answers", "worker %u (%s) hopped: %s %s", worker->index, worker->node->name,
                   tide_error_name(code), tide_error_message());
    }
}

static void run_burst(struct worker *worker, unsigned burst) {
    struct world *w = worker->world;
    unsigned count = (unsigned)option(w, SWARM_BURST);
    for (unsigned i = 0; i < count && goes_on(worker); i++) {
        if (chance(&worker->random, option(w, SWARM_MESSAGES))) {
            echo_message(worker);
        } else {
            operate(worker, burst);
        }
        if (chance(&worker->random, 0.05)) {
            hop(worker);
        }
        uint64_t rest = tide_random_below(&worker->random, 8);
        if (rest < 3) {
            (void)tide_sleep(between(&worker->random, 1000, rest == 0 ? 20 * MS : MS / 2));
        }
    }
    while (worker->ring->count > 0) {
        finish_oldest(worker);
    }
    if (any_intends(w) && chance(&worker->random, 0.7)) {
        shared_clocks(worker, INTENT_CLOCKS); /* its intents are over while it rests */
    }
}

/* Until `after` behind the beginning of a burst, which may come earlier meanwhile: faults_hasten. */
static void rest_until(struct worker *worker, unsigned burst, uint64_t after) {
    const struct world *w = worker->world;
    static const uint64_t look_again = 500 * MS;
    worker->doing = (struct doing){"rests", "", 0, ""};
    worker->rests = true;
    while (goes_on(worker)) {
        const uint64_t now = tide_sim_now(w->sim), begins = burst_begins(w, burst) + after;
        if (begins <= now) {
            break;
        }
        (void)tide_sleep(begins - now < look_again ? begins - now : look_again);
    }
    worker->rests = false;
}

static int worker_main(void *state) {
    struct worker *worker = state;
    struct world *w = worker->world;
    if (any_intends(w)) {
        shared_begin(worker);
    }
    for (unsigned burst = 0; goes_on(worker); burst++) {
        burst = next_burst(w, tide_sim_now(w->sim), burst);
        rest_until(worker, burst, tide_random_below(&worker->random, BURST_SPREAD));
        run_burst(worker, burst);
        if (burst == w->burst_count) {
            break;
        }
    }
    while (worker->ring->count > 0) {
        finish_oldest(worker);
    }
    tide_worker_end();
    worker->doing = (struct doing){"has ended", "", 0, ""};
    worker->ended = true;
    worker->node->running--;
    return 0;
}

static struct worker *worker_make(struct node *node) {
    struct world *w = node->world;
    struct worker *worker = tide_alloc_zero(1, sizeof *worker);
    struct ring *ring = tide_alloc_zero(1, sizeof *ring);
    TIDE_ASSERT(worker != NULL && ring != NULL && w->worker_count < WORKERS_MAX);
    worker->world = w;
    worker->node = node;
    worker->ring = ring;
    worker->index = (uint16_t)w->worker_count;
    tide_random_seed(&worker->random, tide_mix64(w->options.seed + 1000003 * (worker->index + 1u)));
    ring->size = (unsigned)option(w, SWARM_DEPTH);
    ring->list = tide_alloc_zero(ring->size, sizeof *ring->list);
    TIDE_ASSERT(ring->list != NULL);
    const size_t batch = batch_most(w);
    for (unsigned i = 0; i < ring->size; i++) {
        ring->list[i].rows = tide_alloc(batch * COUNTING_MAX * sizeof(float));
        ring->list[i].acked = tide_alloc(batch * COUNTING_MAX * sizeof(uint16_t));
        ring->list[i].own = tide_alloc(batch * sizeof(uint16_t));
        TIDE_ASSERT(ring->list[i].rows && ring->list[i].acked && ring->list[i].own);
    }
    for (unsigned t = 0; t < w->table_count && worker->index < COUNTING_MAX; t++) {
        if (w->tables[t].counts) {
            worker->seen[t] =
                tide_alloc_zero((size_t)w->tables[t].keys * COUNTING_MAX, sizeof(uint16_t));
            TIDE_ASSERT(worker->seen[t] != NULL);
        }
    }
    w->workers[w->worker_count++] = worker;
    return worker;
}

bool workload_spawn(struct node *node) {
    struct world *w = node->world;
    struct tide_table *tables[TABLES_MAX];
    for (unsigned t = 0; t < w->table_count; t++) {
        if (tide_table_find(node->node, w->tables[t].name, &tables[t]) < 0) {
            return false;
        }
    }
    if (echo_spawn(node) < 0) {
        swarm_fail(w, "world", "%s: no echo actor: %s", node->name, tide_error_message());
        return true;
    }
    unsigned threads = (unsigned)option(w, SWARM_THREADS),
             fibers = (unsigned)option(w, SWARM_FIBERS);
    for (unsigned i = 0; i < threads * fibers && w->worker_count < WORKERS_MAX; i++) {
        struct worker *worker = worker_make(node);
        memcpy(worker->tables, tables, sizeof tables);
        struct tide_actor_options o = {.type = "worker",
                                       .run = worker_main,
                                       .state = worker,
                                       .role = TIDE_ROLE_COMPUTE,
                                       .thread = (uint8_t)(i % threads),
                                       .stack_bytes = 128 << 10};
        node->running++;
        if (tide_spawn(node->node, &o, NULL) < 0) {
            swarm_fail(w, "world", "%s: no worker: %s", node->name, tide_error_message());
        }
    }
    return true;
}
