/*
 * Messages of libraft as bytes and back. What comes from others is checked as a whole before
 * anything is handed to the library, which trusts its callers.
 */
#include "control/control.h"
#include "base/limits.h"
#include "control/raft.h"

#include <string.h>

enum {
    NUMBERS = 5,
    FIELDS = 2 + NUMBERS + 2,
    ENTRY_BYTES = 16, /* before an entry's data: u64 term, u32 type, u32 length */
};

void tide__raft_address(raft_id id, char out[24]) {
    snprintf(out, 24, "n%llu", id);
}

int tide__raft_configuration_copy(const struct raft_configuration *from, struct raft_configuration *to) {
    raft_configuration_init(to);
    for (unsigned i = 0; i < from->n; i++) {
        const struct raft_server *s = &from->servers[i];
        int code = raft_configuration_add(to, s->id, s->address, s->role);
        if (code != 0) {
            raft_configuration_close(to);
            return code;
        }
    }
    return 0;
}

/* As libraft encodes them: u8 1, u64 count, and for each u64 id, text with its end, u8 role. */
size_t tide__raft_voters(const struct raft_buffer *encoded, uint16_t *ids, size_t limit) {
    const uint8_t *at = encoded->base, *end = at + encoded->len;
    uint64_t servers, id;
    size_t count = 0;
    if (encoded->len < 9 || at[0] != 1) {
        return 0;
    }
    memcpy(&servers, at + 1, sizeof servers);
    at += 9;
    for (uint64_t i = 0; i < servers; i++) {
        const uint8_t *text = at + sizeof id;
        const uint8_t *text_end = text < end ? memchr(text, 0, (size_t)(end - text)) : NULL;
        if (!text_end || text_end + 1 >= end) {
            return 0;
        }
        memcpy(&id, at, sizeof id);
        if (text_end[1] == RAFT_VOTER && count < limit) {
            ids[count++] = (uint16_t)id;
        }
        at = text_end + 2;
    }
    return count;
}

/* ---- writing ---- */

static void numbers_of(const struct raft_message *m, uint64_t n[NUMBERS], uint64_t *flag) {
    switch (m->type) {
    case RAFT_IO_APPEND_ENTRIES:
        n[0] = m->append_entries.term;
        n[1] = m->append_entries.prev_log_index;
        n[2] = m->append_entries.prev_log_term;
        n[3] = m->append_entries.leader_commit;
        break;
    case RAFT_IO_APPEND_ENTRIES_RESULT:
        n[0] = m->append_entries_result.term;
        n[1] = m->append_entries_result.rejected;
        n[2] = m->append_entries_result.last_log_index;
        break;
    case RAFT_IO_REQUEST_VOTE:
        n[0] = m->request_vote.term;
        n[1] = m->request_vote.candidate_id;
        n[2] = m->request_vote.last_log_index;
        n[3] = m->request_vote.last_log_term;
        *flag = (uint64_t)m->request_vote.disrupt_leader | (uint64_t)m->request_vote.pre_vote << 1;
        break;
    case RAFT_IO_REQUEST_VOTE_RESULT:
        n[0] = m->request_vote_result.term;
        n[1] = m->request_vote_result.vote_granted;
        *flag = (uint64_t)m->request_vote_result.pre_vote;
        break;
    case RAFT_IO_INSTALL_SNAPSHOT:
        n[0] = m->install_snapshot.term;
        n[1] = m->install_snapshot.last_index;
        n[2] = m->install_snapshot.last_term;
        n[3] = m->install_snapshot.conf_index;
        n[4] = m->install_snapshot.data.len;
        break;
    default:
        n[0] = m->timeout_now.term;
        n[1] = m->timeout_now.last_log_index;
        n[2] = m->timeout_now.last_log_term;
        break;
    }
}

/* So many of the entries as fit, at least one. */
static void write_entries(struct tide_writer *w, const struct raft_append_entries *a) {
    size_t bytes = 0, count = 0;
    while (count < a->n_entries &&
           (count == 0 || bytes + ENTRY_BYTES + a->entries[count].buf.len <= tide_limit(control_message_bytes))) {
        bytes += ENTRY_BYTES + a->entries[count++].buf.len;
    }
    tide_write_typed_head(w, TIDE_U8, bytes);
    uint8_t *at = tide_write_reserve(w, bytes);
    for (size_t i = 0; i < count && at; i++) {
        const struct raft_entry *e = &a->entries[i];
        const uint64_t term = e->term;
        const uint32_t type = e->type, length = (uint32_t)e->buf.len;
        memcpy(at, &term, sizeof term);
        memcpy(at + 8, &type, sizeof type);
        memcpy(at + 12, &length, sizeof length);
        memcpy(at + ENTRY_BYTES, e->buf.base, e->buf.len);
        at += ENTRY_BYTES + e->buf.len;
    }
}

