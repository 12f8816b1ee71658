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
for depth in 0 1 2; do # pages that lie so many folders below docs/
  up=$(printf '\.\./%.0s' $(seq 0 $depth))
  find "$out/pages" -mindepth $((depth + 1)) -maxdepth $((depth + 1)) -name '*.md' \
    -exec sed -E -i "s#\[([^]]*)\]\($up[^)]*\)#\1#g" {} +
done
nav_missing=$(cd "$out/pages" && find . -name '*.md' | sed 's|^\./||' | while read -r page; do
  grep -q ": $page\$" "$root/scripts/docs/mkdocs.yml" || echo "      - \"$page\""
done)
cp "$root/scripts/docs/mkdocs.yml" "$out/mkdocs.yml"
[ -z "$nav_missing" ] || printf '  - More:\n%s\n' "$nav_missing" >>"$out/mkdocs.yml"
mkdocs=$(command -v /usr/bin/mkdocs || command -v mkdocs)
"$mkdocs" build --quiet --strict --config-file "$out/mkdocs.yml"
echo "$out/site/index.html"
