/* The audit log: see audit.h. Its file is reached past the port, which simulated nodes have one of each; they have no
 * audit log. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "port/audit.h"
#include "port/real.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 40 << 10, PEERS_MAX = 512, HASH = 64, PATH_BYTES = 512 };
#define FILE_LIMIT ((off_t)64 << 20)

struct noted {
    unsigned id;
    char credential[200], address[64];
};

static struct {
    pthread_mutex_t mutex; /* of all below */
    bool open, dirty, failed;
    int fd;          /* -1: no entry yet */
    uint64_t number; /* of the last line */
    off_t size;
    char prev[HASH + 1]; /* of the last line */
    char directory[PATH_BYTES], path[PATH_BYTES], head[PATH_BYTES];
    struct noted peers[PEERS_MAX];
    unsigned oldest;
    char line[LINE_MAX_BYTES];
} audit = {.mutex = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/* ---- lines ---- */

/* Bytes of the UTF-8 sequence at `at`, 0: it is none. */
static size_t sequence(const unsigned char *at) {
    const size_t size = *at < 0xc2 ? 0 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : *at < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    const bool wrong = size > 2 && ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] > 0x9f) ||
                                    (*at == 0xf0 && at[1] < 0x90) || (*at == 0xf4 && at[1] > 0x8f));
    return wrong ? 0 : size;
}

/* Appends a member of the object; what has no room is cut. */
static size_t put(char *line, size_t at, const char *key, const char *value, size_t limit) {
    if (!value || *value == 0) {
        return at;
    }
    at += (size_t)sprintf(line + at, ",\"%s\":\"", key);
    const unsigned char *c = (const unsigned char *)value, *end = c + strnlen(value, limit);
    while (c < end) {
        const size_t wide = *c >= 0x80 ? sequence(c) : 0;
        if (wide > 0 && wide <= (size_t)(end - c)) {
            memcpy(line + at, c, wide);
            at += wide;
            c += wide;
            continue;
        }
        if (*c == '"' || *c == '\\') {
            line[at++] = '\\';
            line[at++] = (char)*c;
        } else if (*c < ' ' || *c >= 127) {
            at += (size_t)sprintf(line + at, "\\u%04x", *c < 127 ? *c : '?');
        } else {
            line[at++] = (char)*c;
        }
        c++;
    }
    line[at++] = '"';
    return at;
}

static const struct noted *peer_of(unsigned id) {
    for (size_t i = 0; id != 0 && i < PEERS_MAX; i++) {
        if (audit.peers[i].id == id) {
            return &audit.peers[i];
        }
    }
    return NULL;
}

/* The line of an entry with its newline; how long it is. */
static size_t compose(const struct tide_audit_entry *e) {
    struct timespec now;
    struct tm parts;
    char *line = audit.line;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &parts);
    size_t at = (size_t)sprintf(line, "{\"n\":%llu,\"time\":\"", (unsigned long long)audit.number + 1);
    at += strftime(line + at, 32, "%Y-%m-%dT%H:%M:%S", &parts);
    at += (size_t)sprintf(line + at, ".%03ldZ\"", now.tv_nsec / 1000000);
    const struct noted *noted = peer_of(e->peer);
    const char *credential = e->credential ? e->credential : noted ? noted->credential : NULL;
    const char *address = e->address ? e->address : noted ? noted->address : NULL;
    at = put(line, at, "credential", credential, 200);
    at = put(line, at, "address", address, 64);
    if (e->peer != 0) {
        at += (size_t)sprintf(line + at, ",\"peer\":%u", e->peer);
    }
    at = put(line, at, "right", e->right, 16);
    at = put(line, at, "verb", e->verb, 64);
    at = put(line, at, "subject", e->subject, 256);
    at = put(line, at, "sha256", e->sha256, HASH);
    at = put(line, at, "result", e->result, 256);
    at = put(line, at, "text", e->text, TIDE_AUDIT_TEXT_MAX);
    at = put(line, at, "prev", audit.prev, HASH);
    line[at++] = '}';
    line[at++] = '\n';
    return at;
}

