#!/usr/bin/env bash
# Runs the Promela models of this folder: every base model must verify, every weakening must be refuted.
# usage: run.sh [-k DIR] [MODEL...]
# One line a run, with processor seconds; exit 0 if all came out as expected, 77 if spin is missing.
#   -k DIR   keep sources, programs and trails in DIR
# JOBS (all cores) rows at a time, each at most 3 GB. Exhaustive with collapsed states; nothing is hashed or sampled.
# Compiled without optimisation, since gcc spends more on these programs than the searches gain: CFLAGS=-O2 for larger
# sizes.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
memory_mb=3000
seconds_max=240 # of one run; the machine may be shared

keep=""
if [ "${1:-}" = "-k" ]; then
  keep=$2
  shift 2
fi
only=" $* "

for tool in spin cc timeout; do
  command -v "$tool" >/dev/null || { echo "run.sh: $tool is not installed (Debian: spin, gcc, coreutils)"; exit 77; }
done

# model | holds or fails | flags
table='
reloc|holds|-DSYNC
reloc|holds|-DSYNC -DLOCS=2
reloc|holds|-DSYNC -DN=4 -DOPS=1
reloc|holds|
reloc|holds|-DCACHE
reloc|holds|-DCACHE -DFOCUS -DOPS=4 -DLOCS=2
reloc|holds|-DSYNC -DREORDER
reloc|holds|-DSYNC -DCONTROL
reloc|holds|-DOWNLANE
reloc|holds|-DDUPDATA
reloc|holds|-DDUPCTL -DSYNC
reloc|holds|-DSYNC -DBLOCK -DCAP=1
reloc|holds|-DSYNC -DNOQUEUE
reloc|fails|-DCACHE -DFOCUS -DOPS=3 -DNOFENCE
reloc|fails|-DCACHE -DFOCUS -DOPS=3 -DLOCNOW
reloc|fails|-DCACHE -DFOCUS -DOPS=4 -DLOCS=2 -DANYTERM
reloc|fails|-DCACHE -DFOCUS -DOPS=4 -DLEAP
reloc|fails|-DREORDER
reloc|fails|-DCONTROL
reloc|fails|-DSYNC -DLATE
reloc|fails|-DNOQUEUE
reloc|fails|-DDUPDATA -DNOIDS
reloc|fails|-DDUPDATA -DLOCALIDS
reloc|fails|-DDUPDATA -DCOUNT
reloc|fails|-DDUPCTL -DNOTERMS
reloc|fails|-DDUPCTL -DLOCDIR
reloc|fails|-DBLOCK -DCAP=1
reloc|fails|-DBLOCK -DCAP=2 -DOPS=3
slot|holds|-DOPMASK=1 -DLOCS=2
slot|holds|-DOPMASK=1 -DOPS=3
slot|holds|-DOPMASK=2
slot|holds|-DOPMASK=4 -DOPS=3
slot|holds|-DOPMASK=5
slot|holds|-DN=4 -DOPMASK=4 -DLOCMASK=11
slot|holds|-DN=4 -DOPMASK=1 -DLOCMASK=14
slot|fails|-DOPMASK=1 -DNOCLOSE
slot|fails|-DOPMASK=1 -DNOECHO
slot|fails|-DOPMASK=2 -DWISHES
slot|fails|-DOPMASK=1 -DNOWAIT
slot|fails|-DOPMASK=2 -DNOFENCE
slot|fails|-DOPMASK=5 -DNOTHELD
slot|fails|-DOPMASK=1 -DKEPT
slot|fails|-DOPMASK=1 -DQUEUED
slot|fails|-DN=4 -DOPMASK=4 -DFORMER
slot|fails|-DOPMASK=1 -DFRONT
replica|holds|
replica|holds|-DCRASH -DOPMASK=3
replica|holds|-DCRASH -DOPMASK=6 -DLOCMASK=6
replica|holds|-DCRASH -DLOCMASK=2
replica|holds|-DCRASH -DRENEW -DOPMASK=3 -DLOCMASK=6
replica|holds|-DCRASH -DLOCMASK=6
replica|holds|-DSUSPECT -DOPMASK=6 -DLOCMASK=6
replica|holds|-DSUSPECT -DOPMASK=3 -DLOCMASK=6
replica|fails|-DCRASH -DPULLVALID
replica|fails|-DSUSPECT -DOPMASK=3 -DLOCMASK=6 -DVICTIM=2 -DNOLEASE
replica|fails|-DSUSPECT -DOPMASK=6 -DLOCMASK=2 -DNOWAIT
replica|fails|-DSUSPECT -DOPMASK=3 -DLOCMASK=6 -DVICTIM=2 -DSUSPECTONLY
replica|fails|-DCRASH -DNODRAIN
replica|fails|-DSUSPECT -DNOFENCE
replica|fails|-DCRASH -DNOIDS
replica|fails|-DCRASH -DEARLYACK
replica|fails|-DCRASH -DNORESEND
replica|fails|-DCRASH -DVICTIM=2 -DOPMASK=2 -DLOCMASK=2 -DDUPNOW
chain|holds|-DCRASH -DSUSPECT -DDEATHS=2 -DREADS -DPULLS=1
chain|holds|-DSUSPECT -DDEATHS=1 -DREADS -DOWN
chain|holds|-DCRASH -DDEATHS=2 -DREADS -DOPS=3 -DPULLS=1 -DCAP=8
chain|holds|-DCRASH -DDEATHS=1 -DJOIN -DCHAIN=2 -DREADS -DOWN -DCAP=8
chain|holds|-DCRASH -DDEATHS=2 -DJOIN -DCHAIN=2 -DREADS -DCAP=8
chain|holds|-DFIRST=1 -DREADS -DOPS=2 -DPULLS=1 -DRENEW=2
chain|holds|-DFIRST=1 -DREADS -DCRASH -DDEATHS=1 -DRENEW=3
chain|holds|-DFIRST=3 -DSECOND=1 -DN=4 -DCHAIN=282 -DCAP=4
chain|fails|-DSUSPECT -DDEATHS=1 -DOWN -DNOFENCE
chain|fails|-DCRASH -DDEATHS=1 -DNONUMBERS
chain|fails|-DCRASH -DDEATHS=2 -DJOIN -DCHAIN=2 -DCAP=8 -DSNAPNOIDS
chain|fails|-DCRASH -DDEATHS=2 -DREADS -DNOBARRIER
chain|fails|-DSUSPECT -DDEATHS=1 -DREADS -DNOWAIT
chain|fails|-DCRASH -DSUSPECT -DDEATHS=2 -DREADS -DLASTONLY
chain|fails|-DSUSPECT -DDEATHS=1 -DREADS -DNOLEASE
chain|fails|-DFIRST=1 -DREADS -DRENEW=2 -DNOTELL
chain|fails|-DFIRST=1 -DREADS -DCRASH -DDEATHS=1 -DRENEW=3 -DTELLONE
chain|fails|-DCRASH -DDEATHS=1 -DREADS -DOWN -DPULLS=1 -DPULLNOW
chain|fails|-DCRASH -DDEATHS=2 -DFIRSTACK
chain|fails|-DCRASH -DDEATHS=1 -DNORETARGET
chain|fails|-DCRASH -DDEATHS=1 -DOPS=2 -DBACKWARDS
chain|fails|-DFIRST=1 -DOPS=2 -DPASSEARLY
chain|fails|-DCRASH -DDEATHS=1 -DOPS=2 -DPULLS=1 -DNOORDER
chain|fails|-DFIRST=3 -DSECOND=1 -DN=4 -DCHAIN=282 -DCAP=4 -DNOTSETTLED
chain|fails|-DJOIN -DCHAIN=2 -DCAP=8 -DFRONT
chain|fails|-DCRASH -DDEATHS=1 -DJOIN -DCHAIN=2 -DCAP=8 -DOLDREPORT
home|holds|
home|holds|-DPUSHES=5 -DMOVES=5
home|fails|-DNORETAIN
home|fails|-DNOFLIGHT
home|fails|-DNOLEASE
home|fails|-DSTRANGER
home|fails|-DTIE
dedup|holds|
dedup|holds|-DOPS=3 -DWINDOW=2 -DNODES=3
dedup|holds|-DNOMAX
dedup|fails|-DNOLOW
dedup|fails|-DNOSHIP
dedup|fails|-DLOWSENT
session|holds|
session|holds|-DFRAMES=8 -DRING=4 -DBREAKS=4 -DRESTARTS=2
session|fails|-DOFFBYONE
session|fails|-DNORESUME
session|fails|-DEARLYTRIM
session|fails|-DSAMELIFE
session|fails|-DSTILLREAD
session|fails|-DDROPFULL
member|holds|
member|fails|-DNOTERM
member|fails|-DONEOBS
member|fails|-DREUSE
commit|holds|
commit|fails|-DEARLY
commit|fails|-DFORGET
commit|fails|-DNOFENCE
commit|fails|-DTELLFIRST
ckpt|holds|
ckpt|fails|-DMARKERS
ckpt|fails|-DMOVED
ckpt|fails|-DLOWCUT
ckpt|fails|-DHASTY
ckpt|fails|-DONEVER
ckpt|fails|-DLATETELL
shared|holds|
shared|holds|-DOPS=4 -DPUSHES=1 -DMOVES=1
shared|holds|-DTOGGLES=4 -DPUSHES=1 -DMOVES=1 -DOPS=2
shared|fails|-DUNSYNC
shared|fails|-DNOPENDING
shared|fails|-DPASSQUEUE
shared|fails|-DPASSGIVEUP
shared|fails|-DLATESUB
shared|fails|-DLATECLEAR
shared|fails|-DSILENTMOVE
shared|fails|-DFORGETUNSENT
shared|fails|-DNOACC
shared|fails|-DCHANGERALL
shared|fails|-DFRESHUNSUB
shared|fails|-DNEWSLOST
inbox|holds|
inbox|holds|-DNOPENDING
inbox|holds|-DLATEWAKE
inbox|fails|-DNOTRY
inbox|fails|-DEARLY
inbox|fails|-DSTORE
inbox|fails|-DONCE
inbox|fails|-DRACY
inbox|fails|-DNOREVERSE
inbox|fails|-DDOUBLE
'

