#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets into tests/fuzz/corpus/<target>/; run it after adding one."""
import gzip
import io
import json
import os
import struct
import sys
import zipfile

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def write(target, name, data):
    os.makedirs(os.path.join(HERE, target), exist_ok=True)
    with open(os.path.join(HERE, target, name), "wb") as out:
        out.write(data)


def frame(body, kind=0, lane=3):
    head = bytes([0x95, kind | lane << 4]) + b"".join(b"\xcf" + struct.pack(">Q", v) for v in (1, 2, 3))
    return struct.pack("<I", len(head) + len(body)) + head + body


def safetensors(header, data):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


FRAMES = {
    "nil": b"\xc0",
    "integers": b"\x98\x00\xff\xcc\x80\xcd\x01\x00\xce\x00\x01\x00\x00\xcf" + b"\xff" * 8
                + b"\xd1\x80\x00\xd3" + b"\x80" + b"\0" * 7,
    "map": b"\x83\xa1k\x01\xa4text\xd9\x05hello\xa5array\x93\xc2\xc3\xcb\x3f\xf8" + b"\0" * 6,
    "typed": b"\x92\xd6\x01\0\0\x80\x3f\xc7\x10\x07" + b"\x01" + b"\0" * 15,
    "key-twice": b"\x82\xa1a\x01\xa1a\x02",
    "deep": b"\x91" * 17 + b"\xc0",
    "deep-empty": b"\x91" * 16 + b"\x90",
    "announces-gigabytes": bytes.fromhex("dd00df0001c0"),
    "timestamp": b"\xd6\xff\0\0\0\0",
    "frame-cast": frame(b"\x81\xa1k\xc4\x02ab"),
    "frame-hello": frame(b"\x82\xa4name\xa1n\xa7version\x01", kind=6, lane=0),
    "frame-small": struct.pack("<I", 6) + b"\x95\x41\x01\x01\x01\xc0",
}

TENSOR = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
SAFETENSORS = {
    "one": safetensors({"w": TENSOR}, b"\0" * 16),
    "two": safetensors({"__metadata__": {"tide.table": "w"}, "values": {**TENSOR, "data_offsets": [8, 24]},
                        "keys": {"dtype": "U64", "shape": [1], "data_offsets": [0, 8]}}, b"\0" * 24),
    "header-only": json.dumps({"w": TENSOR}).encode(),
    "overlap": safetensors({"a": TENSOR, "b": TENSOR}, b"\0" * 16),
    "empty": safetensors({}, b""),
    "overflow": json.dumps({"w": {"dtype": "F64", "shape": [1 << 62, 4], "data_offsets": [0, 0]}}).encode(),
}

NOUN = (b"  1 licence\n00000100 03 n 02 Entity 0 thing 0 002 ~ 00000200 n 0000 + 00000300 v 0102 | g\n"
        b"00000200 03 n 01 entity 0 001 @ 00000100 n 0000 | g\n")
VERB = b"00000300 29 v 01 be 0 001 + 00000100 n 0201 01 + 02 00 | g\n"
ADJ = b"00000400 00 s 01 big(p) 0 000 | g\n"
TEXTS = {
    "corpus": b"\x04b a\tc a\r\n\n c  a d\x01a a",
    "glosses": b"\x05" + NOUN + b"\x01" + VERB + b"\x01" + ADJ + b"\x01",
    "lines": b"\x00\xef\xbb\xbfone\r\n\ntwo",
    "lines-nul": b"\x00a\nb\0c",
    "names": b"\x01a\tr\tb\r\nb\ts\ta\n\x01c\tr\ta\x01",
    "names-bad": b"\x01a\tr\n",
    "ids": b"\x020\t1\t2\n3\t0\t4294967294\n",
    "wordnet": b"\x03" + b"\x01".join([NOUN, VERB, ADJ, b""]),
    "wordnet-dangling": b"\x03" + NOUN,
}


def plain(value):
    """lua/host/sandbox/plain.h: a list is an array, a dict pairs."""
    if value is None or isinstance(value, bool):
        return bytes([0 if value is None else 1 + value])
    if isinstance(value, int):
        return b"\3" + struct.pack("<q", value)
    if isinstance(value, float):
        return b"\4" + struct.pack("<d", value)
    if isinstance(value, str):
        return b"\5" + struct.pack("<I", len(value)) + value.encode()
    array, pairs = (value, {}) if isinstance(value, list) else ([], value)
    return b"\6" + struct.pack("<II", len(array), len(pairs)) + b"".join(map(plain, array)) + b"".join(
        plain(k) + plain(v) for k, v in pairs.items())


