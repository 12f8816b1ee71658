#!/usr/bin/env bash
# Installs the package into an empty prefix and builds the embedding example against it, as a user's program would.
set -euo pipefail
build=$1 source=$2
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$build" --prefix "$prefix" >/dev/null
pc=$(dirname "$(find "$prefix" -name tide.pc)")
sed -i "s|^prefix=.*|prefix=$prefix|" "$pc/tide.pc"
export PKG_CONFIG_PATH=$pc
# shellcheck disable=SC2046
cc -std=gnu11 -Wall -Wextra -Werror "$source/examples/embed.c" $(pkg-config --cflags --libs tide libuv) \
   -Wl,-rpath,"$(dirname "$pc")" -o "$prefix/embed"
out=$("$prefix/embed")
echo "$out"
grep -q "row 999 = 10 20 30 40" <<<"$out"
grep -q "three greetings answered" <<<"$out"
"$prefix/bin/tide" version >/dev/null

# The same through the CMake package, with a C++ compiler reading the header.
mkdir "$prefix/consumer"
cat >"$prefix/consumer/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.18)
project(consumer LANGUAGES CXX)
find_package(tide CONFIG REQUIRED)
add_executable(consumer main.cpp)
target_link_libraries(consumer PRIVATE tide::tide)
CMAKE
cat >"$prefix/consumer/main.cpp" <<'CPP'
#include <tide.h>
int main() { return tide_error_name(TIDE_EBUSY)[0] == 'E' ? 0 : 1; }
CPP
cmake -S "$prefix/consumer" -B "$prefix/consumer/build" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$prefix/consumer/build" >/dev/null
"$prefix/consumer/build/consumer"
echo "ok: pkg-config and CMake consumers build and run"
