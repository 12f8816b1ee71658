# A private Slurm of Debian's packages for tests: munge, a controller and node daemons, all of this test's directory and of
# loopback. Sourced; what it starts it ends by pid. slurm_begin returns 1, with the reason on stdout, where it cannot be.
slurm_pids=()

# slurm_begin DIRECTORY NODES
slurm_begin() {
    local d=$1 nodes=$2 host i port tool
    [ "$(id -u)" = 0 ] || { echo "Slurm's daemons need root"; return 1; }
    for tool in munged slurmctld slurmd sbatch squeue scontrol; do
        command -v $tool >/dev/null || { echo "$tool is not installed"; return 1; }
    done
    host=$(hostname -s)
    port=$((20000 + RANDOM % 20000))
    mkdir -p "$d/state"
    chmod 755 "$d"
    dd if=/dev/urandom of="$d/key" bs=1024 count=1 2>/dev/null
    chmod 600 "$d/key"
    munged --foreground --force --key-file="$d/key" --socket="$d/munge" --pid-file="$d/munged.pid" \
        --log-file="$d/munged.log" --seed-file="$d/seed" >"$d/munged.out" 2>&1 &
    slurm_pids+=($!)
    {
        cat <<CONF
ClusterName=tide
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
AuthType=auth/munge
AuthInfo=socket=$d/munge
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$d/state
SlurmdSpoolDir=$d/spool-%n
SlurmctldPidFile=$d/slurmctld.pid
SlurmctldLogFile=$d/slurmctld.log
SlurmdPidFile=$d/slurmd-%n.pid
SlurmdLogFile=$d/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,batch_sched_delay=0
KillWait=5
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
CONF
        for ((i = 1; i <= nodes; i++)); do
            echo "NodeName=s$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + i)) CPUs=2"
        done
        echo "PartitionName=main Nodes=s[1-$nodes] Default=YES PriorityTier=1 GraceTime=12"
        echo "PartitionName=high Nodes=s[1-$nodes] PriorityTier=10"
    } >"$d/slurm.conf"
    export SLURM_CONF=$d/slurm.conf
    for ((i = 0; i < 50; i++)); do [ -S "$d/munge" ] && break; sleep 0.1; done
    slurmctld -D -c -f "$SLURM_CONF" >"$d/slurmctld.out" 2>&1 &
    slurm_pids+=($!)
    for ((i = 1; i <= nodes; i++)); do
        mkdir -p "$d/spool-s$i"
        slurmd -D -N "s$i" -f "$SLURM_CONF" >"$d/slurmd-s$i.out" 2>&1 &
        slurm_pids+=($!)
    done
    for ((i = 0; i < 300; i++)); do
        [ "$(sinfo -h -p main -t idle -o %D 2>/dev/null | head -1)" = "$nodes" ] && return 0
        sleep 0.1
    done
    echo "this Slurm does not come up: $(tail -2 "$d/slurmctld.log" 2>/dev/null)"
    return 1
}

slurm_end() {
    local i
    scancel -u root -s KILL -f >/dev/null 2>&1
    for ((i = ${#slurm_pids[@]} - 1; i >= 0; i--)); do kill "${slurm_pids[i]}" 2>/dev/null; done
    { wait "${slurm_pids[@]}"; } 2>/dev/null
}