PLAINS = {
    "scalars": plain([1, -2, 0.5, "text", True, False]),
    "plan": plain({"batch": {3: 40, 7: 60}, "why": "faster"}),
    "view": plain({"job": {"id": 1, "batch": 100}, "workers": [{"id": 3}, {"id": 7, "speed": {"examples": [1.0, 2.0]}}]}),
    "nil": plain(None),
    "too-many": b"\6" + struct.pack("<II", 1 << 31, 0),
    "float-keys": plain({0.5: 1, 2.0: 2, -1: 3}),
}


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def sums(size, blocks):
    head = b"TIDECRC1" + struct.pack("<QII", size, 1 << 20, len(blocks)) + struct.pack(f"<{len(blocks)}I", *blocks)
    return head + struct.pack("<I", crc32c(head))


OPTIONS = {"keys": 0, "slots": 0, "init": 0, "update": 0, "wire": 0, "technique": 0, "refuse_nan": 0,
           "key_count": 10, "key_limit": 0, "width": 2, "seed": "0" * 16, "numbers": [0.0] * 7}
MANIFEST = {"format": 1, "generation": 2, "id": "00000000000000ff", "view": 3, "bytes": 9, "rows": 1, "wall_ns": 5,
            "cut": "clock", "clock": 7, "full": False, "program": "0.1.0", "chain": [1, 2], "nodes": [1, 2],
            "workers": [1], "clocks": [7], "job": {"name": "j"},
            "tables": [{"name": "t", "options": OPTIONS, "map_version": 1, "homes": [1], "files": [
                {"name": "t-00001-00000.safetensors", "rows": 1, "size": 100, "sums_size": 32, "sums_crc32c": 1}]}]}
BODY = json.dumps(MANIFEST).encode()
MANIFESTS = {
    "whole": b"\x00" + b'{"crc32c":"%08x","manifest":' % crc32c(BODY) + BODY + b"}\n",
    "body": b"\x01" + BODY,
    "body-fuzzy": b"\x01" + json.dumps({**MANIFEST, "clock": None, "job": None}).encode(),
    "body-future": b"\x01" + json.dumps({**MANIFEST, "format": 2}).encode(),
    "body-chain": b"\x01" + json.dumps({**MANIFEST, "chain": [2, 2]}).encode(),
    "sums": b"\x02" + sums((1 << 20) + 5, [1, 2]),
    "sums-short": b"\x02" + sums(5 << 20, [1]),
}

TOKEN = b"Authorization:Bearer 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
HTTP = {
    "state": b"GET\n/api/state\nHTTP/1.1\nHost:127.0.0.1:7800\n" + TOKEN,
    "stream": b"GET\n/api/stream?after=12\nHTTP/1.1\nHost:127.0.0.1:7800\n" + TOKEN,
    "escapes": b"GET\n/?after=%31%32&after=\nHTTP/1.1\nHost:localhost:7800\nOrigin:http://localhost:7800",
    "post": b"POST\n/\nHTTP/1.1\nHost:127.0.0.1:7800\nContent-Length:12\nSec-Fetch-Site:none",
    "doubles": b"GET\n/\nHTTP/1.1\nHost:127.0.0.1:7800\nhost:x\nContent-Length:1\nContent-Length:2",
    "many": b"GET\n/\nHTTP/1.1\n" + b"a:b\n" * 66,
    "dots": b"GET\n/../x?a=%\nHTTP/1.0\n:",
}

IDX_FILE = b"\0\0\x08\x03" + struct.pack(">III", 2, 2, 2) + bytes(range(8))
IDX = {
    "images": IDX_FILE,
    "labels": b"\0\0\x08\x01" + struct.pack(">I", 3) + b"\1\2\3",
    "short": IDX_FILE[:-1],
    "floats": b"\0\0\x0d\x01" + struct.pack(">I", 1) + b"\0\0\0\0",
    "huge": b"\0\0\x08\x04" + b"\xff" * 16,
    "packed": gzip.compress(IDX_FILE, mtime=0),
    "packed-short": gzip.compress(IDX_FILE, mtime=0)[:-6],
}


