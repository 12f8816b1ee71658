/*
 * sgns_train: skip-gram with negative sampling (word2vec) over a run of tokens.
 *
 * The text is walked in mini-batches of about a thousand (context, centre) pairs. All draws of a
 * batch are made first, so its distinct rows are known: they are pulled once, the pairs are worked
 * on one after the other in memory, and the differences are pushed once. Three batches are under
 * way, as in kge_batch.c: rows miss at most the two pushes of this worker that were in flight
 * when they were pulled. Negatives are independent draws from the noise distribution, or a
 * sampler's, to which they are announced a batch ahead.
 */
#include "models/sgns.h"

#include "base/alias.h"
#include "arguments.h"
#include "kernels.h"
#include "models/rows_batch.h"
#include "tensor/cpu/vector.h"

#include <string.h>

enum {
    SLOTS = 3,
    PAIRS_MOST = 1024,
    PAIRS_LEAST = 64,
    BATCH_MOST = 1 << 14,
    FLOATS_MOST = 1 << 20, /* output rows of a batch: they stay in the second cache */
    SENTENCE_MOST = 1000,
    WINDOW_MOST = 100,
    NEGATIVES_MOST = 100
};

/* ---- the step ---- */

enum { SCORE_LEAST = -80 }; /* below it log(1 + e^-score) is -score; below -88 e^-score is no float */

/* The loss of a pair, the sum of log(1 + odds): one logarithm of the product, which stays a double. */
TIDE_BODY double step_body(size_t d, float alpha, float *v, float *outputs, const uint32_t *targets,
                           size_t target_count, float *scratch) {
    const double product_most = 1e250;
    double loss = 0, product = 1;
    memset(scratch, 0, d * sizeof(float));
    for (size_t x = 0; x < target_count; x++) {
        float *u = outputs + targets[x] * d, sign = x == 0 ? 1.0f : -1.0f;
        float score = sign * tide_dot_body(d, v, u);
        float odds = expf(-score); /* of the wrong label */
        loss += score < SCORE_LEAST ? (double)-score : 0;
        product *= score < SCORE_LEAST ? 1 : 1 + (double)odds;
        if (product > product_most) {
            loss += log(product);
            product = 1;
        }
        float wrong = score > 6 ? 0 : score < -6 ? 1 : odds / (1 + odds);
        float g = sign * alpha * wrong;
        tide_axpy_body(d, g, u, scratch);
        tide_axpy_body(d, g, v, u);
    }
    tide_axpy_body(d, 1, scratch, v);
    return loss + log(product);
}

TIDE_VECTOR_FUNCTION(double, step,
                     (size_t d, float alpha, float *v, float *outputs, const uint32_t *targets, size_t target_count,
                      float *scratch),
                     (d, alpha, v, outputs, targets, target_count, scratch))

double sgns_step(size_t width, float alpha, float *v, float *outputs, const uint32_t *targets, size_t target_count,
                 float *scratch) {
    return step(width, alpha, v, outputs, targets, target_count, scratch);
}

/* ---- the walk over the text ---- */

struct text {
    const uint32_t *tokens;
    size_t first, at, last;
    const float *keep; /* probability of each word to stay */
    uint32_t *sentence;
    size_t length, position; /* the centre that comes next */
};

struct pair {
    uint32_t input;        /* index of the context word's row */
    uint32_t first_target; /* of its targets */
    uint32_t target_count;
    float alpha;
};

/* One mini-batch. `inputs` and `outputs` become the differences when it is done. */
struct slot {
    size_t pair_count, target_count, input_count, output_count;
    struct pair *pairs;
    uint32_t *targets;
    uint64_t *input_keys, *output_keys;
    float *inputs, *outputs, *inputs_before, *outputs_before;
    struct tide_transfer pulls[2], pushes[2];
    uint32_t sample; /* of a sampler */
    bool sampled;    /* to be finished */
};

struct training {
    struct tide_rows input, output;
    size_t width, window, negatives, pairs_most;
    struct tide_draws draws;
    uint64_t drawn[NEGATIVES_MOST]; /* for a pair */
    float alpha_first, alpha_last;
    struct text text;
    struct tide_alias noise; /* without a sampler */
    struct tide_random random;
    struct tide_key_index input_index, output_index;
    struct slot slots[SLOTS];
    float *scratch;
    double loss;
    uint64_t pairs, steps;
};

