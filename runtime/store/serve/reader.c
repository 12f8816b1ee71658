/* See reader.h. A lookup holds the version it uses by its references; a refresh builds the next one beside it. */
#include "store/serve/reader.h"

#include "store/checkpoint/checkpoint.h"
#include "store/checkpoint/gone.h"
#include "store/rows/rules.h"
#include "store/rows/slot_index.h"
#include "store/serve/row_map.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS_AT_ONCE = 1024, MERGE_PART = 4, ATTEMPTS = 3 };

struct version {
    atomic_uint refs;
    uint64_t generation, id, cut_wall_ns, rows;
    struct tide__row_map *base, *overlay;
};

struct tide__reader {
    struct tide_port *port;
    char dir[TIDE__PATH_MAX], table[64];
    struct tide_table_options options;
    char name[64];
    struct tide_lock lock; /* of `now` */
    struct version *now;
    /* the one that refreshes */
    uint64_t loaded, read;
};

/* ---- files ---- */

/* A tensor of the file, of `columns` (0: of one dimension) numbers a row; NULL, and an error: it is another one. */
static const struct tide_safetensor *tensor_of(const struct tide__saved *s, const char *name, uint8_t dtype,
                                               uint64_t columns) {
    const struct tide_safetensor *t = tide_safetensors_find(&s->header, name);
    if (!t || t->dtype != dtype || t->rank != (columns ? 2 : 1) || (columns && t->shape[1] != columns)) {
        tide_fail(TIDE_EMISMATCH, "'%s' has no tensor '%s' as this table has it", s->path, name);
        return NULL;
    }
    return t;
}

static int put_gone(void *arg, const uint64_t *keys, size_t count) {
    int code = 0;
    for (size_t i = 0; i < count && !code; i++) {
        code = tide__row_map_put(arg, keys[i], NULL);
    }
    return code;
}

static int read_rows(const struct tide__saved *s, struct tide__row_map *into) {
    const struct tide_safetensor *values = tensor_of(s, "values", TIDE_DTYPE_F32, into->width);
    const struct tide_safetensor *keys = values ? tensor_of(s, "keys", TIDE_DTYPE_U64, 0) : NULL;
    if (!keys || keys->shape[0] != values->shape[0]) {
        return keys ? tide_fail(TIDE_EPROTO, "'%s': keys and rows are not as many", s->path) : TIDE_EMISMATCH;
    }
    const size_t bytes = into->width * sizeof(float);
    const uint64_t data = s->header.data;
    uint64_t some[ROWS_AT_ONCE];
    float *rows = tide_alloc(ROWS_AT_ONCE * bytes);
    int code = rows ? 0 : tide_fail(TIDE_ENOMEM, "no memory to read '%s'", s->path);
    for (uint64_t i = 0; i < keys->shape[0] && !code; i += ROWS_AT_ONCE) {
        const size_t count = keys->shape[0] - i < ROWS_AT_ONCE ? (size_t)(keys->shape[0] - i) : ROWS_AT_ONCE;
        code = tide__saved_bytes(s, some, count * sizeof *some, data + keys->begin + i * sizeof *some);
        code = code ? code : tide__saved_bytes(s, rows, count * bytes, data + values->begin + i * bytes);
        for (size_t j = 0; j < count && !code; j++) {
            code = tide__row_map_put(into, some[j], rows + j * into->width);
        }
    }
    tide_free(rows);
    return code;
}

/* Of one file: what is gone, or (`rows`) its rows. Gone keys of all files of a generation come before its rows. */
static int read_file(struct tide_port *port, const char *path, bool rows, struct tide__row_map *into) {
    struct tide__saved saved;
    int code = tide__saved_open(port, path, &saved);
    if (!code) {
        code = rows ? read_rows(&saved, into) : tide__gone_each(&saved, put_gone, into);
        tide__saved_close(&saved);
    }
    return code;
}

/* ---- generations ---- */

