/*
 * The simulator: one heap of events on a virtual clock, driven by one seed. Nodes are objects;
 * their executors are entries that are busy until a time. A turn takes no time while it runs and
 * `turn_cost` afterwards; time inside a turn or callback does not pass. As on the real port, a turn
 * follows every callback of a stream.
 *
 * It models order, delay, the cards of the network, partition, reset, pause, crash, and disks that
 * fail or lose what was not synced. One thread: nothing here is atomic.
 */
#include "port/sim.h"

#include <string.h>

enum { HEAP_ARITY = 4, WATCH_EVERY = 10000000 };
/* Virtual wall time starts at a fixed moment, so that names and files made from it repeat. */
static const uint64_t wall_start = UINT64_C(1700000000) * TIDE_SECOND;

/* ---- event heap ---- */

void tide__sim_grow(void **array, size_t count, size_t *room, size_t element) {
    if (count == *room) {
        *room = *room != 0 ? 2 * *room : 16;
        enum tide_memory_use use = tide__memory_swap(TIDE_MEMORY_TOOL);
        *array = tide_realloc(*array, *room * element);
        tide__memory_swap(use);
        TIDE_ASSERT(*array);
    }
}

__extension__ typedef unsigned __int128 wide; /* not ISO C, but in gcc and clang on every 64-bit target */

/* One comparison of both, without a branch: which of two events is the earlier is unpredictable. */
static bool before(const struct sim_event *a, const struct sim_event *b) {
    return ((wide)a->time << 64 | a->tie) < ((wide)b->time << 64 | b->tie);
}

/* The earliest of the children from `first` on. */
static size_t least_child(const struct tide_sim *sim, size_t first) {
    const struct sim_event *heap = sim->heap;
    size_t least = first;
    if (first + HEAP_ARITY <= sim->heap_count) {
        const size_t a = first + before(&heap[first + 1], &heap[first]),
                     b = first + 2 + before(&heap[first + 3], &heap[first + 2]);
        return a + (b - a) * before(&heap[b], &heap[a]);
    }
    for (size_t child = first + 1; child < sim->heap_count; child++) {
        least = before(&heap[child], &heap[least]) ? child : least;
    }
    return least;
}

static void heap_push(struct tide_sim *sim, struct sim_event event) {
    void *heap = sim->heap;
    tide__sim_grow(&heap, sim->heap_count, &sim->heap_room, sizeof *sim->heap);
    sim->heap = heap;
    size_t i = sim->heap_count++;
    while (i > 0 && before(&event, &sim->heap[(i - 1) / HEAP_ARITY])) {
        sim->heap[i] = sim->heap[(i - 1) / HEAP_ARITY];
        i = (i - 1) / HEAP_ARITY;
    }
    sim->heap[i] = event;
}

/* NULL: there is none. */
static const struct sim_event *peek(const struct tide_sim *sim) {
    return sim->has_front ? &sim->front : sim->heap_count > 0 ? &sim->heap[0] : NULL;
}

/* What is the next to happen stays out of the heap: most reads and turns are, as what they follow
 * from happens at the same time. */
void tide__sim_push(struct tide_sim *sim, uint64_t time, enum sim_kind kind, uint16_t node, void *object,
                    uint32_t generation) {
    TIDE_ASSERT(time >= sim->now && time != TIDE_NEVER);
    /* mix64 is a bijection and the sequence is unique: no two ties are equal */
    struct sim_event event = {.time = time,
                              .tie = tide_mix64(sim->ties + sim->sequence++),
                              .object = object,
                              .generation = generation,
                              .kind = (uint16_t)kind,
                              .node = node};
    const struct sim_event *next = peek(sim);
    if (next && !before(&event, next)) {
        heap_push(sim, event);
        return;
    }
    if (sim->has_front) {
        heap_push(sim, sim->front);
    }
    sim->front = event;
    sim->has_front = true;
}