def npy(descr, shape, content, version=1, rest=""):
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, {rest}}}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(head)) + head + content


def packed(files, method):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in files.items():
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as f:
                f.write(content)
    return out.getvalue()


NPY = npy("<f4", "(2, 3)", struct.pack("<6f", *range(6)))
LABELS = npy("<i8", "(2,)", struct.pack("<2q", 1, 2))
NPZ = packed({"x.npy": NPY, "y.npy": LABELS, "note.txt": b"hello"}, zipfile.ZIP_DEFLATED)
NPYS = {
    "matrix": NPY,
    "labels": LABELS,
    "wide": npy("|u1", "(2, 1, 3)", bytes(6), 2),
    "fortran": NPY.replace(b"False", b"True "),
    "one": npy("<f8", "()", struct.pack("<d", 1)),
    "none": npy("<f2", "(0, 7)", b""),
    "short": NPY[:-1],
    "big": npy(">f4", "(1,)", bytes(4)),
    "objects": npy("|O", "(1,)", b"\x80\x02N."),
    "huge": npy("<f8", "(4294967296, 4294967296)", b""),
    "huger": npy("<f8", "(99999999999999999999,)", b""),
    "unknown": npy("<f4", "(1,)", bytes(4), 1, "'more': 1"),
    "header-short": NPY[:40],
    "stored": packed({"x.npy": NPY}, zipfile.ZIP_STORED),
    "deflated": NPZ,
    "archive-short": NPZ[:-10],
    "archive-shorter": NPZ[60:],
    "checksum": NPZ[:16] + b"\x55" + NPZ[17:],
    "sum-of-directory": NPZ[:-150] + b"\x55" + NPZ[-149:],
    "empty-archive": packed({}, zipfile.ZIP_STORED),
}

CSVS = {
    "header": b"\x09a,b,c\r\n1,2,x\r\n-3e1,4,\"y, \"\"z\"\"\"\r\n",
    "plain": b"\x101,2\n3,4",
    "texts": b"\x05a,b\n\"1\n2\",3\n\n,4\n",
    "missing": b"\x0ba,b\n1,2\n,3\n",
    "mark": b"\x01\xef\xbb\xbfa\n1\n",
    "mark-broken": b"\x01\xef\n\xbfa2\n",
    "mark-of-two": b"\x01\xef\xbba\n1\n",
    "absent-first": b"\x0ba,b\nNA,\n1,nan\n2,inf\n",
    "blank-lines": b"\x03a\n\n1\n \n2\n\n",
    "blanks": b"\x01 a , \"b\" \n 1 , \"2\" \n",
    "mixed": b"\x01a,b\nx,1\n2,y\n",
    "sep-line": b"\x09sep=;\r\na;b\r\n1;2\r\n",
    "decimal": b"\x19a;b\n1,5;2\n-0,25e2;1.5\n",
    "two-separators": b"\x081,5;2,5\n3,5;4,5\n",
    "numbers-as-names": b"\x011,2\n3,4\n",
    "only-separator": b"\x01,",
    "utf16": b"\x01\xff\xfea\0",
    "open": b"\x01a,b\n\"1,2\n",
    "behind": b"\x01a,b\n\"1\"2,3\n",
    "fewer": b"\x01a,b\n1\n",
    "more": b"\x01a,b\n1,2,3\n",
    "twice": b"\x01a,a\n1,2\n",
    "return": b"\x01a\r1\n",
    "zero": b"\x01a\n\x001\n",
    "empty": b"\x01",
}

LIBSVM = b"+1 1:0.5 3:-2e1 # c\r\n\n-1\n2.5 qid:3 2:1 7:.25"
LIBSVMS = {
    "lines": b"\x00" + LIBSVM,
    "one-byte": b"\x01" + LIBSVM,
    "base-zero": b"\x06" + b"1 0:1\n",
    "base-refused": b"\x08" + b"1 0:1\n",
    "falling": b"\x00" + b"1 2:1 1:1\n",
    "nul": b"\x00" + b"1 1:\0\n",
    "packed": b"\x00" + gzip.compress(LIBSVM, mtime=0),
    "packed-short": b"\x2d" + gzip.compress(LIBSVM, mtime=0)[:-6],
}

