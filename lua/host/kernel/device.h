/* Arrays of the devices that programs run on, for the parts of the Lua host that name one. */
#ifndef TIDE_LUA_DEVICE_H
#define TIDE_LUA_DEVICE_H

#include "lua/host/host.h"
#include "operation.h"

/* The device of the name at `index`; raises EUNSUPPORTED or ENOENT with the reason. */
const struct tide_device *tide__lua_device(lua_State *L, int index);
/* At least `count` elements of the device's floats at `index`: a tensor, or for a device with
 * memory of its own an array of core.place. Raises. */
void *tide__lua_device_floats(lua_State *L, int index, const struct tide_device *device, size_t count);
/* The same, a tensor in any case: numbers on the host. */
void *tide__lua_host_floats(lua_State *L, int index, const struct tide_device *device, size_t count);

#endif
