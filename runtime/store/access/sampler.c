/*
 * Sampling (tide.h): keys from a distribution, drawn so that their rows tend to be local.
 *
 * Localizing is a hint: whether it worked is not asked; a pull finds the row wherever it is and
 * says what fails. A sample is a record of its own, for the ticket in it must not move.
 *
 * What is here, for local draws, is listed: anew when slots have moved, and where rows move, after
 * as many draws as there are keys if an eighth of them found that the key had gone, else after 16
 * times as many, for what has come. A caller's own draws are asked one by one.
 */
#include "base/alias.h"
#include "store/adaptive/owner.h"
#include "store/core/table_drop.h"
#include "tide/sampler.h"

enum {
    SAMPLES_MAX = 4096,
    SAMPLE_KEYS_MAX = 1 << 20,
    GROUPS_AHEAD_MAX = 16,
    GROUP_DEFAULT = 250,
    REUSE_DEFAULT = 16,
    GROUP_MAX = 1 << 16,
    REUSE_MAX = 1 << 12,
    TRIES = 64,      /* draws for a key that is here */
    AHEAD = 4,       /* draws */
    LOOK_AHEAD = 16, /* keys, when they are listed */
    PASSES_MAX = 16,
    LISTED_MAX = 1 << 24
};

struct sample {
    struct tide_ticket localized;
    bool localizing;
    size_t count;   /* of the whole sample */
    size_t left;    /* keys still to be pulled */
    uint64_t *keys; /* `at` to `at + left`; room for each key twice; NULL: drawn when pulled */
    size_t at;
};

/* A group of draws that is being localized. */
struct group {
    struct tide_ticket localized;
    uint64_t begun, took; /* ns; took 0: not yet seen done */
    uint64_t *keys;
};

/* A key that was here when keys were listed. */
struct listed {
    uint64_t key;
    const atomic_uint_fast64_t *word; /* its key word; NULL: rows stay, or it has none to look at */
};

/* The keys that are here. */
struct here {
    struct listed *keys; /* room for all; NULL: they are not listed */
    size_t count;
    bool listed;
    uint64_t changes;        /* the table's, when they were listed */
    uint64_t draws, gone;    /* since then; of keys that were here no more */
    double *weights;         /* of all keys; NULL: uniform */
    double *shares;          /* weights of the listed; NULL: uniform */
    struct tide_alias alias; /* count 0: uniform */
    size_t ahead[AHEAD];     /* drawn already, a ring: their words are on the way to the cache */
    size_t next;
};

struct tide_sampler {
    struct tide_table *table;
    struct tide_sampler_options options;
    struct here here;
    struct tide_alias alias; /* count 0: uniform or drawn by the caller */
    struct tide_random random;
    struct sample *samples[SAMPLES_MAX];
    struct tide_sampler_stats stats;
    /* pools */
    struct group groups[GROUPS_AHEAD_MAX]; /* a ring: the oldest at `first` */
    uint32_t first, ahead;
    uint64_t *laid; /* group x reuse keys in shuffled order */
    size_t laid_at, laid_count;
    uint64_t laid_since;
    uint64_t prepare_ns, use_ns; /* means, of localizing a group and of using one up */
};

/* ---- draws ---- */

static int draw(struct tide_sampler *s, uint64_t *key) {
    s->stats.drawn++;
    if (s->options.draw) {
        int code = s->options.draw(s->options.argument, key);
        bool outside = *key - s->options.first_key >= s->options.key_count;
        return code < 0  ? code
               : outside ? tide_fail(TIDE_ERANGE, "sample of '%s': key %llu was drawn outside %llu..%llu",
                                     s->table->name, (unsigned long long)*key, (unsigned long long)s->options.first_key,
                                     (unsigned long long)(s->options.first_key + s->options.key_count - 1))
                         : 0;
    }
    *key = s->options.first_key + (s->alias.count ? tide_alias_draw(&s->alias, &s->random)
                                                  : tide_random_below(&s->random, s->options.key_count));
    return 0;
}

static bool is_here(struct tide_sampler *s, uint64_t key) {
    uint16_t node = 0;
    return s->table->operations->owners
               ? tide__owner_serves(s->table, key)
               : tide_table_where(s->table, key, &node) == 0 && node == tide__store_self(s->table->store);
}