static struct sim_event pop(struct tide_sim *sim) {
    if (sim->has_front) {
        sim->has_front = false;
        return sim->front;
    }
    TIDE_ASSERT(sim->heap_count > 0);
    struct sim_event top = sim->heap[0];
    struct sim_event last = sim->heap[--sim->heap_count];
    size_t i = 0;
    while (i * HEAP_ARITY + 1 < sim->heap_count) {
        const size_t least = least_child(sim, i * HEAP_ARITY + 1);
        if (!before(&sim->heap[least], &last)) {
            break;
        }
        sim->heap[i] = sim->heap[least];
        i = least;
    }
    sim->heap[i] = last;
    return top;
}

static void tell_observer(struct tide_sim *sim, const struct sim_event *event, size_t length, uint64_t checksum) {
    static const char *const kinds[] = {"turn",   "connect", "connected", "arrive", "read",  "writable",
                                        "closed", "call",    "core",      "card",   "drain", "couple"};
    TIDE_ASSERT(event->kind < TIDE_COUNT(kinds));
    struct tide_sim_event told = {
        .number = sim->processed,
        .time = event->time,
        .length = length,
        .checksum = checksum,
        .hash = sim->hash,
        .node = event->kind != SIM_CALL && event->kind != SIM_COUPLE ? sim->nodes[event->node]->name : "",
        .kind = kinds[event->kind]};
    sim->observe(sim->observe_arg, &told);
}

void tide__sim_fold(struct tide_sim *sim, const struct sim_event *event, size_t length, uint64_t checksum) {
    uint64_t record[4] = {event->time, (uint64_t)event->node << 16 | event->kind, length, checksum};
    sim->hash = tide_hash(record, sizeof record, sim->hash);
    sim->processed++;
    if (TIDE_UNLIKELY(sim->observe)) {
        tell_observer(sim, event, length, checksum);
    }
}

/* ---- executors ---- */

uint64_t tide__sim_not_before(const struct tide_executor *e) {
    if (e->dead) {
        return TIDE_NEVER;
    }
    uint64_t until = e->busy_until > e->node->paused_until ? e->busy_until : e->node->paused_until;
    return until > e->sim->now ? until : 0;
}

/* Sees to it that a turn's event happens no later than `scheduled`. Each that does looks again, so
 * one that is there for an earlier request serves a later one too: an idle node that is woken between
 * two of its ticks adds nothing to the heap for the second. */
static void book(struct tide_executor *e) {
    if (e->scheduled < e->booked) {
        e->booked_next = e->booked;
        e->booked = e->scheduled;
        e->references++;
        tide__sim_push(e->sim, e->booked, SIM_TURN, e->node->index, e, 0);
    }
}

/* Only the earliest request stays. */
static void schedule(struct tide_executor *e, uint64_t time) {
    if (time < e->sim->now) {
        time = e->sim->now;
    }
    if (!e->dead && time < e->scheduled) {
        e->scheduled = time;
        book(e);
    }
}

/* One thread runs all nodes: there is none to interrupt it. */
static int executor_interrupt(struct tide_executor *e, void (*handler)(void)) {
    (void)e;
    (void)handler;
    return TIDE_EUNSUPPORTED;
}

void tide__sim_executor_wake(struct tide_executor *e) {
    if (e->in_turn) {
        e->woken = true;
    } else {
        schedule(e, e->busy_until);
    }
}

static void free_executor_when_done(struct tide_executor *e) {
    if (!e->stopped || e->references > 0) {
        return;
    }
    struct tide_executor **link = &e->node->executors;
    while (*link != e) {
        link = &(*link)->next;
    }
    *link = e->next;
    tide_free(e);
}

void tide__sim_executor_unref(struct tide_executor *e) {
    TIDE_ASSERT(e->references > 0);
    e->references--;
    free_executor_when_done(e);
}

