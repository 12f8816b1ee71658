/* Files of records, of the controller's journal and of the log that several nodes hold. */
#include "control/records.h"
#include "port/port.h"

#include <string.h>

#define RECORD_MARK UINT32_C(0x4c4e4a54) /* "TJNL" */

static uint64_t checksum(const void *payload, size_t size) {
    return tide_hash(payload, size, size);
}

const uint8_t *tide__record_at(const void *bytes, size_t size, size_t at, uint32_t *length) {
    const uint8_t *data = bytes;
    uint32_t mark;
    uint64_t sum;
    if (size - at < TIDE__RECORD_HEAD) {
        return NULL;
    }
    memcpy(&mark, data + at, sizeof mark);
    memcpy(length, data + at + 4, sizeof *length);
    memcpy(&sum, data + at + 8, sizeof sum);
    if (mark != RECORD_MARK || *length > size - at - TIDE__RECORD_HEAD) {
        return NULL;
    }
    const uint8_t *payload = data + at + TIDE__RECORD_HEAD;
    return checksum(payload, *length) == sum ? payload : NULL;
}

bool tide__records_follow(const void *bytes, size_t size, size_t at) {
    const uint8_t *data = bytes;
    const uint32_t mark = RECORD_MARK;
    for (; at + TIDE__RECORD_HEAD <= size; at++) {
        uint32_t length;
        if (memcmp(data + at, &mark, sizeof mark) == 0 && tide__record_at(data, size, at, &length)) {
            return true;
        }
    }
    return false;
}

int tide__records_check(const void *bytes, size_t size, const char magic[8], uint32_t version, const char *what) {
    const uint8_t *data = bytes;
    uint32_t found;
    if (size < TIDE__RECORDS_HEADER || memcmp(data, magic, 8) != 0) {
        return tide_fail(TIDE_EPROTO, "it is no %s", what);
    }
    memcpy(&found, data + 8, sizeof found);
    return found == version ? 0
                            : tide_fail(TIDE_EVERSION,
                                        "it is of version %u, this program reads version %u: start the program "
                                        "that wrote it, or begin with an empty directory",
                                        (unsigned)found, (unsigned)version);
}

int tide__record_write(struct tide_file *file, const struct tide_port *port, uint64_t *at,
                       const struct tide_writer *payload) {
    if (payload->error != 0 || payload->size > UINT32_MAX) {
        return payload->error != 0 ? payload->error : TIDE_ELIMIT;
    }
    uint8_t *record = tide_alloc(TIDE__RECORD_HEAD + payload->size);
    if (!record) {
        return TIDE_ENOMEM;
    }
    const uint32_t mark = RECORD_MARK, length = (uint32_t)payload->size;
    uint64_t sum = checksum(payload->data, payload->size);
    memcpy(record, &mark, sizeof mark);
    memcpy(record + 4, &length, sizeof length);
    memcpy(record + 8, &sum, sizeof sum);
    memcpy(record + TIDE__RECORD_HEAD, payload->data, payload->size);
    int error = port->ops->file_write(file, record, TIDE__RECORD_HEAD + payload->size, *at);
    tide_free(record);
    *at += error == 0 ? TIDE__RECORD_HEAD + payload->size : 0;
    return error;
}

static void beside(char out[TIDE__RECORDS_PATH], const char *path) {
    (void)snprintf(out, TIDE__RECORDS_PATH, "%s.new", path);
}

int tide__records_create(struct tide_port *port, const char *path, const char magic[8], uint32_t version,
                         struct tide_file **out, uint64_t *at) {
    char name[TIDE__RECORDS_PATH];
    uint8_t header[TIDE__RECORDS_HEADER] = {0};
    memcpy(header, magic, 8);
    memcpy(header + 8, &version, sizeof version);
    beside(name, path);
    *at = sizeof header;
    int error = port->ops->file_open(
        port, name, TIDE_FILE_READ | TIDE_FILE_WRITE | TIDE_FILE_CREATE | TIDE_FILE_TRUNCATE | TIDE_FILE_PRIVATE, out);
    if (error != 0) {
        return error;
    }
    error = port->ops->file_write(*out, header, sizeof header, 0);
    if (error != 0) {
        port->ops->file_close(*out);
    }
    return error;
}

int tide__records_replace(struct tide_port *port, const char *path, struct tide_file *fresh, int written,
                          struct tide_file **file) {
    char name[TIDE__RECORDS_PATH];
    beside(name, path);
    int error = written != 0 ? written : port->ops->file_sync(fresh);
    error = error != 0 ? error : port->ops->file_rename(port, name, path);
    if (error != 0) {
        port->ops->file_close(fresh);
        return error;
    }
    if (*file) {
        port->ops->file_close(*file);
    }
    *file = fresh;
    return 0;
}

int tide__records_directory(struct tide_port *port, const char *directory) {
    char parent[300];
    int error = port->ops->file_mkdir(port, directory, 0700);
    snprintf(parent, sizeof parent, "%s", directory);
    char *slash = strrchr(parent, '/');
    if (!slash) {
        snprintf(parent, sizeof parent, ".");
    } else {
        slash[slash == parent ? 1 : 0] = 0;
    }
    return error != 0 ? error : port->ops->directory_sync(port, parent);
}
