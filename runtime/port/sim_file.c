/*
 * Files of the simulator: a sorted map of paths to inodes per node, in memory. The operations
 * answer as a real file system does (parents must exist, an unlinked file lives while it is open,
 * rename replaces). Listing is sorted. What is durable, and what fails, is the disk's
 * (sim_disk.c). A path that the node has not got is read from the world's `input` port, if it has
 * one: data sets are a fixed input. Nothing is ever written there.
 */
#include "port/sim.h"

#include <string.h>

struct tide_file {
    struct sim_node *node;   /* whose disk it is on */
    struct sim_node *opener; /* itself, unless the file is shared */
    struct sim_inode *inode; /* NULL: `input` is read instead */
    struct tide_file *input;
    int flags;
    unsigned incarnation; /* of the opener when it was opened */
    unsigned disk_life;   /* of the disk: what was written to a shared one that crashed may be gone */
};

static struct sim_node *node_of(struct tide_port *port) {
    return ((struct sim_port *)port)->node;
}

struct sim_node *tide__sim_disk_of(struct tide_port *port, const char *path) {
    struct sim_node *node = node_of(port), *shared = node->sim->shared;
    const size_t length = shared ? strlen(node->sim->shared_path) : 0;
    bool there =
        shared && strncmp(path, node->sim->shared_path, length) == 0 && (path[length] == '/' || path[length] == '\0');
    return there ? shared : node;
}

static struct sim_inode *find(const struct sim_node *node, const char *path) {
    return tide__sim_names_get(&node->names, path);
}

/* The life that opened the file is over, or that of the disk: it must be opened anew. */
static bool stale(const struct tide_file *file) {
    return file->opener->crashed || file->incarnation != file->opener->incarnation ||
           file->disk_life != file->node->incarnation;
}

static int gone(const char *what, const char *path) {
    return tide_fail(TIDE_EIO, "%s %s: the simulated node, or its disk, has crashed", what, path);
}

static int create(struct sim_node *node, const char *path, bool directory, struct sim_inode **out) {
    struct sim_inode *inode = tide_alloc_zero(1, sizeof *inode);
    if (!inode) {
        return TIDE_ENOMEM;
    }
    inode->refs = 1;
    inode->directory = directory;
    inode->modified = node->sim->now;
    int code = tide__sim_names_set(&node->names, path, inode);
    *out = inode;
    tide__sim_inode_unref(inode); /* the name holds it now, or nothing does */
    return code;
}

/* A relative path's parent is the working directory, which is there; so are the directories of the world's input. */
static bool parent_exists(const struct sim_node *node, const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) {
        return true;
    }
    char *parent = tide_strdup(path);
    if (!parent) {
        return false;
    }
    parent[slash - path] = '\0';
    const struct sim_inode *inode = find(node, parent);
    struct tide_port *input = node->sim->options.input;
    struct tide_file_info info = {0};
    const bool found =
        inode ? inode->directory : input && input->ops->file_info(input, parent, &info) == 0 && info.directory;
    tide_free(parent);
    return found;
}

static void make_present(struct sim_node *node, const char *path) {
    struct sim_inode *inode;
    TIDE_ASSERT(create(node, path, true, &inode) == 0);
    TIDE_ASSERT(tide__sim_names_set(&node->durable, path, inode) == 0);
}

void tide_sim_share(struct tide_sim *sim, const char *path) {
    TIDE_ASSERT(path[0] == '/' && strlen(path) < sizeof sim->shared_path && !sim->shared);
    (void)snprintf(sim->shared_path, sizeof sim->shared_path, "%s", path);
    sim->shared = tide__sim_setting_of(sim, path);
    make_present(sim->shared, path);
}

void tide__sim_files_init(struct sim_node *node) {
    static const char *const present[] = {"/", "/home", "/run", "/tmp", "/var", "/var/lib", "/var/tmp"};
    for (size_t i = 0; i < TIDE_COUNT(present); i++) {
        make_present(node, present[i]);
    }
}

void tide__sim_files_deinit(struct sim_node *node) {
    tide__sim_names_deinit(&node->names);
    tide__sim_names_deinit(&node->durable);
}

static int open_input(struct sim_node *node, const char *path, struct tide_file **out) {
    struct tide_port *input = node->sim->options.input;
    struct tide_file *file = tide_alloc(sizeof *file);
    if (!file) {
        return TIDE_ENOMEM;
    }
    *file = (struct tide_file){
        .node = node, .opener = node, .incarnation = node->incarnation, .disk_life = node->incarnation};
    int code = input->ops->file_open(input, path, TIDE_FILE_READ, &file->input);
    if (code < 0) {
        tide_free(file);
        return code;
    }
    *out = file;
    return 0;
}

/* Makes the file that opening it creates. */
static int open_new(struct sim_node *node, const char *path, struct sim_inode **out) {
    bool torn;
    int code = tide__sim_disk_change(node, &torn);
    code = code < 0 ? code : create(node, path, false, out);
    return code == 0 && torn ? tide__sim_disk_torn(node) : code;
}