/* ---- the file ---- */

static void no_line_yet(void) {
    audit.number = 0;
    memset(audit.prev, '0', HASH);
    audit.prev[HASH] = 0;
}

/* Continues where a log of this name ends: the number and the sum of its last line. A last line without its end, which
 * a crash left, is ended here and stays what it is. */
static int find_end(int fd) {
    static char tail[LINE_MAX_BYTES];
    unsigned long long number = 0;
    if (audit.size == 0) {
        return 0;
    }
    const size_t wanted = audit.size < LINE_MAX_BYTES ? (size_t)audit.size : LINE_MAX_BYTES;
    const ssize_t got = pread(fd, tail, wanted, audit.size - (off_t)wanted);
    if (got != (ssize_t)wanted) {
        return tide__real_fail(got < 0 ? errno : EIO, "reading", audit.path);
    }
    size_t end = wanted;
    if (tail[end - 1] == '\n') {
        end--;
    } else if (write(fd, "\n", 1) == 1) {
        audit.size++;
    } else {
        return tide__real_fail(errno, "writing", audit.path);
    }
    size_t begin = end;
    while (begin > 0 && tail[begin - 1] != '\n') {
        begin--;
    }
    tide_sha256_hex(tail + begin, end - begin, audit.prev);
    tail[end] = 0;
    if (sscanf(tail + begin, "{\"n\":%llu,", &number) == 1) {
        audit.number = number;
        return 0;
    }
    return tide_fail(TIDE_EPROTO, "%s does not end with a record: look at it (tide audit verify) and put it elsewhere",
                     audit.path);
}

static int file_open(void) {
    struct stat info;
    (void)mkdir(audit.directory, 0700);
    int fd = open(audit.path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return tide__real_fail(errno, "opening", audit.path);
    }
    int rc = fstat(fd, &info) != 0 ? tide__real_fail(errno, "opening", audit.path) : 0;
    if (rc == 0 && (!S_ISREG(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 077) != 0)) {
        rc = tide_fail(TIDE_EPERM, "%s must be a file of yours that others cannot read", audit.path);
    }
    audit.size = info.st_size;
    rc = rc != 0 ? rc : find_end(fd);
    if (rc != 0) {
        close(fd);
        return rc;
    }
    audit.fd = fd;
    return 0;
}

