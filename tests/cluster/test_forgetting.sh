#!/bin/bash
# Tables that forget, restarted from a checkpoint: another limit is refused and nothing is lost, the same one holds
# afterwards, and rows keep their age over a pause.
. "$(dirname "$0")/harness.sh"

cat >forget.lua <<'END'
local tide = require "tide"
local opt = tide.options {limit = {"of keys", default = 300}, unused = {"time", default = "1h"}, what = {"to do", default = ""}}
local job = tide.job {
  name = "lim",
  tables = {t = tide.table {keys = tide.hashed {limit = opt.limit, evict = "lfu", expire = {unused = opt.unused}}, width = 1}},
  worker = function(w) while not w:stopping() do tide.sleep(0.02) end end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  local run = cluster:start(job)
  local t <const>, all <const>, rng <const> = run.tables.t, tide.range(1, 2000), tide.random(5)
  local function present() return t:pull(all):sum() end
  if opt.what == "save" then
    for i = 1, 4000 do t:push({math.floor(2000 ^ rng:uniform())}, {{1}}) end
    cluster:checkpoint "ckpt"
    print("saved", present())
    return
  end
  t:push({7}, {{-5}})
  local ok, err = pcall(cluster.restore, cluster, "ckpt")
  if not ok then
    print("refused", err.code, err.message, t:pull {7}[1], present())
    return
  end
  print("restored", present())
  if opt.what == "push" then -- new keys take the places of others, up to the limit
    for i = 1, 2000 do
      for _ = 1, 3 do t:push({5000 + i}, {{1}}) end
    end
    local out <const> = cluster:checkpoint "after"
    assert(out.rows <= opt.limit + 2, "the table grew to " .. out.rows)
    print "held"
  elseif opt.what == "age" then
    local left
    for _ = 1, 5 do
      tide.sleep(6)
      left = present() -- also a use of what is there
      if left == 0 then break end
    end
    print("left", left)
  end
end)
END
run 0 run forget.lua --what save
says out.txt '^saved'
cp out.txt saved.txt
run 0 run forget.lua --limit 200
says out.txt '^refused.T07.*limit of keys.*-5.0.-5.0'
sum=$(cut -f2 saved.txt)
run 0 run forget.lua --what push
says out.txt "^restored.$sum"
says out.txt '^held'
rm -rf ckpt
run 0 run forget.lua --what save --unused 4s
sum=$(cut -f2 out.txt)
sleep 5
run 0 run forget.lua --what age --unused 4s
says out.txt "^restored.$sum"
says out.txt '^left.0.0'
finish
