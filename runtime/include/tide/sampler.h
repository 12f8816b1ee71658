/* Keys drawn from a distribution, and their rows. See tide.h. */
#ifndef TIDE_PUBLIC_SAMPLER_H
#define TIDE_PUBLIC_SAMPLER_H

#include "tide/table.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Sampling: keys drawn from a distribution, and their rows, for negative sampling (Renz-Wieland et al., NuPS,
 * SIGMOD 2022). How the draws are made decides how much of the access is local, and what the draws promise:
 *   naive     drawn when pulled, accessed wherever they are         independent draws (conform)
 *   preloc    drawn when prepared, and localized meanwhile          independent draws (conform)
 *   pool      groups of draws, localized ahead, each used `reuse` times in a shuffled order: bounded, draws depend on
 *             each other only within group x reuse draws
 *   postpone  as pool; a key that is not here yet goes once to the end of its sample: long-term, frequencies converge
 *   local     only keys that are here, in proportion; of a key that 64 draws did not find, whatever comes: not conform
 * A sampler belongs to one fiber. Two samplers of one seed draw alike.
 */
enum tide_sampling { TIDE_SAMPLE_NAIVE, TIDE_SAMPLE_PRELOC, TIDE_SAMPLE_POOL, TIDE_SAMPLE_POSTPONE, TIDE_SAMPLE_LOCAL };

#define TIDE_SAMPLER_OPTIONS_INIT .size = sizeof(struct tide_sampler_options)
struct tide_sampler_options {
    size_t size;                   /* of this struct (tide/actor.h); 0: its first layout */
    uint8_t scheme;                /* enum tide_sampling */
    uint32_t group, reuse;         /* pools; default 250 and 16 */
    uint64_t first_key, key_count; /* candidates first_key .. first_key + key_count - 1; 0: all of a dense table */
    const double *weights;         /* key_count weights, read during creation; NULL: uniform */
    /* Instead of weights: gives a key by itself. */
    int (*draw)(void *argument, uint64_t *key);
    void *argument;
    uint64_t seed;
};

struct tide_sampler_stats {
    uint64_t drawn, pulled, postponed; /* keys */
    uint64_t not_found;                /* local: taken though not here */
    uint64_t groups;                   /* pools: groups begun */
};

struct tide_sampler;
/* Errors: EINVAL (names what), ERANGE (candidates outside of the table), ENOMEM. */
int tide_sampler_create(struct tide_table *table, const struct tide_sampler_options *options,
                        struct tide_sampler **out);
/* Abandons what is open. */
void tide_sampler_destroy(struct tide_sampler *sampler);
/* Announces a sample of `count` keys: the earlier, the more is local when it is pulled. *sample names it. Errors:
 * ELIMIT (2^20 keys, 4096 open samples), ENOMEM, the draw's own. Inside. */
int tide_sampler_prepare(struct tide_sampler *sampler, size_t count, uint32_t *sample);
/* The next `count` keys of a sample, and their rows unless `rows` is NULL. Errors: EINVAL (no such sample, or fewer
 * keys are left: names them), and those of tide_table_pull. Fibers. */
int tide_sampler_pull(struct tide_sampler *sampler, uint32_t sample, size_t count, uint64_t *keys, float *rows);
/* Ends a sample, used up or not. Error: EINVAL (no such sample). Fibers. */
int tide_sampler_finish(struct tide_sampler *sampler, uint32_t sample);
void tide_sampler_stats(const struct tide_sampler *sampler, struct tide_sampler_stats *out);

#ifdef __cplusplus
}
#endif
#endif
