/*
 * The file that this process's stderr was redirected to, as a log that does not grow without bound.
 */
#ifndef TIDE_PORT_LOG_FILE_H
#define TIDE_PORT_LOG_FILE_H

#include <stdint.h>

/* When that file has `limit` bytes or more it becomes FILE.1, FILE.1 becomes FILE.2 and so on, at
 * most `keep` of them, and stderr continues in a new one; so does stdout if it went there too.
 * Returns 1 then, 0 when there was nothing to do (it is shorter, or a terminal, a pipe, a removed
 * file), or a negative error. Threads may write meanwhile. */
int tide_log_file_rotate(uint64_t limit, unsigned keep);

#endif
