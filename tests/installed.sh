#!/usr/bin/env bash
# installed.sh BUILD SOURCE [PREFIX]: builds the examples against an installation, as a user's program would: of BUILD
# in an empty prefix, or one that is there, such as that of unpacked packages.
set -euo pipefail
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=${3:-$work/prefix}
[ -n "${3:-}" ] || cmake --install "$build" --prefix "$prefix" >/dev/null
pc=$(dirname "$(find "$prefix" -name tide.pc)")
export PKG_CONFIG_PATH=$pc
# shellcheck disable=SC2046
cc -std=gnu11 -Wall -Wextra -Werror "$source/examples/embed.c" $(pkg-config --cflags --libs tide libuv) \
   -Wl,-rpath,"$(dirname "$pc")" -o "$work/embed"
out=$("$work/embed")
echo "$out"
grep -q "row 999 = 10 20 30 40" <<<"$out"
grep -q "three greetings answered" <<<"$out"
"$prefix/bin/tide" version >/dev/null
grep -q '^function tide_tensor:axpy(a, x) end' "$prefix/share/tide/meta/tide.meta.lua" # what editors complete with

# What is installed finds headers and plugins by where it lies, whatever prefix the build was configured for.
[ "$(cd "$(pkg-config --variable=includedir tide)" && pwd)" = "$(cd "$prefix/include" && pwd)" ]
for file in "$prefix/bin/tide" "$(dirname "$pc")/libtide.so"; do
  readelf -d "$file" | grep -q 'RUNPATH.*[$]ORIGIN' || { echo "$file looks for plugins elsewhere: $(readelf -d "$file" | grep RUNPATH)"; exit 1; }
done
if [ -e "$(dirname "$pc")/tide/tide_raft.so" ]; then
  export XDG_RUNTIME_DIR=$work
  (cd "$work" && LD_DEBUG=libs timeout 3 "$prefix/bin/tide" node --controllers 3 --cluster installed --name c1 >node.log 2>libs.log) || true
  grep -q "calling init: .*$(basename "$prefix").*/tide_raft.so" "$work"/libs.log || { echo "the plugin of another place was loaded"; exit 1; }
fi

# Actors alone: a library that needs neither Lua nor BLAS, and shows no name that no header declares.
# shellcheck disable=SC2046
cc -std=gnu11 -Wall -Wextra -Werror "$source/examples/actors.c" $(pkg-config --cflags --libs tide-actor) \
   -Wl,-rpath,"$(dirname "$pc")" -o "$work/actors"
out=$("$work/actors")
echo "$out"
[ "$(grep -c answered <<<"$out")" = 3 ] # the fourth crashed the counter, whose supervisor started another
grep -q "sent 0xc0: that is no number" <<<"$out"
if ldd "$work/actors" | grep -E "lua|blas|minpack"; then echo "libtide-actor needs what it must not"; exit 1; fi
for library in tide tide-actor; do
  shown=$(nm -D --defined-only "$(dirname "$pc")/lib$library.so" | awk '{print $3}' | sort)
  stray=$(comm -23 <(echo "$shown") <(sed -n 's/^ *\(tide[a-z_]*\);$/\1/p' "$build/exports.map" | sort))
  if [ -z "$shown" ] || [ -n "$stray" ]; then echo "lib$library.so shows: $stray"; exit 1; fi
done

# The same through the CMake package, with a C++ compiler reading the header.
mkdir "$work/consumer"
cat >"$work/consumer/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.18)
project(consumer LANGUAGES CXX)
find_package(tide CONFIG REQUIRED)
add_executable(consumer main.cpp)
target_link_libraries(consumer PRIVATE tide::tide)
CMAKE
cat >"$work/consumer/main.cpp" <<'CPP'
#include <tide.h>
int main() { return tide_error_name(TIDE_EBUSY)[0] == 'E' ? 0 : 1; }
CPP
cmake -S "$work/consumer" -B "$work/consumer/build" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$work/consumer/build" >/dev/null
"$work/consumer/build/consumer"
echo "ok: pkg-config and CMake consumers build and run"
