#!/usr/bin/env bash
# run.sh BUILD [SECONDS]: every libFuzzer target of a build for so long, from the seeds in corpus/. What it finds
# new goes to BUILD/fuzz, not into the tree. Ends with 1 if a target failed, and says how to repeat it.
set -euo pipefail
build=$1 seconds=${2:-60}
here=$(cd "$(dirname "$0")" && pwd)
failed=0
for target in "$build"/tests/fuzz_*; do
    [ -x "$target" ] && [ -f "$target" ] || continue
    name=$(basename "$target")
    found=$build/fuzz/${name#fuzz_}
    mkdir -p "$found"
    echo "== $name, $seconds s"
    if ! "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$found/" "$found" "$here/corpus/${name#fuzz_}" >"$found.log" 2>&1; then
        failed=1
        tail -25 "$found.log"
        echo "$name failed: repeat with $target $found/(crash|timeout|oom)-*"
    fi
    grep -E 'number_of_executed_units|peak_rss' "$found.log" || true
done
exit $failed
