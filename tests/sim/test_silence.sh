#!/bin/bash
# What used to be taken in silence is refused where it is said, or done: rates that are missing, misspelt options, two
# fibers that wait for the same answers, messages that come while a worker meets the others, rows that nobody touched.
. "$(dirname "$0")/harness.sh"

refused() { # refused PATTERN TABLE-FIELDS
    printf 'local tide = require "tide"\nlocal job = tide.job {name = "j", worker = function() end,\n  tables = {t = %s}}\ntide.main(function() local c <close> = tide.cluster {nodes = 1} c:start(job):wait() end)\n' "$2" >table.lua
    run 1 sim --seed 1 table.lua
    says err.txt "T0204.*$1"
    says err.txt 'table.lua:'
}
keys='keys = tide.dense(4), width = 1'
refused 'rule `sgd` requires a rate' "tide.table {$keys, update = 'sgd'}"
refused 'rule `adam` requires a rate' "tide.table {$keys, update = {'adam', beta1 = 0.5}}"
refused 'rule `sgd` has no field `rate`' "tide.table {$keys, update = {'sgd', rate = 1}}"
refused 'rule `sgd` has no field `2`' "tide.table {$keys, update = {'sgd', 0.1}}"
refused 'rule `add` has no field `lr`' "tide.table {$keys, update = {'add', lr = 1}}"
refused '`lr` is .*nan' "tide.table {$keys, update = {'sgd', lr = 0/0}}"
refused '`beta2` is 1' "tide.table {$keys, update = {'adam', lr = 1, beta2 = 1}}"
refused 'tide.hashed has no field `limt`' "tide.table {keys = tide.hashed {limt = 3}, width = 1}"
refused 'tide.normal has no field `mean`' "tide.table {$keys, init = tide.normal {std = 1, mean = 2}}"

cat >worker.lua <<'END'
local tide, core = require "tide", require "tide.core"
local what <const> = tide.options({what = {"what it does", default = "pull"}}).what
local does = {
  pull = function(w) w.tables.t:pull({1}, {asinc = true}) end,
  push = function(w) w.tables.t:push({1}, {{1}}, {into = 1}) end,
  compile = function()
    local nn = require "tide.nn"
    nn.sequential {input = {4}, loss = nn.xent(), nn.linear(2)}:compile {optimiser = nn.sgd {lr = 1}}
  end,
  reports = function(w)
    local other <const> = tide.spawn(function() w:report {a = 1} end)
    w:report {a = 1}
    other:wait()
  end,
  mail = function(w)
    local peers <const> = w:barrier("addresses", core.self())
    for i = 1, 5 do core.send(peers[w.rank % w.workers + 1], {hello = i}) end
    tide.sleep "10ms"
    w:barrier "sent"
    local got = {}
    while #got < 5 do got[#got + 1] = core.receive(1).value.hello end
    w:report {sum = got[1] + 10 * got[5], more = core.receive(0.01) and 1 or 0}
  end,
  receives = function(w)
    local n = 0
    while not w:stopping() and n < 1000 do n = n + 1 core.receive(0.01) end
    w:report {left = n < 1000 and 1 or 0}
  end,
  clock = function(w) w:clock() w:report {a = 1} end,
}
local job = tide.job {name = "j", tables = {t = tide.table {keys = tide.dense(6), width = 1, init = tide.normal {std = 1}}},
                      checkpoint = {dir = "ckpt", every = "1h"}, worker = does[what]}
tide.main(function()
  local c <close> = tide.cluster {nodes = 2}
  local run = c:start(job)
  if what == "receives" then tide.sleep "200ms" run:stop() end
  for r in run:events "report" do
    print("REPORT", r.sum, r.more, r.left)
    if what == "clock" then print(pcall(run.checkpoint, run)) end
  end
  run:wait()
end)
END
for what in "pull has no option .asinc." "push has no option .into." "compile has no field .optimiser."; do
    run 1 sim --seed 1 worker.lua -- --what "${what%% *}"
    says err.txt "$what"
done
run 1 sim --seed 1 worker.lua -- --what reports
says err.txt 'w:report while another fiber of this worker waits in w:report'
run 0 sim --seed 1 worker.lua -- --what mail
says out.txt '^REPORT	102	0'
run 0 sim --seed 1 worker.lua -- --what receives
says out.txt '^REPORT	nil	nil	2'
run 0 sim --seed 1 worker.lua -- --what clock
says out.txt 'T0706.*a checkpoint by clock cannot be written in the body of a loop'

cat >dump.lua <<'END'
local tide = require "tide"
local job = tide.job {name = "d", tables = {t = tide.table {keys = tide.dense(6), width = 2, init = tide.normal {std = 1}}},
  worker = function(w) if w.rank == 1 then w.tables.t:push({4, 1}, {{100, 0}, {200, 0}}) end w:report {} end}
tide.main(function()
  local c <close> = tide.cluster {nodes = 2}
  local run = c:start(job)
  run:wait()
  run:dump("whole.safetensors", {"t"})
  local rows <const> = run.tables.t:pull(tide.range(0, 5))
  local file <const> = io.open("whole.safetensors", "rb"):read "a"
  local head <const> = ("<I8"):unpack(file)
  assert(file:find('"shape":[6,2]', 1, true) or file:find('"shape": [6, 2]', 1, true), file:sub(9, 8 + head))
  for i = 1, 12 do assert(("<f"):unpack(file, 9 + head + 4 * (i - 1)) == rows[i], i) end
  print "WHOLE"
end)
END
run 0 run dump.lua
says out.txt WHOLE
finish
