/* Options of a table: checked, compared, on the wire. Those of its consistency: consistency.c. */
#include "store/core/options.h"
#include "store/rows/rules.h"

#include <inttypes.h>

#define WINDOW_NS (TIDE_SECOND / 20)
enum { WINDOW_BYTES = 64 << 20 };
enum { KEY_COUNT_MAX_LOG2 = 48 };

/* ---- the rows of option.def ---- */

#define FIELD(field)                                                                                                   \
    .name = #field, .offset = offsetof(struct tide_table_options, field),                                              \
    .size = sizeof((struct tide_table_options *)NULL)->field
#define LIST_OF(...) __VA_ARGS__
#define TIDE__WORD(since, field, list, text) static const char *const field##_words[] = {LIST_OF list};
#define TIDE__UINT(since, bits, field, said, text)
#define TIDE__REAL(since, field, said)
#define TIDE__TEXT(called, field, said)
#define TIDE__OF_RUN(bits, field)
#include "store/core/option.def"
#undef TIDE__WORD
#undef TIDE__UINT
#undef TIDE__REAL
#undef TIDE__TEXT
#undef TIDE__OF_RUN
enum { LATER, FIRST };

#define TIDE__WORD(since, field, list, what)                                                                           \
    {FIELD(field),  .said = #field, .doc = what, .words = field##_words, .most = TIDE_COUNT(field##_words) - 1,        \
     .first = since},
#define TIDE__UINT(since, bits, field, in_comparison, what)                                                            \
    {FIELD(field), .said = in_comparison, .doc = what, .most = UINT64_MAX >> (64 - (bits)), .first = since},
#define TIDE__REAL(since, field, text) {FIELD(field), .said = text, .real = true, .first = since},
#define TIDE__TEXT(called, field, what)                                                                                \
    {.name = called,                                                                                                   \
     .offset = offsetof(struct tide_table_options, field),                                                             \
     .size = sizeof((struct tide_table_options *)NULL)->field,                                                         \
     .said = what,                                                                                                     \
     .text = true,                                                                                                     \
     .of_run = (what) == NULL},
#define TIDE__OF_RUN(bits, field) {FIELD(field), .most = UINT64_MAX >> (64 - (bits)), .of_run = true},
const struct tide__option tide__options[] = {
#include "store/core/option.def"
    {.name = NULL}};
#undef TIDE__WORD
#undef TIDE__UINT
#undef TIDE__REAL
#undef TIDE__TEXT
#undef TIDE__OF_RUN

static const void *place(const struct tide__option *option, const struct tide_table_options *options) {
    return (const char *)options + option->offset;
}

const char *tide__option_text(const struct tide__option *option, const struct tide_table_options *options) {
    return place(option, options);
}

char *tide__option_room(const struct tide__option *option, struct tide_table_options *options) {
    return (char *)options + option->offset;
}

uint64_t tide__option_get(const struct tide__option *option, const struct tide_table_options *options) {
    const void *at = place(option, options);
    return option->size == 1 ? *(const uint8_t *)at : option->size == 4 ? *(const uint32_t *)at : *(const uint64_t *)at;
}

float tide__option_real(const struct tide__option *option, const struct tide_table_options *options) {
    return *(const float *)place(option, options);
}

void tide__option_set(const struct tide__option *option, struct tide_table_options *options, uint64_t value) {
    char *at = (char *)options + option->offset;
    const uint8_t small = (uint8_t)value;
    const uint32_t middle = (uint32_t)value;
    memcpy(at,
           option->size == 1   ? (const void *)&small
           : option->size == 4 ? (const void *)&middle
                               : &value,
           option->size);
}

void tide__option_set_real(const struct tide__option *option, struct tide_table_options *options, float value) {
    memcpy((char *)options + option->offset, &value, sizeof value);
}

/* ---- checks ---- */