static bool lists(const struct tide_sampler *s) {
    return s->options.scheme == TIDE_SAMPLE_LOCAL && !s->options.draw && s->options.key_count <= LISTED_MAX;
}

/* One of the listed, and draws another. */
static const struct listed *draw_listed(struct tide_sampler *s) {
    struct here *here = &s->here;
    size_t *ahead = &here->ahead[here->next++ % AHEAD];
    const struct listed *drawn = &here->keys[*ahead];
    *ahead = here->alias.count ? tide_alias_draw(&here->alias, &s->random) : tide_random_below(&s->random, here->count);
    if (here->keys[*ahead].word) {
        __builtin_prefetch(here->keys[*ahead].word);
    }
    here->draws++;
    return drawn;
}

static bool still_here(struct tide_sampler *s, const struct listed *k) {
    /* relaxed: it may go as soon as this is said */
    return (k->word && tide__word_state(atomic_load_explicit(k->word, memory_order_relaxed)) == TIDE__OWNED) ||
           is_here(s, k->key);
}

/* The key will be looked at: brings its word into the cache. */
static void fetch_word(struct tide_sampler *s, uint64_t key) {
    if (s->table->operations->owners && key - s->options.first_key < s->options.key_count) {
        __builtin_prefetch(tide__owner_word(s->table, key));
    }
}

static int list_here(struct tide_sampler *s) {
    struct here *here = &s->here;
    /* acquire: routes that are read below are at least as new */
    const uint64_t changes = atomic_load_explicit(&s->table->changes, memory_order_acquire);
    const uint64_t passes = here->draws / s->options.key_count;
    const bool old = passes >= PASSES_MAX || (passes && here->gone >= here->draws / 8);
    if (here->listed && here->changes == changes && !(old && s->table->operations->owners)) {
        return 0;
    }
    here->listed = false;
    here->changes = changes;
    here->count = 0;
    tide_alias_release(&here->alias);
    here->alias = (struct tide_alias){0};
    for (uint64_t i = 0; i < s->options.key_count; i++) {
        const uint64_t key = s->options.first_key + i;
        const double weight = here->weights ? here->weights[i] : 1;
        fetch_word(s, key + LOOK_AHEAD);
        if (weight > 0 && is_here(s, key)) {
            if (here->weights) {
                here->shares[here->count] = weight;
            }
            here->keys[here->count++] =
                (struct listed){key, s->table->operations->owners ? tide__owner_word(s->table, key) : NULL};
        }
    }
    const int code =
        here->weights && here->count ? tide_alias_create(&here->alias, here->shares, (uint32_t)here->count) : 0;
    here->listed = code == 0;
    for (size_t i = 0; here->listed && here->count && i < AHEAD; i++) {
        here->ahead[i] = 0;
        (void)draw_listed(s);
    }
    here->draws = here->gone = 0;
    return code;
}

/* Given that it is here, a key that passes has its share of the distribution. */
static int draw_local(struct tide_sampler *s, uint64_t *key) {
    struct here *here = &s->here;
    const bool stay = here->keys && !s->table->operations->owners;
    int code = here->keys ? list_here(s) : 0;
    for (int i = 0; code == 0 && here->count && i < TRIES; i++) {
        const struct listed *drawn = draw_listed(s);
        *key = drawn->key;
        s->stats.drawn++;
        if (stay || still_here(s, drawn)) {
            return 0;
        }
        here->gone++;
    }
    for (int i = 0; code == 0 && i < (stay ? 1 : TRIES); i++) {
        code = draw(s, key);
        if (code < 0 || is_here(s, *key)) {
            return code;
        }
    }
    s->stats.not_found += code == 0;
    return code;
}

static int draw_many(struct tide_sampler *s, uint64_t *keys, size_t count) {
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++) {
        code = draw(s, &keys[i]);
    }
    return code;
}

/* ---- pools ---- */

static uint64_t now(const struct tide_sampler *s) {
    struct tide_port *port = s->table->store->port;
    return port ? port->ops->now(port) : 0;
}