static void empty(struct sim_node *node, struct sim_inode *inode) {
    inode->size = 0;
    inode->size_dirty = true;
    inode->modified = node->sim->now;
}

int tide__sim_file_open(struct tide_port *port, const char *path, int flags, struct tide_file **out) {
    tide__watch_blocks("open", path);
    struct sim_node *node = tide__sim_disk_of(port, path), *opener = node_of(port);
    struct sim_inode *inode = find(node, path);
    bool creates = (flags & (TIDE_FILE_CREATE | TIDE_FILE_EXCLUSIVE)) != 0;
    if (!inode && node->sim->options.input && flags == TIDE_FILE_READ) {
        return open_input(opener, path, out);
    }
    if (port->crashed) {
        return gone("opening", path);
    }
    if (inode && (flags & TIDE_FILE_EXCLUSIVE) != 0) {
        return tide_fail(TIDE_EEXIST, "opening %s: file exists", path);
    }
    if (inode && inode->directory && (flags & TIDE_FILE_WRITE) != 0) {
        return tide_fail(TIDE_EINVAL, "opening %s: is a directory", path);
    }
    if (!inode && (!creates || !parent_exists(node, path))) {
        return tide_fail(TIDE_ENOENT, "opening %s: no such file or directory", path);
    }
    struct tide_file *file = tide_alloc(sizeof *file);
    if (!file) {
        return TIDE_ENOMEM;
    }
    int code = !inode ? open_new(node, path, &inode) : 0;
    if (code < 0) {
        tide_free(file);
        return code;
    }
    if ((flags & TIDE_FILE_TRUNCATE) != 0 && (flags & TIDE_FILE_WRITE) != 0) {
        empty(node, inode);
    }
    inode->refs++;
    *file = (struct tide_file){.node = node,
                               .opener = opener,
                               .inode = inode,
                               .flags = flags,
                               .incarnation = opener->incarnation,
                               .disk_life = node->incarnation};
    *out = file;
    return 0;
}

