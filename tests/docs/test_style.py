#!/usr/bin/env python3
"""Faults planted into a copy of the pages, each of which style.py must find: test_style.py ROOT."""
import os
import shutil
import subprocess
import sys
import tempfile

LONG = "\n\n" + "word " * 121 + "\n"
CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "style.py")


def finds(root, page, plant, expected):
    """Whether style.py fails with the expected text once `plant` has changed the page."""
    with tempfile.TemporaryDirectory() as copy:
        shutil.copy(f"{root}/README.md", copy)
        shutil.copytree(f"{root}/docs", f"{copy}/docs")
        with open(f"{copy}/{page}", encoding="utf-8") as file:
            text = file.read()
        with open(f"{copy}/{page}", "w", encoding="utf-8") as file:
            file.write(plant(text))
        done = subprocess.run([sys.executable, CHECK, copy], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == (1 if expected else 0) and expected in done.stdout:
        return True
    print(f"FAILED: {page}: ended with {done.returncode}, expected `{expected}`:\n{done.stdout}")
    return False


def main(root):
    good = [
        finds(root, "README.md", lambda text: text, ""),
        finds(root, "README.md", lambda text: text + LONG, "README.md:"),
        finds(root, "README.md", lambda text: f"{text}\n```\n{LONG}```\n", ""),
        finds(root, "docs/tutorial/1-first-run.md", lambda text: text + LONG, "paragraph of 121 words"),
        finds(root, "docs/guides/faults.md", lambda text: text + LONG, "docs/guides/faults.md:"),
        finds(root, "docs/guides/tour.md", lambda text: text + LONG, "docs/guides/tour.md:"),
        finds(root, "docs/glossary.md", lambda text: text + "| **aa** | Too short. | [x](x.md) |\n", "in 2 words"),
        finds(root, "docs/glossary.md", lambda text: text.replace("| **agent**", "| **zagent**"), "is sorted behind `zagent`"),
    ]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
