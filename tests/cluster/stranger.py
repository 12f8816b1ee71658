#!/usr/bin/env python3
"""A peer that is no node. stranger.py ENDPOINT hello VERSION CLUSTER: says hello and prints what it is answered.
stranger.py ENDPOINT attack SECONDS SEED CLUSTER: keeps sending what no node sends; prints how often.
stranger.py ENDPOINT silent SECONDS: keeps 70 connections open and says nothing; prints how many were left to it.
stranger.py ENDPOINT pose CLUSTER VICTIM BEFORE: says hello to node BEFORE as node VICTIM, with its id and incarnation.
stranger.py ENDPOINT command CLUSTER VICTIM: as a client of an id that nobody gave it, says that node VICTIM is dead.
stranger.py ENDPOINT frames CLUSTER NODE: as a client of each right, sends node NODE a frame of each kind in each lane to each
of its first actors; prints how many, and after how many the connection was closed.
stranger.py ENDPOINT listen SECONDS: takes connections there and says nothing; prints how many bytes came."""
import os
import random
import socket
import struct
import sys
import time

FRAME_HELLO = 6
VERSION = int(os.environ["TIDE_PROTOCOL"])  # of the wire


def connect(endpoint):
    kind, _, rest = endpoint.partition(":")
    if kind == "unix":
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(2)
        s.connect(rest)
        return s
    host, _, port = rest.rpartition(":")
    return socket.create_connection((host, int(port)), 2)


def text(value):
    return bytes([0xd9, len(value)]) + value.encode()


def uint(value):
    return b"\xcf" + struct.pack(">Q", value)


def frame(kind, lane, body, to=0, sender=0, call=0):
    head = bytes([0x95, kind | lane << 4]) + uint(to) + uint(sender) + uint(call)
    return struct.pack("<I", len(head) + len(body)) + head + body


def hello(version, cluster, client, name="stranger", node=0, incarnation=None, to="", to_incarnation=0, attempt=0,
          right=None):
    body = b"\xdc\x00\x11" + uint(version) + text(cluster) + text(name)
    body += uint(incarnation or random.getrandbits(62) | 1) + uint(node) + text(to) + uint(to_incarnation) + text("")
    body += b"\xc2" + (b"\xc3" if client else b"\xc2") + uint(0) + uint(os.getpid())
    body += uint(0) * 2 + uint(attempt) + uint(0)  # no session to go on with, no controller
    body += uint(right or (3 if client else 4))  # admin, or what members have
    return frame(FRAME_HELLO, 0, body)


