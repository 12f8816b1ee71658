/* Rotation of the file behind stderr. */
#include "port/log_file.h"
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEEP_MAX = 99 };

static int system_error(const char *what, const char *path) {
    int code = errno == EACCES ? TIDE_EACCES : errno == ENOSPC ? TIDE_ENOSPC : TIDE_EIO;
    return tide_fail(code, "%s '%s' failed", what, path);
}

/* FILE.1 .. FILE.keep - 1 move up by one; the oldest is replaced. */
static int move_up(const char *path, unsigned keep) {
    char from[PATH_MAX + 8], to[PATH_MAX + 8];
    for (unsigned n = keep; n > 0; n--) {
        snprintf(to, sizeof to, "%s.%u", path, n);
        if (n == 1) {
            snprintf(from, sizeof from, "%s", path);
        } else {
            snprintf(from, sizeof from, "%s.%u", path, n - 1);
        }
        if (rename(from, to) != 0 && (n == 1 || errno != ENOENT)) {
            return system_error("moving", from);
        }
    }
    return 0;
}

int tide_log_file_rotate(uint64_t limit, unsigned keep) {
    struct stat log, out, named;
    char path[PATH_MAX];
    if (fstat(STDERR_FILENO, &log) != 0 || !S_ISREG(log.st_mode) || (uint64_t)log.st_size < limit) {
        return 0;
    }
    ssize_t size = readlink("/proc/self/fd/2", path, sizeof path - 1);
    if (size <= 0 || keep == 0 || keep > KEEP_MAX) {
        return 0;
    }
    path[size] = '\0';
    if (stat(path, &named) != 0 || named.st_ino != log.st_ino || named.st_dev != log.st_dev) {
        return 0; /* removed, or moved by another process */
    }
    bool both = fstat(STDOUT_FILENO, &out) == 0 && out.st_ino == log.st_ino && out.st_dev == log.st_dev;
    int rc = move_up(path, keep);
    if (rc < 0) {
        return rc;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, log.st_mode & 0777);
    if (fd < 0) {
        return system_error("opening", path);
    }
    bool done = dup2(fd, STDERR_FILENO) >= 0 && (!both || dup2(fd, STDOUT_FILENO) >= 0);
    close(fd);
    return done ? 1 : system_error("using", path);
}
