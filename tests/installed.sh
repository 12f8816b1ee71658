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
for library in tide tide-actor; do
  readelf -d "$(dirname "$pc")/lib$library.so" | grep -q "SONAME.*lib$library.so.1\]" || { echo "lib$library.so has another SOVERSION than 1"; exit 1; }
done
grep -q '^function tide_tensor:axpy(a, x) end' "$prefix/share/tide/meta/tide.meta.lua" # what editors complete with
cat >"$work/kernel.lua" <<'LUA'
local tide = require "tide"
tide.main(function() print(tide.kernel "lda_top", tide.kernel "mtl_score", tide.kernel "ccd_sums") end)
LUA
(cd "$work" && "$prefix/bin/tide" run kernel.lua 2>&1) | grep -q "function.*function.*function" || { echo "plugins of packages are not installed"; exit 1; }

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

# A node with an agent in a program is seen by the commands, under its cluster's name, until it ends.
cat >"$work/seen.c" <<'C'
#include <stdio.h>
#include <string.h>
#include <tide.h>
#include <tide/log.h>
#include <unistd.h>
static void heard(void *arg, const char *level, const char *node, const char *text) {
  (void)node;
  if (strcmp(level, "debug") != 0) *(int *)arg += text[0] != 0;
}
static int table(void *node) {
  struct tide_table *made;
  const struct tide_table_options o = {.name = "weights", .keys = TIDE_KEYS_DENSE, .key_count = 10, .width = 2};
  const float row[] = {3, 4};
  int rc = tide_table_create(node, &o, &made);
  rc = rc < 0 ? rc : tide_table_push(made, &(uint64_t){7}, 1, row, NULL);
  puts(rc < 0 ? tide_error_message() : "made");
  fflush(stdout);
  return rc < 0 ? rc : tide_sleep(60 * TIDE_SECOND);
}
int main(void) {
  struct tide_node *node;
  char line[8];
  int records = 0;
  if (tide_log_to("loud", NULL, NULL) != TIDE_EINVAL || tide_log_to("debug", heard, &records) < 0) return 2;
  if (tide_node_create(&(struct tide_node_options){.cluster = "seen", .name = "host", .workers = 1}, &node) < 0 ||
      tide_node_agent(node) < 0 ||
      tide_spawn(node, &(struct tide_actor_options){.name = "maker", .run = table, .state = node}, NULL) < 0) {
    puts(tide_error_message());
    return 1;
  }
  (void)!read(0, line, sizeof line); /* until its input is closed */
  if (records == 0 || tide_log_to("none", NULL, NULL) < 0) return 3;
  records = 0;
  tide_node_destroy(node, TIDE_SECOND);
  return records == 0 ? 0 : 4;
}
C
# shellcheck disable=SC2046
cc -std=gnu11 -Wall -Wextra -Werror "$work/seen.c" $(pkg-config --cflags --libs tide) -Wl,-rpath,"$(dirname "$pc")" -o "$work/seen"
mkdir -m 700 "$work/run"
mkfifo "$work/until"
XDG_RUNTIME_DIR=$work/run "$work/seen" <"$work/until" >"$work/seen.txt" 2>&1 &
seen=$!
exec 9>"$work/until"
for _ in $(seq 1200); do grep -q made "$work/seen.txt" && break; kill -0 $seen || break; sleep 0.05; done
tell() { XDG_RUNTIME_DIR=$work/run timeout 30 "$prefix/bin/tide" "$@" --cluster seen; }
# The agent enters the cluster into the run directory some time after tide_node_agent has returned.
for _ in $(seq 1200); do [ -s "$work/run/tide/seen/endpoint" ] && break; kill -0 $seen || break; sleep 0.05; done
tell tables --plain | grep -q "^weights" || { echo "tables does not show what a program made: $(cat "$work/seen.txt")"; exit 1; }
tell actors --where 'name == "maker"' --plain | grep -q maker || { echo "actors does not show a program's"; exit 1; }
# A client reads and pushes it, by a library that needs neither Lua nor BLAS.
# shellcheck disable=SC2046
cc -std=gnu11 -Wall -Wextra -Werror "$source/examples/client.c" $(pkg-config --cflags --libs tide-client) \
   -Wl,-rpath,"$(dirname "$pc")" -o "$work/client"