void tide__raft_write(struct tide_writer *w, const struct raft_message *m, uint64_t offset) {
    uint64_t numbers[NUMBERS] = {0}, flag = 0;
    bool snapshot = m->type == RAFT_IO_INSTALL_SNAPSHOT;
    numbers_of(m, numbers, &flag);
    tide_write_array(w, FIELDS);
    tide_write_uint(w, m->type);
    for (unsigned i = 0; i < NUMBERS; i++) {
        tide_write_uint(w, numbers[i]);
    }
    tide_write_uint(w, snapshot ? offset : flag);
    const struct raft_configuration *conf = &m->install_snapshot.conf;
    tide_write_array(w, snapshot ? 2 * (size_t)conf->n : 0);
    for (unsigned i = 0; snapshot && i < conf->n; i++) {
        tide_write_uint(w, conf->servers[i].id);
        tide_write_uint(w, (uint64_t)conf->servers[i].role);
    }
    if (m->type == RAFT_IO_APPEND_ENTRIES) {
        write_entries(w, &m->append_entries);
    } else if (snapshot) {
        size_t left = m->install_snapshot.data.len - (size_t)offset;
        tide_write_typed(w, TIDE_U8, (const uint8_t *)m->install_snapshot.data.base + offset,
                         left < tide_limit(control_message_bytes) ? left : tide_limit(control_message_bytes));
    } else {
        tide_write_typed(w, TIDE_U8, NULL, 0);
    }
}

/* ---- reading ---- */

struct body {
    uint64_t numbers[NUMBERS], flag;
    struct raft_configuration servers;
    const uint8_t *bytes;
    size_t size;
};

static int damaged(void) {
    return tide_fail(TIDE_EPROTO, "a damaged message of the replicated log");
}

/* How many entries there are; -1: damaged. */
static int count_entries(const uint8_t *at, size_t size) {
    int count = 0;
    while (size > 0) {
        uint32_t type, length;
        if (size < ENTRY_BYTES) {
            return -1;
        }
        memcpy(&type, at + 8, sizeof type);
        memcpy(&length, at + 12, sizeof length);
        if (type < RAFT_COMMAND || type > RAFT_CHANGE || length == 0 || length > size - ENTRY_BYTES) {
            return -1;
        }
        at += ENTRY_BYTES + length;
        size -= ENTRY_BYTES + length;
        count++;
    }
    return count;
}

/* All entries of a message lie in one piece of memory, their *batch*. */
static int read_entries(const struct body *b, struct raft_append_entries *out) {
    int count = count_entries(b->bytes, b->size);
    if (count < 0) {
        return damaged();
    }
    out->entries = NULL;
    out->n_entries = (unsigned)count;
    if (count == 0) {
        return 0;
    }
    uint8_t *batch = raft_malloc(b->size);
    out->entries = raft_calloc((size_t)count, sizeof *out->entries);
    if (!batch || !out->entries) {
        raft_free(batch);
        raft_free(out->entries);
        return tide_fail(TIDE_ENOMEM, "out of memory");
    }
    memcpy(batch, b->bytes, b->size);
    uint8_t *at = batch;
    for (int i = 0; i < count; i++) {
        uint64_t term;
        uint32_t type, length;
        memcpy(&term, at, sizeof term);
        memcpy(&type, at + 8, sizeof type);
        memcpy(&length, at + 12, sizeof length);
        out->entries[i] = (struct raft_entry){.term = term,
                                              .type = (unsigned short)type,
                                              .buf = {.base = at + ENTRY_BYTES, .len = length},
                                              .batch = batch};
        at += ENTRY_BYTES + length;
    }
    return 0;
}

void tide__raft_parts_release(struct tide__raft_parts *parts) {
    raft_free(parts->data);
    *parts = (struct tide__raft_parts){0};
}

/* The first part begins anew; one that does not follow is dropped, and the sender tries again. */
static int read_part(const struct body *b, raft_id from, struct tide__raft_parts *parts) {
    uint64_t total = b->numbers[4], last_index = b->numbers[1];
    if (total == 0 || total > (uint64_t)TIDE_CONTROL_STATE_MAX + TIDE_CONTROL_ENTRY_MAX || b->size == 0 ||
        b->flag > total || b->size > total - b->flag) {
        return damaged();
    }
    if (b->flag == 0) {
        tide__raft_parts_release(parts);
        parts->data = raft_malloc((size_t)total);
        if (!parts->data) {
            return tide_fail(TIDE_ENOMEM, "out of memory");
        }
        parts->from = from;
        parts->last_index = last_index;
        parts->total = total;
    }
    if (!parts->data || parts->from != from || parts->last_index != last_index || parts->total != total ||
        parts->got != b->flag) {
        return 0;
    }
    memcpy(parts->data + parts->got, b->bytes, b->size);
    parts->got += b->size;
    return parts->got == total;
}

