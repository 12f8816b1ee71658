#!/bin/bash
# Nodes by launchers, each the real one: processes of this machine, Slurm, ssh, mpirun. What is asked for joins, what is
# lost is replaced, that node alone, and nothing is left. A launcher that is not installed is skipped, with the reason.
. "$(dirname "$0")/harness.sh"
. "$root/tests/cluster/slurm.sh"
. "$root/tests/cluster/sshd.sh"

members() { "$TIDE" nodes --cluster grow --plain 2>/dev/null | awk -v p="$1" '$1 ~ "^" p "-" && $3 == "up"' | wc -l; }
there_are() { [ "$(members "$1")" = "$2" ]; }
is_up() { "$TIDE" nodes --cluster grow --plain 2>/dev/null | awk -v n="$1" '$1 == n && $3 == "up"' | grep -q .; }
pid_of() { "$TIDE" nodes --cluster grow --json | grep "\"$1\"" | grep -o '"pid":[0-9]*' | cut -d: -f2; }

# launch KIND OPTIONS...: in the background; its talk in launch.txt, its pid in $launcher
launch() {
    rm -f launch.txt
    "$TIDE" launch "$@" --cluster grow >launch.out 2>launch.txt &
    launcher=$!
    started+=("$launcher")
}
let_go() {
    kill -TERM "$launcher"
    wait "$launcher"
    code=$?
    [ "$code" = 0 ] || fail "tide launch $1 ended with $code: $(tail -3 launch.txt)"
    wait_for 20 there_are "$1" 0 || fail "$1: nodes are left"
}

run 0 up --cluster grow -n 1
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/grow/pids"); do started+=("$pid"); done

# ---- processes of this machine
launch local -n 2
wait_for 20 there_are local 2 || fail "local: two nodes do not join: $(cat launch.txt)"
kill -KILL "$(pid_of local-1)"
wait_for 20 is_up local-3 || fail "local: the lost node is not replaced: $(cat launch.txt)"
is_up local-2 || fail "local: a node that was not lost has gone"
let_go local
says launch.txt 'local-1  gone - connection lost'
run 2 launch nobody -n 1 --cluster grow
run 0 launch none -n 1 --dry-run
says out.txt 'node --join .* --name none-1'

# ---- Slurm
if slurm_begin "$work/slurm" 2 >slurm.txt; then # here, not in a subshell: its pids are ours to end
    started+=("${slurm_pids[@]}")
    export SLURM_CONF=$work/slurm/slurm.conf
    run 2 launch slurm -n 1 --partition nowhere --cluster grow
    says err.txt 'Slurm has no partition `nowhere`'
    run 1 launch slurm -n 1 --partition main --gres gpu:9 --cluster grow
    says err.txt 'sbatch .*[Gg]eneric'
    launch slurm -n 2 --partition main --cpus 2
    wait_for 40 there_are slurm 2 || fail "slurm: two jobs do not join: $(cat launch.txt)"
    [ "$(squeue -h -n tide-grow | wc -l)" = 2 ] || fail "slurm: not one job a node"
    # a job of higher priority takes a machine: one node leaves in order, and asks for another in the queue
    sbatch --parsable -p high -c 2 --wrap 'sleep 6' -o /dev/null >/dev/null
    lost() { grep -q 'slurm-[12]  gone' launch.txt; }
    wait_for 30 lost || fail "slurm: the preempted node is not told: $(cat launch.txt)"
    wait_for 40 there_are slurm 2 || fail "slurm: the preempted node is not replaced: $(cat launch.txt)"
    says launch.txt 'slurm-3  queued - '
    "$TIDE" nodes --cluster grow --json | grep 'slurm-[12]"' | grep -q '"state":"left"' ||
        fail "slurm: the preempted node has not left in order: $("$TIDE" nodes --cluster grow --plain)"
    let_go slurm
    no_jobs() { [ -z "$(squeue -h -n tide-grow)" ]; }
    wait_for 30 no_jobs || fail "slurm: jobs are left"
    # a second launcher has nodes of its own, ends no others, and hears nothing of what surrounds it
    launch slurm -n 1 --partition main
    wait_for 40 there_are slurm 1
    first=$launcher
    mkdir bin
    printf '#!/bin/sh\nenv >"%s/sbatch.env"\necho "sbatch: default partition main" >&2\nexec %s "$@"\n' "$work" \
        "$(command -v sbatch)" >bin/sbatch
    chmod +x bin/sbatch
    PATH=$work/bin:$PATH SLURM_JOB_ID=7 PMIX_RANK=0 SBATCH_PARTITION=nowhere SBATCH_ACCOUNT=us \
        launch slurm -n 1 --partition main
    wait_for 40 grep -q 'slurm-[0-9]*  joined' launch.txt || fail "slurm: a second launcher has no node: $(cat launch.txt)"
    says_not sbatch.env '^(SLURM_JOB_ID|PMIX_RANK|SBATCH_PARTITION)='
    says sbatch.env '^SBATCH_ACCOUNT=us'
    says sbatch.env '^SLURM_CONF='
    kill -TERM "$launcher"
    wait "$launcher" || fail "slurm: the second launcher ended with an error"
    there_are slurm 1 || fail "slurm: the second launcher has ended nodes of the first"
    launcher=$first
    let_go slurm
    wait_for 30 no_jobs || fail "slurm: jobs of two launchers are left"
    # an sbatch that has submitted and cannot tell the number, or fails: the job is found by its label, and once
    for ending in '>/dev/null' '>/dev/null; exit 1'; do
        printf '#!/bin/sh\n%s "$@" %s\n' "$(command -v sbatch)" "$ending" >bin/sbatch
        PATH=$work/bin:$PATH launch slurm -n 1 --partition main
        wait_for 40 there_are slurm 1 || fail "slurm: a node of an untold job does not join: $(cat launch.txt)"
        [ "$(squeue -h -n tide-grow | wc -l)" = 1 ] || fail "slurm: a job is submitted again: $(squeue -h)"
        let_go slurm
        wait_for 30 no_jobs || fail "slurm: untold jobs are left"
    done
    # nodes of a launcher that has ended are left alone, unless they are asked for
    "$TIDE" launch slurm -n 1 --once --partition main --cluster grow >once.txt 2>&1 || fail "slurm --once: $(cat once.txt)"
    launch slurm -n 1 --partition main
    wait_for 40 there_are slurm 2 || fail "slurm: two launchers' nodes: $(cat launch.txt)"
    says launch.txt '1 node of launchers that have ended is here; --adopt takes them over'
    kill -TERM "$launcher"
    wait "$launcher"
    there_are slurm 1 || fail "slurm: a node of another launcher is ended"
    launch slurm -n 1 --adopt --partition main
    wait_for 10 grep -q 'adopted' launch.txt || fail "slurm: no node is adopted: $(cat launch.txt)"
    wait_for 10 there_are slurm 1
    let_go slurm
    wait_for 30 no_jobs || fail "slurm: an adopted job is left"
    slurm_end
