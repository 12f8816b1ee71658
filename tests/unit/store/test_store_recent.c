/*
 * Ids of pushes (store/replica/dedup.c) against a table of what each slot has had: pushes come nearly in
 * order and in parts, origins say what they wait for, slots are forgotten and come from another
 * node, copies are told. `--seeds N` for more.
 */
#include "seeded.h"

#include "store/replica/replica.h"

enum { SLOTS = 6, ORIGINS = 3, SEQUENCES = 400, STEPS = 4000 };

struct node {
    struct tide_store *store;
    struct tide_table *table;
    bool had[SLOTS][ORIGINS][SEQUENCES], told[SLOTS][ORIGINS][SEQUENCES];
    bool tells; /* copies are being told; had then; of slots below this one */
    bool began[SLOTS][ORIGINS][SEQUENCES];
    unsigned below;
};

static const uint16_t origins[ORIGINS] = {1, 2, 700};
static const uint32_t slots[SLOTS] = {0, 1, 17, 64, 4000, 4095};

static uint64_t *low_of(const struct node *n, unsigned origin) {
    return &n->store->replication->low[origins[origin]];
}

static void node_init(struct node *n) {
    memset(n, 0, sizeof *n);
    n->store = calloc(1, sizeof *n->store);
    n->store->replication = calloc(1, sizeof *n->store->replication);
    n->table = calloc(1, sizeof *n->table);
    n->table->store = n->store;
    n->table->parts[TIDE__PART_REPLICAS] = calloc(1, sizeof *tide__replicas_of(n->table));
    assert_int_equal(tide__dedup_create(n->table), 0);
}

static void node_deinit(struct node *n) {
    tide__dedup_destroy(n->table);
    free(tide__replicas_of(n->table));
    free(n->table);
    free(n->store->replication);
    free(n->store);
}

/* What of a push is new in some of its slots is applied there, as a home does. */
static void push(struct node *n, struct tide_random *random, unsigned origin, uint64_t sequence) {
    const enum tide__id_state state = tide__dedup_look(n->table, origins[origin], sequence);
    const struct tide__replicas *replicas = tide__replicas_of(n->table);
    bool any = false;
    assert_int_equal(state == TIDE__ID_OVER, sequence < *low_of(n, origin));
    assert_int_equal(tide__dedup_reserve(n->table, origins[origin], 1, SLOTS), 0);
    for (unsigned s = 0; s < SLOTS && state != TIDE__ID_OVER; s++) {
        const bool known = state == TIDE__ID_KNOWN &&
                           replicas->slots[slots[s]].mark == replicas->mark_now &&
                           replicas->slots[slots[s]].marked;
        assert_int_equal(known, n->had[s][origin][sequence]);
        any |= known;
        if (!known && tide_random_below(random, 3) == 0) {
            tide__dedup_add(n->table, slots[s], origins[origin], sequence);
            n->had[s][origin][sequence] = true;
        }
    }
    assert_int_equal(any, state == TIDE__ID_KNOWN);
}

/* A slot's ids go from one node to another, with the marks. */
static void move(struct node *from, struct node *to, unsigned s) {
    size_t count;
    uint64_t *pairs = tide__dedup_list(from->table, slots[s], &count);
    assert_non_null(pairs);
    const struct tide__array ids = {.at = (const uint8_t *)pairs, .count = 2 * count},
                             lows = {.at = (const uint8_t *)(pairs + 2 * count), .count = 2 * count};
    assert_int_equal(tide__dedup_take(to->table, slots[s], &ids, &lows), 0);
    tide_free(pairs);
    for (unsigned o = 0; o < ORIGINS; o++) {
        for (unsigned q = 0; q < SEQUENCES; q++) {
            to->had[s][o][q] = from->had[s][o][q] && q >= *low_of(from, o);
            to->told[s][o][q] = to->began[s][o][q] = false;
        }
    }
}

