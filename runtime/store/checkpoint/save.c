/*
 * Tables as safetensors files, one a table: `keys` U64[n] (absent when a dense table is complete, as it is
 * up to 2^24 keys),
 * `values` F32[n, width], and the rule's state as `state.<name>`. Rows are
 * in order of their keys, so the file does not depend on how many nodes held them.
 *
 * The calling fiber's node does it: it lists the keys that have a row, node by node, sorts them,
 * then pulls rows with their state in chunks and writes each tensor at its place. A row is as of
 * the moment it was pulled; a caller that requires a consistent cut keeps its workers idle. The file
 * appears under its name only when it is whole and synced. File calls block: they run on the thread
 * of the caller, never on the I/O thread.
 */
#include "store/core/send.h"
#include "store/replica/replica.h"
#include "store/rows/forget.h"
#include "store/rows/rules.h"
#include "store/checkpoint/save.h"
#include "wire/safetensors.h"
#include "tide/placement.h"

#include <stdlib.h>

enum { ATTEMPTS = 5, WHOLE_KEYS = 1 << 24 };

/* The initial rows, in the words of scripts: "uniform -1 1". */
static void init_text(const struct tide_table_options *o, char text[64]) {
    static const char *const words[] = {"zero", "uniform", "normal", "xavier"};
    const double first = (double)o->init_a, second = (double)o->init_b;
    if (o->init == TIDE_INIT_ZERO) {
        (void)snprintf(text, 64, "%s", words[o->init]);
    } else if (o->init == TIDE_INIT_NORMAL) {
        (void)snprintf(text, 64, "%s %.9g", words[o->init], first);
    } else {
        (void)snprintf(text, 64, "%s %.9g %.9g", words[o->init], first, second);
    }
}

void tide__save_about(const struct tide_table *table, struct tide__save_about *about) {
    const unsigned epoch =
        tide__forget_of(table) ? atomic_load_explicit(&tide__forget_of(table)->epoch, memory_order_relaxed) : 0;
    (void)snprintf(about->seed, sizeof about->seed, "%llu", (unsigned long long)table->options.seed);
    (void)snprintf(about->epoch, sizeof about->epoch, "%u", epoch);
    init_text(&table->options, about->init);
    const struct tide_safetensors_pair pairs[] = {
        {"tide.table", table->name},    {"tide.rule", tide__rule_name(&table->options)},
        {"tide.seed", about->seed},     {"tide.init", about->init},
        {"tide.version", TIDE_VERSION}, {"tide.epoch", about->epoch}};
    memcpy(about->pairs, pairs, sizeof pairs);
    about->count = TIDE_COUNT(pairs) - !tide__forget_of(table);
}

size_t tide__parts_of(const struct tide_table *table, struct tide__part parts[TIDE__PARTS_MAX]) {
    const struct tide_update_rule *rule = tide__rule_of(&table->options);
    const size_t width = table->width;
    size_t count = 0;
    parts[count++] = (struct tide__part){.name = "values", .floats = width};
    for (size_t i = 0, offset = width; i < rule->state_count; i++) {
        struct tide__part *part = &parts[count++];
        *part = (struct tide__part){.offset = offset, .floats = rule->states[i].per_row ? 1 : width};
        (void)snprintf(part->name, sizeof part->name, "state.%s", rule->states[i].name);
        offset += part->floats;
    }
    if (tide__forget_of(table)) {
        parts[count++] =
            (struct tide__part){.name = "state.use", .offset = table->row_floats - 1, .floats = 1, .is_use = true};
    }
    return count;
}

static size_t chunk_rows(const struct tide_table *table) {
    return tide_limit(store_checkpoint_chunk_bytes) / (table->row_floats * sizeof(float)) + 1;
}

/* ---- which keys there are ---- */

struct keys {
    uint64_t *at;
    size_t count, capacity;
};

