#!/bin/bash
# An update rule of a table from a module in C: its rows are right by every technique, with copies and the death of a
# node, after checkpoints and files; and what is missing or wrong is refused by name, at the call.
. "$(dirname "$0")/harness.sh"

cp "$root/examples/own_update.lua" "$root/examples/lion.c" .
compile() { cc -O1 -Wall -Wextra -Werror -shared -fPIC "$1" -I"$root/runtime/include" -o lion.so || fail "no module: $1"; }
compile lion.c
run 0 run own_update.lua
says out.txt 'every value is within two steps of its target: true'

cat >steps.lua <<'LUA'
-- Workers take turns at keys and push by Lion; at the end every row has to be what a plain loop makes of the same
-- pushes, whatever the table does to have the rows at hand.
local tide, sim = require "tide", require "tide.sim"
local opt = tide.options {
  technique = {"of the table", default = "static"}, replicas = {"of each row", default = 0},
  consistency = {"of the table", default = "sequential"}, durability = {"of the table", default = ""},
  clocks = {"to run", default = 40}, crash = {"a node, simulated", default = ""},
  dir = {"of checkpoints", default = ""}, save = {"a file", default = ""}, load = {"a file", default = ""}, pause = {"ms between clocks", default = 0},
}
tide.kernel.load "lion.so"
local KEYS <const>, WIDTH <const>, RATE <const>, WORKERS <const> = 24, 3, 0.01, 2

if sim.active and opt.crash ~= "" then sim.fault("crash", {node = opt.crash, at = "2s"}) end

local function delta(key, clock)
  local row = {}
  for i = 1, WIDTH do row[i] = (key * 7 + i * 3 + clock * 5) % 13 / 13 - 0.46 end
  return row
end

local function expected(key, clocks)
  local w, m = {}, {}
  for i = 1, WIDTH do w[i], m[i] = 1, 0 end
  for clock = 1, clocks do
    for i, d in ipairs(delta(key, clock)) do
      local c <const> = 0.8 * m[i] + 0.2 * d
      w[i] = w[i] - RATE * ((c > 0 and 1 or c < 0 and -1 or 0) + 0.1 * w[i])
      m[i] = 0.95 * m[i] + 0.05 * d
    end
  end
  return w
end

local copies <const> = opt.replicas > 0 and opt.replicas or nil
local job = tide.job {
  name = "steps",
  tables = {t = tide.table {keys = tide.dense(KEYS), width = WIDTH, init = tide.uniform {low = 1, high = 1},
    update = {"lion", lr = RATE, beta1 = 0.8, beta2 = 0.95, decay = 0.1}, technique = opt.technique, replicas = copies,
    durability = opt.durability ~= "" and opt.durability or nil, consistency = opt.consistency}},
  checkpoint = opt.dir ~= "" and {dir = opt.dir, every = "50ms", cut = "clock"} or nil,
  worker = function(w)
    local t <const> = w.tables.t
    if opt.load ~= "" and w.rank == 1 then t:load(opt.load) end
    w:barrier "loaded"
    local first <const> = opt.load ~= "" and 40 or w.clocks
    for clock = first + 1, opt.clocks do
      local keys, rows = {}, {}
      for key = 0, KEYS - 1 do
        if (key + clock) % WORKERS == w.rank - 1 then
          keys[#keys + 1] = key
          for _, d in ipairs(delta(key, clock)) do rows[#rows + 1] = d end
        end
      end
      if opt.technique == "relocate" then t:localize(keys) end
      t:push(keys, rows)
      w:clock()
      w:barrier "clock" -- the next push of a key is another worker's
      if clock == 10 then print "at clock 10" end
      if opt.pause > 0 then tide.sleep(opt.pause / 1000) end
    end
    w:barrier "done"
    local worst = 0
    if w.rank == 1 and opt.save ~= "" then t:save(opt.save) end
    if w.rank == 1 then
      for key = 0, KEYS - 1 do
        local row <const> = t:pull {key}
        for i, value in ipairs(expected(key, opt.clocks)) do worst = math.max(worst, math.abs(row[i] - value)) end
      end
    end
    w:report {examples = KEYS, worst = worst}
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2, servers = copies and 2 or nil}
  local run = cluster:start(job)
  local worst = 0
  for r in run:events "report" do worst = math.max(worst, r.worst) end
  print(("rows are right: %s (%.1g)"):format(worst < 1e-5, worst))
  run:wait()
end)
LUA
right() {
    run 0 "$@"
    says out.txt 'rows are right: true'
}
right run steps.lua --technique relocate
right run steps.lua --consistency bsp --save rows.safetensors
right run steps.lua --load rows.safetensors --clocks 70
right run steps.lua --replicas 1
right sim --seed 1 steps.lua --technique relocate
right sim --seed 1 steps.lua --replicas 1 --crash s1 --pause 100
says err.txt 'node s1 died'

# A home dies: its copy takes over, with the rule's state.
begin run steps.lua --replicas 1 --clocks 100 --pause 20
begun() { grep -q 'at clock 10' err.txt 2>/dev/null; }
wait_for 20 begun
kill -KILL "$(node_pid s1)"
wait "$driver" || fail "a run whose server died ended with $?"
says out.txt 'rows are right: true'

# From a checkpoint; the module built anew is another version of the rule.
begin run steps.lua --dir kept --clocks 100000 --pause 10
begun() { [ -e kept/000003 ]; } # then the first ones are finished
wait_for 20 begun
kill -KILL "$driver" # its nodes end with it
wait "$driver"
right run --resume kept steps.lua --dir kept --clocks 1000
cp lion.so first.so
sed 's/version = "1"/version = "2"/' lion.c >two.c
compile two.c
run 1 run --resume kept steps.lua --dir kept --clocks 1200
says err.txt "has version [0-9a-f]{12} of update rule 'lion', this process has [0-9a-f]{12}"
cp first.so lion.so

# ---- refused ----
cat >wrong.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {
  now = {"what becomes of the module behind the driver's load", default = "stays"}, join = {"a node does", default = false},
  rule = {"of the table", default = "lion"}, number = {"of the rule", default = "beta1"}, value = {"its", default = "0.5"},
  technique = {"of the table", default = "static"}, consistency = {"of the table", default = "sequential"},
}
tide.kernel.load "lion.so"
local job = tide.job {
  name = "wrong",
  tables = {t = tide.table {keys = tide.dense(4), width = 2, technique = opt.technique, consistency = opt.consistency,
    update = {opt.rule, lr = 0.1, [opt.number] = tonumber(opt.value) or opt.value}}},
  worker = function(w)
    for _ = 1, opt.join and 100 or 1 do
      w.tables.t:push({1}, {1, 1})
      if opt.join then tide.sleep(0.02) end
    end
    w:report {examples = 1}
  end,
}
local function spoil()
  if opt.now == "goes" then os.remove "lion.so" end
  if opt.now == "changes" then
    local f <close> = assert(io.open("lion.so", "ab"))
    f:write "x"
  end
end
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1, servers = 1}
  if not opt.join then spoil() end
  local run = cluster:start(job)
  if opt.join then
    for _ in run:events "started" do break end
    spoil()
    print(select(2, pcall(cluster.add_node, cluster)))
  end
  run:wait()
  print "it ran"
