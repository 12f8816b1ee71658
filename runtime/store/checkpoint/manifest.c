/* See manifest.h. Numbers of 64 bits that are no counts (ids, seeds) are text of 16 hex digits,
 * because JSON's integers are shorter. */
#include "store/checkpoint/manifest.h"
#include "store/slots/learning_rate.h"
#include "store/core/node_store.h"
#include "store/core/options.h"

#include "wire/json.h"

static const char head[] = "{\"crc32c\":\"", middle[] = "\",\"manifest\":", tail[] = "}\n";
enum { HEAD = sizeof head - 1, MIDDLE = sizeof middle - 1, TAIL = sizeof tail - 1, SUM = 8 };

/* ---- writing ---- */

static void field_uint(struct tide_writer *w, const char *name, uint64_t value) {
    tide_write_text(w, name);
    tide_write_uint(w, value);
}

static void field_hex(struct tide_writer *w, const char *name, uint64_t value) {
    char text[20];
    (void)snprintf(text, sizeof text, "%016llx", (unsigned long long)value);
    tide_write_text(w, name);
    tide_write_text(w, text);
}

static void write_options(struct tide_writer *w, const struct tide_table_options *o) {
    char consistency[TIDE_CONSISTENCY_TEXT];
    tide_consistency_print(&o->consistency, consistency);
    size_t count = 3, reals = 0; /* seed, consistency, numbers */
    for (const struct tide__option *option = tide__options; option->name; option++) {
        count += !option->real && !option->of_run;
        reals += option->real;
    }
    tide_write_map(w, count);
    tide_write_text(w, "consistency");
    tide_write_text(w, consistency);
    field_hex(w, "seed", o->seed);
    for (const struct tide__option *option = tide__options; option->name; option++) {
        if (option->text && !option->of_run) {
            tide_write_text(w, option->name);
            tide_write_text(w, tide__option_text(option, o));
        } else if (!option->real && !option->of_run) {
            field_uint(w, option->name, tide__option_get(option, o));
        }
    }
    tide_write_text(w, "numbers");
    tide_write_array(w, reals);
    for (const struct tide__option *option = tide__options; option->name; option++) {
        if (option->real) {
            tide_write_double(w, (double)tide__option_real(option, o));
        }
    }
}

static void write_homes(struct tide_writer *w, const struct tide_table *table) {
    uint32_t homes[TIDE_SLOT_COUNT];
    for (uint32_t s = 0; table && s < TIDE_SLOT_COUNT; s++) {
        homes[s] = tide__route_home(atomic_load_explicit(&table->slots[s].route, memory_order_relaxed));
    }
    tide_write_text(w, "homes");
    tide_write_typed(w, TIDE_U32, homes, table ? TIDE_SLOT_COUNT : 0);
}

static struct tide_table *table_named(struct tide_store *store, const char *name) {
    struct tide_table *table = NULL;
    return store && tide_table_find(store->node, name, &table) == 0 ? table : NULL;
}

static void write_table(struct tide_writer *w, const struct tide__manifest_table *t, struct tide_store *store) {
    tide_write_map(w, 7);
    tide_write_text(w, "name");
    tide_write_text(w, t->name);
    field_uint(w, "run", t->options.run);
    tide_write_text(w, "options");
    write_options(w, &t->options);
    tide_write_text(w, "rate");
    tide_write_double(w, (double)t->rate);
    field_uint(w, "map_version", t->map_version);
    struct tide_table *table = table_named(store, t->name);
    write_homes(w, table);
    tide_table_release(table);
    tide_write_text(w, "files");
    tide_write_array(w, t->file_count);
    for (size_t i = 0; i < t->file_count; i++) {
        const struct tide__manifest_file *f = &t->files[i];
        tide_write_map(w, 5);
        tide_write_text(w, "name");
        tide_write_text(w, f->name);
        field_uint(w, "rows", f->rows);
        field_uint(w, "size", f->size);
        field_uint(w, "sums_size", f->sums_size);
        field_uint(w, "sums_crc32c", f->sums_sum);
    }
}

