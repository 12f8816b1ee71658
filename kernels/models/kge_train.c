/*
 * kge_train: one pass over a worker's triples, in a random order that `seed` fixes. The gradients
 * of the loss are pushed as they are; the tables' update rule (Adagrad) and its state live at the
 * owners.
 *
 * The defaults are the best trade found for ComplEx with d = 200 on WN18RR (40,943 entities, 86,835
 * triples) with tables of update adagrad, lr 0.3, sums from 1e-6, start uniform in [-0.1, 0.1):
 * filtered MRR of the test part 0.453, Hits@10 0.538, after 15 passes of 1.4 s on one thread;
 * published figures of this model are 0.44 to 0.475. Four workers on a quarter of the triples each,
 * taking turns at every batch, reach 0.453. In the same 15 passes: 1024 negatives and batches of
 * 1024 0.456 in twice the time, 256 negatives 0.438 in half of it; logistic loss 0.444; no penalty
 * 0.40 and L2 0.41 at lr 0.1, none on relations 0.39: the cubes on both matter most.
 * The same seed in every pass, hence the same negatives, costs 0.02.
 */
#include "models/kge_train.h"
#include "arguments.h"
#include "kernels.h"
#include "models/rows_batch.h"

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
    SAMPLER,
    AHEAD,
    INTENDED,
    BATCH,
    SEED,
    LOSS,
    WEIGHT,
    PENALTY,
    GAMMA_ENTITY,
    GAMMA_RELATION,
    PARAMETER_COUNT
};

enum { SIZE_MOST = 65536 }; /* of a batch and of its negatives */

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
                   "batched: entities drawn for a batch (default 512); steps: per triple and side "
                   "(default 10)"},
    [SAMPLER] = {"sampler", TIDE_DRAWS, 0, false, 0,
                 "draws the negatives (default: uniformly, and they are localized)"},
    [AHEAD] = {"ahead", TIDE_NUMBER, 0, false, 8, "steps: triples whose rows are sent for while others are worked on"},
    [INTENDED] = {"intended", TIDE_FLAG, 0, false, 0,
                  "steps: the caller intends subjects and objects, they are not sent for"},
    [BATCH] = {"batch", TIDE_NUMBER, 0, false, 512, "triples a mini-batch"},
    [SEED] = {"seed", TIDE_NUMBER, 0, false, 1, "of order and draws; another one for each epoch and worker"},
    [LOSS] = {"loss", TIDE_TEXT, 0, false, 0, "batched: \"softmax\" (default) or \"logistic\""},
    [WEIGHT] = {"weight", TIDE_NUMBER, 0, false, 10,
                "logistic: weight of all negatives of a side, where the true triple has 1"},
    [PENALTY] = {"penalty", TIDE_TEXT, 0, false, 0,
                 "\"n3\": cubes of the components' lengths (batched complex, its default); \"l2\""},
    [GAMMA_ENTITY] = {"gamma_e", TIDE_NUMBER, 0, false, -1,
                      "penalty of a triple's entities; default n3 0.15, l2 0.001"},
    [GAMMA_RELATION] = {"gamma_r", TIDE_NUMBER, 0, false, -1,
                        "penalty of a triple's relation; default n3 0.15, l2 0.001"},
};

/* ---- single examples: the algorithm of Lapse and AdaPM, for comparison ---- */

/* Rows come here `ahead` triples before they are used: early enough to hide the way, and so late
 * that few of them have gone to another worker again (a row that has costs a round trip). */
enum {
    TO_COME = 2, /* groups that are sent for */
    GROUPS = 4   /* those, the one that is worked on, and the one before, of which some may wait */
};

/* Triples that may wait for their own entities while later ones are worked on. */
enum { TURNS = 32 };

/* Triples in a row of the order, with the entities drawn for them. */
struct group {
    size_t first, count;
    uint64_t *own;   /* subject and object of each triple */
    uint64_t *drawn; /* of each triple: object and subject of each pair */
    struct tide_transfer move;
    uint32_t sample;
    bool sampled; /* to be finished */
};

/* A triple that is worked on, or waits. */
struct turn {
    struct group *group;       /* NULL: none */
    size_t at;                 /* in the group */
    struct tide_transfer move; /* of its own entities */
};

