/* Messages of the replicated log from another node, several in a row: a snapshot comes in parts.
 * What is accepted must survive being written and read again. */
#include "fuzz.h"
#include "control/raft.h"

static void again(const struct raft_message *first) {
    struct tide__raft_parts parts = {0};
    struct raft_message second;
    struct tide_reader r;
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide__raft_write(&w, first, 0);
    FUZZ_CHECK(w.error == 0);
    tide_reader_init(&r, w.data, w.size);
    FUZZ_CHECK(tide__raft_read(&r, first->server_id, &parts, &second) == 1);
    FUZZ_CHECK(first->type == second.type);
    if (first->type == RAFT_IO_APPEND_ENTRIES) {
        const struct raft_append_entries *a = &first->append_entries, *b = &second.append_entries;
        FUZZ_CHECK(a->term == b->term && a->leader_commit == b->leader_commit);
        FUZZ_CHECK(a->n_entries == b->n_entries);
        for (unsigned i = 0; i < a->n_entries; i++) {
            FUZZ_CHECK(a->entries[i].term == b->entries[i].term);
            FUZZ_CHECK(a->entries[i].buf.len == b->entries[i].buf.len);
            FUZZ_CHECK(!memcmp(a->entries[i].buf.base, b->entries[i].buf.base,
                               a->entries[i].buf.len));
        }
    } else if (first->type == RAFT_IO_INSTALL_SNAPSHOT) {
        const struct raft_install_snapshot *a = &first->install_snapshot,
                                           *b = &second.install_snapshot;
        FUZZ_CHECK(a->last_index == b->last_index && a->conf.n == b->conf.n);
        FUZZ_CHECK(a->data.len == b->data.len && !memcmp(a->data.base, b->data.base, a->data.len));
    } else if (first->type == RAFT_IO_REQUEST_VOTE) {
        FUZZ_CHECK(first->request_vote.last_log_index == second.request_vote.last_log_index &&
                   first->request_vote.pre_vote == second.request_vote.pre_vote);
    }
    tide__raft_message_release(&second);
    tide__raft_parts_release(&parts);
    tide_writer_release(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tide__raft_parts parts = {0};
    struct tide_reader r;
    tide_reader_init(&r, data, size);
    for (unsigned i = 0; i < 8 && r.at < r.end; i++) {
        struct raft_message message;
        int code = tide__raft_read(&r, 7, &parts, &message);
        if (code == 1) {
            again(&message);
            tide__raft_message_release(&message);
        } else if (code < 0) {
            break;
        }
    }
    tide__raft_parts_release(&parts);
    return 0;
}