if ldd "$work/client" | grep -E "lua|blas|minpack"; then echo "libtide-client needs what it must not"; exit 1; fi
got=$(XDG_RUNTIME_DIR=$work/run "$work/client" seen weights 7; XDG_RUNTIME_DIR=$work/run "$work/client" seen weights 6 2)
[ "$got" = "3 4
2 2" ] || { echo "the client reads: $got"; exit 1; }
got=$(tell attach -e 'tables.weights:pull{7}[2] + #node.name') || true
[ "$got" = 8 ] || [ "$got" = 8.0 ] || { echo "attach does not read a program's table: $got"; exit 1; }
XDG_RUNTIME_DIR=$work/run "$prefix/bin/tide" node --cluster seen --name guest --join "$(cat "$work/run/tide/seen/endpoint")" >/dev/null 2>&1 </dev/null &
guest=$!
for _ in $(seq 200); do tell nodes --plain | grep -q "^guest.*up" && break; sleep 0.05; done
kill $guest # its coming and going are records of the log
wait $guest || true
exec 9>&-
wait $seen || { echo "the program with a node ended with $?"; exit 1; }
if tell tables >/dev/null 2>&1; then echo "a node that ended is still found"; exit 1; fi

# Actors alone: a library that needs neither Lua nor BLAS, and shows no name that no header declares.
# shellcheck disable=SC2046
cc -std=gnu11 -Wall -Wextra -Werror "$source/examples/actors.c" $(pkg-config --cflags --libs tide-actor) \
   -Wl,-rpath,"$(dirname "$pc")" -o "$work/actors"
out=$("$work/actors")
echo "$out"
[ "$(grep -c answered <<<"$out")" = 3 ] # the fourth crashed the counter, whose supervisor started another
grep -q "sent 0xc0: that is no number" <<<"$out"
if ldd "$work/actors" | grep -E "lua|blas|minpack"; then echo "libtide-actor needs what it must not"; exit 1; fi
for library in tide tide-actor tide-client; do
  shown=$(nm -D --defined-only "$(dirname "$pc")/lib$library.so" | awk '{print $3}' | sort)
  map=$build/exports.map
  [ $library != tide-client ] || map=$build/client_exports.map
  stray=$(comm -23 <(echo "$shown") <(sed -n 's/^ *\(tide[a-z0-9_]*\);$/\1/p' "$map" | sort))
  if [ -z "$shown" ] || [ -n "$stray" ]; then echo "lib$library.so shows: $stray"; exit 1; fi
done

# Three controllers in a program: both libraries find the plugin where it is installed, and it finds all it takes.
cat >"$work/three.c" <<'C'
#include <stdio.h>
#include <tide/actor.h>
int main(void) {
  struct tide_node *nodes[3] = {0};
  for (int i = 0; i < 3; i++) {
    char name[8];
    snprintf(name, sizeof name, "n%d", i + 1);
    const struct tide_node_options o = {.cluster = "three", .name = name, .no_store = true,
                                        .controllers = i == 0 ? 3 : 0,
                                        .join = i == 0 ? NULL : tide_node_endpoint(nodes[0])};
    if (tide_node_create(&o, &nodes[i]) < 0) {
      puts(tide_error_message());
      return 1;
    }
  }
  for (int i = 3; i-- > 0;) tide_node_destroy(nodes[i], TIDE_SECOND);
  return 0;
}
C
if [ -e "$(dirname "$pc")/tide/tide_raft.so" ]; then
  for library in tide tide-actor; do
    # shellcheck disable=SC2046
    cc -std=gnu11 -Wall -Wextra -Werror "$work/three.c" $(pkg-config --cflags --libs $library) -Wl,-rpath,"$(dirname "$pc")" -o "$work/three"
    XDG_RUNTIME_DIR=$work/run "$work/three" >"$work/three.txt" 2>&1 || { echo "three controllers by $library: $(cat "$work/three.txt")"; exit 1; }
  done
fi

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
#include <tide/client.h>
int main() { return tide_error_name(TIDE_EBUSY)[0] == 'E' ? 0 : 1; }
CPP
cmake -S "$work/consumer" -B "$work/consumer/build" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$work/consumer/build" >/dev/null
"$work/consumer/build/consumer"
echo "ok: pkg-config and CMake consumers build and run"
