#!/bin/bash
# Servers come and go and slots move while workers push: by the script, by the command line, by a placement policy. All
# sums are exact in the end.
. "$(dirname "$0")/harness.sh"

cat >elastic.lua <<'END'
local tide = require "tide"
local opt = tide.options {epochs = {"steps", default = 60}, policy = {"who places", default = ""}, edit = {"script moves", default = true}}
local KEYS <const> = 300
local job = tide.job {
  name = "elastic", stop = {epochs = opt.epochs}, policies = opt.policy ~= "" and {placement = opt.policy} or nil,
  tables = {model = {keys = {"dense", KEYS}, width = 4}},
  worker = function(w)
    local keys, ones = {}, tide.tensor.zeros("f32", KEYS, 4)
    for i = 1, KEYS do keys[i] = i - 1 end
    ones:fill(1)
    while not w:stopping() do
      w.tables.model:push(keys, ones)
      local rows = w.tables.model:pull(keys)
      assert(rows:min() >= w.reports + 1, "an own push is missing")
      w:report {examples = 1}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {servers = 2, nodes = 2}
  local ids = {}
  local function refresh() for _, n in ipairs(cluster:agents()) do ids[n.name] = n.id end end
  refresh()
  if opt.policy ~= "" then
    cluster:serve_cost("s1", "400us")
    cluster:serve_cost("s2", "100us")
  end
  local run = cluster:start(job)
  local model <const> = run.tables.model
  local slots, last = {}, 0
  for s = 0, KEYS - 1 do slots[#slots + 1] = s end
  for r in run:events "report" do
    last = r.n
    if opt.edit and r.n == 10 then
      print("added", cluster:add_node())
      refresh()
      assert(model:move(slots, ids.s3))
      print("s3 has", model:homes()[ids.s3])
      print("refused", select(2, pcall(model.move, model, {1}, ids.n1)).name)
    elseif opt.edit and r.n == 30 then
      cluster:drain "s1"
      print("s1 has", model:homes()[ids.s1] or 0)
    end
  end
  run:wait()
  local rows, all = model:pull(slots), true
  for i = 1, #rows do all = all and rows[i] == 2 * last end
  print("exact", all, last)
  local homes = model:slot_homes()
  local mine = 0
  for s = 1, KEYS do if homes[s] == ids.s1 then mine = mine + 1 end end
  print(("s1 has %d of %d"):format(mine, KEYS))
end)
END
run 0 run elastic.lua
says out.txt '^added	s3$'
says out.txt "^s3 has	300$"
says out.txt '^refused	EINVAL$'
says out.txt '^s1 has	0$'
says out.txt '^exact	true	60$'

# A server that takes four times as long ends up with about a fifth of the slots.
run 0 run elastic.lua --edit=false --policy placement/psld --epochs 150
says out.txt '^exact	true	150$'
mine=$(sed -n 's/^s1 has \([0-9]*\) of 300$/\1/p' out.txt)
[ "${mine:-999}" -le 110 ] || fail "the slow server still has $mine of 300 slots"

# Workers join and leave while the others continue: every pass has every example once.
cat >joining.lua <<'END'
local tide = require "tide"
local N <const> = 400
local job = tide.job {
  name = "joining", data = N, chunks = 20, stop = {epochs = 40},
  tables = {t = {keys = {"dense", N}, width = 1}},
  worker = function(w)
    while not w:stopping() do
      for chunk in w:chunks() do
        local ones = tide.tensor.zeros("f32", chunk.count, 1)
        ones:fill(1)
        tide.sleep(chunk.count * 0.0003)
        w.tables.t:push(tide.range(chunk.first - 1, chunk.last - 1), ones)
        chunk:report {examples = chunk.count}
      end
      w:report {loss = 1, here = 1}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2, servers = 1}
  local run = cluster:start(job)
  local most, here = 0, 0
  for r in run:events "report" do
    assert(r.examples == N, ("pass %d has %d examples"):format(r.n, r.examples))
    here = r.here // 1
    most = math.max(most, here)
    if r.n == 2 then run:set_workers(3) end
    if r.n < 30 and most < 3 then tide.sleep(0.05) end -- the machine may be slow to start a node
    if r.n == 30 then run:set_workers(1) end
  end
  local s = run:wait()
  local rows = run.tables.t:pull(tide.range(0, N - 1))
  print("workers", most, here, "rows", rows:min(), rows:max(), "lost", s.workers_lost)
end)
END
run 0 run joining.lua
says out.txt '^workers	3	1	rows	40.0	40.0	lost	0$'

# From the command line, into a run that continues.
begin run elastic.lua --edit=false --epochs 1000000
for _ in $(seq 200); do
    socket=$(find "$XDG_RUNTIME_DIR" -path '*run-*' -name '*.sock' | head -1)
    [ -n "$socket" ] && timeout 20 "$TIDE" move elastic.model 0-4095 s2 --cluster "unix:$socket" >move.txt 2>move.err && break
    sleep 0.1
done
says move.err 'moved 4096 slots of elastic.model to s2'
timeout 20 "$TIDE" move elastic.model 0-9,20 s1 --cluster "unix:$socket" --json >move.txt 2>move.err
says move.txt '"slots":11'
timeout 20 "$TIDE" move elastic.model 0-5000 s1 --cluster "unix:$socket" >move.txt 2>move.err
says move.err 'T0105'
timeout 20 "$TIDE" move elastic.model 7 n1 --cluster "unix:$socket" >move.txt 2>move.err
says move.err 'holds no rows'
kill -INT "$driver"
wait "$driver"
says out.txt '^exact	true	'
says out.txt '^s1 has 11 of 300$'
finish
