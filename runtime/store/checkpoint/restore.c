/*
 * Back from a checkpoint. The newest generation whose every block verifies is found first, then
 * tables are looked at, and only then is a row touched. The rows are pushed with their state by the
 * node that reads, a generation after the other of the chain, so it does not matter which nodes
 * wrote them or how many there are now.
 */
#include "store/core/node_store.h"
#include "store/rows/forget.h"
#include "store/rows/rules.h"
#include "store/checkpoint/checkpoint.h"
#include "store/checkpoint/gone.h"
#include "store/checkpoint/save.h"

/* ---- which generation ---- */

static void add_line(struct tide_writer *skipped, uint64_t generation) {
    char line[600];
    int length = snprintf(line, sizeof line, "generation %llu is skipped: %s\n", (unsigned long long)generation,
                          tide_error_message());
    size_t size = length < (int)sizeof line ? (size_t)length : sizeof line - 1;
    void *out = tide_write_reserve(skipped, size);
    if (out) {
        memcpy(out, line, size);
    }
}

/* 0, or why this one cannot be used. */
static int examine(struct tide_port *port, const char *dir, uint64_t generation, struct tide__manifest *out) {
    int code = tide__generation_manifest(port, dir, generation, out);
    if (!code) {
        code = tide__generation_verify(port, dir, out);
        if (code) {
            char text[500];
            (void)snprintf(text, sizeof text, "%s", tide_error_message());
            tide__manifest_release(out);
            tide_fail(code, "%s", text);
        }
    }
    return code;
}

static int choose(struct tide_port *port, const char *dir, uint64_t wanted, struct tide__manifest *out,
                  struct tide_writer *skipped) {
    uint64_t *numbers;
    size_t count;
    int code = tide__generation_list(port, dir, &numbers, &count), first = 0;
    if (code) {
        char text[400];
        (void)snprintf(text, sizeof text, "%s", tide_error_message());
        return tide_fail(code == TIDE_EINVAL ? TIDE_ENOENT : code, /* it is no directory */
                         "there is no checkpoint in '%s': %s", dir, text);
    }
    bool found = false;
    for (size_t i = 0; i < count && !found; i++) {
        if (wanted && numbers[i] != wanted) {
            continue;
        }
        code = examine(port, dir, numbers[i], out);
        found = code == 0;
        if (code == TIDE_EVERSION || code == TIDE_ENOMEM) {
            break; /* an older one is not what is wanted then */
        }
        if (code && !(code == TIDE_ENOENT && !wanted && strstr(tide_error_message(), "finished"))) {
            add_line(skipped, numbers[i]); /* one that was never finished is not reported */
            first = first ? first : code;
        }
    }
    tide_free(numbers);
    if (found || code == TIDE_EVERSION || code == TIDE_ENOMEM) {
        return found ? 0 : code;
    }
    if (skipped->size) {
        return tide_fail(wanted ? first : TIDE_EPROTO, "no generation in '%s' is whole: %.*s", dir,
                         (int)(skipped->size < 300 ? skipped->size - 1 : 300), (const char *)skipped->data);
    }
    return wanted ? tide_fail(TIDE_ENOENT, "there is no generation %llu in '%s'", (unsigned long long)wanted, dir)
                  : tide_fail(TIDE_ENOENT, "there is no finished checkpoint in '%s'", dir);
}

/* ---- rows ---- */

struct later { /* of a generation in the chain: the keys of a table that went after it */
    const struct tide__gone *gone;
    uint64_t place;
};

static bool went_later(const void *arg, uint64_t key) {
    const struct later *l = arg;
    return tide__gone_after(l->gone, key, l->place);
}

static int load_file(struct tide_table *table, const char *path, const struct later *later) {
    const struct tide__save_filter filter = {went_later, later};
    struct tide__saved saved;
    int code = tide__saved_open(table->store->port, path, &saved);
    if (code) {
        return code;
    }
    code = tide__saved_check(table, &saved);
    code = code ? code : tide__saved_check_keys(table, &saved, false);
    code = code ? code : tide__saved_rows(table, &saved, &filter);
    tide__saved_close(&saved);
    return code;
}

/* Where the table's own name begins, at its point, if it belongs to a run of the job: "JOB-12.rest" of run 12; else
 * NULL. A table that belongs to no run may be called so too. Earlier versions recorded names only. */