static void run_turn(struct tide_sim *sim, struct tide_executor *e) {
    uint64_t later = tide__sim_not_before(e);
    e->scheduled = TIDE_NEVER;
    if (later != 0) {
        schedule(e, later);
        return;
    }
    const struct sim_event event = {.time = sim->now, .kind = SIM_TURN, .node = e->node->index};
    tide__sim_fold(sim, &event, 0, 0);
    e->in_turn = true;
    e->woken = false;
    const uint64_t outer = sim->charged; /* of the turn that lets this one run (sim_interleave) */
    sim->charged = 0;
    struct sim_node *before = tide__sim_memory_enter(e->node);
    const struct tide_serving *served = tide__watch_thread(e->options.serves);
    uint64_t next = e->options.turn(e->options.arg);
    tide__watch_thread(served);
    tide__sim_memory_leave(before);
    e->in_turn = false;
    e->busy_until = sim->now + sim->charged + tide__sim_charged(e) +
                    (uint64_t)((double)sim->options.turn_cost_ns * e->node->slowness);
    e->charged = 0;
    sim->charged = outer;
    next = next != 0 ? tide__sim_clock_due(e->node, next) : 0;
    bool again = next == 0 || (e->options.pending ? e->options.pending(e->options.arg) : e->woken);
    if (again) {
        next = e->busy_until;
    }
    if (next != TIDE_NEVER) {
        schedule(e, next > e->busy_until ? next : e->busy_until);
    }
}

static void turn_event(struct tide_sim *sim, const struct sim_event *event) {
    struct tide_executor *e = event->object;
    const bool booked = !e->dead && event->time == e->booked;
    tide__sim_executor_unref(e); /* frees it only if it is stopped, and so dead */
    if (!booked) {
        return; /* one of more than two that are in the heap, or unused */
    }
    e->booked = e->booked_next;
    e->booked_next = TIDE_NEVER;
    if (e->scheduled <= sim->now) {
        run_turn(sim, e);
    } else {
        book(e);
    }
}

static uint64_t sim_executor_occupy(struct tide_executor *e, uint64_t ns) {
    e->charged += ns;
    return (uint64_t)((double)ns * e->node->slowness);
}

static void sim_interleave(struct tide_port *port) {
    struct sim_node *node = ((struct sim_port *)port)->node;
    for (struct tide_executor *e = node->executors; e; e = e->next) {
        if (e->in_turn || e->dead || e->scheduled == TIDE_NEVER) {
            continue;
        }
        e->busy_until = 0;
        run_turn(node->sim, e);
    }
}

static int sim_executor_start(struct tide_port *port, const struct tide_executor_options *options,
                              struct tide_executor **out) {
    struct sim_port *p = (struct sim_port *)port;
    TIDE_ASSERT(options->turn);
    if (p->node->crashed) {
        return tide_fail(TIDE_ECLOSED, "simulated node %s has crashed", p->node->name);
    }
    struct tide_executor *e = tide_alloc_zero(1, sizeof *e);
    if (!e) {
        return TIDE_ENOMEM;
    }
    e->sim = p->node->sim;
    e->node = p->node;
    e->options = *options;
    e->options.name = NULL;
    e->scheduled = e->booked = e->booked_next = TIDE_NEVER;
    e->next = p->node->executors;
    p->node->executors = e;
    schedule(e, e->sim->now);
    *out = e;
    return 0;
}

static void sim_executor_stop(struct tide_executor *e) {
    TIDE_ASSERT(!e->in_turn && !e->stopped);
    TIDE_ASSERT(e->dead || e->streams_open == 0);
    e->dead = e->stopped = true;
    free_executor_when_done(e);
}

/* ---- the rest of the port ---- */

static uint64_t sim_now(struct tide_port *port) {
    return tide__sim_clock(((struct sim_port *)port)->node);
}

static uint64_t sim_wall(struct tide_port *port) {
    return wall_start + sim_now(port);
}

static uint64_t sim_entropy(struct tide_port *port) {
    return tide_random_next(&((struct sim_port *)port)->entropy);
}

