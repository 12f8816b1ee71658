/* Options of a table: checked, compared, on the wire. Those of its consistency: consistency.c. */
#include "store/core/options.h"
#include "store/rows/rules.h"

#include <inttypes.h>

#define WINDOW_NS (TIDE_SECOND / 20)
enum { WINDOW_BYTES = 64 << 20 };
enum { KEY_COUNT_MAX_LOG2 = 48, RUN_FIELDS = 3, FORGET_FIELDS = 3, KEYS_FORGET = 4 /* a bit of keys */ };

static int bad_options(const struct tide_table_options *o, const char *what) {
    return tide_fail(TIDE_EINVAL, "table '%s': %s", o->name ? o->name : "", what);
}

static float or_default(float value, float otherwise) {
    return value == 0.0f ? otherwise : value;
}

static int check_durability(struct tide_table_options *o) {
    if (o->replicas > TIDE_REPLICAS_MAX) {
        return bad_options(o, "replicas is 0, 1 or 2");
    }
    if (o->durability == TIDE_DURABLE_DEFAULT) {
        o->durability = o->replicas ? TIDE_DURABLE_STRICT : TIDE_DURABLE_NONE;
    }
    if ((o->durability == TIDE_DURABLE_NONE) != (o->replicas == 0)) {
        return bad_options(o, o->replicas ? "durability none has no copies: replicas = 0"
                                          : "this durability needs replicas = 1 or 2");
    }
    if (o->durability != TIDE_DURABLE_WINDOW) {
        if (o->window_ns || o->window_bytes) {
            return bad_options(o, "window_ns and window_bytes are of durability window");
        }
    } else {
        o->window_ns = o->window_ns ? o->window_ns : WINDOW_NS;
        o->window_bytes = o->window_bytes ? o->window_bytes : WINDOW_BYTES;
        if (o->window_ns < TIDE_WINDOW_NS_MIN || o->window_ns > TIDE_WINDOW_NS_MAX) {
            return bad_options(o, "a window is 4 ms to 10 s long");
        }
        if (o->window_bytes < TIDE_WINDOW_BYTES_MIN || o->window_bytes > TIDE_WINDOW_BYTES_MAX) {
            return bad_options(o, "a window has 64 KiB to 1 GiB");
        }
    }
    if (o->replicas && o->technique != TIDE_STATIC) {
        return tide_fail(TIDE_EUNSUPPORTED,
                         "table '%s': rows that relocate have no copies in this version: either "
                         "technique static or replicas 0",
                         o->name);
    }
    return 0;
}

int tide__hot_check(const struct tide_table_options *o) {
    const char *what = o->admit_after || o->unused_ns || o->evict ? "its rows may go (admit, expire, evict)"
                       : o->consistency.model != TIDE_SEQUENTIAL  ? "it has clocks, and with them copies of its own"
                       : o->replicas ? "its rows have copies for the case of a death (replicas)"
                       : tide__rule_is_serial(o->update) || o->update == TIDE_UPDATE_ASSIGN
                           ? "updates by adam, momentum, nesterov and assign do not add up: they run at "
                             "the owner alone"
                           : NULL;
    return what ? tide_fail(TIDE_EUNSUPPORTED,
                            "keys of table '%s' cannot be shared: %s. Use technique static or "
                            "relocate",
                            o->name, what)
                : 0;
}

static int check_forget(struct tide_table_options *o) {
    if (!o->admit_after && !o->unused_ns && !o->evict) {
        return 0;
    }
    if (o->keys != TIDE_KEYS_HASHED) {
        return bad_options(o, "admit, expire and evict are of hashed keys");
    }
    if (o->admit_after == 1 || o->admit_after > TIDE_ADMIT_MOST || o->evict > TIDE_EVICT_LFU) {
        return bad_options(o, "keys are admitted after 2 to 15 pushes, and evict is none or lfu");
    }
    if (o->unused_ns && (o->unused_ns < TIDE_UNUSED_NS_MIN || o->unused_ns > TIDE_UNUSED_NS_MAX)) {
        return bad_options(o, "rows expire after 1 second to 3650 days without use");
    }
    if (!o->key_limit && (o->admit_after || o->evict)) {
        return bad_options(o, "admit and evict need a limit of keys");
    }
    const char *what = tide_technique_relocates(o->technique) || o->technique == TIDE_REPLICATE
                           ? "technique static alone"
                       : o->replicas                             ? "rows without copies (replicas = 0)"
                       : o->consistency.model != TIDE_SEQUENTIAL ? "consistency sequential alone"
                                                                 : NULL;
    return what ? tide_fail(TIDE_EUNSUPPORTED, "table '%s': admit, expire and evict work with %s in this version",
                            o->name, what)
                : 0;
}

