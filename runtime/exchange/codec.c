/*
 * What messages between workers look like, and values on the wire.
 *
 * [kind, view, step, rank, layer, index, format, fanout, [k ...], values]
 *     PUSH, SUM, REDUCE, GATHER: index = chunk; values of topk, onebit and sparse are bytes
 *     FACTOR: rank = source, also when another forwards them; index = offset, k = rows of each matrix
 * [SHARE, view, step, rank, [sums], nil | plan]     plan = [epoch, paths, formats, fanouts]
 * [STATE, view, step, rank, dead by rank, [done, its view by layer], [view, [sums by rank], nil |
 * plan]]
 */
#include "exchange/internal.h"

size_t tide__exchange_size(size_t count, uint8_t format) {
    return format > TIDE_WIRE_BF16 ? tide__compressed_size(count, format) : count * tide__exchange_width(format);
}

int tide__exchange_encode(const float *from, void *to, size_t count, uint8_t format) {
    if (format > TIDE_WIRE_BF16) {
        return tide__compress(from, to, count, format);
    }
    if (format == TIDE_WIRE_F32) {
        memcpy(to, from, count * sizeof *from);
    } else {
        tide__floats_to_half(from, to, count, format);
    }
    return 0;
}

int tide__exchange_decode(const void *from, float *to, size_t count, uint8_t format) {
    if (format > TIDE_WIRE_BF16) {
        return tide__expand(from, to, count, format);
    }
    if (format == TIDE_WIRE_F32) {
        memcpy(to, from, count * sizeof *to);
    } else {
        tide__half_to_floats(from, to, count, format);
    }
    return 0;
}

struct tide_blob *tide__exchange_blob(const float *from, size_t count, uint8_t format) {
    struct tide_blob *blob = tide_blob_create(tide__exchange_size(count, format));
    if (blob && tide__exchange_encode(from, blob->data, count, format) < 0) {
        tide_blob_unref(blob);
        blob = NULL;
    }
    return blob;
}

static const uint8_t codes[] = {
    [TIDE_WIRE_F32] = TIDE_F32,   [TIDE_WIRE_F16] = TIDE_F16,     [TIDE_WIRE_BF16] = TIDE_BF16,
    [TIDE_FORMAT_TOPK] = TIDE_U8, [TIDE_FORMAT_ONEBIT] = TIDE_U8, [TIDE_FORMAT_SPARSE] = TIDE_U8};

void tide__exchange_head(struct tide_writer *w, const struct tide_exchange *x, const struct entry *e) {
    const struct layer *l = &x->layers[e->layer];
    tide_write_array(w, 10);
    tide_write_uint(w, e->kind);
    tide_write_uint(w, x->view);
    tide_write_uint(w, e->step);
    tide_write_uint(w, e->kind == FACTOR ? e->rank : x->rank);
    tide_write_uint(w, e->layer);
    tide_write_uint(w, e->index);
    tide_write_uint(w, e->format);
    tide_write_uint(w, e->fanout);
    if (e->kind == FACTOR) {
        const struct factors *f = e->rank == x->rank ? &l->own[e->step & 1] : &l->rounds[e->step & 1].factors[e->rank];
        tide_write_array(w, l->matrix_count);
        for (size_t i = 0; i < l->matrix_count; i++) {
            tide_write_uint(w, f->k[i]);
        }
    } else {
        tide_write_array(w, 0);
    }
    tide_write_typed_head(w, (enum tide_ext)codes[e->format], e->format > TIDE_WIRE_BF16 ? e->blob->size : e->count);
}

static uint32_t read_u32(struct tide_reader *r) {
    uint64_t value = tide_read_uint(r);
    if (value > UINT32_MAX) {
        r->error = TIDE_EPROTO;
        return 0;
    }
    return (uint32_t)value;
}

