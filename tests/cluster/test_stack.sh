#!/bin/bash
# Where code is: the line of a worker that loops, or is inside a kernel, is told by stack, why, actors, --timeout, stop
# and cancel, while it continues; a crash tells its signal, kernel and line at the driver and in the node's log.
. "$(dirname "$0")/harness.sh"

cat >stuck.lua <<'LUA'
local tide = require "tide"
local job = tide.job {name = "stuck", worker = function(w)
  w:report {}
  if w.rank == 2 then
    print "UP"
    while true do w = w end
  end
  w:report {}
end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  cluster:start(job):wait()
end)
LUA
run 124 --timeout 4s run -w 1 stuck.lua
says err.txt 'worker 2 on n[12] is at stuck.lua:6'

cat >driver.lua <<'LUA'
local tide = require "tide"
tide.main(function()
  while true do end
end)
LUA
run 124 --timeout 1s run driver.lua
says err.txt 'the script was at driver.lua:3'
run 124 --timeout 1s sim driver.lua
says err.txt 'at driver.lua:3'

run 0 up lab -n 2 -w 1
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/lab/pids"); do started+=("$pid"); done
export TIDE_CLUSTER=lab
run 0 submit stuck.lua
loops() { "$TIDE" stack stuck-1/2 2>/dev/null | grep -q 'stuck.lua:6 *worker'; }
wait_for 20 loops
run 0 stack stuck-1
says out.txt 'worker 1 of stuck-1'
says out.txt '\[native\] *receive'
run 0 stack n1/agent --json
says out.txt '"kind":"native","name":"stack"'
run 0 attach --role read -e 'stack "stuck-1/2"'
says out.txt 'stuck.lua:6 *worker'
run 0 actors --where 'line ~= nil'
says out.txt 'stuck.lua:6'
run 0 why --for 200ms
says out.txt 'worker 2 is at stuck.lua:6'
run 2 stack nothing
says err.txt 'no actor and no run `nothing`'
run 0 job stop stuck-1 --within 100ms
ended() { "$TIDE" jobs -a --plain | grep -q 'stuck-1.*stopped'; }
wait_for 10 ended
run 0 job show stuck-1
says out.txt 'worker 2 on n[12] is at stuck.lua:6'
run 0 down lab -y
unset TIDE_CLUSTER

# ---- kernels ----
cat >own.c <<'C'
#include <stdlib.h>
#include <tide/kernel.h>
#include <unistd.h>
static const struct tide_parameter none[] = {{"x", TIDE_NUMBER, 0, false, 0, "unused"}};
static int segv(const struct tide_argument *a, struct tide_result *r, char *e) { (void)a, (void)r, (void)e; *(volatile int *)8 = 1; return 0; }
static int fpe(const struct tide_argument *a, struct tide_result *r, char *e) { volatile int n = 7, z = 0; (void)a, (void)r, (void)e; return n / z; }
static int dies(const struct tide_argument *a, struct tide_result *r, char *e) { (void)a, (void)r, (void)e; abort(); }
static int spin(const struct tide_argument *a, struct tide_result *r, char *e) { (void)a, (void)r, (void)e; for (;;) pause(); }
static const struct tide_kernel all[] = {{"segv", "crashes", none, 1, segv}, {"fpe", "divides", none, 1, fpe},
                                         {"dies", "aborts", none, 1, dies}, {"spin", "spins", none, 1, spin}};
const struct tide_kernel_module *tide_kernel_module(const struct tide_kernel_host *host) {
    static const struct tide_kernel_module module = {.abi = TIDE_KERNEL_ABI, .version = "1", .kernels = all, .kernel_count = 4};
    (void)host;
    return &module;
}
C
cc -shared -fPIC -I"$root/runtime/include" own.c -o own.so || fail "own.c does not compile"
cat >kernel.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {kernel = {"which", default = "segv"}}
local own = tide.kernel.load "own.so"
local job = tide.job {name = "kernel", worker = function(w)
  w:report {}
  own[opt.kernel] {}
end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1, workers = 1}
  cluster:start(job):wait()
end)
LUA
crashes() { # KERNEL SIGNAL
    run 5 run kernel.lua --kernel "$1"
    says err.txt "node n1 is lost: its process crashed: $2.* in kernel $1, at kernel.lua:6 \(worker on n1\)"
}
if [ -z "${TIDE_SANITIZED:-}" ]; then # there the sanitizer tells of crashes
    crashes segv 'SIGSEGV at address 0x8'
    crashes fpe SIGFPE
    crashes dies SIGABRT
fi
begin run kernel.lua --kernel spin
name() { sed -n 's/.*cluster \(run-[^,]*\),.*/\1/p' err.txt; }
spins() { "$TIDE" stack kernel-1 --cluster "$(name)" 2>/dev/null | grep -A1 '\[kernel\] *spin' | grep -q kernel.lua:6; }
wait_for 20 spins
kill -KILL "$driver"
wait "$driver" 2>/dev/null
nothing_left
finish
