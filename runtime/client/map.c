/*
 * Slot maps: which node is home of which keys. A client that has a table's map sends keys straight to their homes,
 * which saves a hop; other operations go by the gateway, which finds all rows. A map is
 * a hint: a home that has given a slot away redirects, and does nothing of the request (store/client/rows.h). The
 * client then asks the gateway for the map anew, as it does when a home is no member any more.
 */
#include "client/inside.h"

#include <string.h>

enum {
    SLOTS = 1 << TIDE__SLOT_BITS,
    HOMES_MAX = CONNECTIONS_MAX - 2, /* nodes that one operation is cut for */
    KEYS_EACH = 32,                  /* of one home, on average: fewer are not worth a request of their own, unless
                                        they are a lookup's, which no home but theirs is to delay */
    MAP_S = 5,                       /* deadline of a question for a map */
};
#define ASK_EVERY (100 * MS) /* of one table */

struct client_map {
    unsigned holders; /* under the lock */
    uint64_t version;
    enum tide__slots_by by;
    bool pulls, pushes; /* may they go to the homes? */
    uint16_t only;      /* home of all slots; 0: there are several */
    uint16_t homes[SLOTS];
};

/* ---- learning ---- */

void client_map_release(struct client_map *map) { /* under the lock */
    if (map && --map->holders == 0) {
        tide_free(map);
    }
}

void client_map_want(struct tide_client_table *t) {
    if (t->map && TIDE_MUTANT(client_map_kept)) {
        return;
    }
    t->map_wanted = true;
    t->client->maps_wanted = true;
}

static void ask(struct tide_client_table *t) {
    struct tide_client *c = t->client;
    uint8_t buffer[32];
    struct tide_writer w;
    tide_writer_init(&w, buffer, sizeof buffer);
    tide_write_array(&w, 2);
    tide_write_uint(&w, TIDE__ROWS_MAP);
    tide_write_uint(&w, t->id);
    struct tide_client_op *op = client_op_of(c, OP_MAP, &w);
    if (op) {
        op->table = t;
        client_op_start_own(op, client_now(c) + MAP_S * TIDE_SECOND);
    }
}

/* Under the lock: requests maps that are needed and were not requested lately. */
void client_maps_ask(struct tide_client *c) {
    const uint64_t now = client_now(c);
    c->maps_wanted = false;
    for (struct tide_client_table *t = c->tables; t; t = t->next) {
        if (t->map_wanted && !t->stale && now >= t->map_at) {
            t->map_wanted = false;
            t->map_at = now + ASK_EVERY;
            ask(t);
        }
        c->maps_wanted = c->maps_wanted || (t->map_wanted && !t->stale);
    }
}

static bool read_flag(const struct tide_reader *of, const char *key) {
    struct tide_reader value;
    return tide_read_field(of, key, &value) && tide_read_bool(&value);
}

static uint64_t read_number(const struct tide_reader *of, const char *key) {
    struct tide_reader value;
    return tide_read_field(of, key, &value) ? tide_read_uint(&value) : UINT64_MAX;
}

int client_map_take(struct tide_client_table *t, const void *data, size_t size) {
    struct tide_reader r, list;
    tide_reader_init(&r, data, size);
    const uint64_t version = read_number(&r, "version"), by = read_number(&r, "slots");
    size_t count = 0;
    const void *homes = tide_read_field(&r, "homes", &list) ? tide_read_typed(&list, TIDE_U16, &count) : NULL;
    const bool pulls = read_flag(&r, "pulls");
    if (!homes || version == UINT64_MAX || by > TIDE__SLOTS_BY_RANGE || (pulls && count != SLOTS) ||
        (by == TIDE__SLOTS_BY_RANGE && t->key_count == 0)) {
        return tide_fail(TIDE_EPROTO, "the node sent a damaged map of table '%s'", t->name);
    }
    if (t->map && version < t->map->version) {
        return 0; /* the gateway does not have the newest change yet */
    }
    struct client_map *map = tide_alloc_zero(1, sizeof *map);
    if (!map) {
        return tide_fail(TIDE_ENOMEM, "no memory for a map of table '%s'", t->name);
    }
    map->holders = 1;
    map->version = version;
    map->by = (enum tide__slots_by)by;
    map->pulls = pulls;
    map->pushes = read_flag(&r, "pushes");
    if (count == SLOTS) {
        memcpy(map->homes, homes, sizeof map->homes);
        map->only = map->homes[0];
        for (size_t i = 1; i < SLOTS && map->only != 0; i++) {
            map->only = map->homes[i] == map->only ? map->only : 0;
        }
    }
    client_map_release(t->map);
    t->map = map;
    return 0;
}

