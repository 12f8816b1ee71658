/* The log of a host program: levels by name (tide/log.h), for the sink of log.c. */
#include "base/base.h"

#include "tide/log.h"

#include <string.h>

static const char *const levels[] = {"debug", "info", "warn", "error"};

/* Under the rule of one thread at a time; records in delivery when it changes may see either. */
static _Atomic(tide_log_function) told;
static _Atomic(void *) told_arg;

static void tell(void *arg, enum tide_level level, const char *node, const char *text) {
    tide_log_function function = atomic_load_explicit(&told, memory_order_acquire); /* with tide_log_to */
    (void)arg;
    if (function) {
        function(atomic_load_explicit(&told_arg, memory_order_relaxed), levels[level], node, text);
    }
}

int tide_log_to(const char *least, tide_log_function function, void *arg) {
    size_t level = 0;
    const bool none = strcmp(least, "none") == 0;
    while (!none && level < TIDE_COUNT(levels) && strcmp(least, levels[level]) != 0) {
        level++;
    }
    if (level == TIDE_COUNT(levels)) {
        return tide_fail(TIDE_EINVAL, "the log has no level '%.20s': debug, info, warn, error or none", least);
    }
    atomic_store_explicit(&told_arg, arg, memory_order_relaxed);
    atomic_store_explicit(&told, none ? NULL : function, memory_order_release); /* with tell */
    tide_log_set((enum tide_level)level, none || function ? tell : NULL, NULL);
    return 0;
}
