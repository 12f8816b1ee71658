#!/usr/bin/env python3
"""Holds the rooms of the house apart: a file may use only rooms below its own.

usage: rooms.py SOURCE-DIR BUILD-DIR/CMakeFiles [--circles]

The rooms, lowest first, are ROOMS; what a file uses is read from the symbols of its object, so calls count as well as
includes. tests/rooms.allow lists the arrows that go up all the same, `from-room to-room` a line; the list may only get
shorter: an arrow that is not there any more has to leave it. A circle, files that reach each other, has at most
CIRCLE_MAX files. --circles prints them.

Packages stand outside of the house: their C (kernels/packages) uses of Tide what public headers declare, their Lua
(lua/packages) requires the modules PUBLIC and those of packages, and what is below lua/tide requires no package. What
does so all the same is in tests/rooms.allow too, `folder module` a line."""
import collections
import glob
import os
import re
import sys

import objects

ROOMS = [
    "runtime/base", "runtime/wire", "runtime/port", "runtime/actor", "runtime/control", "runtime/net/link",
    "runtime/net/members", "runtime/net", "runtime/client", "runtime/store/rows", "runtime/store/core", "runtime/store/operation",
    "runtime/store/slots", "runtime/store/adaptive", "runtime/store/tier", "runtime/store/clocked", "runtime/store/replica",
    "runtime/store/forget", "runtime/store/checkpoint", "runtime/store/access", "runtime/store/serve", "runtime/store/client", "runtime/store", "runtime/exchange", "runtime", "kernels/tensor", "kernels/decide", "kernels/readers",
    "kernels/graph", "kernels/models", "kernels", "lua/host", "kernels/packages",
]
PACKAGES = "kernels/packages"
PUBLIC = {"tide", "tide.compute", "tide.formats", "tide.json", "tide.kernel", "tide.package", "tide.team", "tide.tensor",
          "tide.units"} # Lua modules

CIRCLE_MAX = 14


def room_of(path):
    """The innermost listed room that holds the file."""
    while path:
        path = os.path.dirname(path)
        if path in ROOMS:
            return path
    return None


def symbols(source, directory):
    """file -> (symbols it defines, symbols it wants), by the newest object of each source file."""
    libraries = [os.path.join(directory, f"{name}.dir") for name in ("tide_actor_objects", "tide_objects", "tide_client_objects")]
    libraries += glob.glob(os.path.join(directory, "tide_package_*.dir"))
    found = objects.read(source, libraries)
    found.sort(key=lambda entry: os.path.getmtime(entry[0]))
    return {file: (defined, wanted) for _, file, defined, wanted in found}


def circles(arrows):
    """Groups of files that reach each other (Tarjan 1972), largest first."""
    index, low, stack, on, out = {}, {}, [], set(), []

    def visit(start):
        work = [(start, iter(sorted(arrows[start])))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on.add(start)
        while work:
            node, rest = work[-1]
            for to in rest:
                if to not in index:
                    index[to] = low[to] = len(index)
                    stack.append(to)
                    on.add(to)
                    work.append((to, iter(sorted(arrows[to]))))
                    break
                if to in on:
                    low[node] = min(low[node], index[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = []
                    while True:
                        group.append(stack.pop())
                        on.discard(group[-1])
                        if group[-1] == node:
                            break
                    if len(group) > 1:
                        out.append(sorted(group))

    for node in sorted(arrows):
        if node not in index:
            visit(node)
    return sorted(out, key=len, reverse=True)


def private(source, found, owner):
    """What packages use of Tide though no public header declares it, a text each."""
    text = "".join(open(path, encoding="utf-8").read() for path in glob.glob(os.path.join(source, "runtime/include/tide/*.h")))
    public = set(re.findall(r"\w+", text))
    return [f"{file} uses {symbol} of {owner[symbol]}, which no public header declares"
            for file, (_, wanted) in sorted(found.items()) if room_of(file) == PACKAGES
            for symbol in sorted(wanted - public) if owner.get(symbol) and room_of(owner[symbol]) != PACKAGES]


def lua_arrows(source):
    """(folder, module) -> files, of requires between Tide's Lua and its packages that are none of the public ones."""
    root = os.path.join(source, "lua")
    packages = sorted(os.listdir(os.path.join(root, "packages")))
    owned = re.compile(r"tide\.(%s)(\.|$)" % "|".join(packages))
    arrows = collections.defaultdict(set)
    for path in sorted(glob.glob(os.path.join(root, "**/*.lua"), recursive=True)):
        with open(path, encoding="utf-8") as file:
            code = "\n".join(line.split("--", 1)[0] for line in file)
        folder = os.path.relpath(os.path.dirname(path), source)
        inside = folder.startswith("lua/packages")
        for module in re.findall(r"""require\s*\(?\s*["'](tide[\w.]*)""", code):
            package = owned.match(module)
            if inside and not package and module not in PUBLIC or not inside and package:
                arrows[folder, package.group(0).rstrip(".") if package else module].add(os.path.relpath(path, source))
    return arrows


def main():
    source = sys.argv[1]
    found = symbols(source, sys.argv[2])
    owner = {symbol: file for file, (defined, _) in found.items() for symbol in defined}
    arrows = {file: {owner[s] for s in wanted if s in owner and not s.startswith("tide_package_")} - {file}
              for file, (_, wanted) in found.items()} # a plugin's entry is asked for weakly
    groups = circles(arrows)
    if "--circles" in sys.argv:
        for group in groups:
            print(f"{len(group)} files in a circle:", *group, sep="\n  ")
    with open(os.path.join(source, "tests/rooms.allow"), encoding="utf-8") as file:
        allowed = {tuple(line.split()) for line in file if line.strip() and not line.startswith("#")}
    up = collections.defaultdict(set)
    for file, targets in arrows.items():
        for target in targets:
            a, b = room_of(file), room_of(target)
            if a and b and a != PACKAGES and ROOMS.index(a) < ROOMS.index(b):
                up[a, b].add(f"{file} uses {', '.join(sorted(found[file][1] & found[target][0]))} of {target}")
    for pair, files in lua_arrows(source).items():
        up[pair] = {f"{file} requires it" for file in files}
    problems = private(source, found, owner)
    bad = len(problems)
    print(*problems, sep="\n", end="\n" if problems else "")
    for pair in sorted(set(up) - allowed):
        bad += 1
        print(f"{pair[0]} uses {pair[1]}, which is not below it or public:", *sorted(up[pair]), sep="\n  ")
    for pair in sorted(allowed - set(up)):
        bad += 1
        print(f"no file of {pair[0]} uses {pair[1]} any more: take the line out of tests/rooms.allow")
    largest = len(groups[0]) if groups else 0
    if largest > CIRCLE_MAX:
        bad += 1
        print(f"{largest} files are in a circle, at most {CIRCLE_MAX} may be:", *groups[0], sep="\n  ")
    if bad == 0:
        print(f"ok: {len(arrows)} files use rooms below theirs, {len(allowed)} exceptions; "
              f"largest circle: {largest} files")
    return bad > 0


sys.exit(main())