end)
LUA
refused() { # MESSAGE ARGUMENTS...
    local message=$1
    shift
    cp first.so lion.so
    run 1 run wrong.lua "$@"
    says err.txt "$message"
    says_not out.txt 'it ran'
}
refused 'node (n1|s1) .* could not make table .*: update rule .lion.: .*lion.so: no such file or directory; every node' --now goes
refused 'lion.so differs: the table was made with [0-9a-f]+, this node has' --now changes
refused 'T0204.*update rule `lions` is not known: there are .*lion' --rule lions
refused 'T0204.*update rule `lion` has no field `beta3`' --number beta3
refused 'T0204.*update rule lion: beta1 and beta2 lie between 0 and 1' --value 2
refused 'T0204.*`beta1` is x, not a number' --value x
refused 'updates by lion do not add up' --technique replicate
refused 'updates by lion do not add up' --technique intent
cp first.so lion.so
run 2 run wrong.lua --consistency vap:0.1
says err.txt 'vap bounds sums of updates: it requires update rule add or sgd'
bad() { # MESSAGE FROM TO: a module that cannot be loaded
    sed "s/$2/$3/" lion.c >bad.c
    ! cmp -s lion.c bad.c || fail "nothing was changed: $2"
    cc -w -shared -fPIC bad.c -I"$root/runtime/include" -o lion.so || fail "no module: $2"
    run 1 run own_update.lua
    says err.txt "T0909.*$1"
}
bad 'it was built for version [0-9]+ of tide/kernel.h, this is version' 'TIDE_KERNEL_ABI, .version' 'TIDE_KERNEL_ABI - 1, .version'
bad 'update rule adam has the name of one of Tide' 'name = "lion"' 'name = "adam"'
bad 'update rule lion has a state, so its pushes do not add up' '.check = check,' '.flags = TIDE_RULE_ADDS,'
bad 'update rule lion needs `apply`' '.apply = apply' '.apply = 0'

# A crash in a rule says so, where the push was made.
if [ -z "${TIDE_SANITIZED:-}" ]; then
    sed 's/float \*w = call->row/*(volatile int *)(size_t)(8 * call->width) = 1; &/' lion.c >bad.c
    ! cmp -s lion.c bad.c || fail "nothing was changed"
    cc -w -shared -fPIC bad.c -I"$root/runtime/include" -o lion.so || fail "no module that crashes"
    timeout 60 "$TIDE" run own_update.lua --nodes 1 >out.txt 2>err.txt
    says err.txt 'crashed: SIGSEGV at address 0x[0-9a-f]+ in update rule lion'
fi

# A node that joins without the module ends, and the run continues.
cp first.so lion.so
run 0 run wrong.lua --join --now goes
cat .tide/runs/*/node-s2.log >said.txt
says said.txt 'cannot make table .*every node needs the module of its tables'
says out.txt 'it ran'
finish