static const char *rest_of(const struct tide__manifest_table *table, const char *job) {
    const size_t length = strlen(job);
    const char *at = table->name + length;
    if (table->run == 0 || strncmp(table->name, job, length) != 0) {
        return NULL;
    }
    if (table->run != UINT32_MAX) {
        char number[16];
        const size_t digits = (size_t)snprintf(number, sizeof number, "-%u.", (unsigned)table->run);
        return strncmp(at, number, digits) == 0 ? at + digits - 1 : NULL;
    }
    if (at[0] == '-' && at[1] >= '0' && at[1] <= '9') {
        at += 1 + strspn(at + 1, "0123456789");
    }
    return *at == '.' ? at : NULL;
}

static void tables_rename(struct tide__manifest *m, const struct tide__restore_as *as) {
    size_t kept = 0;
    for (size_t t = 0; as && t < m->table_count; t++) {
        struct tide__manifest_table *table = &m->tables[t];
        const char *rest = rest_of(table, as->job);
        char name[sizeof table->name];
        if (rest && snprintf(name, sizeof name, "%s%s", as->run, rest) < (int)sizeof name) {
            memcpy(table->name, name, sizeof name);
            table->options.run = as->number;
            table->options.domain = TIDE_MUTANT(restore_former_clocks) ? table->options.domain : as->number;
            table->options.run_memory = as->memory;
        } else if (!as->others) {
            tide_free(table->files);
            continue;
        }
        m->tables[kept++] = *table;
    }
    m->table_count = as ? kept : m->table_count;
    for (size_t t = 0; t < m->table_count; t++) {
        m->tables[t].options.name = m->tables[t].name;
    }
}

/* Where the table of that name is in the manifest; its count: nowhere. */
static size_t place_of(const struct tide__manifest *m, const char *name) {
    size_t t = 0;
    while (t < m->table_count && strcmp(m->tables[t].name, name) != 0) {
        t++;
    }
    return t;
}

/* A generation of the chain: of its tables those that the newest has, too. First what went, then all rows. */
struct loading {
    struct tide_node *node;
    const char *dir;
    const struct tide__manifest *newest;
    const struct tide__restore_as *as;
    struct tide__gone *gone; /* of each table of the newest */
    uint64_t *row_count;     /* rows that were read */
};

static int each_file(const struct loading *l, const struct tide__manifest *m, uint64_t place, bool rows) {
    char path[TIDE__PATH_MAX], name[TIDE__PATH_MAX];
    int code = 0;
    tide__generation_path(l->dir, m->generation, path);
    for (size_t t = 0; t < m->table_count && !code; t++) {
        struct tide_table *table = NULL;
        const size_t at = place_of(l->newest, m->tables[t].name);
        if (at == l->newest->table_count) {
            continue; /* it was dropped since */
        }
        const struct later later = {&l->gone[at], place};
        code = tide_table_find(l->node, m->tables[t].name, &table);
        for (size_t i = 0; i < m->tables[t].file_count && !code; i++) {
            if (snprintf(name, sizeof name, "%s/%s", path, m->tables[t].files[i].name) >= (int)sizeof name) {
                code = tide_fail(TIDE_EINVAL, "a path that is too long");
            } else if (rows) {
                code = load_file(table, name, &later);
                *l->row_count += code ? 0 : m->tables[t].files[i].rows;
            } else if (tide__forget_of(table)) {
                code = tide__gone_read(&l->gone[at], table->store->port, name, place);
            }
        }
        tide_table_release(table);
    }
    return code;
}

static int each_generation(const struct loading *l, bool rows) {
    const struct tide__manifest *newest = l->newest;
    int code = 0;
    for (size_t i = 0; i + 1 < newest->chain_count && !code; i++) {
        struct tide__manifest below;
        code = tide__generation_manifest(tide_store_of(l->node)->port, l->dir, newest->chain[i], &below);
        if (!code) {
            tables_rename(&below, l->as);
        }
        code = code ? code : each_file(l, &below, i, rows);
        tide__manifest_release(&below);
    }
    return code ? code : each_file(l, newest, newest->chain_count, rows);
}

