# A private sshd of Debian's openssh-server for tests: own port of loopback, own keys, one user. Sourced; what it starts
# its caller ends: $sshd_pid.

# Why there can be none; nothing: there can.
sshd_missing() {
    [ "$(id -u)" = 0 ] || { echo "sshd needs root"; return; }
    command -v sshd >/dev/null && command -v ssh >/dev/null || echo "sshd or ssh is not installed"
}

# sshd_begin DIRECTORY: sets sshd_pid; DIRECTORY/client is the configuration of a client that gets in, client-unknown,
# client-changed and client-nowhere are those of clients that do not.
sshd_begin() {
    local d=$1 port i
    port=$((20000 + RANDOM % 20000))
    mkdir -p /run/sshd "$d"
    for i in host user other; do ssh-keygen -q -t ed25519 -N '' -f "$d/$i"; done
    cat >"$d/server" <<CONF
Port $port
ListenAddress 127.0.0.1
HostKey $d/host
AuthorizedKeysFile $d/user.pub
AllowUsers $(id -un)
PidFile $d/pid
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
CONF
    "$(command -v sshd)" -D -f "$d/server" >"$d/log" 2>&1 &
    sshd_pid=$!
    echo "[127.0.0.1]:$port $(cut -d' ' -f1,2 "$d/host.pub")" >"$d/known"
    echo "[127.0.0.1]:$port $(cut -d' ' -f1,2 "$d/other.pub")" >"$d/changed"
    : >"$d/unknown"
    ssh_client "$d" "$port" known >"$d/client"
    ssh_client "$d" "$port" changed >"$d/client-changed"
    ssh_client "$d" "$port" unknown >"$d/client-unknown"
    { echo "Hostname nowhere.invalid"; ssh_client "$d" "$port" known; } >"$d/client-nowhere"
    for ((i = 0; i < 50; i++)); do [ -s "$d/pid" ] && return 0; sleep 0.1; done
    echo "this sshd does not come up: $(tail -2 "$d/log")"
    return 1
}

ssh_client() {
    printf '%s\n' "Port $2" "IdentityFile $1/user" "IdentitiesOnly yes" "UserKnownHostsFile $1/$3" \
        "GlobalKnownHostsFile /dev/null" "StrictHostKeyChecking yes" "ConnectTimeout 5"
}
