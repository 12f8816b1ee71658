/*
 * Messages between store actors as structs. A row of message.def declares a message; from its fields come the
 * struct, the reader, the writer and the number of fields. A field has one of eight types:
 *
 *   UINT(bits, f)   an unsigned integer of at most 8, 16, 32 or 64 bits; a larger one is damage
 *   INT(f)          a signed integer
 *   REAL(f)         a double
 *   BOOL(f)
 *   TEXT(f)         a string, not zero-terminated
 *   BYTES(f)        binary
 *   LIST(code, f)   a typed array (enum tide_ext without its prefix), unaligned
 *   VALUE(f)        one msgpack value as bytes, which the handler reads
 *
 * TEXT, BYTES and LIST may be nil. NONE: a message without fields. FREE: the fields depend on the table, and the
 * handler reads and writes them itself (pulls, pushes and their answers: the data path).
 */
#ifndef TIDE_STORE_MESSAGE_H
#define TIDE_STORE_MESSAGE_H

#include "wire/wire.h"

#include <string.h>

/* Operations have the numbers of their messages. The last three: relocating tables. Wanted by a worker, by another
 * node; not wanted any more. */
enum tide__kind {
    TIDE__PULL = 1,
    TIDE__PUSH = 2,
    TIDE__LOCALIZE = 3,
    TIDE__LOC = 4,
    TIDE__OFFER = 5,
    TIDE__CLOCKED = 6 /* of a ticket: a pull from a table with clocks */
};

#define TIDE_NO_CLOCK UINT32_MAX /* no worker; as the clock of a node: it delays no other */

enum tide__op { /* first element of every message */
                TIDE__OP_NONE,
#define TIDE__MESSAGE(name, cast, call, what, fields) TIDE__OP_##name,
#include "store/core/message.def"
#undef TIDE__MESSAGE
                TIDE__OP_COUNT
};
_Static_assert((int)TIDE__OP_PULL == TIDE__PULL && (int)TIDE__OP_OFFER == TIDE__OFFER,
               "operations have the numbers of their messages");

enum tide__array_form {
    TIDE__LIST_WHOLE,
    TIDE__LIST_NIL,
    TIDE__LIST_HEAD, /* writer: the elements follow by other means; the last field only */
};
struct tide__array { /* elements; of TEXT, BYTES and VALUE: bytes. Read: points into the message */
    const void *at;
    size_t count;
    enum tide__array_form form;
};
#define TIDE__LIST(elements, many) ((struct tide__array){.at = (elements), .count = (many)})
#define TIDE__LIST_HEAD_OF(many) ((struct tide__array){.count = (many), .form = TIDE__LIST_HEAD})
#define TIDE__LIST_NONE ((struct tide__array){.form = TIDE__LIST_NIL})

#define UINT(bits, field) uint##bits##_t field;
#define INT(field) int64_t field;
#define REAL(field) double field;
#define BOOL(field) bool field;
#define TEXT(field) struct tide__array field;
#define BYTES(field) struct tide__array field;
#define LIST(code, field) struct tide__array field;
#define VALUE(field) struct tide__array field;
#define NONE char none;
#define FREE char none;
union tide__message {
#define TIDE__MESSAGE(name, cast, call, what, fields)                                                                  \
    struct {                                                                                                           \
        fields                                                                                                         \
    } name;
#include "store/core/message.def"
#undef TIDE__MESSAGE
};
#undef UINT
#undef INT
#undef REAL
#undef BOOL
#undef TEXT
#undef BYTES
#undef LIST
#undef VALUE
#undef NONE
#undef FREE

/* A message of the name as two arguments of the functions below: its number, and its fields by name. */
#define TIDE__AS(name, ...)                                                                                            \
    TIDE__OP_##name, &(const union tide__message) {                                                                    \
        .name = { __VA_ARGS__ }                                                                                        \
    }

/* The fields behind the op, of `count` with it. False: damaged. A FREE message stays unread. */
bool tide__message_read(enum tide__op op, size_t count, struct tide_reader *r, union tide__message *out);
/* The whole message; behind a LIST_HEAD the caller writes or sends the elements. */
void tide__message_write(struct tide_writer *w, enum tide__op op, const union tide__message *m);
int tide__message_fields(enum tide__op op);            /* behind the op; -1: FREE */
bool tide__are_slots(const struct tide__array *slots); /* numbers of slots, each in range */
/* A TEXT as a string. False, and "": it is nil, has a zero inside, or does not fit: cut, it would name something else.
 */
bool tide__text_copy(const struct tide__array *text, char *out, size_t capacity);

static inline uint32_t tide__number_at(const void *numbers, size_t i) { /* unaligned u32 */
    uint32_t value;
    memcpy(&value, (const uint8_t *)numbers + i * sizeof value, sizeof value);
    return value;
}
/* NULL: in order. */
static inline uint32_t tide__position_at(const void *positions, size_t i) {
    return positions ? tide__number_at(positions, i) : (uint32_t)i;
}
static inline uint64_t tide__long_at(const void *numbers, size_t i) { /* unaligned u64 */
    uint64_t value;
    memcpy(&value, (const uint8_t *)numbers + i * sizeof value, sizeof value);
    return value;
}

#endif
