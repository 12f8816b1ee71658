/* Messages between store actors: names, readers and writers, from the rows of message.def. */
#include "store/core/message.h"
#include "store/core/store.h"
#include "store/core/table.h"

const char *tide_store_message_name(uint64_t op) {
    static const char *const names[TIDE__OP_COUNT] = {
#define TIDE__MESSAGE(name, cast, call, what, fields) [TIDE__OP_##name] = #name,
#include "store/core/message.def"
#undef TIDE__MESSAGE
    };
    return op < TIDE__OP_COUNT ? names[op] : NULL;
}

/* ---- how many fields ---- */

#define UINT(bits, field) +1
#define INT(field) +1
#define REAL(field) +1
#define BOOL(field) +1
#define TEXT(field) +1
#define BYTES(field) +1
#define LIST(code, field) +1
#define VALUE(field) +1
#define NONE
#define FREE -1
static const signed char field_counts[TIDE__OP_COUNT] = {
#define TIDE__MESSAGE(name, cast, call, what, fields) [TIDE__OP_##name] = 0 fields,
#include "store/core/message.def"
#undef TIDE__MESSAGE
};
#undef UINT
#undef INT
#undef REAL
#undef BOOL
#undef TEXT
#undef BYTES
#undef LIST
#undef VALUE
#undef NONE
#undef FREE

int tide__message_fields(enum tide__op op) {
    return field_counts[op];
}

/* ---- readers ---- */

static uint64_t read_uint(struct tide_reader *r, uint64_t most) {
    const uint64_t value = tide_read_uint(r);
    r->error = value > most ? TIDE_EPROTO : r->error;
    return value;
}

static struct tide__array read_text(struct tide_reader *r) {
    struct tide__array list = {.form = tide_read_nil(r) ? TIDE__LIST_NIL : TIDE__LIST_WHOLE};
    list.at = list.form == TIDE__LIST_NIL ? NULL : tide_read_string(r, &list.count);
    return list;
}

static struct tide__array read_bytes(struct tide_reader *r) {
    struct tide__array list = {.form = tide_read_nil(r) ? TIDE__LIST_NIL : TIDE__LIST_WHOLE};
    list.at = list.form == TIDE__LIST_NIL ? NULL : tide_read_binary(r, &list.count);
    return list;
}

static struct tide__array read_list(struct tide_reader *r, enum tide_ext code) {
    struct tide__array list = {.form = tide_read_nil(r) ? TIDE__LIST_NIL : TIDE__LIST_WHOLE};
    list.at = list.form == TIDE__LIST_NIL ? NULL : tide_read_typed(r, code, &list.count);
    return list;
}

static struct tide__array read_value(struct tide_reader *r) {
    const uint8_t *from = r->at;
    tide_read_skip(r);
    return TIDE__LIST(from, r->error ? 0 : (size_t)(r->at - from));
}

#define UINT(bits, field) m->field = (uint##bits##_t)read_uint(r, UINT##bits##_MAX);
#define INT(field) m->field = tide_read_int(r);
#define REAL(field) m->field = tide_read_double(r);
#define BOOL(field) m->field = tide_read_bool(r);
#define TEXT(field) m->field = read_text(r);
#define BYTES(field) m->field = read_bytes(r);
#define LIST(code, field) m->field = read_list(r, TIDE_##code);
#define VALUE(field) m->field = read_value(r);
#define NONE m->none = 0;
#define FREE m->none = 0;
bool tide__message_read(enum tide__op op, size_t count, struct tide_reader *r, union tide__message *out) {
    if (field_counts[op] >= 0 && count != 1 + (size_t)field_counts[op]) {
        r->error = TIDE_EPROTO;
        return false;
    }
    switch (op) {
#define TIDE__MESSAGE(name, cast, call, what, fields)                                                                  \
    case TIDE__OP_##name: {                                                                                            \
        __typeof__(out->name) *m = &out->name;                                                                         \
        fields                                                                                                         \
    } break;
#include "store/core/message.def"
#undef TIDE__MESSAGE
    case TIDE__OP_NONE:
    case TIDE__OP_COUNT:
        break;
    }
    return r->error == 0;
}
#undef UINT
#undef INT
#undef REAL
#undef BOOL
#undef TEXT
#undef BYTES
#undef LIST
#undef VALUE
#undef NONE
#undef FREE

/* ---- writers ---- */

static void write_text(struct tide_writer *w, const struct tide__array *list) {
    if (list->form == TIDE__LIST_NIL) {
        tide_write_nil(w);
    } else {
        tide_write_string(w, list->at, list->count);
    }
}

static void write_bytes(struct tide_writer *w, const struct tide__array *list) {
    if (list->form == TIDE__LIST_NIL) {
        tide_write_nil(w);
    } else if (list->form == TIDE__LIST_HEAD) {
        tide_write_binary_head(w, list->count);
    } else {
        tide_write_binary(w, list->at, list->count);
    }
}

static void write_list(struct tide_writer *w, enum tide_ext code, const struct tide__array *list) {
    if (list->form == TIDE__LIST_NIL) {
        tide_write_nil(w);
    } else if (list->form == TIDE__LIST_HEAD) {
        tide_write_typed_head(w, code, list->count);
    } else {
        tide_write_typed(w, code, list->at, list->count);
    }
}

#define UINT(bits, field) tide_write_uint(w, m->field);
#define INT(field) tide_write_int(w, m->field);
#define REAL(field) tide_write_double(w, m->field);
#define BOOL(field) tide_write_bool(w, m->field);
#define TEXT(field) write_text(w, &m->field);
#define BYTES(field) write_bytes(w, &m->field);
#define LIST(code, field) write_list(w, TIDE_##code, &m->field);
#define VALUE(field) tide_write_raw(w, m->field.at, m->field.count);
#define NONE (void)m;
#define FREE (void)m;
void tide__message_write(struct tide_writer *w, enum tide__op op, const union tide__message *message) {
    TIDE_ASSERT(field_counts[op] >= 0);
    tide_write_array(w, 1 + (size_t)field_counts[op]);
    tide_write_uint(w, (uint64_t)op);
    switch (op) {
#define TIDE__MESSAGE(name, cast, call, what, fields)                                                                  \
    case TIDE__OP_##name: {                                                                                            \
        const __typeof__(message->name) *m = &message->name;                                                           \
        fields                                                                                                         \
    } break;
#include "store/core/message.def"
#undef TIDE__MESSAGE
    case TIDE__OP_NONE:
    case TIDE__OP_COUNT:
        break;
    }
}

bool tide__text_copy(const struct tide__array *text, char *out, size_t capacity) {
    const bool fits = text->at && text->count < capacity && !memchr(text->at, 0, text->count);
    (void)snprintf(out, capacity, "%.*s", fits ? (int)text->count : 0, fits ? (const char *)text->at : "");
    return fits;
}

bool tide__are_slots(const struct tide__array *slots) {
    bool good = slots->count <= TIDE_SLOT_COUNT;
    for (size_t i = 0; good && i < slots->count; i++) {
        good = tide__number_at(slots->at, i) < TIDE_SLOT_COUNT;
    }
    return good;
}
