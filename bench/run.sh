#!/usr/bin/env bash
# All benchmarks one after the other, peers beside ours. One line a row; --json: one object a line.
set -euo pipefail
build=$(readlink -f "$1")
shift
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OPENBLAS_NUM_THREADS=1
# The peers' BLAS computes with the core that Tide's chose: by itself it may know less of the processor.
export OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-$("$build/tide" version -v | awk '$1 == "cpu.core" {print $2}')}

[[ " $* " == *" --json "* ]] || echo "# $(date -u +%F) $(uname -m), $(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), load $(cut -d' ' -f1 /proc/loadavg)"
"$build/bench/bench_actors" "$@"
if command -v g++ >/dev/null && [ -e /usr/include/caf/all.hpp ]; then
  g++ -std=c++17 -O2 "$here/peers/peer_caf.cpp" -lcaf_core -o "$work/peer_caf" && "$work/peer_caf" "$@"
fi
if command -v erlc >/dev/null; then
  erlc -o "$work" "$here/peers/peer_erlang.erl"
  had_epmd=$(pgrep -x epmd || true)
  json=""
  [[ " $* " == *" --json "* ]] && json=json
  (cd "$work" && erl -noshell +P 2000000 -pa "$work" -sname tide_bench_a -setcookie tide_bench -s peer_erlang main $json)
  [ -n "$had_epmd" ] || epmd -kill >/dev/null 2>&1 || true
fi
for bench in lua wire kernels policy programs vertex; do
  "$build/bench/bench_$bench" "$@"
done
if python3 -c 'import torch' 2>/dev/null; then
  python3 "$here/peers/peer_torch.py" "$@"
  python3 "$here/peers/peer_torch_trees.py" "$@"
fi
"$build/bench/bench_echo" "$@"
"$build/bench/bench_links" --net tcp "$@"
if [ -e /usr/include/zmq.h ]; then
  cc -std=gnu11 -O2 -I"$here/.." "$here/peers/peer_zmq.c" -lzmq -o "$work/peer_zmq" && "$work/peer_zmq" "$@"
fi
"$build/bench/bench_store" --net tcp "$@"
for script in swap migrate overload; do
  (cd "$work" && "$build/tide" run "$here/$script.lua" "$@" 2>"$script.log") || cat "$work/$script.log" >&2
done
"$here/applications.py" "$build/tide" "$@"
"$here/allocation.py" "$build" "$@"
