#!/usr/bin/env bash
# The figures in quiet: waits before each round until the load of the last minute is below 0.3, runs all benchmarks of
# run.sh with their peers, three rounds, and prints a table of medians with the least and the most. What the machine was
# stands above it: processor, core type of BLAS, governor, and the time that its host took away (steal).
#   bench/quiet.sh BUILD [ROUNDS [FILE]]    FILE keeps the rows of all rounds
set -euo pipefail
build=$1 rounds=${2:-3} kept=${3:-$(mktemp)}
here=$(cd "$(dirname "$0")" && pwd)
: >"$kept"

quiet() {
  local waited=0
  while awk '{exit !($1 >= 0.3)}' /proc/loadavg; do
    [ $waited -lt 3600 ] || { echo "quiet.sh: the load is $(cut -d' ' -f1 /proc/loadavg) after an hour, not below 0.3: end what runs beside" >&2; exit 1; }
    sleep 5
    waited=$((waited + 5))
  done
}
steal() { awk '/^cpu /{print $9, $2+$3+$4+$5+$6+$7+$8+$9}' /proc/stat; }

before=$(steal)
for ((round = 1; round <= rounds; round++)); do
  quiet
  "$here/run.sh" "$build" --json >>"$kept"
done
after=$(steal)

echo "Processor: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) cores; BLAS core $("$build/tide" version -v | awk '$1 == "cpu.core" {print $2}');" \
  "governor $(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor 2>/dev/null || echo unknown);" \
  "steal $(echo "$before $after" | awk '{printf "%.2f %%", 100 * ($3 - $1) / ($4 - $2)}'); commit $(git -C "$here" rev-parse --short HEAD 2>/dev/null || echo unknown); $(date -u +%F)"
"$here/medians.py" "$kept"
