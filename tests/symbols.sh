#!/usr/bin/env bash
# The port is the only way out: every object of the library may use only the outside symbols that symbols.allow grants
# it. A line there is `object-pattern symbol-pattern`, both shell patterns; a new one needs a reason in its comment.
set -euo pipefail
export LC_ALL=C
# Arguments: the directories CMake puts the library's objects in; below them paths are those of the sources.
root=$(cd "$(dirname "$0")/.." && pwd)
allow=$root/tests/symbols.allow
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
find "$@" -name '*.c.o' | sort >"$work/list"
xargs nm --defined-only <"$work/list" | awk 'NF==3 {print $3}' | sort -u >"$work/own"
grep -v -e '^#' -e '^$' "$allow" >"$work/allow"
bad=0
while read -r object; do
  name=${object##*.dir/}
  name=${name%.c.o}
  # a source of the tree that is not there any more: left over by an earlier build
  if [[ $name == runtime/* || $name == kernels/* || $name == lua/* ]] && [ ! -e "$root/$name.c" ]; then continue; fi
  while read -r symbol; do
    granted=0
    while read -r pattern symbols _; do
      # shellcheck disable=SC2254
      case $name in $pattern) case $symbol in $symbols) granted=1; break ;; esac ;; esac
    done <"$work/allow"
    if [ $granted = 0 ]; then
      echo "$name.c uses $symbol: go through the port, or grant it in tests/symbols.allow with a reason"
      bad=$((bad + 1))
    fi
  done < <(nm -u "$object" | awk '{print $2}' | sed 's/@.*//' | sort -u | comm -23 - "$work/own")
done <"$work/list"
[ $bad = 0 ] && echo "ok: $(wc -l <"$work/list") objects use only what they are granted"
exit $((bad > 0))