/* The table's part of the manifest: of that name, or the one table "RUN.NAME". */
static int find_table(const struct tide__manifest *m, const char *dir, const char *name,
                      const struct tide__manifest_table **out) {
    const struct tide__manifest_table *fits = NULL;
    size_t count = 0;
    for (size_t t = 0; t < m->table_count; t++) {
        const char *point = strchr(m->tables[t].name, '.');
        if (strcmp(m->tables[t].name, name) == 0) {
            *out = &m->tables[t];
            return 0;
        }
        if (point && strcmp(point + 1, name) == 0) {
            fits = &m->tables[t];
            count++;
        }
    }
    *out = fits;
    return count == 1 ? 0
           : count    ? tide_fail(TIDE_ENOENT, "several tables of '%s' could be '%s': name one with its run", dir, name)
                      : tide_fail(TIDE_ENOENT, "generation %llu of '%s' has no table '%s'",
                                  (unsigned long long)m->generation, dir, name);
}

static int each_file(struct tide_port *port, const char *dir, const struct tide__manifest *m,
                     const struct tide__manifest_table *t, bool verify, bool rows, struct tide__row_map *into) {
    char path[TIDE__PATH_MAX], name[TIDE__PATH_MAX];
    int code = 0;
    tide__generation_path(dir, m->generation, path);
    for (size_t i = 0; i < t->file_count && !code; i++) {
        const struct tide__manifest_file *f = &t->files[i];
        if (snprintf(name, sizeof name, "%s/%s", path, f->name) >= (int)sizeof name) {
            return tide_fail(TIDE_EINVAL, "a path that is too long");
        }
        code = verify ? tide__blocks_verify(port, name, f->size, f->sums_size, f->sums_sum)
                      : read_file(port, name, rows, into);
    }
    return code;
}

/* The table's part of one generation, all of it verified first. */
static int load_generation(struct tide_port *port, const char *dir, const struct tide__manifest *m, const char *table,
                           struct tide__row_map *into) {
    const struct tide__manifest_table *t;
    int code = find_table(m, dir, table, &t);
    if (code == TIDE_ENOENT && m->chain_count > 1) {
        return 0; /* it was made after this one */
    }
    code = code ? code : each_file(port, dir, m, t, true, false, NULL);
    code = code ? code : each_file(port, dir, m, t, false, false, into);
    return code ? code : each_file(port, dir, m, t, false, true, into);
}

/* The newest committed generation. */
static int newest(struct tide_port *port, const char *dir, struct tide__manifest *out) {
    uint64_t *numbers;
    size_t count;
    int code = tide__generation_list(port, dir, &numbers, &count);
    if (code) {
        return tide_fail(code == TIDE_EINVAL ? TIDE_ENOENT : code, "there is no checkpoint in '%s'", dir);
    }
    code = TIDE_ENOENT;
    for (size_t i = 0; i < count && code == TIDE_ENOENT; i++) {
        code = tide__generation_manifest(port, dir, numbers[i], out);
    }
    tide_free(numbers);
    return code == TIDE_ENOENT ? tide_fail(code, "there is no finished checkpoint in '%s'", dir) : code;
}

/* Where in the chain of `m` the generation lies that has this number and id, plus one; 0: it is not built on it. */
static size_t chain_place(struct tide_port *port, const char *dir, const struct tide__manifest *m, uint64_t generation,
                          uint64_t id) {
    for (size_t i = 0; i < m->chain_count; i++) {
        if (m->chain[i] != generation) {
            continue;
        }
        struct tide__manifest had;
        const bool same = m->chain[i] == m->generation ||
                          (tide__generation_manifest(port, dir, generation, &had) == 0 && (!id || had.id == id));
        if (m->chain[i] != m->generation) {
            tide__manifest_release(&had);
        }
        return same ? i + 1 : 0;
    }
    return 0;
}