else
    slurm_end
    echo "skipped: Slurm: $(cat slurm.txt)"
fi

# ---- ssh
reason=$(sshd_missing)
if [ -z "$reason" ]; then
    run 2 launch ssh -n 1 --cluster grow
    says err.txt '--hosts FILE'
    sshd_begin "$work/ssh"
    started+=("$sshd_pid")
    ssh_options=(--ssh-config "$work/ssh/client" --program "$TIDE")
    printf '127.0.0.1:2 # both here\n' >hosts.txt
    launch ssh -n 2 --hosts hosts.txt "${ssh_options[@]}"
    wait_for 20 there_are ssh 2 || fail "ssh: two nodes do not join: $(cat launch.txt)"
    kill -KILL "$(pid_of ssh-1)"
    wait_for 20 is_up ssh-3 || fail "ssh: the lost node is not replaced: $(cat launch.txt)"
    is_up ssh-2 || fail "ssh: a node that was not lost has gone"
    kill -KILL "$launcher" # with no word to the nodes: they read the end of their input
    wait "$launcher" 2>/dev/null
    wait_for 20 there_are ssh 0 || fail "ssh: nodes outlive their launcher"

    # refused EXPECTED HOST OPTIONS...: the launcher ends with that reason, at once
    refused() {
        local expected=$1
        printf '%s\n' "$2" >hosts.txt
        shift 2
        run 1 launch ssh -n 1 --hosts hosts.txt --cluster grow "$@"
        says err.txt "$expected"
    }
    refused 'no program there: --program' 127.0.0.1 --ssh-config "$work/ssh/client" --program /nowhere/tide
    refused 'does not let this user in' nobody@127.0.0.1 "${ssh_options[@]}"
    refused 'no host of this name' 127.0.0.1 --ssh-config "$work/ssh/client-nowhere" --program "$TIDE"
    refused 'host key is not known' 127.0.0.1 --ssh-config "$work/ssh/client-unknown" --program "$TIDE"
    refused 'host key has changed' 127.0.0.1 --ssh-config "$work/ssh/client-changed" --program "$TIDE"
    kill "$sshd_pid"
    wait "$sshd_pid" 2>/dev/null
    refused 'nothing listens there for ssh' 127.0.0.1 "${ssh_options[@]}"
    printf 'far.example\n' >hosts.txt
    run 2 launch ssh -n 1 --hosts hosts.txt --cluster grow
    says err.txt 'which far.example cannot reach'
    printf '127.0.0.1\n-oProxyCommand=x\n' >hosts.txt
    run 2 launch ssh -n 1 --hosts hosts.txt --cluster grow
    says err.txt 'hosts.txt:2'
else
    echo "skipped: ssh: $reason"
fi

run 0 down grow -y

# ---- mpirun
if command -v mpirun >/dev/null; then
    port=$((20000 + RANDOM % 20000))
    root_option=$([ "$(id -u)" = 0 ] && echo --allow-root)
    "$TIDE" launch mpi -n 3 --listen "tcp:127.0.0.1:$port" --cluster local --program "$TIDE" $root_option \
        >mpi.txt 2>&1 &
    mpi=$!
    started+=("$mpi")
    three() { "$TIDE" nodes --cluster "tcp:127.0.0.1:$port" --plain 2>&1 | grep -c "	up	" | grep -q 3; }
    wait_for 20 three || fail "mpi: three ranks are no cluster: $(cat mpi.txt)"
    for pid in $(node_pids); do kill -TERM "$pid" 2>/dev/null; done
    wait "$mpi"
else
    echo "skipped: mpirun is not installed"
fi
run 2 node --gang tcp:127.0.0.1:1
says err.txt 'finds no rank'
nothing_left
finish
