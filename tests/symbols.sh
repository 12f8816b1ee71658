#!/usr/bin/env bash
# The port is the only way out: every object of the library may use only the outside symbols that symbols.allow grants
# it. A line there is `object-pattern symbol-pattern`, both shell patterns; a new one needs a reason in its comment.
set -euo pipefail
library=$1
allow=$(dirname "$0")/symbols.allow
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$library" "$work/lib.a"
(cd "$work" && ar x lib.a && rm lib.a)
(cd "$work" && nm --defined-only ./*.o | awk 'NF==3 {print $3}' | sort -u) >"$work/own"
bad=0
for object in "$work"/*.o; do
  name=$(basename "$object" .o)
  name=${name%.c}
  while read -r symbol; do
    granted=0
    while read -r objects symbols _; do
      # shellcheck disable=SC2254
      case $name in $objects) case $symbol in $symbols) granted=1; break ;; esac ;; esac
    done < <(grep -v -e '^#' -e '^$' "$allow")
    if [ $granted = 0 ]; then
      echo "$name.c uses $symbol: go through the port, or grant it in tests/symbols.allow with a reason"
      bad=$((bad + 1))
    fi
  done < <(nm -u "$object" | awk '{print $2}' | sed 's/@.*//' | sort -u | comm -23 - "$work/own")
done
[ $bad = 0 ] && echo "ok: $(ls "$work"/*.o | wc -l) objects use only what they are granted"
exit $((bad > 0))
