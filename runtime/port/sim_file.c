/*
 * Files of the simulator: a sorted map of paths to inodes per node, in memory. The operations
 * answer as a real file system does (parents must exist, an unlinked file lives while it is open,
 * rename replaces); everything is durable at once. Listing is sorted. It does not fail on its own:
 * the disk model of faults is not built. A path that the node has not got is read from the world's
 * `input` port, if it has one: data sets are a fixed input. Nothing is ever written there.
 */
#include "port/sim.h"

#include <string.h>

struct tide_file {
    struct sim_node *node;
    struct sim_inode *inode; /* NULL: `input` is read instead */
    struct tide_file *input;
    int flags;
};

static struct sim_node *node_of(struct tide_port *port) {
    return ((struct sim_port *)port)->node;
}

static void unref(struct sim_inode *inode) {
    TIDE_ASSERT(inode->refs > 0);
    if (--inode->refs == 0) {
        tide_free(inode->data);
        tide_free(inode);
    }
}

/* Where the path is, or belongs. */
static size_t position(const struct sim_node *node, const char *path, bool *found) {
    size_t low = 0, high = node->entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(node->entries[middle].path, path);
        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *found = false;
    return low;
}

static struct sim_inode *find(const struct sim_node *node, const char *path) {
    bool found;
    size_t at = position(node, path, &found);
    return found ? node->entries[at].inode : NULL;
}

/* Takes the inode's reference. */
static int add(struct sim_node *node, const char *path, struct sim_inode *inode) {
    char *copy = tide_strdup(path);
    if (copy == NULL) {
        return TIDE_ENOMEM;
    }
    bool found;
    size_t at = position(node, path, &found);
    TIDE_ASSERT(!found);
    void *entries = node->entries;
    tide__sim_grow(&entries, node->entry_count, &node->entry_room, sizeof *node->entries);
    node->entries = entries;
    memmove(&node->entries[at + 1], &node->entries[at],
            (node->entry_count - at) * sizeof *node->entries);
    node->entries[at] = (struct sim_entry){.path = copy, .inode = inode};
    node->entry_count++;
    return 0;
}

static void drop(struct sim_node *node, size_t at) {
    tide_free(node->entries[at].path);
    node->entry_count--;
    memmove(&node->entries[at], &node->entries[at + 1],
            (node->entry_count - at) * sizeof *node->entries);
}

static int create(struct sim_node *node, const char *path, bool directory, struct sim_inode **out) {
    struct sim_inode *inode = tide_alloc_zero(1, sizeof *inode);
    if (inode == NULL) {
        return TIDE_ENOMEM;
    }
    inode->refs = 1;
    inode->directory = directory;
    inode->modified = node->sim->now;
    int code = add(node, path, inode);
    if (code != 0) {
        unref(inode);
        return code;
    }
    *out = inode;
    return 0;
}

/* A relative path's parent is the working directory, which is there. */
static bool parent_exists(const struct sim_node *node, const char *path) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path) {
        return true;
    }
    char *parent = tide_strdup(path);
    if (parent == NULL) {
        return false;
    }
    parent[slash - path] = '\0';
    const struct sim_inode *inode = find(node, parent);
    tide_free(parent);
    return inode != NULL && inode->directory;
}

void tide__sim_files_init(struct sim_node *node) {
    static const char *const present[] = {"/",    "/home",    "/run",    "/tmp",
                                          "/var", "/var/lib", "/var/tmp"};
    for (size_t i = 0; i < TIDE_COUNT(present); i++) {
        struct sim_inode *inode;
        TIDE_ASSERT(create(node, present[i], true, &inode) == 0);
    }
}

void tide__sim_files_deinit(struct sim_node *node) {
    for (size_t i = 0; i < node->entry_count; i++) {
        tide_free(node->entries[i].path);
        unref(node->entries[i].inode);
    }
    tide_free(node->entries);
    node->entries = NULL;
    node->entry_count = 0;
}