static void write_body(struct tide_writer *w, const struct tide__manifest *m, struct tide_store *store) {
    tide_write_map(w, 18);
    field_uint(w, "format", TIDE__MANIFEST_FORMAT);
    field_uint(w, "generation", m->generation);
    field_hex(w, "id", m->id);
    field_uint(w, "view", m->view);
    field_uint(w, "bytes", m->bytes);
    field_uint(w, "rows", m->rows);
    field_uint(w, "wall_ns", m->wall_ns);
    field_uint(w, "cut_wall_ns", m->cut_wall_ns);
    tide_write_text(w, "cut");
    tide_write_text(w, m->clock == TIDE_NO_CLOCK ? "fuzzy" : "clock");
    tide_write_text(w, "clock");
    if (m->clock == TIDE_NO_CLOCK) {
        tide_write_nil(w);
    } else {
        tide_write_uint(w, m->clock);
    }
    tide_write_text(w, "full");
    tide_write_bool(w, m->full);
    tide_write_text(w, "program");
    tide_write_text(w, m->program);
    tide_write_text(w, "chain");
    tide_write_array(w, m->chain_count);
    for (size_t i = 0; i < m->chain_count; i++) {
        tide_write_uint(w, m->chain[i]);
    }
    tide_write_text(w, "nodes");
    tide_write_typed(w, TIDE_U32, m->nodes, m->node_count);
    tide_write_text(w, "tables");
    tide_write_array(w, m->table_count);
    for (size_t i = 0; i < m->table_count; i++) {
        write_table(w, &m->tables[i], store);
    }
    tide_write_text(w, "workers");
    tide_write_typed(w, TIDE_U32, m->workers, m->worker_count);
    tide_write_text(w, "clocks");
    tide_write_typed(w, TIDE_U32, m->clocks, m->worker_count);
    tide_write_text(w, "job");
    if (m->job_size) {
        tide_write_raw(w, m->job, m->job_size);
    } else {
        tide_write_nil(w);
    }
}

int tide__manifest_write(const struct tide__manifest *m, struct tide_store *store, char **text, size_t *size) {
    struct tide_writer w;
    char *body = NULL;
    size_t body_size = 0;
    tide_writer_init(&w, NULL, 0);
    write_body(&w, m, store);
    int code = w.error ? tide_fail(TIDE_ENOMEM, "no memory for a manifest")
                       : tide_json_from_msgpack(w.data, w.size, &body, &body_size);
    tide_writer_release(&w);
    if (code) {
        return code;
    }
    *size = HEAD + SUM + MIDDLE + body_size + TAIL;
    *text = tide_alloc(*size + 1);
    if (*text) {
        (void)snprintf(*text, *size + 1, "%s%08x%s%s%s", head, (unsigned)tide_crc32c(0, body, body_size), middle, body,
                       tail);
    } else {
        code = tide_fail(TIDE_ENOMEM, "no memory for a manifest");
    }
    tide_free(body);
    return code;
}

/* ---- reading: every field is looked up by its name; the first that is missing fails ---- */

struct fields {
    struct tide_reader map;
    const char *missing;
};

static struct tide_reader field(struct fields *f, const char *name) {
    struct tide_reader value = {.error = TIDE_EPROTO};
    if (!tide_read_field(&f->map, name, &value)) {
        f->missing = f->missing ? f->missing : name;
        value = (struct tide_reader){.error = TIDE_EPROTO};
    }
    return value;
}

static void note(struct fields *f, const struct tide_reader *r, const char *name) {
    f->missing = r->error && !f->missing ? name : f->missing;
}

static uint64_t get_uint(struct fields *f, const char *name, uint64_t most) {
    struct tide_reader r = field(f, name);
    uint64_t value = tide_read_uint(&r);
    r.error = r.error || value <= most ? r.error : TIDE_EPROTO;
    note(f, &r, name);
    return r.error ? 0 : value;
}

static bool get_bool(struct fields *f, const char *name) {
    struct tide_reader r = field(f, name);
    bool value = tide_read_bool(&r);
    note(f, &r, name);
    return value;
}

static void get_text(struct fields *f, const char *name, char *out, size_t capacity) {
    struct tide_reader r = field(f, name);
    out[0] = 0;
    tide_read_text(&r, out, capacity);
    note(f, &r, name);
}

