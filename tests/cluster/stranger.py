#!/usr/bin/env python3
"""A peer that is no node. stranger.py ENDPOINT hello VERSION CLUSTER: says hello and prints what it is answered.
stranger.py ENDPOINT attack SECONDS SEED CLUSTER: keeps sending what no node sends; prints how often."""
import os
import random
import socket
import struct
import sys
import time

FRAME_HELLO = 6


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


def hello(version, cluster, client):
    body = b"\xdc\x00\x11" + uint(version) + text(cluster) + text("stranger") + uint(random.getrandbits(62) | 1) + uint(0)
    body += text("") + uint(0) + text("") + b"\xc2" + (b"\xc3" if client else b"\xc2") + uint(0) + uint(os.getpid())
    body += uint(0) * 4  # no session to go on with, no controller
    body += uint(3 if client else 4)  # admin, or what members have
    return frame(FRAME_HELLO, 0, body)


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
        good = bytearray(hello(3, cluster, True))
        for _ in range(rng.randrange(1, 6)):
            good[rng.randrange(len(good))] = rng.randrange(256)
        s.sendall(good)
    elif way == 4:
        good = hello(3, cluster, True)
        s.sendall(good[:rng.randrange(len(good))])
    elif way == 5:  # let in as a client, it sends frames of all kinds with bodies of chance
        s.sendall(hello(3, cluster, True))
        s.recv(4096)
        for _ in range(20):
            s.sendall(frame(rng.randrange(16), rng.randrange(8), rng.randbytes(rng.randrange(1, 300)),
                            rng.getrandbits(64) if rng.random() < 0.5 else rng.randrange(1, 6) << 48 | rng.randrange(5),
                            rng.getrandbits(64), rng.randrange(100)))
    elif way == 6:  # a body that announces more than it has
        s.sendall(hello(3, cluster, True))
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
        return
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


main()
