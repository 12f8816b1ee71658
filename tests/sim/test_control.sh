#!/bin/bash
# What a script asks of its run and cluster: nonsense is refused at the call and changes nothing, a limit is one at
# once, nobody who alone holds rows is let go, and data that nobody read is not complete.
. "$(dirname "$0")/harness.sh"

cat >control.lua <<'END'
local tide = require "tide"
local opt = tide.options {bound = {"work bound to ranks", default = false}}
local job = tide.job {
  name = "el", data = 100, chunks = not opt.bound and 10 or nil, params = {eps = 1, name = "a"},
  on_worker_loss = opt.bound and "stop" or nil, checkpoint = {dir = "ckpt", every = "1h"},
  tables = {t = tide.table {keys = tide.dense(10), width = 1}},
  worker = function(w)
    for _ = 1, 4 do
      if opt.bound then
        w.tables.t:push({0}, {{50}})
      else
        for c in w:chunks() do tide.sleep(0.005) w.tables.t:push({0}, {{c.count}}) c:report {examples = c.count} end
      end
      w:report {}
    end
  end,
}
local CALLS <const> = {
  "run:set_workers(1.5)", "run:set_workers('x')", "run:set_workers(nil)", "run:set_workers(0/0)", "run:set_workers(0)",
  "run:set_workers(1e6)", "run:set_workers(-1 << 63)", "run:drop_worker(99)", "run:drop_worker('x')",
  "run:drop_worker(0)", "run:drop_worker(nil)", "run:slow_worker(99, 2)", "run:slow_worker(1, 0/0)",
  "run:slow_worker(1.5, 2)", "run:set('x')", "run:set {epz = 1}", "run:set {eps = 'x'}", "run:set {eps = 0/0}",
  "run:events 'reports'", "run:dump(nil, {'t'})", "run:dump('x', nil)", "run:dump('x', {'u'})",
  "run:checkpoint {dri = 'x'}", "run:checkpoint {cut = 'now'}", "run:checkpoint(3)", "run:evaluate 'none'",
  "cluster:set_servers('x')", "cluster:set_servers(-1)", "cluster:set_servers(0)", "cluster:set_servers(1e9)",
  "cluster:set_servers(1.5)", "cluster:drain 's1'", "cluster:drain 'n1'", "cluster:drain(nil)", "cluster:drain 's9'",
  "cluster:add_node('s1')", "cluster:add_node('A b')", "cluster:add_node({})", "cluster:add_node('x', -1)",
  "cluster:add_node('x', 0/0)", "cluster:serve_cost('s1', 0/0)", "cluster:serve_cost('s1', 'soon')",
  "cluster:serve_cost('s9', 1)", "cluster:cpu_share('s1', 2)", "cluster:cpu_share('s1', 0/0)", "cluster:trace(nil)",
  "cluster:checkpoint {dir = 'x', kep = 3}", "cluster:checkpoint(nil)", "cluster:restore(nil)",
  "cluster:restore('ckpt', 1.5)", "cluster:start(job, {typo = 1})", "cluster:start(job, {eps = 'x'})",
  "cluster:start(job, 3)", "cluster:start {}",
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2, servers = 1}
  local run = cluster:start(job)
  for r in run:events "report" do
    for _, call in ipairs(r.n == 2 and (opt.bound and {"run:drop_worker(1)", "run:set_workers(1)",
                                                       "run:set_workers(3)"} or CALLS) or {}) do
      local f <const> = assert(load("local cluster, run, job = ... return " .. call))
      local ok, err = pcall(f, cluster, run, job)
      print(("%s\t%s"):format(not ok and type(err) == "table" and err.code ~= nil, call))
    end
  end
  local s = run:wait()
  print("SUM", run.tables.t:pull {0}[1], s.workers_lost)
end)
END
run 0 sim --seed 1 control.lua
says_not out.txt '^false'
[ "$(grep -c '^true' out.txt)" = 54 ] || fail "$(grep -c '^true' out.txt) calls were refused, not 54"
says out.txt '^SUM	400.0	0$'
run 0 sim --seed 1 control.lua -- --bound
[ "$(grep -c '^true' out.txt)" = 3 ] || fail "a worker whose work is bound to its rank may go: $(cat out.txt)"
says out.txt '^SUM	400.0	0$'

# Everybody but one may be dropped, from the first moment on; then its node is told to leave, and the rest is not done.
cat >last.lua <<'END'
local tide = require "tide"
local sim = require "tide.sim"
local opt = tide.options {lost = {"the last one is lost", default = false}}
local job = tide.job {
  name = "last", data = 100, chunks = 10, tables = {t = tide.table {keys = tide.dense(10), width = 1}},
  worker = function(w)
    for _ = 1, 4 do
      for c in w:chunks() do tide.sleep(0.05) w.tables.t:push({0}, {{c.count}}) c:report {examples = c.count} end
      w:report {}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3, servers = 1}
  if opt.lost then sim.fault("crash", {node = "n3", at = "2s"}) end
  local run = cluster:start(job)
  run:drop_worker(1)
  run:drop_worker(2)
  print(pcall(run.drop_worker, run, 3))
  print(pcall(run.set_workers, run, 0))
  local s = run:wait()
  print("SUM", run.tables.t:pull {0}[1], s.reports)
end)
END
run 0 sim --seed 3 last.lua
says out.txt '^false.error\[T0117\].*no worker would be left'
says out.txt '^SUM	400.0	4$'
run 5 sim --seed 3 last.lua -- --lost
says err.txt 'the share of its workers is not done'
finish
