#!/usr/bin/env python3
"""Compares docs/internals/store-messages.md with the list of the store's messages, runtime/store/core/message.def.

usage: store_messages.py SOURCE-DIR [--write]"""
import os
import re
import sys

HEAD = """# Messages of the store

What store actors say to each other, row by row of `runtime/store/core/message.def`, from which this page is made (`python3 tests/store_messages.py . --write`). A message is a msgpack array whose first element is its number. A *cast* has no answer; a *call* has one. `tide trace` and taps show the names.
"""


def page(text):
    out = [HEAD]
    number = 0
    row = re.compile(r'TIDE__MESSAGE\((\w+), (\w+), (\w+),\s*((?:"[^"]*"\s*)+)\)|/\* ---- (.*?) ---- \*/')
    body = text[text.index("*/") + 2:]
    out.append("\n## Operations, tables and slots\n\n| number | name | kind | what |\n|---|---|---|---|\n")
    for name, cast, call, what, section in row.findall(body):
        if section:
            out.append(f"\n## {section[0].upper() + section[1:]}\n\n| number | name | kind | what |\n|---|---|---|---|\n")
            continue
        number += 1
        kind = " and ".join(k for k, f in (("cast", cast), ("call", call)) if f != "NULL")
        said = "".join(re.findall(r'"([^"]*)"', what)).replace("|", "\\|")
        out.append(f"| {number} | {name} | {kind} | {said} |\n")
    assert number == body.count("TIDE__MESSAGE("), "a row of message.def is not understood"
    return "".join(out)


def main():
    source = sys.argv[1]
    path = os.path.join(source, "docs/internals/store-messages.md")
    with open(os.path.join(source, "runtime/store/core/message.def"), encoding="utf-8") as file:
        wanted = page(file.read())
    if "--write" in sys.argv:
        with open(path, "w", encoding="utf-8") as file:
            file.write(wanted)
        return False
    with open(path, encoding="utf-8") as file:
        same = file.read() == wanted
    print("ok" if same else "docs/internals/store-messages.md is not what message.def says: python3 tests/store_messages.py . --write")
    return not same


sys.exit(main())