static uint64_t mean(uint64_t old, uint64_t value) {
    return old ? (3 * old + value) / 4 : value;
}

/* Notes how long localizing took, as soon as it is seen. */
static void look_at_groups(struct tide_sampler *s) {
    for (uint32_t i = 0; i < s->ahead; i++) {
        struct group *group = &s->groups[(s->first + i) % GROUPS_AHEAD_MAX];
        if (!group->took && tide_ticket_done(&group->localized)) {
            group->took = now(s) - group->begun + 1;
            s->prepare_ns = mean(s->prepare_ns, group->took);
        }
    }
}

/* As many groups as are used up in twice the time that localizing one takes, and one more. */
static uint32_t groups_wanted(const struct tide_sampler *s) {
    uint64_t wanted = s->use_ns ? 1 + 2 * s->prepare_ns / s->use_ns : 1;
    return wanted < GROUPS_AHEAD_MAX ? (uint32_t)wanted : GROUPS_AHEAD_MAX;
}

/* A node that is short of memory reads its samples where they are. */
static int localize(struct tide_sampler *s, const uint64_t *keys, size_t count, struct tide_ticket *ticket) {
    int code = tide_table_localize(s->table, keys, count, ticket);
    return code == TIDE_EBUSY ? 0 : code;
}

static int begin_group(struct tide_sampler *s) {
    struct group *group = &s->groups[(s->first + s->ahead) % GROUPS_AHEAD_MAX];
    size_t bytes = s->options.group * sizeof *group->keys;
    group->keys = group->keys ? group->keys : tide_alloc(bytes);
    int code = group->keys ? draw_many(s, group->keys, s->options.group) : TIDE_ENOMEM;
    group->begun = now(s);
    group->took = 0;
    code = code ? code : localize(s, group->keys, s->options.group, &group->localized);
    s->ahead += code == 0;
    s->stats.groups += code == 0;
    return code;
}

static void shuffle(struct tide_random *random, uint64_t *keys, size_t count) {
    for (size_t i = count; i > 1; i--) {
        size_t j = (size_t)tide_random_below(random, i);
        uint64_t key = keys[i - 1];
        keys[i - 1] = keys[j];
        keys[j] = key;
    }
}

/* Lays the oldest group down, `reuse` times in one shuffled order. */
static int lay_group(struct tide_sampler *s) {
    if (s->ahead == 0) {
        int code = begin_group(s);
        if (code) {
            return code;
        }
    }
    struct group *group = &s->groups[s->first];
    look_at_groups(s);
    (void)tide_ticket_wait(&group->localized);
    uint64_t time = now(s);
    s->use_ns = s->laid_since ? mean(s->use_ns, time - s->laid_since) : 0;
    s->laid_since = time;
    s->first = (s->first + 1) % GROUPS_AHEAD_MAX;
    s->ahead--;
    for (uint32_t i = 0; i < s->options.reuse; i++) {
        memcpy(s->laid + (size_t)i * s->options.group, group->keys, s->options.group * sizeof *s->laid);
    }
    s->laid_count = (size_t)s->options.group * s->options.reuse;
    s->laid_at = 0;
    shuffle(&s->random, s->laid, s->laid_count);
    return 0;
}

static int take_from_pool(struct tide_sampler *s, uint64_t *keys, size_t count) {
    int code = 0;
    for (size_t taken = 0; taken < count && code == 0;) {
        if (s->laid_at == s->laid_count) {
            code = lay_group(s);
            continue;
        }
        size_t some = s->laid_count - s->laid_at;
        some = some < count - taken ? some : count - taken;
        memcpy(keys + taken, s->laid + s->laid_at, some * sizeof *keys);
        s->laid_at += some;
        taken += some;
    }
    look_at_groups(s);
    while (code == 0 && s->ahead < groups_wanted(s)) {
        code = begin_group(s);
    }
    return code;
}

/* ---- samples ---- */

static bool pools(const struct tide_sampler *s) {
    return s->options.scheme == TIDE_SAMPLE_POOL || s->options.scheme == TIDE_SAMPLE_POSTPONE;
}