/* Copies of a slot are told, with what came since it began, unless none of its rows changed. */
static void tell_slot(struct node *n, unsigned s, bool listed) {
    uint64_t *ids = calloc(tide__dedup_untold(n->table) + 1, TIDE__ID_FIELDS * sizeof *ids);
    static bool heard[ORIGINS][SEQUENCES];
    memset(heard, 0, sizeof heard);
    tide__replicas_mark(tide__replicas_of(n->table));
    (void)(listed && tide__replicas_first(tide__replicas_of(n->table), slots[s]));
    const uint32_t count = tide__dedup_tell(n->table, ids);
    for (const uint64_t *id = ids; id < ids + TIDE__ID_FIELDS * count; id += TIDE__ID_FIELDS) {
        assert_int_equal(id[0], slots[s]);
        for (unsigned o = 0; o < ORIGINS; o++) {
            heard[o][id[2]] |= origins[o] == id[1];
        }
    }
    for (unsigned o = 0; o < ORIGINS; o++) {
        for (unsigned q = 0; q < SEQUENCES; q++) {
            const bool due = n->had[s][o][q] && q >= *low_of(n, o) && !n->told[s][o][q];
            assert_int_equal(heard[o][q], listed && due);
        }
    }
    free(ids);
}

/* The next slot's copies; after the last, all have heard of what there was when it began. */
static void tell(struct node *n, bool listed) {
    if (!n->tells) {
        tide__dedup_telling(n->table);
        memcpy(n->began, n->had, sizeof n->began);
        n->tells = true;
        n->below = 0;
    } else if (n->below < SLOTS) {
        tell_slot(n, n->below++, listed);
    } else {
        for (unsigned s = 0; s < SLOTS; s++) {
            for (unsigned o = 0; o < ORIGINS; o++) {
                for (unsigned q = 0; q < SEQUENCES; q++) {
                    n->told[s][o][q] |= n->began[s][o][q];
                }
            }
        }
        tide__dedup_told(n->table);
        n->tells = false;
    }
}

static void run(uint64_t seed) {
    static struct node nodes[2];
    uint64_t next[ORIGINS] = {1, 1, 1};
    struct tide_random random;
    tide_random_seed(&random, seed);
    node_init(&nodes[0]);
    node_init(&nodes[1]);
    for (unsigned i = 0; i < STEPS; i++) {
        struct node *n = &nodes[tide_random_below(&random, 2)], *other = &nodes[n == nodes];
        const unsigned o = (unsigned)tide_random_below(&random, ORIGINS);
        const unsigned s = (unsigned)tide_random_below(&random, SLOTS);
        const uint64_t step = tide_random_below(&random, 100);
        if (step < 60) {
            const uint64_t back = tide_random_below(&random, 4) ? 0 : tide_random_below(&random, 20);
            push(n, &random, o, next[o] > back ? next[o] - back : next[o]);
            next[o] += next[o] + 1 < SEQUENCES && tide_random_below(&random, 4) == 0;
        } else if (step < 66) {
            tide__dedup_low(n->store, origins[o],
                             next[o] - tide_random_below(&random, next[o] < 30 ? next[o] : 30));
        } else if (step < 70) {
            tide__dedup_drop(n->table, slots[s]);
            memset(n->had[s], 0, sizeof n->had[s]);
            memset(n->told[s], 0, sizeof n->told[s]);
            memset(n->began[s], 0, sizeof n->began[s]);
        } else if (step < 74) {
            move(n, other, s);
        } else if (step < 94) {
            tell(n, s > 0);
        }
    }
    node_deinit(&nodes[0]);
    node_deinit(&nodes[1]);
}

static void slots_have_had_what_came_to_them(void **state) {
    (void)state;
    for (uint64_t seed = seed_first; seed < seed_first + seeds(20); seed++) {
        run(seed);
    }
}

int main(int argc, char **argv) {
    seeded_options(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_have_had_what_came_to_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
