/*
 * A host program with a Tide node inside: the node's I/O runs on the host's own libuv loop, a C actor and a Lua actor
 * exchange messages, and a worker fiber pushes to and pulls from a parameter table.
 *
 *   cc embed.c $(pkg-config --cflags --libs tide libuv) -o embed && ./embed
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <tide.h>
#include <uv.h>

static atomic_bool finished;

/* A handler actor: counts greetings and answers each. Bodies are msgpack; 0xc3 is `true`. */
static int greeter(void *state, const struct tide_message *message) {
    int *greeted = state;
    if (message->kind == TIDE_CALL) {
        *greeted += 1;
        printf("C actor: greeting %d, %u bytes\n", *greeted, message->size);
        return tide_answer(message->from, message->call, "\xc3", 1);
    }
    return 0;
}

static const char lua_actor[] = "local core = require 'tide.core'\n"
                                "local greeter = assert(core.whereis('greeter'))\n"
                                "for i = 1, 3 do assert(core.call(greeter, 'hello ' .. i)) end\n"
                                "print('Lua actor: three greetings answered')\n";

/* A fiber actor: blocking calls read like function calls. */
static int worker(void *state) {
    struct tide_node *node = state;
    struct tide_table_options options = {
        .name = "weights", .keys = TIDE_KEYS_DENSE, .key_count = 1000, .width = 4, .update = TIDE_UPDATE_ADD};
    struct tide_table *table;
    const uint64_t keys[] = {7, 999};
    const float deltas[] = {1, 2, 3, 4, 10, 20, 30, 40};
    float rows[8];
    int rc = tide_table_create(node, &options, &table);
    rc = rc < 0 ? rc : tide_table_push(table, keys, 2, deltas, NULL);
    rc = rc < 0 ? rc : tide_table_pull(table, keys, 2, rows, NULL);
    if (rc < 0) {
        fprintf(stderr, "worker: %s\n", tide_error_message());
    } else {
        printf("worker: row 999 = %g %g %g %g\n", rows[4], rows[5], rows[6], rows[7]);
    }
    atomic_store(&finished, true);
    return rc;
}

static void check_finished(uv_timer_t *timer) {
    if (atomic_load(&finished)) {
        uv_close((uv_handle_t *)timer, NULL);
        uv_stop(timer->loop);
    }
}

int main(void) {
    uv_loop_t *loop = uv_default_loop();
    struct tide_node *node;
    int greeted = 0;
    if (tide_node_create(&(struct tide_node_options){.cluster = "embedded", .workers = 1, .loop = loop}, &node) < 0 ||
        tide_spawn(node, &(struct tide_actor_options){.name = "greeter", .handle = greeter, .state = &greeted}, NULL) < 0 ||
        tide_spawn_lua(node, &(struct tide_lua_options){.source = lua_actor, .chunk = "@hello.lua", .role = TIDE_ROLE_CONTROL}, NULL) < 0 ||
        tide_spawn(node, &(struct tide_actor_options){.run = worker, .state = node, .role = TIDE_ROLE_COMPUTE}, NULL) < 0) {
        fprintf(stderr, "embed: %s\n", tide_error_message());
        return 1;
    }
    uv_timer_t timer;
    uv_timer_init(loop, &timer);
    uv_timer_start(&timer, check_finished, 100, 10);
    uv_run(loop, UV_RUN_DEFAULT);
    tide_node_destroy(node, TIDE_SECOND);
    uv_run(loop, UV_RUN_DEFAULT); /* lets the node's handles close */
    return greeted == 3 ? 0 : 1;
}