static int choose(struct tide_sampler *s, struct sample *sample) {
    sample->keys = tide_alloc(2 * sample->count * sizeof *sample->keys + 1);
    if (!sample->keys) {
        return TIDE_ENOMEM;
    }
    if (pools(s)) {
        return take_from_pool(s, sample->keys, sample->left);
    }
    int code = draw_many(s, sample->keys, sample->left);
    if (code == 0) {
        code = localize(s, sample->keys, sample->left, &sample->localized);
        sample->localizing = code == 0;
    }
    return code;
}

static void sample_free(struct tide_sampler *s, uint32_t number) {
    tide_free(s->samples[number]->keys);
    tide_free(s->samples[number]);
    s->samples[number] = NULL;
}

int tide_sampler_prepare(struct tide_sampler *s, size_t count, uint32_t *number) {
    if (count > SAMPLE_KEYS_MAX) {
        return tide_fail(TIDE_ELIMIT, "a sample of %zu keys: at most %d", count, SAMPLE_KEYS_MAX);
    }
    uint32_t free = 0;
    while (free < SAMPLES_MAX && s->samples[free]) {
        free++;
    }
    if (free == SAMPLES_MAX) {
        return tide_fail(TIDE_ELIMIT, "%d samples are open: finish them", SAMPLES_MAX);
    }
    struct sample *sample = tide_alloc_zero(1, sizeof *sample);
    if (!sample) {
        return TIDE_ENOMEM;
    }
    sample->left = sample->count = count;
    s->samples[free] = sample;
    int code = 0;
    if (s->options.scheme != TIDE_SAMPLE_NAIVE && s->options.scheme != TIDE_SAMPLE_LOCAL) {
        code = choose(s, sample);
    }
    if (code) {
        sample_free(s, free);
        return code;
    }
    *number = free;
    return 0;
}

static struct sample *sample_of(struct tide_sampler *s, uint32_t number) {
    return number < SAMPLES_MAX ? s->samples[number] : NULL;
}

/* The next key of those chosen before; one that is not here yet goes once to the end. */
static uint64_t next_chosen(struct tide_sampler *s, struct sample *sample) {
    while (s->options.scheme == TIDE_SAMPLE_POSTPONE && sample->at < sample->count && sample->left > 1 &&
           !is_here(s, sample->keys[sample->at])) {
        sample->keys[sample->at + sample->left] = sample->keys[sample->at];
        sample->at++;
        s->stats.postponed++;
    }
    sample->left--;
    return sample->keys[sample->at++];
}

static int take(struct tide_sampler *s, struct sample *sample, uint64_t *key) {
    if (sample->keys) {
        *key = next_chosen(s, sample);
        return 0;
    }
    sample->left--;
    return s->options.scheme == TIDE_SAMPLE_LOCAL ? draw_local(s, key) : draw(s, key);
}

int tide_sampler_pull(struct tide_sampler *s, uint32_t number, size_t count, uint64_t *keys, float *rows) {
    struct sample *sample = sample_of(s, number);
    if (!sample || count > sample->left) {
        return tide_fail(TIDE_EINVAL, "sample %u of '%s' has %zu keys left, not %zu", number, s->table->name,
                         sample ? sample->left : 0, count);
    }
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++) {
        code = take(s, sample, &keys[i]);
    }
    s->stats.pulled += code == 0 ? count : 0;
    return code == 0 && rows ? tide_table_pull(s->table, keys, count, rows, NULL) : code;
}

int tide_sampler_finish(struct tide_sampler *s, uint32_t number) {
    struct sample *sample = sample_of(s, number);
    if (!sample) {
        return tide_fail(TIDE_EINVAL, "sampler of '%s' has no sample %u", s->table->name, number);
    }
    if (sample->localizing) {
        (void)tide_ticket_wait(&sample->localized);
    }
    sample_free(s, number);
    return 0;
}

/* ---- the sampler ---- */

