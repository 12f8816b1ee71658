# What the tests of the simulator share, on top of the end-to-end tests' harness.
. "$(dirname "${BASH_SOURCE[0]}")/../cluster/harness.sh"

# The run's hash, as `tide sim` says it at the end.
hash_of() { sed -n 's/^sim: seed .* hash \([0-9a-f]\{16\}\)$/\1/p' "$1"; }

same() { [ -n "$1" ] && [ "$1" = "$2" ] || fail "$3: hash $1, then $2"; }
