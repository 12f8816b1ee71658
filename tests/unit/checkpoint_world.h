/* What tests of checkpoints have in common: a table of counters, a save, a restore. */
#ifndef TIDE_TESTS_CHECKPOINT_WORLD_H
#define TIDE_TESTS_CHECKPOINT_WORLD_H

#include "store_world.h"

#include "store/checkpoint/checkpoint.h"

enum { ROWS = 300, WIDTH = 4 };

HELPER struct tide_table_options counters(bool hashed, bool relocate) {
    return (struct tide_table_options){.name = "counters",
                                       .keys = hashed ? TIDE_KEYS_HASHED : TIDE_KEYS_DENSE,
                                       .key_count = ROWS,
                                       .width = WIDTH,
                                       .technique = relocate ? TIDE_RELOCATE : TIDE_STATIC};
}

struct saving {
    struct tide_checkpoint_options options;
    struct tide_checkpoint_info info;
    const char *text;
    int code;
};

HELPER void save_run(struct fiber *f) {
    struct saving *s = f->arg;
    struct tide_checkpoint *c;
    static const uint8_t job[] = {0x81, 0xa1, 'a', 7};
    s->code = tide_checkpoint_start(f->node, &s->options, &c);
    if (s->code == 0) {
        s->info = *tide_checkpoint_get(c);
        s->code = tide_checkpoint_commit(c, job, sizeof job);
    }
    if (s->code) {
        snprintf(f->failure, sizeof f->failure, "save: %s", tide_error_message());
    }
}

struct restoring {
    const char *dir;
    uint64_t generation;
    struct tide_restored restored;
    int code, wanted;
    uint32_t clock;
    uint64_t found;
    char text[500];
};

HELPER void restore_run(struct fiber *f) {
    struct restoring *r = f->arg;
    r->code = tide_checkpoint_restore(f->node, r->dir, r->generation, &r->restored);
    snprintf(r->text, sizeof r->text, "%s", r->code ? tide_error_message() : r->restored.skipped);
    CHECK(f, r->code == r->wanted);
    if (r->code) {
        return;
    }
    r->clock = r->restored.info.clock;
    r->found = r->restored.info.generation;
    CHECK(f, r->restored.job_size == 4 && memcmp(r->restored.job,
                                                 "\x81\xa1"
                                                 "a\x07",
                                                 4) == 0);
    tide_restored_release(&r->restored);
}

#endif
