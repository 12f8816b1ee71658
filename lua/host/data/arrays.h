/* Arrays of other programs as tensors: what safetensors, npy and npz have in common. */
#ifndef TIDE_LUA_ARRAYS_H
#define TIDE_LUA_ARRAYS_H

#include "lua/host/host.h"

#include "wire/safetensors.h"

/* Pushes a tensor of the elements at `bytes` (not aligned). Types that tensors do not have become the next that holds
 * them: F16 and BF16 f32, I8 and I16 i32, BOOL u8. Of more than two dims the first are rows, the rest columns; with
 * `fortran` the array lies column after column. EUNSUPPORTED for others; raises where memory is short. */
int tide__lua_array(lua_State *L, enum tide_dtype dtype, const uint64_t *dims, size_t rank, bool fortran,
                    const void *bytes);
/* Pushes an array of the dims. */
void tide__lua_dims(lua_State *L, const uint64_t *dims, size_t rank);
void tide__lua_open_arrays(lua_State *L);

#endif
