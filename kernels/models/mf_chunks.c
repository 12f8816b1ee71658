/* Chunks of cells with the rows they need; see mf.h. */
#include "models/mf.h"

#include "base/base.h"
#include "models/rows_batch.h"
#include "tensor/cpu/vector.h"

#include <string.h>

enum { SPARSE = 2 }; /* as many indices as cells, and more, of which most are not there */

/* Renumbers the indices of a side, every second number. */
static int compact(struct mf_side *side, uint32_t *indices, size_t count) {
    struct tide_key_index index = {0};
    uint64_t *keys = tide_alloc(count * sizeof *keys);
    size_t distinct = 0;
    side->names = tide_alloc(count * sizeof *side->names);
    int code = tide_key_index_init(&index, count);
    code = keys && side->names ? code : TIDE_ENOMEM;
    index.now = 1;
    for (size_t i = 0; i < count && code == 0; i++) {
        indices[2 * i] = tide_key_index_of(&index, indices[2 * i], keys, &distinct);
    }
    for (size_t i = 0; i < distinct; i++) {
        side->names[i] = (uint32_t)keys[i];
    }
    side->first = 0;
    side->span = (uint32_t)distinct;
    tide_key_index_release(&index);
    tide_free(keys);
    return code;
}

static int side_init(struct mf_side *side, size_t width, bool train, size_t chunk_bytes) {
    size_t most = chunk_bytes / (width * sizeof(float));
    side->capacity = most < 2 ? 2 : most < side->span ? most : side->span;
    side->capacity += side->capacity == 0;
    size_t bytes = side->capacity * width * sizeof(float);
    side->places = tide_alloc_zero((size_t)side->span + 1, sizeof *side->places);
    side->keys = tide_alloc(side->capacity * sizeof *side->keys);
    side->indices = tide_alloc(side->capacity * sizeof *side->indices);
    side->rows = tide_workspace_alloc(bytes);
    side->before = train ? tide_workspace_alloc(bytes) : NULL;
    return side->places && side->keys && side->indices && side->rows && (side->before || !train) ? 0 : TIDE_ENOMEM;
}

int mf_chunks_init(struct mf_chunks *chunks, bool train, size_t chunk_bytes) {
    uint32_t least[2] = {UINT32_MAX, UINT32_MAX}, most[2] = {0, 0};
    for (size_t i = 0; i < 2 * chunks->cell_count; i++) {
        uint32_t index = chunks->cells[i];
        least[i & 1] = index < least[i & 1] ? index : least[i & 1];
        most[i & 1] = index > most[i & 1] ? index : most[i & 1];
    }
    int code = 0;
    chunks->width = chunks->sides[0].table.width;
    for (int i = 0; i < 2 && code == 0; i++) {
        struct mf_side *side = &chunks->sides[i];
        side->first = chunks->cell_count ? least[i] : 0;
        side->span = chunks->cell_count ? most[i] - least[i] + 1 : 0;
        if (chunks->own && side->span / SPARSE > chunks->cell_count) {
            code = compact(side, chunks->own + i, chunks->cell_count);
        }
        code = code ? code : side_init(side, chunks->width, train, chunk_bytes);
    }
    return code;
}

void mf_chunks_deinit(struct mf_chunks *chunks) {
    for (int i = 0; i < 2; i++) {
        struct mf_side *side = &chunks->sides[i];
        tide_free(side->names);
        tide_free(side->places);
        tide_free(side->keys);
        tide_free(side->indices);
        tide_workspace_free(side->rows);
        tide_workspace_free(side->before);
    }
}

/* Marks what cells from `at` on need, as long as there is room; sets the chunk's end. */
static void mark(struct mf_chunks *chunks) {
    struct mf_side *sides = chunks->sides;
    for (int i = 0; i < 2; i++) {
        for (size_t place = 0; place < sides[i].count; place++) {
            sides[i].places[sides[i].indices[place] - sides[i].first] = 0;
        }
        sides[i].count = 0;
    }
    for (chunks->end = chunks->at; chunks->end < chunks->cell_count; chunks->end++) {
        const uint32_t *cell = chunks->cells + 2 * chunks->end;
        uint32_t *w = &sides[0].places[cell[0] - sides[0].first];
        uint32_t *h = &sides[1].places[cell[1] - sides[1].first];
        if ((*w == 0 && sides[0].count == sides[0].capacity) || (*h == 0 && sides[1].count == sides[1].capacity)) {
            break;
        }
        sides[0].count += *w == 0;
        sides[1].count += *h == 0;
        *w = *h = 1;
    }
}

/* Places by ascending index: neighbours in the table are pulled together. */
static void number_places(struct mf_side *side) {
    uint32_t place = 0;
    for (uint32_t i = 0; i < side->span && place < side->count; i++) {
        if (side->places[i] != 0) {
            side->indices[place] = side->first + i;
            side->keys[place] = side->base + mf_index(side, side->first + i);
            side->places[i] = ++place;
        }
    }
}

/* Starts an operation on both sides and waits for what was started. */
static int both(struct mf_chunks *chunks, bool push) {
    int code = 0, started = 0;
    for (; started < 2 && code == 0; started++) {
        struct mf_side *s = &chunks->sides[started];
        code = push ? s->table.push_start(s->table.table, s->keys, s->count, s->rows, s->handle)
                    : s->table.pull_start(s->table.table, s->keys, s->count, s->rows, s->handle);
    }
    started -= code != 0;
    for (int i = 0; i < started; i++) {
        int waited = chunks->sides[i].table.wait(chunks->sides[i].handle);
        code = code ? code : waited;
    }
    return code;
}

int mf_chunks_next(struct mf_chunks *chunks) {
    chunks->at = chunks->end;
    if (chunks->at == chunks->cell_count) {
        return 0;
    }
    mark(chunks);
    for (int i = 0; i < 2; i++) {
        number_places(&chunks->sides[i]);
        chunks->pulled += chunks->sides[i].count;
    }
    chunks->chunks++;
    int code = both(chunks, false);
    for (int i = 0; i < 2 && code == 0 && chunks->sides[i].before; i++) {
        memcpy(chunks->sides[i].before, chunks->sides[i].rows, chunks->sides[i].count * chunks->width * sizeof(float));
    }
    return code ? code : 1;
}

/* rows -= before. True: the differences are finite. */
TIDE_BODY bool subtract_body(float *rows, const float *before, size_t count) {
    tide_v8 zeros = {0}; /* 0 x is NaN for what is not finite */
    float rest = 0;
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        tide_v8 change = TIDE_V8C(rows + i) - TIDE_V8C(before + i);
        TIDE_V8(rows + i) = change;
        zeros += 0 * change;
    }
    for (; i < count; i++) {
        rows[i] -= before[i];
        rest += 0 * rows[i];
    }
    for (int j = 0; j < 8; j++) {
        rest += zeros[j];
    }
    return rest == 0;
}
TIDE_VECTOR_FUNCTION(bool, subtract, (float *rows, const float *before, size_t count), (rows, before, count))

bool mf_chunks_subtract(struct mf_chunks *chunks) {
    bool finite = true;
    for (int i = 0; i < 2 && finite; i++) {
        struct mf_side *side = &chunks->sides[i];
        finite = subtract(side->rows, side->before, side->count * chunks->width);
    }
    return finite;
}

int mf_chunks_push(struct mf_chunks *chunks) {
    for (int i = 0; i < 2; i++) {
        chunks->pushed += chunks->sides[i].count;
    }
    return both(chunks, true);
}
