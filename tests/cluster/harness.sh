# What the end-to-end tests share. Each test is one script: it sources this file, runs $TIDE in a directory of its own,
# and ends with `finish`. A process that a test starts in the background is ended by its pid.
#
# TIDE names the program; TIDE_LUA_PATH may name lua/ to test Lua files that are not built in.
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
TIDE=${TIDE:-$root/build/tide}
TIDE=$(readlink -f "$TIDE")
work=$(mktemp -d "${TMPDIR:-/tmp}/tide-test-XXXXXX")
export XDG_RUNTIME_DIR=$work/run
TIDE_PROTOCOL=$(sed -n 's/^#define TIDE_PROTOCOL \([0-9]*\)u.*/\1/p' "$root/runtime/include/tide/actor.h")
export TIDE_PROTOCOL # for strangers that speak it
mkdir -m 0700 "$XDG_RUNTIME_DIR"
cd "$work" || exit 1
failures=0
started=()

cleanup() {
    local code=$? pid
    [ "$BASHPID" = "$$" ] || return # a child that a signal met before it had become tide
    for pid in "${started[@]:-}"; do
        [ -n "$pid" ] && kill -KILL "$pid" 2>/dev/null
    done
    cd / && rm -rf "$work"
    if [ "$code" = 0 ] && [ -z "${finished:-}" ]; then
        echo "FAILED: the test ended without \`finish\`"
        exit 1
    fi
}
trap cleanup EXIT

# Plugins: the address sanitizer's dlopen does not look where the program's own would.
if [ -n "${TIDE_SANITIZED:-}" ]; then export LD_LIBRARY_PATH=${TIDE_BUILD_DIR:-$root/build}; fi

# For tests that play a person at a prompt: a chroot without /dev/pts has no terminals.
need_terminals() {
    python3 -c 'import os; os.openpty()' 2>/dev/null || { echo "skipped: no python3 with pseudo-terminals here"; exit 77; }
}

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
    [ -z "${TIDE_MUTANT:-}" ] || exit 1 # a planted mistake is found
}

# near FILE FILE RELATIVE WHAT: the same words, and numbers that differ at most by RELATIVE of the larger. The last digits
# of a sum of floats depend on the shape of the matrix product and on the kernel that the processor selects.
near() {
    [ -s "$1" ] && paste -d'\n' "$1" "$2" | awk -v most="$3" '
        NR % 2 { n = split($0, first); next }
        { if (NF != n) exit bad = 1
          for (i = 1; i <= NF; i++) {
              d = $i - first[i]; if (d < 0) d = -d
              a = $i < 0 ? -$i : $i; b = first[i] < 0 ? -first[i] : first[i]
              if ($i != first[i] && !(d <= most * (a > b ? a : b) && d > 0)) exit bad = 1 } }
        END { exit bad }' || fail "$4: $(paste "$1" "$2" | head -4)"
}

# run EXPECTED_EXIT ARGUMENTS...: runs tide; stdout in out.txt, stderr in err.txt, seconds in $seconds.
run() {
    local expected=$1 began code
    shift
    began=$(date +%s%N)
    timeout -k 5 120 "$TIDE" "$@" >out.txt 2>err.txt </dev/null
    code=$?
    seconds=$(( ($(date +%s%N) - began) / 1000000 ))
    seconds=$(printf '%d.%03d' $((seconds / 1000)) $((seconds % 1000)))
    if [ "$code" != "$expected" ]; then
        fail "tide $* ended with $code, not $expected"
        sed 's/^/  out: /' out.txt | tail -15
        sed 's/^/  err: /' err.txt | tail -15
    fi
}

# begin ARGUMENTS...: starts tide in the background; $driver is its pid, its output goes to the same files.
begin() {
    rm -f out.txt err.txt # what an earlier run said must not be taken for its own
    "$TIDE" "$@" >out.txt 2>err.txt </dev/null &
    driver=$!
    started+=("$driver")
}

# says FILE PATTERN: an extended regular expression.
says() {
    if ! grep -Eq -- "$2" "$1"; then
        fail "$1 does not say /$2/"
        sed "s/^/  $1: /" "$1" | tail -15
    fi
}

says_not() {
    if grep -Eq -- "$2" "$1"; then
        fail "$1 says /$2/"
        grep -E -- "$2" "$1" | sed "s/^/  $1: /" | head -5
    fi
}

# Pids of node processes that belong to this test: their log and sockets lie under its directory. Without processes of
# its own, since on a busy machine hundreds of those take longer than a run.
node_pids() {
    local process
    for process in /proc/[0-9]*; do
        if [ "$process/cwd" -ef "$work" ] && [ "$process/exe" -ef "$TIDE" ]; then
            echo "${process#/proc/}"
        fi
    done
}

# node_pid NAME: of one node of this test; fails if there is none.
node_pid() {
    local pid words
    for pid in $(node_pids); do
        mapfile -d '' -t words 2>/dev/null <"/proc/$pid/cmdline" || continue
        case " ${words[*]} " in
            *" --name $1 "*) echo "$pid" && return 0 ;;
        esac
    done
    return 1
}

# kill_node NAME: kill -9.
kill_node() {
    local victim
    victim=$(node_pid "$1") || fail "no process of node $1"
    kill -KILL "$victim"
}

# Nothing that runs $TIDE in this directory is left. A process that is told to end may take a moment.
nothing_left() {
    local tries
    for tries in 1 2 3 4 5 6 7 8 9 10; do
        [ -z "$(node_pids)" ] && return
        sleep 0.1
    done
    fail "processes are left: $(node_pids | tr '\n' ' ')"
    node_pids | xargs -r kill -KILL
}

# wait_for SECONDS COMMAND...: until it succeeds.
wait_for() {
    local limit=$1 i
    shift
    for ((i = 0; i < limit * 20; i++)); do
        "$@" && return 0
        sleep 0.05
    done
    fail "waited ${limit} s in vain for: $*"
    return 1
}

# Triples whose object follows from subject and relation: a model that learns them ranks far better than chance.
make_triples() {
    awk -v seed="${1:-1}" -v dir="$2" 'BEGIN {
        srand(seed)
        for (i = 0; i < 4000; i++) {
            s = int(rand() * 60); r = int(rand() * 4)
            o = (s * (2 * r + 1) + 7 * r) % 60
            part = i % 20 == 0 ? "valid" : (i % 20 == 1 ? "test" : "train")
            printf "e%d\tr%d\te%d\n", s, r, o > (dir "/" part ".txt")
        }
    }'
}

finish() {
    finished=1
    if [ "$failures" -gt 0 ]; then
        echo "$failures checks failed"
        exit 1
    fi
    echo "ok"
    exit 0
}