struct examples {
    struct kge_training *training;
    size_t drawn; /* entities drawn for a triple */
    size_t group; /* triples */
    struct group groups[GROUPS];
    struct turn turns[TURNS];
    unsigned next_turn;
    bool away;               /* a row was elsewhere */
    float *rows, *gradients; /* subject, object, relation, one after the other */
};

static int example(struct examples *e, uint64_t s, uint64_t r, uint64_t o, bool label) {
    struct kge_training *t = e->training;
    size_t d = t->width;
    uint64_t entities[2] = {s, o};
    float *rows = e->rows, *gradients = e->gradients;
    struct tide_transfer pull;
    int error = tide_transfer_pull(&pull, &t->entities, entities, 2, rows);
    e->away |= !error && !tide_transfer_done(&pull);
    error = error ? error : tide_transfer_wait(&pull, 1);
    error = error ? error : t->relations.pull(t->relations.table, &r, 1, rows + 2 * d);
    if (error) {
        return error;
    }
    float gamma_e = label ? t->gamma_entity : 0, gamma_r = label ? t->gamma_relation : 0;
    t->loss += (double)kge_step(t->model, d, rows, rows + 2 * d, rows + d, label, gamma_e, gamma_r, gradients,
                                gradients + 2 * d, gradients + d, &t->penalty);
    t->steps++;
    t->calls += 4;
    error = t->entities.push(t->entities.table, entities, 2, gradients);
    return error ? error : t->relations.push(t->relations.table, &r, 1, gradients + 2 * d);
}

/* ---- turns ---- */

/* The entities of a triple are here, or come: they may have gone meanwhile. */
static int turn_fetch(struct examples *e, struct turn *turn) {
    const int error = tide_transfer_wait(&turn->move, 1);
    e->away = false;
    return error || e->training->intended
               ? error
               : tide_transfer_localize(&turn->move, &e->training->entities, turn->group->own + 2 * turn->at, 2);
}

static int turn_train(struct examples *e, struct turn *turn) {
    const struct kge_training *t = e->training;
    const struct group *g = turn->group;
    const uint64_t s = g->own[2 * turn->at], o = g->own[2 * turn->at + 1];
    const uint64_t r = t->triples[3 * (size_t)t->order[g->first + turn->at] + 1];
    uint64_t *drawn = g->drawn + turn->at * e->drawn;
    int error = tide_transfer_wait(&turn->move, 1);
    error = error ? error : example(e, s, r, o, true);
    for (size_t n = 0; n < e->drawn && !error; n += 2) {
        error = e->away ? turn_fetch(e, turn) : 0;
        error = error ? error : tide_transfer_wait(&turn->move, 1);
        if (g->sampled && !error) { /* as late as can be: what is here may go */
            error = t->draws.take(t->draws.sampler, g->sample, 2, drawn + n);
        }
        error = error ? error : example(e, s, r, drawn[n], false);
        error = error ? error : example(e, drawn[n + 1], r, o, false);
    }
    turn->group = NULL;
    e->training->examples += error == 0;
    return error;
}

/* Subject and object are in every example of a triple: where they have gone to another worker, they
 * are sent for again (as in Lapse), and the triple lets others go first until they are here. Those
 * drawn are in one, and to send for them again would only take them from others, who would do the
 * same. */
static int turn_try(struct examples *e, struct turn *turn) {
    if (!tide_transfer_done(&turn->move)) {
        return 0;
    }
    const int error = turn_fetch(e, turn);
    return error || !tide_transfer_done(&turn->move) ? error : turn_train(e, turn);
}

/* Works on those that waited and can continue now. *free: one that does not wait. */
static int turns_look(struct examples *e, struct turn **free) {
    int error = 0;
    *free = NULL;
    for (size_t i = 0; i < TURNS && !error; i++) {
        struct turn *turn = &e->turns[i];
        error = turn->group ? turn_try(e, turn) : 0;
        *free = turn->group ? *free : turn;
    }
    if (!error && !*free) {
        *free = &e->turns[e->next_turn++ % TURNS];
        error = turn_train(e, *free);
    }
    return error;
}

/* Works on all that are left of a group. */
static int turns_end(struct examples *e, const struct group *g) {
    int error = 0;
    for (size_t i = 0; i < TURNS && !error; i++) {
        error = e->turns[i].group == g ? turn_train(e, &e->turns[i]) : 0;
    }
    return error;
}

/* ---- groups ---- */