static uint64_t get_hex(struct fields *f, const char *name) {
    char text[20];
    uint64_t value = 0;
    get_text(f, name, text, sizeof text);
    bool good = strlen(text) == 16;
    for (size_t i = 0; i < 16 && good; i++) {
        const char c = text[i];
        good = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
        value = value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    f->missing = good || f->missing ? f->missing : name;
    return good ? value : 0;
}

/* An array of whole numbers up to UINT32_MAX; *gives* it. */
static uint32_t *get_list(struct fields *f, const char *name, size_t *count) {
    struct tide_reader r = field(f, name);
    size_t n = tide_read_array(&r);
    uint32_t *list = r.error ? NULL : tide_alloc_zero(n + 1, sizeof *list);
    for (size_t i = 0; i < n && list; i++) {
        uint64_t value = tide_read_uint(&r);
        r.error = r.error || value <= UINT32_MAX ? r.error : TIDE_EPROTO;
        list[i] = (uint32_t)value;
    }
    r.error = list ? r.error : TIDE_EPROTO;
    note(f, &r, name);
    *count = list ? n : 0;
    return list;
}

static void parse_options(struct fields *f, struct tide_table_options *o) {
    struct tide_reader value, r = field(f, "numbers");
    size_t left = tide_read_array(&r);
    for (const struct tide__option *option = tide__options; option->name; option++) {
        if (option->real) {
            const double number = left > 0 ? tide_read_double(&r) : 0;
            const bool fits = (left > 0 || !option->first) && number >= -3.4e38 && number <= 3.4e38;
            r.error = r.error || fits ? r.error : TIDE_EPROTO;
            tide__option_set_real(option, o, fits ? (float)number : 0);
            left -= left > 0;
        } else if (!option->of_run && (option->first || tide_read_field(&f->map, option->name, &value))) {
            if (option->text) {
                get_text(f, option->name, tide__option_room(option, o), option->size);
            } else {
                tide__option_set(option, o, get_uint(f, option->name, option->most));
            }
        }
    }
    r.error = left > 0 ? TIDE_EPROTO : r.error;
    note(f, &r, "numbers");
    o->seed = get_hex(f, "seed");
    if (tide_read_field(&f->map, "consistency", &value)) { /* the first versions had no tables with clocks */
        char text[TIDE_CONSISTENCY_TEXT];
        get_text(f, "consistency", text, sizeof text);
        if (tide_consistency_parse(text, &o->consistency)) {
            f->missing = "consistency";
        }
    }
}

/* A name of a file inside the generation's directory, and nothing else. */
static bool plain_name(const char *name) {
    return name[0] && name[0] != '.' && !strchr(name, '/');
}

static int parse_files(struct fields *f, struct tide__manifest_table *t) {
    struct tide_reader r = field(f, "files");
    size_t count = tide_read_array(&r);
    t->files = r.error ? NULL : tide_alloc_zero(count + 1, sizeof *t->files);
    if (!t->files) {
        note(f, &r, "files");
        return r.error ? 0 : TIDE_ENOMEM;
    }
    t->file_count = count;
    for (size_t i = 0; i < count && !f->missing; i++) {
        struct fields file = {.map = r};
        struct tide__manifest_file *to = &t->files[i];
        get_text(&file, "name", to->name, sizeof to->name);
        to->rows = get_uint(&file, "rows", INT64_MAX);
        to->size = get_uint(&file, "size", INT64_MAX);
        to->sums_size = get_uint(&file, "sums_size", UINT32_MAX);
        to->sums_sum = (uint32_t)get_uint(&file, "sums_crc32c", UINT32_MAX);
        f->missing = file.missing ? file.missing : plain_name(to->name) ? f->missing : "files.name";
        tide_read_skip(&r);
    }
    return 0;
}

static int parse_tables(struct fields *f, struct tide__manifest *m) {
    struct tide_reader r = field(f, "tables");
    size_t count = tide_read_array(&r);
    if (!r.error && count < TIDE__TABLES_MAX) {
        m->tables = tide_alloc_zero(count + 1, sizeof *m->tables);
    }
    if (!m->tables) {
        f->missing = f->missing ? f->missing : "tables";
        return r.error || count >= TIDE__TABLES_MAX ? 0 : TIDE_ENOMEM;
    }
    int code = 0;
    for (size_t i = 0; i < count && !f->missing && !code; i++) {
        struct fields table = {.map = r};
        struct tide__manifest_table *t = &m->tables[m->table_count++];
        struct tide_reader rate, run;
        get_text(&table, "name", t->name, sizeof t->name);
        t->run = UINT32_MAX;
        if (tide_read_field(&table.map, "run", &run)) {
            t->run = (uint32_t)get_uint(&table, "run", UINT32_MAX - 1);
        }
        struct fields options = {.map = field(&table, "options")};
        if (!options.map.error) {
            parse_options(&options, &t->options);
        }
        t->options.name = t->name;
        t->rate = t->options.lr; /* earlier versions had no other */
        if (tide_read_field(&table.map, "rate", &rate)) {
            const double value = tide_read_double(&rate);
            rate.error = tide__learning_rate_fits(value) ? rate.error : TIDE_EPROTO;
            t->rate = rate.error ? 0 : (float)value;
            note(&table, &rate, "rate");
        }
        t->map_version = get_uint(&table, "map_version", UINT64_MAX);
        code = parse_files(&table, t);
        f->missing = table.missing ? table.missing : options.missing;
        if (!f->missing && tide__options_check(&t->options)) {
            f->missing = "options";
        }
        tide_read_skip(&r);
    }
    return code;
}

static int parse_job(struct fields *f, struct tide__manifest *m) {
    struct tide_reader r = field(f, "job"), end = r;
    tide_read_skip(&end);
    if (r.error || end.error) {
        f->missing = f->missing ? f->missing : "job";
        return 0;
    }
    m->job_size = (size_t)(end.at - r.at);
    m->job = tide_alloc(m->job_size + 1);
    if (!m->job) {
        return TIDE_ENOMEM;
    }
    memcpy(m->job, r.at, m->job_size);
    return 0;
}

static int parse_body(struct fields *f, struct tide__manifest *m) {
    m->format = get_uint(f, "format", UINT64_MAX);
    if (!f->missing && m->format != TIDE__MANIFEST_FORMAT) {
        return tide_fail(TIDE_EVERSION, "the checkpoint has format %llu, this program reads format %d",
                         (unsigned long long)m->format, TIDE__MANIFEST_FORMAT);
    }
    m->generation = get_uint(f, "generation", INT64_MAX);
    m->id = get_hex(f, "id");
    m->view = get_uint(f, "view", UINT64_MAX);
    m->bytes = get_uint(f, "bytes", UINT64_MAX);
    m->rows = get_uint(f, "rows", UINT64_MAX);
    m->wall_ns = get_uint(f, "wall_ns", UINT64_MAX);
    struct tide_reader cut;
    if (tide_read_field(&f->map, "cut_wall_ns", &cut)) { /* earlier versions did not say */
        m->cut_wall_ns = get_uint(f, "cut_wall_ns", UINT64_MAX);
    }
    struct tide_reader clock = field(f, "clock");
    m->clock = TIDE_NO_CLOCK;
    if (!tide_read_nil(&clock)) {
        m->clock = (uint32_t)get_uint(f, "clock", INT32_MAX);
    }
    m->full = get_bool(f, "full");
    get_text(f, "program", m->program, sizeof m->program);
    size_t count = 0, clocks = 0;
    uint32_t *chain = get_list(f, "chain", &count);
    bool good = count > 0 && count <= TIDE__INCREMENTS_MAX && chain[count - 1] == m->generation;
    for (size_t i = 0; i < count && good; i++) {
        good = i == 0 || chain[i] > chain[i - 1];
        m->chain[i] = chain[i];
    }
    m->chain_count = good ? count : 0;
    f->missing = good || f->missing ? f->missing : "chain";
    tide_free(chain);
    m->nodes = get_list(f, "nodes", &m->node_count);
    m->workers = get_list(f, "workers", &m->worker_count);
    m->clocks = get_list(f, "clocks", &clocks);
    f->missing = clocks == m->worker_count || f->missing ? f->missing : "clocks";
    int code = parse_tables(f, m);
    code = code ? code : parse_job(f, m);
    return code == TIDE_ENOMEM ? tide_fail(code, "no memory for a manifest") : code;
}

int tide__manifest_parse(const char *text, size_t size, struct tide__manifest *m) {
    char sum[SUM + 1];
    memset(m, 0, sizeof *m);
    if (size < HEAD + SUM + MIDDLE + TAIL || memcmp(text, head, HEAD) != 0 ||
        memcmp(text + HEAD + SUM, middle, MIDDLE) != 0 || memcmp(text + size - TAIL, tail, TAIL) != 0) {
        return tide_fail(TIDE_EPROTO, "it is no manifest, or not a whole one");
    }
    const char *body = text + HEAD + SUM + MIDDLE;
    const size_t body_size = size - HEAD - SUM - MIDDLE - TAIL;
    (void)snprintf(sum, sizeof sum, "%08x", (unsigned)tide_crc32c(0, body, body_size));
    if (memcmp(sum, text + HEAD, SUM) != 0) {
        return tide_fail(TIDE_EPROTO, "its sum differs: it is damaged");
    }
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    int code = tide_json_to_msgpack(body, body_size, &w);
    if (!code) {
        struct fields f = {0};
        tide_reader_init(&f.map, w.data, w.size);
        code = parse_body(&f, m);
        if (!code && f.missing) {
            code = tide_fail(TIDE_EPROTO, "its field '%s' is missing or damaged", f.missing);
        }
    }
    tide_writer_release(&w);
    return code;
}

void tide__manifest_release(struct tide__manifest *m) {
    for (size_t i = 0; i < m->table_count; i++) {
        tide_free(m->tables[i].files);
    }
    tide_free(m->tables);
    tide_free(m->nodes);
    tide_free(m->workers);
    tide_free(m->clocks);
    tide_free(m->job);
    memset(m, 0, sizeof *m);
}
