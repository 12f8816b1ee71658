/*
 * The wire: msgpack by a cursor (data path), a pre-scan that bounds foreign bytes before anything is allocated,
 * and the frame around every message between nodes.
 *
 * Frame: u32 little-endian length of what follows, then the msgpack array [kind|lane<<4, to, from, call, body].
 * Our encoder writes the head with fixed widths (TIDE_FRAME_HEAD bytes with the length); the decoder takes any
 * msgpack integers.
 */
#ifndef TIDE_WIRE_H
#define TIDE_WIRE_H

#include "base/base.h"

enum {
    TIDE_FRAME_HEAD = 4 + 1 + 1 + 9 + 9 + 9,
    TIDE_FRAME_MAX = 16 << 20,      /* after hello */
    TIDE_FRAME_HELLO_MAX = 1 << 10, /* before hello_ok */
    TIDE_DEPTH_MAX = 16,
    TIDE_ITEMS_MAX = 65536,
    TIDE_STRING_MAX = 1 << 20,
};

size_t tide_ext_element_size(int code); /* 0: unknown code */

/* ---- writer: appends to a growing buffer; the first failure sticks ---- */
struct tide_writer {
    uint8_t *data;
    size_t size, capacity;
    bool owned; /* data is heap memory (else the caller's initial buffer) */
    int error;  /* 0, ENOMEM, or ELIMIT: longer than msgpack can say */
};
/* `initial` may be a stack buffer of `capacity` bytes, or NULL. */
void tide_writer_init(struct tide_writer *w, void *initial, size_t capacity);
void tide_writer_release(struct tide_writer *w);
void *tide_write_reserve(struct tide_writer *w, size_t size); /* appends `size` unset bytes; NULL on failure */
void tide_write_nil(struct tide_writer *w);
void tide_write_bool(struct tide_writer *w, bool value);
void tide_write_int(struct tide_writer *w, int64_t value);
void tide_write_uint(struct tide_writer *w, uint64_t value);
void tide_write_double(struct tide_writer *w, double value);
void tide_write_string(struct tide_writer *w, const char *text, size_t size);
void tide_write_text(struct tide_writer *w, const char *text); /* zero-terminated; NULL = nil */
void tide_write_binary(struct tide_writer *w, const void *data, size_t size);
void tide_write_binary_head(struct tide_writer *w, size_t size); /* the bytes follow in some other way */
void tide_write_array(struct tide_writer *w, size_t count);      /* followed by count values */
void tide_write_map(struct tide_writer *w, size_t count);        /* followed by count key, value pairs */
void tide_write_typed(struct tide_writer *w, enum tide_ext code, const void *elements, size_t count);
/* Head only: the elements follow by reference as the message's tail. */
void tide_write_typed_head(struct tide_writer *w, enum tide_ext code, size_t count);
void tide_write_raw(struct tide_writer *w, const void *msgpack, size_t size);

/* ---- reader: a cursor over bytes that stay where they are; a failure sticks and every later read gives zero ---- */
struct tide_reader {
    const uint8_t *at, *end;
    int error; /* 0 or EPROTO */
};
/* TIDE_UINT: only integers above INT64_MAX; all others are TIDE_INT whatever their encoding. */
enum tide_type {
    TIDE_NIL,
    TIDE_BOOL,
    TIDE_INT,
    TIDE_UINT,
    TIDE_DOUBLE,
    TIDE_STRING,
    TIDE_BINARY,
    TIDE_ARRAY,
    TIDE_MAP,
    TIDE_EXT,
    TIDE_END
};
void tide_reader_init(struct tide_reader *r, const void *data, size_t size);
enum tide_type
tide_read_type(const struct tide_reader *r); /* of the next value; TIDE_END at the end or after an error */
bool tide_read_nil(struct tide_reader *r);   /* true and past it, or false and in place */
bool tide_read_bool(struct tide_reader *r);
int64_t tide_read_int(struct tide_reader *r);
uint64_t tide_read_uint(struct tide_reader *r);
double tide_read_double(struct tide_reader *r);                    /* also from integers */
const char *tide_read_string(struct tide_reader *r, size_t *size); /* not zero-terminated; points into the bytes */
/* Copies and terminates; too long for `capacity` is an error. */
void tide_read_text(struct tide_reader *r, char *out, size_t capacity);
const void *tide_read_binary(struct tide_reader *r, size_t *size);
size_t tide_read_array(struct tide_reader *r); /* count; never more than the bytes left */
size_t tide_read_map(struct tide_reader *r);
/* Elements may be unaligned: memcpy them. Wrong code or a length that is no multiple: EPROTO. */
const void *tide_read_typed(struct tide_reader *r, enum tide_ext code, size_t *count);
const void *tide_read_ext(struct tide_reader *r, int *code, size_t *size);
void tide_read_skip(struct tide_reader *r); /* one whole value, iteratively */
/* Map by key: leaves `r` alone; `value` at the value of `key` in the map that starts at r. false if absent. */
bool tide_read_field(const struct tide_reader *r, const char *key, struct tide_reader *value);

/* Iterative check of foreign bytes: exactly one value, depth, items, string lengths, ext codes and element sizes,
 * duplicate string keys (maps of up to 64 pairs). 0, EPROTO or ELIMIT with the offset in the error text. */
int tide_scan(const void *data, size_t size);

/* One value as a line of text for people, at most capacity - 1 bytes and a zero (describe.c). Bytes that are cut short
 * or no msgpack are described as far as they go. Strings come as they are: the printer escapes them. Returns its
 * length.
 */
size_t tide_describe(const void *data, size_t size, char *out, size_t capacity);

/* ---- half.c: values of two bytes; wire_type is TIDE_WIRE_F16 or TIDE_WIRE_BF16 ---- */
void tide__floats_to_half(const void *from, void *to, size_t count, uint8_t wire_type); /* may be the same memory */
void tide__half_to_floats(const void *from, void *to, size_t count, uint8_t wire_type);

/* ---- frames ---- */
enum tide_frame_kind {
    TIDE_FRAME_CAST,
    TIDE_FRAME_CALL,
    TIDE_FRAME_REPLY,
    TIDE_FRAME_ERROR,
    TIDE_FRAME_EXIT,
    TIDE_FRAME_CREDIT,
    TIDE_FRAME_HELLO,
    TIDE_FRAME_HELLO_OK,
    TIDE_FRAME_HEARTBEAT,
    TIDE_FRAME_CANCEL,
    TIDE_FRAME_MONITOR,
    TIDE_FRAME_DEMONITOR,
    TIDE_FRAME_LINK,
    TIDE_FRAME_UNLINK,
    TIDE_FRAME_FRAGMENT,
    TIDE_FRAME_KIND_COUNT
};
struct tide_frame {
    uint8_t kind, lane;
    tide_address to, from;
    uint64_t call;
    const uint8_t *body; /* one msgpack value */
    uint32_t body_size;
};
/* Writes length and head for a body of body_size bytes that follows. */
void tide_frame_head(uint8_t out[TIDE_FRAME_HEAD], const struct tide_frame *frame, size_t body_size);
/* How many bytes the frame at data needs in all (with its length word), 0 if fewer than 4 bytes are there, or
 * a negative code when the announced length is over `limit` or too small to be a frame. */
int64_t tide_frame_length(const void *data, size_t size, size_t limit);
/* Splits a whole frame (without the length word). Checks the head only; scan the body where it is not read by cursor.
 */
int tide_frame_parse(const void *data, size_t size, struct tide_frame *out);

#endif
