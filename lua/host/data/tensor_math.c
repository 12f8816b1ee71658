/*
 * Arithmetic on whole tensors and their rows. A method changes its tensor in place and returns it, or returns a number
 * or a small new tensor. Arithmetic is for f32 and f64; shapes broadcast as rows and columns (tensor_math.h). Row
 * numbers that lie in tensors (gather, scatter_add, argmax) count from 0, as keys of tables do.
 */
#include "tensor_math.h"

#include "tensor/cpu/gemm.h"

#include <math.h>
#include <string.h>

struct tide_lua_tensor *tide__lua_floats_check(lua_State *L, int index) {
    struct tide_lua_tensor *t = tide__lua_tensor_check(L, index);
    if (t->t.type != TIDE_F32 && t->t.type != TIDE_F64) {
        luaL_error(L, "arithmetic is for f32 and f64 tensors, this is %s: t:convert \"f32\" gives one",
                   tide__lua_tensor_type_name(t->t.type));
    }
    return t;
}

static double first_element(const struct tide_lua_tensor *t) {
    return t->t.type == TIDE_F32 ? (double)*(const float *)t->t.data : *(const double *)t->t.data;
}

struct tide_lua_operand tide__lua_operand_check(lua_State *L, int index, const struct tide_lua_tensor *target,
                                                const char *what) {
    if (lua_type(L, index) == LUA_TNUMBER) {
        return (struct tide_lua_operand){.number = lua_tonumber(L, index), .whole = true};
    }
    const struct tide_lua_tensor *x = tide__lua_tensor_at(L, index);
    if (!x) {
        luaL_error(L, "%s is a number or a tensor, not %s", what, luaL_typename(L, index));
        return (struct tide_lua_operand){0};
    }
    if (x->t.type != target->t.type) {
        luaL_error(L, "%s is %s, the tensor %s: t:convert makes one of another type", what,
                   tide__lua_tensor_type_name(x->t.type), tide__lua_tensor_type_name(target->t.type));
    }
    const bool rows = x->t.rows == target->t.rows, columns = x->t.columns == target->t.columns;
    if (!(rows || x->t.rows == 1) || !(columns || x->t.columns == 1)) {
        luaL_error(L, "%s is %I x %I, which does not fit %I x %I: as large, 1 x %I (a row) or %I x 1 (a column)", what,
                   (lua_Integer)x->t.rows, (lua_Integer)x->t.columns, (lua_Integer)target->t.rows,
                   (lua_Integer)target->t.columns, (lua_Integer)target->t.columns, (lua_Integer)target->t.rows);
    }
    if ((!rows || !columns || x->t.data != target->t.data) && tide__lua_tensor_overlap(x, target)) {
        luaL_error(L, "%s is part of the tensor that changes: give a x:copy()", what);
    }
    if (columns && !rows && target->t.columns == 1) { /* 1 x 1 */
        return (struct tide_lua_operand){.number = first_element(x), .whole = true};
    }
    return (struct tide_lua_operand){
        .data = x->t.data, .row_step = rows ? x->t.columns : 0, .step = columns ? 1 : 0, .whole = rows && columns};
}

/* ---- element by element ---- */

enum operation { ADD, SUBTRACT, MULTIPLY, DIVIDE };