/* What is drawn for the triples: a sample is announced, or all is drawn at once, to be sent for. */
static int group_draw(struct examples *e, struct group *g) {
    struct kge_training *t = e->training;
    if (t->draws.sampler) {
        const int error = t->draws.prepare(t->draws.sampler, g->count * e->drawn, &g->sample);
        g->sampled = error == 0;
        return error;
    }
    for (size_t i = 0; i < g->count * e->drawn; i++) {
        g->drawn[i] = tide_random_below(&t->random, t->entity_count);
    }
    return 0;
}

/* Draws for the next triples, from `first`, and sends for what they need. */
static int group_fetch(struct examples *e, struct group *g, size_t first) {
    struct kge_training *t = e->training;
    const size_t left = first < t->count ? t->count - first : 0;
    g->first = first;
    g->count = left < e->group ? left : e->group;
    if (g->count == 0) {
        return 0;
    }
    g->drawn = g->own + 2 * g->count;
    for (size_t i = 0; i < g->count; i++) {
        const uint32_t *triple = t->triples + 3 * (size_t)t->order[first + i];
        g->own[2 * i] = triple[0];
        g->own[2 * i + 1] = triple[2];
    }
    const int error = group_draw(e, g);
    const uint64_t *from = t->intended ? g->drawn : g->own;
    const uint64_t *to = g->drawn + (g->sampled ? 0 : g->count * e->drawn);
    return error || from == to ? error : tide_transfer_localize(&g->move, &t->entities, from, (size_t)(to - from));
}

static int group_end(struct examples *e, struct group *g) {
    const struct tide_draws *draws = &e->training->draws;
    int error = tide_transfer_wait(&g->move, 1);
    if (g->sampled) {
        g->sampled = false;
        const int code = draws->finish(draws->sampler, g->sample);
        error = error ? error : code;
    }
    return error;
}

static int group_train(struct examples *e, struct group *g) {
    int error = g->sampled ? 0 : tide_transfer_wait(&g->move, 1);
    for (size_t i = 0; i < g->count && !error; i++) {
        struct turn *turn;
        error = turns_look(e, &turn);
        if (!error) {
            turn->group = g;
            turn->at = i;
            error = turn_try(e, turn);
        }
    }
    return error;
}

/* The group's place is taken by the one from `first`. */
static int group_next(struct examples *e, struct group *g, size_t first) {
    int error = turns_end(e, g);
    error = error ? error : group_end(e, g);
    return error ? error : group_fetch(e, g, first);
}

/* ---- the whole ---- */

static int examples_init(struct examples *e, struct kge_training *t) {
    size_t size = (2 * t->width + t->relation_width) * sizeof(float);
    *e = (struct examples){.training = t, .drawn = 2 * t->negatives, .group = (t->ahead + TO_COME - 1) / TO_COME};
    e->rows = tide_workspace_alloc(size);
    e->gradients = tide_workspace_alloc(size);
    int error = e->rows && e->gradients ? 0 : TIDE_ENOMEM;
    for (size_t i = 0; i < GROUPS && !error; i++) {
        e->groups[i].own = tide_alloc(e->group * (2 + e->drawn) * sizeof(uint64_t));
        error = e->groups[i].own ? 0 : TIDE_ENOMEM;
    }
    return error;
}

/* What is in flight ends before its memory is freed. */
static int examples_end(struct examples *e) {
    int error = 0;
    for (size_t i = 0; i < TURNS; i++) {
        const int moved = tide_transfer_wait(&e->turns[i].move, 1);
        error = error ? error : moved;
    }
    for (size_t i = 0; i < GROUPS; i++) {
        const int ended = group_end(e, &e->groups[i]);
        error = error ? error : ended;
        tide_free(e->groups[i].own);
    }
    tide_workspace_free(e->rows);
    tide_workspace_free(e->gradients);
    return error;
}

static int train_examples(struct kge_training *t) {
    struct examples e;
    int error = examples_init(&e, t);
    for (size_t i = 0; i < TO_COME && !error; i++) {
        error = group_fetch(&e, &e.groups[i], i * e.group);
    }
    for (size_t i = 0; i * e.group < t->count && !error; i++) {
        error = group_next(&e, &e.groups[(i + TO_COME) % GROUPS], (i + TO_COME) * e.group);
        error = error ? error : group_train(&e, &e.groups[i % GROUPS]);
    }
    for (size_t i = 0; i < GROUPS && !error; i++) {
        error = turns_end(&e, &e.groups[i]);
    }
    const int ended = examples_end(&e);
    return error ? error : ended;
}

