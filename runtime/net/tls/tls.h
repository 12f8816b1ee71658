/*
 * TLS 1.3 with certificates on both sides, through buffers: no sockets, no clock but the port's, in the simulator no
 * randomness but its seed. channel.c moves the bytes. A `tide_tls` is what a node has, its credential; a session is one
 * connection's. I/O thread 0.
 *
 * A client is established before the server has judged it: nothing counts before the hello is answered (handshake.c).
 */
#ifndef TIDE_NET_TLS_H
#define TIDE_NET_TLS_H

#include "net/tls/keys.h"

struct tide_tls;
struct tide_tls_session;

/* Reads the credential in a directory, which must be of this cluster. ENOENT, EPERM, EINVAL, EMISMATCH. */
int tide__tls_open(struct tide_port *port, const char *directory, const char *cluster, struct tide_tls **out);
void tide__tls_close(struct tide_tls *tls); /* after its sessions; NULL is fine */
const char *tide__tls_directory(const struct tide_tls *tls);
const struct tide_identity *tide__tls_self(const struct tide_tls *tls);
/* Reads it again if its files have changed: new sessions go by it. True: it was; a damaged one is logged and the former
 * one stays. */
bool tide__tls_refresh(struct tide_tls *tls, const char *who);
/* Is a certificate still valid? NULL, or why not: it was revoked, or its time is over. */
const char *tide__tls_objects(const struct tide_tls *tls, const struct tide_identity *identity);

/* accepts: as the server. NULL: ENOMEM. */
struct tide_tls_session *tide__tls_begin(struct tide_tls *tls, bool accepts);
void tide__tls_end(struct tide_tls_session *s);
/* Bytes from the peer for the calls that follow, which use them all before they require more. Borrowed until then. */
void tide__tls_feed(struct tide_tls_session *s, const uint8_t *data, size_t size);
/* 1: done, 0: requires the peer's bytes, negative: it is over (tide__tls_reason). */
int tide__tls_handshake(struct tide_tls_session *s);
/* Plain bytes into `data`: how many, 0: requires the peer's bytes, negative: over. */
ssize_t tide__tls_read(struct tide_tls_session *s, void *data, size_t size);
/* All of it becomes output; negative: over. */
int tide__tls_write(struct tide_tls_session *s, const void *data, size_t size);
void tide__tls_goodbye(struct tide_tls_session *s); /* the last output: no more will be written */
/* What is to go to the peer, and that so much of it has gone. */
const uint8_t *tide__tls_output(const struct tide_tls_session *s, size_t *size);
void tide__tls_written(struct tide_tls_session *s, size_t size);
const struct tide_identity *tide__tls_peer(const struct tide_tls_session *s); /* once done */
const char *tide__tls_reason(const struct tide_tls_session *s);               /* "" while nothing went wrong */

enum {
    TIDE_TLS_INPUT = 64 << 10, /* as much is read from a socket at once */
    TIDE_TLS_BATCH = 64 << 10, /* and sealed, at most, before it is offered to one */
};
/* Where ciphertext is read to, of all sessions: between `buffer` and `received` of one stream nothing else reads. */
uint8_t *tide__tls_input(struct tide_tls *tls);

/* So many records are sealed with one key; a test makes it small. */
extern uint64_t tide__tls_records_max;

#endif