#define LOOPS(T, name)                                                                                                 \
    static void operate_##name(enum operation op, T *t, const T *x, size_t step, T a, size_t n) {                      \
        switch (op) {                                                                                                  \
        case ADD:                                                                                                      \
            if (step) {                                                                                                \
                for (size_t i = 0; i < n; i++) {                                                                       \
                    t[i] += a * x[i];                                                                                  \
                }                                                                                                      \
            } else {                                                                                                   \
                const T v = a * *x;                                                                                    \
                for (size_t i = 0; i < n; i++) {                                                                       \
                    t[i] += v;                                                                                         \
                }                                                                                                      \
            }                                                                                                          \
            break;                                                                                                     \
        case SUBTRACT:                                                                                                 \
            for (size_t i = 0; i < n; i++) {                                                                           \
                t[i] -= x[i * step];                                                                                   \
            }                                                                                                          \
            break;                                                                                                     \
        case MULTIPLY:                                                                                                 \
            if (step) {                                                                                                \
                for (size_t i = 0; i < n; i++) {                                                                       \
                    t[i] *= x[i];                                                                                      \
                }                                                                                                      \
            } else {                                                                                                   \
                const T v = *x;                                                                                        \
                for (size_t i = 0; i < n; i++) {                                                                       \
                    t[i] *= v;                                                                                         \
                }                                                                                                      \
            }                                                                                                          \
            break;                                                                                                     \
        case DIVIDE:                                                                                                   \
            for (size_t i = 0; i < n; i++) {                                                                           \
                t[i] /= x[i * step];                                                                                   \
            }                                                                                                          \
            break;                                                                                                     \
        }                                                                                                              \
    }                                                                                                                  \
    /* Four sums, so that additions need not wait for each other. */                                                   \
    static double dot_##name(const T *a, const T *b, size_t n) {                                                       \
        double s[4] = {0};                                                                                             \
        size_t i = 0;                                                                                                  \
        for (; i + 4 <= n; i += 4) {                                                                                   \
            for (size_t j = 0; j < 4; j++) {                                                                           \
                s[j] += (double)a[i + j] * (double)b[i + j];                                                           \
            }                                                                                                          \
        }                                                                                                              \
        for (; i < n; i++) {                                                                                           \
            s[0] += (double)a[i] * (double)b[i];                                                                       \
        }                                                                                                              \
        return (s[0] + s[1]) + (s[2] + s[3]);                                                                          \
    }                                                                                                                  \
    static double sum_##name(const T *a, size_t step, size_t n) {                                                      \
        double s = 0;                                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                                               \
            s += (double)a[i * step];                                                                                  \
        }                                                                                                              \
        return s;                                                                                                      \
    }                                                                                                                  \
    static size_t extreme_##name(const T *a, size_t n, double sign) {                                                  \
        size_t best = 0;                                                                                               \
        for (size_t i = 1; i < n; i++) {                                                                               \
            if ((double)a[i] * sign > (double)a[best] * sign || isnan(a[best])) {                                      \
                best = i;                                                                                              \
            }                                                                                                          \
        }                                                                                                              \
        return best;                                                                                                   \
    }

LOOPS(float, f32)
LOOPS(double, f64)

/* t = t op a x, where a counts for additions alone. */
static void operate(enum operation op, struct tide_lua_tensor *t, const struct tide_lua_operand *x, double a) {
    const bool f32 = t->t.type == TIDE_F32;
    const float small = (float)x->number;
    const size_t rows = x->whole ? 1 : t->t.rows, columns = x->whole ? tide__lua_tensor_count(t) : t->t.columns;
    for (size_t r = 0; r < rows; r++) {
        char *row = (char *)t->t.data + r * columns * t->element;
        const void *from = x->data ? x->data + r * x->row_step * t->element : f32 ? (const void *)&small : &x->number;
        if (f32) {
            operate_f32(op, (float *)(void *)row, from, x->step, (float)a, columns);
        } else {
            operate_f64(op, (double *)(void *)row, from, x->step, a, columns);
        }
    }
}

static int in_place(lua_State *L, enum operation op) {
    struct tide_lua_tensor *t = tide__lua_floats_check(L, 1);
    const struct tide_lua_operand x = tide__lua_operand_check(L, 2, t, "the operand");
    operate(op, t, &x, 1);
    lua_settop(L, 1);
    return 1;
}

static int tensor_add(lua_State *L) {
    const uint8_t type = tide__lua_tensor_check(L, 1)->t.type;
    return type == TIDE_F32 || type == TIDE_F64 ? in_place(L, ADD) : tide__lua_tensor_add_integers(L);
}

static int tensor_sub(lua_State *L) {
    return in_place(L, SUBTRACT);
}

static int tensor_mul(lua_State *L) {
    return in_place(L, MULTIPLY);
}

static int tensor_div(lua_State *L) {
    return in_place(L, DIVIDE);
}

/* t:axpy(a, x): t = t + a x */
static int tensor_axpy(lua_State *L) {
    struct tide_lua_tensor *t = tide__lua_floats_check(L, 1);
    const double a = luaL_checknumber(L, 2);
    const struct tide_lua_operand x = tide__lua_operand_check(L, 3, t, "x");
    operate(ADD, t, &x, a);
    lua_settop(L, 1);
    return 1;
}

