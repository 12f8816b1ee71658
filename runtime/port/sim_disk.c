/*
 * What a simulated node's disk keeps. A file is blocks of 4 KiB, each with a current and a durable
 * content; a directory is names, likewise. Syncing a file makes its blocks durable, syncing a
 * directory its names. A crash decides for each block that is not durable whether the new content,
 * the old one, or the new up to a sector of 512 bytes and the old from there is found again, and
 * for each name whether it is as before or as after: in any combination, which is weaker than any
 * real file system. Faults that a test asks for come on top: operations that fail, a disk that is
 * full or slow, a crash in the middle of an operation, damage at rest.
 *
 * After a sync that failed the blocks stay as they read, but a later sync does not make them
 * durable: as on Linux, only writing them again helps.
 */
#include "port/sim.h"

#include <string.h>

enum { BLOCK = 4096, SECTOR = 512 };

/* ---- contents ---- */

void tide__sim_inode_unref(struct sim_inode *inode) {
    TIDE_ASSERT(inode->refs > 0);
    if (--inode->refs == 0) {
        tide_free(inode->data);
        tide_free(inode->durable);
        tide_free(inode->dirty);
        tide_free(inode);
    }
}

static int resize_durable(struct sim_inode *inode, size_t size) {
    if (size > inode->durable_room) {
        size_t room = size + size / 2;
        uint8_t *grown = tide_realloc(inode->durable, room);
        if (!grown) {
            return TIDE_ENOMEM;
        }
        inode->durable = grown;
        inode->durable_room = room;
    }
    if (size > inode->durable_size) {
        memset(inode->durable + inode->durable_size, 0, size - inode->durable_size);
    }
    inode->durable_size = size;
    return 0;
}

int tide__sim_inode_touch(struct sim_inode *inode, size_t offset, size_t size) {
    size_t blocks = (offset + size + BLOCK - 1) / BLOCK;
    if (blocks > inode->dirty_room) {
        size_t room = blocks + blocks / 2;
        uint8_t *grown = tide_realloc(inode->dirty, room);
        if (!grown) {
            return TIDE_ENOMEM;
        }
        memset(grown + inode->dirty_room, 0, room - inode->dirty_room);
        inode->dirty = grown;
        inode->dirty_room = room;
    }
    for (size_t i = offset / BLOCK; i < blocks && size > 0; i++) {
        inode->dirty[i] = 1;
    }
    return 0;
}

/* Bytes of `block` that lie below `size`. */
static size_t part_of(size_t block, size_t size) {
    size_t begin = block * BLOCK;
    return begin >= size ? 0 : (size - begin < BLOCK ? size - begin : BLOCK);
}

static void harden(struct sim_inode *inode, size_t block, size_t bytes) {
    size_t n = part_of(block, inode->size), m = part_of(block, inode->durable_size);
    n = n < m ? n : m;
    n = n < bytes ? n : bytes;
    if (n > 0) {
        memcpy(inode->durable + block * BLOCK, inode->data + block * BLOCK, n);
    }
}

static int inode_sync(struct sim_inode *inode) {
    int code = inode->size_dirty ? resize_durable(inode, inode->size) : 0;
    if (code < 0) {
        return code;
    }
    inode->size_dirty = false;
    for (size_t i = 0; i < inode->dirty_room; i++) {
        if (inode->dirty[i]) {
            harden(inode, i, BLOCK);
            inode->dirty[i] = 0;
        }
    }
    return 0;
}

/* What is dirty is lost; it reads as written until the node crashes. */
static void forget_dirty(struct sim_inode *inode) {
    if (inode->dirty_room > 0) {
        memset(inode->dirty, 0, inode->dirty_room);
    }
    inode->size_dirty = false;
}