static int sync_file(void) {
    char text[HASH + 24];
    if (audit.fd < 0 || !audit.dirty) {
        return 0;
    }
    if (fdatasync(audit.fd) != 0) {
        return tide__real_fail(errno, "writing", audit.path);
    }
    audit.dirty = false;
    const int size = sprintf(text, "%020llu %s\n", (unsigned long long)audit.number, audit.prev);
    int fd = open(audit.head, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    const bool written = fd >= 0 && pwrite(fd, text, (size_t)size, 0) == size;
    const int error = errno;
    if (fd >= 0) {
        close(fd);
    }
    return written ? 0 : tide__real_fail(error, "writing", audit.head);
}

/* The chain continues in a new file. */
static int turn_over(void) {
    char old[PATH_BYTES + 2];
    int rc = sync_file();
    snprintf(old, sizeof old, "%s.1", audit.path);
    if (rc == 0 && rename(audit.path, old) != 0) {
        rc = tide__real_fail(errno, "renaming", audit.path);
    }
    if (rc != 0) {
        return rc;
    }
    close(audit.fd);
    audit.fd = open(audit.path, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    audit.size = 0;
    return audit.fd < 0 ? tide__real_fail(errno, "opening", audit.path) : 0;
}

static int append(const struct tide_audit_entry *entry) {
    int rc = audit.fd < 0 ? file_open() : audit.size > FILE_LIMIT ? turn_over() : 0;
    if (rc != 0) {
        return rc;
    }
    const size_t size = compose(entry);
    const ssize_t written = write(audit.fd, audit.line, size);
    if (written != (ssize_t)size) { /* what was written of it is removed: the chain continues after whole lines */
        rc = tide__real_fail(written < 0 ? errno : ENOSPC, "writing", audit.path);
        if (written > 0 && ftruncate(audit.fd, audit.size) != 0) {
            audit.size += written;
        }
        return rc;
    }
    audit.size += written;
    audit.number++;
    audit.dirty = true;
    tide_sha256_hex(audit.line, size - 1, audit.prev);
    return entry->durable ? sync_file() : 0;
}

/* ---- calls ---- */

int tide_audit_open(const char *directory, const char *name) {
    int rc = 0;
    pthread_mutex_lock(&audit.mutex);
    const int path = snprintf(audit.path, sizeof audit.path, "%s/audit-%s.log", directory, name);
    const int head = snprintf(audit.head, sizeof audit.head, "%s/audit-%s.head", directory, name);
    if (audit.open || path >= PATH_BYTES || head >= PATH_BYTES) {
        rc = tide_fail(TIDE_EINVAL, audit.open ? "an audit log is open already" : "the audit log's path is too long");
    } else {
        snprintf(audit.directory, sizeof audit.directory, "%s", directory);
        audit.open = true;
        audit.fd = -1;
        no_line_yet();
    }
    pthread_mutex_unlock(&audit.mutex);
    return rc;
}

void tide_audit_peer(unsigned id, const char *credential, const char *address) {
    pthread_mutex_lock(&audit.mutex);
    size_t at = 0;
    while (at < PEERS_MAX && audit.peers[at].id != id) {
        at++;
    }
    if (at == PEERS_MAX) {
        at = audit.oldest++ % PEERS_MAX;
    }
    audit.peers[at].id = id;
    snprintf(audit.peers[at].credential, sizeof audit.peers[at].credential, "%s", credential);
    snprintf(audit.peers[at].address, sizeof audit.peers[at].address, "%s", address);
    pthread_mutex_unlock(&audit.mutex);
}

/* The name of a user of this machine; "uid N" if the system has none. */
static void user_name(uid_t uid, char *out, size_t size) {
    char buffer[1024];
    struct passwd entry, *found = NULL;
    if (getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) == 0 && found) {
        snprintf(out, size, "%s", found->pw_name);
    } else {
        snprintf(out, size, "uid %u", (unsigned)uid);
    }
}

bool tide_audit_person(unsigned id, char *out, size_t size) {
    char credential[sizeof audit.peers[0].credential] = "";
    pthread_mutex_lock(&audit.mutex);
    for (size_t at = 0; at < PEERS_MAX; at++) {
        if (id != 0 && audit.peers[at].id == id) {
            memcpy(credential, audit.peers[at].credential, sizeof credential);
        }
    }
    pthread_mutex_unlock(&audit.mutex);
    unsigned uid;
    char right[16], name[100];
    if (sscanf(credential, "uid %u", &uid) == 1) {
        user_name((uid_t)uid, out, size);
        return true;
    }
    if (sscanf(credential, "tide://%*[^/]/%15[^/]/%99[^ /]", right, name) != 2 || strcmp(right, "node") == 0) {
        return false;
    }
    snprintf(out, size, "%s", name);
    return true;
}

void tide_audit_user(char *out, size_t size) {
    user_name(getuid(), out, size);
}

int tide_audit_add(const struct tide_audit_entry *entry) {
    pthread_mutex_lock(&audit.mutex);
    int rc = audit.open ? append(entry) : 0;
    const bool news = (rc != 0) != audit.failed;
    audit.failed = rc != 0;
    pthread_mutex_unlock(&audit.mutex);
    if (rc != 0 && news) {
        tide_log(TIDE_LOG_ERROR, NULL, "the audit log: %s: what it has to tell of is refused until it can be written",
                 tide_error_message());
    }
    return rc;
}

int tide_audit_sync(void) {
    pthread_mutex_lock(&audit.mutex);
    int rc = sync_file();
    pthread_mutex_unlock(&audit.mutex);
    return rc;
}
