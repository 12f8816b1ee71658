/*
 * t:map(expression, values): t = expression, element by element, without a tensor for what lies between. An expression
 * is arithmetic as Lua writes it: + - * / ^, comparisons (1 or 0), numbers, x for the element itself, names of `values`
 * (numbers, or tensors that broadcast as in tensor_math.h), and the functions below. It is compiled to steps of a stack
 * machine, whose stack holds blocks of BLOCK elements.
 */
#include "tensor_math.h"

#include <ctype.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>

enum { STEPS_MAX = 128, DEPTH_MAX = 16, VALUES_MAX = 16, NESTED_MAX = 32, BLOCK = 256, NAME_BYTES = 32 };

enum step_kind {
    NUMBER,
    VALUE, /* push */
    NEGATE,
    EXP,
    LOG,
    SQRT,
    ABS,
    TANH,
    SIGMOID,
    RELU,
    FLOOR,
    SIGN, /* of the top */
    PLUS,
    MINUS,
    TIMES,
    OVER,
    POWER,
    LEAST,
    GREATEST,
    BELOW,
    ABOVE,
    AT_MOST,
    AT_LEAST,
    SAME,
    OTHER, /* of the top two */
};

struct step {
    enum step_kind kind;
    unsigned value; /* VALUE */
    double number;  /* NUMBER */
};

struct expression {
    lua_State *L;
    const char *text, *at;
    const struct tide_lua_tensor *target;
    struct step steps[STEPS_MAX];
    size_t step_count, depth, nested;
    char names[VALUES_MAX][NAME_BYTES];
    struct tide_lua_operand values[VALUES_MAX];
    size_t value_count;
};

static const struct {
    const char *name;
    enum step_kind kind;
    int arguments;
} functions[] = {{"exp", EXP, 1},   {"log", LOG, 1},     {"sqrt", SQRT, 1},       {"abs", ABS, 1},
                 {"tanh", TANH, 1}, {"floor", FLOOR, 1}, {"sigmoid", SIGMOID, 1}, {"relu", RELU, 1},
                 {"sign", SIGN, 1}, {"min", LEAST, 2},   {"max", GREATEST, 2}};

/* ---- text to steps ---- */

static void refuse(struct expression *e, const char *what) {
    luaL_error(e->L, "in \"%s\", at character %d: %s", e->text, (int)(e->at - e->text) + 1, what);
}

static void emit(struct expression *e, enum step_kind kind, unsigned value, double number) {
    if (e->step_count == STEPS_MAX) {
        refuse(e, "the expression is too long: 128 steps at most");
    }
    e->steps[e->step_count++] = (struct step){kind, value, number};
    e->depth = kind <= VALUE ? e->depth + 1 : kind >= PLUS ? e->depth - 1 : e->depth;
    if (e->depth > DEPTH_MAX) {
        refuse(e, "too many values wait for each other: 16 at most");
    }
}

static char look(struct expression *e) {
    e->at += strspn(e->at, " \t\r\n");
    return *e->at;
}

static bool take(struct expression *e, const char *word) {
    (void)look(e);
    if (strncmp(e->at, word, strlen(word)) != 0) {
        return false;
    }
    e->at += strlen(word);
    return true;
}

static void comparison(struct expression *e);

static unsigned value_named(struct expression *e, const char *name) {
    for (unsigned i = 0; i < e->value_count; i++) {
        if (strcmp(e->names[i], name) == 0) {
            return i;
        }
    }
    if (e->value_count == VALUES_MAX) {
        refuse(e, "more than 16 names");
    }
    lua_State *L = e->L;
    const unsigned i = (unsigned)e->value_count++;
    strcpy(e->names[i], name);
    if (strcmp(name, "x") == 0) {
        lua_pushvalue(L, 1);
    } else if (lua_istable(L, 3)) {
        lua_getfield(L, 3, name);
    } else {
        lua_pushnil(L);
    }
    if (lua_isnil(L, -1)) {
        char what[120];
        snprintf(what, sizeof what, "'%s' is no function and not among the values", name);
        refuse(e, what);
    }
    e->values[i] = tide__lua_operand_check(L, lua_gettop(L), e->target, name);
    lua_pop(L, 1); /* the arguments keep it */
    return i;
}