static int add_keys(struct keys *keys, const void *from, size_t count) {
    if (keys->count + count > keys->capacity) {
        size_t capacity = (keys->count + count) * 2;
        uint64_t *grown = tide_realloc(keys->at, capacity * sizeof *grown);
        if (!grown) {
            return tide_fail(TIDE_ENOMEM, "no memory to list %zu keys", capacity);
        }
        keys->at = grown;
        keys->capacity = capacity;
    }
    if (count) {
        memcpy(keys->at + keys->count, from, count * sizeof *keys->at);
    }
    keys->count += count;
    return 0;
}

static int keys_here(struct tide_table *table, struct keys *keys) {
    for (uint32_t slot = 0; slot < TIDE_SLOT_COUNT; slot++) {
        uint64_t some[512], from = 0;
        bool more = true;
        while (more) {
            size_t got;
            int code = tide__slot_keys(table, slot, from, some, TIDE_COUNT(some), &got, &more);
            code = code ? code : add_keys(keys, some, got);
            if (code) {
                return code;
            }
            from = more ? some[got - 1] + 1 : 0;
        }
    }
    return 0;
}

static int keys_of_node(struct tide_table *table, uint16_t node, struct keys *keys) {
    uint64_t slot = 0, from = 0;
    while (slot < TIDE_SLOT_COUNT) {
        struct tide_reply *reply;
        int code = tide__store_call(node, TIDE__AS(KEYS, .table = table->id, .slot = slot, .from = from),
                                    tide_limit(store_operation_timeout), &reply);
        if (code) {
            return code;
        }
        size_t size, count = 0;
        const void *data = tide_reply_data(reply, &size);
        struct tide_reader r;
        tide_reader_init(&r, data, size);
        size_t fields = tide_read_array(&r);
        uint64_t next_slot = tide_read_uint(&r), next_from = tide_read_uint(&r);
        const void *some = tide_read_typed(&r, TIDE_U64, &count);
        bool onwards = next_slot > slot || (next_slot == slot && next_from > from);
        code = r.error || fields != 3 || !onwards
                   ? tide_fail(TIDE_EPROTO, "node %u listed its keys in a way that does not end", (unsigned)node)
                   : add_keys(keys, some, count);
        tide_reply_free(reply);
        if (code) {
            return code;
        }
        slot = next_slot;
        from = next_from;
    }
    return 0;
}

/* `all`: every member, as rows that relocate and copies may be at any. */
static int each_home(struct tide_table *table, bool all,
                     int (*visit)(struct tide_table *table, uint16_t node, void *arg), void *arg) {
    uint32_t *counts = tide_alloc(65536 * sizeof *counts);
    if (!counts) {
        return tide_fail(TIDE_ENOMEM, "no memory for the map of table '%s'", table->name);
    }
    tide_table_homes(table, counts, 65536, NULL);
    if (all) {
        uint64_t view;
        size_t room = tide_net_members(table->store->net, NULL, 0, &view) + 8;
        struct tide_member *members = tide_alloc(room * sizeof *members);
        size_t got = members ? tide_net_members(table->store->net, members, room, &view) : 0;
        for (size_t i = 0; i < got && i < room; i++) {
            counts[members[i].id] += members[i].state == TIDE_MEMBER_UP || members[i].state == TIDE_MEMBER_LEAVING;
        }
        tide_free(members);
        if (!members) {
            tide_free(counts);
            return tide_fail(TIDE_ENOMEM, "no memory for the members");
        }
    }
    int code = 0;
    for (unsigned node = 0; node < 65536 && !code; node++) {
        code = counts[node] ? visit(table, (uint16_t)node, arg) : 0;
    }
    tide_free(counts);
    return code;
}

static int visit_keys(struct tide_table *table, uint16_t node, void *arg) {
    return keys_of_node(table, node, arg);
}

