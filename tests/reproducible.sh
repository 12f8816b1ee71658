#!/usr/bin/env bash
# reproducible.sh [WORK-DIRECTORY]: builds the Debian packages of two copies of the sources in directories with names of
# different length, one of them without the compiler's cache, and compares the files. As long as two builds.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
work=$(realpath -m "${1:-$(mktemp -d)}")
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-1700000000} TIDE_CONFIGURE=-DTIDE_CUDA=OFF
build() { # NAME
  mkdir -p "$work/$1"
  (cd "$source" && git ls-files -z | xargs -0 cp --parents -t "$work/$1")
  (cd "$work/$1" && ./dev package build-package >/dev/null)
}
build one
(umask 077; CCACHE_DISABLE=1 TZ=Asia/Tokyo build another-place)
for deb in "$work"/one/build-package/packages/*.deb; do
  other=$work/another-place/build-package/packages/$(basename "$deb")
  cmp "$deb" "$other" || { echo "differs: $(basename "$deb"); diffoscope $deb $other says in what"; exit 1; }
  sha256sum "$deb"
done
echo "ok: the packages of two directories are the same"
