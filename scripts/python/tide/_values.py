"""Values of calls: msgpack, with arrays of numbers as extensions (docs/internals/protocol.md)."""
import struct

import numpy as np

_DTYPES = {1: "<f4", 2: "<f8", 3: "<f2", 5: "<i4", 6: "<i8", 7: "<u8", 8: "u1", 9: "<u4", 10: "<u2"}
_CODES = {np.dtype(name): code for code, name in _DTYPES.items()}
_DEPTH_MAX = 16


def _array(out, value):
    if value.ndim == 2:
        out.append(b"\x82\xa8@columns")
        _encode(out, value.shape[1], 0)
        out.append(b"\xa5@data")
        value = value.reshape(-1)
    if value.ndim != 1 or value.dtype not in _CODES:
        raise TypeError(f"an array of {value.ndim} dimensions of {value.dtype} cannot be sent")
    data = np.ascontiguousarray(value).tobytes()
    out.append(b"\xc9" + struct.pack(">IB", len(data), _CODES[value.dtype]) + data)


def _sized(out, size, fix, fix_max, tags):
    if fix is not None and size <= fix_max:
        out.append(bytes([fix | size]))
    elif tags[0] is not None and size < 1 << 8:
        out.append(struct.pack(">BB", tags[0], size))
    elif size < 1 << 16:
        out.append(struct.pack(">BH", tags[1], size))
    else:
        out.append(struct.pack(">BI", tags[2], size))


def _integer(out, value):
    if 0 <= value < 128 or -32 <= value < 0:
        out.append(struct.pack(">b", value))
    elif -1 << 63 <= value < 1 << 63:
        out.append(struct.pack(">Bq", 0xd3, value))
    else:
        raise OverflowError(f"{value} does not fit 64 bits with a sign")


def _encode(out, value, depth):
    if depth > _DEPTH_MAX:
        raise ValueError(f"a value is nested deeper than {_DEPTH_MAX}")
    if value is None:
        out.append(b"\xc0")
    elif isinstance(value, (bool, np.bool_)):
        out.append(b"\xc3" if value else b"\xc2")
    elif isinstance(value, (int, np.integer)):
        _integer(out, int(value))
    elif isinstance(value, (float, np.floating)):
        out.append(struct.pack(">Bd", 0xcb, value))
    elif isinstance(value, str):
        data = value.encode()
        _sized(out, len(data), 0xa0, 31, (0xd9, 0xda, 0xdb))
        out.append(data)
    elif isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        _sized(out, len(data), None, 0, (0xc4, 0xc5, 0xc6))
        out.append(data)
    elif isinstance(value, (list, tuple)):
        _sized(out, len(value), 0x90, 15, (None, 0xdc, 0xdd))
        for element in value:
            _encode(out, element, depth + 1)
    elif isinstance(value, dict):
        _sized(out, len(value), 0x80, 15, (None, 0xde, 0xdf))
        for key, element in value.items():
            if not isinstance(key, str):
                raise TypeError(f"a map has keys of text, not {type(key).__name__}")
            _encode(out, key, depth + 1)
            _encode(out, element, depth + 1)
    elif isinstance(value, np.ndarray):
        _array(out, value)
    elif hasattr(value, "__dlpack__") or hasattr(value, "__array__"):
        _array(out, np.asarray(value))
    else:
        raise TypeError(f"a {type(value).__name__} cannot be sent")


def encode(value) -> bytes:
    out = []
    _encode(out, value, 0)
    return b"".join(out)


class _Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        if self.at + size > len(self.data):
            raise ValueError("a value is cut short")
        self.at += size
        return self.data[self.at - size:self.at]

    def number(self, form):
        return struct.unpack(">" + form, self.take(struct.calcsize(form)))[0]

    def text(self, size):
        data = bytes(self.take(size))
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data

    def ext(self, size):
        code = self.number("b")
        data = bytes(self.take(size))
        if code == 4:  # bfloat16: the upper half of a float
            return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
        if code not in _DTYPES:
            raise ValueError(f"an array of unknown type {code}")
        return np.frombuffer(data, _DTYPES[code])

    def map(self, count):
        out = {}
        for _ in range(count):
            key = self.value()
            out[key] = self.value()
        if out.keys() == {"@columns", "@data"}:
            return out["@data"].reshape(-1, out["@columns"])
        return out

    def value(self):
        tag = self.number("B")
        if tag < 0x80:
            return tag
        if tag >= 0xe0:
            return tag - 256
        if tag < 0x90:
            return self.map(tag & 15)
        if tag < 0xa0:
            return [self.value() for _ in range(tag & 15)]
        if tag < 0xc0:
            return self.text(tag & 31)
        if tag in _SIMPLE:
            return _SIMPLE[tag]
        if tag in _NUMBERS:
            return self.number(_NUMBERS[tag])
        if tag in _LONG:
            form, what = _LONG[tag]
            return getattr(self, what)(self.number(form))
        if 0xd4 <= tag <= 0xd8:
            return self.ext(1 << (tag - 0xd4))
        raise ValueError(f"{tag:#x} begins no value")

    def list(self, count):
        return [self.value() for _ in range(count)]

    def binary(self, size):
        return bytes(self.take(size))


_SIMPLE = {0xc0: None, 0xc2: False, 0xc3: True}
_NUMBERS = {0xca: "f", 0xcb: "d", 0xcc: "B", 0xcd: "H", 0xce: "I", 0xcf: "Q", 0xd0: "b", 0xd1: "h", 0xd2: "i", 0xd3: "q"}
_LONG = {0xc4: ("B", "binary"), 0xc5: ("H", "binary"), 0xc6: ("I", "binary"), 0xc7: ("B", "ext"), 0xc8: ("H", "ext"),
         0xc9: ("I", "ext"), 0xd9: ("B", "text"), 0xda: ("H", "text"), 0xdb: ("I", "text"), 0xdc: ("H", "list"),
         0xdd: ("I", "list"), 0xde: ("H", "map"), 0xdf: ("I", "map")}


def decode(data):
    reader = _Reader(memoryview(data))
    value = reader.value()
    if reader.at != len(reader.data):
        raise ValueError("bytes follow a value")
    return value