/* The chain of `m` from place `first` on. */
static int load_chain(struct tide_port *port, const char *dir, const struct tide__manifest *m, const char *table,
                      size_t first, struct tide__row_map *into) {
    int code = 0;
    for (size_t i = first; i < m->chain_count && !code; i++) {
        if (m->chain[i] == m->generation) {
            code = load_generation(port, dir, m, table, into);
            continue;
        }
        struct tide__manifest below;
        code = tide__generation_manifest(port, dir, m->chain[i], &below);
        code = code ? code : load_generation(port, dir, &below, table, into);
        tide__manifest_release(&below);
    }
    return code;
}

/* ---- versions ---- */

static struct version *take(struct tide__reader *r) {
    tide_lock(&r->lock);
    struct version *v = r->now;
    if (v) {
        atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
    }
    tide_unlock(&r->lock);
    return v;
}

static void give(struct version *v) {
    if (v && atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) == 1) { /* after all lookups */
        tide__row_map_unref(v->base);
        tide__row_map_unref(v->overlay);
        tide_free(v);
    }
}

/* Keys with a row: an overlay has other rows of the base's keys, keys of its own, and keys that are gone. */
static uint64_t rows_of(const struct version *v) {
    uint64_t rows = v->base->live;
    for (size_t i = 0; v->overlay && i < v->overlay->capacity; i++) {
        const float *row;
        const uint64_t key = v->overlay->keys[i];
        const int now = v->overlay->at[i] ? tide__row_map_get(v->overlay, key, &row) : TIDE__MAP_NONE;
        if (now != TIDE__MAP_NONE) {
            rows += now == TIDE__MAP_ROW;
            rows -= tide__row_map_get(v->base, key, &row) == TIDE__MAP_ROW;
        }
    }
    return rows;
}

/* A new base of the rows of `old` and of `changes`. A copy is several times as fast as hashing all keys again; when a
 * quarter of its rows are of deleted keys, these are left out. */
static struct tide__row_map *make_base(const struct tide__row_map *old, const struct tide__row_map *changes) {
    const bool copied = old->live * MERGE_PART >= old->rows * (MERGE_PART - 1);
    struct tide__row_map *base = copied ? tide__row_map_clone(old) : tide__row_map_create(old->width);
    int code = base ? 0 : TIDE_ENOMEM;
    code = code || copied ? code : tide__row_map_add(base, old, changes, false);
    code = code ? code : tide__row_map_add(base, changes, NULL, copied);
    if (code) {
        tide__row_map_unref(base);
        (void)tide_fail(TIDE_ENOMEM, "no memory for the rows of a reader");
        return NULL;
    }
    return base;
}

/* What `old` has with `changes` over it; NULL: all is in `changes`. *takes* changes. */
static int make_version(const struct version *old, struct tide__row_map *changes, struct version **out) {
    struct version *v = tide_alloc_zero(1, sizeof *v);
    int code = v ? 0 : tide_fail(TIDE_ENOMEM, "no memory for a version of a reader");
    if (v) {
        atomic_init(&v->refs, 1);
    }
    if (!code && !old) {
        v->base = changes;
        changes = NULL;
    } else if (!code) {
        code = tide__row_map_add(changes, old->overlay, changes, true); /* the newer ones stay */
        if (!code && changes->used * MERGE_PART > old->base->used) {
            v->base = make_base(old->base, changes);
            code = v->base ? 0 : TIDE_ENOMEM;
        } else if (!code) {
            atomic_fetch_add_explicit(&old->base->refs, 1, memory_order_relaxed);
            v->base = old->base;
            v->overlay = changes;
            changes = NULL;
        }
    }
    tide__row_map_unref(changes);
    if (code) {
        give(v);
        return code;
    }
    v->rows = rows_of(v);
    *out = v;
    return 0;
}

