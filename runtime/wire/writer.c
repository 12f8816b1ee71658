/*
 * The msgpack writer. Every value takes the shortest form msgpack has for it, so that equal values
 * are equal bytes. Each call reserves the largest head once, stores, and advances by what it used.
 * A failure sticks: later calls append nothing, and the caller looks at `error` once, at the end.
 */
#include "wire/head.h"

enum { WRITER_FIRST = 256 };

void tide_writer_init(struct tide_writer *w, void *initial, size_t capacity) {
    *w = (struct tide_writer){.data = initial, .capacity = initial ? capacity : 0};
}

void tide_writer_release(struct tide_writer *w) {
    if (w->owned) {
        tide_free(w->data);
    }
    *w = (struct tide_writer){0};
}

static __attribute__((noinline)) bool writer_grow(struct tide_writer *w, size_t more) {
    size_t need;
    size_t capacity = w->capacity < WRITER_FIRST ? WRITER_FIRST : w->capacity;
    if (__builtin_add_overflow(w->size, more, &need) || need > PTRDIFF_MAX) {
        w->error = tide_fail(TIDE_ENOMEM, "a message of more than %zu bytes", w->size);
        return false;
    }
    while (capacity < need) {
        capacity *= 2;
    }
    uint8_t *data = w->owned ? tide_realloc(w->data, capacity) : tide_alloc(capacity);
    if (!data) {
        w->error = TIDE_ENOMEM;
        return false;
    }
    if (!w->owned && w->size > 0) {
        memcpy(data, w->data, w->size);
    }
    w->data = data;
    w->capacity = capacity;
    w->owned = true;
    return true;
}

/* Where the next bytes go, with room for `size`; NULL after a failure. */
static inline uint8_t *writer_room(struct tide_writer *w, size_t size) {
    if (TIDE_UNLIKELY(w->error != 0)) {
        return NULL;
    }
    if (TIDE_UNLIKELY(w->capacity - w->size < size) && !writer_grow(w, size)) {
        return NULL;
    }
    return w->data + w->size;
}

static void writer_too_long(struct tide_writer *w, size_t size) {
    if (w->error == 0) {
        w->error = tide_fail(TIDE_ELIMIT, "msgpack cannot say a length of %zu", size);
    }
}

void *tide_write_reserve(struct tide_writer *w, size_t size) {
    uint8_t *at = writer_room(w, size);
    if (at) {
        w->size += size;
    }
    return at;
}

static inline void write_byte(struct tide_writer *w, uint8_t byte) {
    uint8_t *at = writer_room(w, 1);
    if (at) {
        at[0] = byte;
        w->size += 1;
    }
}

void tide_write_nil(struct tide_writer *w) {
    write_byte(w, 0xc0);
}

void tide_write_bool(struct tide_writer *w, bool value) {
    write_byte(w, value ? 0xc3 : 0xc2);
}

void tide_write_uint(struct tide_writer *w, uint64_t value) {
    uint8_t *at = writer_room(w, 9);
    if (!at) {
        return;
    }
    if (value < 0x80) {
        at[0] = (uint8_t)value;
        w->size += 1;
    } else if (value <= UINT8_MAX) {
        at[0] = 0xcc;
        at[1] = (uint8_t)value;
        w->size += 2;
    } else if (value <= UINT16_MAX) {
        at[0] = 0xcd;
        tide__store16(at + 1, (uint16_t)value);
        w->size += 3;
    } else if (value <= UINT32_MAX) {
        at[0] = 0xce;
        tide__store32(at + 1, (uint32_t)value);
        w->size += 5;
    } else {
        at[0] = 0xcf;
        tide__store64(at + 1, value);
        w->size += 9;
    }
}

void tide_write_int(struct tide_writer *w, int64_t value) {
    if (value >= 0) {
        tide_write_uint(w, (uint64_t)value);
        return;
    }
    uint8_t *at = writer_room(w, 9);
    if (!at) {
        return;
    }
    if (value >= -32) {
        at[0] = (uint8_t)value;
        w->size += 1;
    } else if (value >= INT8_MIN) {
        at[0] = 0xd0;
        at[1] = (uint8_t)value;
        w->size += 2;
    } else if (value >= INT16_MIN) {
        at[0] = 0xd1;
        tide__store16(at + 1, (uint16_t)value);
        w->size += 3;
    } else if (value >= INT32_MIN) {
        at[0] = 0xd2;
        tide__store32(at + 1, (uint32_t)value);
        w->size += 5;
    } else {
        at[0] = 0xd3;
        tide__store64(at + 1, (uint64_t)value);
        w->size += 9;
    }
}

void tide_write_double(struct tide_writer *w, double value) {
    uint8_t *at = writer_room(w, 9);
    if (at) {
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        at[0] = 0xcb;
        tide__store64(at + 1, bits);
        w->size += 9;
    }
}

/* A head with a length of 1, 2 or 4 bytes behind `tag8`, `tag8 + 1`, `tag8 + 2`, and room for
 * `more` bytes after it. */
