#!/bin/bash
# What was lost, or could not be written, is said and does not end with exit code 0: rows of which all copies died while
# nobody touched them, the last checkpoint, a trace, the journal and log of a run on a full disk.
. "$(dirname "$0")/harness.sh"

cat >lost.lua <<'END'
local tide = require "tide"
local opt = tide.options {late = {"killed when the workers have returned", default = false}}
local job = tide.job {
  name = "lost", on_worker_loss = "stop",
  tables = {t = tide.table {keys = tide.dense(1000), width = 1, replicas = 1}},
  worker = function(w)
    w.tables.t:push(tide.range(0, 999), tide.tensor.zeros("f32", 1000, 1):fill(1))
    print "filled"
    for _ = 1, opt.late and 1 or 15 do tide.sleep "200ms" w:report {examples = 1} end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1, servers = 4}
  local run = cluster:start(job)
  run:wait()
  print "done"
end)
END
for victims in "s1 s2" "s4 s2"; do
    begin run lost.lua
    for _ in $(seq 200); do grep -q filled err.txt 2>/dev/null && break; sleep 0.05; done
    pids=
    for name in $victims; do pids="$pids $(node_pid "$name")"; done
    kill -KILL $pids
    wait "$driver"
    code=$?
    [ $code = 5 ] || fail "$victims killed: exit code $code, not 5"
    says err.txt 'error\[T0509\]'
    says_not out.txt done
done

cat >full.lua <<'END'
local tide = require "tide"
local opt = tide.options {dir = {"of checkpoints", default = ""}, fill = {"the disk", default = false}}
local job = tide.job {name = "full", batch = 4, tables = {t = tide.table {keys = tide.dense(100), width = 4}},
  checkpoint = opt.dir ~= "" and {dir = opt.dir, every = "1h"} or nil,
  worker = function(w) for _ = 1, 10 do w.tables.t:push({1}, {{1, 1, 1, 1}}) w:report {examples = w.batch} end end}
tide.main(function()
  if opt.fill then os.execute "dd if=/dev/zero of=fill bs=1k 2>/dev/null" end
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  run:wait()
  print("SUM", run.tables.t:pull {1}[1])
end)
END
touch file
run 1 run full.lua --dir file/ckpt
says out.txt 'SUM	20'
says err.txt 'error\[T07.*the last checkpoint could not be written'
run 1 run --trace /dev/full full.lua
says out.txt 'SUM	20'
says err.txt 'error\[T0403\]: the trace could not be written'
if unshare -m true 2>/dev/null; then
    mkdir disk
    # shellcheck disable=SC2016
    unshare -m bash -c 'mount -t tmpfs -o size=256k none disk; cd disk; cp ../full.lua .; timeout 60 "$0" run full.lua --fill >../out.txt 2>../err.txt; echo $? >../rc' "$TIDE"
    [ "$(cat rc)" = 1 ] || fail "a disk that becomes full: exit code $(cat rc), not 1"
    says out.txt 'SUM	20'
    says err.txt 'the journal of the policies could not be written'
    says err.txt 'summary could not be written'
fi
finish
