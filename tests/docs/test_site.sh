#!/usr/bin/env bash
# test_site.sh ROOT: the site of the documentation is built, every page has its shelves, and the search finds sections.
# Exits with 77 without mkdocs.
set -euo pipefail
command -v mkdocs >/dev/null || { echo "mkdocs is not installed: ./dev docs installs it"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bash "$1/scripts/docs/build.sh" "$work" >"$work/said.txt"
python3 - "$work/site" "$1/docs" <<'PY'
import glob
import json
import os
import re
import sys
site, docs = sys.argv[1:]
wrong = []
pages = {os.path.relpath(path, site) for path in glob.glob(f"{site}/**/*.html", recursive=True)}
for path in glob.glob(f"{docs}/**/*.md", recursive=True):
    page = os.path.relpath(path, docs)[:-3] + ".html"
    page = page.replace("README.html", "index.html") if page not in pages else page
    if page not in pages:
        wrong.append(f"there is no {page}")
for page in pages - {"404.html"}:
    with open(f"{site}/{page}", encoding="utf-8") as file:
        text = file.read()
    if text.count("aria-current") != 1:
        wrong.append(f"{page}: {text.count('aria-current')} places of the page in its shelves")
    if re.search(r"<code>[^<]*\\\|", text):
        wrong.append(f"{page}: a backslash before a bar")
    if "More</summary>" in text:
        wrong.append(f"{page}: a page without a place in scripts/docs/mkdocs.yml")
        break
with open(f"{site}/search.js", encoding="utf-8") as file:
    sections = json.loads(file.read().removeprefix("window.tide_pages = ").removesuffix(";\n"))
for words, location in (("failure detection silence", "guides/faults.html#failure-detection"), ("local steps", "guides/exchange.html#local-steps"),
                        ("localize", "internals/relocation.html#localize")):
    fitting = {s["location"] for s in sections if all(word in (s["title"] + s["text"]).lower() for word in words.split())}
    if location not in fitting:
        wrong.append(f"the search for `{words}` does not find {location}")
print("\n".join(wrong) or f"ok: {len(pages)} pages, {len(sections)} sections")
sys.exit(1 if wrong else 0)
PY
