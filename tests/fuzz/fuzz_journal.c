/* The journal of a controller, whatever a disk or an editor made of it: what is accepted is within
 * its bounds, the same again when it is written again, and never more than the bytes that were
 * there. */
#include "fuzz.h"
#include "control/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tide_control_state state, again = {0};
    size_t good;
    (void)tide_control_apply(&again, data, size); /* an entry alone */
    tide_control_state_release(&again);
    if (tide_control_journal_parse(data, size, &state, &good) != 0) {
        FUZZ_CHECK(state.count == 0 && state.pairs == NULL);
        return 0;
    }
    FUZZ_CHECK(good <= size && state.bytes <= size);
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_control_snapshot_write(&w, &state);
    FUZZ_CHECK(w.error == 0);
    FUZZ_CHECK(tide_control_restore(&again, w.data, w.size) == 0);
    FUZZ_CHECK(again.count == state.count && again.index == state.index &&
               again.term == state.term && again.bytes == state.bytes);
    for (size_t i = 0; i < state.count; i++) {
        FUZZ_CHECK(strcmp(state.pairs[i].key, again.pairs[i].key) == 0);
        FUZZ_CHECK(i == 0 || strcmp(state.pairs[i - 1].key, state.pairs[i].key) < 0);
    }
    tide_writer_release(&w);
    tide_control_state_release(&state);
    tide_control_state_release(&again);
    return 0;
}
