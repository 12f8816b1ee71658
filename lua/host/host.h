/*
 * The Lua host: what the binding files share. One `tide_lua` a lua_State: the program's own
 * (main.c) or a Lua actor's.
 *
 * A state lives on one OS thread and is run by one or more fibers of one actor. Each fiber has a
 * lua_State thread of its own; they switch only inside blocking C functions. On the control thread the count hook lets
 * other actors run, and other fibers of a script's main and of a console's evaluations. Binding code therefore uses the
 * L it was given, and holds nothing across a blocking call that another fiber may remove.
 *
 * Lua errors unwind by longjmp: a C function that owns memory Lua does not know calls only
 * functions that cannot raise until it has released it.
 */
#ifndef TIDE_LUA_HOST_H
#define TIDE_LUA_HOST_H

#include "actor/actor.h"
#include "base/limits.h"
#include "kernel.h"
#include "tide.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

enum {
    TIDE_LUA_STACK = 1 << 20,    /* of every fiber that runs Lua: Lua nests up to 200 C calls */
    TIDE_LUA_HOOK_COUNT = 10000, /* instructions between looks at the clock on the control thread */
    TIDE_LUA_CLOSE_DEPTH = 100,  /* nested coroutine.close and wrap: Lua 5.4.4 crashes on thousands */
};
#define TIDE_LUA_SLICE UINT64_C(2000000) /* ns a script may hold the control thread while others wait */

struct tide_lua;
struct tide_lua_pending;
struct tide_fixed_arena;
struct tide_sandbox;

/* A fiber that runs Lua; the main one is embedded in the host, others are userdata. */
struct tide_lua_fiber {
    struct tide_lua *host;
    struct tide_fiber *fiber; /* NULL outside of a node */
    lua_State *L;             /* its own Lua thread */
    struct tide_lua_fiber *next;
    const struct tide_lua_fiber *waits_for; /* in core.fiber_wait */
    struct tide_sandbox *limits;            /* of the evaluation it belongs to; NULL: none */
    int argument_count, status;
    unsigned close_depth;
    bool cancelled, done, observed;
    lua_State *running; /* the coroutine that runs on it; NULL: L itself */
    const char *kernel; /* that it is in, or NULL */
};

struct tide_lua {
    struct tide_sandbox *self; /* NULL, and first: distinguishes a host from a sandbox (sandbox.c) */
    struct tide_node *node;    /* NULL in the program's state while no node runs */
    struct tide_port *port;
    lua_State *L;
    struct tide_fixed_arena *arena;   /* fixed.h; NULL: its memory is the heap's */
    struct tide_lua_fiber *fibers;    /* that have not ended */
    struct tide_lua_pending *pending; /* asynchronous table operations without a wait yet; oldest first */
    struct tide_lua_fiber main;
    struct tide_sandbox *console;           /* of what runs outside of evaluations; NULL: no console */
    size_t memory, memory_peak, memory_max; /* bytes of the state; maximum 0: none */
    struct {                                /* of the code that was asked for its stack: the hook it had; look.c */
        lua_Hook hook;
        int mask, count;
        volatile bool pending;
    } look;
    uint64_t slice_start;
    uint32_t hook_calls;
    bool
        memory_shared; /* counted against what consoles have together (console.c), of which memory_max is the maximum */
    bool memory_refused; /* the last allocation was: the next refusal is final */
    bool program;        /* main.c's state */
    bool interleaves;    /* its fibers watch each other: each is preempted for the others, too */
    bool killed;         /* the actor is being ended: no blocking call succeeds any more */
};

/* ---- host.c ---- */
struct tide_lua *tide__lua_host(lua_State *L);
/* The record of the fiber that runs. */
struct tide_lua_fiber *tide__lua_current(struct tide_lua *host);
/* After a blocking call: raises when it was cancelled, else returns `code`. */
int tide__lua_resumed(lua_State *L, int code);
/* Runs work(arg) on the node's disk thread while the fiber waits, in the order of the calls; in place outside of
 * fibers, and for one that was cancelled, which may still have to write down its end. 0: `arg` is the caller's again;
 * else it is gone, as when this raises because the fiber was cancelled meanwhile. */
