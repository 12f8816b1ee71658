/*
 * Handshake bodies. The reader of bytes from unknown peers: every text is bounded and checked against
 * its rule before it is kept, every number against its range. Of another version only the version
 * itself is looked at.
 */
#include "net/link/hello.h"
#include "net/tls/keys.h"

#include <string.h>

enum { HELLO_FIELDS = 17, WELCOME_FIELDS = 13 };

/* A text without control characters, shorter than `capacity`. */
static void read_plain(struct tide_reader *r, char *out, size_t capacity) {
    size_t size;
    const char *text = tide_read_string(r, &size);
    out[0] = 0;
    if (r->error != 0) {
        return;
    }
    if (size >= capacity) {
        r->error = TIDE_EPROTO;
        return;
    }
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) {
            r->error = TIDE_EPROTO;
            return;
        }
    }
    memcpy(out, text, size);
    out[size] = 0;
}

/* An identifier, or "" where that is allowed. */
static void read_name(struct tide_reader *r, char *out, bool optional) {
    read_plain(r, out, 64);
    if (r->error == 0 && !(optional && out[0] == 0) && !tide_identifier_valid(out)) {
        r->error = TIDE_EPROTO;
    }
}

static uint64_t read_within(struct tide_reader *r, uint64_t limit) {
    uint64_t value = tide_read_uint(r);
    if (value > limit) {
        r->error = TIDE_EPROTO;
        return 0;
    }
    return value;
}

/* Array and version; EVERSION leaves the rest alone, because it is not ours to understand. */
static int read_opening(struct tide_reader *r, size_t fields, const char *what, uint32_t *version) {
    size_t count = tide_read_array(r);
    *version = (uint32_t)read_within(r, UINT32_MAX);
    if (r->error != 0 || count == 0) {
        return tide_fail(TIDE_EPROTO, "%s: not an array that begins with a version", what);
    }
    if (*version != TIDE_PROTOCOL) {
        return tide_fail(TIDE_EVERSION, "peer speaks protocol %u, this node speaks %u", (unsigned)*version,
                         TIDE_PROTOCOL);
    }
    if (count != fields) {
        return tide_fail(TIDE_EPROTO, "%s: %zu fields, %zu are expected", what, count, fields);
    }
    return 0;
}

static int read_closing(const struct tide_reader *r, const char *what) {
    if (r->error != 0) {
        return tide_fail(TIDE_EPROTO, "%s: a field is damaged or out of range", what);
    }
    if (r->at != r->end) {
        return tide_fail(TIDE_EPROTO, "%s: %zu bytes too many", what, (size_t)(r->end - r->at));
    }
    return 0;
}

void tide__hello_write(struct tide_writer *w, const struct tide_hello *h) {
    tide_write_array(w, HELLO_FIELDS);
    tide_write_uint(w, h->version);
    tide_write_text(w, h->cluster);
    tide_write_text(w, h->name);
    tide_write_uint(w, h->incarnation);
    tide_write_uint(w, h->id);
    tide_write_text(w, h->to);
    tide_write_uint(w, h->to_incarnation);
    tide_write_text(w, h->endpoint);
    tide_write_bool(w, h->store);
    tide_write_bool(w, h->client);
    tide_write_uint(w, h->workers);
    tide_write_int(w, h->pid);
    tide_write_uint(w, h->session);
    tide_write_uint(w, h->received);
    tide_write_uint(w, h->attempt);
    tide_write_uint(w, h->term);
    tide_write_uint(w, h->right);
}

