#!/usr/bin/env python3
"""Mistakes in Lua that tests must find (tests/mutants.txt), planted in a copy: the program itself has no trace of them.

plant.py names            name, test and cases of each, a line each
plant.py check            each edit fits its file, at one place
plant.py NAME DIRECTORY   makes DIRECTORY the source tree with this mistake in its lua/

In tests/mutants.txt a mistake is a line `NAME FILE TEST [CASES]` and the edit below it: whole lines of the file that are
replaced (-), put there (+) or stay (two spaces before them: context). Spaces at the beginning of a line do not count.
"""
import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def mistakes():
    found = []
    for line in (ROOT / "tests/mutants.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if line[0] in "-+ ":
            found[-1][2].append((line[0], line[1:].strip()))
        else:
            name, file, *test = line.split(None, 3)
            found.append((name, file, [], test))
    return found


def edited(file, edit):
    """The file's text with the edit, or None: it fits nowhere, or at several places."""
    lines = (ROOT / file).read_text().splitlines()
    old = [text for mark, text in edit if mark in "- "]
    stripped = [line.strip() for line in lines]
    fits = [i for i in range(len(lines)) if stripped[i:i + len(old)] == old]
    if len(fits) != 1:
        return None
    new, at = [], fits[0]
    for mark, text in edit:
        new.extend([text] if mark == "+" else [lines[at]] if mark == " " else [])
        at += mark != "+"
    return "\n".join(lines[:fits[0]] + new + lines[at:]) + "\n"


def plant(name, directory):
    _, file, edit, _ = next(each for each in mistakes() if each[0] == name)
    directory.mkdir(parents=True, exist_ok=True)
    for each in ROOT.iterdir():
        if each.name == ".busted" or each.name != "lua" and not each.name.startswith("."):
            (directory / each.name).symlink_to(each)
    shutil.copytree(ROOT / "lua", directory / "lua")
    (directory / file).write_text(edited(file, edit))


def main():
    if sys.argv[1:] == ["names"]:
        for name, _, _, test in mistakes():
            print(name, *test)
    elif sys.argv[1:] == ["check"]:
        bad = [f"{name}: the edit does not fit {file} at one place" for name, file, edit, _ in mistakes()
               if edited(file, edit) is None]
        sys.exit("\n".join(bad) or None)
    else:
        plant(sys.argv[1], pathlib.Path(sys.argv[2]))


main()
