/* A program of the first layouts: compiled with the header that was kept (tide_1.h), run on the library of today. Options
 * are given with their size and without one. */
#include "tide_1.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(e) ((e) ? (void)0 : failed(#e, __LINE__))

static atomic_int counted[2], ended;

static void failed(const char *what, int line) {
    fprintf(stderr, "program.c:%d: %s: %s\n", line, what, tide_error_message());
    _exit(1);
}

static int count(void *state, const struct tide_message *message) {
    atomic_fetch_add((atomic_int *)state, message->kind == TIDE_CALL);
    return message->kind == TIDE_CALL ? tide_answer(message->from, message->call, message->data, message->size) : 0;
}

static void call(const char *name) {
    tide_address there;
    struct tide_reply *reply;
    while (tide_whereis(tide_node_current(), name, &there) < 0) {
        CHECK(tide_sleep(TIDE_SECOND / 100) == 0);
    }
    CHECK(tide_call(there, "\x01", 1, 20 * TIDE_SECOND, &reply) == 0);
    tide_reply_free(reply);
}

static void use_table(struct tide_node *node, const char *name, size_t size) {
    struct tide_table_options o = {.name = name, .key_count = 100, .width = 2, .update = TIDE_UPDATE_SGD, .lr = 0.5f,
                                   .technique = TIDE_INTENT, .seed = 7};
    o.size = size;
    struct tide_table *table;
    CHECK(tide_table_create(node, &o, &table) == 0);
    const struct tide_table_options *made = tide_table_options(table);
    CHECK(strcmp(made->name, name) == 0 && made->technique == TIDE_INTENT && made->key_count == 100);
    const uint64_t key = 7;
    const float gradient[] = {2, 4};
    float row[] = {9, 9};
    CHECK(tide_table_push(table, &key, 1, gradient, NULL) == 0);
    CHECK(tide_table_pull(table, &key, 1, row, NULL) == 0);
    CHECK(row[0] == -1 && row[1] == -2);
    struct tide_sampler_options so = {.scheme = TIDE_SAMPLE_NAIVE, .first_key = 90, .key_count = 5, .seed = 1};
    so.size = size ? sizeof so : 0;
    struct tide_sampler *sampler;
    uint32_t sample;
    uint64_t keys[4];
    CHECK(tide_sampler_create(table, &so, &sampler) == 0);
    CHECK(tide_sampler_prepare(sampler, 4, &sample) == 0 && tide_sampler_pull(sampler, sample, 4, keys, NULL) == 0);
    for (int i = 0; i < 4; i++) {
        CHECK(keys[i] >= 90 && keys[i] < 95);
    }
    tide_sampler_destroy(sampler);
    struct tide_share_options share = {.rate = 10};
    share.size = size ? sizeof share : 0;
    CHECK(tide_table_manage(table, &key, 1, TIDE_REPLICATE, &share) == 0);
    tide_table_release(table);
}

static int body(void *directory) {
    struct tide_node *node = tide_node_current();
    call("first");
    call("second");
    use_table(node, "plain", 0);
    use_table(node, "sized", sizeof(struct tide_table_options));
    struct tide_checkpoint *checkpoint;
    CHECK(tide_checkpoint_start(node, &(struct tide_checkpoint_options){TIDE_CHECKPOINT_OPTIONS_INIT, .dir = directory,
                                                                        .cut = TIDE_CUT_FUZZY, .timeout = 20 * TIDE_SECOND},
                                &checkpoint) == 0);
    CHECK(tide_checkpoint_get(checkpoint)->rows >= 2 && tide_checkpoint_commit(checkpoint, NULL, 0) == 0);
    CHECK(tide_spawn_lua(node, &(struct tide_lua_options){TIDE_LUA_OPTIONS_INIT, .name = "lua", .chunk = "@echo.lua",
                                                          .source = "local core = require 'tide.core'\n"
                                                                    "local m = core.receive()\n"
                                                                    "core.answer(m, m.value)",
                                                          .role = TIDE_ROLE_CONTROL},
                         NULL) == 0);
    call("lua");
    atomic_store(&ended, 1);
    return 0;
}

int main(void) {
    char run[] = "/tmp/tide-abi-XXXXXX";
    char command[64];
    CHECK(mkdtemp(run) != NULL && setenv("XDG_RUNTIME_DIR", run, 1) == 0);
    struct tide_node *node;
    CHECK(tide_node_create(&(struct tide_node_options){TIDE_NODE_OPTIONS_INIT, .cluster = "abi", .name = "one",
                                                       .workers = 1, .seed = 3}, &node) == 0);
    CHECK(strcmp(tide_node_name(node), "one") == 0);
    const struct tide_child children[] = {
        {.actor = {.name = "first", .handle = count, .state = &counted[0]}},
        {.actor = {TIDE_ACTOR_OPTIONS_INIT, .name = "second", .handle = count, .state = &counted[1]}}};
    CHECK(tide_supervise(node, &(struct tide_supervisor_options){TIDE_SUPERVISOR_OPTIONS_INIT, .children = children,
                                                                 .child_count = 2}, NULL) == 0);
    CHECK(tide_spawn(node, &(struct tide_actor_options){.run = body, .state = run, .stack_bytes = 1 << 20}, NULL) == 0);
    for (int i = 0; i < 6000 && !atomic_load(&ended); i++) {
        usleep(10000);
    }
    CHECK(atomic_load(&ended) && counted[0] == 1 && counted[1] == 1);
    tide_node_destroy(node, 5 * TIDE_SECOND);
    snprintf(command, sizeof command, "rm -rf %s", run);
    CHECK(system(command) == 0);
    puts("ok");
    return 0;
}