static void call(struct expression *e, const char *name) {
    for (size_t i = 0; i < TIDE_COUNT(functions); i++) {
        if (strcmp(functions[i].name, name) != 0) {
            continue;
        }
        comparison(e);
        if (functions[i].arguments == 2) {
            if (!take(e, ",")) {
                refuse(e, "min and max have two arguments");
            }
            comparison(e);
        }
        if (!take(e, ")")) {
            refuse(e, "a ')' is missing");
        }
        emit(e, functions[i].kind, 0, 0);
        return;
    }
    refuse(e, "the functions are exp log sqrt abs tanh sigmoid relu floor sign min max");
}

static void atom(struct expression *e) {
    const char c = look(e);
    if (isdigit((unsigned char)c) || c == '.') {
        char *end;
        const double number = strtod(e->at, &end); /* the program never leaves the C locale */
        e->at = end;
        emit(e, NUMBER, 0, number);
    } else if (isalpha((unsigned char)c) || c == '_') {
        char name[NAME_BYTES];
        size_t size = 0;
        while ((isalnum((unsigned char)*e->at) || *e->at == '_') && size + 1 < sizeof name) {
            name[size++] = *e->at++;
        }
        name[size] = 0;
        if (take(e, "(")) {
            call(e, name);
        } else {
            emit(e, VALUE, value_named(e, name), 0);
        }
    } else if (take(e, "(")) {
        comparison(e);
        if (!take(e, ")")) {
            refuse(e, "a ')' is missing");
        }
    } else {
        refuse(e, c ? "a number, a name or '(' is expected" : "it ends too early");
    }
}

static void unary(struct expression *e);

static void power(struct expression *e) {
    atom(e);
    if (take(e, "^")) {
        unary(e);
        emit(e, POWER, 0, 0);
    }
}

static void unary(struct expression *e) {
    if (++e->nested > NESTED_MAX) {
        refuse(e, "it is nested too deeply: 32 at most");
    }
    if (take(e, "-")) {
        unary(e);
        emit(e, NEGATE, 0, 0);
    } else {
        power(e);
    }
    e->nested--;
}

static void product(struct expression *e) {
    unary(e);
    for (;;) {
        if (take(e, "*")) {
            unary(e);
            emit(e, TIMES, 0, 0);
        } else if (take(e, "/")) {
            unary(e);
            emit(e, OVER, 0, 0);
        } else {
            return;
        }
    }
}

static void sum(struct expression *e) {
    product(e);
    for (;;) {
        if (take(e, "+")) {
            product(e);
            emit(e, PLUS, 0, 0);
        } else if (take(e, "-")) {
            product(e);
            emit(e, MINUS, 0, 0);
        } else {
            return;
        }
    }
}

static void comparison(struct expression *e) {
    static const struct {
        const char *word;
        enum step_kind kind;
    } words[] = {{"<=", AT_MOST}, {">=", AT_LEAST}, {"==", SAME}, {"~=", OTHER}, {"<", BELOW}, {">", ABOVE}};
    sum(e);
    for (size_t i = 0; i < TIDE_COUNT(words); i++) {
        if (take(e, words[i].word)) {
            sum(e);
            emit(e, words[i].kind, 0, 0);
            return;
        }
    }
}

/* ---- steps to values ---- */

#define EACH(result)                                                                                                   \
    for (size_t i = 0; i < n; i++) {                                                                                   \
        a[i] = (result);                                                                                               \
    }                                                                                                                  \
    break