static int visit_flush(struct tide_table *table, uint16_t node, void *arg) {
    struct tide_reply *reply = NULL;
    (void)arg;
    if (node >= TIDE__NODES) { /* clients have no copies */
        return 0;
    }
    const int code =
        tide__store_call(node, TIDE__AS(SHARE_FLUSH, .table = table->id), tide_limit(store_operation_timeout), &reply);
    tide_reply_free(reply);
    /* What the dead had not sent is lost; leavers had sent all. */
    struct tide_member member;
    const bool gone = code && tide_net_member(table->store->net, node, &member) &&
                      (member.state == TIDE_MEMBER_DEAD || member.state == TIDE_MEMBER_LEFT);
    return gone ? 0 : code;
}

/* Also if this node, perhaps a client, has no shared keys. */
int tide_table_flush(struct tide_table *table) {
    const struct tide_table_options *o = &table->options;
    const bool never = o->replicas || o->consistency.model != TIDE_SEQUENTIAL;
    return table->store->net && !never ? each_home(table, true, visit_flush, NULL) : 0;
}

/* All keys with a row, sorted. Slots that move while we list could be missed: then once more. */
static int list_keys(struct tide_table *table, struct keys *keys) {
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        keys->count = 0;
        uint64_t before = atomic_load_explicit(&table->changes, memory_order_acquire); /* routes_begin of move.c */
        int code = table->store->system ? each_home(table, table->operations->owners, visit_keys, keys)
                                        : keys_here(table, keys);
        if (code) {
            return code;
        }
        if (atomic_load_explicit(&table->changes, memory_order_acquire) != before) {
            continue;
        }
        if (keys->count) {
            qsort(keys->at, keys->count, sizeof *keys->at, tide__key_compare);
        }
        size_t kept = 0;
        for (size_t i = 0; i < keys->count; i++) {
            if (kept == 0 || keys->at[kept - 1] != keys->at[i]) {
                keys->at[kept++] = keys->at[i];
            }
        }
        keys->count = kept;
        return 0;
    }
    return tide_fail(TIDE_EBUSY, "the slots of table '%s' keep moving", table->name);
}

/* A dense table is written whole: an untouched row has a value, too, which readers of the file could
 * not know. Beyond so many keys only those with a row. */
static int add_untouched(const struct tide_table *table, struct keys *keys) {
    const uint64_t all = table->options.key_count;
    if (table->options.keys != TIDE_KEYS_DENSE || all > WHOLE_KEYS || keys->count == all) {
        return 0;
    }
    uint64_t *grown = tide_realloc(keys->at, all * sizeof *grown);
    if (!grown) {
        return tide_fail(TIDE_ENOMEM, "no memory to list %llu keys", (unsigned long long)all);
    }
    keys->at = grown;
    keys->count = keys->capacity = all;
    for (uint64_t key = 0; key < all; key++) {
        grown[key] = key;
    }
    return 0;
}

/* ---- save ---- */

static int write_file(struct tide_port *port, struct tide_file *file, const char *path, const void *data, size_t size,
                      uint64_t at) {
    int code = size ? port->ops->file_write(file, data, size, at) : 0;
    return code == TIDE_ENOSPC ? tide_fail(code, "no space left for '%s'", path) : code;
}

static bool complete(const struct tide_table *table, const struct keys *keys) {
    return table->options.keys == TIDE_KEYS_DENSE && keys->count == table->options.key_count;
}

static int write_header(struct tide_table *table, struct tide_port *port, struct tide_file *file, const char *path,
                        const struct keys *keys, struct tide__part *parts, size_t part_count, uint64_t *keys_at) {
    struct tide_safetensor tensors[TIDE__PARTS_MAX + 1];
    struct tide__save_about about;
    tide__save_about(table, &about);
    memset(tensors, 0, sizeof tensors);
    for (size_t i = 0; i < part_count; i++) {
        tensors[i] = (struct tide_safetensor){
            .name = parts[i].name, .shape = {keys->count, parts[i].floats}, .dtype = TIDE_DTYPE_F32, .rank = 2};
    }
    size_t count = part_count;
    if (!complete(table, keys)) {
        tensors[count++] =
            (struct tide_safetensor){.name = "keys", .shape = {keys->count}, .dtype = TIDE_DTYPE_U64, .rank = 1};
    }
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    int code = tide_safetensors_header(tensors, count, about.pairs, about.count, &w, NULL);
    code = code ? code : write_file(port, file, path, w.data, w.size, 0);
    for (size_t i = 0; i < part_count; i++) {
        parts[i].at = w.size + tensors[i].begin;
    }
    *keys_at = count > part_count ? w.size + tensors[part_count].begin : 0;
    tide_writer_release(&w);
    return code;
}

