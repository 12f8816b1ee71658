#!/usr/bin/env python3
"""Spelling of the pages: spell.py ROOT [--list]. hunspell's British English, and the words of words.txt.

Words in code, links, capitals or with digits, dots or underscores are not looked at. --list prints the unknown words, one a
line, for words.txt. Exits with 77 where hunspell or its dictionary is missing.
"""
import glob
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def prose(text):
    """The lines of a page without code, links' targets and comments."""
    text = re.sub(r"^(\s*)```.*?^\s*```$", lambda found: "\n" * found[0].count("\n"), text, flags=re.S | re.M)
    text = re.sub(r"<!--.*?-->|``.*?``|`[^`\n]*`", " ", text, flags=re.S)
    text = re.sub(r"\]\([^)]*\)|https?://\S+|\b[\w.-]+/[\w./-]*", " ", text)
    return [line for line in re.sub(r"^ {4}\S.*$", " ", text, flags=re.M).split("\n")]


def words(line):
    for word in re.findall(r"(?<![\w.'-])[A-Za-z][A-Za-z'’-]*[A-Za-z](?![\w'-]|\.\w)", line):
        for piece in re.split(r"[-’]", word.replace("'s", "")):
            if len(piece) > 2 and piece[1:] == piece[1:].lower():
                yield piece


def main(root, *arguments):
    if not shutil.which("hunspell"):
        print("hunspell is not installed: ./dev lint installs it")
        return 77
    pages = ["README.md"] + sorted(os.path.relpath(path, root) for path in glob.glob(f"{root}/docs/**/*.md", recursive=True)
                                   if "/reference/" not in path)
    with open(os.path.join(HERE, "words.txt"), encoding="utf-8") as file:
        known = {line.strip().lower() for line in file if line.strip() and not line.startswith("#")}
    where = {}
    for page in pages:
        with open(os.path.join(root, page), encoding="utf-8") as file:
            for number, line in enumerate(prose(file.read()), 1):
                for word in words(line):
                    if word.lower() not in known:
                        where.setdefault(word, f"{page}:{number}")
    done = subprocess.run(["hunspell", "-d", "en_GB", "-l"], input="\n".join(where), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode or "Can't open" in done.stderr:
        print(done.stderr.strip() or "hunspell failed")
        return 77
    unknown = sorted(set(done.stdout.split()), key=str.lower)
    for word in unknown:
        print(word if "--list" in arguments else f"{where.get(word, '?')}: `{word}` is not spelled so; if it is, add it to tests/docs/words.txt")
    if not unknown:
        print(f"ok: {len(pages)} pages, {len(known)} words of our own")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
