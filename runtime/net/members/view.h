/*
 * What casts to the members say, as far as others than members read and write them too (client/): their verbs, and the
 * members of a view.
 */
#ifndef TIDE_NET_VIEW_H
#define TIDE_NET_VIEW_H

#include "net/net.h"

enum member_verb {
    VERB_VIEW = 1,
    VERB_READY,
    VERB_SUSPECT,
    VERB_CLEAR,
    VERB_LEAVE,
    VERB_GOODBYE,
    VERB_LOG,   /* of the replicated log: what raft.c says to its like */
    VERB_PROBE, /* is that member heard? */
    VERB_HEARD, /* or silent */
    VERB_ENDS,  /* so do these members, with the cluster that they made */
};

/* Reads foreign bytes; pure. */
void tide__member_read(struct tide_reader *r, struct tide_member *out);

#endif
