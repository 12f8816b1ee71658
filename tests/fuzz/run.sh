#!/usr/bin/env bash
# run.sh BUILD [SECONDS [NAME...]]: every libFuzzer target of a build for so long, or those of these names, from the seeds
# in corpus/ and with the words of dictionaries/. What it finds new goes to BUILD/fuzz, not into the tree. Ends with 1 if
# a target failed, and says how to repeat it.
set -euo pipefail
build=$1 seconds=${2:-60}
shift $(($# < 2 ? $# : 2))
here=$(cd "$(dirname "$0")" && pwd)
failed=0
for target in "$build"/tests/fuzz_*; do
    [ -x "$target" ] && [ -f "$target" ] || continue
    name=$(basename "$target")
    [ $# -eq 0 ] || [[ " $* " == *" ${name#fuzz_} "* ]] || continue
    found=$build/fuzz/${name#fuzz_} words=$here/dictionaries/${name#fuzz_}.dict
    [ -e "$words" ] || words=$here/dictionaries/msgpack.dict
    rm -rf "$found.world"
    mkdir -p "$found" "$found.world" # the inputs of a world that serves several (fuzz_clocked.c)
    leaks=1
    [ "$name" != fuzz_clocked ] || leaks=0 # a world that lives has memory that only its fibers know; replays look for leaks
    echo "== $name, $seconds s"
    if ! TIDE_FUZZ_WORLD=$found.world ASAN_OPTIONS=detect_leaks=$leaks "$target" -dict="$words" \
        -detect_leaks=$leaks -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="$found/" "$found" "$here/corpus/${name#fuzz_}" >"$found.log" 2>&1; then
        failed=1
        tail -25 "$found.log"
        echo "$name failed: repeat with $target $found/(crash|timeout|oom)-*"
        [ -z "$(ls "$found.world")" ] || echo "    and, if that passes, with $target $found.world/*"
    fi
    grep -E 'number_of_executed_units|peak_rss' "$found.log" || true
done
exit $failed
