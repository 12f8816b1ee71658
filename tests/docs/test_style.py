#!/usr/bin/env python3
"""Faults planted into a copy of the tree, each of which a check of the pages must find: test_style.py ROOT [TIDE].

A plant with an empty text is no fault: the check must pass with all of those. With the program TIDE the check that runs the
blocks of pages is tested, too.
"""
import os
import shutil
import subprocess
import sys
import tempfile

LONG = "\n\n" + "word " * 121 + "\n"
HERE = os.path.dirname(os.path.abspath(__file__))
MANY = "\n\n" + "\n\n".join(["word " * 100] * 50) + "\n"
CHECKS = {"style": [f"{HERE}/style.py"], "names": [f"{HERE}/names.py"], "spell": [f"{HERE}/spell.py"],
          "comments": [f"{HERE}/style.py", "--comments"], "draw": [f"{HERE}/../../scripts/docs/draw.py", "--check"]}
SKIPPED = 77


def adds(more):
    return lambda text: text + more


def replaces(old, new):
    def replace(text):
        assert old in text, old
        return text.replace(old, new)
    return replace


FAULTS = [
    ("style", "README.md", adds(""), ""),
    ("style", "README.md", adds(LONG), "README.md:"),
    ("style", "README.md", adds(f"\n```\n{LONG}```\n"), ""),
    ("style", "docs/tutorial/1-first-run.md", adds(LONG), "paragraph of 121 words"),
    ("style", "docs/roadmap.md", adds(LONG), "docs/roadmap.md:"),
    ("style", "docs/guides/tour.md", adds(LONG), "docs/guides/tour.md:"),
    ("style", "docs/guides/tables.md", adds(MANY), "words in tutorial, guides and internals, at most 70000: cut"),
    ("style", "docs/glossary.md", adds("| **aa** | Too short. | [x](x.md) |\n"), "in 2 words"),
    ("style", "docs/glossary.md", replaces("| **agent**", "| **zagent**"), "is sorted behind `zagent`"),
    ("style", "docs/tasks.md", adds("\nThe run goes on.\n"), "`goes on`: write continue, resume"),
    ("style", "docs/guides/scheduling.md", adds("\nSomebody stands still.\n"), "excepted in tests/docs/wording.txt"),
    ("names", "README.md", adds(""), ""),
    ("names", "docs/tasks.md", adds("\n[x](guides/nowhere.md)\n"), "the link guides/nowhere.md leads nowhere"),
    ("names", "docs/tasks.md", adds("\n[x](glossary.md#nothing)\n"), "has no heading #nothing"),
    ("names", "docs/tasks.md", adds("\nSee docs/guides/nowhere.md.\n"), "there is no page docs/guides/nowhere.md"),
    ("names", "docs/tasks.md", adds("\n![](images/run.svg)\n"), "the picture has no text"),
    ("names", "docs/tasks.md", adds("\n`runtime/store/nowhere.c`\n"), "there is no runtime/store/nowhere.c"),
    ("names", "runtime/base/budget.h", adds("\n/* nowhere.c */\n"), "there is no nowhere.c"),
    ("names", "lua/tide/init.lua", adds("\n-- nowhere.md\n"), "there is no page nowhere.md"),
    ("names", "lua/tide/init.lua", adds('\nlocal x = "docs/nowhere.md"\n'), "there is no page docs/nowhere.md"),
    ("names", "runtime/base/base.h", adds("\n/* glossary.md section 2 */\n"), "sections of pages have no numbers"),
    ("spell", "README.md", adds(""), ""),
    ("spell", "README.md", adds("\nThe controler decides.\n"), "`controler` is not spelled so"),
    ("spell", "README.md", adds("\n`controler`\n"), ""),
    ("comments", "README.md", adds(""), ""),
    ("comments", "runtime/base/budget.h", adds("\n/* Nobody\n * hears of it. */\n"), "`hears of`: write is notified of"),
    ("comments", "lua/tide/init.lua", adds("\n-- who asks is told\n"), "`who asks`: write sender, requester or caller"),
    ("comments", "lua/tide/init.lua", adds('\nlocal x = "somebody"\n'), ""),
    ("draw", "README.md", adds(""), ""),
    ("draw", "docs/images/run.svg", adds(" "), "docs/images/run.svg: not what"),
    ("draw", "docs/images/text/pull.txt", replaces("alt: ", "old: "), "no line `alt: ...`"),
]


def run(copy, check):
    done = subprocess.run([sys.executable, *CHECKS[check], copy], stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout


def plant(copy, check, wanted):
    """Plants the faults of a check that are wanted, together, and gives what the check says of them."""
    before = {}
    for _, page, change, expected in (fault for fault in FAULTS if fault[0] == check and wanted(fault[3])):
        with open(f"{copy}/{page}", encoding="utf-8") as file:
            text = file.read()
        before.setdefault(page, text)
        with open(f"{copy}/{page}", "w", encoding="utf-8") as file:
            file.write(change(text))
    result = run(copy, check)
    for page, text in before.items():
        with open(f"{copy}/{page}", "w", encoding="utf-8") as file:
            file.write(text)
    return result


BLOCKS = """
```lua
local tide = require "tide"
tide.main(function() print "two" end)     --> one
```
```lua
require "tide".main(function() error "three" end)
```
<!-- run by tests/nowhere.sh -->
```lua
```
```sh
$ echo five
four
$ false
```
"""
FOUND = ("no line `one`", "three", "there is no tests/nowhere.sh", "no line `four`", "`false` ended with 1")


def check_blocks(copy, tide):
    """Problems of the check of blocks with a page of wrong ones, and with the same page without them."""
    page, problems = "docs/guides/planted.md", []
    right = BLOCKS.replace("--> one", "--> two").replace('error "three"', 'print "three"').replace("nowhere.sh", "package.sh")
    for text, code in ((BLOCKS, 1), (right.replace("four", "five").replace("$ false", "$ true"), 0)):
        with open(f"{copy}/{page}", "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([sys.executable, f"{copy}/tests/docs/blocks.py", tide, page], stdout=subprocess.PIPE, text=True,
                              check=False)
        missing = [expected for expected in FOUND if code and expected not in done.stdout]
        if done.returncode != code or missing:
            problems.append(f"blocks ended with {done.returncode} and does not say {missing}:\n{done.stdout[-2000:]}")
    os.remove(f"{copy}/{page}")
    return problems


def main(root, tide=None):
    failed = []
    with tempfile.TemporaryDirectory() as directory:
        copy = f"{directory}/tree"
        shutil.copytree(root, copy, symlinks=True, ignore=shutil.ignore_patterns("build*", ".git", "__pycache__", "keys"))
        for check in CHECKS:
            code, said = plant(copy, check, lambda expected: not expected)
            if code == SKIPPED:
                continue
            if code != 0:
                failed.append(f"{check} without faults ended with {code}:\n{said[-2000:]}")
            code, said = plant(copy, check, bool)
            missing = [f"{page}: `{expected}`" for of, page, _, expected in FAULTS if of == check and expected not in said]
            if code != 1 or missing:
                failed.append(f"{check} ended with {code} and does not say {missing}:\n{said[-2000:]}")
        failed += check_blocks(copy, tide) if tide else []
    print("\n".join("FAILED: " + text for text in failed) or f"ok: {len(FAULTS)} plants")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
