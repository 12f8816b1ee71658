#!/usr/bin/env python3
"""Checks how the pages are written: style.py ROOT [PAGE...], style.py ROOT --lower | --levels | --comments.

A paragraph, list item or table row has at most 120 words. The tutorial, the glossary and the README have no exceptions;
of every other page long.txt has the number of longer ones, which must not grow: `--lower` writes the exceptions anew where
there are fewer. A definition of the glossary has 8 to 22 words, and the terms of a group are sorted.

The phrases of phrases.txt have better ones in the glossary. A page has at most as many as wording.txt says, most have none;
a message names the better one. With PAGE the lines of these pages are listed. `--comments` looks at the comments of sources
instead: those of tests and benchmarks are counted, the others have as many phrases as wording.txt says for their folder.

Tutorial, guides and internals together have at most 70,000 words. `--levels` prints the words of each page and its reading
level, LIX: words a sentence plus the share of words of more than six letters in percent. 40 is a newspaper, 60 a statute.
"""
import glob
import os
import re
import sys

import names

MOST_WORDS = 120
MOST_TOGETHER = 70000
UNCHECKED = ("bench", "tests")
ROOMS = ("runtime", "kernels", "lua", "scripts", "bench", "examples", "tests")
SHELVES = ("docs/tutorial/", "docs/guides/", "docs/internals/")
DEFINITION = (8, 22)
HERE = os.path.dirname(os.path.abspath(__file__))
LONG, WORDING, PHRASES = (os.path.join(HERE, name) for name in ("long.txt", "wording.txt", "phrases.txt"))


def strict(page):
    return page.startswith("docs/tutorial/") or page in ("docs/glossary.md", "README.md")


def prose_lines(text):
    """Lines outside of fenced blocks, with their numbers; a fence is an empty line."""
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        yield number, "" if fence or fenced else line


def paragraphs(text):
    """First line and words of each paragraph, list item and table row."""
    first, words = 0, []
    for number, line in prose_lines(text):
        if not line.strip() or re.match(r"\s*([-*+]|\d+\.)\s|\s*[|#]", line):
            if words:
                yield first, words
            first, words = number, []
        if line.strip():
            first = first if words else number
            words = words + [word for word in line.split() if re.search(r"\w", word)]
    if words:
        yield first, words


def read_table(path, separator):
    with open(path, encoding="utf-8") as file:
        lines = (line.split("#")[0].strip() for line in file)
        return dict(map(str.strip, line.rsplit(separator, 1)) for line in lines if line)


def check_paragraphs(texts, allowed):
    """Problems, and the number of long paragraphs of each page that may have some."""
    problems, counts = [], {}
    for page, text in texts.items():
        long = [(number, len(words)) for number, words in paragraphs(text) if len(words) > MOST_WORDS]
        if not strict(page) and long:
            counts[page] = len(long)
        if len(long) > (0 if strict(page) else allowed.get(page, 0)):
            what = f"paragraph of {{}} words, at most {MOST_WORDS}: split it"
            if allowed.get(page) and not strict(page):
                what += f" (the page has {len(long)} such paragraphs, {allowed[page]} are excepted in tests/docs/long.txt)"
            problems += [f"{page}:{number}: {what.format(count)}" for number, count in long]
    return problems, counts


def check_glossary(page, text):
    problems, before = [], ""
    for number, line in prose_lines(text):
        entry = re.match(r"\| \*\*(.+?)\*\* \| (.+?) \| \[.+\]\(.+\) \|$", line)
        if not entry:
            if line.startswith("| **"):
                problems.append(f"{page}:{number}: an entry is `| **term** | meaning | [page](page.md) |`")
            before = ""
            continue
        words = len(entry[2].split())
        if not DEFINITION[0] <= words <= DEFINITION[1]:
            problems.append(f"{page}:{number}: `{entry[1]}` is defined in {words} words, not in {DEFINITION[0]} to {DEFINITION[1]}")
        if entry[1].lower() < before:
            problems.append(f"{page}:{number}: `{entry[1]}` is sorted behind `{before}`")
        before = entry[1].lower()
    return problems


def read_phrases():
    return [(re.compile(r"\b(?:" + phrase + r")\b", re.I), instead) for phrase, instead in read_table(PHRASES, "|").items()]


def check_comments(root):
    """Problems with the phrases in comments of the sources; prints how many there are in tests and benchmarks."""
    paths = sorted(path for room in ROOMS for path in glob.glob(f"{root}/{room}/**/*", recursive=True)
                   if path.endswith(names.SOURCES) and not path.startswith(f"{root}/tests/docs/"))
    phrases, found = read_phrases(), {room: [] for room in ROOMS}
    for path in paths:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        for number, comment in names.comments(path, text):
            comment = re.sub(r"@(param|field) \w+|`[^`\n]*`|\{[^}\n]*\}", "", comment)  # code is no phrase
            for pattern, instead in phrases:
                for match in pattern.finditer(comment):
                    at = number + comment.count("\n", 0, match.start())
                    name = os.path.relpath(path, root)
                    found[name.split("/")[0]].append(f"{name}:{at}: `{match[0]}`: write {instead}")
    allowed, problems = read_table(WORDING, " "), []
    for room, lines in found.items():
        if room in UNCHECKED:
            print(f"{room}: {len(lines)} phrases in comments")
        elif len(lines) > int(allowed.get(room, 0)):
            problems += lines + [f"{room}: {len(lines)} such phrases in comments, {allowed.get(room, 0)} are excepted"]
    return problems


