/*
 * Lua states whose addresses repeat. Lua seeds its string hash and its random numbers with the
 * time, the address of the state, of a local variable and of lua_newstate; tables hash pointers,
 * and `tostring {}` prints one. In the simulator's program (`tide-sim`: non-PIE, static Lua, its
 * own `time` and `clock`) all of them are the same in every process: each state lives in an arena
 * of its own at a fixed address, lua_newstate runs on a stack at a fixed address, and the seed of
 * its string hash is replaced by one that comes from the world's seed, so that other builds of the
 * program agree. What still differs between builds is the address of a C function.
 *
 * One thread only. Elsewhere (tide__fixed_enable was not called) nothing of this is used.
 */
#ifndef TIDE_LUA_FIXED_H
#define TIDE_LUA_FIXED_H

#include <lua.h>

#include <stdbool.h>
#include <stdint.h>

struct tide_fixed_arena;

/* Maps the stack and tries a state. EEXIST when something else is at its address, EVERSION when
 * this Lua is built otherwise. Called once, by the program's main. */
int tide__fixed_enable(void);
bool tide__fixed_enabled(void);
/* What the hash orders and random numbers of states made from now on depend on. */
void tide__fixed_seed(uint64_t seed);
/* What `time` says: seconds of the simulated wall clock; NULL: a constant. */
void tide__fixed_clock(uint64_t (*wall_ns)(void));

/* A state in an arena of its own. ENOMEM, EEXIST. The libraries it opens before tide__fixed_made
 * take their random numbers from the seed too. */
int tide__fixed_create(lua_State **state, struct tide_fixed_arena **arena);
void tide__fixed_made(void);
/* After lua_close. */
void tide__fixed_destroy(struct tide_fixed_arena *arena);

/* The program's time(2) and clock(3), for lua/programs/time.c. */
int64_t tide__fixed_time(void);
int64_t tide__fixed_clock_us(void);

#endif
