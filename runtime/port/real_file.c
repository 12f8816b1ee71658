/* Files of the real port: plain blocking calls with explicit offsets. A rename is on disk when
 * it returns. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_DIRECTORY, O_CLOEXEC */
#endif
#include "port/real.h"
#include "port/run_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct tide_file {
    int fd;
    bool append, once;
    uint64_t piped; /* of a pipe or a terminal, which are read in their order: so many bytes were */
    char path[];    /* for messages */
};

int tide__real_file_open(struct tide_port *port, const char *path, int flags, struct tide_file **out) {
    tide__watch_blocks("open", path);
    (void)port;
    int mode = (flags & TIDE_FILE_WRITE) == 0 ? O_RDONLY : (flags & TIDE_FILE_READ) != 0 ? O_RDWR : O_WRONLY;
    mode |= (flags & TIDE_FILE_CREATE) != 0 ? O_CREAT : 0;
    mode |= (flags & TIDE_FILE_TRUNCATE) != 0 ? O_TRUNC : 0;
    mode |= (flags & TIDE_FILE_EXCLUSIVE) != 0 ? O_EXCL | O_CREAT : 0;
    mode |= (flags & TIDE_FILE_APPEND) != 0 ? O_APPEND : 0;
    size_t length = strlen(path) + 1;
    struct tide_file *file = tide_alloc(sizeof *file + length);
    if (!file) {
        return TIDE_ENOMEM;
    }
    int fd;
    do {
        fd = open(path, mode | O_CLOEXEC, (flags & TIDE_FILE_PRIVATE) != 0 ? 0600 : 0666);
    } while (fd < 0 && errno == EINTR);
#ifdef O_DIRECT
    if (fd >= 0 && (flags & TIDE_FILE_DIRECT) != 0) {
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_DIRECT); /* EINVAL: this file system has no such thing */
    }
#endif
    if (fd < 0) {
        int error = errno;
        tide_free(file);
        return tide__real_fail(error, "opening", path);
    }
    if ((flags & TIDE_FILE_LOCK) != 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int error = errno;
        close(fd);
        tide_free(file);
        return tide__real_fail(error, "locking", path);
    }
    memcpy(file->path, path, length);
    file->fd = fd;
    file->append = (flags & TIDE_FILE_APPEND) != 0;
    file->once = (flags & TIDE_FILE_ONCE) != 0;
    file->piped = 0;
    *out = file;
    return 0;
}

int tide__real_file_descriptor(const struct tide_file *file) {
    return file->fd;
}

ssize_t tide__real_file_read(struct tide_file *file, void *data, size_t size, uint64_t offset) {
    tide__watch_blocks("read", NULL);
    size_t done = 0;
    while (done < size) {
        ssize_t n = pread(file->fd, (char *)data + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == ESPIPE) {
            if (file->piped != offset + done) {
                return tide_fail(TIDE_EINVAL, "reading %s: a pipe is read once, from its beginning", file->path);
            }
            n = read(file->fd, (char *)data + done, size - done);
            file->piped += n > 0 ? (uint64_t)n : 0;
        }
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return tide__real_fail(errno, "reading", file->path);
        }
        if (n == 0) {
            break;
        }
        done += (size_t)n;
    }
    return (ssize_t)done;
}

int tide__real_file_write(struct tide_file *file, const void *data, size_t size, uint64_t offset) {
    tide__watch_blocks("write", NULL);
    size_t done = 0;
    while (done < size) {
        const char *from = (const char *)data + done;
        /* Linux's pwrite appends too when the file was opened for that, but only write says so
         * in the standard. */
        ssize_t n = file->append ? write(file->fd, from, size - done)
                                 : pwrite(file->fd, from, size - done, (off_t)(offset + done));
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return tide__real_fail(errno, "writing", file->path);
        }
        done += (size_t)n;
    }
    return 0;
}

