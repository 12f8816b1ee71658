/*
 * core.place, core.give, core.fetch: arrays where a device's operations find them. A device that
 * works in the host's memory uses tensors as they are; for one with memory of its own an array is a
 * copy there, which Lua sees as an object without elements, and which is written and read as a
 * whole by give and fetch.
 */
#include "device.h"

#include <string.h>

static const char array_metatable; /* its address is the registry key */

struct array {
    const struct tide_device *device;
    void *data;
    size_t count;
};

const struct tide_device *tide__lua_device(lua_State *L, int index) {
    const char *name = luaL_checkstring(L, index);
    const struct tide_device *device = tide_device_find(name);
    if (!device) {
        tide__lua_raise(L, strcmp(name, "cuda") == 0 ? TIDE_EUNSUPPORTED : TIDE_ENOENT);
    }
    return device;
}

/* NULL if the value is none. */
static struct array *array_at(lua_State *L, int index) {
    return tide__lua_handle_at(L, index, &array_metatable);
}

static int float_type(const struct tide_device *device) {
    return device->element == sizeof(float) ? TIDE_F32 : TIDE_F64;
}

void *tide__lua_host_floats(lua_State *L, int index, const struct tide_device *device, size_t count) {
    struct tide_lua_tensor *tensor = tide__lua_tensor_check(L, index);
    int type = float_type(device);
    if (tensor->t.type != type || tide__lua_tensor_count(tensor) < count) {
        luaL_error(L, "argument %d must be a tensor of %I %s", index - 1, (lua_Integer)count,
                   tide__lua_tensor_type_name(type));
    }
    return tensor->t.data;
}

void *tide__lua_device_floats(lua_State *L, int index, const struct tide_device *device, size_t count) {
    if (!device->memory) {
        return tide__lua_host_floats(L, index, device, count);
    }
    struct array *array = array_at(L, index);
    if (!array || array->device != device || array->count < count) {
        luaL_error(L, "argument %d must be %I numbers in the memory of %s (core.place)", index - 1, (lua_Integer)count,
                   device->name);
    }
    return array->data;
}

static int array_gc(lua_State *L) {
    struct array *array = lua_touserdata(L, 1);
    if (array->data) {
        array->device->memory->release(array->data);
        array->data = NULL;
    }
    return 0;
}

/* core.device(name) -> true | nil, err */
static int core_device(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    if (!tide_device_find(name)) {
        return tide__lua_failure(L, strcmp(name, "cuda") == 0 ? TIDE_EUNSUPPORTED : TIDE_ENOENT);
    }
    lua_pushboolean(L, true);
    return 1;
}

static int copied(lua_State *L, const struct array *array, int code) {
    return code == 0 ? 0
                     : tide__lua_raisef(L, code, "%zu numbers could not be copied to or from %s", array->count,
                                        array->device->name);
}

/* core.place(device, tensor) -> the tensor, or a copy in the device's memory */
static int core_place(lua_State *L) {
    const struct tide_device *device = tide__lua_device(L, 1);
    struct tide_lua_tensor *tensor = tide__lua_tensor_check(L, 2);
    const void *data = tide__lua_host_floats(L, 2, device, 0);
    lua_settop(L, 2);
    if (!device->memory) {
        return 1;
    }
    struct array *array = lua_newuserdatauv(L, sizeof *array, 0);
    *array = (struct array){device, NULL, tide__lua_tensor_count(tensor)};
    lua_rawgetp(L, LUA_REGISTRYINDEX, &array_metatable);
    lua_setmetatable(L, -2);
    size_t bytes = array->count * device->element;
    array->data = device->memory->allocate(bytes);
    if (!array->data) {
        return tide__lua_raisef(L, TIDE_ENOMEM, "%s has no room for %zu numbers", device->name, array->count);
    }
    copied(L, array, device->memory->upload(NULL, array->data, data, bytes));
    return 1;
}

/* core.give(place, tensor), core.fetch(place, tensor): nothing if the place is the tensor */
static int move(lua_State *L, bool give) {
    struct array *array = array_at(L, 1);
    if (!array) {
        luaL_argcheck(L, tide__lua_tensor_check(L, 1) == tide__lua_tensor_check(L, 2), 1,
                      "neither an array of core.place nor the tensor itself");
        return 0;
    }
    const struct tide_memory *memory = array->device->memory;
    void *host = tide__lua_host_floats(L, 2, array->device, array->count);
    size_t bytes = array->count * array->device->element;
    return copied(L, array,
                  give ? memory->upload(NULL, array->data, host, bytes)
                       : memory->download(NULL, host, array->data, bytes));
}

static int core_give(lua_State *L) {
    return move(L, true);
}

static int core_fetch(lua_State *L) {
    return move(L, false);
}

void tide__lua_open_device(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"device", core_device}, {"place", core_place}, {"give", core_give}, {"fetch", core_fetch}, {NULL, NULL}};
    tide__lua_handle_class(L, &array_metatable, "tide.array", NULL, array_gc);
    luaL_setfuncs(L, functions, 0);
}
