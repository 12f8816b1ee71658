/*
 * Lua actors: a state of its own on a fiber, running one chunk as its main function. The state is
 * made on the actor's thread and closed when the last of its fibers has ended.
 */
#include "lua/host/host.h"

#include <string.h>

struct lua_actor {
    struct tide_node *node;
    struct tide_lua *host;
    char *source, *chunk;
    uint8_t *argument;
    size_t source_size, argument_size;
    struct tide_lua_outcome *outcome;
    bool preempted;
    volatile bool runs; /* its host may be interrupted */
};

/* In the middle of anything, on the actor's thread: what runs is to end. */
static void actor_interrupt(void *state) {
    struct lua_actor *actor = state;
    if (actor->runs) {
        tide__lua_interrupt(actor->host);
    }
}

static int actor_look(void *state, enum tide_look_how how, char *out, size_t size) {
    struct lua_actor *actor = state;
    if (actor->runs) {
        return tide__lua_look(actor->host, how, out, size);
    }
    return actor->host ? TIDE_ENOENT : TIDE_EBUSY; /* it has ended; it has not begun */
}

static void actor_release(void *state) {
    struct lua_actor *actor = state;
    if (actor->host) {
        tide__lua_destroy(actor->host);
    }
    struct tide_lua_outcome *outcome = actor->outcome;
    tide_free(actor->source);
    tide_free(actor->chunk);
    tide_free(actor->argument);
    tide_free(actor);
    if (outcome) {
        outcome->ended(outcome);
    }
}

/* Keeps the value at `index` for its waiter; what cannot travel is left out. */
static void outcome_keep(lua_State *L, int index, struct tide_lua_outcome *outcome) {
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    if (tide__lua_encode(L, index, "result", TIDE_ITEMS_MAX, &w) < 0) {
        tide_writer_release(&w);
        return;
    }
    outcome->data = tide_alloc(w.size);
    outcome->size = outcome->data ? w.size : 0;
    if (outcome->data) {
        memcpy(outcome->data, w.data, w.size);
    }
    tide_writer_release(&w);
}

/* "mf.lua:12: message", newline, traceback. */
static int crash(lua_State *L) {
    const char *message = tide__lua_error_text(L, -1), *where = "", *trace = "";
    if (lua_type(L, -1) == LUA_TTABLE) {
        lua_getfield(L, -1, "where");
        lua_getfield(L, -2, "trace");
        where = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
        trace = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
        lua_pop(L, 2); /* the table keeps them */
    }
    return tide_fail(TIDE_ECRASHED, "%s%s%.300s%s%s", where, where[0] ? ": " : "", message, trace[0] ? "\n" : "",
                     trace);
}

/* In a protected call, so that errors of decoding and loading are handled like the script's own. */
static int run_chunk(lua_State *L) {
    struct lua_actor *actor = lua_touserdata(L, 1);
    lua_settop(L, 0);
    if (tide__lua_load(L, actor->source, actor->source_size, actor->chunk) != LUA_OK) {
        return lua_error(L);
    }
    int code = actor->argument_size > 0 ? tide__lua_decode(L, actor->argument, actor->argument_size, TIDE_ITEMS_MAX)
                                        : (lua_pushnil(L), 0);
    if (code < 0) {
        return tide__lua_raise(L, code);
    }
    lua_call(L, 1, 1);
    return 1;
}

static int run(struct lua_actor *actor) {
    struct tide_system *system = tide_system_of(actor->node);
    int code = tide__lua_create(actor->node, tide_system_port(system), actor->preempted, &actor->host);
    if (code < 0) {
        return code;
    }
    actor->host->interleaves = actor->outcome;
    lua_State *L = actor->host->L;
    lua_pushcfunction(L, tide__lua_traceback);
    lua_pushcfunction(L, run_chunk);
    lua_pushlightuserdata(L, actor);
    actor->runs = true;
    int status = lua_pcall(L, 1, 1, 1);
    actor->runs = false;
    lua_sethook(L, NULL, 0, 0);
    if (actor->outcome) {
        outcome_keep(L, -1, actor->outcome);
    }
    tide__lua_pending_end(actor->host);
    if (status != LUA_OK) {
        code = actor->host->killed ? tide_fail(TIDE_EKILLED, "killed") : crash(L);
    } else {
        tide_fail(0, "%s", "");
    }
    if (actor->outcome) {
        actor->outcome->code = code;
        (void)snprintf(actor->outcome->text, sizeof actor->outcome->text, "%s", tide_error_message());
    }
    return code;
}

