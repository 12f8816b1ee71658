# Network namespaces for tests and benchmarks of real nodes: one for each, joined by a bridge, behind interfaces that
# `tc tbf` limits both ways. Sourced; $1 is the build directory. Works in a directory of its own, which goes at the end.
#
# Needs root, ip, tc and python3; without them it says so and skips. The processes of a namespace keep to loopback
# addresses, as the program wants it: the namespace has 127.0.0.K on its interface instead of on lo.
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tide=$(readlink -f "${1:-$root/build}/tide")
skip() { echo "skipped: $*"; exit 77; }
[ "$(id -u)" = 0 ] || skip "network namespaces need root"
for tool in ip tc python3; do command -v $tool >/dev/null || skip "$tool is not installed"; done
[ -x "$tide" ] || { echo "no program $tide"; exit 2; }
work=$(mktemp -d /tmp/tide-netns-XXXXXX)
net=tide$$
clusters=0
export XDG_RUNTIME_DIR=$work/run
mkdir -m 0700 "$XDG_RUNTIME_DIR"
cd "$work" || exit 2
pids=()
cleanup() {
    local k
    for k in "${pids[@]:-}"; do [ -n "$k" ] && kill -KILL "$k" 2>/dev/null; done
    for k in $(ip netns list | awk '{print $1}' | grep "^$net-"); do ip netns del "$k"; done
    rm -rf "$work"
}
trap cleanup EXIT
inside() { local k=$1; shift; ip netns exec "$net-$k" "$@"; }

# Namespaces 0 (controller and driver) .. COUNT (nodes), joined by a bridge in one of its own.
make_namespaces() { # COUNT
    local k
    namespaces=$1
    ip netns add "$net-hub" || skip "no network namespaces here"
    inside hub ip link add name br0 type bridge
    inside hub ip link set br0 up
    for ((k = 0; k <= namespaces; k++)); do
        ip netns add "$net-$k"
        ip link add "eth$k" netns "$net-$k" type veth peer name "hub$k" netns "$net-hub"
        inside hub ip link set "hub$k" master br0 up
        inside "$k" ip link set lo up
        inside "$k" ip addr del 127.0.0.1/8 dev lo
        inside "$k" ip link set "eth$k" up
        inside "$k" sh -c "echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet"
        inside "$k" ip addr add "127.0.0.$((k + 1))/24" dev "eth$k"
    done
}

limit_one() { # NAMESPACE MBIT: its interface, both ways; a queue of 50 ms
    inside "$1" tc qdisc replace dev "eth$1" root tbf rate "$2mbit" burst 32kb latency 50ms || skip "no tc tbf here"
    inside hub tc qdisc replace dev "hub$1" root tbf rate "$2mbit" burst 32kb latency 50ms
}
limit() { # MBIT: every interface
    local k
    for ((k = 0; k <= namespaces; k++)); do limit_one "$k" "$1"; done
}

# A new cluster: its controller in namespace 0; start_node adds nodes, stop_nodes ends all of them.
start_controller() {
    local k
    clusters=$((clusters + 1))
    cluster=lab$clusters
    port=$((7000 + clusters))
    inside 0 "$tide" node --controller --nodes 0 --no-store --workers 0 --cluster $cluster \
        --listen tcp:127.0.0.1:$port >controller.log 2>&1 &
    nodes=($!)
    pids+=($!)
    for ((k = 0; k < 50; k++)); do [ -e "$XDG_RUNTIME_DIR/tide/$cluster/endpoint" ] && break; sleep 0.1; done
    [ -e "$XDG_RUNTIME_DIR/tide/$cluster/endpoint" ] || { cat controller.log; exit 1; }
}
start_node() { # NAMESPACE NAME OPTIONS...
    local k=$1 name=$2
    shift 2
    inside "$k" "$tide" node --join tcp:127.0.0.1:$port --cluster $cluster --name "$name" "$@" \
        --listen "tcp:127.0.0.$((k + 1)):$port" >"$name.log" 2>&1 &
    nodes+=($!)
    pids+=($!)
    sleep 0.5
}
stop_nodes() {
    kill -KILL "${nodes[@]}" 2>/dev/null
    { wait "${nodes[@]}"; } 2>/dev/null
}
