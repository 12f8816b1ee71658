/*
 * core.block_file(path): a scratch file of tensors at offsets, each with a sum that is checked when
 * it is read. Reads and writes run on the node's disk thread while the calling fiber waits; outside
 * of actors, at once. The file is removed when it is closed or collected.
 */
#include "lua/host/host.h"

#include "actor/actor.h"

#include <stdatomic.h>
#include <string.h>

static const char file_metatable; /* its address is the registry key */

/* Shared by the handle and by transfers, which may outlive it: the last one closes and removes the
 * file. */
struct block_file {
    struct tide_port *port;
    struct tide_file *file;
    char *path;
    _Atomic unsigned holders;
};

static void let_go(struct block_file *f) {
    if (f && atomic_fetch_sub_explicit(&f->holders, 1, memory_order_acq_rel) == 1) { /* others' last uses */
        f->port->ops->file_close(f->file);
        (void)f->port->ops->file_unlink(f->port, f->path);
        tide_free(f->path);
        tide_free(f);
    }
}

/* ---- transfers ---- */

struct transfer {
    struct block_file *f;
    void *data; /* its own */
    size_t size;
    uint64_t offset;
    bool writes;
    int code;
    uint32_t sum;
    char reason[200];
};

static void drop(void *arg) {
    struct transfer *t = arg;
    let_go(t->f);
    tide_free(t->data);
    tide_free(t);
}

static void move(void *arg) {
    struct transfer *t = arg;
    const struct tide_port_ops *ops = t->f->port->ops;
    size_t done = 0;
    if (t->writes) {
        t->sum = tide_crc32c(0, t->data, t->size);
        t->code = ops->file_write(t->f->file, t->data, t->size, t->offset);
    }
    while (!t->writes && done < t->size && t->code == 0) {
        const ssize_t got = ops->file_read(t->f->file, (char *)t->data + done, t->size - done, t->offset + done);
        done += got > 0 ? (size_t)got : 0;
        if (got <= 0) {
            t->code = got < 0 ? (int)got
                              : tide_fail(TIDE_EIO, "%s: ends at byte %llu", t->f->path,
                                          (unsigned long long)(t->offset + done));
        }
    }
    if (t->code < 0) {
        snprintf(t->reason, sizeof t->reason, "%s: byte %llu: %s", t->f->path, (unsigned long long)t->offset,
                 tide_error_message());
    } else if (!t->writes) {
        t->sum = tide_crc32c(0, t->data, t->size);
    }
}

static struct block_file **check_handle(lua_State *L) {
    return tide__lua_handle_check(L, 1, &file_metatable, "file of blocks");
}

static struct block_file *check_file(lua_State *L) {
    struct block_file *f = *check_handle(L);
    if (!f) {
        luaL_error(L, "the file is closed");
    }
    return f;
}

/* The tensor at 2 and the offset at 3; *gives* the transfer, carried out, or a negative code. */
static int carry_out(lua_State *L, bool writes, struct transfer **out) {
    struct block_file *f = check_file(L);
    const struct tide_lua_tensor *tensor = tide__lua_tensor_check(L, 2);
    const lua_Integer offset = luaL_checkinteger(L, 3);
    luaL_argcheck(L, offset >= 0, 3, "an offset is 0 or more");
    struct transfer *t = tide_alloc_zero(1, sizeof *t);
    if (!t) {
        return TIDE_ENOMEM;
    }
    t->f = f;
    atomic_fetch_add_explicit(&f->holders, 1, memory_order_relaxed);
    t->size = tide__lua_tensor_count(tensor) * tensor->element;
    t->offset = (uint64_t)offset;
    t->writes = writes;
    t->data = tide_alloc(t->size + 1);
    if (!t->data) {
        drop(t);
        return TIDE_ENOMEM;
    }
    if (writes) {
        memcpy(t->data, tensor->t.data, t->size);
    }
    const int code = tide__lua_on_disk(L, move, t, drop);
    *out = code == 0 ? t : NULL;
    return code;
}

/* f:write(tensor, offset) -> sum | nil, err */
static int file_write(lua_State *L) {
    struct transfer *t = NULL;
    int code = carry_out(L, true, &t);
    if (code == 0 && t->code < 0) {
        code = tide_fail(t->code, "%s", t->reason);
    }
    const uint32_t sum = t ? t->sum : 0;
    if (t) {
        drop(t);
    }
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushinteger(L, sum);
    return 1;
}

/* f:read(tensor, offset, sum) -> true | nil, err: fills the tensor */
static int file_read(lua_State *L) {
    const lua_Integer wanted = luaL_checkinteger(L, 4);
    struct transfer *t = NULL;
    int code = carry_out(L, false, &t);
    if (code == 0 && t->code < 0) {
        code = tide_fail(t->code, "%s", t->reason);
    } else if (code == 0 && t->sum != (uint32_t)wanted) {
        code =
            tide_fail(TIDE_EPROTO, "%s: the block at byte %llu is damaged", t->f->path, (unsigned long long)t->offset);
    } else if (code == 0 && t->size > 0) {
        memcpy(tide__lua_tensor_check(L, 2)->t.data, t->data, t->size);
    }
    if (t) {
        drop(t);
    }
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

static int file_close(lua_State *L) {
    struct block_file **f = check_handle(L);
    let_go(*f);
    *f = NULL;
    return 0;
}

static int core_block_file(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    struct tide_port *port = tide__lua_host(L)->port;
    struct block_file **handle = lua_newuserdatauv(L, sizeof *handle, 0);
    *handle = NULL;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &file_metatable);
    lua_setmetatable(L, -2);
    struct block_file *f = tide_alloc_zero(1, sizeof *f);
    char *copy = tide_alloc(strlen(path) + 1);
    int code = f && copy ? 0 : TIDE_ENOMEM;
    if (code == 0) {
        memcpy(copy, path, strlen(path) + 1);
        f->port = port;
        f->path = copy;
        atomic_init(&f->holders, 1);
        code = port->ops->file_open(port, path,
                                    TIDE_FILE_READ | TIDE_FILE_WRITE | TIDE_FILE_CREATE | TIDE_FILE_TRUNCATE, &f->file);
    }
    if (code < 0) {
        tide_free(copy);
        tide_free(f);
        return tide__lua_failure(L, code);
    }
    *handle = f;
    return 1;
}

void tide__lua_open_blocks(lua_State *L) {
    static const luaL_Reg functions[] = {{"block_file", core_block_file}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"write", file_write}, {"read", file_read}, {"close", file_close}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    tide__lua_handle_class(L, &file_metatable, "tide.block_file", methods, file_close);
}
