#!/usr/bin/env bash
# build.sh DIRECTORY: the documentation as a site in DIRECTORY/site, strictly: a broken link or a page without a place in
# the navigation is an error.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
rm -rf "$out/pages" "$out/site"
cp -r "$root/docs" "$out/pages"
# The first page lies beside the others here; links out of docs/ name files of the source tree.
sed 's|(docs/|(|g' "$root/README.md" >"$out/pages/index.md"
sed -E -i 's#\[([^]]*)\]\(\.\./[^)]*\)#\1#g' "$out"/pages/*.md
sed -E -i 's#\[([^]]*)\]\(\.\./\.\./[^)]*\)#\1#g' "$out"/pages/*/*.md
nav_missing=$(cd "$out/pages" && find . -name '*.md' | sed 's|^\./||' | while read -r page; do
  grep -q ": $page\$" "$root/scripts/docs/mkdocs.yml" || echo "      - \"$page\""
done)
cp "$root/scripts/docs/mkdocs.yml" "$out/mkdocs.yml"
[ -z "$nav_missing" ] || printf '  - More:\n%s\n' "$nav_missing" >>"$out/mkdocs.yml"
mkdocs=$(command -v /usr/bin/mkdocs || command -v mkdocs)
"$mkdocs" build --quiet --strict --config-file "$out/mkdocs.yml"
echo "$out/site/index.html"