/* The next sentence without the words that are left out; false: the text is at its end. */
static bool next_sentence(struct training *t) {
    struct text *text = &t->text;
    text->length = text->position = 0;
    while (text->at < text->last && text->length < SENTENCE_MOST) {
        uint32_t word = text->tokens[text->at++];
        if (word == 0 && text->length) {
            break;
        }
        if (word && (text->keep[word] >= 1 || tide_random_uniform(&t->random) < (double)text->keep[word])) {
            text->sentence[text->length++] = word;
        }
    }
    return text->length > 0 || text->at < text->last;
}

static float alpha_now(const struct training *t) {
    size_t length = t->text.last - t->text.first;
    float done = length ? (float)(t->text.at - t->text.first) / (float)length : 0;
    return t->alpha_first + (t->alpha_last - t->alpha_first) * done;
}

/* ---- negatives ---- */

/* Those of the batch that will be fetched next into the slot: at most so many. */
static int negatives_announce(struct training *t, struct slot *slot) {
    if (!t->draws.sampler) {
        return 0;
    }
    const size_t most = (t->pairs_most + 2 * t->window) * t->negatives;
    const int error = t->draws.prepare(t->draws.sampler, most, &slot->sample);
    slot->sampled = error == 0;
    return error;
}

/* For one pair, in t->drawn. */
static int negatives_draw(struct training *t, const struct slot *slot) {
    if (t->draws.sampler) {
        return t->draws.take(t->draws.sampler, slot->sample, t->negatives, t->drawn);
    }
    for (size_t n = 0; n < t->negatives; n++) {
        t->drawn[n] = tide_alias_draw(&t->noise, &t->random);
    }
    return 0;
}

static int negatives_end(struct training *t, struct slot *slot) {
    const bool sampled = slot->sampled;
    slot->sampled = false;
    return sampled ? t->draws.finish(t->draws.sampler, slot->sample) : 0;
}

/* ---- batches ---- */

static void add_target(struct training *t, struct slot *slot, uint64_t word) {
    slot->targets[slot->target_count++] =
        tide_key_index_of(&t->output_index, word, slot->output_keys, &slot->output_count);
}

/* A pair and its negatives; one equal to the centre is left out. */
static int add_pair(struct training *t, struct slot *slot, uint32_t context, uint32_t centre) {
    struct pair *pair = &slot->pairs[slot->pair_count++];
    pair->alpha = alpha_now(t);
    pair->first_target = (uint32_t)slot->target_count;
    pair->input = tide_key_index_of(&t->input_index, context, slot->input_keys, &slot->input_count);
    const int error = negatives_draw(t, slot);
    add_target(t, slot, centre);
    for (size_t n = 0; n < t->negatives && !error; n++) {
        if (t->drawn[n] != centre) {
            add_target(t, slot, t->drawn[n]);
        }
    }
    pair->target_count = (uint32_t)slot->target_count - pair->first_target;
    return error;
}

static int add_centre(struct training *t, struct slot *slot) {
    struct text *text = &t->text;
    size_t at = text->position++;
    size_t reach = t->window - tide_random_below(&t->random, t->window);
    size_t from = at < reach ? 0 : at - reach;
    int error = 0;
    for (size_t c = from; c < text->length && c <= at + reach && !error; c++) {
        error = c == at ? 0 : add_pair(t, slot, text->sentence[c], text->sentence[at]);
    }
    return error;
}

/* Fills the slot and starts the pull of its rows; pair_count 0: the text has ended. */
static int batch_fetch(struct training *t, struct slot *slot) {
    slot->pair_count = slot->target_count = slot->input_count = slot->output_count = 0;
    t->input_index.now++;
    t->output_index.now++;
    int error = 0;
    while (slot->pair_count < t->pairs_most && !error) {
        if (t->text.position < t->text.length) {
            error = add_centre(t, slot);
        } else if (!next_sentence(t)) {
            break;
        }
    }
    if (slot->pair_count == 0 || error) {
        return error;
    }
    error = tide_transfer_pull(&slot->pulls[0], &t->input, slot->input_keys, slot->input_count, slot->inputs);
    return error
               ? error
               : tide_transfer_pull(&slot->pulls[1], &t->output, slot->output_keys, slot->output_count, slot->outputs);
}

static void subtract(size_t count, const float *before, float *values) {
    for (size_t i = 0; i < count; i++) {
        values[i] -= before[i];
    }
}

static int batch_compute(struct training *t, struct slot *slot) {
    size_t inputs = slot->input_count * t->width, outputs = slot->output_count * t->width;
    memcpy(slot->inputs_before, slot->inputs, inputs * sizeof(float));
    memcpy(slot->outputs_before, slot->outputs, outputs * sizeof(float));
    for (size_t i = 0; i < slot->pair_count; i++) {
        const struct pair *pair = &slot->pairs[i];
        t->loss += step(t->width, pair->alpha, slot->inputs + pair->input * t->width, slot->outputs,
                        slot->targets + pair->first_target, pair->target_count, t->scratch);
    }
    t->pairs += slot->pair_count;
    t->steps += slot->target_count;
    subtract(inputs, slot->inputs_before, slot->inputs);
    subtract(outputs, slot->outputs_before, slot->outputs);
    return 0;
}

