/* Reading .npy: a magic number, a version, a Python dictionary as text, the elements. */
#include "readers/npy.h"

#include "base/base.h"

#include <string.h>

static const struct {
    char code[3];
    uint8_t type, element;
} types[] = {{"b1", TIDE_NPY_BOOL, 1}, {"u1", TIDE_NPY_U8, 1},  {"i1", TIDE_NPY_I8, 1},  {"u2", TIDE_NPY_U16, 2},
             {"i2", TIDE_NPY_I16, 2},  {"f2", TIDE_NPY_F16, 2}, {"u4", TIDE_NPY_U32, 4}, {"i4", TIDE_NPY_I32, 4},
             {"f4", TIDE_NPY_F32, 4},  {"u8", TIDE_NPY_U64, 8}, {"i8", TIDE_NPY_I64, 8}, {"f8", TIDE_NPY_F64, 8}};

size_t tide_npy_element(enum tide_npy_type type) {
    return types[type].element;
}

static const uint8_t magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

bool tide_npy_is(const void *data, size_t size) {
    return size >= sizeof magic && memcmp(data, magic, sizeof magic) == 0;
}

struct scan {
    const char *begin, *at, *end; /* the dictionary */
    size_t offset;                /* of its first byte in the file */
};

static int bad(const struct scan *s, const char *expected) {
    return tide_fail(TIDE_EINVAL, "byte %zu: the header of the npy file is damaged: expected %s",
                     s->offset + (size_t)(s->at - s->begin), expected);
}

static void blanks(struct scan *s) {
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\t')) {
        s->at++;
    }
}

static bool take(struct scan *s, char c) {
    blanks(s);
    if (s->at < s->end && *s->at == c) {
        s->at++;
        return true;
    }
    return false;
}

/* A text in quotes of either kind, without escapes. */
static bool quoted(struct scan *s, const char **text, size_t *size) {
    blanks(s);
    if (s->at == s->end || (*s->at != '\'' && *s->at != '"')) {
        return false;
    }
    const char *close = memchr(s->at + 1, *s->at, (size_t)(s->end - s->at - 1));
    if (!close) {
        return false;
    }
    *text = s->at + 1;
    *size = (size_t)(close - s->at - 1);
    s->at = close + 1;
    return true;
}

static bool word(struct scan *s, const char *expected) {
    const size_t size = strlen(expected);
    blanks(s);
    if ((size_t)(s->end - s->at) < size || memcmp(s->at, expected, size) != 0) {
        return false;
    }
    s->at += size;
    return true;
}

static int read_type(struct scan *s, struct tide_npy *out) {
    const char *text;
    size_t size;
    blanks(s);
    if (s->at < s->end && *s->at == '[') {
        return tide_fail(TIDE_EUNSUPPORTED, "an array of structures: save its fields as arrays");
    }
    if (!quoted(s, &text, &size) || size < 2) {
        return bad(s, "the type of its elements");
    }
    if (text[0] == '>' && text[1] != 'O') {
        return tide_fail(TIDE_EUNSUPPORTED,
                         "elements of type '%.*s', big-endian: save a.astype(a.dtype.newbyteorder("
                         "'<'))",
                         size < 20 ? (int)size : 20, text);
    }
    for (size_t i = 0; i < TIDE_COUNT(types); i++) {
        if (size == 3 && (text[0] == '<' || text[0] == '|' || text[0] == '=') &&
            memcmp(text + 1, types[i].code, 2) == 0) {
            out->type = (enum tide_npy_type)types[i].type;
            return 0;
        }
    }
    return tide_fail(TIDE_EUNSUPPORTED, "elements of type '%.*s': numbers of 1, 2, 4 or 8 bytes are read",
                     size < 20 ? (int)size : 20, text);
}