WORD_VECTORS = {
    "glove": b"\x03" + b"a 1 2 3\nb -0.5 1e3 7\nthe same 1 1 1\n",
    "word2vec": b"\x20" + b"2 3\r\n. 1 2 3\r\nb 4 x 6\r\n",
}
BOWS = {  # auto, UCI, LDA-C, pairs, text, counts, MatrixMarket; + 7: skip; + 14: least 2; + 28: as written
    "uci": b"\x00" + b"3\n4\n5\n1 1 2\n3 4 1\n1 3 1\n3 2 1\n3 4 1\n",
    "uci-short": b"\x01" + b"2\n3\n2\n1 1 1\n",
    "uci-huge": b"\x00" + b"4000000000\n3\n1\n1 1 1\n",
    "ldac": b"\x02" + b"2 0:2 2:1\n0\n2 1:1 3:2\n",
    "pairs": b"\x03" + b"+1 1:2 3:1\n-1\n\n7 2:1 4:2\n",
    "pairs-huge": b"\x03" + b"1 4000000000:2000000000\n",
    "text": b"\x04" + b"The cat's dog, the DOG!\n\n fish-bone\n",
    "text-skip": b"\x0b" + b"id the the\n\nid a a\n",
    "text-utf8": b"\x04" + "„Äpfel“ — ÄPFEL… don’t 猫。犬\n".encode() + b"\xff caf\xe9 \xe2\x80",
    "counts": b"\x05" + b"1 | cat:1 dog:2\n\nd\tcat:3\n",
    "market": b"\x00" + b"%%MatrixMarket matrix coordinate real general\n%\n2 3 3\n1 1 1\n1 2 2.0\n2 3 1\n",
    "market-weights": b"\x06" + b"%%MatrixMarket matrix coordinate real general\n2 3 1\n1 1 0.5\n",
    "names": b"\x03" + b"1 2:1 4:1\n\x01a\nb\nc\nd\n",
    "names-by-id": b"\x03" + b"1 1:1 3:1\n\x013\n2\tc\t1\n0\ta\t4\n1\tb\t1\n",
    "names-counted": b"\x03" + b"1 1:1 2:1\n\x01a 3\nb 4\n",
    "names-gap": b"\x03" + b"1 1:1 2:1\n\x010 a\n5 b\n",
    "names-blank": b"\x03" + b"1 1:1\n\x01a\n\nb\n",
    "names-beyond": b"\x03" + b"1 9:1\n\x01a\n",
    "nul": b"\x04" + b"a\0b\n",
    "no-pairs": b"\x03" + b"1\xc3\xa92:1\n\x01a\n",
}


def raft(kind, numbers, flag=0, servers=(), body=b""):
    numbers = list(numbers) + [0] * (5 - len(numbers))
    head = b"\x99" + bytes([kind]) + b"".join(b"\xcf" + struct.pack(">Q", v) for v in numbers) + bytes([flag])
    return head + bytes([0x90 + len(servers)]) + bytes(servers) + b"\xc7" + bytes([len(body), 8]) + body


def entry(term, kind, data):
    return struct.pack("<QII", term, kind, len(data)) + data


RAFTS = {
    "heartbeat": raft(1, [3, 9, 2, 9]),
    "entries": raft(1, [3, 9, 2, 9], body=entry(3, 1, b"one") + entry(3, 2, b"\0" * 8)),
    "entries-cut": raft(1, [3, 9, 2, 9], body=entry(3, 1, b"one")[:-1]),
    "entries-result": raft(2, [3, 0, 11]),
    "vote": raft(3, [4, 7, 11, 3], flag=3),
    "vote-of-another": raft(3, [4, 8, 11, 3]),
    "vote-result": raft(4, [4, 1], flag=1),
    "snapshot": raft(5, [4, 9, 3, 1, 5], servers=(1, 1, 2, 1), body=b"state"),
    "snapshot-parts": raft(5, [4, 9, 3, 1, 5], body=b"sta") + raft(5, [4, 9, 3, 1, 5], flag=3, body=b"te"),
    "snapshot-gap": raft(5, [4, 9, 3, 1, 5], body=b"sta") + raft(5, [4, 9, 3, 1, 5], flag=4, body=b"e"),
    "snapshot-server-twice": raft(5, [4, 9, 3, 1, 5], servers=(1, 1, 1, 1), body=b"state"),
    "timeout-now": raft(6, [4, 11, 3]),
}