/* An error that reaches no other actor and no outcome must not be lost. */
static int actor_run(void *state) {
    struct lua_actor *actor = state;
    char label[64];
    const int code = run(actor);
    if (code < 0 && code != TIDE_EKILLED && !actor->outcome && !tide_is_watched(label, sizeof label)) {
        tide_log(TIDE_LOG_WARN, tide_node_name(actor->node),
                 "actor %s (%s) ended with an error, and no actor monitors it: %s", label, actor->chunk + 1,
                 tide_error_message());
    }
    return code;
}

/* What introspection calls an actor of ours, by its chunk. */
static const char *type_of(const char *chunk) {
    static const struct {
        const char *chunk, *type;
    } types[] = {{"@tide/worker.lua", "worker"},
                 {"@tide/agent.lua", "agent"},
                 {"@tide/controller.lua", "controller"},
                 {"@tide/driver.lua", "driver"},
                 {"@tide/console/session.lua", "console"}};
    for (size_t i = 0; i < TIDE_COUNT(types); i++) {
        if (strcmp(chunk, types[i].chunk) == 0) {
            return types[i].type;
        }
    }
    return "lua";
}

int tide__lua_spawn(struct tide_node *node, const struct tide_lua_options *options, struct tide_lua_outcome *outcome,
                    tide_address *out) {
    struct lua_actor *actor = tide_alloc_zero(1, sizeof *actor);
    if (!actor) {
        return TIDE_ENOMEM;
    }
    actor->node = node;
    actor->source_size = strlen(options->source);
    actor->source = tide_strdup(options->source);
    actor->chunk = tide_strdup(options->chunk ? options->chunk : "=script");
    actor->argument = options->argument_size > 0 ? tide_alloc(options->argument_size) : NULL;
    /* Scripts share the control thread. On an I/O thread they would block the node: they go to
     * control too. */
    actor->preempted = options->role != TIDE_ROLE_COMPUTE;
    if (!actor->source || !actor->chunk || (options->argument_size > 0 && !actor->argument)) {
        actor_release(actor);
        return tide_fail(TIDE_ENOMEM, "out of memory for a Lua actor");
    }
    if (options->argument_size > 0) {
        memcpy(actor->argument, options->argument, options->argument_size);
        actor->argument_size = options->argument_size;
    }
    actor->outcome = outcome;
    struct tide_actor_options o = {.name = options->name,
                                   .type = type_of(actor->chunk),
                                   .run = actor_run,
                                   .state = actor,
                                   .release = actor_release,
                                   .interrupt = actor_interrupt,
                                   .look = actor_look,
                                   .stack_bytes = TIDE_LUA_STACK,
                                   .role = actor->preempted ? TIDE_ROLE_CONTROL : TIDE_ROLE_COMPUTE,
                                   .thread = options->thread,
                                   .link = options->link,
                                   .opens = options->opens};
    tide_address address;
    int code = tide_spawn(node, &o, &address);
    if (code < 0) { /* state is the spawner's again */
        actor->outcome = NULL;
        actor_release(actor);
        return code;
    }
    if (out) {
        *out = address;
    }
    return 0;
}

int tide_node_agent(struct tide_node *node) {
    static const char source[] = "return require('tide.cluster.agent').main {embedded = true}";
    const struct tide_lua_options agent = {.source = source, .chunk = "@tide/agent.lua", .role = TIDE_ROLE_CONTROL};
    tide_address found;
    if (!node) {
        return tide_fail(TIDE_EINVAL, "an agent needs a node");
    }
    if (tide_whereis(node, "agent", &found) == 0) {
        return tide_fail(TIDE_EEXIST, "the node has an agent");
    }
    return tide__lua_spawn(node, &agent, NULL, NULL);
}

int tide_spawn_lua(struct tide_node *node, const struct tide_lua_options *given, tide_address *out) {
    struct tide_lua_options options = {0};
    int code = given ? tide__layout_read("Lua actor", given, TIDE_LAYOUT(struct tide_lua_options, opens), &options,
                                         sizeof options)
                     : 0;
    if (code < 0) {
        return code;
    }
    if (!node || !options.source || options.role > TIDE_ROLE_CONTROL) {
        return tide_fail(TIDE_EINVAL, "a Lua actor needs a node, a source and a role");
    }
    return tide__lua_spawn(node, &options, NULL, out);
}
