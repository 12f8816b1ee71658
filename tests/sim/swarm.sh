#!/bin/bash
# swarm.sh SWARM ELASTIC COPIES SHARED DISK WINDOW JOURNAL TIER CLIENTS: so many seeds of the profiles pass; a sample does the same
# again, also from elsewhere and with another stack limit; wrong uses are refused.
. "$(dirname "$0")/harness.sh"
swarm=${1:-40} elastic=${2:-20} copies=${3:-20} shared=${4:-20} disk=${5:-8} window=${6:-20} journal=${7:-4} tier=${8:-10} clients=${9:-4}

# Three of four seeds are the same ones each time, the fourth is of the day.
today=$(($(date +%s) / 86400 * 10000))
seeds() { # PROFILE COUNT
    local new=$(($2 / 4))
    run 0 sim --profile "$1" --seeds "0..$(($2 - new - 1))" --jobs 2
    says err.txt "$(($2 - new)) seeds, 0 failed"
    echo "today's seeds of $1: $today..$((today + new - 1))"
    run 0 sim --profile "$1" --seeds "$today..$((today + new - 1))" --jobs 2
    says err.txt "$new seeds, 0 failed"
}
seeds swarm "$swarm"
seeds elastic "$elastic"
seeds copies "$copies"
seeds shared "$shared"
seeds disk "$disk"
seeds window "$window"
seeds journal "$journal"
seeds tier "$tier"
seeds clients "$clients"

for seed in 3 11; do
    run 0 sim --profile swarm --seed $seed --set chaos_s=10 --check-determinism
    says err.txt 'took the same course'
done
run 0 sim --profile swarm --seed 3 --set chaos_s=10 --json
here=$(sed -n 's/.*"hash": *"\([0-9a-f]*\)".*/\1/p' out.txt)
mkdir -p elsewhere && cd elsewhere || exit 1
(ulimit -s 65536 && SOME_VARIABLE=$(head -c 3000 /dev/zero | tr '\0' x) "$TIDE" sim --profile swarm --seed 3 \
    --set chaos_s=10 --json) >there.txt 2>&1
there=$(sed -n 's/.*"hash": *"\([0-9a-f]*\)".*/\1/p' there.txt)
cd .. || exit 1
same "$here" "$there" "seed 3 elsewhere"

run 2 sim --profile storm --seed 1
says err.txt "profile 'storm' is not known: swarm calm"
run 2 sim --profile swarm --seed 1 --set nothing=1
says err.txt "option 'nothing' is not known: nodes"
run 2 sim --profile swarm --seed 1 --set nodes=two
run 2 sim --profile swarm --seeds 5..4
says err.txt 'is no range A..B'
run 2 sim --profile swarm some.lua
says err.txt 'takes no script'
run 2 sim --profile swarm --seed 1 --nodes 4
says err.txt 'pin an option of the profile by --set'
run 2 sim --set nodes=3 some.lua
says err.txt '--set belongs to --profile'
run 2 sim
says err.txt 'a script or --profile is missing'
finish
