#!/bin/bash
# A run whose data is cut into chunks survives kill -9 of a node of workers when the rows live elsewhere, or have
# copies: the sums of every pass are whole, the loss is said, no process is left. Without that it ends, and says why.
. "$(dirname "$0")/harness.sh"

cat >chunks.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {
  servers = {"nodes of their own for the rows", default = 1},
  replicas = {"copies of each row", default = 0},
  loss = {"what a lost worker means", default = "replay"},
}
local job = tide.job {
  name = "sums", data = 600, chunks = 60, stop = {epochs = 3}, on_worker_loss = opt.loss,
  tables = {t = tide.table {keys = tide.dense(600), width = 1, init = tide.zero(), update = "add",
    replicas = opt.replicas}},
  worker = function(w)
    for _ = 1, 3 do
      for chunk in w:chunks() do
        if chunk.pass == 1 and w.node == "n2" then print "n2 works" end
        local ones = tide.tensor.zeros("f32", chunk.count, 1)
        ones:fill(1)
        w.tables.t:push(tide.range(chunk.first - 1, chunk.last - 1), ones)
        tide.sleep(w.node == "n2" and "200ms" or "50ms")
        chunk:report {examples = chunk.count}
      end
      w:report {}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3, servers = opt.servers}
  local run = cluster:start(job)
  for report in run:events "report" do print("pass", report.n, report.examples) end
  local s = run:wait()
  local rows = run.tables.t:pull(tide.range(0, 599))
  print("rows", rows:min(), "lost", s.workers_lost, "redone", s.chunks_redone)
  print("most", rows:max())
end)
LUA

# lose_n2 ARGUMENTS...: kills node n2 while it works, waits for the end; the exit code is in $code.
lose_n2() {
    local victim='' pid
    begin run chunks.lua "$@"
    at_work() { grep -q 'n2 works' err.txt 2>/dev/null; }
    wait_for 15 at_work
    found() { victim=$(node_pid n2); }
    wait_for 5 found
    kill -KILL "$victim"
    wait "$driver"
    code=$?
    nothing_left
}

lose_n2
[ "$code" = 0 ] || fail "exit code $code, not 0"
for pass in 1 2 3; do says out.txt "^pass.$pass.600$"; done
says out.txt '^rows.3\.0.lost.1.redone.1$'
says err.txt 'node n2 is gone .* the run continues without its workers; 1 chunk is done again'

lose_n2 --loss stop
[ "$code" = 5 ] || fail "on_worker_loss = stop: exit code $code, not 5"
says err.txt 'error\[T0509\].*node n2 is lost'
says err.txt 'the tables are whole'

lose_n2 --servers 0
[ "$code" = 5 ] || fail "rows on the lost node: exit code $code, not 5"
says err.txt 'its part of the tables is gone \(`sums-1.t`\)'

# With copies the others have its rows: each chunk is in the sums, the one in flight at most twice.
lose_n2 --servers 0 --replicas 1
[ "$code" = 0 ] || fail "rows with copies on the lost node: exit code $code, not 0"
for pass in 1 2 3; do says out.txt "^pass.$pass.600$"; done
says out.txt '^rows.3\.0.lost.1.redone.1$'
says out.txt '^most.[34]\.0$'
finish
