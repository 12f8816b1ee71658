/* Where the library's log goes. Part of libtide-actor; not included by tide.h. */
#ifndef TIDE_PUBLIC_LOG_H
#define TIDE_PUBLIC_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

/* One record: "debug", "info", "warn" or "error"; the node it is of, or NULL; one line of text without its end. Called
 * on whichever thread has something to say: it returns soon, and calls nothing of Tide. */
typedef void (*tide_log_function)(void *arg, const char *level, const char *node, const char *text);

/*
 * From now on records of this level and above go to `function`, those below nowhere. NULL: to standard error, with the
 * time, as from the beginning with "info". "none" ends the log. For all nodes of the process. EINVAL: no such level.
 * Outside, one thread at a time.
 */
int tide_log_to(const char *least, tide_log_function function, void *arg);

#ifdef __cplusplus
}
#endif
#endif
