/* Consistency of a table as text, on the wire and checked. */
#include "store/core/options.h"
#include "store/rows/rules.h"

#include <math.h>
#include <stdlib.h>

enum { FIELDS = 10 }; /* on the wire */
enum { UNSUBSCRIBE_AFTER = 16 };
#define CACHE_BYTES (UINT64_C(1) << 30)

static const char *const names[] = {"sequential", "bsp", "ssp", "essp", "async", "vap"};

static int bad(const char *text) {
    return tide_fail(TIDE_EINVAL,
                     "consistency \"%s\" is none of \"sequential\", \"bsp\", \"bsp:reproducible\", "
                     "\"ssp:N\", \"essp:N\" (N up to %d), \"async\", \"async:50ms\", \"vap:0.01\", "
                     "\"vap:0.01:flat\"",
                     text, TIDE_STALENESS_MAX);
}

/* Digits, then `unit` and the end of the text. */
static bool number(const char *text, const char *unit, uint32_t most, uint32_t *out) {
    char *end;
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    unsigned long value = strtoul(text, &end, 10);
    *out = (uint32_t)value;
    return value <= most && strcmp(end, unit) == 0;
}

/* A bound of values, and how it changes with the clocks. */
static bool value(const char *text, struct tide_consistency *out) {
    char *end;
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    out->bound = strtod(text, &end);
    out->flat = strcmp(end, ":flat") == 0;
    return isfinite(out->bound) && out->bound > 0 && (out->flat || !*end);
}

int tide_consistency_parse(const char *text, struct tide_consistency *out) {
    struct tide_consistency c = {.age_ms = 0};
    const char *colon = strchr(text, ':');
    const size_t size = colon ? (size_t)(colon - text) : strlen(text);
    while (c.model < TIDE_COUNT(names) &&
           (strlen(names[c.model]) != size || strncmp(names[c.model], text, size) != 0)) {
        c.model++;
    }
    bool good = c.model < TIDE_COUNT(names);
    switch (c.model) {
    case TIDE_BSP:
        c.reproducible = colon;
        good = !colon || strcmp(colon, ":reproducible") == 0;
        break;
    case TIDE_SSP:
    case TIDE_ESSP:
        good = colon && number(colon + 1, "", TIDE_STALENESS_MAX, &c.staleness);
        break;
    case TIDE_ASYNC:
        c.age_ms = TIDE__AGE_MS;
        good = !colon || (number(colon + 1, "ms", TIDE__AGE_MS_MAX, &c.age_ms) && c.age_ms > 0);
        break;
    case TIDE_VAP:
        good = colon && value(colon + 1, &c);
        break;
    default:
        good = good && !colon;
    }
    if (!good) {
        return bad(text);
    }
    *out = c;
    return 0;
}

void tide_consistency_print(const struct tide_consistency *c, char out[TIDE_CONSISTENCY_TEXT]) {
    const char *name = c->model < TIDE_COUNT(names) ? names[c->model] : "?";
    switch (c->model) {
    case TIDE_BSP:
        (void)snprintf(out, TIDE_CONSISTENCY_TEXT, "%s%s", name, c->reproducible ? ":reproducible" : "");
        break;
    case TIDE_SSP:
    case TIDE_ESSP:
        (void)snprintf(out, TIDE_CONSISTENCY_TEXT, "%s:%u", name, c->staleness);
        break;
    case TIDE_ASYNC:
        (void)snprintf(out, TIDE_CONSISTENCY_TEXT, "%s:%ums", name, c->age_ms);
        break;
    case TIDE_VAP:
        (void)snprintf(out, TIDE_CONSISTENCY_TEXT, "%s:%.9g%s", name, c->bound, c->flat ? ":flat" : "");
        break;
    default:
        (void)snprintf(out, TIDE_CONSISTENCY_TEXT, "%s", name);
    }
}