static uint8_t *write_length(struct tide_writer *w, uint8_t tag8, size_t size, size_t more) {
    if (TIDE_UNLIKELY(size > UINT32_MAX)) {
        writer_too_long(w, size);
        return NULL;
    }
    uint8_t *at = writer_room(w, 6 + more);
    if (!at) {
        return NULL;
    }
    if (size <= UINT8_MAX) {
        at[0] = tag8;
        at[1] = (uint8_t)size;
        w->size += 2;
        return at + 2;
    }
    if (size <= UINT16_MAX) {
        at[0] = (uint8_t)(tag8 + 1);
        tide__store16(at + 1, (uint16_t)size);
        w->size += 3;
        return at + 3;
    }
    at[0] = (uint8_t)(tag8 + 2);
    tide__store32(at + 1, (uint32_t)size);
    w->size += 5;
    return at + 5;
}

static inline void write_bytes(struct tide_writer *w, uint8_t *at, const void *data, size_t size) {
    if (at && size > 0) {
        memcpy(at, data, size);
        w->size += size;
    }
}

void tide_write_string(struct tide_writer *w, const char *text, size_t size) {
    if (size < 32) {
        uint8_t *at = writer_room(w, 1 + size);
        if (at) {
            at[0] = (uint8_t)(0xa0u | size);
            w->size += 1;
            write_bytes(w, at + 1, text, size);
        }
        return;
    }
    write_bytes(w, write_length(w, 0xd9, size, size), text, size);
}

void tide_write_text(struct tide_writer *w, const char *text) {
    if (text) {
        tide_write_string(w, text, strlen(text));
    } else {
        tide_write_nil(w);
    }
}

void tide_write_binary(struct tide_writer *w, const void *data, size_t size) {
    write_bytes(w, write_length(w, 0xc4, size, size), data, size);
}

void tide_write_binary_head(struct tide_writer *w, size_t size) {
    (void)write_length(w, 0xc4, size, 0);
}

static void write_container(struct tide_writer *w, size_t count, uint8_t fix, uint8_t tag16) {
    if (TIDE_UNLIKELY(count > UINT32_MAX)) {
        writer_too_long(w, count);
        return;
    }
    uint8_t *at = writer_room(w, 5);
    if (!at) {
        return;
    }
    if (count < 16) {
        at[0] = (uint8_t)(fix | count);
        w->size += 1;
    } else if (count <= UINT16_MAX) {
        at[0] = tag16;
        tide__store16(at + 1, (uint16_t)count);
        w->size += 3;
    } else {
        at[0] = (uint8_t)(tag16 + 1);
        tide__store32(at + 1, (uint32_t)count);
        w->size += 5;
    }
}

void tide_write_array(struct tide_writer *w, size_t count) {
    write_container(w, count, 0x90, 0xdc);
}

void tide_write_map(struct tide_writer *w, size_t count) {
    write_container(w, count, 0x80, 0xde);
}

size_t tide_ext_element_size(int code) {
    switch (code) {
    case TIDE_F32:
    case TIDE_I32:
    case TIDE_U32:
        return 4;
    case TIDE_F64:
    case TIDE_I64:
    case TIDE_U64:
        return 8;
    case TIDE_F16:
    case TIDE_BF16:
    case TIDE_U16:
        return 2;
    case TIDE_U8:
        return 1;
    default:
        return 0;
    }
}

/* Writes the head of an ext of count elements with room for `more` bytes after it. */
static uint8_t *write_ext(struct tide_writer *w, enum tide_ext code, size_t count, bool room, size_t *size) {
    static const uint8_t fixed[17] = {[1] = 0xd4, [2] = 0xd5, [4] = 0xd6, [8] = 0xd7, [16] = 0xd8};
    size_t element = tide_ext_element_size((int)code);
    TIDE_ASSERT(element != 0);
    if (__builtin_mul_overflow(count, element, size)) {
        *size = SIZE_MAX;
    }
    uint8_t *at;
    if (*size <= 16 && fixed[*size]) {
        at = writer_room(w, 2 + (room ? *size : 0));
        if (!at) {
            return NULL;
        }
        at[0] = fixed[*size];
        w->size += 1;
        at += 1;
    } else {
        at = write_length(w, 0xc7, *size, room ? *size : 0);
        if (!at) {
            return NULL;
        }
    }
    at[0] = (uint8_t)code;
    w->size += 1;
    return at + 1;
}

void tide_write_typed(struct tide_writer *w, enum tide_ext code, const void *elements, size_t count) {
    size_t size;
    uint8_t *at = write_ext(w, code, count, true, &size);
    write_bytes(w, at, elements, size);
}

void tide_write_typed_head(struct tide_writer *w, enum tide_ext code, size_t count) {
    size_t size;
    (void)write_ext(w, code, count, false, &size);
}

void tide_write_raw(struct tide_writer *w, const void *msgpack, size_t size) {
    write_bytes(w, writer_room(w, size), msgpack, size);
}