static int agree(const struct tide__reader *r, const struct tide_table_options *o, const char *name) {
    const struct tide_table_options *mine = &r->options;
    if (o->width != mine->width || o->keys != mine->keys || o->seed != mine->seed || o->init != mine->init ||
        strcmp(name, r->name) != 0) {
        return tide_fail(TIDE_EMISMATCH,
                         "'%s' is of another table now: '%s' of width %u, not '%s' of width %u; open another reader",
                         r->dir, name, o->width, r->name, mine->width);
    }
    return 0;
}

static int advance(struct tide__reader *r, const struct tide__manifest *m) {
    struct version *old = r->now, *v = NULL;
    const size_t first = old ? chain_place(r->port, r->dir, m, old->generation, old->id) : 0;
    struct tide__row_map *changes = tide__row_map_create(r->options.width);
    int code = changes ? load_chain(r->port, r->dir, m, r->name, first, changes)
                       : tide_fail(TIDE_ENOMEM, "no memory for a reader of '%s'", r->dir);
    if (code) {
        tide__row_map_unref(changes);
        return code;
    }
    r->loaded += m->chain_count - first;
    r->read += changes->rows;
    code = make_version(first ? old : NULL, changes, &v);
    if (code) {
        return code;
    }
    v->generation = m->generation;
    v->id = m->id;
    v->cut_wall_ns = m->cut_wall_ns;
    tide_lock(&r->lock);
    r->now = v;
    tide_unlock(&r->lock);
    give(old);
    return 1;
}

static int refresh_once(struct tide__reader *r) {
    struct tide__manifest m;
    const struct tide__manifest_table *t = NULL;
    int code = newest(r->port, r->dir, &m);
    if (code) {
        return code;
    }
    code = find_table(&m, r->dir, r->table, &t);
    if (!code && !r->now) {
        r->options = t->options;
        (void)snprintf(r->name, sizeof r->name, "%s", t->name);
        r->options.name = r->name;
    }
    code = code ? code : agree(r, &t->options, t->name);
    if (!code && r->now && r->now->id == m.id) {
        /* nothing new */
    } else if (!code && r->now && m.generation <= r->now->generation) {
        code =
            tide_fail(TIDE_EMISMATCH,
                      "'%s' ends at generation %llu, older than %llu, which is served; open another reader to take it",
                      r->dir, (unsigned long long)m.generation, (unsigned long long)r->now->generation);
    } else if (!code) {
        code = advance(r, &m);
    }
    tide__manifest_release(&m);
    return code;
}

/* A generation may be removed while it is read: then there is a newer one. */
int tide__reader_refresh(struct tide__reader *r) {
    int code = refresh_once(r);
    for (int i = 1; i < ATTEMPTS && code == TIDE_ENOENT && r->now; i++) {
        code = refresh_once(r);
    }
    return code;
}

int tide__reader_open(struct tide_port *port, const char *dir, const char *table, struct tide__reader **out) {
    struct tide__reader *r = tide_alloc_zero(1, sizeof *r);
    if (!r) {
        return tide_fail(TIDE_ENOMEM, "no memory for a reader of '%s'", dir);
    }
    r->port = port;
    const bool fits = snprintf(r->dir, sizeof r->dir, "%s", dir) < (int)sizeof r->dir &&
                      snprintf(r->table, sizeof r->table, "%s", table) < (int)sizeof r->table;
    const int code = fits ? tide__reader_refresh(r) : tide_fail(TIDE_EINVAL, "a path or name that is too long");
    if (code < 0) {
        tide_free(r);
        return code;
    }
    *out = r;
    return 0;
}

void tide__reader_close(struct tide__reader *r) {
    if (r) {
        give(r->now);
        tide_free(r);
    }
}

/* ---- lookups ---- */

uint64_t tide__reader_pull(struct tide__reader *r, const uint64_t *keys, size_t count, float *rows, uint8_t *found) {
    struct version *v = take(r);
    const size_t width = r->options.width;
    for (size_t i = 0; i < count; i++) {
        const float *row = NULL;
        int state = tide__row_map_get(v->overlay, keys[i], &row);
        state = state == TIDE__MAP_NONE ? tide__row_map_get(v->base, keys[i], &row) : state;
        if (state == TIDE__MAP_ROW) {
            memcpy(rows + i * width, row, width * sizeof *row);
        } else {
            tide__row_init(&r->options, keys[i], rows + i * width, false);
        }
        if (found) {
            found[i] = state == TIDE__MAP_ROW;
        }
    }
    const uint64_t generation = v->generation;
    give(v);
    return generation;
}

