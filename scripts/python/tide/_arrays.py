"""Arguments as memory: what is used in place, what is copied, what is refused (docs/guides/clients.md)."""
import ctypes

import numpy as np

from .errors import KeyRangeError, UsageError

_U64, _I64, _F32 = np.dtype(np.uint64), np.dtype(np.int64), np.dtype(np.float32)


_BYTE, _address_of = ctypes.c_char, ctypes.addressof


def pointer(array):
    try:
        return _address_of(_BYTE.from_buffer(array))  # a fifth of the time of the other way
    except (TypeError, ValueError):  # it is read-only, or empty
        return array.__array_interface__["data"][0]


def _of(value, what):
    """numpy's view of an array of another library, without a copy."""
    if isinstance(value, np.ndarray):
        return value
    if type(value).__module__.split(".")[0] == "torch":
        if value.requires_grad:
            raise TypeError(f"{what} requires a gradient: pass x.detach()")
        if value.device.type != "cpu":
            raise TypeError(f"{what} is on {value.device}: pass x.cpu()")
        return value.numpy()
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    if hasattr(value, "__array_interface__") or isinstance(value, memoryview):
        return np.asarray(value)
    return None


def _integers(value):
    """Keys of a list. numpy makes floats or objects of integers that share no type of its own."""
    array = np.asarray(value)
    if array.size == 0:
        return array.astype(_U64)
    if array.dtype.kind in "iu":
        return array
    whole = np.asarray(value, object)
    if any(isinstance(key, bool) or not isinstance(key, (int, np.integer)) for key in whole.flat):
        return array
    if min(whole.flat) < 0 or max(whole.flat) >= 1 << 64:
        key = min(whole.flat) if min(whole.flat) < 0 else max(whole.flat)
        raise KeyRangeError(f"key {key} is {'negative' if key < 0 else 'beyond 2^64 - 1'}", "ERANGE")
    return whole.astype(_U64)


def keys(value, dense):
    """(array, shape): uint64 or int64 keys, contiguous."""
    array = _of(value, "keys")
    if array is None:
        array = _integers(value)
    dtype = array.dtype
    if dtype != _U64 and dtype != _I64:
        if dtype.kind not in "iu":
            raise TypeError(f"keys are integers, not {dtype}")
        array = array.astype(_I64 if dtype.kind == "i" else _U64)
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    if not dense and array.dtype == _I64 and array.size and array.min() < 0:  # a dense table refuses them by its limit
        raise KeyRangeError(f"key {array.min()} is negative", "ERANGE")
    return array, array.shape


def out(value, shape, key_array):
    """The array that rows are written to."""
    if value is None:
        return np.empty(shape, _F32)
    array = _of(value, "out")
    if array is None:
        raise UsageError("out is no array")
    if array.dtype != _F32 or not array.dtype.isnative:
        raise UsageError(f"out is of {array.dtype}, rows are float32")
    if array.shape != shape:
        raise UsageError(f"out has shape {array.shape}, the rows have {shape}")
    if not array.flags.c_contiguous or not array.flags.writeable or not array.flags.aligned:
        raise UsageError("out is not contiguous, aligned and writable")
    first, other = pointer(array), pointer(key_array)
    if first < other + key_array.nbytes and other < first + array.nbytes:
        raise UsageError("out and keys overlap")
    return array


def _float32(value):
    try:
        with np.errstate(over="raise"):
            return np.asarray(value, _F32)
    except FloatingPointError:
        raise UsageError("the rows have a number beyond what a float32 holds") from None


def rows(value, shape, cast):
    """Rows that are pushed: float32; others with cast=True."""
    array = _of(value, "rows")
    if array is None:
        array = _float32(value)  # lists of numbers
    if array.dtype != _F32:
        if not cast or array.dtype.kind not in "fiu":
            raise TypeError(f"rows are of {array.dtype}, a table has float32: cast=True converts them")
        array = _float32(array)
    if array.shape != shape:
        raise UsageError(f"the rows have shape {array.shape}, the keys want {shape}")
    if not array.flags.c_contiguous:
        if not cast:
            raise UsageError("the rows are not contiguous: cast=True copies them")
        array = np.ascontiguousarray(array)
    return array
