#!/usr/bin/env bash
# The six commands of docs/guides/several-machines.md, as they stand there, on two network namespaces; only the address is the
# namespace's, and what scp would copy is copied here.
here=$(cd "$(dirname "$0")/.." && pwd)
source "$here/netns.sh"
netns_begin "$(readlink -f "${TIDE:-$here/../build/tide}")" 1
mkdir bin A B
ln -s "$tide" bin/tide
printf '#!/bin/sh\ncp -r "$2" ../B/"${3#B:}"\n' >bin/scp
chmod +x bin/scp
cp -r "$here/../examples" A/
export PATH=$PWD/bin:$PATH
mapfile -t lines < <(grep -E '^[AB]\$ ' "$here/../docs/guides/several-machines.md" | sed 's/10\.0\.0\.4/10.77.0.1/g')
[ ${#lines[@]} = 6 ] || { echo "the page has ${#lines[@]} commands, not 6"; exit 1; }
for line in "${lines[@]}"; do
    command=${line#?\$ }
    case $line in
    *" &") (cd "${line:0:1}" && inside "$([ "${line:0:1}" = A ] && echo 0 || echo 1)" bash -c "${command% &}") \
        >>"node-${line:0:1}.log" 2>&1 & sleep 2 ;;
    *export*) eval "$command" ;;
    *) (cd "${line:0:1}" && inside 0 bash -c "$command") >out.txt 2>err.txt ||
        { echo "not ok: $line"; cat err.txt ./*.log; exit 1; } ;;
    esac
done
grep -q 'test RMSE' out.txt || { echo "no training run:"; cat out.txt err.txt ./*.log; exit 1; }
(cd A && inside 0 tide nodes --plain) | grep -c '	up	' | grep -qx 2 || { echo "not two nodes"; exit 1; }
echo ok
