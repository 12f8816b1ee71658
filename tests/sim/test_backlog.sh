#!/bin/bash
# A driver that does something else costs its run nothing, whatever the workers tell meanwhile; what all workers give
# at a barrier goes through in messages of bounded size, and so does what they keep in checkpoints.
. "$(dirname "$0")/harness.sh"

cat >slow.lua <<'END'
local tide = require "tide"
local opt = tide.options {n = {"reports", default = 3000}, what = {"", default = "wait"}, workers = {"", default = 1}}
local job = tide.job {name = "rep", tables = {t = tide.table {keys = tide.dense(10), width = 1}},
  worker = function(w)
    for i = 1, opt.n do
      if opt.what == "wide" then
        local fields = {}
        for k = 1, 300 do fields["f" .. k] = i end
        w:report(fields)
      else
        w:report {loss = 1, examples = 1, comm_bytes = 1}
      end
    end
  end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2, workers = opt.workers}
  local run = cluster:start(job)
  tide.sleep "1m"
  if opt.what ~= "wait" then
    local count, workers = 0, 0
    for r in run:events "report" do
      count = count + 1
      assert(r.n == count, r.n)
      workers = workers + #r.workers
      assert(r.workers[#r.workers].rank == 2 * opt.workers and r.workers[1].node == "n1")
    end
    print("READ", count, workers)
  end
  local s = run:wait()
  print("REPORTS", s.reports, s.examples, s.comm_bytes, #run.history < 2000)
end)
END
run 0 sim --seed 1 slow.lua
says out.txt '^REPORTS	3000	6000	6000	true$'
run 0 sim --seed 1 slow.lua -- --what read --n 1700 --workers 4
says out.txt '^READ	1700	13600$'
run 0 sim --seed 1 slow.lua -- --what wide --n 10 --workers 150 # 90,000 numbers a report
says out.txt '^READ	10	3000$'
says_not err.txt 'left out'

cat >many.lua <<'END'
local tide = require "tide"
local opt = tide.options {what = {"what is given", default = "list"}, resumed = {"passes", default = 0}}
local job = tide.job {name = "many", tables = {t = tide.table {keys = tide.dense(10), width = 16}},
  checkpoint = {dir = "ckpt", every = "1h"},
  worker = function(w)
    local v = {}
    if opt.what == "tensor" then v = tide.tensor.zeros("f32", 1 << 19, 1):fill(w.rank) end
    if opt.what == "list" then for i = 1, 6000 do v[i] = i * w.rank end end
    if opt.what == "strings" then for i = 1, 3000 do v[i] = ("x"):rep(500) end end
    local all = w:barrier("b", v)
    assert(#all == w.workers)
    local last = all[w.workers]
    w.state.list = w.state.list or v
    w:report {here = opt.what == "list" and last[2] or #all, kept = opt.what ~= "tensor" and #w.state.list or 0}
  end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2, workers = 10}
  local run = cluster:start(job)
  for r in run:events "report" do print("HERE", r.here, r.kept) end
  run:wait()
end)
END
for what in list tensor strings; do run 0 sim --seed 1 many.lua -- --what $what; says out.txt '^HERE'; done
run 0 run many.lua --what list
says out.txt '^HERE	800	120000$'
run 0 run --resume ckpt many.lua --what list
says out.txt '^HERE	800	120000$'
finish
