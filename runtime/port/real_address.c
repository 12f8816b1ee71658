/*
 * Addresses of the real port: endpoints to socket addresses and back, and listening sockets with
 * the rules of Unix socket files: mode 0600 from the start, a file without a listener is replaced, a
 * live one is EADDRINUSE.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* SOCK_CLOEXEC */
#endif
#include "port/real.h"
#include "port/run_directory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { TIDE_UNIX_PATH_MAX = 150 }; /* endpoints travel in fields of 160 */

static int bad_endpoint(const char *endpoint, const char *why) {
    return tide_fail(TIDE_EINVAL, "endpoint \"%.200s\": %s", endpoint, why);
}

/* A socket's path has 107 bytes in the kernel. A longer one goes through its directory, opened. */
static int through_directory(const char *path, struct tide_real_address *out) {
    struct sockaddr_un *address = (struct sockaddr_un *)&out->storage;
    char directory[TIDE_UNIX_PATH_MAX + 1];
    const char *name = strrchr(path, '/');
    const size_t length = (size_t)(name - path);
    memcpy(directory, path, length);
    directory[length] = '\0';
    out->directory = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (out->directory < 0) {
        return tide__real_fail(errno, "opening", directory);
    }
    const int written =
        snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d%s", out->directory, name);
    return written > 0 && (size_t)written < sizeof address->sun_path
               ? 0
               : bad_endpoint(path, "the name of a Unix socket is at most 80 bytes long");
}

static int parse_unix(const char *endpoint, const char *path, struct tide_real_address *out) {
    struct sockaddr_un *address = (struct sockaddr_un *)&out->storage;
    const size_t length = strlen(path);
    if (path[0] != '/') {
        return bad_endpoint(endpoint, "the path of a Unix socket begins with /");
    }
    if (length > TIDE_UNIX_PATH_MAX) {
        return bad_endpoint(endpoint, "the path of a Unix socket is at most 150 bytes long");
    }
    address->sun_family = AF_UNIX;
    if (length >= sizeof address->sun_path) {
        const int code = through_directory(path, out);
        if (code != 0) {
            return code;
        }
    } else {
        memcpy(address->sun_path, path, length + 1);
    }
    out->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(address->sun_path) + 1);
    return 0;
}

void tide__real_address_release(struct tide_real_address *address) {
    if (address->directory >= 0) {
        close(address->directory);
        address->directory = -1;
    }
}

static int parse_port(const char *text, uint16_t *out) {
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9') { /* strtoul takes signs and blanks */
        return TIDE_EINVAL;
    }
    unsigned long value = strtoul(text, &end, 10);
    if (*end != '\0' || value > UINT16_MAX) {
        return TIDE_EINVAL;
    }
    *out = htons((uint16_t)value);
    return 0;
}

static int parse_tcp(const char *endpoint, const char *text, struct tide_real_address *out) {
    char host[INET6_ADDRSTRLEN];
    bool six = text[0] == '[';
    const char *begin = six ? text + 1 : text;
    const char *end = strchr(begin, six ? ']' : ':');
    uint16_t port = 0;
    if (!end || (size_t)(end - begin) >= sizeof host || (six && end[1] != ':') ||
        parse_port(six ? end + 2 : end + 1, &port) != 0) {
        return bad_endpoint(endpoint, "tcp:IPV4:PORT or tcp:[IPV6]:PORT is wanted, in numbers");
    }
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    int parsed;
    if (six) {
        struct sockaddr_in6 *address = (struct sockaddr_in6 *)&out->storage;
        address->sin6_family = AF_INET6;
        address->sin6_port = port;
        out->size = sizeof *address;
        parsed = inet_pton(AF_INET6, host, &address->sin6_addr);
    } else {
        struct sockaddr_in *address = (struct sockaddr_in *)&out->storage;
        const bool loopback = strcmp(host, "localhost") == 0; /* whatever a resolver would say */
        address->sin_family = AF_INET;
        address->sin_port = port;
        out->size = sizeof *address;
        parsed = inet_pton(AF_INET, loopback ? "127.0.0.1" : host, &address->sin_addr);
    }
    return parsed == 1 ? 0 : bad_endpoint(endpoint, "neither a numeric address nor localhost");
}

int tide__real_address_parse(const char *endpoint, struct tide_real_address *out) {
    memset(out, 0, sizeof *out);
    out->directory = -1;
    if (!endpoint) {
        return tide_fail(TIDE_EINVAL, "no endpoint");
    }
    if (strncmp(endpoint, "unix:", 5) == 0) {
        return parse_unix(endpoint, endpoint + 5, out);
    }
    if (strncmp(endpoint, "tcp:", 4) == 0) {
        return parse_tcp(endpoint, endpoint + 4, out);
    }
    return bad_endpoint(endpoint, "unix:PATH or tcp:ADDRESS:PORT is wanted");
}