static int check_run(const struct tide_table_options *o) {
    if (o->run_memory > 0 && (o->run == 0 || o->run_memory < TIDE_RUN_MEMORY_MIN)) {
        return bad_options(o, o->run ? "the memory of a run is at least 1 MiB on each node"
                                     : "a cap of memory is a run's");
    }
    return 0;
}

int tide__options_check(struct tide_table_options *o) {
    if (!o->name || !tide_identifier_valid(o->name)) {
        return bad_options(o, "the name is no identifier");
    }
    if (o->keys > TIDE_KEYS_HASHED || o->slots > TIDE_SLOTS_RANGE || o->init > TIDE_INIT_XAVIER ||
        o->update > TIDE_UPDATE_NESTEROV || o->wire > TIDE_WIRE_BF16 || o->technique > TIDE_INTENT ||
        o->durability > TIDE_DURABLE_WINDOW || o->clients > TIDE_CLIENTS_NONE) {
        return bad_options(o, "unknown keys, slots, init, update, wire, technique, durability or clients");
    }
    if (o->width == 0 || o->width > TIDE__WIDTH_MAX) {
        return tide_fail(TIDE_EINVAL, "table '%s': width %u is not in 1..%d", o->name, o->width, TIDE__WIDTH_MAX);
    }
    if (o->keys == TIDE_KEYS_DENSE && (o->key_count == 0 || o->key_count > UINT64_C(1) << KEY_COUNT_MAX_LOG2)) {
        return bad_options(o, "a dense table needs key_count in 1..2^48");
    }
    if (o->init == TIDE_INIT_XAVIER && !(o->init_a + o->init_b > 0)) {
        return bad_options(o, "xavier needs fan-in and fan-out");
    }
    if (!(o->init_a - o->init_a == 0) || !(o->init_b - o->init_b == 0) || !(o->lr - o->lr == 0)) {
        return bad_options(o, "init_a, init_b and lr must be finite");
    }
    if (o->keys == TIDE_KEYS_HASHED) {
        o->slots = TIDE_SLOTS_HASH;
        o->key_count = 0;
    } else {
        o->key_limit = 0;
    }
    int code = check_durability(o);
    code = code ? code : check_run(o);
    if (code) {
        return code;
    }
    if (o->update == TIDE_UPDATE_ADAGRAD) {
        o->epsilon = or_default(o->epsilon, 1e-10f);
    } else if (o->update == TIDE_UPDATE_ADAM) {
        o->beta1 = or_default(o->beta1, 0.9f);
        o->beta2 = or_default(o->beta2, 0.999f);
        o->epsilon = or_default(o->epsilon, 1e-8f);
        if (!(o->beta1 > 0 && o->beta1 < 1 && o->beta2 > 0 && o->beta2 < 1)) {
            return bad_options(o, "adam's beta1 and beta2 lie between 0 and 1");
        }
    } else if (o->update == TIDE_UPDATE_MOMENTUM || o->update == TIDE_UPDATE_NESTEROV) {
        o->beta1 = or_default(o->beta1, 0.9f);
        if (!(o->beta1 > 0 && o->beta1 < 1)) {
            return bad_options(o, "the momentum lies between 0 and 1");
        }
    }
    code = tide__consistency_check(o);
    code = code ? code : check_forget(o);
    return code || (o->technique != TIDE_REPLICATE && o->technique != TIDE_INTENT) ? code : tide__hot_check(o);
}

/* In what tables of one name agree, by the names that scripts give to it. */
static const char *const keys_words[] = {"dense", "hashed"}, *const slots_words[] = {"hash", "range"},
                         *const init_words[] = {"zero", "uniform", "normal", "xavier"},
                         *const update_words[] = {"add", "assign", "sgd", "adagrad", "adam", "momentum", "nesterov"},
                         *const wire_words[] = {"f32", "f16", "bf16"},
                         *const technique_words[] = {"static", "relocate", "replicate", "intent"},
                         *const durability_words[] = {"default", "none", "strict", "window"},
                         *const clients_words[] = {"write", "read", "none"}, *const evict_words[] = {"none", "lfu"},
                         *const order_words[] = {"clock", "magnitude", "age", "random"};