static int load_chain(struct tide_node *node, const char *dir, const struct tide__manifest *m,
                      const struct tide__restore_as *as, uint64_t *row_count) {
    struct tide__gone *gone = tide_alloc_zero(m->table_count + 1, sizeof *gone);
    const struct loading l = {node, dir, m, as, gone, row_count};
    int code = gone ? each_generation(&l, false) : tide_fail(TIDE_ENOMEM, "no memory to restore '%s'", dir);
    for (size_t t = 0; gone && t < m->table_count; t++) {
        tide__gone_sort(&gone[t]);
    }
    code = code ? code : each_generation(&l, true);
    for (size_t t = 0; gone && t < m->table_count; t++) {
        tide__gone_release(&gone[t]);
    }
    tide_free(gone);
    return code;
}

static int make_table(struct tide_node *node, const struct tide__manifest_table *kept) {
    struct tide_table *table = NULL;
    struct tide_table_options options = kept->options;
    if (tide_table_find(node, kept->name, &table) == 0) {
        const struct tide_table_options *now = &table->made;
        options.replicas = now->replicas; /* they are the cluster's, not the rows' */
        options.durability = now->durability;
        options.window_ns = now->window_ns;
        options.window_bytes = now->window_bytes;
        options.consistency = now->consistency;
        options.cache_bytes = now->cache_bytes;
        options.unsubscribe_after = now->unsubscribe_after;
        options.send_order = now->send_order;
        options.bandwidth = now->bandwidth;
        options.tier_memory = now->tier_memory;
        memcpy(options.tier_disk, now->tier_disk, sizeof options.tier_disk);
    }
    tide_table_release(table);
    int code = tide_table_create(node, &options, &table);
    if (code) {
        return code == TIDE_EMISMATCH ? tide_fail(code, "%s as in the checkpoint", tide_error_message()) : code;
    }
    const float now = tide__learning_rate(&table->options);
    if ((kept->rate < now || kept->rate > now) && !TIDE_MUTANT(restore_first_rate)) {
        code = tide_table_set_rate(table, kept->rate);
    }
    tide_table_release(table);
    return code;
}

/* Makes or finds every table before any row is touched. */
static int make_tables(struct tide_node *node, const struct tide__manifest *m) {
    int code = 0;
    for (size_t t = 0; t < m->table_count && !code; t++) {
        code = make_table(node, &m->tables[t]);
    }
    return code;
}

static int load(struct tide_node *node, const char *dir, const struct tide__manifest *m,
                const struct tide__restore_as *as, uint64_t *row_count) {
    int code = make_tables(node, m);
    for (size_t t = 0; t < m->table_count && !code; t++) {
        struct tide_table *table = NULL;
        code = tide_table_find(node, m->tables[t].name, &table);
        code = code || TIDE_MUTANT(restore_beside_rows) ? code : tide__table_clear(table);
        tide_table_release(table);
    }
    return code ? code : load_chain(node, dir, m, as, row_count);
}

int tide_checkpoint_restore(struct tide_node *node, const char *dir, uint64_t generation, struct tide_restored *out) {
    return tide__checkpoint_restore_as(node, dir, generation, NULL, out);
}

int tide__checkpoint_restore_as(struct tide_node *node, const char *dir, uint64_t generation,
                                const struct tide__restore_as *as, struct tide_restored *out) {
    struct tide_store *store = tide_store_of(node);
    struct tide__manifest m = {0};
    struct tide_writer skipped;
    memset(out, 0, sizeof *out);
    if (!store || !store->net || !store->port || !tide_fiber_current()) {
        return tide_fail(TIDE_EINVAL, "a checkpoint is restored by a fiber of a node");
    }
    tide_writer_init(&skipped, NULL, 0);
    int code = choose(store->port, dir, generation, &m, &skipped);
    if (!code) {
        tables_rename(&m, as);
    }
    uint64_t row_count = 0;
    code = code ? code : load(node, dir, &m, as, &row_count);
    if (!code) {
        out->info = tide__manifest_info(&m);
        out->info.rows = row_count;
        out->skipped = tide_alloc_zero(skipped.size + 1, 1);
        out->job = m.job;
        out->job_size = m.job_size;
        m.job = NULL;
        if (out->skipped && skipped.size) {
            memcpy(out->skipped, skipped.data, skipped.size);
        }
        code = out->skipped ? 0 : tide_fail(TIDE_ENOMEM, "no memory for what restore tells");
    }
    tide_writer_release(&skipped);
    tide__manifest_release(&m);
    return code;
}

void tide_restored_release(struct tide_restored *restored) {
    tide_free(restored->skipped);
    tide_free(restored->job);
    memset(restored, 0, sizeof *restored);
}