int tide__real_file_sync(struct tide_file *file) {
    tide__watch_blocks("sync", NULL);
    if (fsync(file->fd) != 0) {
        return tide__real_fail(errno, "syncing", file->path);
    }
    if (file->once) { /* an advice */
        (void)posix_fadvise(file->fd, 0, 0, POSIX_FADV_DONTNEED);
    }
    return 0;
}

void tide__real_file_close(struct tide_file *file) {
    close(file->fd);
    tide_free(file);
}

int tide__real_file_info(struct tide_port *port, const char *path, struct tide_file_info *out) {
    tide__watch_blocks("info", path);
    (void)port;
    struct stat info;
    if (stat(path, &info) != 0) {
        return tide__real_fail(errno, "looking at", path);
    }
    out->size = (uint64_t)info.st_size;
    out->modified_ns = (uint64_t)info.st_mtim.tv_sec * TIDE_SECOND + (uint64_t)info.st_mtim.tv_nsec;
    out->owner = (uint32_t)info.st_uid;
    out->mode = (uint32_t)info.st_mode & 07777;
    out->directory = S_ISDIR(info.st_mode);
    out->link = lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
    return 0;
}

int tide__real_directory_sync(struct tide_port *port, const char *path) {
    tide__watch_blocks("sync", path);
    (void)port;
    int code = 0;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return tide__real_fail(errno, "opening directory", path);
    }
    if (fsync(fd) != 0 && errno != EINVAL) { /* EINVAL: a file system that has no such thing */
        code = tide__real_fail(errno, "syncing directory", path);
    }
    close(fd);
    return code;
}

/* The directory that holds `path`. */
static int sync_parent(struct tide_port *port, const char *path) {
    char *directory = tide_strdup(path);
    if (!directory) {
        return TIDE_ENOMEM;
    }
    char *slash = strrchr(directory, '/');
    if (slash) {
        slash[slash == directory ? 1 : 0] = '\0';
    }
    int code = tide__real_directory_sync(port, slash ? directory : ".");
    tide_free(directory);
    return code;
}

int tide__real_file_rename(struct tide_port *port, const char *from, const char *to) {
    tide__watch_blocks("rename", from);
    if (rename(from, to) != 0) {
        return tide__real_fail(errno, "renaming", from);
    }
    return sync_parent(port, to);
}

int tide__real_file_unlink(struct tide_port *port, const char *path) {
    tide__watch_blocks("unlink", path);
    (void)port;
    return remove(path) == 0 ? 0 : tide__real_fail(errno, "removing", path);
}

int tide__real_file_mkdir(struct tide_port *port, const char *path, unsigned mode) {
    tide__watch_blocks("mkdir", path);
    (void)port;
    if (mkdir(path, (mode_t)mode) == 0) {
        return 0;
    }
    int error = errno;
    struct stat info;
    if (error == EEXIST && stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        return 0;
    }
    return tide__real_fail(error, "making directory", path);
}

int tide__real_file_list(struct tide_port *port, const char *path, void (*entry)(void *arg, const char *name),
                         void *arg) {
    tide__watch_blocks("list", path);
    (void)port;
    DIR *directory = opendir(path);
    if (!directory) {
        return tide__real_fail(errno, "listing", path);
    }
    const struct dirent *found;
    for (;;) {
        errno = 0;
        found = readdir(directory);
        if (!found) {
            break;
        }
        if (strcmp(found->d_name, ".") != 0 && strcmp(found->d_name, "..") != 0) {
            entry(arg, found->d_name);
        }
    }
    int error = errno;
    (void)closedir(directory);
    return error == 0 ? 0 : tide__real_fail(error, "listing", path);
}

int tide_disk_room(const char *path, uint64_t *bytes) {
    struct statvfs disk;
    if (statvfs(path, &disk) != 0) {
        return tide__real_fail(errno, "asking how full the disk is of", path);
    }
    *bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    return 0;
}
