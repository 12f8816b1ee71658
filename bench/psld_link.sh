#!/bin/bash
# PSLD where the network decides: four servers and two workers, each a real node process in a network namespace of its
# own behind an interface limited by `tc tbf`; from one iteration on the link of a server has a fraction of what the
# others have. Prints the lines of examples/psld.lua for each of the assignments named.
#   bench/psld_link.sh [BUILD [MBIT FACTOR WHO...]]      default: 100 4 static psld
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=tests/netns.sh
. "$root/tests/netns.sh"
tide=$(readlink -m "${1:-$root/build}/tide") mbit=${2:-100} factor=${3:-4}
shift $(($# < 3 ? $# : 3))
[ $# -gt 0 ] || set -- static psld

netns_begin "$tide" 6
cat >cut.sh <<END
#!/bin/bash
# NAME MBIT: server sK is in namespace K
k=\${1#s}
ip netns exec $net-\$k tc qdisc replace dev eth\$k root tbf rate \$2mbit burst 32kb latency 50ms &&
    ip netns exec $net-hub tc qdisc replace dev hub\$k root tbf rate \$2mbit burst 32kb latency 50ms
END
chmod +x cut.sh

failed=0
for who in "$@"; do
    netns_limit 1000 0 5 6
    netns_limit "$mbit" 1 2 3 4 # the servers' links are the narrow ones
    netns_controller
    for k in 1 2 3 4; do netns_node "$k" "s$k" --workers 0; done
    for k in 5 6; do netns_node "$k" "n$((k - 4))" --workers 1 --no-store; done
    inside 0 timeout 300 "$tide" run --cluster $cluster "$root/examples/psld.lua" --who "$who" --slow link \
        --mbit "$mbit" --factor "$factor" --width 256 --cost 0 --iterations 200 --cut ./cut.sh >out.txt 2>err.txt \
        </dev/null || { echo "$who: the run failed"; tail -5 err.txt; failed=1; }
    cat out.txt
    netns_stop
done
exit $failed
