/*
 * Requests to the actor `rows` of each node with a store (store/client/rows.c), from clients (client/) and from any
 * program that speaks the protocol (docs/internals/protocol.md). A request is a call whose body is an array; its first
 * element is the request's number.
 */
#ifndef TIDE_WIRE_ROWS_H
#define TIDE_WIRE_ROWS_H

enum {
    TIDE__ROWS_VERSION = 1,         /* told by OPEN; a later one only adds requests and fields */
    TIDE__ROWS_BYTES_MAX = 1 << 20, /* of the rows in one request or answer; one row may be larger */
    TIDE__ROWS_WINDOW = 256,        /* pushes of one client that may be unanswered, by sequence */
};

enum tide__rows_verb {
    TIDE__ROWS_OPEN = 1, /* [1, name of a table] -> map: name, version, table, width, keys, count, update */
    TIDE__ROWS_PULL,     /* [2, table, keys u64] -> rows f32 */
    TIDE__ROWS_PUSH, /* [3, table, keys u64, rows f32, client, sequence, low] -> nil. A sequence is applied once; all
                        below `low` are answered at the client. Client 0: as a call, at most once */
    TIDE__ROWS_LOCALIZE, /* [4, table, keys u64] -> nil: the rows are brought to this node */
};

#endif