/* [id, role, ...] */
static int read_servers(struct tide_reader *r, struct raft_configuration *out) {
    size_t count = tide_read_array(r);
    raft_configuration_init(out);
    if (r->error != 0 || count % 2 != 0 || count / 2 > TIDE__RAFT_SERVERS_MAX) {
        return damaged();
    }
    for (size_t i = 0; i < count / 2; i++) {
        char address[24];
        uint64_t id = tide_read_uint(r), role = tide_read_uint(r);
        tide__raft_address(id, address);
        if (r->error != 0 || id == 0 || id > UINT16_MAX || role > RAFT_SPARE ||
            raft_configuration_add(out, id, address, (int)role) != 0) {
            raft_configuration_close(out);
            return damaged();
        }
    }
    return 0;
}

static int fill(struct body *b, raft_id from, struct tide__raft_parts *parts, struct raft_message *out) {
    const uint64_t *n = b->numbers;
    int code;
    switch (out->type) {
    case RAFT_IO_APPEND_ENTRIES:
        out->append_entries = (struct raft_append_entries){
            .term = n[0], .prev_log_index = n[1], .prev_log_term = n[2], .leader_commit = n[3]};
        code = read_entries(b, &out->append_entries);
        return code != 0 ? code : 1;
    case RAFT_IO_APPEND_ENTRIES_RESULT:
        out->append_entries_result =
            (struct raft_append_entries_result){.term = n[0], .rejected = n[1], .last_log_index = n[2]};
        return 1;
    case RAFT_IO_REQUEST_VOTE:
        out->request_vote = (struct raft_request_vote){.term = n[0],
                                                       .candidate_id = n[1],
                                                       .last_log_index = n[2],
                                                       .last_log_term = n[3],
                                                       .disrupt_leader = b->flag & 1,
                                                       .pre_vote = b->flag >> 1 & 1};
        return n[1] == from ? 1 : damaged();
    case RAFT_IO_REQUEST_VOTE_RESULT:
        out->request_vote_result = (struct raft_request_vote_result){
            .term = n[0], .vote_granted = n[1] != 0, .pre_vote = (raft_tribool)b->flag};
        return b->flag <= raft_tribool_false ? 1 : damaged();
    case RAFT_IO_INSTALL_SNAPSHOT:
        code = read_part(b, from, parts);
        if (code == 1) {
            out->install_snapshot =
                (struct raft_install_snapshot){.term = n[0],
                                               .last_index = n[1],
                                               .last_term = n[2],
                                               .conf_index = n[3],
                                               .conf = b->servers,
                                               .data = {.base = parts->data, .len = (size_t)parts->total}};
            *parts = (struct tide__raft_parts){0};
            raft_configuration_init(&b->servers);
        }
        return code;
    case RAFT_IO_TIMEOUT_NOW:
        out->timeout_now = (struct raft_timeout_now){.term = n[0], .last_log_index = n[1], .last_log_term = n[2]};
        return 1;
    default:
        return damaged();
    }
}

int tide__raft_read(struct tide_reader *r, raft_id from, struct tide__raft_parts *parts, struct raft_message *out) {
    struct body b = {0};
    size_t fields = tide_read_array(r);
    uint64_t type = tide_read_uint(r);
    for (unsigned i = 0; i < NUMBERS; i++) {
        b.numbers[i] = tide_read_uint(r);
    }
    b.flag = tide_read_uint(r);
    int code =
        fields == FIELDS && type <= RAFT_IO_TIMEOUT_NOW && r->error == 0 ? read_servers(r, &b.servers) : damaged();
    if (code != 0) {
        return code;
    }
    b.bytes = tide_read_typed(r, TIDE_U8, &b.size);
    *out = (struct raft_message){.type = (unsigned short)type, .server_id = from};
    code = r->error == 0 ? fill(&b, from, parts, out) : damaged();
    raft_configuration_close(&b.servers);
    return code;
}

void tide__raft_message_release(struct raft_message *m) {
    if (m->type == RAFT_IO_APPEND_ENTRIES && m->append_entries.n_entries > 0) {
        raft_free(m->append_entries.entries[0].batch);
        raft_free(m->append_entries.entries);
    } else if (m->type == RAFT_IO_INSTALL_SNAPSHOT) {
        raft_configuration_close(&m->install_snapshot.conf);
        raft_free(m->install_snapshot.data.base);
    }
}
