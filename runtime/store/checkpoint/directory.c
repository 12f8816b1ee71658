/* See checkpoint.h. */
#include "store/checkpoint/checkpoint.h"

#include <stdlib.h>

void tide__generation_path(const char *dir, uint64_t generation, char out[TIDE__PATH_MAX]) {
    (void)snprintf(out, TIDE__PATH_MAX, "%s/%06llu", dir, (unsigned long long)generation);
}

void tide__manifest_path(const char *dir, uint64_t generation, char out[TIDE__PATH_MAX + 16]) {
    char path[TIDE__PATH_MAX];
    tide__generation_path(dir, generation, path);
    (void)snprintf(out, TIDE__PATH_MAX + 16, "%s/MANIFEST.json", path);
}

/* ---- which there are ---- */

struct numbers {
    uint64_t *at;
    size_t count;
};

static void note_number(void *arg, const char *name) {
    struct numbers *n = arg;
    size_t length = strlen(name);
    bool number = length >= 6 && length <= 18 && strspn(name, "0123456789") == length;
    if (number && n->count < TIDE__GENERATIONS_MAX) {
        n->at[n->count++] = strtoull(name, NULL, 10);
    }
}

static int compare_down(const void *a, const void *b) {
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x > y ? -1 : x < y;
}

int tide__generation_list(struct tide_port *port, const char *dir, uint64_t **out, size_t *count) {
    struct numbers n = {.at = tide_alloc(TIDE__GENERATIONS_MAX * sizeof *n.at)};
    *out = NULL;
    *count = 0;
    if (!n.at) {
        return tide_fail(TIDE_ENOMEM, "no memory to list '%s'", dir);
    }
    int code = port->ops->file_list(port, dir, note_number, &n);
    if (code) {
        tide_free(n.at);
        return code;
    }
    if (n.count) {
        qsort(n.at, n.count, sizeof *n.at, compare_down);
    }
    *out = n.at;
    *count = n.count;
    return 0;
}

int tide__generation_manifest(struct tide_port *port, const char *dir, uint64_t generation,
                              struct tide__manifest *out) {
    char name[TIDE__PATH_MAX + 16], *text;
    size_t size;
    memset(out, 0, sizeof *out);
    tide__manifest_path(dir, generation, name);
    int code = tide_port_slurp(port, name, TIDE__MANIFEST_MAX, &text, &size);
    if (code) {
        return code == TIDE_ENOENT ? tide_fail(code, "'%s' is missing: it was never finished", name) : code;
    }
    code = tide__manifest_parse(text, size, out);
    tide_free(text);
    if (!code && out->generation != generation) {
        code = tide_fail(TIDE_EPROTO, "it is of generation %llu", (unsigned long long)out->generation);
    }
    if (code) {
        char why[400];
        (void)snprintf(why, sizeof why, "%s", tide_error_message());
        tide__manifest_release(out);
        return tide_fail(code, "'%s': %s", name, why);
    }
    return 0;
}

struct tide_checkpoint_info tide__manifest_info(const struct tide__manifest *m) {
    return (struct tide_checkpoint_info){.generation = m->generation,
                                         .bytes = m->bytes,
                                         .rows = m->rows,
                                         .wall_ns = m->wall_ns,
                                         .clock = m->clock,
                                         .full = m->full,
                                         .committed = true};
}

/* ---- are they whole ---- */

static int verify_files(struct tide_port *port, const char *dir, const struct tide__manifest *m) {
    char path[TIDE__PATH_MAX], name[TIDE__PATH_MAX];
    tide__generation_path(dir, m->generation, path);
    int code = 0;
    for (size_t t = 0; t < m->table_count && !code; t++) {
        const struct tide__manifest_table *table = &m->tables[t];
        for (size_t i = 0; i < table->file_count && !code; i++) {
            const struct tide__manifest_file *f = &table->files[i];
            if (snprintf(name, sizeof name, "%s/%s", path, f->name) >= (int)sizeof name) {
                return tide_fail(TIDE_EINVAL, "a path that is too long");
            }
            code = tide__blocks_verify(port, name, f->size, f->sums_size, f->sums_sum);
        }
    }
    return code;
}

int tide__generation_verify(struct tide_port *port, const char *dir, const struct tide__manifest *m) {
    int code = 0;
    for (size_t i = 0; i + 1 < m->chain_count && !code; i++) {
        struct tide__manifest below;
        code = tide__generation_manifest(port, dir, m->chain[i], &below);
        code = code ? code : verify_files(port, dir, &below);
        tide__manifest_release(&below);
    }
    return code ? code : verify_files(port, dir, m);
}

/* ---- the end of one ---- */

struct removal {
    struct tide_port *port;
    const char *path;
};

static void remove_file(void *arg, const char *name) {
    const struct removal *r = arg;
    char path[TIDE__PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", r->path, name) < (int)sizeof path) {
        (void)r->port->ops->file_unlink(r->port, path);
    }
}

bool tide__generation_remove(struct tide_port *port, const char *dir, uint64_t generation) {
    char path[TIDE__PATH_MAX], name[TIDE__PATH_MAX + 16];
    tide__generation_path(dir, generation, path);
    tide__manifest_path(dir, generation, name);
    struct removal r = {port, path};
    /* Without it, it is none, and what follows may be cut short. But that it is gone must be
     * certain: if a crash brings it back, it must stand for a whole generation. */
    int code = port->ops->file_unlink(port, name);
    code = code == 0 || code == TIDE_ENOENT ? port->ops->directory_sync(port, path) : code;
    if (code && !TIDE_MUTANT(removal_not_synced)) {
        return false;
    }
    (void)port->ops->file_list(port, path, remove_file, &r);
    (void)port->ops->file_unlink(port, path);
    return true;
}
