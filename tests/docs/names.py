"""Checks that files named in the documentation and in comments exist, that links between pages lead somewhere, to a heading
too, and that pictures have a text for readers who do not see them.

A name of C or CUDA counts anywhere, and so does a page `docs/...`. A name of Lua, shell or Python counts with a folder, or in
a comment of a source file: a page may name scripts of its reader. A page named without a folder counts in pages and comments.
"""
import os
import re
import sys

# Lua's own sources, and files that a comment or a page makes up.
ALLOWED = {"lstate.h", "lobject.h", "lstring.c", "b.lua", "init.lua", "mine.lua", "Ring_2.lua", "config.lua", "SHA.lua"}
MADE_UP = {"xyz.md", "README.md"}
FAULTS = "tests/docs/test_style.py"  # plants what is looked for
SOURCES = (".c", ".h", ".cu", ".def", ".lua", ".pml", ".sh", ".py", ".cmake")
NAME = re.compile(r"(?<![\w/.*$<{])((?:[\w-]+/)*\w[\w-]*\.(?:c|h|cu|lua|sh|py))(?![\w*/]|\.\w)")
LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)")
PAGE = re.compile(r"(?<![\w/.$<{-])((?:docs/(?:[\w-]+/)*)?[\w-]+\.md)\b(?!\])")
PLACED = re.compile(r"\bdocs/(?:[\w-]+/)*[\w-]+\.md\b")
NUMBERED = re.compile(r"[\w-]+\.md,? sections? \d+")
PICTURE = re.compile(r"!\[\s*\]\(")
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


def headings(text):
    """The anchors of a page, as they are made of its headings."""
    fenced, found = False, set()
    for line in text.split("\n"):
        fenced ^= line.lstrip().startswith("```")
        if line.startswith("#") and not fenced:
            found.add(re.sub(r"[^\w -]", "", line.lstrip("# ").strip().lower()).replace(" ", "-"))
    return found


def main(root):
    files, anchors = [], {}
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f in (".ci", ) or not f.startswith((".", "build", "keys", "__")))
        files += [os.path.relpath(os.path.join(folder, name), root) for name in sorted(names)]
    ends = set()
    for path in files:
        parts = path.split("/")
        ends.update("/".join(parts[i:]) for i in range(len(parts)))
    wrong = []

    def has_heading(path, anchor):
        if path not in anchors:
            with open(path, encoding="utf-8") as f:
                anchors[path] = headings(f.read())
        return anchor in anchors[path]

    def look_for_pages(path, number, text, pattern):
        for name in pattern.findall(text):
            if name not in ends and name not in MADE_UP:
                wrong.append(f"{path}:{number}: there is no page {name}")
        for named in NUMBERED.findall(text):
            wrong.append(f"{path}:{number}: {named}: sections of pages have no numbers")

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
                if fenced:
                    continue
                look(path, number, line, False)
                look_for_pages(path, number, LINK.sub("]", line), PAGE)
                if PICTURE.search(line):
                    wrong.append(f"{path}:{number}: the picture has no text for readers who do not see it")
                for link, anchor in LINK.findall(line):
                    target = os.path.normpath(os.path.join(root, os.path.dirname(path), link)) if link else os.path.join(root, path)
                    if not os.path.exists(target):
                        wrong.append(f"{path}:{number}: the link {link} leads nowhere")
                    elif anchor and target.endswith(".md") and not has_heading(target, anchor):
                        wrong.append(f"{path}:{number}: {link or path} has no heading #{anchor}")
        elif path != FAULTS and path.endswith(SOURCES) and path.startswith(("runtime/", "kernels/", "lua/", "scripts/", "tests/")):
            for number, comment in comments(path, text):
                look(path, number, comment, not path.startswith("tests/"))
                look_for_pages(path, number, comment, PAGE)
            look_for_pages(path, "text", text, PLACED)
    print("\n".join(wrong) if wrong else f"ok: {len(files)} files name no file that is not there")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