void tide__real_address_print(const struct tide_real_address *address, char *out, size_t size) {
    char host[INET6_ADDRSTRLEN] = "?";
    switch (address->storage.ss_family) {
    case AF_INET: {
        const struct sockaddr_in *a = (const struct sockaddr_in *)&address->storage;
        inet_ntop(AF_INET, &a->sin_addr, host, sizeof host);
        snprintf(out, size, "tcp:%s:%u", host, (unsigned)ntohs(a->sin_port));
        break;
    }
    case AF_INET6: {
        const struct sockaddr_in6 *a = (const struct sockaddr_in6 *)&address->storage;
        inet_ntop(AF_INET6, &a->sin6_addr, host, sizeof host);
        snprintf(out, size, "tcp:[%s]:%u", host, (unsigned)ntohs(a->sin6_port));
        break;
    }
    default: {
        const struct sockaddr_un *a = (const struct sockaddr_un *)&address->storage;
        bool named = address->size > offsetof(struct sockaddr_un, sun_path);
        snprintf(out, size, "unix:%s", named ? a->sun_path : "");
        break;
    }
    }
}

/* Whether a process accepts connections on this Unix socket file. */
static bool is_live(const struct tide_real_address *address) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return true; /* unknown: never remove what may be in use */
    }
    int result = connect(fd, (const struct sockaddr *)&address->storage, address->size);
    bool live = result == 0 || errno != ECONNREFUSED; /* EAGAIN: alive, and its backlog is full */
    close(fd);
    return live;
}

bool tide_socket_is_live(const char *path) {
    char endpoint[TIDE_UNIX_PATH_MAX + sizeof "unix:"];
    struct tide_real_address address;
    struct tide_error_slot slot = {0}, *previous = tide__error_slot_swap(&slot);
    const int length = snprintf(endpoint, sizeof endpoint, "unix:%s", path);
    const bool told =
        length > 0 && (size_t)length < sizeof endpoint && tide__real_address_parse(endpoint, &address) == 0;
    tide__error_slot_swap(previous);
    const bool live = !told || is_live(&address);
    if (told) {
        tide__real_address_release(&address);
    }
    return live;
}

/* Binds and listens under a lock on the directory: of two nodes that start at once, the second
 * must not take the first one's socket, bound but not yet listening, for a stale one and replace
 * it. Returns an errno. */
static int listen_unix(int fd, const struct tide_real_address *address) {
    const struct sockaddr *name = (const struct sockaddr *)&address->storage;
    const char *path = ((const struct sockaddr_un *)&address->storage)->sun_path;
    char directory[sizeof((struct sockaddr_un *)0)->sun_path];
    snprintf(directory, sizeof directory, "%s", path);
    char *slash = strrchr(directory, '/');
    slash[slash == directory ? 1 : 0] = '\0';
    int lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0) {
        return errno;
    }
    int error = 0;
    /* Linux gives the file the socket's mode: it is open to others at no time. */
    if (flock(lock, LOCK_EX) != 0 || fchmod(fd, 0600) != 0) {
        error = errno;
    } else if (bind(fd, name, address->size) != 0) {
        error = errno;
        struct stat info;
        if (error == EADDRINUSE && lstat(path, &info) == 0 && S_ISSOCK(info.st_mode) && !is_live(address)) {
            (void)unlink(path);
            error = bind(fd, name, address->size) == 0 ? 0 : errno;
        }
    }
    if (error == 0 && listen(fd, SOMAXCONN) != 0) {
        error = errno;
    }
    close(lock);
    return error;
}

int tide__real_address_listen(const struct tide_real_address *address, const char *endpoint) {
    int family = address->storage.ss_family;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return tide__real_fail(errno, "listening on", endpoint);
    }
    int error = 0;
    if (family == AF_UNIX) {
        error = listen_unix(fd, address);
    } else {
        int on = 1;
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (bind(fd, (const struct sockaddr *)&address->storage, address->size) != 0 || listen(fd, SOMAXCONN) != 0) {
            error = errno;
        }
    }
    if (error != 0) {
        close(fd);
        return tide__real_fail(error, "listening on", endpoint);
    }
    return fd;
}

int tide__real_address_towards(struct tide_port *port, const char *endpoint, char *out, size_t size) {
    (void)port;
    struct tide_real_address address;
    int rc = tide__real_address_parse(endpoint, &address);
    if (rc != 0) {
        return rc;
    }
    int family = address.storage.ss_family;
    int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0); /* to connect it sends nothing, and asks the routing table */
    struct tide_real_address own = {.size = sizeof own.storage};
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address.storage, address.size) != 0 ||
        getsockname(fd, (struct sockaddr *)&own.storage, &own.size) != 0) {
        rc = tide__real_fail(errno, "looking for a way to", endpoint);
    } else {
        if (family == AF_INET6) {
            ((struct sockaddr_in6 *)&own.storage)->sin6_port = 0;
        } else {
            ((struct sockaddr_in *)&own.storage)->sin_port = 0;
        }
        tide__real_address_print(&own, out, size);
    }
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}
