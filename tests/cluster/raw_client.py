"""A client of the protocol alone, written from docs/internals/protocol.md: raw_client.py ENDPOINT TABLE. Joins, pushes a
row, sends the push again on another connection, pulls, and prints the row before and behind that."""
import os
import socket
import struct
import sys
import threading
import time

CAST, CALL, REPLY, ERROR, CREDIT, HELLO, HELLO_OK, HEARTBEAT = 0, 1, 2, 3, 5, 6, 7, 8
SYSTEM, CONTROL = 0, 3
BUSY = -10003
REGISTRY, MEMBERS = 1, 2


def pack(value):
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        return bytes([value]) if 0 <= value < 128 else struct.pack(">BQ", 0xcf, value)
    if isinstance(value, str):
        return struct.pack(">BB", 0xd9, len(value.encode())) + value.encode()
    if isinstance(value, tuple):  # (type, bytes) of an ext
        return struct.pack(">BIb", 0xc9, len(value[1]), value[0]) + value[1]
    return struct.pack(">BH", 0xdc, len(value)) + b"".join(pack(v) for v in value)


def unpack(data, at=0):
    """(value, where the next one begins)."""
    tag, at = data[at], at + 1
    if tag < 0x80 or tag >= 0xe0:
        return (tag if tag < 0x80 else tag - 256), at
    if tag < 0xa0 or tag in (0xdc, 0xde):
        long = tag >= 0xc0
        count = struct.unpack_from(">H", data, at)[0] if long else tag & 15
        at += 2 if long else 0
        is_map = tag < 0x90 or tag == 0xde
        out = []
        for _ in range(count * 2 if is_map else count):
            value, at = unpack(data, at)
            out.append(value)
        return (dict(zip(out[::2], out[1::2])) if is_map else out), at
    if tag < 0xc0:
        return data[at:at + (tag & 31)].decode(), at + (tag & 31)
    if tag in (0xc0, 0xc2, 0xc3):
        return {0xc0: None, 0xc2: False, 0xc3: True}[tag], at
    numbers = {0xcb: ">d", 0xcc: ">B", 0xcd: ">H", 0xce: ">I", 0xcf: ">Q", 0xd0: ">b", 0xd1: ">h", 0xd2: ">i", 0xd3: ">q"}
    if tag in numbers:
        return struct.unpack_from(numbers[tag], data, at)[0], at + struct.calcsize(numbers[tag])
    if tag in (0xc9, 0xd9, 0xda):
        form = {0xc9: ">Ib", 0xd9: ">B", 0xda: ">H"}[tag]
        size = struct.unpack_from(form, data, at)[0]
        at += struct.calcsize(form)
        body = data[at:at + size]
        return (body if tag == 0xc9 else body.decode()), at + size
    raise ValueError(f"{tag:#x}")


class Refused(Exception):
    pass


class Connection:
    def __init__(self, endpoint, hello):
        kind, path = endpoint.split(":", 1)
        assert kind == "unix"
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.lock, self.calls, self.received, self.view, self.id = threading.Lock(), 0, 0, None, 0
        self.send(HELLO, SYSTEM, 0, 0, 0, hello)
        kind, _, _, body = self.frame()
        if kind == ERROR:
            raise Refused(*body)
        assert kind == HELLO_OK
        self.cluster, self.node, self.controller, assigned = body[1], body[4], body[6], body[9]
        self.id = assigned or hello[4]
        self.alive = True
        threading.Thread(target=self.beat, daemon=True).start()

    def send(self, kind, lane, to, sender, call, body):
        frame = b"\x95" + pack(kind | lane << 4) + pack(to) + pack(sender) + pack(call) + pack(body)
        with self.lock:
            self.socket.sendall(struct.pack("<I", len(frame)) + frame)

    def exactly(self, size):
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            assert piece, "the node closed the connection"
            data += piece
        return data

    def frame(self):
        data = self.exactly(struct.unpack("<I", self.exactly(4))[0])
        (tag, to, _, call, body), _ = unpack(data)
        kind, members = tag & 15, tag & 15 == CAST and to & (1 << 48) - 1 == MEMBERS
        if kind not in (HELLO_OK, HEARTBEAT, CREDIT) and not members:
            self.received += 1
        if members and body[0] == 1:
            self.view = body[5]
        return kind, to, call, body

    def beat(self):
        while self.alive:
            self.send(HEARTBEAT, SYSTEM, 0, 0, 0, [0, 0, 0, None])
            self.send(CREDIT, SYSTEM, 0, 0, 0, [self.received, 0, 0, 0])
            time.sleep(0.1)

    def call(self, to, body):
        self.calls += 1
        self.send(CALL, CONTROL, to, self.id << 48 | 1, self.calls, body)
        while True:
            kind, _, call, answer = self.frame()
            if kind in (REPLY, ERROR) and call == self.calls:
                if kind == ERROR:
                    raise SystemExit(f"{answer[0]}: {answer[1]}")
                return answer

    def close(self):
        self.alive = False
        self.send(CAST, SYSTEM, self.node << 48 | MEMBERS, self.id << 48 | MEMBERS, 0, [6])
        self.socket.close()


def hello(incarnation, cluster="", client=0, name="", to=0, attempt=0):
    return [7, cluster, "", incarnation, client, name, to, "", False, True, 0, os.getpid(), 0, 0, attempt, 0, 2]


def main(endpoint, name):
    incarnation = int.from_bytes(os.urandom(7), "big") | 1
    home = Connection(endpoint, hello(incarnation))
    if home.id == 0:
        home = Connection(home.controller, hello(incarnation))
    while home.view is None:
        home.frame()
    number, life, _, _, _, _, node, where, _ = next(m for m in home.view if m[3] and m[2] == 1)
    attempt = 0
    for _ in range(2):  # the second connection sends the same push
        store = None
        while store is None:
            attempt += 1
            try:
                store = Connection(where, hello(incarnation, home.cluster, home.id, node, life, attempt))
            except Refused as refused:  # the node has not noticed the end of the former connection
                if refused.args[0] != BUSY or attempt > 100:
                    raise
                time.sleep(0.05)
        rows = store.call(number << 48 | REGISTRY, "rows")
        table = store.call(rows, [1, name])
        keys = (7, struct.pack("<Q", 3))
        before = store.call(rows, [2, table["table"], keys])
        ones = (1, struct.pack("<f", 1) * table["width"])
        store.call(rows, [3, table["table"], keys, ones, incarnation, 1, 1])
        after = store.call(rows, [2, table["table"], keys])
        print(*(struct.unpack_from("<f", r)[0] for r in (before, after)))
        store.close()
    home.close()


main(*sys.argv[1:])
