#!/bin/bash
# A node that is told to leave under a run: what its workers have in hand counts once, in whole or in part; the others
# get the rest, its rows too. By SIGTERM, as Slurm and service managers send it, and by `tide drain`.
. "$(dirname "$0")/harness.sh"

cat >leave.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {
  steps = {"examples of a step; 0: chunks are done whole", default = 1},
  pace = {"what an example takes", default = "20ms"},
}
local job = tide.job {
  name = "sums", data = 240, chunks = 12, stop = {epochs = 2}, on_worker_loss = "replay",
  tables = {t = tide.table {keys = tide.dense(240), width = 1, init = tide.zero(), update = "add"}},
  worker = function(w)
    for _ = 1, 2 do
      for chunk in w:chunks() do
        if w.node == "n2" then print "n2 works" end
        local function part(first, last)
          local ones = tide.tensor.zeros("f32", last - first + 1, 1)
          ones:fill(1)
          w.tables.t:push(tide.range(first - 1, last - 1), ones)
          chunk:report {examples = last - first + 1}
          for _ = first, last do tide.sleep(opt.pace) end
        end
        if opt.steps > 0 then
          for first, last in chunk:steps(opt.steps) do part(first, last) end
        else
          part(chunk.first, chunk.last)
        end
      end
      w:report {}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3}
  local run = cluster:start(job)
  for report in run:events "report" do print("pass", report.n, report.examples) end
  local s = run:wait()
  local rows = run.tables.t:pull(tide.range(0, 239))
  print("rows", rows:min(), rows:max(), "lost", s.workers_lost, "redone", s.chunks_redone)
end)
LUA

# told_to_leave STEPS: SIGTERM to n2 in the middle of a chunk; nothing is lost, nothing twice.
told_to_leave() {
    local victim=''
    rm -f err.txt out.txt # of a run before
    begin run leave.lua --steps "$1"
    at_work() { grep -q 'n2 works' err.txt 2>/dev/null; }
    wait_for 15 at_work
    found() { victim=$(node_pid n2); }
    wait_for 5 found
    sleep 0.1
    kill -TERM "$victim"
    wait "$driver"
    code=$?
    [ "$code" = 0 ] || fail "steps of $1: exit code $code, not 0"
    for pass in 1 2; do says out.txt "^pass.$pass.240$"; done
    says out.txt '^rows.2\.0.2\.0.lost.0.redone.0$'
    says err.txt 'node n2 has left with its 1 worker; nothing is to be done again'
    nothing_left
}
told_to_leave 1
told_to_leave 0

run 0 up --cluster leave -n 3
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/leave/pids"); do started+=("$pid"); done
rm -f err.txt out.txt
begin run --cluster leave leave.lua
at_work() { grep -q 'n2 works' err.txt 2>/dev/null; }
wait_for 15 at_work
"$TIDE" drain n2 --cluster leave -y 2>drain.txt || fail "tide drain: $(cat drain.txt)"
says drain.txt 'node n2 has left after'
wait "$driver" || fail "the run that was under way ends with $?"
says out.txt '^rows.2\.0.2\.0.lost.0.redone.0$'
run 1 drain n2 --cluster leave -y
says err.txt 'no node `n2` is up'
run 2 drain c0 --cluster leave -y
run 0 drain n3 --cluster leave -y
run 0 down leave -y
finish