# Messages between workers that exchange gradients: [kind, view, step, rank, layer, index, format, fanout, [k ...], values].
EXCHANGES = {
    "push": b"\x9a\0\0\1\1\0\2\0\0\x90\xd7\1" + struct.pack("<ff", 1.5, -2.0),
    "factor": b"\x9a\4\0\3\2\1\0\2\3\x92\2\3\xd6\4" + b"\0\x3f\0\x40",
    "topk": b"\x9a\0\0\1\1\0\2\3\0\x90\xd7\x08" + struct.pack("<If", 7, -2.0),
    "topk-beyond": b"\x9a\0\0\1\1\0\2\3\0\x90\xd7\x08" + struct.pack("<If", 5000, -2.0),
    "onebit": b"\x9a\0\0\1\1\0\2\4\0\x90\xc7\x09\x08" + struct.pack("<ff", -1.5, 2.0) + b"\x55",
    "sparse": b"\x9a\4\0\1\1\0\0\5\2\x91\1\xc7\x05\x08" + b"\x04" + struct.pack("<f", 1.5),
    "short": b"\x9a\0\0\1\1\0\2\0\0\x90\xd7\1" + b"\0" * 7,
    "share": b"\x96\5\0\1\0\x94" + b"\xcb" + struct.pack(">d", 32.0) + b"\1\2\3\xc0",
    "plan": b"\x96\5\0\2\0\x94\1\2\3\4\x94\7\xc4\2\0\1\xc4\2\0\2\xc4\2\0\3",
    "plan-bad": b"\x96\5\0\2\0\x94\1\2\3\4\x94\7\xc4\2\0\7\xc4\2\0\2\xc4\2\0\0",
    "state": b"\x97\6\1\2\0\xc4\2\0\1\x94\2\0\1\0\x93\0\x98\1\2\3\4\5\6\7\x08\xc0",
    "state-none": b"\x97\6\1\0\1\xc4\2\1\0\x90\x93\0\x90\xc0",
    "state-short": b"\x97\6\1\2\0\xc4\2\0\1\x94\2\0\1\xc0\x93\0\x90\xc0",
}



def uint(value):
    return b"\xcf" + struct.pack(">Q", value)


def typed(code, form, values):
    body = struct.pack("<%d%s" % (len(values), form), *values)
    return b"\xc8" + struct.pack(">HB", len(body), code) + body


def f32(*values):
    return typed(1, "f", values)


def u64(*values):
    return typed(7, "Q", values)


def u32(*values):
    return typed(9, "I", values)


sys.path.insert(0, os.path.dirname(os.path.dirname(HERE)))
from store_messages import messages  # noqa: E402

STORE_MESSAGES = {name.lower(): fields
                  for name, cast, _, _, fields in messages(os.path.join(HERE, "..", "..", "..")) if cast}
CLOCKED_OPS = list(STORE_MESSAGES)[list(STORE_MESSAGES).index("delta"):list(STORE_MESSAGES).index("visible") + 1]


# One value a field, of its type; the first field, table or domain, is the fuzzer's.
def plausible(fields):
    lists = {"U32": lambda: u32(1, 2), "U64": lambda: u64(1, 2), "F32": lambda: f32(*range(40))}
    values = {"UINT": lambda _: 1, "BOOL": lambda _: b"\xc3", "REAL": lambda _: b"\xcb" + struct.pack(">d", 1.0),
              "BYTES": lambda _: ALL_SLOTS, "LIST": lambda code: lists[code]()}
    return [values[kind](argument) for kind, argument, _ in fields[1:]]


# The table is 0: essp of 20 columns (ten blocks of two), 1: ssp, adagrad, hashed, 2: bsp, 3: vap.
def clocked(table, *messages):
    out = bytes([table])
    for op, *fields in messages:
        body = b"".join(uint(v) if isinstance(v, int) else v for v in fields)
        out += bytes([CLOCKED_OPS.index(op)]) + struct.pack("<H", len(body)) + body
    return out