def check_phrases(texts, allowed, listed):
    """Problems, and the number of phrases of each page that has some."""
    better, problems, counts = read_phrases(), [], {}
    for page, text in texts.items():
        found = [f"{page}:{number}: `{match[0]}`: write {instead}" for number, line in prose_lines(text)
                 for pattern, instead in better for match in pattern.finditer(line)]
        if found:
            counts[page] = len(found)
        if len(found) > allowed.get(page, 0):
            problems += found
            if allowed.get(page):
                problems.append(f"{page}: {len(found)} such phrases, {allowed[page]} are excepted in tests/docs/wording.txt")
        elif page in listed:
            print("\n".join(found))
    return problems, counts


def words_of(text):
    """Words of a page outside of its blocks: what has a letter."""
    return [word for _, words in paragraphs(text) for word in words if re.search("[A-Za-z]", word)]


def level(text):
    """LIX of the prose of a page: paragraphs and list items, no headings and tables."""
    prose = "\n".join(line for _, line in prose_lines(text) if not line.startswith(("|", "#", "<!--")))
    prose = [re.sub(r"`[^`]*`|\]\([^)]*\)", " x ", " ".join(words)) for _, words in paragraphs(prose)]
    words = re.findall(r"[A-Za-z'-]+", " ".join(prose))
    sentences = sum(max(1, len(re.findall(r"[.:;?!](?:\s|$)", paragraph))) for paragraph in prose)
    return len(words) / max(1, sentences) + 100 * sum(len(word) > 6 for word in words) / max(1, len(words))


def check_size(texts, printed):
    """Problems, and prints words and level: of each page, or of all."""
    shelved = {page: text for page, text in texts.items() if page.startswith(SHELVES)}
    sizes = {page: len(words_of(text)) for page, text in shelved.items()}
    levels = {page: level(text) for page, text in shelved.items() if sizes[page] > 200}
    for page in sorted(levels, key=levels.get) if printed else ():
        print(f"{levels[page]:3.0f} {sizes[page]:5d} {page}")
    together, hardest = sum(sizes.values()), max(levels, key=levels.get, default=None)
    print(f"{together} words in tutorial, guides and internals, of at most {MOST_TOGETHER}; reading level (LIX) "
          f"{level(chr(10).join(shelved.values())):.0f}, most {levels[hardest]:.0f} in {hardest} (--levels)")
    return [f"{together} words in tutorial, guides and internals, at most {MOST_TOGETHER}: cut {together - MOST_TOGETHER}"
            ] if together > MOST_TOGETHER else []


def lower(path, allowed, counts):
    with open(path, encoding="utf-8") as file:
        head = [line for line in file if line.startswith("#")]
    with open(path, "w", encoding="utf-8") as file:
        left = ((page, min(count, counts.get(page, 0))) for page, count in sorted(allowed.items()))
        file.writelines(head + [f"{page} {count}\n" for page, count in left if count])


def main(root, *arguments):
    if "--comments" in arguments:
        problems = check_comments(root)
        print("\n".join(problems) if problems else "ok: comments of the sources")
        return 1 if problems else 0
    pages = ["README.md"] + sorted(os.path.relpath(path, root) for path in glob.glob(f"{root}/docs/**/*.md", recursive=True)
                                   if "/reference/" not in path)
    texts = {}
    for page in pages:
        with open(os.path.join(root, page), encoding="utf-8") as file:
            texts[page] = file.read()
    problems = check_glossary("docs/glossary.md", texts["docs/glossary.md"]) + check_size(texts, "--levels" in arguments)
    left = 0
    for path, check in ((LONG, check_paragraphs), (WORDING, lambda *both: check_phrases(*both, arguments))):
        allowed = {page: int(count) for page, count in read_table(path, " ").items()}
        found, counts = check(texts, allowed)
        problems += found
        left += sum(counts.values())
        fewer = [page for page, count in allowed.items() if counts.get(page, 0) < count]
        if "--lower" in arguments:
            lower(path, allowed, counts)
        elif fewer:
            print(f"note: {', '.join(fewer)}: fewer than tests/docs/{os.path.basename(path)} says; run"
                  " `python3 tests/docs/style.py . --lower`")
    print("\n".join(problems) if problems else f"ok: {len(pages)} pages, {left} long paragraphs and phrases excepted")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sorted(sys.argv[1:], key=lambda word: word.startswith("--"))))