void tide__reader_look(struct tide__reader *r, struct tide__reader_info *out) {
    struct version *v = take(r);
    *out = (struct tide__reader_info){
        .generation = v->generation,
        .id = v->id,
        .rows = v->rows,
        .bytes = tide__row_map_bytes(v->base) + tide__row_map_bytes(v->overlay),
        .cut_wall_ns = v->cut_wall_ns,
        .width = r->options.width,
        .loaded = r->loaded,
        .read = r->read,
    };
    give(v);
}

uint64_t tide__reader_behind(struct tide__reader *r) {
    struct version *v = take(r);
    const uint64_t now = r->port->ops->wall(r->port), cut = v->cut_wall_ns;
    give(v);
    return now > cut ? now - cut : 0;
}

/* ---- patches ---- */

static int patch_fill(const struct tide__row_map *map, struct tide__patch *out) {
    uint64_t *sorted = tide_alloc((map->used + 1) * sizeof *sorted);
    size_t used = 0;
    out->keys = tide_alloc((map->used + 1) * sizeof *out->keys);
    out->gone = tide_alloc((map->used + 1) * sizeof *out->gone);
    out->values = tide_alloc((map->rows + 1) * map->width * sizeof *out->values);
    if (!sorted || !out->keys || !out->gone || !out->values) {
        tide_free(sorted);
        return tide_fail(TIDE_ENOMEM, "no memory for %zu changed keys", map->used);
    }
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->at[i]) {
            sorted[used++] = map->keys[i];
        }
    }
    qsort(sorted, used, sizeof *sorted, tide__key_compare);
    for (size_t i = 0; i < used; i++) {
        const float *row = NULL;
        if (tide__row_map_get(map, sorted[i], &row) == TIDE__MAP_ROW) {
            memcpy(out->values + out->count * map->width, row, map->width * sizeof *row);
            out->keys[out->count++] = sorted[i];
        } else {
            out->gone[out->gone_count++] = sorted[i];
        }
    }
    tide_free(sorted);
    return 0;
}

int tide__patch_read(struct tide_port *port, const char *dir, const char *table, uint64_t since,
                     struct tide__patch *out) {
    struct tide__manifest m;
    const struct tide__manifest_table *t = NULL;
    memset(out, 0, sizeof *out);
    int code = newest(port, dir, &m);
    if (code) {
        return code;
    }
    code = find_table(&m, dir, table, &t);
    if (!code && since > m.generation) {
        code = tide_fail(TIDE_EMISMATCH, "'%s' ends at generation %llu; there is nothing since %llu", dir,
                         (unsigned long long)m.generation, (unsigned long long)since);
    }
    struct tide__row_map *map = code ? NULL : tide__row_map_create(t->options.width);
    const size_t first = code || !since ? 0 : chain_place(port, dir, &m, since, 0);
    code = code ? code : map ? load_chain(port, dir, &m, t->name, first, map) : TIDE_ENOMEM;
    if (!code) {
        out->from = first ? since : 0;
        out->to = m.generation;
        out->id = m.id;
        out->width = map->width;
        (void)snprintf(out->table, sizeof out->table, "%s", t->name);
        code = patch_fill(map, out);
    }
    tide__row_map_unref(map);
    tide__manifest_release(&m);
    if (code) {
        tide__patch_release(out);
    }
    return code;
}

void tide__patch_release(struct tide__patch *patch) {
    tide_free(patch->keys);
    tide_free(patch->gone);
    tide_free(patch->values);
    memset(patch, 0, sizeof *patch);
}
