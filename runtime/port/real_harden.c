/* Rights that a process drops, and whether its parent is still there. */
#include "port/real.h"

#include <errno.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

int tide_port_harden(bool secrets) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return tide__real_fail(errno, "giving up privileges of", "this process");
    }
    const struct rlimit none = {0, 0};
    if (secrets && (setrlimit(RLIMIT_CORE, &none) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)) {
        return tide__real_fail(errno, "forbidding core dumps of", "this process");
    }
    return 0;
}

bool tide_port_input_ended(void) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char bytes[256];
    while (poll(&input, 1, 0) > 0) {
        if (read(STDIN_FILENO, bytes, sizeof bytes) <= 0) {
            return true;
        }
    }
    return false;
}