static int batch_send(struct training *t, struct slot *slot) {
    int error = tide_transfer_push(&slot->pushes[0], &t->input, slot->input_keys, slot->input_count, slot->inputs);
    return error
               ? error
               : tide_transfer_push(&slot->pushes[1], &t->output, slot->output_keys, slot->output_count, slot->outputs);
}

/* The batch after this one is announced first, so that its negatives are in flight. */
static int batch_begin(struct training *t, struct slot *slot, struct slot *next) {
    int error = negatives_announce(t, next);
    error = error ? error : batch_fetch(t, slot);
    const int ended = negatives_end(t, slot);
    return error ? error : ended;
}

static int train(struct training *t) {
    int error = negatives_announce(t, &t->slots[0]);
    error = error ? error : batch_begin(t, &t->slots[0], &t->slots[1]);
    for (size_t i = 0; !error && t->slots[i % SLOTS].pair_count; i++) {
        struct slot *slot = &t->slots[i % SLOTS], *next = &t->slots[(i + 1) % SLOTS];
        struct slot *last = &t->slots[(i + 2) % SLOTS];
        error = tide_transfer_wait(slot->pulls, 2);
        error = error ? error : batch_begin(t, next, last);
        error = error ? error : batch_compute(t, slot);
        error = error ? error : tide_transfer_wait(last->pushes, 2);
        error = error ? error : batch_send(t, slot);
    }
    for (int i = 0; i < SLOTS; i++) { /* whatever is in flight ends before its memory is freed */
        int pulled = tide_transfer_wait(t->slots[i].pulls, 2);
        int pushed = tide_transfer_wait(t->slots[i].pushes, 2);
        int drawn = negatives_end(t, &t->slots[i]);
        error = error ? error : pulled ? pulled : pushed ? pushed : drawn;
    }
    return error;
}

/* ---- memory ---- */

static int slot_init(struct slot *slot, size_t pairs, size_t targets, size_t width) {
    slot->pairs = tide_alloc(pairs * sizeof(*slot->pairs));
    slot->targets = tide_alloc(targets * sizeof(*slot->targets));
    slot->input_keys = tide_alloc(pairs * sizeof(uint64_t));
    slot->output_keys = tide_alloc(targets * sizeof(uint64_t));
    slot->inputs = tide_batch_floats(pairs, width);
    slot->inputs_before = tide_batch_floats(pairs, width);
    slot->outputs = tide_batch_floats(targets, width);
    slot->outputs_before = tide_batch_floats(targets, width);
    return slot->pairs && slot->targets && slot->input_keys && slot->output_keys && slot->inputs &&
                   slot->inputs_before && slot->outputs && slot->outputs_before
               ? 0
               : TIDE_ENOMEM;
}

static void slot_release(struct slot *slot) {
    tide_free(slot->pairs);
    tide_free(slot->targets);
    tide_free(slot->input_keys);
    tide_free(slot->output_keys);
    tide_workspace_free(slot->inputs);
    tide_workspace_free(slot->inputs_before);
    tide_workspace_free(slot->outputs);
    tide_workspace_free(slot->outputs_before);
}

static void training_release(struct training *t) {
    for (int i = 0; i < SLOTS; i++) {
        slot_release(&t->slots[i]);
    }
    tide_key_index_release(&t->input_index);
    tide_key_index_release(&t->output_index);
    tide_alias_release(&t->noise);
    tide_free(t->text.sentence);
    tide_workspace_free(t->scratch);
}

static int training_init(struct training *t) {
    size_t each = 1 + t->negatives, most = t->pairs_most + 2 * t->window;
    int error = tide_key_index_init(&t->input_index, most);
    error = error ? error : tide_key_index_init(&t->output_index, most * each);
    for (int i = 0; i < SLOTS && !error; i++) {
        error = slot_init(&t->slots[i], most, most * each, t->width);
    }
    t->text.sentence = tide_alloc(SENTENCE_MOST * sizeof(uint32_t));
    t->scratch = tide_batch_floats(1, t->width);
    return error ? error : t->text.sentence && t->scratch ? 0 : TIDE_ENOMEM;
}

/* ---- the kernel ---- */