static int open_input(struct sim_node *node, const char *path, struct tide_file **out) {
    struct tide_port *input = node->sim->options.input;
    struct tide_file *file = tide_alloc(sizeof *file);
    if (file == NULL) {
        return TIDE_ENOMEM;
    }
    *file = (struct tide_file){.node = node};
    int code = input->ops->file_open(input, path, TIDE_FILE_READ, &file->input);
    if (code < 0) {
        tide_free(file);
        return code;
    }
    *out = file;
    return 0;
}

int tide__sim_file_open(struct tide_port *port, const char *path, int flags,
                        struct tide_file **out) {
    struct sim_node *node = node_of(port);
    struct sim_inode *inode = find(node, path);
    bool creates = (flags & (TIDE_FILE_CREATE | TIDE_FILE_EXCLUSIVE)) != 0;
    if (inode == NULL && node->sim->options.input != NULL && flags == TIDE_FILE_READ) {
        return open_input(node, path, out);
    }
    if (inode != NULL && (flags & TIDE_FILE_EXCLUSIVE) != 0) {
        return tide_fail(TIDE_EEXIST, "opening %s: file exists", path);
    }
    if (inode != NULL && inode->directory && (flags & TIDE_FILE_WRITE) != 0) {
        return tide_fail(TIDE_EINVAL, "opening %s: is a directory", path);
    }
    if (inode == NULL && (!creates || !parent_exists(node, path))) {
        return tide_fail(TIDE_ENOENT, "opening %s: no such file or directory", path);
    }
    struct tide_file *file = tide_alloc(sizeof *file);
    if (file == NULL) {
        return TIDE_ENOMEM;
    }
    if (inode == NULL) {
        int code = create(node, path, false, &inode);
        if (code != 0) {
            tide_free(file);
            return code;
        }
    }
    if ((flags & TIDE_FILE_TRUNCATE) != 0 && (flags & TIDE_FILE_WRITE) != 0) {
        inode->size = 0;
        inode->modified = node->sim->now;
    }
    inode->refs++;
    *file = (struct tide_file){.node = node, .inode = inode, .flags = flags};
    *out = file;
    return 0;
}

ssize_t tide__sim_file_read(struct tide_file *file, void *data, size_t size, uint64_t offset) {
    const struct sim_inode *inode = file->inode;
    if (inode == NULL) {
        return file->node->sim->options.input->ops->file_read(file->input, data, size, offset);
    }
    if (inode->directory) {
        return tide_fail(TIDE_EINVAL, "reading a directory");
    }
    if (offset >= inode->size) {
        return 0;
    }
    size_t n = inode->size - (size_t)offset;
    n = n < size ? n : size;
    if (n > 0) {
        memcpy(data, inode->data + offset, n);
    }
    return (ssize_t)n;
}

int tide__sim_file_write(struct tide_file *file, const void *data, size_t size, uint64_t offset) {
    struct sim_inode *inode = file->inode;
    if ((file->flags & TIDE_FILE_WRITE) == 0) {
        return tide_fail(TIDE_EINVAL, "writing a file that was opened for reading");
    }
    if ((file->flags & TIDE_FILE_APPEND) != 0) {
        offset = inode->size;
    }
    if (offset > SIZE_MAX / 4 || size > SIZE_MAX / 4) {
        return tide_fail(TIDE_ELIMIT, "writing beyond what a file can hold");
    }
    size_t end = (size_t)offset + size;
    if (end > inode->room) {
        size_t room = end + end / 2;
        uint8_t *grown = tide_realloc(inode->data, room);
        if (grown == NULL) {
            return TIDE_ENOSPC;
        }
        inode->data = grown;
        inode->room = room;
    }
    if (offset > inode->size) {
        memset(inode->data + inode->size, 0,
               (size_t)offset - inode->size); /* a hole reads as zeros */
    }
    if (size > 0) {
        memcpy(inode->data + offset, data, size);
    }
    inode->size = end > inode->size ? end : inode->size;
    inode->modified = file->node->sim->now;
    return 0;
}

int tide__sim_file_sync(struct tide_file *file) {
    (void)file;
    return 0;
}

