/* Arithmetic of tensors in Lua: tensor_math.c (whole tensors, rows), tensor_map.c (fused expressions). */
#ifndef TIDE_LUA_TENSOR_MATH_H
#define TIDE_LUA_TENSOR_MATH_H

#include "lua/host/host.h"

/* An operand: a number, or a tensor of the target's type that is as large as the target or is one row (1 x columns) or
 * one column (rows x 1) that is used again for each row or column of it. */
struct tide_lua_operand {
    const char *data; /* NULL: number */
    size_t row_step;  /* elements from a row to the next: 0 for one row */
    size_t step;      /* elements from a column to the next: 0 for one column and for numbers */
    double number;
    bool whole; /* a number, or as large as the target: rows need not be distinguished */
};

/* The tensor at `index`; raises unless it is f32 or f64. */
struct tide_lua_tensor *tide__lua_floats_check(lua_State *L, int index);
/* The operand at `index` for a target; raises with both shapes where they do not fit. `what` names it in errors. */
struct tide_lua_operand tide__lua_operand_check(lua_State *L, int index, const struct tide_lua_tensor *target,
                                                const char *what);
int tide__lua_tensor_type_check(lua_State *L, int index); /* the type that a name at `index` says; tensor.c */
int tide__lua_tensor_convert(lua_State *L);               /* t:convert(type); tensor_convert.c */
int tide__lua_tensor_text(lua_State *L);                  /* t:text(i) */
/* t:add(source) of integers: element by element, the same type and size; they wrap. tensor.c. */
int tide__lua_tensor_add_integers(lua_State *L);
int tide__lua_tensor_map(lua_State *L); /* t:map(expression, values) */
/* Adds the methods to the table on top of the stack. */
void tide__lua_tensor_math(lua_State *L);
void tide__lua_tensor_operators(lua_State *L); /* the same for a metatable */

#endif
