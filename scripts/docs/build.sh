#!/usr/bin/env bash
# build.sh DIRECTORY: the documentation as a site in DIRECTORY/site, strictly: a broken link is an error. Pages without
# a place in the navigation come last. The site needs no server: it may be opened as files.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
rm -rf "$out/pages" "$out/site" "$out/theme"
cp -r "$root/docs" "$out/pages"
# The first page lies beside the others here; links out of docs/ name files of the source tree.
sed 's|(docs/|(|g' "$root/README.md" >"$out/pages/index.md"
for depth in 0 1 2; do # pages that lie so many folders below docs/
  up=$(printf '\.\./%.0s' $(seq 0 $depth))
  find "$out/pages" -mindepth $((depth + 1)) -maxdepth $((depth + 1)) -name '*.md' \
    -exec sed -E -i "s#\[([^]]*)\]\($up[^)]*\)#\1#g" {} +
done
nav_missing=$(cd "$out/pages" && find . -name '*.md' | sed 's|^\./||' | while read -r page; do
  grep -q ": $page\$" "$root/scripts/docs/mkdocs.yml" || echo "      - \"$page\""
done)
version=$(sed -n 's/^project(tide VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
sed "s/: VERSION\$/: \"$version\"/" "$root/scripts/docs/mkdocs.yml" >"$out/mkdocs.yml"
cp -r "$root/scripts/docs/theme" "$out/theme"
[ -z "$nav_missing" ] || printf '  - More:\n%s\n' "$nav_missing" >>"$out/mkdocs.yml"
mkdocs=$(command -v /usr/bin/mkdocs || command -v mkdocs)
"$mkdocs" build --quiet --strict --config-file "$out/mkdocs.yml"
# The search index as a script: pages that are opened as files may fetch nothing.
python3 - "$out/site" <<'PY'
import glob
import json
import re
import shutil
import sys
site = sys.argv[1]
for path in glob.glob(f"{site}/**/*.html", recursive=True):  # a bar of code in a table's cell is written \|
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(re.sub(r"<code>[^<]*</code>", lambda code: code[0].replace("\\|", "|"), text))
with open(f"{site}/search/search_index.json", encoding="utf-8") as file:
    sections = json.load(file)["docs"]
titles = {section["location"]: section["title"] for section in sections if "#" not in section["location"]}
for section in sections:
    section["page"] = titles.get(section["location"].partition("#")[0], "")
    section["location"] = section["location"] or "index.html"
# What a whole page has is in its sections, too.
sections = [section for section in sections if "#" in section["location"] or not section["text"].strip()]
with open(f"{site}/search.js", "w", encoding="utf-8") as file:
    file.write("window.tide_pages = " + json.dumps(sections, ensure_ascii=False, separators=(",", ":")) + ";\n")
shutil.rmtree(f"{site}/search")
PY
echo "$out/site/index.html"