ALL_SLOTS = b"\xc5" + struct.pack(">H", 512) + b"\xff" * 512
NO, YES = b"\xc2", b"\xc3"
CLOCKED = {
    **{f"plausible-{op}": clocked(0, (op, *plausible(STORE_MESSAGES[op]))) for op in CLOCKED_OPS},
    "delta": clocked(0, ("delta", 1, 9, 0, 0, u64(3), u32(), f32(*range(20)))),
    "delta-blocks": clocked(0, ("delta", 1, 9, 0, 0, u64(3, 4), u32(1, 0x204), f32(*range(6)))),
    "delta-no-block": clocked(0, ("delta", 1, 9, 0, 0, u64(3), u32(0), f32())),
    "delta-blocks-beyond": clocked(0, ("delta", 1, 9, 0, 0, u64(3), u32(0x401), f32(*range(4)))),
    "delta-blocks-high": clocked(0, ("delta", 1, 9, 0, 0, u64(3), u32(0x10001), f32(*range(2)))),
    "delta-blocks-short": clocked(0, ("delta", 1, 9, 0, 0, u64(3, 4), u32(1, 0x3ff), f32(*range(6)))),
    "delta-blocks-long": clocked(0, ("delta", 1, 9, 0, 0, u64(3), u32(1), f32(*range(20)))),
    "delta-blocks-fewer": clocked(0, ("delta", 1, 9, 0, 0, u64(3, 4), u32(1), f32(*range(4)))),
    "delta-blocks-of-adagrad": clocked(1, ("delta", 1, 9, 0, 0, u64(3), u32(1), f32(1))),
    "delta-key-outside": clocked(0, ("delta", 1, 9, 0, 0, u64(16), u32(), f32(*range(20)))),
    "delta-staged": clocked(2, ("delta", 1, 0, 1, 1, u64(5, 5), u32(), f32(*range(6))), ("tick", 2, 3)),
    "delta-staged-blocks": clocked(2, ("delta", 1, 0, 1, 1, u64(5), u32(1), f32(1))),
    "delta-of-adagrad": clocked(1, ("delta", 2, 9, 0, 0, u64(1 << 40), u32(), f32(*range(6)))),
    "delta-of-nobody": clocked(0, ("delta", 65536, 9, 0, 0, u64(3), u32(), f32(*range(20)))),
    "asked": clocked(0, ("ask", 2, 0, u64(1, 2, 3)), ("delta", 1, 9, 0, 0, u64(1), u32(2), f32(1, 2)),
                     ("tick", 2, 3), ("unsub", u64(1, 2), u64(0, 1 << 60))),
    "asked-parked": clocked(0, ("ask", 1, 1 << 30, u64(1)), ("ask", 65535, 0, u64(1)), ("tick", 1 << 30, 1 << 30)),
    "asked-outside": clocked(0, ("ask", 2, 0, u64(99)), ("ask", 0, 0, u64(1))),
    "value": clocked(0, ("value", 1 << 40, 1, 9, 2, u64(*range(16)), f32(*range(320)))),
    "value-outside": clocked(0, ("value", 1 << 40, 1, 9, 0, u64(16), f32(*range(20)))),
    "value-short": clocked(0, ("value", 1 << 40, 1, 9, 1, u64(1, 2), f32(*range(20)))),
    "value-of-adagrad": clocked(1, ("value", 1 << 40, 1, 9, 2, u64(*range(16)), f32(*range(96)))),
    "fresh": clocked(0, ("fresh", 3, 9, YES, ALL_SLOTS), ("fresh", 4, 9, NO, ALL_SLOTS[:-1])),
    "tick": clocked(0, ("tick", (1 << 32) - 1, 7), ("tick", 1 << 32, 7), ("tick", 1, 1)),
    "tick-forward": clocked(0, ("tick_forward", 7, 2, u32(0, 4095)), ("tick_forward", 7, 2, u32(4096))),
    "route": clocked(0, ("route", 2, 9, YES, u32(*range(8))), ("route", 2, 9, NO, u32(4096))),
    "fence": clocked(0, ("fence", u32(2), 0, u32(1, 2), u64()), ("fence", u32(0), 0, u32(1), u64())),
    "fenced": clocked(0, ("fenced", u32(), 2, u32(*range(64)), u64(*range(64))), ("fenced", u32(), 0, u32(1), u64(1))),
    "fenced-homes": clocked(3, ("fenced", u32(), 1, u32(*range(512)), u64(*range(512)))),
    "slot-clocks": clocked(0, ("slot_clocks", 1, 2, 3, u32(1), u32(2), u64(3), u64(4), u32(1), u32(2), u64(5), u64(6))),
    "round": clocked(0, ("round", 3, 1), ("round", 4, 2), ("round", 4, 9), ("rounded", 1, 5)),
    "part": clocked(0, ("part",)),
    "bound": clocked(0, ("bound", 1 << 20, 3, 5, 50, b"\xcb" + struct.pack(">d", 1.0)),
                     ("bound", 1 << 20, 5, 0, 50, b"\xcb" + struct.pack(">d", float("nan")))),
    "trace": clocked(3, ("trace", 1, 9, u64(1, 2)), ("seen", 1 << 20), ("visible", 1 << 40, u64(1, 2))),
    "trace-of-essp": clocked(0, ("trace", 1, 9, u64(1)), ("trace", 1, 9, u64(99))),
}