/* ---- operators: a new tensor ---- */

static int operator(lua_State *L, enum operation op) {
    const bool left = tide__lua_tensor_at(L, 1);
    if (!left && (op == SUBTRACT || op == DIVIDE)) {
        return luaL_error(L, "a number %s a tensor is not defined: write t:map(\"a %s x\", {a = ...})",
                          op == SUBTRACT ? "minus" : "over", op == SUBTRACT ? "-" : "/");
    }
    const struct tide_lua_tensor *from = tide__lua_floats_check(L, left ? 1 : 2);
    struct tide_lua_tensor *t = tide__lua_tensor_new(L, from->t.type, from->t.rows, from->t.columns);
    memcpy(t->t.data, from->t.data, tide__lua_tensor_count(from) * from->element);
    const struct tide_lua_operand x = tide__lua_operand_check(L, left ? 2 : 1, t, "the operand");
    operate(op, t, &x, 1);
    return 1;
}

static int meta_add(lua_State *L) {
    return operator(L, ADD);
}

static int meta_sub(lua_State *L) {
    return operator(L, SUBTRACT);
}

static int meta_mul(lua_State *L) {
    return operator(L, MULTIPLY);
}

static int meta_div(lua_State *L) {
    return operator(L, DIVIDE);
}

/* ---- to numbers ---- */

static double dot(const struct tide_lua_tensor *a, size_t from_a, const struct tide_lua_tensor *b, size_t from_b,
                  size_t n) {
    return a->t.type == TIDE_F32 ? dot_f32((const float *)a->t.data + from_a, (const float *)b->t.data + from_b, n)
                                 : dot_f64((const double *)a->t.data + from_a, (const double *)b->t.data + from_b, n);
}

static const struct tide_lua_tensor *same_shape(lua_State *L, int index, const struct tide_lua_tensor *t) {
    const struct tide_lua_tensor *x = tide__lua_tensor_check(L, index);
    if (x->t.type != t->t.type || x->t.rows != t->t.rows || x->t.columns != t->t.columns) {
        luaL_error(L, "the other tensor is %s %I x %I, this one %s %I x %I", tide__lua_tensor_type_name(x->t.type),
                   (lua_Integer)x->t.rows, (lua_Integer)x->t.columns, tide__lua_tensor_type_name(t->t.type),
                   (lua_Integer)t->t.rows, (lua_Integer)t->t.columns);
    }
    return x;
}

static int tensor_dot(lua_State *L) {
    const struct tide_lua_tensor *t = tide__lua_floats_check(L, 1), *x = same_shape(L, 2, t);
    lua_pushnumber(L, dot(t, 0, x, 0, tide__lua_tensor_count(t)));
    return 1;
}

static int tensor_norm(lua_State *L) {
    const struct tide_lua_tensor *t = tide__lua_floats_check(L, 1);
    lua_pushnumber(L, sqrt(dot(t, 0, t, 0, tide__lua_tensor_count(t))));
    return 1;
}

static int tensor_mean(lua_State *L) {
    const struct tide_lua_tensor *t = tide__lua_floats_check(L, 1);
    const size_t n = tide__lua_tensor_count(t);
    const double sum = t->t.type == TIDE_F32 ? sum_f32(t->t.data, 1, n) : sum_f64(t->t.data, 1, n);
    lua_pushnumber(L, sum / (double)n);
    return 1;
}

/* ---- of rows and columns: a new tensor ---- */

static void store(struct tide_lua_tensor *t, size_t i, double value) {
    if (t->t.type == TIDE_F32) {
        ((float *)t->t.data)[i] = (float)value;
    } else {
        ((double *)t->t.data)[i] = value;
    }
}

static double row_sum(const struct tide_lua_tensor *t, size_t at, size_t step, size_t n) {
    return t->t.type == TIDE_F32 ? sum_f32((const float *)t->t.data + at, step, n)
                                 : sum_f64((const double *)t->t.data + at, step, n);
}

