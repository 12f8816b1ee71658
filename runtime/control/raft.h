/*
 * Messages of libraft as msgpack, for raft.c. Part of the plugin tide_raft.so alone.
 *
 * [type, five numbers, flag, servers, bytes]: what a type does not use is 0, empty. A message of
 * entries is cut after MESSAGE_BYTES, at least one entry stays; a snapshot travels in parts.
 */
#ifndef TIDE_NET_RAFT_H
#define TIDE_NET_RAFT_H

#include "wire/wire.h"

#include <raft.h>

enum {
    TIDE__RAFT_SERVERS_MAX = 64,
};

/* A snapshot in flight to this node, part by part; one at a time. */
struct tide__raft_parts {
    raft_id from;
    uint64_t last_index, total, got;
    uint8_t *data; /* NULL: none */
};

/* Writes `message`, of a snapshot the part that begins at `offset`. The writer's error says whether
 * it could. */
void tide__raft_write(struct tide_writer *w, const struct raft_message *message, uint64_t offset);
/* Foreign bytes. 1: *out is whole, and its entries or snapshot belong to the caller that takes the message:
 * raft, or tide__raft_message_release. 0: a part, and more are to come. EPROTO, ENOMEM. */
int tide__raft_read(struct tide_reader *r, raft_id from, struct tide__raft_parts *parts, struct raft_message *out);
void tide__raft_message_release(struct raft_message *message);
void tide__raft_parts_release(struct tide__raft_parts *parts);
/* "n7", the address of server 7. */
void tide__raft_address(raft_id id, char out[24]);
/* Ids of those that vote, of an entry of type RAFT_CHANGE; 0: it is none. */
size_t tide__raft_voters(const struct raft_buffer *encoded, uint16_t *ids, size_t limit);
int tide__raft_configuration_copy(const struct raft_configuration *from, struct raft_configuration *to);

#endif
