#!/usr/bin/env python3
"""Compares docs/internals/store-messages.md with the list of the store's messages, runtime/store/core/message.def.

usage: store_messages.py SOURCE-DIR [--write]"""
import os
import re
import sys

HEAD = """# Messages of the store

This page lists every message between store actors. It is generated from `runtime/store/core/message.def` (`python3 tests/store_messages.py . --write`). A message is a msgpack array: its number, then its fields. `u32` and its like are unsigned integers, `[u64]` is a typed array, `value` any msgpack value. A *cast* has no answer; a *call* has one. A message with a field beyond its type, or with another number of fields, is damaged: it is counted, logged the first ten times, and dropped. `tide trace` and taps show the names.
"""
TABLE = "\n| number | name | kind | fields | what |\n|---|---|---|---|---|\n"
TYPES = {"INT": "int", "REAL": "f64", "BOOL": "bool", "TEXT": "text", "BYTES": "bytes", "VALUE": "value"}
ROW = re.compile(r'TIDE__MESSAGE\((\w+), (\w+), (\w+),\s*((?:"[^"]*"\s*)+),\s*((?:\w+(?:\([^)]*\))?\s*)+)\)'
                 r'|/\* ---- (.*?) ---- \*/')


def messages(source):
    """(section, None, ..) and (name, cast, call, what, [(type, argument, field)]) in the order of their numbers."""
    with open(os.path.join(source, "runtime/store/core/message.def"), encoding="utf-8") as file:
        body = file.read().partition("*/")[2]
    out = []
    for name, cast, call, what, fields, section in ROW.findall(body):
        if section:
            out.append((section, None, None, None, None))
            continue
        said = "".join(re.findall(r'"([^"]*)"', what))
        split = []
        for kind, arguments in re.findall(r"(\w+)(?:\(([^)]*)\))?", fields):
            first, _, second = arguments.partition(", ")
            split.append((kind, first if second else "", second or first))
        out.append((name, cast, call, said, split))
    assert sum(1 for m in out if m[1]) == body.count("TIDE__MESSAGE("), "a row of message.def is not understood"
    return out


def field(kind, argument, name):
    if kind in ("NONE", "FREE"):
        return "" if kind == "NONE" else "by its table"
    said = f"u{argument}" if kind == "UINT" else f"[{argument.lower()}]" if kind == "LIST" else TYPES[kind]
    return f"`{name} {said}`"


def page(source):
    out = [HEAD, "\n## Operations, tables and slots\n", TABLE]
    number = 0
    for name, cast, call, what, fields in messages(source):
        if not cast:
            out += [f"\n## {name[0].upper() + name[1:]}\n", TABLE]
            continue
        number += 1
        kind = " and ".join(k for k, f in (("cast", cast), ("call", call)) if f != "NULL")
        said = what.replace("|", "\\|")
        out.append(f"| {number} | {name} | {kind} | {', '.join(field(*f) for f in fields)} | {said} |\n")
    return "".join(out)


def main():
    source = sys.argv[1]
    path = os.path.join(source, "docs/internals/store-messages.md")
    wanted = page(source)
    if "--write" in sys.argv:
        with open(path, "w", encoding="utf-8") as file:
            file.write(wanted)
        return False
    with open(path, encoding="utf-8") as file:
        same = file.read() == wanted
    print("ok" if same else "docs/internals/store-messages.md is not what message.def says: python3 tests/store_messages.py . --write")
    return not same


if __name__ == "__main__":
    sys.exit(main())