/* t:row_sums() -> rows x 1 */
static int tensor_row_sums(lua_State *L) {
    const struct tide_lua_tensor *t = tide__lua_floats_check(L, 1);
    struct tide_lua_tensor *out = tide__lua_tensor_new(L, t->t.type, t->t.rows, 1);
    for (size_t r = 0; r < t->t.rows; r++) {
        store(out, r, row_sum(t, r * t->t.columns, 1, t->t.columns));
    }
    return 1;
}

/* t:column_sums() -> 1 x columns */
static int tensor_column_sums(lua_State *L) {
    const struct tide_lua_tensor *t = tide__lua_floats_check(L, 1);
    struct tide_lua_tensor *out = tide__lua_tensor_new(L, t->t.type, 1, t->t.columns);
    for (size_t c = 0; c < t->t.columns; c++) {
        store(out, c, row_sum(t, c, t->t.columns, t->t.rows));
    }
    return 1;
}

/* t:row_dots(x) -> rows x 1: the product of each row with the same row of x, or with its only one */
static int tensor_row_dots(lua_State *L) {
    const struct tide_lua_tensor *t = tide__lua_floats_check(L, 1), *x = tide__lua_tensor_check(L, 2);
    const size_t n = t->t.columns;
    const bool only = x->t.rows == 1 && x->t.type == t->t.type && x->t.columns == n;
    x = only ? x : same_shape(L, 2, t);
    struct tide_lua_tensor *out = tide__lua_tensor_new(L, t->t.type, t->t.rows, 1);
    for (size_t r = 0; r < t->t.rows; r++) {
        store(out, r, dot(t, r * n, x, only ? 0 : r * n, n));
    }
    return 1;
}

static int arg_extreme(lua_State *L, double sign) {
    const struct tide_lua_tensor *t = tide__lua_floats_check(L, 1);
    const size_t n = t->t.columns;
    luaL_argcheck(L, n > 0, 1, "has no columns");
    struct tide_lua_tensor *out = tide__lua_tensor_new(L, TIDE_U32, t->t.rows, 1);
    for (size_t r = 0; r < t->t.rows; r++) {
        ((uint32_t *)out->t.data)[r] =
            (uint32_t)(t->t.type == TIDE_F32 ? extreme_f32((const float *)t->t.data + r * n, n, sign)
                                             : extreme_f64((const double *)t->t.data + r * n, n, sign));
    }
    return 1;
}

static int row_extreme(lua_State *L, double sign) {
    const struct tide_lua_tensor *t = tide__lua_floats_check(L, 1);
    const size_t n = t->t.columns;
    luaL_argcheck(L, n > 0, 1, "has no columns");
    struct tide_lua_tensor *out = tide__lua_tensor_new(L, t->t.type, t->t.rows, 1);
    for (size_t r = 0; r < t->t.rows; r++) {
        const float *f32 = (const float *)t->t.data + r * n;
        const double *f64 = (const double *)t->t.data + r * n;
        store(out, r, t->t.type == TIDE_F32 ? (double)f32[extreme_f32(f32, n, sign)] : f64[extreme_f64(f64, n, sign)]);
    }
    return 1;
}

/* t:row_max() -> rows x 1 */
static int tensor_row_max(lua_State *L) {
    return row_extreme(L, 1);
}

static int tensor_row_min(lua_State *L) {
    return row_extreme(L, -1);
}

/* t:argmax() -> u32, rows x 1: the column of each row's greatest element, from 0; the first of equal ones */
static int tensor_argmax(lua_State *L) {
    return arg_extreme(L, 1);
}

static int tensor_argmin(lua_State *L) {
    return arg_extreme(L, -1);
}

/* ---- rows by number ---- */

/* Row number i of a u32, u64 or i64 tensor. */
static inline size_t row_number(const struct tide_lua_tensor *numbers, size_t i) {
    const void *data = numbers->t.data;
    return numbers->t.type == TIDE_U32 ? ((const uint32_t *)data)[i] : ((const uint64_t *)data)[i];
}