static int read_shape(struct scan *s, struct tide_npy *out) {
    if (!take(s, '(')) {
        return bad(s, "the shape as (rows, columns)");
    }
    for (out->rank = 0; !take(s, ')'); out->rank++) {
        uint64_t n = 0;
        blanks(s);
        if (out->rank == TIDE_NPY_RANK_MAX) {
            return tide_fail(TIDE_EUNSUPPORTED, "more than %d dims", TIDE_NPY_RANK_MAX);
        }
        const char *from = s->at;
        for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++) {
            if (n > (UINT64_MAX - 9) / 10) {
                return bad(s, "a smaller size");
            }
            n = 10 * n + (uint64_t)(*s->at - '0');
        }
        if (s->at == from) {
            return bad(s, "a size in the shape");
        }
        out->dims[out->rank] = n;
        if (!take(s, ',')) {
            blanks(s);
            if (s->at == s->end || *s->at != ')') {
                return bad(s, "`,` or `)` in the shape");
            }
        }
    }
    return 0;
}

static int read_header(struct scan *s, struct tide_npy *out) {
    unsigned seen = 0; /* bits: descr, fortran_order, shape */
    if (!take(s, '{')) {
        return bad(s, "`{`");
    }
    while (!take(s, '}')) {
        const char *key;
        size_t size;
        int code = 0;
        if (!quoted(s, &key, &size) || !take(s, ':')) {
            return bad(s, "a field in quotes and `:`");
        }
        if (size == 5 && memcmp(key, "descr", 5) == 0) {
            code = read_type(s, out);
            seen |= 1;
        } else if (size == 13 && memcmp(key, "fortran_order", 13) == 0) {
            out->fortran = word(s, "True");
            code = out->fortran || word(s, "False") ? 0 : bad(s, "True or False");
            seen |= 2;
        } else if (size == 5 && memcmp(key, "shape", 5) == 0) {
            code = read_shape(s, out);
            seen |= 4;
        } else {
            code = bad(s, "descr, fortran_order or shape");
        }
        if (code < 0) {
            return code;
        }
        if (!take(s, ',')) {
            blanks(s);
            if (s->at == s->end || *s->at != '}') {
                return bad(s, "`,` or `}`");
            }
        }
    }
    return seen == 7 ? 0 : bad(s, "descr, fortran_order and shape");
}

int tide_npy_parse(const void *data, size_t size, struct tide_npy *out) {
    const uint8_t *at = data;
    if (!tide_npy_is(data, size) || size < 12) {
        return tide_fail(TIDE_EINVAL, "byte 0: no npy file, which begins with \\x93NUMPY");
    }
    const bool wide = at[6] >= 2;
    const size_t begin = wide ? 12 : 10;
    size_t length = (size_t)at[8] | (size_t)at[9] << 8;
    if (wide) {
        length |= (size_t)at[10] << 16 | (size_t)at[11] << 24;
    }
    if (at[6] < 1 || at[6] > 3) {
        return tide_fail(TIDE_EUNSUPPORTED, "byte 6: npy files of version 1 to 3 are read, not %u", at[6]);
    }
    if (length > size - begin) {
        return tide_fail(TIDE_EINVAL, "byte 8: a header of %zu bytes in a file of %zu", length, size);
    }
    *out = (struct tide_npy){.count = 1};
    const char *text = (const char *)at + begin;
    struct scan s = {text, text, text + length, begin};
    int code = read_header(&s, out);
    if (code < 0) {
        return code;
    }
    size_t bytes;
    for (size_t i = 0; i < out->rank; i++) {
        if (out->dims[i] > SIZE_MAX || __builtin_mul_overflow(out->count, (size_t)out->dims[i], &out->count)) {
            return tide_fail(TIDE_EINVAL, "byte %zu: a shape beyond all memory", begin);
        }
    }
    const size_t there = size - begin - length;
    if (__builtin_mul_overflow(out->count, tide_npy_element(out->type), &bytes) || bytes != there) {
        return tide_fail(TIDE_EINVAL, "byte %zu: the header promises %zu elements of %zu bytes, there are %zu bytes",
                         begin + length, out->count, tide_npy_element(out->type), there);
    }
    out->bytes = at + begin + length;
    return 0;
}