static int bad_options(const struct tide_table_options *o, const char *what) {
    return tide_fail(TIDE_EINVAL, "table '%s': %s", o->name ? o->name : "", what);
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

/* Some blocks of 4 KiB, or of eight wide rows, and 16 rows. */
uint64_t tide__tier_memory_least(const struct tide_table_options *o) {
    enum { BLOCK = 4096, RECORD = 64, WIDE = 9, SECTOR = 512, BLOCKS = 6, ROWS = 16 };
    const uint64_t row = (o->width + tide__rule_state(o)) * sizeof(float);
    return BLOCKS * (row + RECORD <= BLOCK ? BLOCK : WIDE * (row + SECTOR)) + ROWS * (row + RECORD);
}

static int check_tier(const struct tide_table_options *o) {
    const char *what = o->consistency.model != TIDE_SEQUENTIAL      ? "a consistency other than sequential"
                       : o->replicas                                ? "replicas"
                       : o->technique > TIDE_RELOCATE               ? "a technique other than static and relocate"
                       : o->admit_after || o->unused_ns || o->evict ? "keys that are admitted, expire or are evicted"
                                                                    : NULL;
    if (!o->tier_disk[0]) {
        return o->tier_memory ? bad_options(o, "`memory` needs `disk`: where rows lie that are not in memory") : 0;
    }
    if (what) {
        return tide_fail(TIDE_EUNSUPPORTED, "table '%s': a table with `disk` does not have %s in this version", o->name,
                         what);
    }
    const uint64_t least = tide__tier_memory_least(o);
    return o->tier_memory >= least
               ? 0
               : tide_fail(TIDE_EINVAL, "table '%s': `memory` is %llu bytes, for rows of this width at least %llu",
                           o->name, (unsigned long long)o->tier_memory, (unsigned long long)least);
}

int tide__hot_check(const struct tide_table_options *o) {
    const char *what = o->tier_disk[0]                              ? "it has a second tier on the disk"
                       : o->admit_after || o->unused_ns || o->evict ? "its rows may go (admit, expire, evict)"
                       : o->consistency.model != TIDE_SEQUENTIAL    ? "it has clocks, and with them copies of its own"
                       : o->replicas ? "its rows have copies for the case of a death (replicas)"
                                     : NULL;
    if (!what && tide__rule_known(o) && !tide__rule_is(o, TIDE_RULE_ADDS | TIDE__RULE_MERGES)) {
        return tide_fail(TIDE_EUNSUPPORTED,
                         "keys of table '%s' cannot be shared: updates by %s do not add up, they run at the owner "
                         "alone. Use technique static or relocate",
                         o->name, tide__rule_of(o)->name);
    }
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
    for (const struct tide__option *option = tide__options; option->name; option++) {
        if (option->words && tide__option_get(option, o) > option->most) {
            return tide_fail(TIDE_EINVAL, "table '%s': unknown %s", o->name, option->name);
        }
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
    code = code ? code : check_tier(o);
    if (code) {
        return code;
    }
    code = tide__rule_check(o);
    code = code ? code : tide__consistency_check(o);
    code = code ? code : check_forget(o);
    return code || (o->technique != TIDE_REPLICATE && o->technique != TIDE_INTENT) ? code : tide__hot_check(o);
}

/* ---- comparison ---- */

/* Appends " width is 8, not 7" to the list of what differs. */
static void differs(char text[256], const char *name, const char *there, const char *wanted) {
    const size_t used = strlen(text);
    (void)snprintf(text + used, 256 - used, "%s %.40s is %.60s, not %.60s", used ? ";" : "", name, there, wanted);
}

static void print(const struct tide__option *option, const struct tide_table_options *o, char text[80]) {
    if (option->text) {
        const char *value = tide__option_text(option, o);
        (void)snprintf(text, 80, "%s", *value ? value : "none");
    } else if (option->words) {
        (void)snprintf(text, 80, "%s", option->words[tide__option_get(option, o)]);
    } else if (option->real) {
        (void)snprintf(text, 80, "%.9g", (double)tide__option_real(option, o));
    } else {
        (void)snprintf(text, 80, "%" PRIu64, tide__option_get(option, o));
    }
}

/* What a difference is called: a number of a module's rule by its own name. */
static const char *said_of(const struct tide__option *option, const struct tide_table_options *o) {
    const struct tide_update_rule *rule = tide__rule_of(o);
    const size_t numbers = offsetof(struct tide_table_options, numbers[1]);
    const size_t i = option->offset >= numbers ? (option->offset - numbers) / sizeof o->numbers[0] : SIZE_MAX;
    return o->update == TIDE_UPDATE_OWN && option->real && i < rule->number_count ? rule->numbers[i].name
                                                                                  : option->said;
}

int tide__options_agree(const struct tide_table_options *there, const struct tide_table_options *wanted) {
    char text[256] = "";
    for (const struct tide__option *option = tide__options; option->name; option++) {
        /* with another rule numbers mean other things */
        const bool matters = !option->of_run && (!option->real || there->update == wanted->update);
        const bool equal = option->text
                               ? strcmp(tide__option_text(option, there), tide__option_text(option, wanted)) == 0
                               : memcmp(place(option, there), place(option, wanted), option->size) == 0;
        if (matters && !equal) {
            char x[80], y[80];
            print(option, there, x);
            print(option, wanted, y);
            differs(text, said_of(option, there), x, y);
        }
    }
    if (there->seed != wanted->seed) {
        char x[32], y[32];
        (void)snprintf(x, sizeof x, "%" PRIu64, there->seed);
        (void)snprintf(y, sizeof y, "%" PRIu64, wanted->seed);
        differs(text, "seed", x, y);
    }
    if (!tide__consistency_equal(&there->consistency, &wanted->consistency)) {
        char a[TIDE_CONSISTENCY_TEXT], b[TIDE_CONSISTENCY_TEXT];
        tide_consistency_print(&there->consistency, a);
        tide_consistency_print(&wanted->consistency, b);
        differs(text, "consistency", a, b);
    }
    return *text ? tide_fail(TIDE_EMISMATCH, "table '%s' exists with other options:%s", there->name, text) : 0;
}

/* ---- by name ---- */

static bool is_set(const struct tide__option *option, const struct tide_table_options *o) {
    static const uint64_t zero = 0;
    return memcmp(place(option, o), &zero, option->text ? 1 : option->size) != 0;
}

void tide__options_write(struct tide_writer *w, const struct tide_table_options *o) {
    size_t count = 3;
    for (const struct tide__option *option = tide__options; option->name; option++) {
        count += is_set(option, o);
    }
    tide_write_map(w, count);
    tide_write_text(w, "name");
    tide_write_text(w, o->name);
    tide_write_text(w, "seed");
    tide_write_uint(w, o->seed);
    tide_write_text(w, "consistency");
    tide__consistency_write(w, o);
    for (const struct tide__option *option = tide__options; option->name; option++) {
        if (is_set(option, o)) {
            tide_write_text(w, option->name);
            if (option->real) {
                tide_write_double(w, (double)tide__option_real(option, o));
            } else if (option->text) {
                tide_write_text(w, tide__option_text(option, o));
            } else {
                tide_write_uint(w, tide__option_get(option, o));
            }
        }
    }
}

static int unknown_option(const char *name, size_t size) {
    return tide_fail(TIDE_EPROTO, "a table has the option '%.*s', which this version does not know", (int)size, name);
}

static int read_option(struct tide_reader *r, struct tide_table_options *o, const char *name, size_t size) {
    const struct tide__option *option = tide__options;
    while (option->name && (strlen(option->name) != size || memcmp(option->name, name, size) != 0)) {
        option++;
    }
    if (!option->name) {
        return unknown_option(name, size);
    }
    if (option->real) {
        tide__option_set_real(option, o, (float)tide_read_double(r));
        return 0;
    }
    if (option->text) {
        tide_read_text(r, tide__option_room(option, o), option->size);
        return 0;
    }
    const uint64_t value = tide_read_uint(r);
    r->error = value > option->most ? TIDE_EPROTO : r->error;
    tide__option_set(option, o, value);
    return 0;
}

static bool is_name(const char *name, size_t size, const char *wanted) {
    return size == strlen(wanted) && memcmp(name, wanted, size) == 0;
}

static int read_by_name(struct tide_reader *r, struct tide_table_options *o, char name[64]) {
    name[0] = 0;
    int code = 0;
    for (size_t left = tide_read_map(r); left > 0 && !r->error && !code; left--) {
        size_t size = 0;
        const char *key = tide_read_string(r, &size);
        if (!key) {
            break;
        }
        if (is_name(key, size, "name")) {
            tide_read_text(r, name, 64);
        } else if (is_name(key, size, "seed")) {
            o->seed = tide_read_uint(r);
        } else if (is_name(key, size, "consistency")) {
            code = tide__consistency_read(r, o);
        } else {
            code = read_option(r, o, key, size);
        }
    }
    return code ? code : r->error ? tide_fail(TIDE_EPROTO, "table options are damaged") : 0;
}

/* ---- the list of versions before ---- */

static uint8_t small(struct tide_reader *r) {
    uint64_t value = tide_read_uint(r);
    return value < UINT8_MAX ? (uint8_t)value : UINT8_MAX;
}

static int read_list(struct tide_reader *r, struct tide_table_options *o, char name[64]) {
    enum { RUN_FIELDS = 3 };
    const size_t fields = tide_read_array(r);
    const bool has_run = fields > 18;
    const size_t others = fields - (has_run ? RUN_FIELDS : 0);
    if (others != 16 && others != 18) {
        return tide_fail(TIDE_EPROTO, "table options: not a list of 16 or 18, or of 3 more");
    }
    tide_read_text(r, name, 64);
    o->keys = small(r);
    o->slots = small(r);
    o->init = small(r);
    o->update = small(r);
    o->wire = small(r);
    o->technique = small(r);
    o->replicas = small(r);
    o->durability = small(r);
    if (others == 18) {
        o->window_ns = tide_read_uint(r);
        o->window_bytes = tide_read_uint(r);
    }
    o->refuse_nan = tide_read_bool(r);
    o->key_count = tide_read_uint(r);
    o->key_limit = tide_read_uint(r);
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
    return code;
}

int tide__options_read(struct tide_reader *r, struct tide_table_options *o, char name[64]) {
    memset(o, 0, sizeof *o);
    o->name = name;
    const int code = tide_read_type(r) == TIDE_MAP ? read_by_name(r, o, name) : read_list(r, o, name);
    return code ? code : tide__options_check(o);
}