static void sim_pause(struct tide_port *port, uint64_t ns) {
    struct tide_sim *sim = ((struct sim_port *)port)->node->sim;
    (void)tide_sim_run(sim, sim->now + ns, NULL, NULL);
}

static int sim_address_towards(struct tide_port *port, const char *endpoint, char *out, size_t size) {
    (void)port, (void)out, (void)size;
    return tide_fail(TIDE_EUNSUPPORTED, "%s: simulated nodes have names for addresses", endpoint);
}

static uint32_t sim_user(struct tide_port *port) {
    (void)port;
    return 0;
}

static char sim_process_state(struct tide_port *port, int pid) {
    (void)port;
    (void)pid;
    return 0;
}

static int sim_pid(struct tide_port *port) {
    (void)port;
    return 0;
}

static void sim_destroy_port(struct tide_port *port) {
    struct sim_node *node = ((struct sim_port *)port)->node;
    if (node->port == (struct sim_port *)port) {
        node->port = NULL;
    }
    tide_free(port);
}

static int sim_process_start(struct tide_executor *e, const struct tide_process_options *options,
                             struct tide_process **out) {
    (void)e;
    (void)options;
    (void)out;
    return tide_fail(TIDE_EUNSUPPORTED, "the simulator starts no processes");
}

static int sim_process_signal(struct tide_process *process, int signal_number) {
    (void)process;
    (void)signal_number;
    return tide_fail(TIDE_EUNSUPPORTED, "the simulator has no processes");
}

static int sim_process_id(struct tide_process *process) {
    (void)process;
    return TIDE_EUNSUPPORTED;
}

static void sim_process_release(struct tide_process *process) {
    TIDE_ASSERT(!process);
}

static void sim_machine(struct tide_port *port, struct tide_machine *out) {
    (void)port;
    *out = (struct tide_machine){.processors = 0};
}

static uint64_t sim_memory_total(struct tide_port *port) {
    (void)port;
    return 0;
}

static uint64_t sim_memory_resident(struct tide_port *port) {
    (void)port;
    return 0;
}

/* Nothing but where Lua modules are read from, which are an input like files. */
static const char *sim_environment(struct tide_port *port, const char *name) {
    struct tide_port *input =
        strcmp(name, "TIDE_LUA_PATH") == 0 ? ((struct sim_port *)port)->node->sim->options.input : NULL;
    return input ? input->ops->environment(input, name) : NULL;
}

static const struct tide_port_ops sim_ops = {
    .now = sim_now,
    .wall = sim_wall,
    .entropy = sim_entropy,
    .destroy = sim_destroy_port,
    .pause = sim_pause,
    .user = sim_user,
    .pid = sim_pid,
    .process_state = sim_process_state,
    .executor_start = sim_executor_start,
    .executor_wake = tide__sim_executor_wake,
    .executor_interrupt = executor_interrupt,
    .executor_stop = sim_executor_stop,
    .listen = tide__sim_listen,
    .listener_endpoint = tide__sim_listener_endpoint,
    .listener_close = tide__sim_listener_close,
    .connect = tide__sim_connect,
    .stream_accept = tide__sim_stream_accept,
    .stream_write = tide__sim_stream_write,
    .stream_resume = tide__sim_stream_resume,
    .stream_close = tide__sim_stream_close,
    .stream_peer = tide__sim_stream_peer,
    .address_towards = sim_address_towards,
    .file_open = tide__sim_file_open,
    .file_read = tide__sim_file_read,
    .file_write = tide__sim_file_write,
    .file_sync = tide__sim_file_sync,
    .file_close = tide__sim_file_close,
    .file_info = tide__sim_file_info,
    .file_rename = tide__sim_file_rename,
    .directory_sync = tide__sim_directory_sync,
    .file_unlink = tide__sim_file_unlink,
    .file_mkdir = tide__sim_file_mkdir,
    .file_list = tide__sim_file_list,
    .process_start = sim_process_start,
    .process_signal = sim_process_signal,
    .process_id = sim_process_id,
    .process_release = sim_process_release,
    .machine = sim_machine,
    .memory_resident = sim_memory_resident,
    .memory_total = sim_memory_total,
    .environment = sim_environment,
    .executor_occupy = sim_executor_occupy,
    .interleave = sim_interleave,
};

