# Network namespaces for real processes behind limited links. Sourced by tests/sim_vs_netns.sh, bench/ddp.sh,
# bench/mf_link.sh and bench/psld_link.sh; needs root, ip and tc.
#
# The program keeps to loopback addresses, so namespace K has 127.0.0.(K + 1) on its interface instead of on lo; other
# programs find it under 10.77.0.(K + 1).
net=tide$$
skip() { echo "skipped: $*" >&2; exit 77; }
inside() { local k=$1; shift; ip netns exec "$net-$k" "$@"; }

# netns_begin TIDE COUNT: namespaces 0 (controller and driver) .. COUNT (nodes), joined by a bridge in one of its own; the
# working directory is a new one in $work. All of it goes when the shell ends.
netns_begin() {
    local tool k
    tide=$1
    netns_last=$2
    [ "$(id -u)" = 0 ] || skip "network namespaces need root"
    for tool in ip tc python3; do command -v $tool >/dev/null || skip "$tool is not installed"; done
    [ -x "$tide" ] || { echo "no program $tide" >&2; exit 2; }
    work=$(mktemp -d /tmp/tide-netns-XXXXXX)
    trap netns_end EXIT
    export XDG_RUNTIME_DIR=$work/run
    mkdir -m 0700 "$XDG_RUNTIME_DIR"
    cd "$work" || exit 2
    ip netns add "$net-hub" || skip "no network namespaces here"
    inside hub true 2>/dev/null || skip "network namespaces need a / that is a mount point, and this is none"
    inside hub ip link add name br0 type bridge
    inside hub ip link set br0 up
    for ((k = 0; k <= netns_last; k++)); do
        ip netns add "$net-$k"
        ip link add "eth$k" netns "$net-$k" type veth peer name "hub$k" netns "$net-hub"
        inside hub ip link set "hub$k" master br0 up
        inside "$k" ip link set lo up
        inside "$k" ip addr del 127.0.0.1/8 dev lo
        inside "$k" ip link set "eth$k" up
        inside "$k" sh -c "echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet"
        inside "$k" ip addr add "10.77.0.$((k + 1))/24" dev "eth$k"
        inside "$k" ip addr add "127.0.0.$((k + 1))/24" dev "eth$k"
    done
}

netns_end() {
    local k
    netns_stop
    for k in $(ip netns list | awk '{print $1}' | grep "^$net-"); do ip netns del "$k"; done
    rm -rf "$work"
}

# netns_stop: ends all that runs in the namespaces.
netns_stop() {
    local k pids
    for ((k = 0; k <= netns_last; k++)); do
        mapfile -t pids < <(ip netns pids "$net-$k" 2>/dev/null)
        [ ${#pids[@]} = 0 ] || kill -KILL "${pids[@]}" 2>/dev/null
    done
    { wait; } 2>/dev/null
}

# netns_limit MBIT [K...]: the interfaces of these, or of all, both ways; a queue of 50 ms
netns_limit() {
    local mbit=$1 k all
    shift
    [ $# -gt 0 ] || mapfile -t all < <(seq 0 "$netns_last")
    for k in "${@:-${all[@]}}"; do
        inside "$k" tc qdisc replace dev "eth$k" root tbf rate "${mbit}mbit" burst 32kb latency 50ms ||
            skip "no tc tbf here"
        inside hub tc qdisc replace dev "hub$k" root tbf rate "${mbit}mbit" burst 32kb latency 50ms
    done
}

# netns_controller: a controller in namespace 0; the cluster is $cluster.
netns_starts=0
netns_controller() {
    local k
    netns_starts=$((netns_starts + 1))
    cluster=lab$netns_starts
    netns_port=$((7000 + netns_starts))
    inside 0 "$tide" node --controller --nodes 0 --no-store --workers 0 --cluster $cluster \
        --listen tcp:127.0.0.1:$netns_port >controller.log 2>&1 &
    for ((k = 0; k < 100; k++)); do [ -e "$XDG_RUNTIME_DIR/tide/$cluster/endpoint" ] && break; sleep 0.1; done
    [ -e "$XDG_RUNTIME_DIR/tide/$cluster/endpoint" ] || { cat controller.log >&2; exit 1; }
}

# netns_node K NAME OPTIONS...: a node of it in namespace K.
netns_node() {
    local k=$1 name=$2
    shift 2
    inside "$k" "$tide" node --join tcp:127.0.0.1:$netns_port --cluster $cluster --name "$name" "$@" \
        --listen "tcp:127.0.0.$((k + 1)):$netns_port" >"$name.log" 2>&1 &
    sleep 0.5
}

# netns_start COUNT: a controller and nodes n1.. with one worker each.
netns_start() {
    local k
    netns_controller
    for ((k = 1; k <= $1; k++)); do netns_node "$k" "n$k" --workers 1; done
}
