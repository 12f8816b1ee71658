#!/bin/bash
# Samplers from Lua: levels and schemes, draws of the script's own, and what is refused.
. "$(dirname "$0")/harness.sh"

cat >sample.lua <<'LUA'
local tide = require "tide"
local SCHEMES <const> = {conform = "preloc", bounded = "pool", long_term = "postpone", none = "local"}

local function refused(pattern, f, ...)
  local ok, err = pcall(f, ...)
  err = tostring(type(err) == "table" and err.message or err)
  assert(not ok and err:find(pattern, 1, true), ("expected %q, found %q"):format(pattern, err))
end

local job = tide.job {
  name = "sample",
  tables = {t = tide.table {keys = tide.dense(1000), width = 4, technique = "relocate"},
            h = tide.table {keys = tide.hashed(), width = 1}},
  worker = function(w)
    local t = w.tables.t
    for level, scheme in pairs(SCHEMES) do
      local s = t:sampler {level = level, seed = w.rank, first = 100, count = 500}
      local h = s:prepare(100)
      local keys, rows = s:pull(h, 60)
      local more = s:pull(h, 40)
      s:finish(h)
      assert(keys:rows() == 60 and rows:rows() == 60 and rows:columns() == 4 and more:rows() == 40)
      assert(keys:min() >= 100 and keys:max() < 600)
      local stats = s:stats()
      assert(stats.scheme == scheme and stats.level == level and stats.pulled == 100)
    end
    local weights = {}
    for i = 1, 1000 do weights[i] = i == 8 and 1 or 0 end
    local s = t:sampler {dist = weights}
    local h = s:prepare(5)
    assert(s:pull(h, 5):sum() == 35)
    s = t:sampler {dist = function() return 7 end, scheme = "naive"}
    h = s:prepare(3)
    assert(s:pull(h, 3)[3] == 7)
    refused("has 0 keys left, not 1", s.pull, s, h, 1)
    refused("no sample 9", s.finish, s, 9)
    s = t:sampler {dist = function() error("boom") end}
    refused("sample.lua:37: boom", s.prepare, s, 2)
    s = t:sampler {dist = function() return "x" end}
    refused("gave no key", s.prepare, s, 2)
    s = t:sampler {dist = function() return 1000 end}
    refused("key 1000 was drawn outside 0..999", s.prepare, s, 2)
    refused("weight 2 is not a number", t.sampler, t, {dist = {1, "x"}})
    refused("all 2 weights are 0", t.sampler, t, {dist = {0, 0}})
    refused("dist has no weights", t.sampler, t, {dist = {}})
    refused("hashed keys needs `count`", w.tables.h.sampler, w.tables.h, {})
    refused("no field 'schema'", t.sampler, t, {schema = 1})
    refused("is not one of its values", t.sampler, t, {scheme = "pools"})
    refused("not both", t.sampler, t, {scheme = "pool", level = "conform"})
    refused("keys 990 to 1009 of 0..999", t.sampler, t, {first = 990, count = 20})
    local triples = tide.tensor.zeros("u32", 2, 3)
    local function train(sampler)
      return tide.kernel "kge_train" {entities = t, relations = t, triples = triples, entity_count = 1000, mode = "steps",
        sampler = sampler}
    end
    s = t:sampler {level = "none"}
    assert(train(s).examples == 2 and s:stats().pulled == 40)
    refused("'sampler' is table", train, {})
    refused("it must be a sampler that is not a function", train, t:sampler {dist = function() return 7 end})
    t:sampler {scheme = "pool"}:prepare(10) -- left open: the state's end gives it up
    w:log "fine"
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  cluster:start(job):wait()
end)
LUA
run 0 run sample.lua
[ "$(grep -c fine out.txt err.txt | awk -F: '{n += $2} END {print n}')" = 2 ] || fail "not both workers were fine"
nothing_left
finish
