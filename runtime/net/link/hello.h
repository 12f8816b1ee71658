/* The handshake's three bodies, encoded and decoded; pure. (tide_hello_parse is in net.h, for the
 * fuzzer.) */
#ifndef TIDE_NET_HELLO_H
#define TIDE_NET_HELLO_H

#include "net/net.h"

/* What the accepting side says of itself, and to a joiner: its id and name, or where the
 * controller listens. */
struct tide_welcome {
    uint32_t version;
    char cluster[64], name[64];
    uint64_t incarnation;
    uint16_t id;
    char endpoint[160], controller[160];
    uint64_t session, received; /* the session that begins or resumes; its last frame that came */
    uint16_t assigned_id;       /* 0: none was asked for, or ask the controller */
    char assigned_name[64];
    uint8_t right;       /* enum tide_right that the other side has here */
    uint32_t silence_ms; /* that this cluster grants; 0: the default */
};

void tide__hello_write(struct tide_writer *w, const struct tide_hello *hello);
void tide__welcome_write(struct tide_writer *w, const struct tide_welcome *welcome);
int tide__welcome_parse(const void *body, size_t size, struct tide_welcome *out);
/* [code, text], as in every ERROR frame. */
void tide__refusal_write(struct tide_writer *w, int code, const char *text);
int tide__refusal_parse(const void *body, size_t size, int *code, char *text, size_t capacity);

#endif
