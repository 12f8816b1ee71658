/*
 * What control groups leave this process of memory and processors: the least of its group and all
 * groups above it that it can see, in both versions of the interface. In a container the path of
 * /proc/self/cgroup may be one of the host: what is not there is passed over up to the root, which
 * is the container's own.
 */
#include "port/real.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096 + 256, LINE_BYTES = 4096 };

/* The files of one limit in a group, one after the other; gives the least of *limit and what they
 * say. */
typedef void (*read_limit)(const char *text, uint64_t *limit);

/* "max" in version 2; version 1 has a number near 2^63 where there is no limit. */
static void read_bytes(const char *text, uint64_t *limit) {
    unsigned long long bytes;
    if (sscanf(text, "%llu", &bytes) == 1 && bytes < *limit) {
        *limit = bytes;
    }
}

/* "QUOTA PERIOD": processors in thousandths. "max" and -1 are none. */
static void read_quota(const char *text, uint64_t *limit) {
    long long quota, period;
    if (sscanf(text, "%lld %lld", &quota, &period) == 2 && period > 0 && quota > 0 &&
        (uint64_t)(quota * 1000 / period) < *limit) {
        *limit = (uint64_t)(quota * 1000 / period);
    }
}

/* Adds the first line of a file to the text, behind a blank. */
static void add_file(const char *root, const char *group, const char *name, char *text, size_t size) {
    char path[PATH_BYTES];
    const size_t used = strlen(text);
    (void)snprintf(path, sizeof path, "%s%s/%s", root, group, name);
    FILE *file = fopen(path, "re");
    if (file && used + 2 < size && fgets(text + used, (int)(size - used - 1), file)) {
        text[used + strcspn(text + used, "\n")] = '\0';
        (void)snprintf(text + strlen(text), size - strlen(text), " ");
    }
    if (file) {
        (void)fclose(file);
    }
}

/* `name` and `beside`, if it is not NULL, of the group and of all above it. */
static void walk_up(const char *root, const char *group, const char *name, const char *beside, read_limit read,
                    uint64_t *limit) {
    char at[LINE_BYTES];
    (void)snprintf(at, sizeof at, "%s", strcmp(group, "/") == 0 ? "" : group);
    for (;;) {
        char text[128] = "";
        add_file(root, at, name, text, sizeof text);
        if (beside) {
            add_file(root, at, beside, text, sizeof text);
        }
        read(text, limit);
        char *slash = strrchr(at, '/');
        if (!slash) {
            return;
        }
        *slash = '\0';
    }
}

/* Is `controller` among "cpu,cpuacct"? */
static bool names(const char *list, const char *controller) {
    const size_t length = strlen(controller);
    for (const char *at = list; (at = strstr(at, controller)) != NULL; at += length) {
        const bool begins = at == list || at[-1] == ',';
        if (begins && (at[length] == '\0' || at[length] == ',')) {
            return true;
        }
    }
    return false;
}

/* One line of /proc/self/cgroup: "ID:CONTROLLERS:PATH". */
static void take_line(char *line, uint64_t *memory, uint64_t *milli) {
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) {
        return;
    }
    *group++ = '\0';
    controllers++;
    group[strcspn(group, "\n")] = '\0';
    if (controllers[0] == '\0') {
        static const char *const roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
        for (size_t i = 0; i < TIDE_COUNT(roots); i++) {
            walk_up(roots[i], group, "memory.max", NULL, read_bytes, memory);
            walk_up(roots[i], group, "cpu.max", NULL, read_quota, milli);
        }
    }
    if (names(controllers, "memory")) {
        walk_up("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", NULL, read_bytes, memory);
    }
    if (names(controllers, "cpu")) {
        walk_up("/sys/fs/cgroup/cpu", group, "cpu.cfs_quota_us", "cpu.cfs_period_us", read_quota, milli);
    }
}

void tide__real_limits(uint64_t *memory, uint64_t *milli_processors) {
    char line[LINE_BYTES];
    *memory = *milli_processors = UINT64_MAX;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        take_line(line, memory, milli_processors);
    }
    if (file) {
        (void)fclose(file);
    }
}