static void inode_crash(struct sim_inode *inode, struct tide_random *random) {
    if (inode->size_dirty && tide_random_below(random, 2) == 0) {
        TIDE_ASSERT(resize_durable(inode, inode->size) == 0);
    }
    for (size_t i = 0; i < inode->dirty_room; i++) {
        if (inode->dirty[i]) {
            static const size_t sectors = BLOCK / SECTOR;
            uint64_t fate = tide_random_below(random, 3);
            size_t torn = (size_t)(1 + tide_random_below(random, sectors - 1)) * SECTOR;
            harden(inode, i, fate == 0 ? BLOCK : fate == 1 ? 0 : torn);
        }
    }
    forget_dirty(inode);
    if (inode->durable_size > inode->room) {
        inode->data = tide_realloc(inode->data, inode->durable_size);
        TIDE_ASSERT(inode->data);
        inode->room = inode->durable_size;
    }
    if (inode->durable_size > 0) {
        memcpy(inode->data, inode->durable, inode->durable_size);
    }
    inode->size = inode->durable_size;
}

/* ---- names ---- */

size_t tide__sim_names_find(const struct sim_names *names, const char *path, bool *found) {
    size_t low = 0, high = names->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(names->list[middle].path, path);
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

int tide__sim_names_set(struct sim_names *names, const char *path, struct sim_inode *inode) {
    bool found;
    size_t at = tide__sim_names_find(names, path, &found);
    inode->refs++;
    if (found) {
        tide__sim_inode_unref(names->list[at].inode);
        names->list[at].inode = inode;
        return 0;
    }
    char *copy = tide_strdup(path);
    if (!copy) {
        tide__sim_inode_unref(inode);
        return TIDE_ENOMEM;
    }
    void *list = names->list;
    tide__sim_grow(&list, names->count, &names->room, sizeof *names->list);
    names->list = list;
    memmove(&names->list[at + 1], &names->list[at], (names->count - at) * sizeof *names->list);
    names->list[at] = (struct sim_name){.path = copy, .inode = inode};
    names->count++;
    return 0;
}

void tide__sim_names_drop(struct sim_names *names, size_t at) {
    tide_free(names->list[at].path);
    tide__sim_inode_unref(names->list[at].inode);
    names->count--;
    memmove(&names->list[at], &names->list[at + 1], (names->count - at) * sizeof *names->list);
}

void tide__sim_names_deinit(struct sim_names *names) {
    while (names->count > 0) {
        tide__sim_names_drop(names, names->count - 1);
    }
    tide_free(names->list);
    *names = (struct sim_names){0};
}

struct sim_inode *tide__sim_names_get(const struct sim_names *names, const char *path) {
    bool found;
    size_t at = tide__sim_names_find(names, path, &found);
    return found ? names->list[at].inode : NULL;
}

/* The length of the directory's part of a path: "/a/b" 2, "/a" 0, "a" 0. */
static size_t parent_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) : 0;
}

static bool lies_in(const char *path, const char *directory, size_t length) {
    return parent_length(path) == length && strncmp(path, directory, length) == 0;
}

static void copy_name(struct sim_names *to, const struct sim_names *from, const char *path) {
    struct sim_inode *inode = tide__sim_names_get(from, path);
    if (inode) {
        TIDE_ASSERT(tide__sim_names_set(to, path, inode) == 0);
        return;
    }
    bool found;
    size_t at = tide__sim_names_find(to, path, &found);
    if (found) {
        tide__sim_names_drop(to, at);
    }
}

/* Names in the directory of which `length` bytes of `directory` are the path. */
static void sync_names(struct sim_node *node, const char *directory, size_t length) {
    for (size_t i = node->durable.count; i-- > 0;) {
        const char *path = node->durable.list[i].path;
        if (lies_in(path, directory, length) && !tide__sim_names_get(&node->names, path)) {
            tide__sim_names_drop(&node->durable, i);
        }
    }
    for (size_t i = 0; i < node->names.count; i++) {
        if (lies_in(node->names.list[i].path, directory, length)) {
            copy_name(&node->durable, &node->names, node->names.list[i].path);
        }
    }
}

static bool has_parent(const struct sim_names *names, const char *path) {
    size_t length = parent_length(path);
    if (length == 0) {
        return true;
    }
    char *parent = tide_strdup(path);
    TIDE_ASSERT(parent);
    parent[length] = '\0';
    bool found;
    (void)tide__sim_names_find(names, parent, &found);
    tide_free(parent);
    return found;
}