int tide__consistency_check(struct tide_table_options *o) {
    struct tide_consistency *c = &o->consistency;
    if (c->model > TIDE_VAP || c->staleness > TIDE_STALENESS_MAX || c->age_ms > TIDE__AGE_MS_MAX) {
        return tide_fail(TIDE_EINVAL, "table '%s': no such consistency", o->name);
    }
    if (o->send_order > TIDE_SEND_RANDOM || (o->send_order && c->model != TIDE_SSP && c->model != TIDE_ESSP) ||
        (o->bandwidth && !o->send_order)) {
        return tide_fail(TIDE_EINVAL,
                         "table '%s': rows are sent early (send_order, and bandwidth for it) with "
                         "ssp and essp only",
                         o->name);
    }
    if (c->model == TIDE_SEQUENTIAL) {
        *c = (struct tide_consistency){.model = TIDE_SEQUENTIAL};
        o->cache_bytes = 0;
        o->unsubscribe_after = 0;
        return 0;
    }
    if (o->technique != TIDE_STATIC || o->wire != TIDE_WIRE_F32) {
        return tide_fail(TIDE_EINVAL,
                         "table '%s': clocks want technique static and wire f32; rows that one "
                         "node uses at a time are better sequential and relocated",
                         o->name);
    }
    if (o->replicas) {
        return tide_fail(TIDE_EINVAL, "table '%s': a table with clocks has no replicas", o->name);
    }
    if (c->model != TIDE_VAP) {
        c->bound = 0;
        c->flat = false;
    } else if (!isfinite(c->bound) || c->bound <= 0) {
        return tide_fail(TIDE_EINVAL, "table '%s': vap requires a bound above 0", o->name);
    } else if (o->update == TIDE_UPDATE_OWN || !tide__rule_is(o, TIDE_RULE_ADDS)) {
        return tide_fail(TIDE_EINVAL, "table '%s': vap bounds sums of updates: it requires update rule add or sgd",
                         o->name);
    }
    c->age_ms = c->model == TIDE_ASYNC && c->age_ms == 0 ? TIDE__AGE_MS : c->age_ms;
    o->cache_bytes = o->cache_bytes ? o->cache_bytes : CACHE_BYTES;
    o->unsubscribe_after = o->unsubscribe_after ? o->unsubscribe_after : UNSUBSCRIBE_AFTER;
    return 0;
}

bool tide__consistency_equal(const struct tide_consistency *x, const struct tide_consistency *y) {
    return x->model == y->model && x->reproducible == y->reproducible && x->staleness == y->staleness &&
           x->age_ms == y->age_ms && x->bound == y->bound && x->flat == y->flat;
}

void tide__consistency_write(struct tide_writer *w, const struct tide_table_options *o) {
    tide_write_array(w, FIELDS);
    tide_write_uint(w, o->consistency.model);
    tide_write_bool(w, o->consistency.reproducible);
    tide_write_uint(w, o->consistency.staleness);
    tide_write_uint(w, o->consistency.age_ms);
    tide_write_double(w, o->consistency.bound);
    tide_write_bool(w, o->consistency.flat);
    tide_write_uint(w, o->cache_bytes);
    tide_write_uint(w, o->unsubscribe_after);
    tide_write_uint(w, o->send_order);
    tide_write_uint(w, o->bandwidth);
}

static uint32_t small(struct tide_reader *r) {
    uint64_t value = tide_read_uint(r);
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

int tide__consistency_read(struct tide_reader *r, struct tide_table_options *o) {
    size_t fields = tide_read_array(r);
    uint32_t model = small(r);
    o->consistency.model = model < UINT8_MAX ? (uint8_t)model : UINT8_MAX;
    o->consistency.reproducible = tide_read_bool(r);
    o->consistency.staleness = small(r);
    o->consistency.age_ms = small(r);
    o->consistency.bound = tide_read_double(r);
    o->consistency.flat = tide_read_bool(r);
    o->cache_bytes = tide_read_uint(r);
    o->unsubscribe_after = small(r);
    uint64_t order = tide_read_uint(r);
    o->send_order = order < UINT8_MAX ? (uint8_t)order : UINT8_MAX;
    o->bandwidth = tide_read_uint(r);
    return r->error || fields != FIELDS ? tide_fail(TIDE_EPROTO, "a damaged consistency") : 0;
}