/* The row numbers at `index`; raises unless all are below `limit`. */
static const struct tide_lua_tensor *check_numbers(lua_State *L, int index, size_t limit) {
    const struct tide_lua_tensor *n = tide__lua_tensor_check(L, index);
    luaL_argcheck(L, n->t.type == TIDE_U32 || n->t.type == TIDE_U64 || n->t.type == TIDE_I64, index,
                  "row numbers are a u32, u64 or i64 tensor");
    const size_t count = tide__lua_tensor_count(n);
    uint64_t most = 0;
    if (n->t.type == TIDE_U32) {
        const uint32_t *at = n->t.data;
        uint32_t greatest = 0;
        for (size_t i = 0; i < count; i++) {
            greatest = at[i] > greatest ? at[i] : greatest;
        }
        most = greatest;
    } else {
        const uint64_t *at = n->t.data;
        for (size_t i = 0; i < count; i++) {
            most = at[i] > most ? at[i] : most;
        }
    }
    for (size_t i = 0; i < count && most >= limit; i++) {
        if (row_number(n, i) >= limit) {
            luaL_error(L, "number %I of argument %d is %I: there are rows 0 .. %I", (lua_Integer)i + 1, index - 1,
                       (lua_Integer)row_number(n, i), (lua_Integer)limit - 1);
        }
    }
    return n;
}

/* Rows of one element of 4 bytes, the commonest by far in graphs and sparse rows. */
static void gather_words(const uint32_t *from, const struct tide_lua_tensor *numbers, uint32_t *to) {
    const size_t count = tide__lua_tensor_count(numbers);
    const uint32_t *narrow = numbers->t.data;
    const uint64_t *wide = numbers->t.data;
    if (numbers->t.type == TIDE_U32) {
        for (size_t i = 0; i < count; i++) {
            to[i] = from[narrow[i]];
        }
    } else {
        for (size_t i = 0; i < count; i++) {
            to[i] = from[wide[i]];
        }
    }
}

/* The same of what is added: x from a place to the next `step` elements. */
static void scatter_words(float *to, const struct tide_lua_tensor *numbers, const float *x, size_t step) {
    const size_t count = tide__lua_tensor_count(numbers);
    const uint32_t *narrow = numbers->t.data;
    const uint64_t *wide = numbers->t.data;
    if (numbers->t.type == TIDE_U32) {
        for (size_t i = 0; i < count; i++) {
            to[narrow[i]] += x[i * step];
        }
    } else {
        for (size_t i = 0; i < count; i++) {
            to[wide[i]] += x[i * step];
        }
    }
}

/* t:gather(numbers) -> a new tensor of those rows of t */
static int tensor_gather(lua_State *L) {
    const struct tide_lua_tensor *t = tide__lua_tensor_check(L, 1), *numbers = check_numbers(L, 2, t->t.rows);
    const size_t count = tide__lua_tensor_count(numbers), bytes = t->t.columns * t->element;
    struct tide_lua_tensor *out = tide__lua_tensor_new(L, t->t.type, count, t->t.columns);
    if (bytes == sizeof(uint32_t)) {
        gather_words(t->t.data, numbers, out->t.data);
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        memcpy((char *)out->t.data + i * bytes, (const char *)t->t.data + row_number(numbers, i) * bytes, bytes);
    }
    return 1;
}

/* t:scatter_add(numbers, x): row numbers[i] of t grows by row i of x, or by a number; numbers may repeat */
static int tensor_scatter_add(lua_State *L) {
    struct tide_lua_tensor *t = tide__lua_floats_check(L, 1);
    const struct tide_lua_tensor *numbers = check_numbers(L, 2, t->t.rows);
    const size_t count = tide__lua_tensor_count(numbers);
    const struct tide_lua_tensor as_many = {.t = {.rows = count, .columns = t->t.columns, .type = t->t.type},
                                            .element = t->element};
    const struct tide_lua_operand x = tide__lua_operand_check(L, 3, &as_many, "what is added");
    const struct tide_lua_tensor *added = tide__lua_tensor_at(L, 3);
    luaL_argcheck(L, !added || !tide__lua_tensor_overlap(added, t), 3,
                  "is part of the tensor that changes: give a x:copy()");
    if (t->t.type == TIDE_F32 && t->t.columns == 1) {
        const float number = (float)x.number;
        const bool each = x.data && (x.whole || x.row_step > 0);
        scatter_words(t->t.data, numbers, x.data ? (const float *)(const void *)x.data : &number, each);
        lua_settop(L, 1);
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        struct tide_lua_tensor row = *t;
        row.t.data = (char *)t->t.data + row_number(numbers, i) * t->t.columns * t->element;
        row.t.rows = 1;
        struct tide_lua_operand one = x;
        one.data = x.data ? x.data + i * x.row_step * t->element : NULL;
        operate(ADD, &row, &one, 1);
    }
    lua_settop(L, 1);
    return 1;
}