/* Both sets of names become what the crash leaves. */
static void names_crash(struct sim_node *node, struct tide_random *random) {
    for (size_t i = node->durable.count; i-- > 0;) { /* names that are gone, not yet for good */
        char *path = node->durable.list[i].path;
        if (!tide__sim_names_get(&node->names, path) && tide_random_below(random, 2) == 0) {
            tide__sim_names_drop(&node->durable, i);
        }
    }
    for (size_t i = 0; i < node->names.count; i++) { /* names that are new or stand for another */
        const struct sim_name *name = &node->names.list[i];
        if (tide__sim_names_get(&node->durable, name->path) != name->inode && tide_random_below(random, 2) == 0) {
            copy_name(&node->durable, &node->names, name->path);
        }
    }
    for (size_t i = 0; i < node->durable.count;) { /* parents sort before what is in them */
        if (has_parent(&node->durable, node->durable.list[i].path)) {
            i++;
        } else {
            tide__sim_names_drop(&node->durable, i);
        }
    }
    tide__sim_names_deinit(&node->names);
    for (size_t i = 0; i < node->durable.count; i++) {
        const struct sim_name *name = &node->durable.list[i];
        TIDE_ASSERT(tide__sim_names_set(&node->names, name->path, name->inode) == 0);
    }
}

void tide__sim_disk_crash(struct sim_node *node) {
    names_crash(node, &node->disk_random);
    for (size_t i = 0; i < node->names.count; i++) {
        if (!node->names.list[i].inode->directory) {
            inode_crash(node->names.list[i].inode, &node->disk_random);
        }
    }
}

void tide__sim_disk_init(struct sim_node *node) {
    tide_random_seed(&node->disk_random,
                     tide_hash(node->name, strlen(node->name), tide_mix64(node->sim->options.seed ^ 0xd15c)));
}

/* ---- operations ---- */

static bool hits(struct sim_node *node, double probability) {
    return probability > 0 && tide_random_uniform(&node->disk_random) < probability;
}

static int failed(const char *what) {
    return tide_fail(TIDE_EIO, "%s: input/output error of the simulated disk", what);
}

/* The crash happens here, whatever the code that asked for the operation does next: nothing of it
 * reaches the world. */
static int die(struct sim_node *node) {
    tide_sim_crash(node->sim, node->name);
    return failed("crashing");
}

int tide__sim_disk_change(struct sim_node *node, bool *torn) {
    *torn = false;
    if (hits(node, node->disk.crash)) {
        *torn = tide_random_below(&node->disk_random, 2) == 0;
        return *torn ? 0 : die(node);
    }
    return hits(node, node->disk.write_error) ? failed("changing") : 0;
}

int tide__sim_disk_torn(struct sim_node *node) {
    return die(node);
}

size_t tide__sim_disk_part(struct sim_node *node, size_t size) {
    return (size_t)tide_random_below(&node->disk_random, size + 1);
}

int tide__sim_disk_room(struct sim_node *node, const struct sim_inode *grows, size_t size) {
    if (node->disk.capacity == 0 || size <= grows->size) {
        return 0;
    }
    uint64_t used = size - grows->size;
    for (size_t i = 0; i < node->names.count; i++) {
        used += node->names.list[i].inode->size;
    }
    return used > node->disk.capacity ? tide_fail(TIDE_ENOSPC, "writing: no space left on the simulated disk") : 0;
}

/* The operation takes a time between both. */
static void charge(struct sim_node *node, uint64_t least, uint64_t most) {
    if (most > 0) {
        node->sim->charged += least + tide_random_below(&node->disk_random, most - least + 1);
    }
}

int tide__sim_disk_write(struct sim_node *node, size_t *size) {
    if (!hits(node, node->disk.torn_write)) {
        return 0;
    }
    *size = tide__sim_disk_part(node, *size);
    return failed("writing a part");
}

int tide__sim_disk_read(struct sim_node *node) {
    charge(node, node->disk.read_ns_min, node->disk.read_ns_max);
    return hits(node, node->disk.read_error) ? failed("reading") : 0;
}