ssize_t tide__sim_file_read(struct tide_file *file, void *data, size_t size, uint64_t offset) {
    tide__watch_blocks("read", NULL);
    const struct sim_inode *inode = file->inode;
    if (!inode) {
        return file->node->sim->options.input->ops->file_read(file->input, data, size, offset);
    }
    if (inode->directory) {
        return tide_fail(TIDE_EINVAL, "reading a directory");
    }
    int code = stale(file) ? gone("reading", "a file") : tide__sim_disk_read(file->node);
    if (code < 0) {
        return code;
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

static int store_bytes(struct sim_inode *inode, const void *data, size_t size, size_t offset) {
    size_t end = offset + size;
    if (end > inode->room) {
        size_t room = end + end / 2;
        uint8_t *grown = tide_realloc(inode->data, room);
        if (!grown) {
            return TIDE_ENOSPC;
        }
        inode->data = grown;
        inode->room = room;
    }
    size_t from = offset < inode->size ? offset : inode->size;
    int code = tide__sim_inode_touch(inode, from, end - from);
    if (code < 0) {
        return code;
    }
    if (offset > inode->size) {
        memset(inode->data + inode->size, 0, offset - inode->size); /* a hole reads as zeros */
    }
    if (size > 0) {
        memcpy(inode->data + offset, data, size);
    }
    if (end > inode->size) {
        inode->size = end;
        inode->size_dirty = true;
    }
    return 0;
}

int tide__sim_file_write(struct tide_file *file, const void *data, size_t size, uint64_t offset) {
    tide__watch_blocks("write", NULL);
    struct sim_inode *inode = file->inode;
    struct sim_node *node = file->node;
    if ((file->flags & TIDE_FILE_WRITE) == 0) {
        return tide_fail(TIDE_EINVAL, "writing a file that was opened for reading");
    }
    if (stale(file)) {
        return gone("writing", "a file");
    }
    if ((file->flags & TIDE_FILE_APPEND) != 0) {
        offset = inode->size;
    }
    if (offset > SIZE_MAX / 4 || size > SIZE_MAX / 4) {
        return tide_fail(TIDE_ELIMIT, "writing beyond what a file can hold");
    }
    bool torn;
    int code = tide__sim_disk_change(node, &torn);
    code = code < 0 ? code : tide__sim_disk_room(node, inode, (size_t)offset + size);
    if (code < 0) {
        return code;
    }
    size = torn ? tide__sim_disk_part(node, size) : size;
    const int part = torn ? 0 : tide__sim_disk_write(node, &size);
    code = store_bytes(inode, data, size, (size_t)offset);
    inode->modified = node->sim->now;
    return code != 0 ? code : torn ? tide__sim_disk_torn(node) : part;
}

int tide__sim_file_sync(struct tide_file *file) {
    tide__watch_blocks("sync", NULL);
    if (!file->inode) {
        return 0;
    }
    return stale(file) ? gone("syncing", "a file") : tide__sim_disk_sync(file->node, file->inode);
}

void tide__sim_file_close(struct tide_file *file) {
    if (file->inode) {
        tide__sim_inode_unref(file->inode);
    } else {
        file->node->sim->options.input->ops->file_close(file->input);
    }
    tide_free(file);
}

int tide__sim_file_info(struct tide_port *port, const char *path, struct tide_file_info *out) {
    tide__watch_blocks("info", path);
    const struct sim_inode *inode = find(tide__sim_disk_of(port, path), path);
    struct tide_port *input = node_of(port)->sim->options.input;
    if (!inode && input) {
        return input->ops->file_info(input, path, out);
    }
    if (!inode) {
        return tide_fail(TIDE_ENOENT, "looking at %s: no such file or directory", path);
    }
    *out = (struct tide_file_info){
        .size = inode->size, .modified_ns = inode->modified, .mode = 0700, .directory = inode->directory};
    return 0;
}

/* `from` stands for nothing any more, `to` for what it stood for. */
static int move_name(struct sim_node *node, const char *from, const char *to) {
    int code = tide__sim_names_set(&node->names, to, find(node, from));
    if (code == 0) {
        bool found;
        tide__sim_names_drop(&node->names, tide__sim_names_find(&node->names, from, &found));
    }
    return code;
}

int tide__sim_file_rename(struct tide_port *port, const char *from, const char *to) {
    tide__watch_blocks("rename", from);
    struct sim_node *node = tide__sim_disk_of(port, from); /* `to` is on the same one */
    const struct sim_inode *inode = find(node, from), *old = find(node, to);
    if (port->crashed) {
        return gone("renaming", from);
    }
    if (!inode || !parent_exists(node, to)) {
        return tide_fail(TIDE_ENOENT, "renaming %s: no such file or directory", from);
    }
    if (inode->directory || (old && old->directory)) {
        return tide_fail(TIDE_EUNSUPPORTED, "renaming %s: directories stay in the simulator", from);
    }
    if (old == inode) {
        return 0;
    }
    bool torn;
    int code = tide__sim_disk_change(node, &torn);
    code = code < 0 ? code : move_name(node, from, to);
    if (code < 0 || torn) {
        return code < 0 ? code : tide__sim_disk_torn(node);
    }
    tide__sim_disk_sync_parent(node, to);
    return 0;
}

int tide__sim_file_unlink(struct tide_port *port, const char *path) {
    tide__watch_blocks("unlink", path);
    struct sim_node *node = tide__sim_disk_of(port, path);
    bool found, torn;
    size_t at = tide__sim_names_find(&node->names, path, &found);
    if (port->crashed) {
        return gone("removing", path);
    }
    if (!found) {
        return tide_fail(TIDE_ENOENT, "removing %s: no such file or directory", path);
    }
    const size_t length = strlen(path);
    for (size_t i = 0; node->names.list[at].inode->directory && i < node->names.count; i++) {
        if (strncmp(node->names.list[i].path, path, length) == 0 && node->names.list[i].path[length] == '/') {
            return tide_fail(TIDE_EEXIST, "removing %s: directory not empty", path);
        }
    }
    int code = tide__sim_disk_change(node, &torn);
    if (code < 0) {
        return code;
    }
    tide__sim_names_drop(&node->names, at);
    return torn ? tide__sim_disk_torn(node) : 0;
}

int tide__sim_file_mkdir(struct tide_port *port, const char *path, unsigned mode) {
    tide__watch_blocks("mkdir", path);
    (void)mode;
    struct sim_node *node = tide__sim_disk_of(port, path);
    struct sim_inode *inode = find(node, path);
    if (port->crashed) {
        return gone("making directory", path);
    }
    if (inode) {
        return inode->directory ? 0 : tide_fail(TIDE_EEXIST, "making directory %s: file exists", path);
    }
    if (!parent_exists(node, path)) {
        return tide_fail(TIDE_ENOENT, "making directory %s: no such file or directory", path);
    }
    bool torn;
    int code = tide__sim_disk_change(node, &torn);
    code = code < 0 ? code : create(node, path, true, &inode);
    return code == 0 && torn ? tide__sim_disk_torn(node) : code;
}

int tide__sim_file_list(struct tide_port *port, const char *path, void (*entry)(void *arg, const char *name),
                        void *arg) {
    tide__watch_blocks("list", path);
    struct sim_node *node = tide__sim_disk_of(port, path);
    const struct sim_inode *inode = find(node, path);
    if (!inode || !inode->directory) {
        return tide_fail(inode == NULL ? TIDE_ENOENT : TIDE_EINVAL, "listing %s: no such directory", path);
    }
    size_t length = strcmp(path, "/") == 0 ? 0 : strlen(path);
    for (size_t i = 0; i < node->names.count;) {
        const char *other = node->names.list[i].path;
        bool inside = strncmp(other, path, length) == 0 && other[length] == '/' && other[length + 1] != '\0' &&
                      !strchr(other + length + 1, '/');
        if (!inside) {
            i++;
            continue;
        }
        char *copy = tide_strdup(other); /* `entry` may unlink or rename its argument */
        if (!copy) {
            return TIDE_ENOMEM;
        }
        entry(arg, copy + length + 1);
        bool found;
        i = tide__sim_names_find(&node->names, copy, &found);
        i += found;
        tide_free(copy);
    }
    return 0;
}
