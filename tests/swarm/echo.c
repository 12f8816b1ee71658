/*
 * Actors that workers talk to: casts are numbered for each sender and lane, and must come in order,
 * once, and whole; calls are answered with what they brought.
 */
#include "world.h"

enum { HEAD_BYTES = 64 };

static const uint8_t lanes[LANES] = {TIDE_LANE_CONTROL, TIDE_LANE_BULK};

static uint8_t pattern(uint64_t number, size_t at) {
    return (uint8_t)(number * 31 + at * 7);
}

/* It repeats: a period is filled, the rest copied. */
static void fill(uint8_t *bytes, size_t size, uint64_t number) {
    enum { PERIOD = 256 };
    for (size_t i = 0; i < size && i < PERIOD; i++) {
        bytes[i] = pattern(number, i);
    }
    for (size_t at = PERIOD; at < size; at += PERIOD) {
        memcpy(bytes + at, bytes, size - at < PERIOD ? size - at : PERIOD);
    }
}

static bool is_whole(const uint8_t *bytes, size_t size, uint64_t number) {
    for (size_t i = 0; i < size; i += 97) {
        if (bytes[i] != pattern(number, i)) {
            return false;
        }
    }
    return size == 0 || bytes[size - 1] == pattern(number, size - 1);
}

static int echo_handle(void *state, const struct tide_message *m) {
    struct echo *echo = state;
    struct world *w = echo->world;
    if (m->kind == TIDE_STOP) {
        tide_exit(0);
        return 0;
    }
    struct tide_reader r;
    tide_reader_init(&r, m->data, m->size);
    size_t count = tide_read_array(&r);
    uint64_t worker = tide_read_uint(&r), number = tide_read_uint(&r), lane = tide_read_uint(&r);
    size_t size = 0;
    const uint8_t *bytes = tide_read_typed(&r, TIDE_U8, &size);
    if (r.error != 0 || count != 4 || worker >= WORKERS_MAX || lane >= LANES ||
        !is_whole(bytes, size, number)) {
        swarm_fail(w, "session", "a message came damaged to %s", echo->node->name);
        return 0;
    }
    if (m->kind == TIDE_CALL) {
        uint8_t answer[16];
        struct tide_writer out;
        tide_writer_init(&out, answer, sizeof answer);
        tide_write_uint(&out, number);
        enum tide_memory_use use = tide__memory_swap(TIDE_MEMORY_TOOL); /* who asks waits for it */
        (void)tide_answer(m->from, m->call, out.data, out.size);
        tide__memory_swap(use);
        return 0;
    }
    uint32_t *heard = &echo->heard[worker][lane];
    if (number != (uint64_t)*heard + 1) {
        swarm_fail(w, "exactly_once", "%s heard cast %llu of worker %u after %u", echo->node->name,
                   (unsigned long long)number, (unsigned)worker, *heard);
    }
    *heard = (uint32_t)number;
    return 0;
}

/* A fiber of an echo actor. It rests now and then, so that another one has to take what comes. */
static void echo_receive(void *state) {
    struct echo *echo = state;
    const struct tide_message *m;
    for (unsigned n = 1; tide_receive(TIDE_NEVER, &m) == 0; n++) {
        const bool stop = m->kind == TIDE_STOP;
        (void)echo_handle(echo, m);
        tide_message_free(m);
        if (stop || (n % 8 == 0 && tide_sleep(5 * MS) < 0)) {
            return;
        }
    }
}

static int echo_run(void *state) {
    struct echo *echo = state;
    for (unsigned i = 1; i < (unsigned)option(echo->world, SWARM_RECEIVERS); i++) {
        if (tide_fiber_start(echo_receive, echo, 0, NULL) < 0) {
            swarm_fail(echo->world, "world", "%s: no fiber: %s", echo->node->name, tide_error_message());
        }
    }
    echo_receive(echo);
    return 0;
}