enum {
    INPUT,
    OUTPUT,
    TOKENS,
    FIRST,
    COUNT,
    COUNTS,
    WINDOW,
    NEGATIVES,
    SUBSAMPLE,
    POWER,
    SAMPLER,
    BATCH,
    ALPHA,
    ALPHA_LAST,
    SEED,
    PARAMETER_COUNT
};

static const struct tide_parameter parameters[PARAMETER_COUNT] = {
    [INPUT] = {"input", TIDE_ROWS, 0, true, 0, "table: the vector of word w under key w"},
    [OUTPUT] = {"output", TIDE_ROWS, 0, true, 0, "table: the output vector of word w"},
    [TOKENS] = {"tokens", TIDE_TENSOR, TIDE_U32, true, 0, "the text; word 0 ends a sentence"},
    [FIRST] = {"first", TIDE_NUMBER, 0, false, 0, "first token of this call, from 0"},
    [COUNT] = {"count", TIDE_NUMBER, 0, false, -1, "tokens of this call; -1: to the end"},
    [COUNTS] = {"counts", TIDE_TENSOR, TIDE_U64, true, 0, "how often each word occurs in the whole text"},
    [WINDOW] = {"window", TIDE_NUMBER, 0, false, 5, "most words on each side, 1 to 100"},
    [NEGATIVES] = {"negatives", TIDE_NUMBER, 0, false, 5, "draws for each pair, 1 to 100"},
    [SUBSAMPLE] = {"subsample", TIDE_NUMBER, 0, false, 1e-2,
                   "words more frequent than this share are thinned; 0: none"},
    [POWER] = {"power", TIDE_NUMBER, 0, false, 0.75, "of the counts, for the noise distribution"},
    [SAMPLER] = {"sampler", TIDE_DRAWS, 0, false, 0,
                 "draws the negatives, keys of output (default: by counts and power)"},
    [BATCH] = {"batch", TIDE_NUMBER, 0, false, 0,
               "pairs of a mini-batch, 1 to 16384; default 1024, fewer where rows are wide"},
    [ALPHA] = {"alpha", TIDE_NUMBER, 0, false, 0.025, "step size at the first token"},
    [ALPHA_LAST] = {"alpha_last", TIDE_NUMBER, 0, false, -1, "step size at the last token; -1: as alpha"},
    [SEED] = {"seed", TIDE_NUMBER, 0, false, 1, "of all draws; another one for each call"},
};

/* Keep word w of share f with probability (sqrt(f / t) + 1) t / f. */
static float *keep_create(const uint64_t *counts, size_t word_count, double threshold) {
    float *keep = tide_alloc(word_count * sizeof *keep);
    double total = 0;
    for (size_t w = 0; w < word_count; w++) {
        total += (double)counts[w];
    }
    for (size_t w = 0; keep && w < word_count; w++) {
        double share = (double)counts[w] / total;
        bool thin = threshold > 0 && share > 0;
        keep[w] = thin ? (float)((sqrt(share / threshold) + 1) * threshold / share) : 1;
    }
    return keep;
}

/* counts^power; the end of a line is never a negative. */
static int noise_create(struct tide_alias *noise, const uint64_t *counts, size_t word_count, double power) {
    double *weights = tide_alloc(word_count * sizeof *weights);
    int error = weights ? 0 : TIDE_ENOMEM;
    if (!error) {
        for (size_t w = 0; w < word_count; w++) {
            weights[w] = w && counts[w] ? pow((double)counts[w], power) : 0;
        }
        error = tide_alias_create(noise, weights, (uint32_t)word_count);
    }
    tide_free(weights);
    return error;
}

static int check_text(const struct training *t, size_t word_count, char *error) {
    for (size_t i = t->text.first; i < t->text.last; i++) {
        if (t->text.tokens[i] >= word_count) {
            return tide_kernel_fail(error, TIDE_EINVAL, "token %zu is word %u, but there are %zu", i, t->text.tokens[i],
                                    word_count);
        }
    }
    if (t->input.width != t->output.width) {
        return tide_kernel_fail(error, TIDE_EINVAL, "input rows have %u values, output rows %u", t->input.width,
                                t->output.width);
    }
    const struct tide_rows *rows[2] = {&t->input, &t->output};
    for (int i = 0; i < 2; i++) {
        if (rows[i]->key_count && rows[i]->key_count < word_count) {
            return tide_kernel_fail(error, TIDE_EINVAL, "%s has %llu rows for %zu words", i ? "output" : "input",
                                    (unsigned long long)rows[i]->key_count, word_count);
        }
    }
    return 0;
}