void tide__sim_file_close(struct tide_file *file) {
    if (file->inode != NULL) {
        unref(file->inode);
    } else {
        file->node->sim->options.input->ops->file_close(file->input);
    }
    tide_free(file);
}

int tide__sim_file_info(struct tide_port *port, const char *path, struct tide_file_info *out) {
    const struct sim_inode *inode = find(node_of(port), path);
    struct tide_port *input = node_of(port)->sim->options.input;
    if (inode == NULL && input != NULL) {
        return input->ops->file_info(input, path, out);
    }
    if (inode == NULL) {
        return tide_fail(TIDE_ENOENT, "looking at %s: no such file or directory", path);
    }
    *out = (struct tide_file_info){.size = inode->size,
                                   .modified_ns = inode->modified,
                                   .mode = 0700,
                                   .directory = inode->directory};
    return 0;
}

int tide__sim_file_rename(struct tide_port *port, const char *from, const char *to) {
    struct sim_node *node = node_of(port);
    bool found;
    size_t at = position(node, from, &found);
    if (!found || !parent_exists(node, to)) {
        return tide_fail(TIDE_ENOENT, "renaming %s: no such file or directory", from);
    }
    struct sim_inode *inode = node->entries[at].inode;
    const struct sim_inode *old = find(node, to);
    if (inode->directory || (old != NULL && old->directory)) {
        return tide_fail(TIDE_EUNSUPPORTED, "renaming %s: directories stay in the simulator", from);
    }
    if (old == inode) {
        return 0;
    }
    if (old != NULL) {
        size_t target = position(node, to, &found);
        struct sim_inode *replaced = node->entries[target].inode;
        drop(node, target);
        unref(replaced);
        at = position(node, from, &found);
    }
    drop(node, at);
    return add(node, to, inode);
}

int tide__sim_file_unlink(struct tide_port *port, const char *path) {
    struct sim_node *node = node_of(port);
    bool found;
    size_t at = position(node, path, &found);
    if (!found) {
        return tide_fail(TIDE_ENOENT, "removing %s: no such file or directory", path);
    }
    struct sim_inode *inode = node->entries[at].inode;
    if (inode->directory) {
        return tide_fail(TIDE_EINVAL, "removing %s: is a directory", path);
    }
    drop(node, at);
    unref(inode);
    return 0;
}

int tide__sim_file_mkdir(struct tide_port *port, const char *path, unsigned mode) {
    (void)mode;
    struct sim_node *node = node_of(port);
    struct sim_inode *inode = find(node, path);
    if (inode != NULL) {
        return inode->directory ? 0
                                : tide_fail(TIDE_EEXIST, "making directory %s: file exists", path);
    }
    if (!parent_exists(node, path)) {
        return tide_fail(TIDE_ENOENT, "making directory %s: no such file or directory", path);
    }
    return create(node, path, true, &inode);
}

int tide__sim_file_list(struct tide_port *port, const char *path,
                        void (*entry)(void *arg, const char *name), void *arg) {
    struct sim_node *node = node_of(port);
    const struct sim_inode *inode = find(node, path);
    if (inode == NULL || !inode->directory) {
        return tide_fail(inode == NULL ? TIDE_ENOENT : TIDE_EINVAL, "listing %s: no such directory",
                         path);
    }
    size_t length = strcmp(path, "/") == 0 ? 0 : strlen(path);
    for (size_t i = 0; i < node->entry_count;) {
        const char *other = node->entries[i].path;
        bool inside = strncmp(other, path, length) == 0 && other[length] == '/' &&
                      other[length + 1] != '\0' && strchr(other + length + 1, '/') == NULL;
        if (!inside) {
            i++;
            continue;
        }
        char *copy = tide_strdup(other); /* `entry` may unlink or rename what it is told */
        if (copy == NULL) {
            return TIDE_ENOMEM;
        }
        entry(arg, copy + length + 1);
        bool found;
        i = position(node, copy, &found);
        i += found;
        tide_free(copy);
    }
    return 0;
}
