"""Checks that files named in the documentation and in comments exist, and that links between pages lead somewhere.

A name of C or CUDA counts anywhere. A name of Lua, shell or Python counts with a folder, or in a comment of a source file:
a page may name scripts of its reader.
"""
import os
import re
import sys

# Lua's own sources, and files that a comment or a page makes up.
ALLOWED = {"lstate.h", "lobject.h", "lstring.c", "b.lua", "init.lua", "mine.lua", "Ring_2.lua", "config.lua", "SHA.lua"}
SOURCES = (".c", ".h", ".cu", ".lua", ".sh", ".py", ".cmake")
NAME = re.compile(r"(?<![\w/.*$<{])((?:[\w-]+/)*\w[\w-]*\.(?:c|h|cu|lua|sh|py))(?![\w*/]|\.\w)")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
COMMENT = {".lua": re.compile(r"--.*"), ".sh": re.compile(r"(?:^|\s)#.*"), ".py": re.compile(r"#.*"), ".cmake": re.compile(r"#.*")}
C_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)


def comments(path, text):
    """The comments of a source file, each with the number of its first line."""
    kind = os.path.splitext(path)[1]
    if kind in COMMENT:
        for number, line in enumerate(text.split("\n"), 1):
            for found in COMMENT[kind].finditer(line):
                yield number, found.group()
    else:
        for found in C_COMMENT.finditer(text):
            yield text.count("\n", 0, found.start()) + 1, found.group()


def main(root):
    files = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f in (".ci", ) or not f.startswith((".", "build", "keys", "__")))
        files += [os.path.relpath(os.path.join(folder, name), root) for name in sorted(names)]
    ends = set()
    for path in files:
        parts = path.split("/")
        ends.update("/".join(parts[i:]) for i in range(len(parts)))
    wrong = []

    def look(path, number, text, bare):
        for name in NAME.findall(text):
            system = name.split("/")[0] in ("sys", "uv", "lua5.4", "linux", "openblas", "cuda") or not ("/" in name or bare or name.endswith((".c", ".cu")))
            if not system and name not in ends and os.path.basename(name) not in ALLOWED:
                wrong.append(f"{path}:{number}: there is no {name}")

    for path in files:
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
            text = f.read()
        if path.endswith(".md"):
            fenced = False
            for number, line in enumerate(text.split("\n"), 1):
                fenced ^= line.startswith("```")
                if not fenced:
                    look(path, number, line, False)
                for link in LINK.findall(line):
                    if not fenced and not os.path.exists(os.path.join(root, os.path.dirname(path), link)):
                        wrong.append(f"{path}:{number}: the link {link} leads nowhere")
        elif path.endswith(SOURCES) and path.startswith(("runtime/", "kernels/", "lua/", "scripts/", "tests/")):
            for number, comment in comments(path, text):
                look(path, number, comment, not path.startswith("tests/"))
    print("\n".join(wrong) if wrong else f"ok: {len(files)} files name no file that is not there")
    return 1 if wrong else 0


sys.exit(main(sys.argv[1]))