static void parse_plan(struct tide_reader *r, struct incoming *m) {
    if (tide_read_nil(r)) {
        return;
    }
    size_t formats = 0, fanouts = 0;
    m->proposes = tide_read_array(r) == 4;
    m->epoch = tide_read_uint(r);
    m->paths = tide_read_binary(r, &m->plan_count);
    m->formats = tide_read_binary(r, &formats);
    m->fanouts = tide_read_binary(r, &fanouts);
    bool valid = m->proposes && r->error == 0 && formats == m->plan_count && fanouts == formats;
    for (size_t i = 0; valid && i < m->plan_count; i++) {
        valid = m->paths[i] < TIDE_PATH_COUNT && m->formats[i] < TIDE_FORMAT_COUNT;
    }
    r->error = valid ? r->error : TIDE_EPROTO;
}

static void parse_share(struct tide_reader *r, struct incoming *m) {
    if (tide_read_array(r) != TIDE_EXCHANGE_SUMS) {
        r->error = TIDE_EPROTO;
        return;
    }
    for (size_t i = 0; i < TIDE_EXCHANGE_SUMS; i++) {
        m->sums[i] = tide_read_double(r);
    }
    parse_plan(r, m);
}

/* Lists are kept as they came, and read here once to know that they can be. */
static void parse_state(struct tide_reader *r, struct incoming *m) {
    m->dead = tide_read_binary(r, &m->dead_count);
    m->done_count = tide_read_array(r) / 2;
    m->done = *r;
    for (size_t i = 0; i < 2 * m->done_count && r->error == 0; i++) {
        (void)tide_read_uint(r);
    }
    if (tide_read_array(r) != 3 || m->done_count > TIDE_EXCHANGE_LAYERS_MAX) {
        r->error = TIDE_EPROTO;
        return;
    }
    m->share_view = read_u32(r);
    m->share_count = tide_read_array(r);
    m->shares = *r;
    for (size_t i = 0; i < m->share_count && r->error == 0; i++) {
        (void)tide_read_double(r);
    }
    parse_plan(r, m);
}

static void parse_values(struct tide_reader *r, struct incoming *m) {
    m->layer = read_u32(r);
    m->index = read_u32(r);
    uint32_t format = read_u32(r), fanout = read_u32(r);
    m->k_count = tide_read_array(r);
    if (r->error || format >= TIDE_FORMAT_COUNT || fanout > UINT8_MAX ||
        (m->kind == FACTOR ? format == TIDE_FORMAT_TOPK || format == TIDE_FORMAT_ONEBIT
                           : format == TIDE_FORMAT_SPARSE) ||
        m->k_count > MATRICES_MAX) {
        r->error = TIDE_EPROTO;
        return;
    }
    m->format = (uint8_t)format;
    m->fanout = (uint8_t)fanout;
    for (size_t i = 0; i < m->k_count; i++) {
        m->k[i] = read_u32(r);
    }
    m->values = tide_read_typed(r, (enum tide_ext)codes[m->format], &m->size);
    m->size *= tide_ext_element_size(codes[m->format]);
}

int tide__exchange_parse(const void *data, size_t size, struct incoming *m) {
    struct tide_reader r;
    tide_reader_init(&r, data, size);
    *m = (struct incoming){.kind = KIND_COUNT};
    size_t items = tide_read_array(&r);
    uint64_t kind = tide_read_uint(&r);
    m->view = read_u32(&r);
    m->step = tide_read_uint(&r);
    m->rank = read_u32(&r);
    if (r.error || kind > STATE || items != (kind == SHARE ? 6u : kind == STATE ? 7u : 10u)) {
        return tide_fail(TIDE_EPROTO, "no message of an exchange");
    }
    m->kind = (uint8_t)kind;
    if (kind == SHARE) {
        parse_share(&r, m);
    } else if (kind == STATE) {
        parse_state(&r, m);
    } else {
        parse_values(&r, m);
    }
    if (r.error || r.at != r.end || (m->step == 0 && kind != STATE)) {
        return tide_fail(TIDE_EPROTO, "a damaged message of an exchange");
    }
    return 0;
}