int tide__lua_on_disk(lua_State *L, void (*work)(void *arg), void *arg, void (*drop)(void *arg));
/* Raises unless called by an actor on a fiber. */
struct tide_lua *tide__lua_inside(lua_State *L);
/* Message handler for lua_pcall: any error becomes an error table with `where` and `traceback`. */
int tide__lua_traceback(lua_State *L);
/* Loads a text chunk (never bytecode). */
int tide__lua_load(lua_State *L, const char *source, size_t size, const char *chunk);

/* Has coroutine.resume, close and wrap report which coroutine runs, and bounds how deep they nest. */
void tide__lua_guard_coroutines(lua_State *L);

/* ---- state.c ---- */
/* A state with all libraries and `tide.core`; node may be NULL (then `port` serves clock and
 * files). */
int tide__lua_create(struct tide_node *node, struct tide_port *port, bool preempted, struct tide_lua **out);
/* After all its fibers have ended. */
void tide__lua_destroy(struct tide_lua *host);
/* Modules that the program adds to what every state of this process can require; before the first
 * state is made. `name` lives as long as the process. */
void tide__lua_preload(const char *name, lua_CFunction open);

/* ---- console.c ---- */
/* The limits under which the present fiber of a console's state runs. */
struct tide_sandbox *tide__console_limits(struct tide_lua *host);
/* Whether the state may grow so; marks the evaluation that runs when it may not. */
bool tide__console_memory(struct tide_lua *host, size_t more);
/* The memory of a console's state that shares has changed by so much. */
void tide__console_count(int64_t change);
void tide__console_close(struct tide_lua *host);
/* A fiber is about to start under the limits of the one that starts it; a fiber has ended. */
void tide__console_fiber_start(struct tide_lua_fiber *fiber);
void tide__console_fiber_end(struct tide_lua_fiber *fiber);
void tide__lua_open_console(lua_State *L);
void tide__lua_open_keys(lua_State *L);
void tide__lua_open_audit(lua_State *L);

/* ---- watch.c ---- */
int tide__lua_table_waits(lua_State *L); /* t:waits() */
void tide__lua_open_watch(lua_State *L);

/* host.c: the fiber of the host that runs on this thread ends at its next instructions. What a signal's handler may
 * do. */
void tide__lua_interrupt(struct tide_lua *host);

/* ---- look.c ---- */
/* See tide_look; host of the calling thread. */
int tide__lua_look(struct tide_lua *host, enum tide_look_how how, char *out, size_t size);
void tide__lua_open_look(lua_State *L);
/* A tide_port_teller: what this thread does. */
size_t tide__lua_last_words(char *out, size_t size);

/* control.c */
void tide__lua_open_control(lua_State *L);

/* ---- handle.c ---- */
/* The userdata at `index` if it is of the class, else NULL. A class is the address of its key in the registry. */
void *tide__lua_handle_at(lua_State *L, int index, const void *class);
/* The same; raises "`what` expected" where it is another value. */
void *tide__lua_handle_check(lua_State *L, int index, const void *class, const char *what);
/* Makes the metatable of a class; name, methods and gc may be NULL. */
void tide__lua_handle_class(lua_State *L, const void *class, const char *name, const luaL_Reg *methods,
                            lua_CFunction gc);

