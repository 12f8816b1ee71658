"""Reads a TensorBoard event file without TensorBoard: tfevents.py FILE prints "step tag value" a line.

Checks the length and both checksums of each record, as TensorFlow's reader does."""
import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 0x80:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif key & 7 == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        else:
            assert key & 7 == 2, key
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


assert crc32c(b"123456789") == 0xE3069283
data, at, first = open(sys.argv[1], "rb").read(), 0, True
while at < len(data):
    (size,), (sum_of_size,) = struct.unpack_from("<Q", data, at), struct.unpack_from("<I", data, at + 8)
    assert masked(data[at:at + 8]) == sum_of_size, at
    payload = data[at + 12:at + 12 + size]
    assert masked(payload) == struct.unpack_from("<I", data, at + 12 + size)[0], at
    at += size + 16
    event = dict(fields(payload))
    assert event[1] > 1.6e9, event
    if first:
        assert event[3] == b"brain.Event:2"
        first = False
        continue
    for number, summary in fields(event[5]):
        assert number == 1
        value = dict(fields(summary))
        print(event.get(2, 0), value[1].decode(), f"{value[2]:.6g}")
