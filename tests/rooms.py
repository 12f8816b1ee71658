#!/usr/bin/env python3
"""Holds the rooms of the house apart: a file may use only rooms below its own.

usage: rooms.py SOURCE-DIR BUILD-DIR/CMakeFiles [--circles]

The rooms, lowest first, are ROOMS; what a file uses is read from the symbols of its object, so calls count as well as
includes. tests/rooms.allow lists the arrows that go up all the same, `from-room to-room` a line; the list may only get
shorter: an arrow that is not there any more has to leave it. A circle, files that reach each other, has at most
CIRCLE_MAX files. --circles prints them."""
import collections
import os
import sys

import objects

ROOMS = [
    "runtime/base", "runtime/wire", "runtime/port", "runtime/actor", "runtime/control", "runtime/net/link",
    "runtime/net/members", "runtime/net", "runtime/client", "runtime/store/rows", "runtime/store/core", "runtime/store/operation",
    "runtime/store/slots", "runtime/store/adaptive", "runtime/store/clocked", "runtime/store/replica",
    "runtime/store/checkpoint", "runtime/store/client", "runtime/store", "runtime/exchange", "runtime", "kernels/tensor", "kernels/decide", "kernels/readers",
    "kernels/graph", "kernels/models", "kernels", "lua/host",
]


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


def main():
    source = sys.argv[1]
    found = symbols(source, sys.argv[2])
    owner = {symbol: file for file, (defined, _) in found.items() for symbol in defined}
    arrows = {file: {owner[s] for s in wanted if s in owner} - {file} for file, (_, wanted) in found.items()}
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
            if a and b and ROOMS.index(a) < ROOMS.index(b):
                up[a, b].add(f"{file} uses {', '.join(sorted(found[file][1] & found[target][0]))} of {target}")
    bad = 0
    for pair in sorted(set(up) - allowed):
        bad += 1
        print(f"{pair[0]} uses {pair[1]}, a room above it:", *sorted(up[pair]), sep="\n  ")
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