/* ---- products ---- */

static bool flag_field(lua_State *L, int index, const char *name) {
    const int type = lua_getfield(L, index, name);
    if (type != LUA_TNIL && type != LUA_TBOOLEAN) {
        luaL_error(L, "%s is a boolean, not %s", name, luaL_typename(L, -1));
    }
    const bool value = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return value;
}

static double number_field(lua_State *L, int index, const char *name, double otherwise) {
    const int type = lua_getfield(L, index, name);
    if (type != LUA_TNIL && type != LUA_TNUMBER) {
        luaL_error(L, "%s is a number, not %s", name, luaL_typename(L, -1));
    }
    const double value = type == LUA_TNIL ? otherwise : lua_tonumber(L, -1);
    lua_pop(L, 1);
    return value;
}

static void check_fields(lua_State *L, int index, const char *const *known, size_t count) {
    lua_pushnil(L);
    while (lua_next(L, index)) {
        bool found = false;
        for (size_t i = 0; i < count && lua_type(L, -2) == LUA_TSTRING; i++) {
            found = found || strcmp(known[i], lua_tostring(L, -2)) == 0;
        }
        if (!found) {
            luaL_error(L, "matmul knows no option '%s': transpose_a, transpose_b, scale, keep",
                       luaL_tolstring(L, -2, NULL));
        }
        lua_pop(L, 1);
    }
}

/* t:matmul(a, b, {transpose_a, transpose_b, scale = 1, keep = 0}): t = scale a b + keep t, f32, by OpenBLAS */
static int tensor_matmul(lua_State *L) {
    struct tide_lua_tensor *t = tide__lua_tensor_check(L, 1);
    const struct tide_lua_tensor *a = tide__lua_tensor_check(L, 2), *b = tide__lua_tensor_check(L, 3);
    if (t->t.type != TIDE_F32 || a->t.type != TIDE_F32 || b->t.type != TIDE_F32) {
        return luaL_error(L, "matmul is for f32 tensors: t:convert \"f32\" gives one");
    }
    luaL_argcheck(L, !tide__lua_tensor_overlap(t, a) && !tide__lua_tensor_overlap(t, b), 1,
                  "shares memory with a factor: the product needs its own");
    bool transpose_a = false, transpose_b = false;
    double scale = 1, keep = 0;
    if (!lua_isnoneornil(L, 4)) {
        luaL_checktype(L, 4, LUA_TTABLE);
        static const char *const known[] = {"transpose_a", "transpose_b", "scale", "keep"};
        check_fields(L, 4, known, TIDE_COUNT(known));
        transpose_a = flag_field(L, 4, "transpose_a");
        transpose_b = flag_field(L, 4, "transpose_b");
        scale = number_field(L, 4, "scale", 1);
        keep = number_field(L, 4, "keep", 0);
    }
    const size_t m = transpose_a ? a->t.columns : a->t.rows, k = transpose_a ? a->t.rows : a->t.columns;
    const size_t k2 = transpose_b ? b->t.columns : b->t.rows, n = transpose_b ? b->t.rows : b->t.columns;
    if (k != k2 || t->t.rows != m || t->t.columns != n) {
        return luaL_error(L, "a %I x %I by a %I x %I tensor do not make one of %I x %I", (lua_Integer)m, (lua_Integer)k,
                          (lua_Integer)k2, (lua_Integer)n, (lua_Integer)t->t.rows, (lua_Integer)t->t.columns);
    }
    if ((n == 1 || m == 1) && m * n * k > 0) { /* by a vector */
        const bool right = n == 1;
        const struct tide_lua_tensor *matrix = right ? a : b, *vector = right ? b : a;
        const int code = tide_cpu_gemv(right ? transpose_a : !transpose_b, matrix->t.rows, matrix->t.columns,
                                       (float)scale, matrix->t.data, vector->t.data, (float)keep, t->t.data);
        if (code < 0) {
            return tide__lua_raise(L, code);
        }
        lua_settop(L, 1);
        return 1;
    }
    const int rc = tide_cpu_gemm(transpose_a, transpose_b, m, n, k, (float)scale, a->t.data, a->t.columns, b->t.data,
                                 b->t.columns, (float)keep, t->t.data, t->t.columns);
    if (rc < 0) {
        return tide__lua_raise(L, rc);
    }
    lua_settop(L, 1);
    return 1;
}