/* Rows between memory and the tensors of the file. `loose` has room for one part of a chunk. */
static void take_part(const struct tide__part *part, const float *rows, size_t row_floats, size_t count, float *loose) {
    for (size_t i = 0; i < count; i++) {
        memcpy(loose + i * part->floats, rows + i * row_floats + part->offset, part->floats * sizeof *loose);
    }
}

static void put_part(const struct tide__part *part, float *rows, size_t row_floats, size_t count, const float *loose) {
    for (size_t i = 0; i < count; i++) {
        memcpy(rows + i * row_floats + part->offset, loose + i * part->floats, part->floats * sizeof *loose);
    }
}

static int write_rows(struct tide_table *table, struct tide_port *port, struct tide_file *file, const char *path,
                      const struct keys *keys, const struct tide__part *parts, size_t part_count) {
    const size_t most = chunk_rows(table), floats = table->row_floats;
    float *rows = tide_alloc(2 * most * floats * sizeof *rows), *loose = rows ? rows + most * floats : NULL;
    int code = rows ? 0 : tide_fail(TIDE_ENOMEM, "no memory to save table '%s'", table->name);
    for (size_t i = 0; i < keys->count && !code; i += most) {
        size_t count = keys->count - i < most ? keys->count - i : most;
        code = tide__operate_plain(table, TIDE__PULL, true, keys->at + i, count, rows, NULL);
        for (size_t p = 0; p < part_count && !code; p++) {
            const size_t bytes = parts[p].floats * sizeof(float);
            take_part(&parts[p], rows, floats, count, loose);
            code = write_file(port, file, path, loose, count * bytes, parts[p].at + i * bytes);
        }
    }
    tide_free(rows);
    return code;
}

static struct tide_port *port_of(const struct tide_table *table) {
    return table->store->port;
}

int tide_table_save(struct tide_table *table, const char *path) {
    struct tide_port *port = port_of(table);
    /* Two saves of one path at a time, in this process or another, do not share a temporary file.
     */
    static atomic_uint saves;
    char temporary[4096];
    unsigned number = atomic_fetch_add_explicit(&saves, 1, memory_order_relaxed);
    if (!port) {
        return tide_fail(TIDE_EUNSUPPORTED, "table '%s' has no port to reach files by", table->name);
    }
    if (snprintf(temporary, sizeof temporary, "%s.tmp.%d-%u-%u", path, port->ops->pid(port),
                 (unsigned)tide__store_self(table->store), number) >= (int)sizeof temporary) {
        return tide_fail(TIDE_EINVAL, "a path of %zu characters", strlen(path));
    }
    struct keys keys = {0};
    struct tide__part parts[TIDE__PARTS_MAX];
    const size_t part_count = tide__parts_of(table, parts);
    struct tide_file *file = NULL;
    uint64_t keys_at = 0;
    int code = tide_table_flush(table);
    code = code ? code : list_keys(table, &keys);
    code = code ? code : add_untouched(table, &keys);
    if (!code) {
        code = port->ops->file_open(port, temporary, TIDE_FILE_WRITE | TIDE_FILE_CREATE | TIDE_FILE_TRUNCATE, &file);
        if (code) {
            tide_fail(code, "table '%s' cannot be written to '%s': %s", table->name, path,
                      code == TIDE_ENOENT   ? "there is no such directory"
                      : code == TIDE_EACCES ? "you may not write there"
                                            : tide_error_name(code));
        }
    }
    if (!code) {
        code = write_header(table, port, file, path, &keys, parts, part_count, &keys_at);
        code = code ? code : write_rows(table, port, file, path, &keys, parts, part_count);
        if (!code && keys_at) {
            code = write_file(port, file, path, keys.at, keys.count * sizeof *keys.at, keys_at);
        }
        code = code ? code : port->ops->file_sync(file);
        port->ops->file_close(file);
        code = code ? code : port->ops->file_rename(port, temporary, path);
        if (code) {
            char text[500];
            (void)snprintf(text, sizeof text, "%s", tide_error_message());
            (void)port->ops->file_unlink(port, temporary);
            tide_fail(code, "%s", text);
        }
    }
    tide_free(keys.at);
    return code;
}

