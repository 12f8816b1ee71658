/*
 * kge_train: one pass over a worker's triples, in a random order that `seed` fixes. The gradients
 * of the loss are pushed as they are; the tables' update rule (Adagrad) and its state live at the
 * owners.
 */
#include "cpu/kge_train.h"
#include "cpu/arguments.h"
#include "cpu/kernels.h"

#include <string.h>

enum {
    MODEL,
    ENTITIES,
    RELATIONS,
    TRIPLES,
    FIRST,
    COUNT,
    ENTITY_COUNT,
    MODE,
    NEGATIVES,
    BATCH,
    SEED,
    LOSS,
    WEIGHT,
    PENALTY,
    GAMMA_ENTITY,
    GAMMA_RELATION,
    PARAMETER_COUNT
};

static const struct tide_parameter parameters[PARAMETER_COUNT] = {
    [MODEL] = {"model", TIDE_TEXT, 0, false, 0, "\"complex\" (default) or \"rescal\""},
    [ENTITIES] = {"entities", TIDE_ROWS, 0, true, 0, "table: d values an entity"},
    [RELATIONS] = {"relations", TIDE_ROWS, 0, true, 0, "table: d values a relation, rescal d * d"},
    [TRIPLES] = {"triples", TIDE_TENSOR, TIDE_U32, true, 0, "n x 3: subject, relation, object"},
    [FIRST] = {"first", TIDE_NUMBER, 0, false, 0, "first triple of this call, from 0"},
    [COUNT] = {"count", TIDE_NUMBER, 0, false, -1, "triples of this call; -1: to the end"},
    [ENTITY_COUNT] = {"entity_count", TIDE_NUMBER, 0, true, 0, "entities are 0 .. entity_count-1"},
    [MODE] = {"mode", TIDE_TEXT, 0, false, 0,
              "\"batched\" (default), or \"steps\": each example pulls and pushes its three rows"},
    [NEGATIVES] = {"negatives", TIDE_NUMBER, 0, false, -1,
                   "batched: entities drawn for a batch (1024); steps: per triple and side (10)"},
    [BATCH] = {"batch", TIDE_NUMBER, 0, false, 1024, "triples a mini-batch"},
    [SEED] = {"seed", TIDE_NUMBER, 0, false, 1, "of order and draws; another one for each epoch and worker"},
    [LOSS] = {"loss", TIDE_TEXT, 0, false, 0, "batched: \"softmax\" (default) or \"logistic\""},
    [WEIGHT] = {"weight", TIDE_NUMBER, 0, false, 10,
                "logistic: weight of all negatives of a side, where the true triple has 1"},
    [PENALTY] = {"penalty", TIDE_TEXT, 0, false, 0,
                 "\"l2\" (default) or, batched complex, \"n3\": cubes of the components' lengths"},
    [GAMMA_ENTITY] = {"gamma_e", TIDE_NUMBER, 0, false, 0, "penalty of a triple's entities"},
    [GAMMA_RELATION] = {"gamma_r", TIDE_NUMBER, 0, false, 0, "penalty of a triple's relation"},
};

/* ---- single examples: the algorithm of Lapse and AdaPM, for comparison ---- */

struct example_buffers {
    float *rows, *gradients; /* subject, object, relation, one after the other */
};

static int example(struct kge_training *t, struct example_buffers *buffers, uint32_t s, uint32_t r,
                   uint32_t o, bool label) {
    size_t d = t->width;
    uint64_t entities[2] = {s, o}, relation = r;
    float *rows = buffers->rows, *gradients = buffers->gradients;
    int error = t->entities.pull(t->entities.table, entities, 2, rows);
    error = error ? error : t->relations.pull(t->relations.table, &relation, 1, rows + 2 * d);
    if (error) {
        return error;
    }
    float gamma_e = label ? t->gamma_entity : 0, gamma_r = label ? t->gamma_relation : 0;
    t->loss += (double)kge_step(t->model, d, rows, rows + 2 * d, rows + d, label, gamma_e, gamma_r,
                                gradients, gradients + 2 * d, gradients + d, &t->penalty);
    t->steps++;
    t->calls += 4;
    error = t->entities.push(t->entities.table, entities, 2, gradients);
    return error ? error : t->relations.push(t->relations.table, &relation, 1, gradients + 2 * d);
}

static int train_examples(struct kge_training *t) {
    size_t size = (2 * t->width + t->relation_width) * sizeof(float);
    struct example_buffers buffers = {tide_alloc_aligned(64, size), tide_alloc_aligned(64, size)};
    int error = buffers.rows && buffers.gradients ? 0 : TIDE_ENOMEM;
    for (size_t i = 0; i < t->count && !error; i++) {
        const uint32_t *triple = t->triples + 3 * (size_t)t->order[i];
        error = example(t, &buffers, triple[0], triple[1], triple[2], true);
        for (size_t n = 0; n < t->negatives && !error; n++) {
            uint32_t object = (uint32_t)tide_random_below(&t->random, t->entity_count);
            error = example(t, &buffers, triple[0], triple[1], object, false);
            if (!error) {
                uint32_t subject = (uint32_t)tide_random_below(&t->random, t->entity_count);
                error = example(t, &buffers, subject, triple[1], triple[2], false);
            }
        }
        t->examples++;
    }
    tide_free(buffers.rows);
    tide_free(buffers.gradients);
    return error;
}