int tide_hello_parse(const void *body, size_t size, struct tide_hello *out) {
    *out = (struct tide_hello){0};
    if (size > TIDE_FRAME_HELLO_MAX) {
        return tide_fail(TIDE_ELIMIT, "hello: %zu bytes", size);
    }
    struct tide_reader r;
    tide_reader_init(&r, body, size);
    int error = read_opening(&r, HELLO_FIELDS, "hello", &out->version);
    if (error != 0) {
        return error;
    }
    read_name(&r, out->cluster, true);
    read_name(&r, out->name, true);
    out->incarnation = tide_read_uint(&r);
    out->id = (uint16_t)read_within(&r, UINT16_MAX);
    read_name(&r, out->to, true);
    out->to_incarnation = tide_read_uint(&r);
    read_plain(&r, out->endpoint, sizeof out->endpoint);
    out->store = tide_read_bool(&r);
    out->client = tide_read_bool(&r);
    out->workers = (uint16_t)read_within(&r, UINT16_MAX);
    out->pid = (int32_t)read_within(&r, INT32_MAX);
    out->session = tide_read_uint(&r);
    out->received = tide_read_uint(&r);
    out->attempt = tide_read_uint(&r);
    out->term = tide_read_uint(&r);
    out->right = (uint8_t)read_within(&r, TIDE_RIGHT_NODE);
    error = read_closing(&r, "hello");
    if (error == 0 && out->incarnation == 0) {
        error = tide_fail(TIDE_EPROTO, "hello: no incarnation");
    }
    const bool of_person = out->right >= TIDE_RIGHT_READ && out->right <= TIDE_RIGHT_ADMIN;
    if (error == 0 && (out->client ? !of_person : out->right != TIDE_RIGHT_NODE)) {
        error = tide_fail(TIDE_EPROTO, "hello: the right %s is not for %s", tide_right_name(out->right),
                          out->client ? "clients" : "members");
    }
    if (error == 0 && out->cluster[0] == 0 && (!out->client || out->id != 0)) {
        error = tide_fail(TIDE_EPROTO, "hello: no cluster");
    }
    if (error == 0 && out->id != 0 && out->client != (out->id >= 0x8000)) {
        error = tide_fail(TIDE_EPROTO, "hello: id %u is not for %s", (unsigned)out->id,
                          out->client ? "clients" : "members");
    }
    return error;
}

void tide__welcome_write(struct tide_writer *w, const struct tide_welcome *h) {
    tide_write_array(w, WELCOME_FIELDS);
    tide_write_uint(w, h->version);
    tide_write_text(w, h->cluster);
    tide_write_text(w, h->name);
    tide_write_uint(w, h->incarnation);
    tide_write_uint(w, h->id);
    tide_write_text(w, h->endpoint);
    tide_write_text(w, h->controller);
    tide_write_uint(w, h->session);
    tide_write_uint(w, h->received);
    tide_write_uint(w, h->assigned_id);
    tide_write_text(w, h->assigned_name);
    tide_write_uint(w, h->right);
    tide_write_uint(w, h->silence_ms);
}

int tide__welcome_parse(const void *body, size_t size, struct tide_welcome *out) {
    *out = (struct tide_welcome){0};
    struct tide_reader r;
    tide_reader_init(&r, body, size);
    int error = read_opening(&r, WELCOME_FIELDS, "welcome", &out->version);
    if (error != 0) {
        return error;
    }
    read_name(&r, out->cluster, false);
    read_name(&r, out->name, true);
    out->incarnation = tide_read_uint(&r);
    out->id = (uint16_t)read_within(&r, UINT16_MAX);
    read_plain(&r, out->endpoint, sizeof out->endpoint);
    read_plain(&r, out->controller, sizeof out->controller);
    out->session = tide_read_uint(&r);
    out->received = tide_read_uint(&r);
    out->assigned_id = (uint16_t)read_within(&r, UINT16_MAX);
    read_name(&r, out->assigned_name, true);
    out->right = (uint8_t)read_within(&r, TIDE_RIGHT_NODE);
    out->silence_ms = (uint32_t)read_within(&r, TIDE_SILENCE_MAX / (TIDE_SECOND / 1000));
    return read_closing(&r, "welcome");
}

void tide__refusal_write(struct tide_writer *w, int code, const char *text) {
    tide_write_array(w, 2);
    tide_write_int(w, code);
    tide_write_text(w, text);
}

int tide__refusal_parse(const void *body, size_t size, int *code, char *text, size_t capacity) {
    struct tide_reader r;
    tide_reader_init(&r, body, size);
    size_t count = tide_read_array(&r);
    int64_t number = tide_read_int(&r);
    read_plain(&r, text, capacity);
    if (r.error != 0 || count != 2 || number >= 0 || number < INT32_MIN) {
        return tide_fail(TIDE_EPROTO, "the peer refused in a way this node does not understand");
    }
    *code = (int)number;
    return 0;
}
