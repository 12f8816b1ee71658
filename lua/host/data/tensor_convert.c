/*
 * Tensors of another type, and their numbers as text. One rule (readers/text.h): a whole number stays what it is, a
 * fraction is rounded to the nearest float, and what does not fit is an error. All readers of arrays narrow by it.
 */
#include "tensor_math.h"

#include "readers/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* A number of any type. `magnitude` is that of a whole number below 2^64; of others `whole` is false. */
struct number {
    double value;
    uint64_t magnitude;
    bool whole, negative;
};

static struct number of_integer(int64_t v) {
    return (struct number){(double)v, v < 0 ? -(uint64_t)v : (uint64_t)v, true, v < 0};
}

static struct number of_float(double v) {
    const double size = fabs(v);
    const bool whole = size < 0x1p64 && floor(size) == size;
    return (struct number){v, whole ? (uint64_t)size : 0, whole, v < 0};
}

static struct number number_at(const struct tide_lua_tensor *t, size_t i) {
    const void *data = t->t.data;
    switch (t->t.type) {
    case TIDE_F32:
        return of_float((double)((const float *)data)[i]);
    case TIDE_F64:
        return of_float(((const double *)data)[i]);
    case TIDE_I32:
        return of_integer(((const int32_t *)data)[i]);
    case TIDE_U32:
        return of_integer(((const uint32_t *)data)[i]);
    case TIDE_U8:
        return of_integer(((const uint8_t *)data)[i]);
    case TIDE_U16:
        return of_integer(((const uint16_t *)data)[i]);
    case TIDE_U64: {
        const uint64_t v = ((const uint64_t *)data)[i];
        return (struct number){(double)v, v, true, false};
    }
    default:
        return of_integer(((const int64_t *)data)[i]);
    }
}

/* A whole number into a type of -least .. most. */
static bool within(struct number n, uint64_t least, uint64_t most) {
    return n.whole && n.magnitude <= (n.negative ? least : most);
}

/* Stores a number that fits; else why it does not. */
static const char *store(struct tide_lua_tensor *to, size_t i, struct number n, bool measured) {
    void *data = to->t.data;
    const uint64_t value = n.negative ? -n.magnitude : n.magnitude;
    float f;
    switch (to->t.type) {
    case TIDE_F32:
        if (tide_narrow_f32(n.value, &f) == TIDE_NARROW_BEYOND) {
            return "is beyond its range";
        }
        ((float *)data)[i] = f;
        return n.whole && !(measured && n.magnitude > UINT64_C(1) << 53) && !tide_narrow_exact(n.magnitude, 24)
                   ? "is a whole number that would be rounded"
                   : NULL;
    case TIDE_F64:
        ((double *)data)[i] = n.value;
        return measured || tide_narrow_exact(n.magnitude, 53) ? NULL : "is a whole number that would be rounded";
    case TIDE_I32:
        ((int32_t *)data)[i] = (int32_t)value;
        return within(n, UINT64_C(1) << 31, INT32_MAX) ? NULL : "is no whole number within its range";
    case TIDE_U32:
        ((uint32_t *)data)[i] = (uint32_t)value;
        return within(n, 0, UINT32_MAX) ? NULL : "is no whole number within its range";
    case TIDE_U8:
        ((uint8_t *)data)[i] = (uint8_t)value;
        return within(n, 0, UINT8_MAX) ? NULL : "is no whole number within its range";
    case TIDE_U16:
        ((uint16_t *)data)[i] = (uint16_t)value;
        return within(n, 0, UINT16_MAX) ? NULL : "is no whole number within its range";
    case TIDE_U64:
        ((uint64_t *)data)[i] = value;
        return within(n, 0, UINT64_MAX) ? NULL : "is no whole number within its range";
    default:
        ((int64_t *)data)[i] = (int64_t)value;
        return within(n, UINT64_C(1) << 63, INT64_MAX) ? NULL : "is no whole number within its range";
    }
}

/* The fewest digits that read as the same number again. */
static void print_float(char *out, size_t size, double value, int least, int most, bool narrow) {
    for (int digits = least; digits <= most; digits++) {
        (void)snprintf(out, size, "%.*g", digits, value);
        const double again = strtod(out, NULL);
        if (narrow ? (float)again >= (float)value && (float)again <= (float)value : again >= value && again <= value) {
            return;
        }
    }
}

static void print_number(char *out, size_t size, const struct tide_lua_tensor *t, size_t i) {
    const struct number n = number_at(t, i);
    const bool floats = t->t.type == TIDE_F32 || t->t.type == TIDE_F64;
    if (floats && isfinite(n.value)) {
        const bool narrow = t->t.type == TIDE_F32;
        print_float(out, size, n.value, narrow ? 6 : 15, narrow ? 9 : 17, narrow);
    } else if (floats) {
        (void)snprintf(out, size, "%s", isnan(n.value) ? "nan" : n.negative ? "-inf" : "inf");
    } else {
        (void)snprintf(out, size, "%s%" PRIu64, n.negative ? "-" : "", n.magnitude);
    }
}

/* t:convert(type) -> a new tensor of the same numbers; raises where one does not fit */
int tide__lua_tensor_convert(lua_State *L) {
    const struct tide_lua_tensor *from = tide__lua_tensor_check(L, 1);
    const int type = tide__lua_tensor_type_check(L, 2);
    const size_t count = tide__lua_tensor_count(from);
    const bool measured = from->t.type == TIDE_F32 || from->t.type == TIDE_F64;
    struct tide_lua_tensor *to = tide__lua_tensor_new(L, type, from->t.rows, from->t.columns);
    for (size_t i = 0; i < count; i++) {
        const char *why = store(to, i, number_at(from, i), measured);
        if (TIDE_UNLIKELY(why != NULL)) {
            char text[40];
            print_number(text, sizeof text, from, i);
            return luaL_error(L, "row %I: %s does not fit %s: it %s", (lua_Integer)(i / from->t.columns) + 1, text,
                              tide__lua_tensor_type_name(type), why);
        }
    }
    return 1;
}

/* t:text(i): the element as text that reads as the same number again */
int tide__lua_tensor_text(lua_State *L) {
    const struct tide_lua_tensor *t = tide__lua_tensor_check(L, 1);
    const lua_Integer i = luaL_checkinteger(L, 2);
    char text[40];
    luaL_argcheck(L, i >= 1 && (lua_Unsigned)i <= tide__lua_tensor_count(t), 2, "is no element of the tensor");
    print_number(text, sizeof text, t, (size_t)i - 1);
    lua_pushstring(L, text);
    return 1;
}
