/*
 * Streams: events that nodes of the cluster observe, and lines of their logs. A stream asks the
 * agent of each node for what lies behind the number that it has had, a few times a second. Nothing is kept on the
 * nodes for a stream: one that reads too late misses what they have forgotten.
 */
#include "client/inside.h"

#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = CONNECTIONS_MAX - 2, TOLD = 256, ROUND_MS = 200, SAME_S = 10 };

struct source {
    uint16_t id;
    uint64_t incarnation;
    uint64_t after; /* number of the last line received */
    uint64_t agent; /* address; 0: to be found */
    bool seen;      /* its newest number was received */
};

/* Several nodes see one event: the same text, at nearly the same time, of another node. */
struct told {
    uint64_t text; /* hash */
    double time;
    uint16_t node;
};

struct tide_client_stream {
    struct tide_client *client;
    char op[8];
    bool merges;
    bool whole; /* from what nodes still have; else from now on */
    struct source sources[NODES_MAX];
    size_t source_count;
    struct told told[TOLD];
    size_t told_count;
    uint64_t next_round;
    struct tide_client_line *lines; /* of the last round, oldest first */
    size_t line_count, line_at, line_capacity;
};

int tide_client_stream(struct tide_client *client, const char *what, bool whole, struct tide_client_stream **out) {
    *out = NULL;
    int rc = client_check(client);
    if (rc == 0 && strcmp(what, "events") != 0 && strcmp(what, "log") != 0) {
        rc = tide_fail(TIDE_EINVAL, "a stream is `events` or `log`, not `%s`", what);
    }
    struct tide_client_stream *s = rc != 0 ? NULL : tide_alloc_zero(1, sizeof *s);
    if (!s) {
        return rc != 0 ? rc : tide_fail(TIDE_ENOMEM, "no memory for a stream");
    }
    s->client = client;
    (void)snprintf(s->op, sizeof s->op, "%s", what);
    s->merges = what[0] == 'e';
    s->whole = whole;
    *out = s;
    return 0;
}

void tide_client_stream_close(struct tide_client_stream *s) {
    if (s) {
        tide_free(s->lines);
        tide_free(s);
    }
}

/* ---- the nodes ---- */

static struct source *source_of(struct tide_client_stream *s, const struct tide_member *m) {
    for (size_t i = 0; i < s->source_count; i++) {
        if (s->sources[i].id == m->id && s->sources[i].incarnation == m->incarnation) {
            return &s->sources[i];
        }
    }
    return NULL;
}

/* Members that are up, with what was known of them. */
static void look_at_nodes(struct tide_client_stream *s) {
    struct source now[NODES_MAX];
    size_t count = 0;
    struct tide_client *c = s->client;
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->member_count && count < NODES_MAX; i++) {
        const struct tide_member *m = &c->members[i];
        if (m->state == TIDE_MEMBER_UP && m->name[0]) {
            const struct source *known = source_of(s, m);
            now[count++] = known ? *known : (struct source){.id = m->id, .incarnation = m->incarnation};
        }
    }
    pthread_mutex_unlock(&c->lock);
    memcpy(s->sources, now, count * sizeof *now);
    s->source_count = count;
}

/* ---- answers of nodes ---- */

static bool was_told(struct tide_client_stream *s, const struct tide_client_line *line, uint16_t node) {
    const uint64_t text = tide_hash(line->text, strlen(line->text), 0);
    for (size_t i = 0; i < TOLD && i < s->told_count; i++) {
        const double apart = s->told[i].time - line->time;
        if (s->told[i].text == text && s->told[i].node != node && apart < SAME_S && apart > -SAME_S) {
            return true;
        }
    }
    s->told[s->told_count++ % TOLD] = (struct told){.text = text, .time = line->time, .node = node};
    return false;
}

static int keep(struct tide_client_stream *s, const struct tide_client_line *line) {
    if (s->line_count == s->line_capacity) {
        const size_t capacity = s->line_capacity ? 2 * s->line_capacity : 64;
        struct tide_client_line *grown = tide_realloc(s->lines, capacity * sizeof *grown);
        if (!grown) {
            return tide_fail(TIDE_ENOMEM, "no memory for what the cluster tells");
        }
        s->lines = grown;
        s->line_capacity = capacity;
    }
    s->lines[s->line_count++] = *line;
    return 0;
}

static void read_text(const struct tide_reader *of, const char *key, char *out, size_t capacity) {
    struct tide_reader value;
    out[0] = '\0';
    if (tide_read_field(of, key, &value)) {
        tide_read_text(&value, out, capacity);
    }
}

static bool read_line(const struct tide_reader *of, bool event, struct tide_client_line *line) {
    struct tide_reader value;
    bool whole = tide_read_field(of, "number", &value);
    line->number = whole ? tide_read_uint(&value) : 0;
    whole = whole && tide_read_field(of, "time", &value);
    line->time = whole ? tide_read_double(&value) : 0;
    read_text(of, event ? "kind" : "level", line->kind, sizeof line->kind);
    read_text(of, "text", line->text, sizeof line->text);
    return whole;
}