static int read_range(const struct tide_argument *arguments, struct training *t, char *error) {
    const struct tide_kernel *k = &tide_kernel_sgns_train;
    const struct tide_tensor *tokens = &arguments[TOKENS].tensor;
    size_t all = tokens->rows * tokens->columns;
    uint64_t first, count = 0;
    int code = tide_kernel_whole(k, arguments, FIRST, 0, all, &first, error);
    bool to_end = !arguments[COUNT].given || arguments[COUNT].number == -1;
    if (!code && !to_end) {
        code = tide_kernel_whole(k, arguments, COUNT, 0, all - first, &count, error);
    }
    if (!code) {
        t->text.tokens = tokens->data;
        t->text.first = t->text.at = (size_t)first;
        t->text.last = to_end ? all : (size_t)(first + count);
    }
    return code;
}

static size_t pairs_that_fit(const struct training *t) {
    const size_t pairs = FLOATS_MOST / (t->width * (1 + t->negatives));
    return pairs < PAIRS_LEAST ? PAIRS_LEAST : pairs > PAIRS_MOST ? PAIRS_MOST : pairs;
}

static int read_arguments(const struct tide_argument *arguments, struct training *t, double numbers[2], char *error) {
    const struct tide_kernel *k = &tide_kernel_sgns_train;
    uint64_t window = 0, negatives = 0, seed = 0, batch = 0;
    float subsample = 0, power = 0;
    int code = read_range(arguments, t, error);
    code = code ? code : tide_kernel_whole(k, arguments, WINDOW, 1, WINDOW_MOST, &window, error);
    code = code ? code : tide_kernel_whole(k, arguments, NEGATIVES, 1, NEGATIVES_MOST, &negatives, error);
    code = code ? code : tide_kernel_whole(k, arguments, SEED, 0, 1ull << 53, &seed, error);
    code =
        code || !arguments[BATCH].given ? code : tide_kernel_whole(k, arguments, BATCH, 1, BATCH_MOST, &batch, error);
    code = code ? code : tide_kernel_weight(k, arguments, SUBSAMPLE, &subsample, error);
    code = code ? code : tide_kernel_weight(k, arguments, POWER, &power, error);
    code = code ? code : tide_kernel_weight(k, arguments, ALPHA, &t->alpha_first, error);
    t->alpha_last = t->alpha_first;
    if (!code && arguments[ALPHA_LAST].given && arguments[ALPHA_LAST].number != -1) {
        code = tide_kernel_weight(k, arguments, ALPHA_LAST, &t->alpha_last, error);
    }
    t->input = arguments[INPUT].rows;
    t->output = arguments[OUTPUT].rows;
    t->draws = arguments[SAMPLER].draws;
    t->width = t->input.width;
    t->window = (size_t)window;
    t->negatives = (size_t)negatives;
    t->pairs_most = arguments[BATCH].given ? (size_t)batch : pairs_that_fit(t);
    tide_random_seed(&t->random, seed);
    numbers[0] = (double)subsample;
    numbers[1] = (double)power;
    return code;
}

static int run(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    struct training t;
    double numbers[2];
    const struct tide_tensor *counts = &arguments[COUNTS].tensor;
    size_t word_count = counts->rows * counts->columns;
    memset(&t, 0, sizeof(t));
    int code = read_arguments(arguments, &t, numbers, error);
    if (!code && (word_count < 2 || word_count > UINT32_MAX)) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "counts: %zu words; 2 to 2^32 - 1 are needed", word_count);
    }
    code = code ? code : check_text(&t, word_count, error);
    if (code) {
        return code;
    }
    float *keep = keep_create(counts->data, word_count, numbers[0]);
    t.text.keep = keep;
    code = !keep ? TIDE_ENOMEM : t.draws.sampler ? 0 : noise_create(&t.noise, counts->data, word_count, numbers[1]);
    code = code ? code : training_init(&t);
    code = code ? code : train(&t);
    training_release(&t);
    tide_free(keep);
    if (code) {
        return tide_kernel_fail(error, code, "after %llu pairs: %.200s", (unsigned long long)t.pairs,
                                code == TIDE_ENOMEM ? "out of memory" : tide_error_message());
    }
    results[0] = (struct tide_result){"loss", t.loss};
    results[1] = (struct tide_result){"tokens", (double)(t.text.last - t.text.first)};
    results[2] = (struct tide_result){"pairs", (double)t.pairs};
    results[3] = (struct tide_result){"steps", (double)t.steps};
    return 4;
}

const struct tide_kernel tide_kernel_sgns_train = {
    "sgns_train",
    "Skip-gram with negative sampling over a run of tokens: loss is the sum over its pairs. "
    "Mikolov et al., Distributed representations of words and phrases, NIPS 2013.",
    parameters, PARAMETER_COUNT, run};