/* ---- the world ---- */

int tide_sim_create(const struct tide_sim_options *options, struct tide_sim **out) {
    struct tide_sim_options o = options ? *options : (struct tide_sim_options){0};
    if (o.latency_ns_min == 0 && o.latency_ns_max == 0) {
        o.latency_ns_min = 10000;
        o.latency_ns_max = 200000;
    }
    if (o.latency_ns_max < o.latency_ns_min) {
        return tide_fail(TIDE_EINVAL, "simulator: the least latency is above the most");
    }
    o.turn_cost_ns = o.turn_cost_ns != 0 ? o.turn_cost_ns : 1000;
    o.chunk_max = o.chunk_max != 0 ? o.chunk_max : 65536;
    o.window_bytes = o.window_bytes != 0 ? o.window_bytes : (size_t)4 << 20;
    struct tide_sim *sim = tide_alloc_zero(1, sizeof *sim);
    if (!sim) {
        return TIDE_ENOMEM;
    }
    sim->options = o;
    sim->hash = o.seed;
    sim->ties = tide_mix64(o.seed);
    sim->free_port = 40000;
    sim->fabric.changed = tide__sim_flow_changed;
    sim->fabric.arg = sim;
    tide__watch_set(true, NULL, NULL);
    *out = sim;
    return 0;
}

void tide_sim_destroy(struct tide_sim *sim) {
    tide__watch_set(false, NULL, NULL);
    tide__sim_streams_destroy(sim);
    for (size_t i = 0; i < sim->node_count; i++) {
        for (struct tide_executor *e = sim->nodes[i]->executors, *next; e; e = next) {
            next = e->next;
            tide_free(e);
        }
        tide__sim_files_deinit(sim->nodes[i]);
        tide_free(sim->nodes[i]->latency);
        tide_free(sim->nodes[i]);
    }
    while (peek(sim)) {
        const struct sim_event event = pop(sim);
        if (event.kind == SIM_CALL) {
            tide__sim_call_drop(event.object);
        }
    }
    tide__fabric_deinit(&sim->fabric);
    tide_free(sim->nodes);
    tide_free(sim->seeds);
    tide_free(sim->cuts);
    tide_free(sim->heap);
    tide_free(sim);
}

struct sim_node *tide__sim_find_node(const struct tide_sim *sim, const char *name) {
    for (size_t i = 0; i < sim->node_count; i++) {
        if (strcmp(sim->nodes[i]->name, name) == 0) {
            return sim->nodes[i];
        }
    }
    return NULL;
}

struct sim_node *tide__sim_add_node(struct tide_sim *sim, const char *name) {
    struct sim_node *node = tide_alloc_zero(1, sizeof *node);
    if (!node) {
        return NULL;
    }
    void *nodes = sim->nodes;
    tide__sim_grow(&nodes, sim->node_count, &sim->node_room, sizeof *sim->nodes);
    sim->nodes = nodes;
    node->sim = sim;
    node->slowness = 1;
    node->out.bytes_per_s = node->in.bytes_per_s = sim->options.nic_bytes_per_s;
    node->index = (uint16_t)sim->node_count;
    snprintf(node->name, sizeof node->name, "%s", name);
    node->disk = sim->disk;
    tide__sim_disk_init(node);
    tide__sim_files_init(node);
    sim->nodes[sim->node_count++] = node;
    return node;
}

static bool is_taken(const struct tide_sim *sim, uint64_t seed) {
    for (size_t i = 0; i < sim->seed_count; i++) {
        if (sim->seeds[i] == seed) {
            return true;
        }
    }
    return false;
}

