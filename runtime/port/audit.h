/*
 * The audit log of a process: requests and their senders, one line of JSON each, appended to
 *
 *     DIRECTORY/audit-NAME.log    0600; at 64 MiB it becomes audit-NAME.log.1 and a new one continues
 *
 * Each line has a number that rises by one and, as `prev`, the SHA-256 of the line before, so that a line that was
 * changed, taken out or put in is found (`tide audit verify`). audit-NAME.head has the number and the sum of the last
 * line, so that a log that lost its end is found too. A holder of write access to both files can forge both: copy heads
 * elsewhere where that matters.
 *
 * One log a process, made with its first entry; nothing is written before tide_audit_open. Any thread; a call blocks
 * for the write, and with `durable` for the disk.
 */
#ifndef TIDE_PORT_AUDIT_H
#define TIDE_PORT_AUDIT_H

#include "base/base.h"

enum { TIDE_AUDIT_TEXT_MAX = 4096 };

/* Borrowed texts; NULL: none. Foreign bytes are escaped. */
struct tide_audit_entry {
    const char *verb;       /* "join", "agent.move", "console.eval" */
    const char *right;      /* of the requester */
    const char *subject;    /* what it is about */
    const char *result;     /* "allowed", or why not */
    const char *text;       /* that was sent, at most TIDE_AUDIT_TEXT_MAX bytes of it are kept */
    const char *sha256;     /* of all of it, hexadecimal */
    const char *credential; /* NULL: those noted for the peer */
    const char *address;
    unsigned peer; /* id of the node or client that asked; 0: none */
    bool durable;  /* on the disk when the call returns */
};

/* name: of the node. A log that is there is gone on with. EINVAL: a path too long, or one is open. */
int tide_audit_open(const char *directory, const char *name);
/* Assigns this id to a peer; for peers with the right of a node only their origin is recorded. */
void tide_audit_peer(unsigned id, const char *credential, const char *address);
/* The person behind a peer: the name in its certificate, or the user of its process on this machine. Returns false if
 * the peer has no such name: it is unknown, or has the certificate of a node. Any thread. */
bool tide_audit_person(unsigned id, char *out, size_t size);
/* The user of this process. */
void tide_audit_user(char *out, size_t size);
/* 0 also where no log is open; EIO, ENOSPC..: it could not be written, and what was asked for must not be done. */
int tide_audit_add(const struct tide_audit_entry *entry);
/* All lines so far are on the disk. */
int tide_audit_sync(void);

#endif
