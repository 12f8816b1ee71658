/*
 * The time(2) and clock(3) of `tide-sim`: Lua seeds itself and its sort with them. See fixed.h.
 */
#include "lua/host/sim/fixed.h"

#include "actor/context.h"
#include "lua/host/sim/simulator.h"

#include <time.h>

time_t time(time_t *out) {
    time_t now = (time_t)tide__fixed_time();
    if (out) {
        *out = now;
    }
    return now;
}

clock_t clock(void) {
    return (clock_t)tide__fixed_clock_us();
}

#ifdef TIDE_ASAN
/* A node that crashed in mid-flight leaves what its fibers had allocated: nothing runs to free it. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) {
    return tide__simulator_lost_memory();
}
#endif
