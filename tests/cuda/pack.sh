#!/usr/bin/env bash
# pack.sh BUILD: makes BUILD/pack and BUILD/pack.tar.gz of a build with the CUDA module.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$1
pack=$build/pack
rm -rf "$pack"
mkdir -p "$pack/lib"
cp "$build/tide" "$build/tide_cuda.so" "$build/bench/bench_gpu" "$pack/"
for test in test_backends test_ops test_decisions test_gpu_graph test_gpu_vertex test_gpu_run; do
  cp "$build/tests/$test" "$pack/"
done
cp "$here/pack_run.sh" "$pack/run"
cp "$here/pack_job.lua" "$pack/job.lua"
chmod +x "$pack/run"
strip "$pack"/tide "$pack"/test_* "$pack"/bench_gpu "$pack"/tide_cuda.so
# The C library and its companions are every machine's own; the driver's library is the GPU's.
for program in "$pack"/tide "$pack"/test_* "$pack"/bench_gpu "$pack"/tide_cuda.so; do
  ldd "$program" | awk '$3 ~ /^\// {print $3}'
done | sort -u | grep -vE '/(libc|libm|libdl|librt|libpthread|libcuda|ld-linux[^/]*)\.so' |
  xargs -I{} cp -L {} "$pack/lib/"
tar -czf "$build/pack.tar.gz" -C "$build" pack
bytes=$(stat -c %s "$build/pack.tar.gz")
echo "$build/pack.tar.gz: $((bytes >> 20)) MiB"
[ "$bytes" -le $((64 << 20)) ] || { echo "the pack is larger than 64 MiB" >&2; exit 1; }