/* ---- the kernel ---- */

static int choose(const struct tide_argument *arguments, struct kge_training *t, bool *steps, char *error) {
    static const char *const modes[] = {"batched", "steps"}, *const losses[] = {"softmax", "logistic"},
                             *const penalties[] = {"l2", "n3"};
    const struct tide_kernel *k = &tide_kernel_kge_train;
    size_t mode = 0, loss = 0, penalty = 0;
    int code = tide_kernel_choice(k, arguments, MODE, modes, 2, &mode, error);
    code = code ? code : tide_kernel_choice(k, arguments, LOSS, losses, 2, &loss, error);
    code = code ? code : tide_kernel_choice(k, arguments, PENALTY, penalties, 2, &penalty, error);
    code = code ? code : kge_model_of(&arguments[MODEL], &t->model, error);
    *steps = mode == 1;
    t->softmax = loss == 0;
    bool cubes = !*steps && t->model == KGE_COMPLEX;
    t->cubic = arguments[PENALTY].given ? penalty == 1 : cubes;
    if (!code && t->cubic && !cubes) {
        return tide_kernel_fail(error, TIDE_EINVAL, "penalty \"n3\" needs complex and batched");
    }
    return code;
}

static int prepare_numbers(const struct tide_argument *arguments, struct kge_training *t, bool steps, char *error) {
    const struct tide_kernel *k = &tide_kernel_kge_train;
    uint64_t number = steps ? 10 : 512;
    int code = 0;
    if (arguments[NEGATIVES].given) {
        code = tide_kernel_whole(k, arguments, NEGATIVES, steps ? 0 : 1, SIZE_MOST, &number, error);
    }
    t->negatives = (size_t)number;
    code = code ? code : tide_kernel_whole(k, arguments, BATCH, 1, SIZE_MOST, &number, error);
    t->batch = (size_t)number;
    code = code ? code : tide_kernel_whole(k, arguments, AHEAD, 1, SIZE_MOST, &number, error);
    t->ahead = (size_t)number;
    t->intended = arguments[INTENDED].number != 0;
    code = code ? code : tide_kernel_whole(k, arguments, SEED, 0, UINT64_C(1) << 53, &number, error);
    tide_random_seed(&t->random, number);
    code = code ? code : tide_kernel_weight(k, arguments, WEIGHT, &t->weight, error);
    t->gamma_entity = t->gamma_relation = t->cubic ? 0.15f : 1e-3f;
    if (!code && arguments[GAMMA_ENTITY].given) {
        code = tide_kernel_weight(k, arguments, GAMMA_ENTITY, &t->gamma_entity, error);
    }
    if (!code && arguments[GAMMA_RELATION].given) {
        code = tide_kernel_weight(k, arguments, GAMMA_RELATION, &t->gamma_relation, error);
    }
    return code;
}

static int prepare(const struct tide_argument *arguments, struct kge_training *t, bool steps, size_t *first,
                   char *error) {
    const struct tide_kernel *k = &tide_kernel_kge_train;
    size_t triples = 0;
    t->entities = arguments[ENTITIES].rows;
    t->relations = arguments[RELATIONS].rows;
    t->width = t->entities.width;
    t->relation_width = t->relations.width;
    t->triples = arguments[TRIPLES].tensor.data;
    t->draws = arguments[SAMPLER].draws;
    int code = kge_widths(t->model, &t->entities, &t->relations, error);
    code = code ? code : tide_kernel_triples(k, arguments, TRIPLES, &triples, error);
    code = code ? code : kge_part(k, arguments, FIRST, COUNT, triples, first, &t->count, error);
    code = code ? code : tide_kernel_whole(k, arguments, ENTITY_COUNT, 1, UINT32_MAX, &t->entity_count, error);
    code = code ? code : kge_check(t->triples, *first, t->count, t->entity_count, t->relations.key_count, error);
    return code ? code : prepare_numbers(arguments, t, steps, error);
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
        return tide_kernel_fail(error, TIDE_ENOMEM, "no memory for the order of %zu triples", t.count);
    }
    shuffle(&t, first);
    code = steps ? train_examples(&t) : kge_train_batches(&t);
    tide_free(t.order);
    if (code) {
        return tide_kernel_fail(error, code, "after %llu triples: %.200s", (unsigned long long)t.examples,
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
