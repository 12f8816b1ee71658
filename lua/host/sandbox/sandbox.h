/*
 * A Lua state that an untrusted script cannot break out of, exhaust or make depend on anything but
 * its arguments: text only, an allow-listed environment, a memory cap, and a budget of instructions
 * and time that nothing in the script can catch. What policies run in.
 *
 * How the budget holds. A count hook runs every 100 instructions. When the step is over its budget
 * the hook sets a sticky mark, makes itself run at every instruction, and yields where that is
 * possible (nothing in a script can catch a yield), else raises. The step runs in a coroutine;
 * afterwards the host looks at the mark, not at how the coroutine ended, and a state over its
 * budget is closed, never resumed. C functions whose work grows with their arguments
 * (library.c, pattern.c, numeric.c) charge it as instructions before or while they
 * work.
 *
 * One OS thread; values enter and leave as plain bytes (plain.h).
 */
#ifndef TIDE_LUA_SANDBOX_H
#define TIDE_LUA_SANDBOX_H

#include "lua/host/host.h"
#include "plain.h"

enum {
    TIDE_SANDBOX_HOOK = 100, /* instructions between looks at the budget */
    TIDE_SANDBOX_STRING_MAX = 1 << 20,
    TIDE_SANDBOX_SOURCE_MAX = 128 << 10,          /* of a policy */
    TIDE_SANDBOX_SOURCE_MAX_SIMULATED = 64 << 10, /* where no clock ends its compilation */
    TIDE_SANDBOX_SUBJECT_MAX = 1 << 18,           /* of patterns */
    TIDE_SANDBOX_ELEMENTS_MAX = 1 << 20,
    TIDE_SANDBOX_LOG_MAX = 4096,
};

enum tide_sandbox_over {
    TIDE_SANDBOX_WITHIN,
    TIDE_SANDBOX_INSTRUCTIONS,
    TIDE_SANDBOX_TIME,
    TIDE_SANDBOX_MEMORY,
    TIDE_SANDBOX_CANCELLED /* consoles only */
};

struct tide_sandbox {
    struct tide_sandbox *self; /* first: where an actor's state has NULL (host.h) */
    lua_State *L;              /* scripts run in coroutines of it */
    lua_State *step;           /* the coroutine of the step that runs, or NULL */
    struct tide_port *port;
    size_t memory, memory_peak, memory_max;
    uint64_t used, limit;       /* instructions of this step */
    unsigned every;             /* instructions between two runs of the hook */
    unsigned fibers;            /* that run under these limits: evaluations of consoles */
    uint64_t started, deadline; /* of this step; deadline TIDE_NEVER: instructions only */
    uint64_t slice;             /* when other work of the thread had its last turn */
    uint64_t ns;                /* what the last step took */
    enum tide_sandbox_over over;
    bool refused;  /* the last allocation was: the next refusal is final */
    bool building; /* the environment is being made: no budget */
    bool exports;  /* the policy has an export function */
    bool broken;   /* a step failed: the state serves no more steps */
    int resumed;   /* what the scheduler said when the thread was given away */
    struct tide_random random;
    size_t log_size;
    char log[TIDE_SANDBOX_LOG_MAX];
};

/* Of the state that L belongs to; in a console the limits of the evaluation that runs. */
struct tide_sandbox *tide__sandbox_of(lua_State *L);
/* The count hook: ends a step that is over its budget, gives the thread away after each slice. */
void tide__sandbox_hook(lua_State *L, lua_Debug *ar);
/* Adds to what the step has used; raises when that is too much. `s` NULL: not counted. */
void tide__sandbox_charge(lua_State *L, struct tide_sandbox *s, uint64_t instructions);

/* Compiles text like luaL_loadbufferx, under the limits of `s`: Lua's compiler takes time by the
 * square of what it is given (chains of `and` and `or`), runs no hook, and looks at nothing but its
 * reader. *Any* status but LUA_OK leaves a message; look at s->over too. */
int tide__sandbox_compile(lua_State *L, struct tide_sandbox *s, const char *source, size_t size, const char *chunk);

/* Sets the globals of a new state; lua_CFunction. */
int tide__sandbox_environment(lua_State *L);
/* Puts the bounded functions into the standard libraries of a console's state, which keeps the
 * rest of them; lua_CFunction. */
int tide__sandbox_bound(lua_State *L);
/* Pushes the text of the value at `index` as tostring gives it: ids instead of addresses. */
const char *tide__sandbox_tostring(lua_State *L, int index);
/* math.random and view.rng: the step's stream. lua_CFunction. */
int tide__sandbox_random(lua_State *L);
/* Pushes the table of coroutine functions, without status. */
void tide__sandbox_open_coroutines(lua_State *L);
int tide__sandbox_xpcall(lua_State *L); /* lua_CFunction */
/* string.find, match, gmatch, gsub into the table on top of the stack. */
void tide__sandbox_open_patterns(lua_State *L);

/* ---- numeric.c ---- */
/* Pushes the table `k`; its functions charge to `s`. */
void tide__lua_push_numeric(lua_State *L, struct tide_sandbox *s);
/* ---- lines.c ---- */
/* k.lines{forget =, jump =, at =} -> lines; upvalue 1 is the sandbox to charge. lua_CFunction. */
int tide__k_lines(lua_State *L);
/* ---- goodput.c ---- */
/* More functions of `k`, with the same upvalue. */
extern const luaL_Reg tide__k_goodput[];

#endif