/* ---- error.c ---- */
/* Pushes nil and an error table of `code` with the fiber's error text; returns 2. */
int tide__lua_failure(lua_State *L, int code);
/* Pushes an error table; `where` NULL: the calling script's line. */
void tide__lua_push_error(lua_State *L, const char *name, const char *message, const char *where);
/* Raises an error table with `code` and the fiber's error text / the given text. */
int tide__lua_raise(lua_State *L, int code);
int tide__lua_raisef(lua_State *L, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The code of "EBUSY"; 0 if there is no such name. */
int tide__lua_error_code(const char *name);
/* The message of any error object; valid while the object stays on the stack. */
const char *tide__lua_error_text(lua_State *L, int index);
/* Error tables travel in the text of an error answer: message, then one line a field. */
int tide__lua_error_pack(lua_State *L, int index, char *out, size_t capacity);
/* Pushes the error table of a failed call. */
void tide__lua_error_unpack(lua_State *L, int code, const char *text, tide_address callee);

/* ---- value.c ---- */
/* Writes the value at `index`; never raises. EINVAL or ELIMIT with the path of the offending field
 * from `root`. items_max: TIDE_ITEMS_MAX for messages, more for files. */
int tide__lua_encode(lua_State *L, int index, const char *root, size_t items_max, struct tide_writer *w);
/* Pushes the value of exactly one msgpack value. EPROTO, ELIMIT (nothing pushed). Raises when out
 * of memory. */
int tide__lua_decode(lua_State *L, const void *data, size_t size, size_t items_max);
/* The same without raising: ENOMEM. For callers that own memory. */
int tide__lua_decode_safe(lua_State *L, const void *data, size_t size, size_t items_max);

/* ---- tensor.c ---- */
/* Row-major; data of a slice belongs to its parent, which the slice keeps alive. */
struct tide_lua_tensor {
    struct tide_tensor t;
    size_t element; /* bytes */
};
static inline size_t tide__lua_tensor_count(const struct tide_lua_tensor *tensor) {
    return tensor->t.rows * tensor->t.columns;
}

/* Whether two tensors share memory: what one of them writes would be read from the other, changed. */
static inline bool tide__lua_tensor_overlap(const struct tide_lua_tensor *a, const struct tide_lua_tensor *b) {
    const char *x = a->t.data, *y = b->t.data;
    return x < y + tide__lua_tensor_count(b) * b->element && y < x + tide__lua_tensor_count(a) * a->element;
}
/* Pushes a zeroed tensor. Raises on absurd sizes. */
struct tide_lua_tensor *tide__lua_tensor_new(lua_State *L, int type, size_t rows, size_t columns);
/* Pushes a tensor over memory of the value at `owner`, which it keeps alive. */
void tide__lua_tensor_borrow(lua_State *L, int type, size_t rows, size_t columns, void *data, int owner);
/* NULL if the value is no tensor; never raises. */
struct tide_lua_tensor *tide__lua_tensor_at(lua_State *L, int index);
struct tide_lua_tensor *tide__lua_tensor_check(lua_State *L, int index);
const char *tide__lua_tensor_type_name(int type);
/* Keys at `index` (u64 tensor in place; other integer tensors and arrays converted): replaces the
 * value there. */
const uint64_t *tide__lua_keys(lua_State *L, int index, size_t *count);

/* ---- fiber.c ---- */
/* Starts a fiber for the function and arguments on the whole stack of L; pushes its handle, or nil
 * and an error. `limits`: see struct tide_lua_fiber. Returns how many values it pushed. */
int tide__lua_fiber_start(lua_State *L, struct tide_sandbox *limits);

/* ---- argument.c ---- */
void tide__lua_push_address(lua_State *L, tide_address address);
tide_address tide__lua_check_address(lua_State *L, int index);
/* Seconds at `index` as ns; absent: `otherwise`. Negative raises; infinity is TIDE_NEVER. */
uint64_t tide__lua_duration(lua_State *L, int index, uint64_t otherwise);
uint64_t tide__lua_deadline(struct tide_lua *host, uint64_t duration);

/* ---- table.c ---- */
/* The table at `index`, or NULL; never raises. */
struct tide_table *tide__lua_table_at(lua_State *L, int index);
struct tide_table *tide__lua_check_table(lua_State *L, int index); /* raises when it is none */
/* Waits for all asynchronous operations: their tensors die with the state. */
void tide__lua_pending_end(struct tide_lua *host);

/* ---- options.c: rows of store/core/option.def ---- */
void tide__lua_options_read(lua_State *L, struct tide_table_options *out); /* the spec at 1; raises */
void tide__lua_push_options(lua_State *L, const struct tide_table_options *options);
const char *tide__lua_option_word(const char *row, uint64_t value);     /* "?": none of its values */
uint64_t tide__lua_option_check(lua_State *L, int at, const char *row); /* a word of the row; raises */
void tide__lua_push_short(lua_State *L, float value); /* the number of fewest digits that is it: 0.1 */
/* ---- clock.c ---- */
/* Adds fields `staleness` and `consistency` to the table on top, if the table has clocks. */
void tide__lua_push_staleness(lua_State *L, struct tide_table *table);
/* shared.c */
extern const luaL_Reg tide__lua_shared_methods[];                   /* of table handles */
void tide__lua_push_shared(lua_State *L, struct tide_table *table); /* field `shared` of the table on the stack */
/* table_info.c */
extern const luaL_Reg tide__lua_info_methods[]; /* of table handles */
int tide__lua_tables(lua_State *L);             /* core.tables() */
int tide__lua_table_consistency(lua_State *L);  /* t:consistency([text]) */

/* ---- fields of the table on top of the stack ---- */
static inline void tide__lua_set_integer(lua_State *L, const char *field, uint64_t value) {
    lua_pushinteger(L, (lua_Integer)value);
    lua_setfield(L, -2, field);
}
static inline void tide__lua_set_number(lua_State *L, const char *field, double value) {
    lua_pushnumber(L, value);
    lua_setfield(L, -2, field);
}

/* ---- spawn.c ---- */
/* What an actor leaves behind for the OS thread that waits for it (core.node_run). */
struct tide_lua_outcome {
    void (*ended)(struct tide_lua_outcome *outcome); /* from the actor's thread, once, last */
    uint8_t *data;                                   /* its first result, or its error table, as msgpack; heap */
    size_t size;
    int code;
    char text[500];
};
int tide__lua_spawn(struct tide_node *node, const struct tide_lua_options *options, struct tide_lua_outcome *outcome,
                    tide_address *out);

/* ---- data.c ---- */
/* *gives* the whole file, zero-terminated. Blocks the thread. */
int tide__lua_file_read(struct tide_port *port, const char *path, char **out, size_t *size);
/* A file that is filled here, then synced on the disk's thread, and appears at `path` when it is whole: begin calls
 * `fill`, end waits for the disk, and may raise as tide__lua_on_disk does. */
struct tide_file_parts {
    int (*fill)(struct tide_file *file, void *arg);
    void *arg;
    struct file_writing *writing; /* of a begin that succeeded */
};
int tide__lua_file_begin(lua_State *L, const char *path, struct tide_file_parts *parts);
int tide__lua_file_end(lua_State *L, struct tide_file_parts *parts);

/* ---- the parts of tide.core: each adds its functions to the table on top of the stack ---- */
void tide__lua_open_value(lua_State *L);
void tide__lua_open_tensor(lua_State *L);
void tide__lua_open_actor(lua_State *L);
void tide__lua_open_fiber(lua_State *L);
void tide__lua_open_table(lua_State *L);
void tide__lua_open_clock(lua_State *L);
void tide__lua_open_options(lua_State *L);

/* ---- trace.c ---- */
void tide__lua_open_trace(lua_State *L);
void tide__lua_open_checkpoint(lua_State *L);
void tide__lua_open_reader(lua_State *L);
void tide__lua_open_kernel(lua_State *L);
void tide__lua_open_node(lua_State *L);
void tide__lua_open_directory(lua_State *L);
void tide__lua_open_process(lua_State *L);
void tide__lua_open_data(lua_State *L);
void tide__lua_open_matrix(lua_State *L);
void tide__lua_open_program(lua_State *L);
void tide__lua_open_device(lua_State *L);
void tide__lua_open_exchange(lua_State *L);
int tide__lua_idx(lua_State *L); /* idx.c: core.idx */
void tide__lua_open_bow(lua_State *L);
void tide__lua_open_blocks(lua_State *L);
void tide__lua_open_corpus(lua_State *L);
void tide__lua_open_forest(lua_State *L);
void tide__lua_open_vertex(lua_State *L);
void tide__lua_open_safetensors(lua_State *L);
void tide__lua_open_libsvm(lua_State *L);
void tide__lua_open_sampler(lua_State *L);
int tide__lua_table_sampler(lua_State *L); /* t:sampler{...} */
/* The sampler at an index, as kernels draw from it; without a `sampler`: it is none, or draws by a function of the
 * script's, which a kernel could not call. */
struct tide_draws tide__lua_draws_at(lua_State *L, int index);
void tide__lua_open_simulator(lua_State *L);
void tide__lua_open_embedded(lua_State *L); /* state.c */
void tide__lua_open_plain(lua_State *L);
void tide__lua_open_sandbox(lua_State *L);
int tide__lua_open_core(lua_State *L); /* lua_CFunction: returns the module */

#endif