/* ---- load ---- */

static int damaged(const char *path, const char *what) {
    return tide_fail(TIDE_EPROTO, "'%s': %s", path, what);
}

int tide__saved_bytes(const struct tide__saved *s, void *data, size_t size, uint64_t at) {
    const ssize_t got = size ? s->port->ops->file_read(s->file, data, size, at) : 0;
    return got < 0 ? (int)got : (size_t)got == size ? 0 : damaged(s->path, "the file ends early");
}

static int read_header(struct tide__saved *s, uint64_t file_size) {
    uint8_t prefix[TIDE_SAFETENSORS_PREFIX];
    size_t size;
    int code = tide__saved_bytes(s, prefix, sizeof prefix, 0);
    code = code ? code : tide_safetensors_header_size(prefix, file_size, &size);
    if (code) {
        return code;
    }
    void *header = tide_alloc(size);
    code = header ? tide__saved_bytes(s, header, size, sizeof prefix)
                  : tide_fail(TIDE_ENOMEM, "no memory for the header of '%s'", s->path);
    code = code ? code : tide_safetensors_parse(header, size, file_size, &s->header);
    tide_free(header);
    return code;
}

int tide__saved_open(struct tide_port *port, const char *path, struct tide__saved *out) {
    struct tide_file_info info;
    *out = (struct tide__saved){.port = port, .path = path};
    int code = port->ops->file_info(port, path, &info);
    code = code ? code : port->ops->file_open(port, path, TIDE_FILE_READ, &out->file);
    if (code) {
        return code;
    }
    code = read_header(out, info.size);
    if (code) {
        tide__saved_close(out);
    }
    return code;
}

void tide__saved_close(struct tide__saved *s) {
    tide_safetensors_release(&s->header);
    s->port->ops->file_close(s->file);
}

