/*
 * Mini-batches of a knowledge graph embedding. A batch's distinct keys are pulled once, all its
 * negatives are one pool of entities shared by every triple and both sides, so the scores and their
 * gradients are three matrix products, and the gradients of each key are summed and pushed once.
 *
 * Three batches are in progress: one whose rows are in flight to here, one being computed, one whose
 * gradients are in flight to the owners. Hence rows miss at most the two pushes of this worker
 * that were in flight when they were pulled; nothing else waits for the network. Where rows relocate
 * they are asked for with the pull, a batch ahead, and the push finds them here unless another worker
 * has taken them.
 */
#include "models/kge_train.h"
#include "tensor/cpu/gemm.h"
#include "models/rows_batch.h"

#include <math.h>
#include <string.h>

enum { SLOTS = 3, BLOCK = 128 /* triples whose scores stay in the second cache */ };

/* One batch. Row i of `rows` and `gradients` belongs to keys[i]; the pool comes first, so it is a
 * matrix as it is. */
struct slot {
    size_t count; /* triples */
    size_t pool_count, key_count, relation_count;
    uint64_t *keys, *relation_keys;
    float *rows, *gradients, *relation_rows, *relation_gradients;
    uint32_t *subjects, *objects, *relations; /* of each triple: index into the rows */
    struct tide_transfer moves[1], pulls[2], pushes[2];
};

struct batches {
    struct kge_training *training;
    struct slot slots[SLOTS];
    struct tide_key_index entities, relations;
    /* of one block; object queries first, then subject queries */
    float *queries, *query_gradients, *scores, *own;
    uint64_t *drawn; /* by the sampler, for one batch */
};

/* ---- memory ---- */

static int slot_init(struct slot *slot, const struct kge_training *t, size_t relations_most) {
    size_t keys_most = t->negatives + 2 * t->batch;
    slot->keys = tide_alloc(keys_most * sizeof(uint64_t));
    slot->relation_keys = tide_alloc(relations_most * sizeof(uint64_t));
    slot->rows = tide_batch_floats(keys_most, t->width);
    slot->gradients = tide_batch_floats(keys_most, t->width);
    slot->relation_rows = tide_batch_floats(relations_most, t->relation_width);
    slot->relation_gradients = tide_batch_floats(relations_most, t->relation_width);
    slot->subjects = tide_alloc(t->batch * sizeof(uint32_t));
    slot->objects = tide_alloc(t->batch * sizeof(uint32_t));
    slot->relations = tide_alloc(t->batch * sizeof(uint32_t));
    return slot->keys && slot->relation_keys && slot->rows && slot->gradients && slot->relation_rows &&
                   slot->relation_gradients && slot->subjects && slot->objects && slot->relations
               ? 0
               : TIDE_ENOMEM;
}

static void slot_deinit(struct slot *slot) {
    tide_free(slot->keys);
    tide_free(slot->relation_keys);
    tide_workspace_free(slot->rows);
    tide_workspace_free(slot->gradients);
    tide_workspace_free(slot->relation_rows);
    tide_workspace_free(slot->relation_gradients);
    tide_free(slot->subjects);
    tide_free(slot->objects);
    tide_free(slot->relations);
}

static void batches_deinit(struct batches *b) {
    for (int i = 0; i < SLOTS; i++) {
        slot_deinit(&b->slots[i]);
    }
    tide_key_index_release(&b->entities);
    tide_key_index_release(&b->relations);
    tide_workspace_free(b->queries);
    tide_workspace_free(b->query_gradients);
    tide_workspace_free(b->scores);
    tide_workspace_free(b->own);
    tide_free(b->drawn);
}

static int batches_init(struct batches *b, struct kge_training *t) {
    memset(b, 0, sizeof(*b));
    b->training = t;
    size_t relations_most = t->batch;
    if (t->relations.key_count && t->relations.key_count < relations_most) {
        relations_most = (size_t)t->relations.key_count;
    }
    int error = tide_key_index_init(&b->entities, t->negatives + 2 * t->batch);
    error = error ? error : tide_key_index_init(&b->relations, relations_most);
    for (int i = 0; i < SLOTS && !error; i++) {
        error = slot_init(&b->slots[i], t, relations_most);
    }
    b->queries = tide_batch_floats(2 * BLOCK, t->width);
    b->query_gradients = tide_batch_floats(2 * BLOCK, t->width);
    b->scores = tide_batch_floats(2 * BLOCK, t->negatives);
    b->own = tide_batch_floats(2 * BLOCK, 1);
    b->drawn = tide_alloc(t->negatives * sizeof *b->drawn);
    if (!b->drawn || !b->queries || !b->query_gradients || !b->scores || !b->own) {
        error = TIDE_ENOMEM;
    }
    return error;
}

/* ---- transfers ---- */