for target, seeds in (("raft", RAFTS), ("frame", FRAMES), ("exchange", EXCHANGES),
                       ("safetensors", SAFETENSORS), ("text", TEXTS), ("plain", PLAINS), ("idx", IDX), ("npy", NPYS), ("csv", CSVS), ("libsvm", LIBSVMS), ("bow", BOWS), ("word_vectors", WORD_VECTORS),
                      ("manifest", MANIFESTS), ("clocked", CLOCKED), ("http", HTTP)):
    for seed, content in seeds.items():
        write(target, seed, content)

FORESTS = {
    "tree": b"\0(3 (2 a) (4 (1 b) (0 a)))\n(2 c)\n",
    "open": b"\0(3 (2 a)\n",
    "parents": b"\x012 9\n3\n-1 0 1\n-1 4 5\n2 1 -1\n1\n-1\n8\n0\n",
    "cycle": b"\x011 9\n3\n1 2 0\n1 1 1\n1 1 1\n",
    "lists": b"\x021 5\n4\n0 1 0 1 0 2 1 2\n0 1 2 3\n0 0 0 1\n",
    "sentences": b"\x032 7\n3 4 5 0\n1 6\n",
    "stanford": b"\x043 3 0\n  a b   \n1 0 2 ",
    "announces-gigabytes": b"\x011 9\n2000000000\n",
}
for name, data in FORESTS.items():
    write("forest", name, data)

CERTIFICATES = {
    "node": b"\0tide://lab/node/*",
    "person": b"\0tide://lab/read/alice",
    "long": b"\0tide://" + b"a" * 64 + b"/node/n1",
    "der": b"\x01" + bytes.fromhex("3082010a0201003081b1a003020102020100300506032b6570300e310c300a06035504030c036c6162"),
    "client-hello": b"\x02" + bytes.fromhex(
        "16030100a5010000a10303" + "11" * 32 + "20" + "22" * 32 + "0004130113030100" + "0054"
        "000a00040002001d" "000d00040002" "0807" "002b0003020304" "00330026" "0024001d0020" + "33" * 32),
    "alert": b"\x02\x15\x03\x03\x00\x02\x02\x28",
    "http": b"\x02GET / HTTP/1.1\r\nHost: x\r\n\r\n",
}
for name, data in CERTIFICATES.items():
    write("certificate", name, data)

ROWS = {
    "open": b"\x92\x01\xa4sums",
    "pull": b"\x93\x02\xcf\0\0\0\1\0\0\0\1\xc7\x10\x07" + struct.pack("<QQ", 3, 7),
    "push": b"\x97\x03\x01\xc7\x08\x07" + struct.pack("<Q", 3) + b"\xd6\x01" + struct.pack("<f", 1.0) + b"\x4d\x02\x01",
    "push-without-sequence": b"\x97\x03\x01\xc7\x08\x07" + struct.pack("<Q", 3) + b"\xd6\x01" + struct.pack("<f", 1.0) + b"\x4d\0\0",
    "localize": b"\x93\x04\x01\xc7\x08\x07" + struct.pack("<Q", 3),
    "keys-cut": b"\x93\x02\x01\xc7\x09\x07" + b"\0" * 9,
    "unknown": b"\x92\x05\x01",
}
for name, data in ROWS.items():
    write("rows", name, data)