int tide__sim_disk_sync(struct sim_node *node, struct sim_inode *inode) {
    const struct tide_sim_disk *disk = &node->disk;
    charge(node, disk->sync_ns_min, disk->sync_ns_max);
    if (hits(node, disk->crash)) {
        return die(node);
    }
    if (hits(node, disk->sync_error)) {
        forget_dirty(inode);
        return failed("syncing");
    }
    return inode_sync(inode);
}

void tide__sim_disk_sync_parent(struct sim_node *node, const char *path) {
    sync_names(node, path, parent_length(path));
}

int tide__sim_directory_sync(struct tide_port *port, const char *path) {
    tide__watch_blocks("sync", path);
    struct sim_node *node = tide__sim_disk_of(port, path);
    const struct sim_inode *inode = tide__sim_names_get(&node->names, path);
    if (port->crashed) {
        return tide_fail(TIDE_EIO, "syncing %s: the node has crashed", path);
    }
    const bool top = strcmp(path, "/") == 0 || strcmp(path, ".") == 0;
    if (!top && (!inode || !inode->directory)) {
        return tide_fail(TIDE_ENOENT, "syncing %s: no such directory", path);
    }
    if (hits(node, node->disk.crash)) {
        return die(node);
    }
    if (hits(node, node->disk.sync_error)) {
        return failed("syncing a directory");
    }
    sync_names(node, path, top ? 0 : strlen(path));
    return 0;
}

int tide_sim_files(struct tide_sim *sim, const char *name,
                   int (*each)(void *arg, const char *path, const void *data, size_t size), void *arg) {
    const struct sim_node *node = tide__sim_find_node(sim, name);
    int code = 0;
    for (size_t i = 0; node && i < node->names.count && code == 0; i++) {
        const struct sim_inode *inode = node->names.list[i].inode;
        if (!inode->directory) {
            code = each(arg, node->names.list[i].path, inode->data, inode->size);
        }
    }
    return code;
}

/* ---- what tests ask for ---- */

void tide_sim_set_disk(struct tide_sim *sim, const char *name, const struct tide_sim_disk *disk) {
    TIDE_ASSERT(disk->sync_ns_min <= disk->sync_ns_max && disk->read_ns_min <= disk->read_ns_max);
    if (name) {
        struct sim_node *node = tide__sim_find_node(sim, name);
        node = node ? node : tide__sim_add_node(sim, name);
        TIDE_ASSERT(node);
        node->disk = *disk;
        return;
    }
    sim->disk = *disk;
    for (size_t i = 0; i < sim->node_count; i++) {
        sim->nodes[i]->disk = *disk;
    }
}

/* The named file, or one of those that have bytes. */
static struct sim_inode *victim(struct tide_sim *sim, const char *name, const char *path) {
    struct sim_node *node = tide__sim_find_node(sim, name);
    if (!node || path) {
        struct sim_inode *inode = node ? tide__sim_names_get(&node->names, path) : NULL;
        return inode && inode->size > 0 ? inode : NULL;
    }
    uint64_t seen = 0;
    struct sim_inode *chosen = NULL;
    for (size_t i = 0; i < node->names.count; i++) {
        struct sim_inode *inode = node->names.list[i].inode;
        if (inode->size > 0 && tide_random_below(&node->disk_random, ++seen) == 0) {
            chosen = inode;
        }
    }
    return chosen;
}

bool tide_sim_flip(struct tide_sim *sim, const char *node, const char *path) {
    struct sim_inode *inode = victim(sim, node, path);
    if (!inode) {
        return false;
    }
    struct tide_random *random = &tide__sim_find_node(sim, node)->disk_random;
    size_t at = (size_t)tide_random_below(random, inode->size);
    uint8_t bit = (uint8_t)(1u << tide_random_below(random, 8));
    inode->data[at] ^= bit;
    if (at < inode->durable_size) {
        inode->durable[at] ^= bit;
    }
    return true;
}

bool tide_sim_truncate(struct tide_sim *sim, const char *node, const char *path) {
    struct sim_inode *inode = victim(sim, node, path);
    if (!inode) {
        return false;
    }
    struct tide_random *random = &tide__sim_find_node(sim, node)->disk_random;
    inode->size = (size_t)tide_random_below(random, inode->size);
    inode->durable_size = inode->durable_size < inode->size ? inode->durable_size : inode->size;
    return true;
}