/* Of the pool: what the sampler gives, or uniformly from all entities. */
static int pool_draw(struct batches *b, struct slot *slot) {
    struct kge_training *t = b->training;
    const struct tide_draws *draws = &t->draws;
    uint64_t *drawn = b->drawn;
    uint32_t sample = 0;
    int error = draws->sampler ? draws->prepare(draws->sampler, t->negatives, &sample) : 0;
    if (draws->sampler && !error) {
        error = draws->take(draws->sampler, sample, t->negatives, drawn);
        const int ended = draws->finish(draws->sampler, sample);
        error = error ? error : ended;
    }
    for (size_t i = 0; i < t->negatives && !error; i++) {
        const uint64_t key = draws->sampler ? drawn[i] : tide_random_below(&t->random, t->entity_count);
        tide_key_index_of(&b->entities, key, slot->keys, &slot->key_count);
    }
    slot->pool_count = slot->key_count;
    return error;
}

/* Draws the pool, lists the distinct keys of `count` triples from `first` of the order, and starts
 * their pull. */
static int batch_fetch(struct batches *b, struct slot *slot, size_t first, size_t count) {
    struct kge_training *t = b->training;
    slot->count = count;
    slot->key_count = slot->relation_count = 0;
    b->entities.now++;
    b->relations.now++;
    int error = pool_draw(b, slot);
    if (error) {
        return error;
    }
    for (size_t i = 0; i < count; i++) {
        const uint32_t *triple = t->triples + 3 * (size_t)t->order[first + i];
        slot->subjects[i] = tide_key_index_of(&b->entities, triple[0], slot->keys, &slot->key_count);
        slot->relations[i] = tide_key_index_of(&b->relations, triple[1], slot->relation_keys, &slot->relation_count);
        slot->objects[i] = tide_key_index_of(&b->entities, triple[2], slot->keys, &slot->key_count);
    }
    t->calls += 2;
    error = tide_transfer_localize(&slot->moves[0], &t->entities, slot->keys, slot->key_count);
    error = error ? error : tide_transfer_pull(&slot->pulls[0], &t->entities, slot->keys, slot->key_count, slot->rows);
    if (!error) {
        error = tide_transfer_pull(&slot->pulls[1], &t->relations, slot->relation_keys, slot->relation_count,
                                   slot->relation_rows);
    }
    return error;
}

static int batch_send(struct batches *b, struct slot *slot) {
    struct kge_training *t = b->training;
    t->calls += 2;
    int error = tide_transfer_push(&slot->pushes[0], &t->entities, slot->keys, slot->key_count, slot->gradients);
    if (!error) {
        error = tide_transfer_push(&slot->pushes[1], &t->relations, slot->relation_keys, slot->relation_count,
                                   slot->relation_gradients);
    }
    return error;
}

/* ---- arithmetic ---- */

/* L2: gamma |x|^2 with gradient gamma x (as for single examples). Cubic, ComplEx only: gamma sum
 * |x_c|^3 over the complex components, gradient 3 gamma |x_c| x_c (N3 of Lacroix et al., ICML 2018,
 * eq. 7). */
static double penalise(const struct kge_training *t, size_t width, float gamma, const float *x, float *gradient) {
    if (gamma == 0) {
        return 0;
    }
    if (!t->cubic) {
        kge_axpy(width, gamma, x, gradient);
        return (double)gamma * (double)kge_dot(width, x, x);
    }
    size_t half = width / 2;
    double sum = 0;
    for (size_t i = 0; i < half; i++) {
        float length = sqrtf(x[i] * x[i] + x[half + i] * x[half + i]);
        sum += (double)length * (double)length * (double)length;
        gradient[i] += 3 * gamma * length * x[i];
        gradient[half + i] += 3 * gamma * length * x[half + i];
    }
    return (double)gamma * sum;
}

/* Scores of one block to their gradients; own[q] becomes the gradient of the true triple's score.
 */
static void block_loss(struct batches *b, const struct slot *slot, size_t first, size_t count) {
    struct kge_training *t = b->training;
    size_t pool = slot->pool_count;
    double sampled = (double)pool;
    for (size_t q = 0; q < 2 * count; q++) {
        size_t triple = first + (q < count ? q : q - count);
        uint32_t truth = q < count ? slot->objects[triple] : slot->subjects[triple];
        float *scores = b->scores + q * pool;
        bool drawn = truth < pool; /* the true entity is no negative */
        if (drawn) {
            scores[truth] = -1e30f;
        }
        struct kge_loss_row row = t->softmax
                                      ? kge_softmax(b->own[q], scores, pool, (float)((double)t->entity_count / sampled))
                                      : kge_logistic(b->own[q], scores, pool, t->weight / (float)pool);
        if (drawn) {
            scores[truth] = 0;
        }
        t->loss += row.loss;
        b->own[q] = row.own;
    }
}

