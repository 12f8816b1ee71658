/* The log of a controller, whatever a disk or an editor made of it: what is accepted is within its
 * bounds, and never more than the bytes that were there. */
#include "fuzz.h"
#include "control/raft_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tide_raft_log_content log;
    size_t good;
    if (tide_raft_log_parse(data, size, &log, &good) != 0) {
        FUZZ_CHECK(log.state.count == 0 && log.state.pairs == NULL && log.index == 0);
        return 0;
    }
    FUZZ_CHECK(good <= size && log.state.bytes <= size);
    FUZZ_CHECK(log.voter_count <= TIDE_RAFT_LOG_VOTERS_MAX);
    FUZZ_CHECK((log.index > 0) == (log.voter_count > 0));
    tide_raft_log_content_release(&log);
    return 0;
}