/* t:transpose() -> a new tensor */
static int tensor_transpose(lua_State *L) {
    const struct tide_lua_tensor *t = tide__lua_tensor_check(L, 1);
    struct tide_lua_tensor *out = tide__lua_tensor_new(L, t->t.type, t->t.columns, t->t.rows);
    for (size_t r = 0; r < t->t.rows; r++) {
        for (size_t c = 0; c < t->t.columns; c++) {
            memcpy((char *)out->t.data + (c * t->t.rows + r) * t->element,
                   (const char *)t->t.data + (r * t->t.columns + c) * t->element, t->element);
        }
    }
    return 1;
}

/* ---- random numbers ---- */

/* t:uniform(seed, low = 0, high = 1): the same seed, the same numbers */
static int tensor_uniform(lua_State *L) {
    struct tide_lua_tensor *t = tide__lua_floats_check(L, 1);
    struct tide_random random;
    tide_random_seed(&random, (uint64_t)luaL_checkinteger(L, 2));
    const double low = luaL_optnumber(L, 3, 0), high = luaL_optnumber(L, 4, 1);
    const float below = nextafterf((float)high, (float)low); /* a number near `high` may be rounded to it */
    const bool narrow = t->t.type == TIDE_F32 && high > low;
    for (size_t i = 0, n = tide__lua_tensor_count(t); i < n; i++) {
        const double x = low + (high - low) * tide_random_uniform(&random);
        store(t, i, narrow && (float)x >= (float)high ? below : x);
    }
    lua_settop(L, 1);
    return 1;
}

/* t:normal(seed, mean = 0, std = 1): by Box and Muller (1958), two at a time */
static int tensor_normal(lua_State *L) {
    struct tide_lua_tensor *t = tide__lua_floats_check(L, 1);
    struct tide_random random;
    tide_random_seed(&random, (uint64_t)luaL_checkinteger(L, 2));
    const double mean = luaL_optnumber(L, 3, 0), std = luaL_optnumber(L, 4, 1), turn = 6.283185307179586;
    for (size_t i = 0, n = tide__lua_tensor_count(t); i < n; i += 2) {
        const double radius = std * sqrt(-2 * log(1 - tide_random_uniform(&random)));
        const double angle = turn * tide_random_uniform(&random);
        store(t, i, mean + radius * cos(angle));
        if (i + 1 < n) {
            store(t, i + 1, mean + radius * sin(angle));
        }
    }
    lua_settop(L, 1);
    return 1;
}

void tide__lua_tensor_math(lua_State *L) {
    static const luaL_Reg methods[] = {
        {"add", tensor_add},
        {"sub", tensor_sub},
        {"mul", tensor_mul},
        {"div", tensor_div},
        {"axpy", tensor_axpy},
        {"dot", tensor_dot},
        {"norm", tensor_norm},
        {"mean", tensor_mean},
        {"row_sums", tensor_row_sums},
        {"column_sums", tensor_column_sums},
        {"row_dots", tensor_row_dots},
        {"row_max", tensor_row_max},
        {"row_min", tensor_row_min},
        {"argmax", tensor_argmax},
        {"argmin", tensor_argmin},
        {"gather", tensor_gather},
        {"scatter_add", tensor_scatter_add},
        {"matmul", tensor_matmul},
        {"transpose", tensor_transpose},
        {"uniform", tensor_uniform},
        {"normal", tensor_normal},
        {"map", tide__lua_tensor_map},
        {NULL, NULL},
    };
    luaL_setfuncs(L, methods, 0);
}

void tide__lua_tensor_operators(lua_State *L) {
    static const luaL_Reg meta[] = {
        {"__add", meta_add}, {"__sub", meta_sub}, {"__mul", meta_mul}, {"__div", meta_div}, {NULL, NULL}};
    luaL_setfuncs(L, meta, 0);
}