/* Of a life of a node; no two are equal. The hash of so short a text makes the second life of n1
 * the first of n2, say: they would draw one incarnation. */
static uint64_t own_seed(struct tide_sim *sim, const char *name, unsigned life) {
    uint64_t seed = tide_hash(name, strlen(name), sim->options.seed + life);
    while (is_taken(sim, seed)) {
        seed = tide_mix64(seed);
    }
    void *seeds = sim->seeds;
    tide__sim_grow(&seeds, sim->seed_count, &sim->seed_room, sizeof *sim->seeds);
    sim->seeds = seeds;
    return sim->seeds[sim->seed_count++] = seed;
}

int tide_sim_port(struct tide_sim *sim, const char *name, struct tide_port **out) {
    if (!name || strlen(name) >= SIM_NAME_MAX || sim->node_count >= SIM_NODES_MAX) {
        return tide_fail(TIDE_EINVAL, "simulator: a node needs a name of up to %d bytes", SIM_NAME_MAX - 1);
    }
    struct sim_node *node = tide__sim_find_node(sim, name);
    if (!node) {
        node = tide__sim_add_node(sim, name);
    }
    struct sim_port *p = tide_alloc_zero(1, sizeof *p);
    if (!node || !p) {
        tide_free(p);
        return TIDE_ENOMEM;
    }
    /* A second port of a name is the node started again: other random numbers, the same files. */
    node->crashed = false;
    node->memory = (struct tide_sim_memory){0};
    node->incarnation++;
    p->node = node;
    node->port = p;
    p->port.ops = &sim_ops;
    p->port.simulated = true;
    p->port.seed = own_seed(sim, name, node->incarnation);
    tide_random_seed(&p->entropy, tide_mix64(p->port.seed));
    *out = &p->port;
    return 0;
}

static void dispatch(struct tide_sim *sim, const struct sim_event *event) {
    if (event->kind == SIM_TURN) {
        turn_event(sim, event);
    } else if (event->kind == SIM_CALL) {
        tide__sim_call_event(sim, event);
    } else if (event->kind == SIM_COUPLE) {
        tide__sim_fold(sim, event, 0, 0);
        tide__sim_couple(sim);
    } else {
        tide__sim_stream_event(sim, event);
    }
}

bool tide_sim_asleep(const struct tide_executor *e) {
    return !e->in_turn && tide__sim_not_before(e) == 0 && e->scheduled > e->sim->now;
}

/* One node after the other, so that a large cluster costs no more than a small one. */
static void watch(struct tide_sim *sim) {
    sim->watch_at = sim->now + WATCH_EVERY;
    if (sim->node_count > 0) {
        const struct sim_node *node = sim->nodes[sim->watched++ % sim->node_count];
        if (node->port && node->port->port.watch && !node->crashed) {
            node->port->port.watch(node->port->port.watch_arg);
        }
    }
}

bool tide_sim_run(struct tide_sim *sim, uint64_t until, bool (*done)(void *arg), void *arg) {
    if (done && done(arg)) {
        return true;
    }
    const struct sim_event *next;
    while ((next = peek(sim)) && next->time <= until) {
        struct sim_event event = pop(sim);
        TIDE_ASSERT(event.time >= sim->now);
        if (event.time > sim->watch_at && TIDE_WATCHED) {
            watch(sim); /* at the old time: all that was due then has happened */
        }
        sim->now = event.time;
        dispatch(sim, &event);
        if (done && done(arg)) {
            return true;
        }
    }
    if (until != TIDE_NEVER && until > sim->now) {
        sim->now = until;
    }
    return !done && peek(sim);
}

uint64_t tide_sim_now(const struct tide_sim *sim) {
    return sim->now;
}

uint64_t tide_sim_hash(const struct tide_sim *sim) {
    return sim->hash;
}

uint64_t tide_sim_events(const struct tide_sim *sim) {
    return sim->processed;
}
