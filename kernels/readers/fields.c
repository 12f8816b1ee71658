/* Lines of fields, from text in pieces; see fields.h. */
#include "readers/fields.h"

#include "names.h"
#include "readers/text.h"

#include <string.h>
#include <strings.h>

bool tide_fields_next(struct tide_fields_line *line, const char **field, size_t *size) {
    while (line->at < line->end && tide_fields_blank(*line->at)) {
        line->at++;
    }
    *field = line->at;
    while (line->at < line->end && !tide_fields_blank(*line->at)) {
        line->at++;
    }
    *size = (size_t)(line->at - *field);
    return *size > 0;
}

bool tide_fields_is(const char *field, size_t size, const char *word) {
    return size == strlen(word) && strncasecmp(field, word, size) == 0;
}

int tide_fields_refuse(const struct tide_fields *f, const struct tide_fields_line *line, const char *at,
                       const char *expected, const char *advice) {
    size_t size = 0;
    while (at + size < line->end && size < TIDE_FIELDS_SHOWN && !tide_fields_blank(at[size])) {
        size++;
    }
    return tide_fail(TIDE_EPROTO, "%s: line %zu: column %zu: expected %s, found '%.*s'; %s", f->name, f->line,
                     (size_t)(at - line->start) + 1, expected, (int)size, at, advice);
}

const char *tide_fields_count(const char *field, size_t size, uint64_t *count) {
    const char *end = field + size, *at = end;
    while (at > field && at[-1] != ':') {
        at--;
    }
    return at > field + 1 && tide_text_count(at, (size_t)(end - at), INT32_MAX, count) && *count > 0 ? at : NULL;
}

void tide_fields_skip_label(struct tide_fields_line *line) {
    struct tide_fields_line ahead = *line;
    const char *field;
    size_t size;
    uint64_t ignored;
    while (tide_fields_next(&ahead, &field, &size)) {
        if (*field == '|') {
            *line = ahead;
            return;
        }
    }
    ahead = *line;
    if (tide_fields_next(&ahead, &field, &size) && !tide_fields_count(field, size, &ignored)) {
        *line = ahead;
    }
}

bool tide_fields_look_counted(struct tide_fields_line line) {
    const char *field, *start = line.at;
    size_t size, counts = 0;
    uint64_t ignored;
    tide_fields_skip_label(&line);
    const bool bar = line.at > start && memchr(start, '|', (size_t)(line.at - start));
    while (tide_fields_next(&line, &field, &size)) {
        if (!tide_fields_count(field, size, &ignored)) {
            return false;
        }
        counts++;
    }
    return counts > 1 || (bar && counts == 1);
}

void tide_fields_begin(struct tide_fields *f, const char *name) {
    f->name = name;
    f->line = 0;
}

static size_t line_most(const struct tide_fields *f) {
    return f->line_most ? f->line_most : TIDE_FIELDS_LINE_MOST;
}

static int too_long(const struct tide_fields *f, size_t line) {
    return tide_fail(TIDE_ELIMIT, "%s: line %zu: column 1: a line of more than %zu bytes; %s", f->name, line,
                     line_most(f), f->no_such);
}

static int read_line(struct tide_fields *f, const char *start, size_t size) {
    struct tide_fields_line line = {start, start, start + size};
    f->line++;
    if (size > line_most(f)) {
        return too_long(f, f->line);
    }
    if (f->line == 1 && size >= 3 && memcmp(start, "\xef\xbb\xbf", 3) == 0) {
        line.at += 3;
    }
    if (size > 0 && line.end[-1] == '\r') {
        line.end--;
    }
    const char *zero = size > 0 ? memchr(start, 0, size) : NULL;
    return zero ? tide_fields_refuse(f, &line, zero, "text, not a NUL byte", f->no_such) : f->read(f->reader, &line);
}

static int hold(struct tide_fields *f, const char *data, size_t size) {
    if (size > line_most(f) - f->held_size) {
        return too_long(f, f->line + 1);
    }
    int code = size > 0 ? tide_array_grow(&f->held, &f->held_room, f->held_size + size, 1) : 0;
    if (code == 0 && size > 0) {
        memcpy(f->held + f->held_size, data, size);
        f->held_size += size;
    }
    return code;
}

int tide_fields_feed(struct tide_fields *f, const char *data, size_t size) {
    const char *end = data + size;
    int code = 0;
    while (code == 0 && data < end) {
        const char *stop = memchr(data, '\n', (size_t)(end - data));
        if (!stop || f->held_size > 0) {
            code = hold(f, data, (size_t)((stop ? stop : end) - data));
        }
        if (!stop) {
            break;
        }
        if (code == 0) {
            code = f->held_size > 0 ? read_line(f, f->held, f->held_size) : read_line(f, data, (size_t)(stop - data));
            f->held_size = 0;
        }
        data = stop + 1;
    }
    return code;
}

int tide_fields_end(struct tide_fields *f) {
    const int code = f->held_size > 0 ? read_line(f, f->held, f->held_size) : 0;
    f->held_size = 0;
    return code;
}

void tide_fields_release(struct tide_fields *f) {
    tide_free(f->held);
    f->held = NULL;
}