int tide__saved_check(const struct tide_table *table, struct tide__saved *s) {
    const struct tide_safetensors *header = &s->header;
    const char *rule = tide_safetensors_metadata(header, "tide.rule"), *path = s->path;
    const char *seed = tide_safetensors_metadata(header, "tide.seed");
    char own_seed[32];
    (void)snprintf(own_seed, sizeof own_seed, "%llu", (unsigned long long)table->options.seed);
    if (!rule || strcmp(rule, tide__rule_name(&table->options)) != 0) {
        return tide_fail(TIDE_EMISMATCH, "'%s' is of rule '%s', table '%s' of '%s'", path, rule ? rule : "none",
                         table->name, tide__rule_name(&table->options));
    }
    /* Rows that were never touched are not in the file: they come from the seed. */
    if (!seed || strcmp(seed, own_seed) != 0) {
        return tide_fail(TIDE_EMISMATCH, "'%s' was saved with seed %s, table '%s' has %s", path, seed ? seed : "none",
                         table->name, own_seed);
    }
    const char *init = tide_safetensors_metadata(header, "tide.init"); /* earlier versions did not say it */
    char own_init[64];
    init_text(&table->options, own_init);
    if (init && strcmp(init, own_init) != 0) {
        return tide_fail(TIDE_EMISMATCH, "'%s' was saved with init %s, table '%s' has %s", path, init, table->name,
                         own_init);
    }
    const struct tide_safetensor *values = tide_safetensors_find(header, "values");
    const struct tide_safetensor *keys = tide_safetensors_find(header, "keys");
    if (!values || values->rank != 2) {
        return tide_fail(TIDE_EMISMATCH, "'%s' has no tensor 'values' of two dimensions", path);
    }
    s->part_count = tide__parts_of(table, s->parts);
    s->count = values->shape[0];
    for (size_t i = 0; i < s->part_count; i++) {
        struct tide__part *part = &s->parts[i];
        const struct tide_safetensor *t = tide_safetensors_find(header, part->name);
        if (!t && part->is_use) {
            return tide_fail(TIDE_EMISMATCH,
                             "'%s' is of a table whose keys stay, without '%s', which table '%s' has: load the rows "
                             "with {tensor = \"values\", keys = \"keys\"}",
                             path, part->name, table->name);
        }
        if (!t || t->dtype != TIDE_DTYPE_F32 || t->rank != 2 || t->shape[0] != s->count ||
            t->shape[1] != part->floats) {
            return tide_fail(TIDE_EMISMATCH, "'%s': tensor '%s' is not F32 [%llu, %zu]", path, part->name,
                             (unsigned long long)s->count, part->floats);
        }
        part->at = header->data + t->begin;
        const char *epoch = part->is_use ? tide_safetensors_metadata(header, "tide.epoch") : NULL;
        part->epoch = epoch ? (uint16_t)strtoul(epoch, NULL, 10) : 0;
    }
    if (keys && (keys->dtype != TIDE_DTYPE_U64 || keys->rank != 1 || keys->shape[0] != s->count)) {
        return tide_fail(TIDE_EMISMATCH, "'%s': tensor 'keys' is not U64 [%llu]", path, (unsigned long long)s->count);
    }
    if (!keys && table->options.keys != TIDE_KEYS_DENSE) {
        return tide_fail(TIDE_EMISMATCH,
                         "'%s' is of a dense table, without keys, and table '%s' is hashed: load the rows with {tensor "
                         "= \"values\"}",
                         path, table->name);
    }
    if (!keys && s->count != table->options.key_count) {
        return tide_fail(TIDE_EMISMATCH, "'%s' has no keys and %llu rows, table '%s' has %llu", path,
                         (unsigned long long)s->count, table->name, (unsigned long long)table->options.key_count);
    }
    s->keys_at = keys ? header->data + keys->begin : 0;
    return 0;
}

static int visit_clear(struct tide_table *table, uint16_t node, void *arg) {
    (void)arg;
    struct tide_reply *reply;
    int code = tide__store_call(node, TIDE__AS(CLEAR, .table = table->id), tide_limit(store_operation_timeout), &reply);
    if (!code) {
        tide_reply_free(reply);
    }
    return code;
}

int tide__table_clear(struct tide_table *table) {
    if (table->store->system) {
        return each_home(table, table->operations->owners, visit_clear, NULL);
    }
    int code = 0;
    for (uint32_t slot = 0; slot < TIDE_SLOT_COUNT && !code; slot++) {
        code = tide__slot_drain(table, slot, NULL, NULL);
    }
    return code;
}

/* One pass over the keys before anything is changed: in range and in order. */
int tide__saved_check_keys(const struct tide_table *table, const struct tide__saved *s, bool ordered) {
    uint64_t some[1024], before = 0;
    int code = 0;
    for (uint64_t i = 0; i < s->count && !code && s->keys_at; i += TIDE_COUNT(some)) {
        size_t got = s->count - i < TIDE_COUNT(some) ? (size_t)(s->count - i) : TIDE_COUNT(some);
        code = tide__saved_bytes(s, some, got * sizeof *some, s->keys_at + i * sizeof *some);
        for (size_t j = 0; j < got && !code; j++) {
            bool in_order = !ordered || i + j == 0 || some[j] > before;
            bool inside = table->options.keys == TIDE_KEYS_HASHED || some[j] < table->options.key_count;
            before = some[j];
            code = !in_order ? damaged(s->path, "its keys are not ascending")
                   : !inside ? tide_fail(TIDE_EMISMATCH, "'%s': key %llu is outside table '%s' (0..%llu)", s->path,
                                         (unsigned long long)some[j], table->name,
                                         (unsigned long long)(table->options.key_count - 1))
                             : 0;
        }
    }
    return code;
}

