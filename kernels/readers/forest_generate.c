/*
 * Generated forests: random and balanced trees, chains of words, lattices. Every draw is fixed by
 * tests and may not move: splitmix64, one stream a set, samples in order.
 */
#include "readers/forest.h"

#include "base/base.h"

#include <string.h>

struct draw {
    uint64_t state;
};

static uint32_t below(struct draw *d, uint32_t n) {
    d->state += UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(((tide_mix64(d->state) >> 32) * n) >> 32);
}

/* Leaves of the trees of the Stanford Sentiment Treebank's training part: how many trees have them. */
static const uint16_t sentence_leaves[][2] = {
    {2, 40},   {3, 96},   {4, 152},  {5, 154},  {6, 231},  {7, 218},  {8, 228},  {9, 265},  {10, 298},
    {11, 305}, {12, 308}, {13, 319}, {14, 334}, {15, 353}, {16, 334}, {17, 327}, {18, 342}, {19, 351},
    {20, 325}, {21, 312}, {22, 317}, {23, 296}, {24, 290}, {25, 259}, {26, 238}, {27, 223}, {28, 226},
    {29, 171}, {30, 157}, {31, 158}, {32, 151}, {33, 124}, {34, 123}, {35, 99},  {36, 69},  {37, 54},
    {38, 61},  {39, 38},  {40, 31},  {41, 40},  {42, 24},  {43, 24},  {44, 20},  {45, 18},  {46, 11},
    {47, 3},   {48, 8},   {49, 8},   {50, 4},   {51, 4},   {52, 3}};

static uint32_t draw_leaves(struct draw *d) {
    uint32_t total = 0;
    for (size_t i = 0; i < TIDE_COUNT(sentence_leaves); i++) {
        total += sentence_leaves[i][1];
    }
    uint32_t k = below(d, total), i = 0;
    for (total = sentence_leaves[0][1]; total <= k;) {
        total += sentence_leaves[++i][1];
    }
    return sentence_leaves[i][0];
}

/* One sample while it is drawn; `room` vertices, edges. */
struct sample {
    size_t room, edge_room, count, edges;
    uint32_t *start, *list;
    int32_t *child, *word, *label;
};

static int reserve(struct sample *s, size_t vertices, size_t edges) {
    if (vertices > s->room) {
        s->room = 2 * vertices;
        tide_free(s->start);
        tide_free(s->list);
        tide_free(s->word);
        tide_free(s->label);
        s->start = tide_alloc((s->room + 1) * sizeof(*s->start));
        s->list = tide_alloc(s->room * sizeof(*s->list));
        s->word = tide_alloc(s->room * sizeof(*s->word));
        s->label = tide_alloc(s->room * sizeof(*s->label));
    }
    if (edges > s->edge_room || !s->child) {
        s->edge_room = 2 * edges + 1;
        tide_free(s->child);
        s->child = tide_alloc(s->edge_room * sizeof(*s->child));
    }
    s->count = s->edges = 0;
    return s->start && s->list && s->word && s->label && s->child ? 0 : TIDE_ENOMEM;
}

static void release(struct sample *s) {
    tide_free(s->start);
    tide_free(s->list);
    tide_free(s->child);
    tide_free(s->word);
    tide_free(s->label);
}

/* A vertex without children yet; its edges follow. */
static void add_vertex(struct sample *s) {
    s->start[s->count++] = (uint32_t)s->edges;
    s->start[s->count] = (uint32_t)s->edges;
    s->word[s->count - 1] = -1;
}

static void add_child(struct sample *s, uint32_t child) {
    s->child[s->edges++] = (int32_t)child;
    s->start[s->count] = (uint32_t)s->edges;
}

/* Childless: word % 5; else the children's maximum. */
static void label(struct sample *s) {
    for (size_t v = 0; v < s->count; v++) {
        int32_t most = s->start[v] == s->start[v + 1] ? s->word[v] % 5 : 0;
        for (uint32_t e = s->start[v]; e < s->start[v + 1]; e++) {
            int32_t below_it = s->label[s->child[e]];
            most = below_it > most ? below_it : most;
        }
        s->label[v] = most;
    }
}

static int finish(struct tide_forest *f, const struct sample *s) {
    const int32_t *inputs[2] = {s->word, s->label};
    return tide_forest_add(f, s->count, s->start, s->child, inputs, NULL);
}

static int draw_tree(const struct tide_forest_law *law, struct draw *d, size_t number, bool skewed, struct sample *s) {
    uint32_t leaves = 1, merged = 0;
    if (skewed) {
        leaves = law->leaves ? law->leaves : draw_leaves(d);
    } else if (number % 16 != 0) {
        leaves = 1 + below(d, law->max);
        leaves += below(d, law->max);
    }
    int code = reserve(s, 2 * (size_t)leaves, 2 * (size_t)leaves);
    for (uint32_t i = 0; code == 0 && i < leaves; i++) {
        add_vertex(s);
        s->list[i] = i;
    }
    for (uint32_t length = leaves; code == 0 && length > 1; length--) {
        uint32_t i;
        if (skewed && below(d, 100) < law->skew) {
            i = merged > 0 ? merged - 1 : 0;
        } else {
            i = below(d, length - 1);
        }
        i = i + 1 < length ? i : length - 2;
        merged = i;
        add_vertex(s);
        add_child(s, s->list[i]);
        add_child(s, s->list[i + 1]);
        s->list[i] = (uint32_t)s->count - 1;
        memmove(s->list + i + 1, s->list + i + 2, (length - i - 2) * sizeof(*s->list));
    }
    for (uint32_t i = 0; code == 0 && i < leaves; i++) {
        s->word[i] = (int32_t)below(d, law->vocabulary);
    }
    return code;
}