class Reader:
    """msgpack as far as views have it."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        self.at += count
        return self.data[self.at - count:self.at]

    def value(self):
        tag = self.take(1)[0]
        if tag < 0x80 or tag >= 0xe0:
            return tag
        if tag < 0xa0:
            return [self.value() for _ in range(tag & 15)]
        if tag < 0xc0:
            return self.take(tag & 31).decode()
        if tag in (0xc0, 0xc2, 0xc3):
            return tag == 0xc3
        if 0xcc <= tag <= 0xcf or 0xd0 <= tag <= 0xd3:
            return int.from_bytes(self.take(1 << (tag & 3)), "big")
        if tag == 0xd9:
            return self.take(self.take(1)[0]).decode()
        if tag == 0xdc:
            return [self.value() for _ in range(struct.unpack(">H", self.take(2))[0])]
        raise ValueError(hex(tag))


def members(endpoint, cluster):
    """[id, incarnation, ..., name, endpoint, reason] of each, by name: what every client is told."""
    s = connect(endpoint)
    s.settimeout(0.5)
    s.sendall(hello(VERSION, cluster, True))
    got, found = answer(s), {}
    while len(got) >= 4:
        size = struct.unpack("<I", got[:4])[0]
        reader = Reader(got[4:4 + size])
        got = got[4 + size:]
        try:
            body = reader.value()[4]
            if isinstance(body, list) and body[0] == 1:
                found.update({m[6]: m for m in body[5]})
        except (ValueError, IndexError, TypeError):
            pass
    return found


def pose(endpoint, cluster, victim, before):
    known = members(endpoint, cluster)
    at, as_whom = known[before], known[victim]
    s = connect(at[7])
    s.settimeout(2)
    s.sendall(hello(VERSION, cluster, False, victim, as_whom[0], as_whom[1], before, at[1], 1000))
    print("".join(chr(c) if 32 <= c < 127 else "." for c in answer(s)))


def join(endpoint, cluster, right):
    """A client that the controller lets in: its connection, id and incarnation."""
    s, incarnation = connect(endpoint), random.getrandbits(62) | 1
    s.settimeout(2)
    s.sendall(hello(VERSION, cluster, True, incarnation=incarnation, right=right))
    got = b""
    while len(got) < 4 or len(got) < 4 + struct.unpack("<I", got[:4])[0]:
        got += s.recv(65536)
    return s, Reader(got[4:]).value()[4][9], incarnation


def enter(node, cluster, client):
    """The same client at another node: its connection."""
    s = connect(node[7])
    s.settimeout(2)
    s.sendall(hello(VERSION, cluster, True, node=client[1], incarnation=client[2], to=node[6], to_incarnation=node[1],
                    attempt=1))
    s.recv(4096)
    return s


def is_closed(s, seconds):
    s.settimeout(seconds)
    try:
        while s.recv(65536):
            pass
        return True
    except socket.timeout:
        return False
    except OSError:
        return True


def command(endpoint, cluster, victim):
    node = members(endpoint, cluster)[victim]
    s = connect(node[7])
    s.settimeout(2)
    s.sendall(hello(VERSION, cluster, True, node=65534, to=victim, to_incarnation=node[1], attempt=1))
    print("an id of nobody:", "refused" if is_closed(s, 1) else "taken")
    client = join(endpoint, cluster, 3)
    s = enter(node, cluster, client)
    member = b"\x99" + uint(node[0]) + uint(node[1]) + uint(4) + b"\xc3" + uint(1) + uint(1) + text(victim)
    member += text(node[7]) + text("the stranger says so")
    view = b"\x96" + uint(1) + uint(1 << 40) + uint(1 << 40) + b"\xc2" + uint(0) + b"\x91" + member
    s.sendall(frame(0, 0, view, node[0] << 48 | 2, client[1] << 48 | 2))
    print("a view of a client:", "refused" if is_closed(s, 2) else "taken")


def frames(endpoint, cluster, name):
    node = members(endpoint, cluster)[name]
    sent, closed = 0, 0
    for right in (1, 2, 3):
        for kind in range(16):
            for lane in (0, 3):
                for target in (2, 3):
                    client = join(endpoint, cluster, right)
                    s = enter(node, cluster, client)
                    s.sendall(frame(kind, lane, b"\xc0", node[0] << 48 | target, client[1] << 48 | 9, (1 << 64) - 1))
                    closed += is_closed(s, 0.004)
                    sent += 1
                    s.close()
                    client[0].close()
    print(sent, "frames,", closed, "closed")


def silent(endpoint, seconds):
    held, until = [], time.time() + seconds
    while time.time() < until:
        try:
            while len(held) < 70:
                held.append(connect(endpoint))
        except OSError:
            pass
        time.sleep(0.1)
        for s in held[:]:
            s.setblocking(False)
            try:
                if s.recv(10) == b"":
                    held.remove(s)
            except BlockingIOError:
                pass
            except OSError:
                held.remove(s)
    print(len(held), "left")


def listen(endpoint, seconds):
    host, _, port = endpoint.partition(":")[2].rpartition(":")
    listener, came = socket.socket(), 0
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, int(port)))
    listener.listen(5)
    listener.settimeout(0.2)
    until = time.time() + seconds
    print("listening", flush=True)
    while time.time() < until:
        try:
            s, _ = listener.accept()
            s.settimeout(0.5)
            came += len(answer(s))
        except OSError:
            pass
    print(came, "bytes came")


def answer(s):
    got = b""
    try:
        while True:
            some = s.recv(65536)
            if not some:
                break
            got += some
    except OSError:
        pass
    return got


def attack(endpoint, rng, cluster, held):
    s = connect(endpoint)
    way = rng.randrange(8)
    if way == 0:
        s.sendall(rng.randbytes(rng.randrange(1, 5000)))
    elif way == 1:
        s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    elif way == 2:
        s.sendall(struct.pack("<I", rng.choice([0, 1, 0x7fffffff, 0xffffffff])) + rng.randbytes(100))
    elif way == 3:
        good = bytearray(hello(VERSION, cluster, True))
        for _ in range(rng.randrange(1, 6)):
            good[rng.randrange(len(good))] = rng.randrange(256)
        s.sendall(good)
    elif way == 4:
        good = hello(VERSION, cluster, True)
        s.sendall(good[:rng.randrange(len(good))])
    elif way == 5:  # let in as a client, it sends frames of all kinds with bodies of chance
        s.sendall(hello(VERSION, cluster, True))
        s.recv(4096)
        for _ in range(20):
            s.sendall(frame(rng.randrange(16), rng.randrange(8), rng.randbytes(rng.randrange(1, 300)),
                            rng.getrandbits(64) if rng.random() < 0.5 else rng.randrange(1, 6) << 48 | rng.randrange(5),
                            rng.getrandbits(64), rng.randrange(100)))
    elif way == 6:  # a body that announces more than it has
        s.sendall(hello(VERSION, cluster, True))
        s.recv(4096)
        s.sendall(frame(rng.randrange(5), rng.randrange(1, 5), bytes.fromhex("dd00df0001c0"), 2 << 48 | 3))
    elif len(held) < 20:
        held.append(s)
        return
    s.close()


def main():
    endpoint, what = sys.argv[1:3]
    if what == "hello":
        s = connect(endpoint)
        s.sendall(hello(int(sys.argv[3]), sys.argv[4], False))
        print("".join(chr(c) if 32 <= c < 127 else "." for c in answer(s)))
        return None
    if what == "silent":
        return silent(endpoint, float(sys.argv[3]))
    if what == "pose":
        return pose(endpoint, *sys.argv[3:6])
    if what == "command":
        return command(endpoint, *sys.argv[3:5])
    if what == "frames":
        return frames(endpoint, *sys.argv[3:5])
    if what == "listen":
        return listen(endpoint, float(sys.argv[3]))
    until, rng, held, tries, refused = time.time() + float(sys.argv[3]), random.Random(sys.argv[4]), [], 0, 0
    while time.time() < until:
        tries += 1
        try:
            attack(endpoint, rng, sys.argv[5], held)
        except OSError:
            refused += 1
            time.sleep(0.005)
        if len(held) == 20:
            for s in held:
                s.close()
            held.clear()
    print(tries, "attacks,", refused, "cut short")
    return None


main()