/* ---- cutting ---- */

static uint16_t home_of(const struct tide_client_table *t, const struct client_map *map, uint64_t key) {
    const uint32_t slot = map->by == TIDE__SLOTS_BY_HASH    ? tide__slot_hashed(key)
                          : map->by == TIDE__SLOTS_BY_RANGE ? tide__slot_in_range(key, t->key_count)
                                                            : tide__slot_spread(key);
    return map->homes[slot];
}

struct groups {
    size_t count;
    uint16_t homes[HOMES_MAX];
    size_t sizes[HOMES_MAX];
};

/* The group of each key. False: too many homes for so few keys. */
static bool group(const struct tide_client_table *t, const struct client_map *map, const uint64_t *keys, size_t count,
                  struct groups *g, uint8_t *of) {
    const size_t each = t->client->granted == TIDE_RIGHT_READ ? 1 : KEYS_EACH;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const uint16_t home = home_of(t, map, keys[i]);
        if (g->count == 0 || g->homes[at] != home) {
            for (at = 0; at < g->count && g->homes[at] != home; at++) {
            }
            if (at == HOMES_MAX || (at == g->count && at > 0 && count < (at + 1) * each)) {
                return false;
            }
            g->homes[at] = home;
            g->count += at == g->count;
        }
        g->sizes[at]++;
        of[i] = (uint8_t)at;
    }
    return true;
}

/* Pieces of up to `each` keys of one home. */
static int order(const struct groups *g, const uint8_t *of, size_t count, size_t each, struct client_cut *out) {
    size_t pieces = 0, begins[HOMES_MAX], at = 0;
    for (size_t i = 0; i < g->count; i++) {
        pieces += (g->sizes[i] + each - 1) / each;
    }
    out->pieces = tide_alloc(pieces * sizeof *out->pieces);
    out->order = tide_alloc(count * sizeof *out->order);
    if (!out->pieces || !out->order) {
        client_cut_release(out);
        return tide_fail(TIDE_ENOMEM, "no memory to sort %zu keys by their homes", count);
    }
    out->count = 0;
    for (size_t i = 0; i < g->count; i++) {
        begins[i] = at;
        for (size_t done = 0; done < g->sizes[i]; done += each) {
            const size_t left = g->sizes[i] - done;
            out->pieces[out->count++] =
                (struct client_piece){.home = g->homes[i], .first = at + done, .count = left < each ? left : each};
        }
        at += g->sizes[i];
    }
    for (size_t i = 0; i < count; i++) {
        out->order[begins[of[i]]++] = (uint32_t)i;
    }
    return 0;
}

void client_cut_release(struct client_cut *cut) {
    tide_free(cut->pieces);
    tide_free(cut->order);
    *cut = (struct client_cut){0};
}

int client_cut(struct tide_client_table *t, enum op_kind kind, const uint64_t *keys, size_t count, size_t each,
               struct client_cut *out) {
    struct tide_client *c = t->client;
    *out = (struct client_cut){.count = count == 0 ? 1 : (count + each - 1) / each};
    pthread_mutex_lock(&c->lock);
    struct client_map *map = t->map;
    const bool direct =
        map && count > 0 && count <= UINT32_MAX && (kind == OP_PULL ? map->pulls : map->pushes && kind == OP_PUSH);
    out->only = direct ? map->only : 0;
    map = direct && map->only == 0 ? map : NULL;
    if (map) {
        map->holders++;
    }
    pthread_mutex_unlock(&c->lock);
    if (!map) {
        return 0;
    }
    int rc = 0;
    uint8_t few[256], *of = count <= sizeof few ? few : tide_alloc(count);
    struct groups g = {0};
    if (!of) {
        rc = tide_fail(TIDE_ENOMEM, "no memory to sort %zu keys by their homes", count);
    } else if (group(t, map, keys, count, &g, of)) {
        out->only = g.count == 1 ? g.homes[0] : 0;
        rc = g.count == 1 ? 0 : order(&g, of, count, each, out);
    }
    if (of != few) {
        tide_free(of);
    }
    pthread_mutex_lock(&c->lock);
    client_map_release(map);
    pthread_mutex_unlock(&c->lock);
    return rc;
}

struct client_piece client_piece_at(const struct client_cut *cut, size_t i, size_t count, size_t each) {
    const size_t first = i * each, left = count - first;
    return cut->pieces ? cut->pieces[i]
                       : (struct client_piece){.home = cut->only, .first = first, .count = left < each ? left : each};
}
