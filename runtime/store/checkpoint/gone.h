/*
 * Keys that went between the generations of a chain (tables that forget). A generation of changes names the keys that
 * went since the one before, in a tensor `gone` of its files; of a key that came again it has the row, too. So a row is
 * not restored if its key went in a later generation of the chain.
 */
#ifndef TIDE_STORE_GONE_H
#define TIDE_STORE_GONE_H

#include "store/checkpoint/save.h"

struct tide__gone_key {
    uint64_t key;
    uint64_t place; /* in the chain */
};
struct tide__gone {
    struct tide__gone_key *at;
    size_t count, capacity;
};
/* Calls `each` with the keys that a file names, some at a time, until it fails. */
int tide__gone_each(const struct tide__saved *saved, int (*each)(void *arg, const uint64_t *keys, size_t count),
                    void *arg);
/* Adds what a file of the generation at `place` names. EPROTO, ENOMEM. */
int tide__gone_read(struct tide__gone *gone, struct tide_port *port, const char *path, uint64_t place);
void tide__gone_sort(struct tide__gone *gone); /* after the last file, before the first question */
bool tide__gone_after(const struct tide__gone *gone, uint64_t key, uint64_t place);
void tide__gone_release(struct tide__gone *gone);

#endif