static int check(struct tide_table *table, struct tide_sampler_options *o) {
    bool dense = table->options.keys == TIDE_KEYS_DENSE;
    o->group = o->group ? o->group : GROUP_DEFAULT;
    o->reuse = o->reuse ? o->reuse : REUSE_DEFAULT;
    if (o->scheme > TIDE_SAMPLE_LOCAL) {
        return tide_fail(TIDE_EINVAL, "sampler of '%s': %u is no scheme", table->name, o->scheme);
    }
    if (o->group > GROUP_MAX || o->reuse > REUSE_MAX) {
        return tide_fail(TIDE_EINVAL, "sampler of '%s': groups of at most %d keys, used %d times", table->name,
                         GROUP_MAX, REUSE_MAX);
    }
    if (o->key_count == 0 && dense && o->first_key < table->options.key_count) {
        o->key_count = table->options.key_count - o->first_key;
    }
    if (o->key_count == 0 || (o->weights && o->key_count > UINT32_MAX)) {
        return tide_fail(TIDE_EINVAL,
                         "sampler of '%s': a table of hashed keys needs `count`, the keys to draw from, or weights, "
                         "fewer than 2^32",
                         table->name);
    }
    if (dense && (o->first_key >= table->options.key_count || o->key_count > table->options.key_count - o->first_key)) {
        return tide_fail(TIDE_ERANGE, "sampler of '%s': keys %llu to %llu of 0..%llu", table->name,
                         (unsigned long long)o->first_key, (unsigned long long)(o->first_key + o->key_count - 1),
                         (unsigned long long)(table->options.key_count - 1));
    }
    return 0;
}

static int here_create(struct tide_sampler *s) {
    struct here *here = &s->here;
    const size_t count = (size_t)s->options.key_count, bytes = count * sizeof *here->weights;
    here->keys = tide_alloc(count * sizeof *here->keys);
    if (s->options.weights) {
        here->weights = tide_alloc(bytes);
        here->shares = tide_alloc(bytes);
        if (!here->weights || !here->shares) {
            return TIDE_ENOMEM;
        }
        memcpy(here->weights, s->options.weights, bytes);
    }
    return here->keys ? 0 : TIDE_ENOMEM;
}

int tide_sampler_create(struct tide_table *table, const struct tide_sampler_options *options,
                        struct tide_sampler **out) {
    struct tide_sampler_options o;
    int code = tide__layout_read("sampler", options, TIDE_LAYOUT(struct tide_sampler_options, seed), &o, sizeof o);
    code = code ? code : check(table, &o);
    struct tide_sampler *s = code ? NULL : tide_alloc_zero(1, sizeof *s);
    if (!s) {
        return code ? code : TIDE_ENOMEM;
    }
    s->table = table;
    tide__table_hold(table);
    if (o.weights && !o.draw) {
        code = tide_alias_create(&s->alias, o.weights, (uint32_t)o.key_count);
    }
    s->options = o;
    code = code || !lists(s) ? code : here_create(s);
    s->options.weights = NULL; /* the caller's */
    tide_random_seed(&s->random, o.seed);
    if (code == 0 && pools(s)) {
        s->laid = tide_alloc((size_t)o.group * o.reuse * sizeof *s->laid);
        code = s->laid ? 0 : TIDE_ENOMEM;
    }
    if (code) {
        tide_sampler_destroy(s);
        return code;
    }
    *out = s;
    return 0;
}

void tide_sampler_destroy(struct tide_sampler *s) {
    if (!s) {
        return;
    }
    for (uint32_t i = 0; i < SAMPLES_MAX; i++) {
        if (s->samples[i]) {
            if (s->samples[i]->localizing) {
                tide_ticket_abandon(&s->samples[i]->localized);
            }
            sample_free(s, i);
        }
    }
    for (uint32_t i = 0; i < s->ahead; i++) {
        tide_ticket_abandon(&s->groups[(s->first + i) % GROUPS_AHEAD_MAX].localized);
    }
    for (uint32_t i = 0; i < GROUPS_AHEAD_MAX; i++) {
        tide_free(s->groups[i].keys);
    }
    tide_table_release(s->table);
    tide_alias_release(&s->alias);
    tide_alias_release(&s->here.alias);
    tide_free(s->here.weights);
    tide_free(s->here.shares);
    tide_free(s->here.keys);
    tide_free(s->laid);
    tide_free(s);
}

void tide_sampler_stats(const struct tide_sampler *s, struct tide_sampler_stats *out) {
    *out = s->stats;
}