#define OPTION(field, words)                                                                                           \
    { #field, offsetof(struct tide_table_options, field), words }

static const struct word_option {
    const char *name;
    size_t offset; /* of a uint8_t */
    const char *const *words;
} word_options[] = {OPTION(keys, keys_words),
                    OPTION(slots, slots_words),
                    OPTION(init, init_words),
                    OPTION(update, update_words),
                    OPTION(wire, wire_words),
                    OPTION(technique, technique_words),
                    OPTION(durability, durability_words),
                    OPTION(clients, clients_words),
                    OPTION(evict, evict_words),
                    OPTION(send_order, order_words)};

/* Appends " width is 8, not 7" to the list of what differs. */
static void differs(char text[256], const char *name, const char *there, const char *wanted) {
    const size_t used = strlen(text);
    (void)snprintf(text + used, 256 - used, "%s %s is %s, not %s", used ? ";" : "", name, there, wanted);
}

static void compare_words(const struct tide_table_options *a, const struct tide_table_options *b, char text[256]) {
    for (size_t i = 0; i < TIDE_COUNT(word_options); i++) {
        const struct word_option *o = &word_options[i];
        const uint8_t x = *((const uint8_t *)a + o->offset), y = *((const uint8_t *)b + o->offset);
        if (x != y) {
            differs(text, o->name, o->words[x], o->words[y]);
        }
    }
}

static void compare_numbers(const struct tide_table_options *a, const struct tide_table_options *b, char text[256]) {
    const struct {
        const char *name;
        uint64_t there, wanted;
    } numbers[] = {{"width", a->width, b->width},
                   {"the number of keys", a->key_count, b->key_count},
                   {"the limit of keys", a->key_limit, b->key_limit},
                   {"admit (pushes)", a->admit_after, b->admit_after},
                   {"expire (ns)", a->unused_ns, b->unused_ns},
                   {"refuse_nan", a->refuse_nan, b->refuse_nan},
                   {"seed", a->seed, b->seed},
                   {"replicas", a->replicas, b->replicas},
                   {"window (ns)", a->window_ns, b->window_ns},
                   {"window (bytes)", a->window_bytes, b->window_bytes},
                   {"cache_bytes", a->cache_bytes, b->cache_bytes},
                   {"unsubscribe_after", a->unsubscribe_after, b->unsubscribe_after},
                   {"bandwidth", a->bandwidth, b->bandwidth}};
    const struct {
        const char *name;
        float there, wanted;
    } floats[] = {{"init (first number)", a->init_a, b->init_a},
                  {"init (second number)", a->init_b, b->init_b},
                  {"lr", a->lr, b->lr},
                  {"beta1 or momentum", a->beta1, b->beta1},
                  {"beta2", a->beta2, b->beta2},
                  {"eps", a->epsilon, b->epsilon},
                  {"sum_init", a->sum_init, b->sum_init}};
    char there[32], wanted[32];
    for (size_t i = 0; i < TIDE_COUNT(numbers); i++) {
        if (numbers[i].there != numbers[i].wanted) {
            (void)snprintf(there, sizeof there, "%" PRIu64, numbers[i].there);
            (void)snprintf(wanted, sizeof wanted, "%" PRIu64, numbers[i].wanted);
            differs(text, numbers[i].name, there, wanted);
        }
    }
    for (size_t i = 0; i < TIDE_COUNT(floats) && a->update == b->update; i++) { /* else they mean other things */
        if (memcmp(&floats[i].there, &floats[i].wanted, sizeof(float)) != 0) {
            (void)snprintf(there, sizeof there, "%.9g", (double)floats[i].there);
            (void)snprintf(wanted, sizeof wanted, "%.9g", (double)floats[i].wanted);
            differs(text, floats[i].name, there, wanted);
        }
    }
}

int tide__options_agree(const struct tide_table_options *there, const struct tide_table_options *wanted) {
    char text[256] = "";
    compare_words(there, wanted, text);
    compare_numbers(there, wanted, text);
    if (!tide__consistency_equal(&there->consistency, &wanted->consistency)) {
        char a[TIDE_CONSISTENCY_TEXT], b[TIDE_CONSISTENCY_TEXT];
        tide_consistency_print(&there->consistency, a);
        tide_consistency_print(&wanted->consistency, b);
        differs(text, "consistency", a, b);
    }
    return *text ? tide_fail(TIDE_EMISMATCH, "table '%s' exists with other options:%s", there->name, text) : 0;
}

void tide__options_write(struct tide_writer *w, const struct tide_table_options *o) {
    const float floats[] = {o->init_a, o->init_b, o->lr, o->beta1, o->beta2, o->epsilon, o->sum_init};
    const bool has_run = o->run || o->domain;
    const bool forgets = o->admit_after || o->unused_ns || o->evict;
    tide_write_array(w, (o->window_ns ? 19u : 17u) + (has_run ? RUN_FIELDS : 0) + (forgets ? FORGET_FIELDS : 0));
    tide_write_text(w, o->name);
    tide_write_uint(w, o->keys | (forgets ? KEYS_FORGET : 0u));
    tide_write_uint(w, o->slots);
    tide_write_uint(w, o->init);
    tide_write_uint(w, o->update);
    tide_write_uint(w, o->wire);
    tide_write_uint(w, o->technique);
    tide_write_uint(w, o->replicas);
    tide_write_uint(w, o->durability);
    if (o->window_ns) {
        tide_write_uint(w, o->window_ns);
        tide_write_uint(w, o->window_bytes);
    }
    tide_write_bool(w, o->refuse_nan);
    tide_write_uint(w, o->clients);
    tide_write_uint(w, o->key_count);
    tide_write_uint(w, o->key_limit);
    if (forgets) {
        tide_write_uint(w, o->admit_after);
        tide_write_uint(w, o->unused_ns);
        tide_write_uint(w, o->evict);
    }
    tide_write_uint(w, o->width);
    tide_write_uint(w, o->seed);
    tide_write_typed(w, TIDE_F32, floats, TIDE_COUNT(floats));
    tide__consistency_write(w, o);
    if (has_run) {
        tide_write_uint(w, o->run);
        tide_write_uint(w, o->domain);
        tide_write_uint(w, o->run_memory);
    }
}

static uint8_t small(struct tide_reader *r) {
    uint64_t value = tide_read_uint(r);
    return value < UINT8_MAX ? (uint8_t)value : UINT8_MAX;
}

int tide__options_read(struct tide_reader *r, struct tide_table_options *o, char name[64]) {
    memset(o, 0, sizeof *o);
    size_t fields = tide_read_array(r);
    tide_read_text(r, name, 64);
    o->name = name;
    o->keys = small(r);
    const bool forgets = o->keys != UINT8_MAX && (o->keys & KEYS_FORGET);
    o->keys = forgets ? o->keys & (uint8_t)~KEYS_FORGET : o->keys;
    fields -= forgets && fields > FORGET_FIELDS ? FORGET_FIELDS : 0;
    const bool has_run = fields > 19;
    const size_t others = fields - (has_run ? RUN_FIELDS : 0);
    if (others != 17 && others != 19) {
        return tide_fail(TIDE_EPROTO, "table options: not a list of 17 or 19, or of 3 more");
    }
    o->slots = small(r);
    o->init = small(r);
    o->update = small(r);
    o->wire = small(r);
    o->technique = small(r);
    o->replicas = small(r);
    o->durability = small(r);
    if (others == 19) {
        o->window_ns = tide_read_uint(r);
        o->window_bytes = tide_read_uint(r);
    }
    o->refuse_nan = tide_read_bool(r);
    o->clients = small(r);
    o->key_count = tide_read_uint(r);
    o->key_limit = tide_read_uint(r);
    if (forgets) {
        o->admit_after = small(r);
        o->unused_ns = tide_read_uint(r);
        o->evict = small(r);
    }
    uint64_t width = tide_read_uint(r);
    o->width = width <= TIDE__WIDTH_MAX ? (uint32_t)width : 0;
    o->seed = tide_read_uint(r);
    size_t count = 0;
    float floats[7] = {0};
    const void *data = tide_read_typed(r, TIDE_F32, &count);
    if (r->error || count != TIDE_COUNT(floats)) {
        return tide_fail(TIDE_EPROTO, "table options are damaged");
    }
    memcpy(floats, data, sizeof floats);
    o->init_a = floats[0];
    o->init_b = floats[1];
    o->lr = floats[2];
    o->beta1 = floats[3];
    o->beta2 = floats[4];
    o->epsilon = floats[5];
    o->sum_init = floats[6];
    int code = tide__consistency_read(r, o);
    const uint64_t run = !code && has_run ? tide_read_uint(r) : 0, domain = !code && has_run ? tide_read_uint(r) : 0;
    o->run_memory = !code && has_run ? tide_read_uint(r) : 0;
    if (!code && (r->error || run > UINT32_MAX || domain > UINT32_MAX)) {
        return tide_fail(TIDE_EPROTO, "table options: no run");
    }
    o->run = (uint32_t)run;
    o->domain = (uint32_t)domain;
    return code ? code : tide__options_check(o);
}