/* How many are left. */
static size_t keep_wanted(const struct tide__save_filter *filter, uint64_t *keys, float *rows, size_t floats,
                          size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (!filter->skips(filter->arg, keys[i])) {
            keys[kept] = keys[i];
            memmove(rows + kept++ * floats, rows + i * floats, floats * sizeof *rows);
        }
    }
    return kept;
}

int tide__saved_rows(struct tide_table *table, const struct tide__saved *s, const struct tide__save_filter *filter) {
    const size_t most = chunk_rows(table), floats = table->row_floats;
    float *rows = tide_alloc(2 * most * floats * sizeof *rows), *loose = rows ? rows + most * floats : NULL;
    uint64_t *keys = tide_alloc(most * sizeof *keys);
    int code = rows && keys ? 0 : tide_fail(TIDE_ENOMEM, "no memory to load table '%s'", table->name);
    for (uint64_t i = 0; i < s->count && !code; i += most) {
        size_t got = s->count - i < most ? (size_t)(s->count - i) : most;
        for (size_t j = 0; j < got; j++) {
            keys[j] = i + j;
        }
        if (s->keys_at) {
            code = tide__saved_bytes(s, keys, got * sizeof *keys, s->keys_at + i * sizeof *keys);
        }
        for (size_t p = 0; p < s->part_count && !code; p++) {
            const struct tide__part *part = &s->parts[p];
            const size_t bytes = part->floats * sizeof(float);
            code = tide__saved_bytes(s, loose, got * bytes, part->at + i * bytes);
            put_part(part, rows, floats, got, loose);
            for (size_t j = 0; j < got && part->is_use; j++) {
                tide__use_shift(table, rows + j * floats, part->epoch);
            }
        }
        got = filter && !code ? keep_wanted(filter, keys, rows, floats, got) : got;
        code = code ? code : tide__operate_plain(table, TIDE__PUSH, true, keys, got, NULL, rows);
    }
    tide_free(rows);
    tide_free(keys);
    return code;
}

int tide__table_assign(struct tide_table *table, const uint64_t *keys, size_t count, const float *values) {
    struct tide__part parts[TIDE__PARTS_MAX];
    const size_t most = chunk_rows(table), floats = table->row_floats;
    (void)tide__parts_of(table, parts);
    float *rows = tide_alloc(most * floats * sizeof *rows);
    int code = rows ? tide_table_flush(table) : tide_fail(TIDE_ENOMEM, "no memory to change table '%s'", table->name);
    for (size_t i = 0; i < count && !code; i += most) {
        const size_t got = count - i < most ? count - i : most;
        code = tide__operate_plain(table, TIDE__PULL, true, keys + i, got, rows, NULL);
        if (!code) {
            put_part(&parts[0], rows, floats, got, values + i * parts[0].floats);
            code = tide__operate_plain(table, TIDE__PUSH, true, keys + i, got, NULL, rows);
        }
    }
    tide_free(rows);
    return code;
}

int tide_table_load(struct tide_table *table, const char *path) {
    struct tide__saved saved;
    if (!port_of(table)) {
        return tide_fail(TIDE_EUNSUPPORTED, "table '%s' has no port to reach files by", table->name);
    }
    int code = tide__saved_open(port_of(table), path, &saved);
    if (code) {
        return code;
    }
    code = tide__saved_check(table, &saved);
    code = code ? code : tide__saved_check_keys(table, &saved, true);
    code = code ? code : tide_table_flush(table); /* or it were added to what is read */
    code = code ? code : tide__table_clear(table);
    code = code ? code : tide__saved_rows(table, &saved, NULL);
    tide__saved_close(&saved);
    return code;
}
