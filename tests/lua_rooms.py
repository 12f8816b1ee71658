#!/usr/bin/env python3
"""Checks which folders of lua/tide require which others.

usage: lua_rooms.py SOURCE-DIR [--write]

Two folders that require each other, directly, are a circle. A `require` inside a function hides an arrow from the
reader and is how circles load at all; those that only save the time of loading (tide.command) count too. Both have
exceptions, tests/lua_rooms.allow: a line for each circle, and for each folder the number of requires inside functions.
The list may only get shorter; --write writes it anew. No function of lua/ has more than LINES_MAX lines."""
import collections
import glob
import os
import re
import sys

LINES_MAX = 60
API = {"", "package", "reader", "team", "feature_fields"} # modules of lua/tide that are for scripts: above its folders
WORD = re.compile(r"\b(function|if|do|repeat|end|until)\b")
NO_CODE = re.compile(r"""--.*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""")
REQUIRE = re.compile(r"""\brequire\s*\(?\s*["'](tide[\w.]*)["']""")
HEAD = """# Folders of lua/tide that require each other (circle A B), and requires inside functions (inside FOLDER NUMBER):
# tests/lua_rooms.py. The list may only get shorter.
"""


def folder_of(module, root):
    """The folder below lua/tide in which a module's file lies: "." for lua/tide itself, "api" for what scripts see."""
    parts = module.split(".")[1:]
    if ".".join(parts) in API:
        return "api"
    if os.path.isdir(os.path.join(root, *parts)) and os.path.exists(os.path.join(root, *parts, "init.lua")):
        return parts[0] if parts else "."
    return parts[0] if len(parts) > 1 else "."


def look(source):
    root = os.path.join(source, "lua/tide")
    arrows, inside = collections.defaultdict(set), collections.Counter()
    for path in glob.glob(os.path.join(root, "**/*.lua"), recursive=True):
        folder = os.path.relpath(path, root).split(os.sep)[0]
        if folder.endswith(".lua"):
            folder = "api" if folder[:-4].replace("init", "") in API else "."
        with open(path, encoding="utf-8") as file:
            for line in file:
                for module in REQUIRE.findall(line.split("--", 1)[0]):
                    target = folder_of(module, root)
                    if target != folder:
                        arrows[folder].add(target)
                    inside[folder] += line[0].isspace()
    circles = {(a, b) for a in arrows for b in arrows[a] if a < b and a in arrows.get(b, ())}
    return circles, {folder: count for folder, count in inside.items() if count}


def long_functions(source):
    """Where functions of more than LINES_MAX lines begin, with their lines."""
    found = []
    for path in glob.glob(os.path.join(source, "lua/**/*.lua"), recursive=True):
        with open(path, encoding="utf-8") as file:
            code = re.sub(r"\[\[.*?\]\]", lambda m: "\n" * m.group(0).count("\n"), file.read(), flags=re.DOTALL)
        opened = []
        for number, line in enumerate(code.split("\n"), 1):
            for word in WORD.findall(NO_CODE.sub("", line)):
                if word not in ("end", "until"):
                    opened.append((word, number))
                elif opened:
                    kind, first = opened.pop()
                    if kind == "function" and number - first >= LINES_MAX:
                        found.append(f"{os.path.relpath(path, source)}:{first}: a function of {number - first + 1} lines, "
                                     f"at most {LINES_MAX}")
    return sorted(found)


def main():
    source = sys.argv[1]
    path = os.path.join(source, "tests/lua_rooms.allow")
    circles, inside = look(source)
    if "--write" in sys.argv:
        with open(path, "w", encoding="utf-8") as file:
            file.write(HEAD)
            file.writelines(f"circle {a} {b}\n" for a, b in sorted(circles))
            file.writelines(f"inside {folder} {count}\n" for folder, count in sorted(inside.items()))
        return False
    with open(path, encoding="utf-8") as file:
        lines = [line.split() for line in file if line.strip() and line[0] != "#"]
    allowed = {(a, b) for kind, a, b in lines if kind == "circle"}
    most = {folder: int(count) for kind, folder, count in lines if kind == "inside"}
    problems = [f"{a} and {b} require each other" for a, b in sorted(circles - allowed)]
    problems += [f"circle {a} {b} is no more: take its line out of tests/lua_rooms.allow" for a, b in sorted(allowed - circles)]
    problems += [f"{folder} has {inside[folder]} requires inside functions, at most {most.get(folder, 0)} are allowed: "
                 "require at the top of the file" for folder in sorted(inside) if inside[folder] > most.get(folder, 0)]
    problems += long_functions(source)
    print(*problems, sep="\n")
    if not problems:
        print(f"ok: {len(circles)} circles and {sum(inside.values())} requires inside functions, all listed")
    return bool(problems)


sys.exit(main())