static int take_answer(struct tide_client_stream *s, struct source *from, const char *node,
                       const struct tide_client_op *op) {
    struct tide_reader r, list;
    const bool wanted = from->seen || s->whole;
    tide_reader_init(&r, op->answer, op->answer_size);
    size_t count = tide_read_field(&r, s->merges ? "events" : "lines", &list) ? tide_read_array(&list) : 0;
    const uint64_t after = from->after;
    int rc = 0;
    for (; count > 0 && rc == 0; count--) {
        struct tide_client_line line = {0};
        const struct tide_reader one = list;
        tide_read_skip(&list);
        if (!read_line(&one, s->merges, &line) || line.number <= after) {
            continue;
        }
        from->after = line.number;
        (void)snprintf(line.node, sizeof line.node, "%s", node);
        const bool again = s->merges && was_told(s, &line, from->id);
        rc = wanted && !again ? keep(s, &line) : 0;
    }
    from->seen = true;
    return rc;
}

/* ---- rounds ---- */

static int ask(struct tide_client_stream *s, struct source *of, uint64_t timeout) {
    char node[64] = "", name[80];
    struct tide_client *c = s->client;
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->member_count; i++) {
        if (c->members[i].id == of->id) {
            (void)snprintf(node, sizeof node, "%s", c->members[i].name);
        }
    }
    pthread_mutex_unlock(&c->lock);
    (void)snprintf(name, sizeof name, "%s/agent", node);
    int rc = of->agent != 0 ? 0 : tide_client_find(c, name, timeout, &of->agent);
    if (rc != 0) {
        return rc;
    }
    uint8_t buffer[64];
    struct tide_writer w;
    struct tide_client_op *op = NULL;
    tide_writer_init(&w, buffer, sizeof buffer);
    tide_write_map(&w, s->merges ? 2 : 1);
    tide_write_text(&w, "op");
    tide_write_text(&w, s->op);
    if (s->merges) {
        tide_write_text(&w, "after");
        tide_write_uint(&w, of->after);
    }
    rc = tide_client_call(c, of->agent, w.data, w.size, timeout, &op);
    rc = rc != 0 ? rc : tide_client_wait(op, timeout);
    rc = rc != 0 ? rc : take_answer(s, of, node, op);
    of->agent = rc == TIDE_EDIED || rc == TIDE_ENOENT ? 0 : of->agent;
    tide_client_free(op);
    return rc;
}

static int older(const void *a, const void *b) {
    const struct tide_client_line *left = a, *right = b;
    return left->time < right->time       ? -1
           : left->time > right->time     ? 1
           : left->number < right->number ? -1
                                          : left->number > right->number;
}

/* Asks every node once. One that does not answer has nothing to tell: the others do. */
static int round_of(struct tide_client_stream *s, uint64_t deadline) {
    s->line_count = s->line_at = 0;
    look_at_nodes(s);
    for (size_t i = 0; i < s->source_count; i++) {
        const uint64_t now = client_now(s->client);
        const int rc = ask(s, &s->sources[i], deadline > now ? deadline - now : 1);
        if (rc == TIDE_ECLOSED || rc == TIDE_EPERM || rc == TIDE_ENOMEM || rc == TIDE_ECANCELED) {
            return rc;
        }
    }
    if (s->line_count > 1) {
        qsort(s->lines, s->line_count, sizeof *s->lines, older);
    }
    return 0;
}

static bool never(void *arg) {
    (void)arg;
    return false;
}

int tide_client_stream_next(struct tide_client_stream *s, struct tide_client_line *out, size_t most, uint64_t timeout,
                            size_t *count) {
    struct tide_client *c = s->client;
    const uint64_t deadline = client_now(c) + (timeout ? timeout : c->timeout);
    *count = 0;
    int rc = client_check(c);
    while (rc == 0 && s->line_at == s->line_count) {
        const uint64_t now = client_now(c);
        if (now >= s->next_round) {
            rc = round_of(s, now + 1000000000);
            s->next_round = now + ROUND_MS * 1000000ull;
        } else if (now >= deadline) {
            rc = tide_fail(TIDE_ETIMEDOUT, "nothing happened");
        } else {
            pthread_mutex_lock(&c->lock);
            rc = client_wait_until(c, s->next_round < deadline ? s->next_round : deadline, never, NULL);
            rc = rc == TIDE_ETIMEDOUT ? 0 : rc;
            pthread_mutex_unlock(&c->lock);
        }
    }
    while (rc == 0 && *count < most && s->line_at < s->line_count) {
        out[(*count)++] = s->lines[s->line_at++];
    }
    return rc;
}