/* One block of n elements of row `row` from column `column` on. T's own functions: no double forward for f32. */
#define MACHINE(T, name, f)                                                                                            \
    static void run_##name(const struct expression *e, size_t row, size_t column, size_t n, T *out) {                  \
        T stack[DEPTH_MAX][BLOCK];                                                                                     \
        size_t depth = 0;                                                                                              \
        for (size_t s = 0; s < e->step_count; s++) {                                                                   \
            const struct step *step = &e->steps[s];                                                                    \
            const struct tide_lua_operand *v = &e->values[step->value];                                                \
            depth = step->kind >= PLUS ? depth - 1 : step->kind <= VALUE ? depth + 1 : depth;                          \
            T *restrict a = stack[depth - 1];                                                                          \
            const T *b = stack[depth < DEPTH_MAX ? depth : 0]; /* of the top two, the upper */                         \
            const T *data = v->data ? (const T *)(const void *)v->data + row * v->row_step + column * v->step : NULL;  \
            switch (step->kind) {                                                                                      \
            case NUMBER:                                                                                               \
                EACH((T)step->number);                                                                                 \
            case VALUE:                                                                                                \
                if (data && v->step) {                                                                                 \
                    memcpy(a, data, n * sizeof *a);                                                                    \
                    break;                                                                                             \
                }                                                                                                      \
                EACH(data ? *data : (T)v->number);                                                                     \
            case NEGATE:                                                                                               \
                EACH(-a[i]);                                                                                           \
            case EXP:                                                                                                  \
                EACH(exp##f(a[i]));                                                                                    \
            case LOG:                                                                                                  \
                EACH(log##f(a[i]));                                                                                    \
            case SQRT:                                                                                                 \
                EACH(sqrt##f(a[i]));                                                                                   \
            case ABS:                                                                                                  \
                EACH(fabs##f(a[i]));                                                                                   \
            case TANH:                                                                                                 \
                EACH(tanh##f(a[i]));                                                                                   \
            case SIGMOID:                                                                                              \
                EACH(1 / (1 + exp##f(-a[i])));                                                                         \
            case RELU:                                                                                                 \
                EACH(a[i] > 0 ? a[i] : 0);                                                                             \
            case FLOOR:                                                                                                \
                EACH(floor##f(a[i]));                                                                                  \
            case SIGN:                                                                                                 \
                EACH((T)((a[i] > 0) - (a[i] < 0)));                                                                    \
            case PLUS:                                                                                                 \
                EACH(a[i] + b[i]);                                                                                     \
            case MINUS:                                                                                                \
                EACH(a[i] - b[i]);                                                                                     \
            case TIMES:                                                                                                \
                EACH(a[i] * b[i]);                                                                                     \
            case OVER:                                                                                                 \
                EACH(a[i] / b[i]);                                                                                     \
            case POWER:                                                                                                \
                EACH(pow##f(a[i], b[i]));                                                                              \
            case LEAST:                                                                                                \
                EACH(b[i] < a[i] ? b[i] : a[i]);                                                                       \
            case GREATEST:                                                                                             \
                EACH(b[i] > a[i] ? b[i] : a[i]);                                                                       \
            case BELOW:                                                                                                \
                EACH((T)(a[i] < b[i]));                                                                                \
            case ABOVE:                                                                                                \
                EACH((T)(a[i] > b[i]));                                                                                \
            case AT_MOST:                                                                                              \
                EACH((T)(a[i] <= b[i]));                                                                               \
            case AT_LEAST:                                                                                             \
                EACH((T)(a[i] >= b[i]));                                                                               \
            case SAME:                                                                                                 \
                EACH((T)(a[i] == b[i]));                                                                               \
            case OTHER:                                                                                                \
                EACH((T)(a[i] != b[i]));                                                                               \
            }                                                                                                          \
        }                                                                                                              \
        memcpy(out, stack[0], n * sizeof *out);                                                                        \
    }

MACHINE(float, f32, f)
MACHINE(double, f64, )

int tide__lua_tensor_map(lua_State *L) {
    struct tide_lua_tensor *t = tide__lua_floats_check(L, 1);
    struct expression e = {.L = L, .text = luaL_checkstring(L, 2), .target = t};
    if (!lua_isnoneornil(L, 3)) {
        luaL_checktype(L, 3, LUA_TTABLE);
    }
    lua_settop(L, 3);
    e.at = e.text;
    comparison(&e);
    if (look(&e)) {
        refuse(&e, "an operator is expected");
    }
    bool whole = true;
    for (size_t i = 0; i < e.value_count; i++) {
        whole = whole && e.values[i].whole;
    }
    const size_t rows = whole ? 1 : t->t.rows, columns = whole ? tide__lua_tensor_count(t) : t->t.columns;
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < columns; c += BLOCK) {
            const size_t n = columns - c < BLOCK ? columns - c : BLOCK, at = r * columns + c;
            if (t->t.type == TIDE_F32) {
                run_f32(&e, r, c, n, (float *)t->t.data + at);
            } else {
                run_f64(&e, r, c, n, (double *)t->t.data + at);
            }
        }
    }
    lua_settop(L, 1);
    return 1;
}