int echo_spawn(struct node *node) {
    struct world *w = node->world;
    node->echo = tide_alloc_zero(1, sizeof *node->echo);
    TIDE_ASSERT(node->echo != NULL);
    node->echo->world = w;
    node->echo->node = node;
    struct tide_actor_options o = {.type = "echo",
                                   .handle = echo_handle,
                                   .state = node->echo,
                                   .role = TIDE_ROLE_COMPUTE,
                                   .messages_max = (uint32_t)option(w, SWARM_MAILBOX),
                                   .bytes_max = (uint32_t)option(w, SWARM_MAILBOX_KIB) << 10};
    if ((unsigned)option(w, SWARM_RECEIVERS) > 0) {
        o.handle = NULL;
        o.run = echo_run;
    }
    return tide_spawn(node->node, &o, &node->echo_address);
}

static bool may_fail(const struct worker *worker, const struct node *to, int code) {
    return to->state != NODE_UP || node_is_lost(to) ||
           excused(worker->world, worker->node, NULL, code, tide_error_message());
}

static void ask(struct worker *worker, const struct node *to, const struct tide_writer *body,
                uint64_t number) {
    struct world *w = worker->world;
    struct tide_reply *reply = NULL;
    int code = tide_call(to->echo_address, body->data, body->size, tide_limit(actor_call_timeout), &reply);
    if (code < 0) {
        if (!may_fail(worker, to, code)) {
            swarm_fail(w, "session", "worker %u (%s) called %s: %s %s", worker->index,
                       worker->node->name, to->name, tide_error_name(code), tide_error_message());
        }
        return;
    }
    size_t size;
    const void *data = tide_reply_data(reply, &size);
    struct tide_reader r;
    tide_reader_init(&r, data, size);
    if (tide_read_uint(&r) != number || r.error != 0) {
        swarm_fail(w, "exactly_once", "worker %u (%s) got the answer to another call",
                   worker->index, worker->node->name);
    }
    tide_reply_free(reply);
}

/* One cast or call to the echo of any node that is up. */
void echo_message(struct worker *worker) {
    struct world *w = worker->world;
    unsigned n = (unsigned)tide_random_below(&worker->random, w->node_count);
    struct node *to = w->nodes[n];
    if (to->state != NODE_UP) {
        return;
    }
    bool calls = chance(&worker->random, 0.3);
    unsigned lane = (unsigned)tide_random_below(&worker->random, LANES);
    size_t most = (size_t)option(w, SWARM_PAYLOAD);
    most = lane == 0 && most > 60000 ? 60000 : most;
    size_t size = (size_t)tide_random_below(&worker->random, most + 1);
    uint64_t number = calls ? ++worker->step : worker->sent[n][lane] + 1u;
    enum tide_memory_use use = tide__memory_swap(TIDE_MEMORY_TOOL);
    uint8_t *buffer = tide_alloc(size + HEAD_BYTES);
    tide__memory_swap(use);
    TIDE_ASSERT(buffer != NULL);
    struct tide_writer body;
    tide_writer_init(&body, buffer, size + HEAD_BYTES);
    tide_write_array(&body, 4);
    tide_write_uint(&body, worker->index);
    tide_write_uint(&body, number);
    tide_write_uint(&body, lane);
    tide_write_typed_head(&body, TIDE_U8, size);
    uint8_t *bytes = tide_write_reserve(&body, size);
    TIDE_ASSERT(body.error == 0);
    fill(bytes, size, number);
    w->report->messages++;
    worker->doing = (struct doing){calls ? "calls" : "casts to", to->name, (uint32_t)size, "bytes"};
    if (calls) {
        ask(worker, to, &body, number);
    } else {
        int code = tide_send(to->echo_address, lanes[lane], body.data, body.size);
        if (code == 0) {
            worker->sent[n][lane]++;
        } else if (!may_fail(worker, to, code)) {
            swarm_fail(w, "session", "worker %u (%s) cast to %s: %s %s", worker->index,
                       worker->node->name, to->name, tide_error_name(code), tide_error_message());
        }
    }
    tide_writer_release(&body);
    tide_free(buffer);
}