static int draw_balanced(const struct tide_forest_law *law, struct draw *d, struct sample *s) {
    int code = reserve(s, 2 * (size_t)law->leaves, 2 * (size_t)law->leaves);
    uint32_t first = 0, width = law->leaves;
    for (uint32_t i = 0; code == 0 && i < width; i++) {
        add_vertex(s);
        s->word[i] = (int32_t)below(d, law->vocabulary);
    }
    while (code == 0 && width > 1) {
        for (uint32_t i = 0; i < width / 2; i++) {
            add_vertex(s);
            add_child(s, first + 2 * i);
            add_child(s, first + 2 * i + 1);
        }
        first += width;
        width /= 2;
    }
    return code;
}

/* Word t is read at vertex t (0 first), and what comes next is its label. */
static int draw_chain(const struct tide_forest_law *law, struct draw *d, struct sample *s) {
    uint32_t n = law->leaves;
    if (n == 0) {
        n = 2 + below(d, 20);
        n += below(d, 21);
    }
    uint32_t words = law->vocabulary - 1, w = below(d, words) + 1, before = 0;
    int code = reserve(s, n, n);
    for (uint32_t t = 0; code == 0 && t < n; t++) {
        uint32_t emitted = t + 1 < n ? w : 0;
        if (t + 1 < n) {
            w = (5 * w + below(d, 4)) % words + 1;
        }
        add_vertex(s);
        if (t > 0) {
            add_child(s, t - 1);
        }
        s->word[t] = (int32_t)before;
        s->label[t] = (int32_t)emitted;
        before = emitted;
    }
    return code;
}

static int draw_lattice(const struct tide_forest_law *law, struct draw *d, struct sample *s) {
    uint32_t n = 8 + below(d, 25);
    int code = reserve(s, n, 3 * (size_t)n);
    for (uint32_t i = 0; code == 0 && i < n; i++) {
        add_vertex(s);
        s->word[i] = (int32_t)below(d, law->vocabulary);
        uint32_t wanted = i > 0 ? below(d, 4) : 0;
        for (uint32_t k = 0; k < wanted; k++) {
            uint32_t c = i - 1 - below(d, i < 6 ? i : 6);
            bool already = false;
            for (uint32_t e = s->start[i]; e < s->start[i + 1]; e++) {
                already = already || s->child[e] == (int32_t)c;
            }
            if (!already) {
                add_child(s, c);
            }
        }
    }
    return code;
}

int tide_forest_generate(const struct tide_forest_law *law, struct tide_forest **out) {
    static const char *const names[] = {"random_trees", "skewed_trees", "balanced_trees", "chains", "lattices"};
    enum { RANDOM, SKEWED, BALANCED, CHAINS, LATTICES, COUNT };
    size_t which = 0;
    while (which < COUNT && strcmp(law->name, names[which]) != 0) {
        which++;
    }
    if (which == COUNT) {
        return tide_fail(TIDE_EINVAL,
                         "no forest is named \"%s\": random_trees, skewed_trees, balanced_trees, "
                         "chains, lattices",
                         law->name);
    }
    if (law->samples == 0 || law->vocabulary < 2 || law->vocabulary > INT32_MAX || law->samples > UINT32_MAX ||
        law->leaves > 1u << 24 || law->skew > 100 || (which == RANDOM && (law->max == 0 || law->max > 1u << 24)) ||
        (which == BALANCED && (law->leaves == 0 || (law->leaves & (law->leaves - 1)) != 0))) {
        return tide_fail(TIDE_EINVAL,
                         "%s: at least one sample and two words; max from 1 (random_trees), leaves "
                         "a power of two (balanced_trees), skew in per cent",
                         law->name);
    }
    struct tide_forest *f = NULL;
    struct sample s = {0};
    struct draw d = {law->seed};
    int code = tide_forest_create(&f);
    code = code == 0 ? tide_forest_input(f, "word", false, true, 1, law->vocabulary) : code;
    code = code == 0 ? tide_forest_input(f, "label", false, true, 1, which == CHAINS ? law->vocabulary : 5) : code;
    for (size_t i = 0; code == 0 && i < law->samples; i++) {
        code = which == BALANCED   ? draw_balanced(law, &d, &s)
               : which == CHAINS   ? draw_chain(law, &d, &s)
               : which == LATTICES ? draw_lattice(law, &d, &s)
                                   : draw_tree(law, &d, i, which == SKEWED, &s);
        if (code == 0 && which != CHAINS) {
            label(&s);
        }
        code = code == 0 ? finish(f, &s) : code;
    }
    release(&s);
    if (code != 0) {
        tide_forest_destroy(f);
        return code;
    }
    *out = f;
    return 0;
}
