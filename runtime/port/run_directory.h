/*
 * The directory of a user's clusters, in which their sockets, logs and pids lie: $XDG_RUNTIME_DIR/tide,
 * or /tmp/tide-<uid> where that is unset, not absolute, longer than 63 bytes or no directory that
 * this user may write. Directories in it are called as the clusters.
 *
 * Others of the machine must not be able to put anything there: each directory belongs to the user,
 * has mode 0700 and is no link, which is checked whenever it is used, for reading as well.
 */
#ifndef TIDE_PORT_RUN_DIRECTORY_H
#define TIDE_PORT_RUN_DIRECTORY_H

#include "port/port.h"

/* The path; says once in a process why it is not under a variable that is set. Not created, not checked. */
int tide_run_directory(struct tide_port *port, char *out, size_t size);

/* Makes it, or (make = false) only looks. EACCES: it is there, and not private; ENOENT. */
int tide_private_directory(struct tide_port *port, const char *path, bool make);

/* "unix:PATH" of a socket of this node in the directory of its cluster, which is made. */
int tide_run_socket(struct tide_port *port, const char *cluster, const char *node, char *out, size_t size);

/*
 * What killed processes left in the directory of a cluster: removes the sockets there that refuse connections. 1: no
 * process has a socket in it, and nothing was put into it for a minute; 0: some process may be there, or about to come.
 */
int tide_run_sweep(struct tide_port *port, const char *path);

/* Whether a process accepts connections there; true if unknown. (real_address.c) */
bool tide_socket_is_live(const char *path);

/* What this user may still write on the disk where `path` lies; any thread, the real disk even in a simulation.
 * (real_file.c) */
int tide_disk_room(const char *path, uint64_t *bytes);

#endif
