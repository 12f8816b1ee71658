/* A kernel of knowledge graph embeddings with tables in plain memory (plain_rows.h), its arguments, and triples. */
#ifndef TIDE_TESTS_KGE_SETTING_H
#define TIDE_TESTS_KGE_SETTING_H

#include "base/base.h"
#include "kernels.h"
#include "models/kge.h"
#include "tests/unit/plain_rows.h"
#include "wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static inline struct tide_tensor triples_of(const uint32_t *ids, size_t count) {
    return (struct tide_tensor){(void *)(uintptr_t)ids, count, 3, TIDE_U32};
}

struct setting {
    struct plain_table entities, relations;
    struct tide_argument arguments[PLAIN_ARGUMENTS_MOST];
    const struct tide_kernel *kernel;
    char error[256];
};

/* lr 0: the tables collect gradients. */
static inline void setting_init(struct setting *s, const char *kernel, const char *model, uint32_t d,
                         uint64_t entities, uint64_t relations, float lr) {
    memset(s, 0, sizeof(*s));
    s->kernel = tide_kernel_find(kernel);
    assert_non_null(s->kernel);
    uint32_t wide = strcmp(model, "rescal") == 0 ? d * d : d;
    plain_init(&s->entities, entities, d, lr, 0.7f, lr > 0 ? 1e-6f : 0, 11);
    plain_init(&s->relations, relations, wide, lr, 0.7f, lr > 0 ? 1e-6f : 0, 12);
    plain_argument(s->kernel, s->arguments, "model")->text = model;
    plain_argument(s->kernel, s->arguments, "entities")->rows = plain_rows(&s->entities);
    plain_argument(s->kernel, s->arguments, "relations")->rows = plain_rows(&s->relations);
    plain_argument(s->kernel, s->arguments, "entity_count")->number = (double)entities;
}

static inline void setting_deinit(struct setting *s) {
    assert_int_equal(s->entities.open, 0);
    assert_int_equal(s->relations.open, 0);
    plain_deinit(&s->entities);
    plain_deinit(&s->relations);
}

static inline void set_number(struct setting *s, const char *name, double value) {
    plain_argument(s->kernel, s->arguments, name)->number = value;
}

static inline void set_text(struct setting *s, const char *name, const char *value) {
    plain_argument(s->kernel, s->arguments, name)->text = value;
}

static inline void set_triples(struct setting *s, const char *name, const uint32_t *ids, size_t count) {
    plain_argument(s->kernel, s->arguments, name)->tensor = triples_of(ids, count);
}

static inline int run(struct setting *s, struct tide_result *results) {
    memset(s->error, 0, sizeof(s->error));
    return s->kernel->run(s->arguments, results, s->error);
}

enum { PASS = 300 };

static inline uint32_t *ring(void) { /* e -> e + 1 and e -> e + 7 on a ring of 50 */
    uint32_t *ids = calloc(3 * PASS, sizeof(uint32_t));
    for (uint32_t i = 0; i < PASS; i++) {
        ids[3 * i] = i % 50;
        ids[3 * i + 1] = i % 2;
        ids[3 * i + 2] = (i % 50 + (i % 2 ? 7 : 1)) % 50;
    }
    return ids;
}

#endif