work=${keep:-$(mktemp -d)}
mkdir -p "$work"
[ -n "$keep" ] || trap 'rm -rf "$work"' EXIT

# verdict LOG STATUS: holds, fails, or why neither can be said. A full queue or a search cut short is a fault of the
# model's sizes, never a result.
verdict() {
  if grep -q 'q_full' "$1"; then
    echo "queue too short"
  elif [ "$2" -eq 124 ]; then
    echo "out of time"
  elif grep -qE 'max search depth too small|out of memory|reached -DMEMLIM|VECTORSZ' "$1"; then
    echo "search cut short"
  elif grep -qE 'assertion violated|invalid end state \(at' "$1"; then
    echo "fails"
  elif [ "$2" -eq 0 ] && grep -q 'errors: 0' "$1"; then
    echo "holds"
  else
    echo "no result"
  fi
}

# spent DIR: processor seconds of all children of this shell, in tenths; what else runs on the machine does not count.
# `times` must run in this shell, not in a pipe's.
spent() {
  times >"$1/times"
  awk 'NR == 2 { split($1, u, /[ms]/); split($2, s, /[ms]/)
    printf "%d", (u[1] * 60 + u[2] + s[1] * 60 + s[2]) * 10 }' "$1/times"
}

# one MODEL EXPECTED FLAGS: in a shell of its own. Its line goes out, and "1 STATES" or "0 0" to results.
one() {
  local model=$1 expected=$2 flags=$3 dir result states status took
  dir="$work/$model$(tr -d ' =' <<<"$flags")"
  mkdir -p "$dir"
  cp "$here/$model.pml" "$dir/"
  # shellcheck disable=SC2086 # flags are words
  if ! (cd "$dir" && spin -a $flags "$model.pml" >spin.log 2>&1 &&
    cc ${CFLAGS:--O0} -w -DSAFETY -DCOLLAPSE -DVECTORSZ=2048 -DMEMLIM=$memory_mb -o pan pan.c >>spin.log 2>&1); then
    result="does not compile"
    states=-
    cat "$dir/spin.log"
  else
    (cd "$dir" && timeout "$seconds_max" ./pan -m100000 -w22 >pan.log 2>&1)
    status=$?
    result=$(verdict "$dir/pan.log" $status)
    states=$(sed -nE 's/^ *([0-9.e+]+) states, stored.*/\1/p' "$dir/pan.log")
  fi
  spent "$dir" >"$dir/spent"
  took=$(<"$dir/spent")
  local mark=ok passed=1 counted=0
  if [ "$result" != "$expected" ]; then
    passed=0
    mark="NOT AS EXPECTED ($expected)"
  fi
  [[ ${states:-} =~ ^[0-9]+$ && $result = holds ]] && counted=$states
  echo "$passed $counted" >>"$work/results"
  printf '%-8s %-62s %-7s %9s states %3d.%d s  %s\n' "$model" "${flags:--}" "$result" "${states:--}" \
    $((took / 10)) $((took % 10)) "$mark"
  [ -n "$keep" ] || rm -rf "$dir"
}

jobs=${JOBS:-$(nproc)}
: >"$work/results"
while IFS='|' read -r model expected flags; do
  [ -n "$model" ] || continue
  [[ $only =~ ^\ *$ || $only == *" $model "* ]] || continue
  [ "$(jobs -rp | wc -l)" -lt "$jobs" ] || wait -n
  (one "$model" "$expected" "$flags") &
done <<<"$table"
wait
awk -v s=$SECONDS '{ passed += $1; states += $2 }
  END { printf "%d states in models that hold, %d s\n%d passed, %d failed\n", states, s, passed, NR - passed
    exit !(NR > 0 && passed == NR) }' "$work/results"
