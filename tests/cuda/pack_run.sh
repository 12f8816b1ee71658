#!/usr/bin/env bash
# run [--json]: tests and benchmarks on this machine's GPU, with what lies beside this script; nothing is installed. 77: no
# GPU can be used here, and why. Figures go to stdout, what the tests say to stderr.
set -u
here=$(cd "$(dirname "$0")" && pwd)
export LD_LIBRARY_PATH=$here:$here/lib:/usr/local/cuda/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export TIDE_CUDA_DIRECTORY=$here XDG_RUNTIME_DIR
XDG_RUNTIME_DIR=$(mktemp -d)
trap 'rm -rf "$XDG_RUNTIME_DIR"' EXIT
cd "$XDG_RUNTIME_DIR" || exit 1
reason=$("$here/tide" version -v | sed -n 's/^ *cuda\.reason *//p')
[ -z "$reason" ] || { echo "no GPU to test on: $reason" >&2; exit 77; }
failed=0
check() { # NAME SECONDS COMMAND...
  local name=$1 limit=$2 began=$SECONDS
  shift 2
  if timeout -k 5 "$limit" "$@" >log.txt 2>&1; then
    echo "ok      $name ($((SECONDS - began)) s)" >&2
  else
    echo "FAILED  $name ($((SECONDS - began)) s)" >&2
    tail -20 log.txt >&2
    failed=1
  fi
}
for test in test_backends test_ops test_decisions test_gpu_graph test_gpu_vertex test_gpu_run; do
  check "$test" 60 "$here/$test"
done
check "nn.job on cuda" 60 "$here/tide" run "$here/job.lua"
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [ -n "$sanitizer" ]; then
  check "memcheck" 60 env CMOCKA_TEST_FILTER='*agree*' "$sanitizer" --tool memcheck --error-exitcode 9 "$here/test_gpu_run"
  check "racecheck" 60 "$sanitizer" --tool racecheck --error-exitcode 9 "$here/test_gpu_run"
fi
timeout 120 "$here/bench_gpu" "$@" || failed=1
exit $failed