/* ---- the kernel ---- */

static int choose(const struct tide_argument *arguments, struct kge_training *t, bool *steps,
                  char *error) {
    static const char *const modes[] = {"batched", "steps"},
                             *const losses[] = {"softmax", "logistic"},
                             *const penalties[] = {"l2", "n3"};
    const struct tide_kernel *k = &tide_kernel_kge_train;
    size_t mode = 0, loss = 0, penalty = 0;
    int code = tide_kernel_choice(k, arguments, MODE, modes, 2, &mode, error);
    code = code ? code : tide_kernel_choice(k, arguments, LOSS, losses, 2, &loss, error);
    code = code ? code : tide_kernel_choice(k, arguments, PENALTY, penalties, 2, &penalty, error);
    code = code ? code : kge_model_of(&arguments[MODEL], &t->model, error);
    *steps = mode == 1;
    t->softmax = loss == 0;
    t->cubic = penalty == 1;
    if (!code && t->cubic && (*steps || t->model != KGE_COMPLEX)) {
        return tide_kernel_fail(error, TIDE_EINVAL, "penalty \"n3\" needs complex and batched");
    }
    return code;
}

static int prepare(const struct tide_argument *arguments, struct kge_training *t, bool steps,
                   size_t *first, char *error) {
    const struct tide_kernel *k = &tide_kernel_kge_train;
    size_t triples = 0;
    uint64_t number = 0;
    t->entities = arguments[ENTITIES].rows;
    t->relations = arguments[RELATIONS].rows;
    t->width = t->entities.width;
    t->relation_width = t->relations.width;
    t->triples = arguments[TRIPLES].tensor.data;
    int code = kge_widths(t->model, &t->entities, &t->relations, error);
    code = code ? code : tide_kernel_triples(k, arguments, TRIPLES, &triples, error);
    code = code ? code : kge_part(k, arguments, FIRST, COUNT, triples, first, &t->count, error);
    code = code ? code
                : tide_kernel_whole(k, arguments, ENTITY_COUNT, 1, UINT32_MAX, &t->entity_count,
                                    error);
    code = code ? code
                : kge_check(t->triples, *first, t->count, t->entity_count, t->relations.key_count,
                            error);
    t->negatives = steps ? 10 : 1024;
    if (!code && arguments[NEGATIVES].given) {
        code = tide_kernel_whole(k, arguments, NEGATIVES, steps ? 0 : 1, 1 << 20, &number, error);
        t->negatives = (size_t)number;
    }
    code = code ? code : tide_kernel_whole(k, arguments, BATCH, 1, 1 << 20, &number, error);
    t->batch = (size_t)number;
    code = code ? code : tide_kernel_whole(k, arguments, SEED, 0, 1ull << 53, &number, error);
    tide_random_seed(&t->random, number);
    code = code ? code : tide_kernel_weight(k, arguments, WEIGHT, &t->weight, error);
    code = code ? code : tide_kernel_weight(k, arguments, GAMMA_ENTITY, &t->gamma_entity, error);
    return code ? code
                : tide_kernel_weight(k, arguments, GAMMA_RELATION, &t->gamma_relation, error);
}

static void shuffle(struct kge_training *t, size_t first) {
    for (size_t i = 0; i < t->count; i++) { /* inside out: every order is equally likely */
        size_t j = (size_t)tide_random_below(&t->random, i + 1);
        t->order[i] = t->order[j];
        t->order[j] = (uint32_t)(first + i);
    }
}

static int run(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    struct kge_training t;
    memset(&t, 0, sizeof(t));
    bool steps = false;
    size_t first = 0;
    int code = choose(arguments, &t, &steps, error);
    code = code ? code : prepare(arguments, &t, steps, &first, error);
    if (code) {
        return code;
    }
    t.batch = t.batch < t.count ? t.batch : t.count ? t.count : 1;
    t.order = tide_alloc((t.count + 1) * sizeof(*t.order));
    if (!t.order) {
        return tide_kernel_fail(error, TIDE_ENOMEM, "no memory for the order of %zu triples",
                                t.count);
    }
    shuffle(&t, first);
    code = steps ? train_examples(&t) : kge_train_batches(&t);
    tide_free(t.order);
    if (code) {
        return tide_kernel_fail(error, code, "after %llu triples: %.200s",
                                (unsigned long long)t.examples,
                                code == TIDE_ENOMEM ? "out of memory" : tide_error_message());
    }
    const struct tide_result all[] = {{"loss", t.loss},
                                      {"penalty", t.penalty},
                                      {"examples", (double)t.examples},
                                      {"steps", (double)t.steps},
                                      {"calls", (double)t.calls}};
    memcpy(results, all, sizeof(all));
    return (int)TIDE_COUNT(all);
}

const struct tide_kernel tide_kernel_kge_train = {
    "kge_train",
    "One pass of training of a knowledge graph embedding. Trouillon et al., ICML 2016, eq. 9-11 "
    "(ComplEx); Nickel et al., ICML 2011 (RESCAL).",
    parameters, PARAMETER_COUNT, run};