static void block_spread(struct batches *b, struct slot *slot, size_t first, size_t count) {
    struct kge_training *t = b->training;
    size_t d = t->width, wide = t->relation_width;
    for (size_t i = 0; i < count; i++) {
        size_t triple = first + i;
        const float *s = slot->rows + slot->subjects[triple] * d;
        const float *o = slot->rows + slot->objects[triple] * d;
        const float *r = slot->relation_rows + slot->relations[triple] * wide;
        float *gs = slot->gradients + slot->subjects[triple] * d;
        float *go = slot->gradients + slot->objects[triple] * d;
        float *gr = slot->relation_gradients + slot->relations[triple] * wide;
        float *forward = b->query_gradients + i * d, *backward = forward + count * d;
        float own = b->own[i] + b->own[count + i];
        /* The true triple's share goes through the object query once, for both sides' losses. */
        kge_axpy(d, own, b->queries + i * d, go);
        kge_axpy(d, own, o, forward);
        kge_add_toward_subject(t->model, d, r, forward, gs);
        kge_add_toward_relation(t->model, d, s, forward, gr);
        kge_add_toward_relation(t->model, d, backward, o, gr);
        kge_add_toward_object(t->model, d, backward, r, go);
        t->penalty += penalise(t, d, t->gamma_entity, s, gs);
        t->penalty += penalise(t, d, t->gamma_entity, o, go);
        t->penalty += penalise(t, wide, t->gamma_relation, r, gr);
    }
}

static int block_compute(struct batches *b, struct slot *slot, size_t first, size_t count) {
    struct kge_training *t = b->training;
    size_t d = t->width, pool = slot->pool_count;
    for (size_t i = 0; i < count; i++) {
        size_t triple = first + i;
        const float *s = slot->rows + slot->subjects[triple] * d;
        const float *o = slot->rows + slot->objects[triple] * d;
        const float *r = slot->relation_rows + slot->relations[triple] * t->relation_width;
        kge_toward_object(t->model, d, s, r, b->queries + i * d);
        kge_toward_subject(t->model, d, r, o, b->queries + (count + i) * d);
        b->own[i] = b->own[count + i] = kge_dot(d, b->queries + i * d, o);
    }
    int error = tide_cpu_gemm(false, true, 2 * count, pool, d, 1, b->queries, d, slot->rows, d, 0, b->scores, pool);
    if (error) {
        return error;
    }
    block_loss(b, slot, first, count);
    error =
        tide_cpu_gemm(false, false, 2 * count, d, pool, 1, b->scores, pool, slot->rows, d, 0, b->query_gradients, d);
    if (error) {
        return error;
    }
    error = tide_cpu_gemm(true, false, pool, d, 2 * count, 1, b->scores, pool, b->queries, d, 1, slot->gradients, d);
    if (!error) {
        block_spread(b, slot, first, count);
    }
    return error;
}

static int batch_compute(struct batches *b, struct slot *slot) {
    struct kge_training *t = b->training;
    memset(slot->gradients, 0, slot->key_count * t->width * sizeof(float));
    memset(slot->relation_gradients, 0, slot->relation_count * t->relation_width * sizeof(float));
    int error = 0;
    for (size_t first = 0; first < slot->count && !error; first += BLOCK) {
        size_t count = slot->count - first < BLOCK ? slot->count - first : BLOCK;
        error = block_compute(b, slot, first, count);
    }
    t->examples += slot->count;
    t->steps++;
    return error;
}

static size_t batch_size(const struct kge_training *t, size_t batch) {
    size_t first = batch * t->batch;
    return t->count - first < t->batch ? t->count - first : t->batch;
}

int kge_train_batches(struct kge_training *training) {
    struct batches b;
    int error = batches_init(&b, training);
    size_t batch_count = (training->count + training->batch - 1) / training->batch;
    if (!error && batch_count) {
        error = batch_fetch(&b, &b.slots[0], 0, batch_size(training, 0));
    }
    for (size_t i = 0; i < batch_count && !error; i++) {
        struct slot *slot = &b.slots[i % SLOTS], *next = &b.slots[(i + 1) % SLOTS];
        struct slot *last = &b.slots[(i + 2) % SLOTS];
        error = tide_transfer_wait(slot->moves, 1);
        error = error ? error : tide_transfer_wait(slot->pulls, 2);
        if (!error && i + 1 < batch_count) {
            error = batch_fetch(&b, next, (i + 1) * training->batch, batch_size(training, i + 1));
        }
        error = error ? error : batch_compute(&b, slot);
        error = error ? error : tide_transfer_wait(last->pushes, 2);
        error = error ? error : batch_send(&b, slot);
    }
    /* Whatever is in flight ends before its memory is freed. */
    for (int i = 0; i < SLOTS; i++) {
        int moved = tide_transfer_wait(b.slots[i].moves, 1), pulled = tide_transfer_wait(b.slots[i].pulls, 2),
            pushed = tide_transfer_wait(b.slots[i].pushes, 2);
        error = error ? error : moved ? moved : pulled ? pulled : pushed;
    }
    batches_deinit(&b);
    return error;
}
