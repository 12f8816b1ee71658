-- The contract of plans: a table of good and bad ones with the code and the text each must get, and fuzzed ones.
local core = require "tide.core"
local plan = require "tide.policy.plan"

local INF <const>, NAN <const> = math.huge, 0 / 0

local worlds = {}

function worlds.scheduling()
  return {slots = 12, nodes = {
    {id = 1, name = "a", type = "gpu", slots = 4, state = "up"}, {id = 2, name = "b", type = "gpu", slots = 4, state = "up"},
    {id = 3, name = "c", type = "cpu", slots = 4, state = "up"}, {id = 4, name = "d", type = "cpu", slots = 8, state = "draining"}},
    jobs = {
      {id = 1, min = 1, max = 8, slots = 2, nodes = {[1] = 2}}, {id = 2, min = 2, max = 4, slots = 0},
      {id = 3, slots = 2, nodes = {[2] = 2}, preemptible = false}, {id = 4, sizes = "pow2", slots = 0},
      {id = 5, sizes = {1, 3}, slots = 0}}}
end
function worlds.scaling()
  return {job = {id = 1, slots = 8, min = 2, max = 6}, workers = {{id = 1}, {id = 2}, {id = 3}, {id = 4}},
    servers = {{id = 1}, {id = 2}}, nodes = {{id = 1}, {id = 2}, {id = 3}}}
end
function worlds.placement()
  return {job = {id = 1}, nodes = {{id = 1, state = "up"}, {id = 2, state = "up"}, {id = 3, state = "draining"}},
    tables = {{id = 1, name = "t", replicas = 0}, {id = 3, name = "fixed", technique = "static"}}, table_slots = {{id = 0, table = 1, home = 1, bytes = 1000},
      {id = 1, table = 1, home = 2, bytes = 500}}}
end
function worlds.batching()
  return {job = {id = 1, batch = 100, accum = 1}, workers = {{id = 1, batch = 50, batch_min = 5, batch_max = 80},
    {id = 2, batch = 50, batch_min = 1, batch_max = 100}, {id = 3, batch = 0, state = "leaving"}}}
end
function worlds.comm() return {tensors = {{id = 1, name = "w"}, {id = 2, name = "b"}}} end
function worlds.sync()
  return {table = {id = 1, consistency = "ssp:3"}, staleness = {max = 4}, workers = {{id = 1}, {id = 2}, {id = 3}}}
end
function worlds.dispatch()
  return {job = {examples = 1 << 20}, workers = {{id = 1}, {id = 2}}, chunks = {{id = 1, left = 10}, {id = 2, left = 10, taken_by = 1}, {id = 3, left = 0}}}
end

local ok <const> = "ok"
local LONG <const> = ("x"):rep(1001)

-- {plan, code or "ok", part of the text}
local tables = {
  scheduling = {
    {nil, ok}, {{}, ok}, {{alloc = {}}, ok}, {{why = "no change"}, ok}, {{why = {[1] = "less"}}, ok},
    {{alloc = {[1] = {slots = 4}}}, ok}, {{alloc = {[1] = {slots = 4.0}}}, ok}, {{alloc = {[1] = {slots = 0}}}, ok},
    {{alloc = {[1] = {nodes = {[1] = 4}}}}, ok}, {{alloc = {[2] = {slots = 2, type = "gpu"}}}, ok},
    {{alloc = {[1] = {slots = 4, servers = 1}}, order = {2, 1}, placer = "pack"}, ok}, {{placer = "emptiest"}, ok},
    {{nodes = {want = 4, pool = "spot"}}, ok}, {{nodes = {drop = {4}}}, ok}, {{wake = 30, next_every = 10}, ok},
    {{alloc = {[4] = {slots = 4}}}, ok}, {{alloc = {[5] = {slots = 3}}}, ok}, {{alloc = {[3] = {slots = 2}}}, ok},
    {{alloc = {[3] = {slots = 4}}}, ok}, {{order = {}}, ok},
    {5, "PLAN_SHAPE", "plan = 5 must be a table"}, {"x", "PLAN_SHAPE", "must be a table"}, {true, "PLAN_SHAPE", "must be a table"},
    {{batch = {}}, "PLAN_SHAPE", "plan.batch is no field"}, {{allocs = {}}, "PLAN_SHAPE", "plan.allocs is no field"},
    {{1, 2}, "PLAN_SHAPE", "plan.1 is no field"}, {{alloc = 3}, "PLAN_SHAPE", "plan.alloc = 3 must be a table by id"},
    {{alloc = {a = {slots = 1}}}, "PLAN_SHAPE", "plan.alloc.a must be keyed by ids"},
    {{alloc = {[1.5] = {slots = 1}}}, "PLAN_SHAPE", "must be a whole number"},
    {{alloc = {[1] = 4}}, "PLAN_SHAPE", "plan.alloc[1] = 4 must be a table"}, {{alloc = {[1] = {}}}, "PLAN_SHAPE", "neither nodes nor slots"},
    {{alloc = {[1] = {slots = 2, nodes = {[1] = 2}}}}, "PLAN_SHAPE", "either nodes or slots"},
    {{alloc = {[1] = {slots = "4"}}}, "PLAN_SHAPE", "must be a number"}, {{alloc = {[1] = {slots = NAN}}}, "PLAN_SHAPE", "must be finite"},
    {{alloc = {[1] = {slots = INF}}}, "PLAN_SHAPE", "must be finite"}, {{alloc = {[1] = {slots = -INF}}}, "PLAN_SHAPE", "must be finite"},
    {{alloc = {[1] = {slots = -1}}}, "PLAN_SHAPE", "must be 0 or more"}, {{alloc = {[1] = {slots = 1.5}}}, "PLAN_SHAPE", "whole number"},
    {{alloc = {[1] = {slots = 2, gpus = 1}}}, "PLAN_SHAPE", "plan.alloc[1].gpus is no field"},
    {{alloc = {[1] = {nodes = {[1] = 0}}}}, "PLAN_SHAPE", "must be 1 or more"}, {{order = 1}, "PLAN_SHAPE", "plan.order = 1 must be a list"},
    {{order = {[2] = 1}}, "PLAN_SHAPE", "list without holes"}, {{order = {"1"}}, "PLAN_SHAPE", "plan.order[1] = 1 must be a number"},
    {{placer = "best"}, "PLAN_SHAPE", "must be one of pack, emptiest"}, {{placer = 1}, "PLAN_SHAPE", "must be one of"},
    {{nodes = {count = 3}}, "PLAN_SHAPE", "plan.nodes.count is no field"}, {{nodes = {want = -1}}, "PLAN_SHAPE", "0 or more"},
    {{wake = NAN}, "PLAN_SHAPE", "plan.wake"}, {{wake = "soon"}, "PLAN_SHAPE", "plan.wake = soon"}, {{next_every = 0}, "PLAN_SHAPE", "plan.next_every"},
    {{why = 1}, "PLAN_SHAPE", "must be a text"}, {{why = LONG}, "PLAN_SHAPE", "at most 1000 bytes"}, {{why = {a = "x"}}, "PLAN_SHAPE", "by id"},
    {{why = {[1] = 2}}, "PLAN_SHAPE", "plan.why[1] = 2 must be a string"},
    {{alloc = {[9] = {slots = 1}}}, "PLAN_UNKNOWN", "plan.alloc[9] = 9 there is no such job"},
    {{alloc = {[-1] = {slots = 1}}}, "PLAN_SHAPE", "0 or more"}, {{order = {1, 7}}, "PLAN_UNKNOWN", "plan.order[2] = 7"},
    {{nodes = {drop = {9}}}, "PLAN_UNKNOWN", "no such node"}, {{alloc = {[1] = {nodes = {[8] = 1}}}}, "PLAN_UNKNOWN", "no such node"},
    {{alloc = {[1] = {slots = 2, type = "tpu"}}}, "PLAN_UNKNOWN", "no node that is up has slots of this type"},
    {{alloc = {[1] = {nodes = {[1] = 5}}}}, "PLAN_CAPACITY", "node 1 has 4 slots"},
    {{alloc = {[1] = {nodes = {[4] = 2}}}}, "PLAN_CAPACITY", "node 4 is draining"},
    {{alloc = {[1] = {slots = 8}, [2] = {slots = 4}}}, "PLAN_CAPACITY", "have 12 slots"},
    {{alloc = {[1] = {slots = 8, type = "cpu"}}}, "PLAN_CAPACITY", "4 slots of type cpu"},
    {{alloc = {[1] = {nodes = {[2] = 3}}}}, "PLAN_CAPACITY", "node 2 has 4 slots"},
    {{alloc = {[1] = {slots = 9}}}, "PLAN_LIMIT", "takes 1 to 8 slots"}, {{alloc = {[2] = {slots = 1}}}, "PLAN_LIMIT", "takes 2 to 4"},
    {{alloc = {[2] = {nodes = {[1] = 1}}}}, "PLAN_LIMIT", "takes 2 to 4"}, {{alloc = {[3] = {slots = 1}}}, "PLAN_LIMIT", "not preemptible"},
    {{alloc = {[3] = {slots = 0}}}, "PLAN_LIMIT", "not preemptible"}, {{alloc = {[4] = {slots = 3}}}, "PLAN_LIMIT", "does not take"},
    {{alloc = {[5] = {slots = 2}}}, "PLAN_LIMIT", "does not take"},
    {{alloc = {[1] = {nodes = {[1] = 1, [2] = 1}}, [2] = {nodes = {[2] = 1, [3] = 1}}}}, "PLAN_SHARED", "share node 2", avoid = true},
    {{alloc = {[1] = {nodes = {[1] = 1, [2] = 1}}, [2] = {nodes = {[2] = 1, [3] = 1}}}}, ok},
    {{alloc = {[1] = {nodes = {[1] = 1, [2] = 1}}}}, ok, avoid = true},
    {{alloc = {[8] = {slots = 1}}}, ok, gone = {jobs = 8}}, {{order = {8, 1}}, ok, gone = {jobs = 8}},
    {{alloc = {[1] = {nodes = {[8] = 1, [1] = 1}}}}, ok, gone = {nodes = 8}}, {{nodes = {drop = {8}}}, ok, gone = {nodes = 8}},
  },
  scaling = {
    {{}, ok}, {{workers = 2}, ok}, {{workers = 6, servers = 3}, ok}, {{servers = 1}, ok}, {{drop = {1}}, ok}, {{drop = {}}, ok},
    {{workers = 4, drop = {4}, why = "slow"}, ok}, {{workers = 0}, "PLAN_SHAPE", "1 or more"}, {{workers = 2.5}, "PLAN_SHAPE", "whole"},
    {{workers = "2"}, "PLAN_SHAPE", "must be a number"}, {{workers = NAN}, "PLAN_SHAPE", "finite"}, {{servers = 0}, "PLAN_SHAPE", "1 or more"},
    {{servers = INF}, "PLAN_SHAPE", "finite"}, {{drop = 1}, "PLAN_SHAPE", "must be a list"}, {{drop = {"a"}}, "PLAN_SHAPE", "plan.drop[1]"},
    {{worker = 3}, "PLAN_SHAPE", "plan.worker is no field"}, {{workers = 9}, "PLAN_CAPACITY", "grant is 8 slots"},
    {{workers = 7}, "PLAN_LIMIT", "takes 2 to 6 workers"}, {{workers = 1}, "PLAN_LIMIT", "takes 2 to 6"}, {{servers = 4}, "PLAN_CAPACITY", "3 nodes"},
    {{drop = {5}}, "PLAN_UNKNOWN", "no such worker"}, {{drop = {1, 2, 3, 4}}, "PLAN_LIMIT", "no worker would be left"},
    {{drop = {9}}, ok, gone = {workers = 9}}, {{workers = {}}, "PLAN_SHAPE", "must be a number"},
  },
  placement = {
    {{}, ok}, {{moves = {}}, ok}, {{moves = {{table = 1, slot = 0, to = 2}}}, ok}, {{moves = {{table = 1, key = 7, to = 1}}}, ok},
    {{moves = {{table = 1, slot = 0, to = 2}, {table = 1, slot = 1, to = 1}}}, ok}, {{replicas = {[1] = 2}}, ok},
    {{technique = {{table = 1, keys = {1, 2}, use = "relocate"}}}, ok}, {{technique = {{table = 1, range = {0, 9}, use = "replicate", nodes = {1}}}}, ok},
    {{moves = {{table = 1, slot = 0, to = 2}}, budget_bytes_per_s = 1000}, ok}, {{replicas = {[1] = 0}}, ok},
    {{moves = {{table = 1, slot = 0}}}, "PLAN_SHAPE", "plan.moves[1].to is missing"}, {{moves = {{slot = 0, to = 2}}}, "PLAN_SHAPE", "table is missing"},
    {{moves = {{table = 1, to = 2}}}, "PLAN_SHAPE", "either a slot or a key"}, {{moves = {{table = 1, slot = 0, key = 1, to = 2}}}, "PLAN_SHAPE", "either"},
    {{moves = {5}}, "PLAN_SHAPE", "plan.moves[1] = 5 must be a table"}, {{moves = {a = 1}}, "PLAN_SHAPE", "list without holes"},
    {{moves = {{table = 1, slot = -1, to = 2}}}, "PLAN_SHAPE", "0 or more"}, {{moves = {{table = 1, slot = 0, to = 2, at = 1}}}, "PLAN_SHAPE", "at is no field"},
    {{budget_bytes_per_s = 0}, "PLAN_SHAPE", "1 or more"}, {{replicas = {[1] = -1}}, "PLAN_SHAPE", "0 or more"}, {{replicas = 2}, "PLAN_SHAPE", "by id"},
    {{technique = {{table = 1, keys = {1}, use = "magic"}}}, "PLAN_SHAPE", "must be one of"}, {{technique = {{table = 1, use = "static"}}}, "PLAN_SHAPE", "keys or a range"},
    {{technique = {{table = 1, range = {5}, use = "static"}}}, "PLAN_SHAPE", "{first, last}"}, {{technique = {{table = 1, range = {5, 1}, use = "static"}}}, "PLAN_SHAPE", "{first, last}"},
    {{technique = {{keys = {1}, use = "static"}}}, "PLAN_SHAPE", "table is missing"}, {{technique = {{table = 1, keys = {1.5}, use = "static"}}}, "PLAN_SHAPE", "whole"},
    {{moves = {{table = 2, slot = 0, to = 2}}}, "PLAN_UNKNOWN", "no such table"}, {{moves = {{table = 1, slot = 0, to = 9}}}, "PLAN_UNKNOWN", "no such node"},
    {{moves = {{table = 1, slot = 5, to = 2}}}, "PLAN_UNKNOWN", "has no such slot"}, {{replicas = {[2] = 1}}, "PLAN_UNKNOWN", "no such table"},
    {{moves = {{table = 1, slot = 0, to = 1}}}, "PLAN_MOVE", "at home there already"}, {{moves = {{table = 1, slot = 0, to = 2}, {table = 1, slot = 0, to = 2}}}, "PLAN_MOVE", "moved twice"},
    {{moves = {{table = 1, key = 3, to = 2}, {table = 1, key = 3, to = 1}}}, "PLAN_MOVE", "moved twice"}, {{replicas = {[1] = 3}}, "PLAN_MOVE", "at most 2 replicas"},
    {{moves = {{table = 1, slot = 0, to = 2}}, budget_bytes_per_s = 10}, "PLAN_MOVE", "budget allows 100 bytes"}, {{moves = {{table = 1, slot = 0, to = 3}}}, "PLAN_CAPACITY", "draining"},
    {{technique = {{table = 3, keys = {1}, use = "intent"}}}, "PLAN_LIMIT", "rows of this table do not move"},
    {{technique = {{table = 3, keys = {1}, use = "replicate"}}}, ok}, {{technique = {{table = 9, keys = {1}, use = "relocate"}}}, ok, gone = {tables = 9}},
    {{moves = {{table = 9, slot = 0, to = 2}}}, ok, gone = {tables = 9}}, {{moves = {{table = 1, slot = 0, to = 9}}}, ok, gone = {nodes = 9}},
  },
  batching = {
    {{}, ok}, {{batch = {[1] = 40, [2] = 60}}, ok}, {{batch = {[1] = 80, [2] = 20}}, ok}, {{total = 200}, ok}, {{accum = 2}, ok}, {{lr_rule = "linear"}, ok},
    {{batch = {[1] = 80, [2] = 100}, total = 180}, ok}, {{batch = {[1] = 40, [2] = 60, [3] = 0}}, ok}, {{batch = {[1] = 50}}, ok}, {{batch = {}}, ok},
    {{batch = {[1] = 40.0, [2] = 60.0}}, ok}, {{batch = 5}, "PLAN_SHAPE", "by id"}, {{batch = {a = 5}}, "PLAN_SHAPE", "keyed by ids"}, {{batch = {[1] = "a"}}, "PLAN_SHAPE", "number"},
    {{batch = {[1] = NAN, [2] = 50}}, "PLAN_SHAPE", "plan.batch[1] = nan must be finite"}, {{batch = {[1] = -5}}, "PLAN_SHAPE", "0 or more"}, {{batch = {[1] = 40.5}}, "PLAN_SHAPE", "whole"},
    {{total = 0}, "PLAN_SHAPE", "1 or more"}, {{accum = 0}, "PLAN_SHAPE", "1 or more"}, {{lr_rule = "cosine"}, "PLAN_SHAPE", "one of adascale"}, {{rule = 1}, "PLAN_SHAPE", "no field"},
    {{batch = {[9] = 5}}, "PLAN_UNKNOWN", "no such worker"}, {{batch = {[1] = 40, [2] = 50}}, "PLAN_BATCH", "plan.batch = 90 the sum must be 100"},
    {{batch = {[1] = 60}}, "PLAN_BATCH", "sum must be 100"}, {{batch = {[1] = 40, [2] = 60}, total = 120}, "PLAN_BATCH", "sum must be 120"}, {{batch = {[1] = 0, [2] = 100}}, "PLAN_BATCH", "at least one example"},
    {{batch = {[1] = 81, [2] = 19}}, "PLAN_BATCH", "holds 80 examples"}, {{batch = {[1] = 4, [2] = 96}}, "PLAN_BATCH", "at least 5"}, {{batch = {[1] = 40, [2] = 50, [9] = 10}}, ok, gone = {workers = 9}},
    {{batch = {[1] = 40, [2] = 101}, total = 141}, "PLAN_BATCH", "holds 100"}, {{total = 1e300}, "PLAN_SHAPE", "or less"}, {{why = "x", next_every = 5, batch = {[1] = 40, [2] = 60}}, ok},
  },
  comm = {
    {{}, ok}, {{path = {[1] = "ps", [2] = "factor"}}, ok}, {{format = {[1] = "bf16"}}, ok}, {{fanout = {[2] = 3}}, ok}, {{format = {[1] = "topk"}, path = {[1] = "ps"}}, ok}, {{priority = {[1] = -2.5}}, ok}, {{chunk_bytes = 65536, budget_bytes_per_s = 1e9}, ok}, {{path = {[2] = "ring"}}, ok},
    {{path = {[1] = "mail"}}, "PLAN_SHAPE", "one of ps"}, {{format = {[1] = "f64"}}, "PLAN_SHAPE", "one of f32"}, {{priority = {[1] = NAN}}, "PLAN_SHAPE", "finite"}, {{priority = {[1] = "high"}}, "PLAN_SHAPE", "number"},
    {{format = {[2] = "onebit"}, path = {[2] = "ring"}}, "PLAN_LIMIT", "does not carry it"}, {{format = {[1] = "sparse"}, path = {[1] = "ps"}}, "PLAN_LIMIT", "`ps` does not carry it"}, {{fanout = {[1] = 256}}, "PLAN_LIMIT", "255 or less"}, {{fanout = {[1] = 1.5}}, "PLAN_SHAPE", "whole"},
    {{chunk_bytes = 0}, "PLAN_SHAPE", "1 or more"}, {{budget_bytes_per_s = -1}, "PLAN_SHAPE", "1 or more"}, {{path = {[3] = "ps"}}, "PLAN_UNKNOWN", "no such tensor"}, {{path = "ps"}, "PLAN_SHAPE", "by id"},
    {{format = {w = "f32"}}, "PLAN_SHAPE", "keyed by ids"}, {{paths = {}}, "PLAN_SHAPE", "no field"}, {{path = {[7] = "ps"}}, ok, gone = {tensors = 7}}, {{chunk_bytes = 1.5}, "PLAN_SHAPE", "whole"},
  },
  sync = {
    {{}, ok}, {{consistency = "ssp:5"}, ok}, {{consistency = "essp:10"}, ok}, {{consistency = "vap:0.01"}, ok}, {{consistency = "async"}, ok}, {{backup = 1}, ok}, {{backup = 0}, ok},
    {{consistency = "ssp:2"}, ok, note = "PLAN_SYNC"}, {{consistency = "bsp"}, ok, note = "PLAN_SYNC"}, {{consistency = "ssp:4"}, ok}, {{consistency = "ssp"}, "PLAN_SHAPE", "ssp:N"}, {{consistency = "ssp:-1"}, "PLAN_SHAPE", "ssp:N"},
    {{consistency = "ssp:x"}, "PLAN_SHAPE", "ssp:N"}, {{consistency = 3}, "PLAN_SHAPE", "ssp:N"}, {{consistency = "sequential"}, "PLAN_SHAPE", "must be bsp"}, {{consistency = "vap:"}, "PLAN_SHAPE", "vap"}, {{consistency = ("ssp:"):rep(20)}, "PLAN_SHAPE", "bsp"},
    {{backup = 3}, "PLAN_LIMIT", "3 workers"}, {{backup = -1}, "PLAN_SHAPE", "0 or more"}, {{backup = 0.5}, "PLAN_SHAPE", "whole"}, {{model = "bsp"}, "PLAN_SHAPE", "no field"}, {{consistency = {"bsp"}}, "PLAN_SHAPE", "bsp"},
  },
  dispatch = {
    {{}, ok}, {{queue = {[1] = {1}, [2] = {2}}}, ok}, {{queue = {[1] = {}}}, ok}, {{backup = {{chunk = 2, worker = 2}}}, ok}, {{chunk_examples = 100}, ok}, {{queue = {[1] = {1, 2}}}, ok},
    {{queue = {[1] = {1, 1}}}, "PLAN_LIMIT", "queued twice"}, {{queue = {[1] = {1}, [2] = {1}}}, "PLAN_LIMIT", "plan.queue[2][1] = 1 this chunk is queued twice"}, {{queue = {[1] = {3}}}, "PLAN_UNKNOWN", "chunk is done"},
    {{queue = {[1] = {9}}}, "PLAN_UNKNOWN", "no such chunk"}, {{queue = {[7] = {1}}}, "PLAN_UNKNOWN", "no such worker"}, {{queue = {[1] = 1}}, "PLAN_SHAPE", "must be a list"}, {{queue = {1, 2}}, "PLAN_SHAPE", "must be a list"},
    {{backup = {{chunk = 2, worker = 1}}}, "PLAN_LIMIT", "works on it already"}, {{backup = {{chunk = 2}}}, "PLAN_SHAPE", "worker is missing"}, {{backup = {{chunk = 9, worker = 1}}}, "PLAN_UNKNOWN", "no such chunk"}, {{chunk_examples = 0}, "PLAN_SHAPE", "1 or more"}, {{chunk_examples = 15}, "PLAN_LIMIT", "65536 chunks at most"}, {{chunk_examples = 16}, ok},
    {{queue = {[1] = {8}}}, ok, gone = {chunks = 8}}, {{queue = {[8] = {1}}}, ok, gone = {workers = 8}}, {{backup = {{chunk = 8, worker = 1}}}, ok, gone = {chunks = 8}}, {{queues = {}}, "PLAN_SHAPE", "no field"},
  },
}

local cases = {}
local function case(name, f) cases[#cases + 1] = {name, f} end

local total = 0
for kind, list in pairs(tables) do
  total = total + #list
  case(("%s: %d plans, each with its code and text"):format(kind, #list), function()
    for i, entry in ipairs(list) do
      local p, code, text = entry[1], entry[2], entry[3]
      local now, view = worlds[kind](), worlds[kind]()
      now.avoid_sharing = entry.avoid
      for what, id in pairs(entry.gone or {}) do
        view[what] = view[what] or {}
        table.insert(view[what], {id = id})
      end
      local before = p ~= nil and core.plain_encode(p) or nil
      local verdict = plan.validate(kind, p, now, view, 10)
      local described = plan.describe(verdict.errors)
      local where = ("%s %d: %s"):format(kind, i, described)
      if code == ok then
        assert(#verdict.errors == 0 and verdict.plan, where)
        assert((entry.gone ~= nil) == (verdict.dropped > 0), where .. " dropped " .. verdict.dropped)
        assert(entry.note == (verdict.notes[1] and verdict.notes[1].code), where)
        plan.diff(verdict.plan, now)
      else
        assert(not verdict.plan and #verdict.errors > 0, where .. " it was accepted")
        assert(verdict.errors[1].code == code or described:find(code, 1, true), where)
        assert(described:find(text, 1, true), where .. " does not say: " .. text)
      end
      assert(before == (p ~= nil and core.plain_encode(p) or nil), "the plan was changed")
    end
  end)
end

case("there are at least 200 of them, and all errors of a plan are collected", function()
  assert(total >= 200, total)
  local verdict = plan.validate("batching", {batch = {[1] = NAN, [9] = 5}, accum = 0, x = 1}, worlds.batching(), worlds.batching(), 1)
  assert(#verdict.errors == 4, #verdict.errors)
  local moves = {}
  for i = 1, 10001 do moves[i] = {table = 1, key = i, to = 2} end
  verdict = plan.validate("placement", {moves = moves}, worlds.placement(), worlds.placement(), 1)
  assert(verdict.errors[1].code == "PLAN_SHAPE" and verdict.errors[1].reason:find "10000 entries")
end)

case("diff: shrinks come before grows, what is unchanged is left out", function()
  local now = worlds.batching()
  local verdict = plan.validate("batching", {batch = {[1] = 60, [2] = 40}, total = 100, why = "x"}, now, now, 1)
  local actions = plan.diff(verdict.plan, now)
  assert(#actions == 2 and actions[1].id == 2 and actions[1].shrink and actions[2].id == 1 and not actions[2].shrink)
  now = worlds.scheduling()
  verdict = plan.validate("scheduling", {alloc = {[1] = {slots = 0}, [2] = {slots = 4}, [4] = {slots = 2}, [3] = {slots = 2}}}, now, now, 1)
  actions = plan.diff(verdict.plan, now)
  assert(#actions == 3 and actions[1].id == 1 and actions[2].id == 2 and actions[3].id == 4)
end)

case("diff: a list or a set of nodes that became shorter is a change", function()
  local now = worlds.scheduling()
  now.jobs[1].nodes = {[1] = 1, [2] = 1}
  now.jobs[1].slots = 2
  local verdict = plan.validate("scheduling", {alloc = {[1] = {nodes = {[1] = 1}}}}, now, now, 1)
  assert(#plan.diff(assert(verdict.plan, plan.describe(verdict.errors)), now) == 1)
  verdict = plan.validate("scheduling", {alloc = {[1] = {nodes = {[1] = 1, [2] = 1}}}}, now, now, 1)
  assert(#plan.diff(verdict.plan, now) == 0)
  now = worlds.dispatch()
  now.queue = {[1] = {1, 2}, [2] = {}}
  verdict = plan.validate("dispatch", {queue = {[1] = {1}, [2] = {}}}, now, now, 1)
  local actions = plan.diff(verdict.plan, now)
  assert(#actions == 1 and actions[1].field == "queue" and actions[1].id == 1 and #actions[1].value == 1)
end)

case("fuzzed plans never get past the validator as they are, and never crash it", function()
  local rng = core.random(5)
  local function below(n) return math.tointeger(rng:below(n)) end
  local names = {"alloc", "slots", "nodes", "moves", "table", "slot", "to", "batch", "total", "queue", "path", "format", "order",
    "workers", "servers", "drop", "technique", "keys", "use", "consistency", "backup", "why", "wake", "next_every", "want", "chunk"}
  local function value(depth)
    local pick = below(depth > 4 and 8 or 12)
    if pick == 0 then return NAN end
    if pick == 1 then return ({INF, -INF, -1, 0, 1 << 62, 0.5, -0.0})[1 + below(7)] end
    if pick <= 4 then return below(10) end
    if pick == 5 then return ({"bsp", "ps", "pack", "f32", "ssp:2", ""})[1 + below(6)] end
    if pick == 6 then return true end
    if pick == 7 then return ("x"):rep(below(2000)) end
    local t = {}
    for _ = 1, below(5) do
      local key = ({names[1 + below(#names)], below(6), below(6), -1, 1.5})[1 + below(5)]
      t[key] = value(depth + 1)
    end
    return t
  end
  for i = 1, 20000 do
    local kinds = {"scheduling", "scaling", "placement", "batching", "comm", "sync", "dispatch"}
    local kind = kinds[1 + i % 7]
    local now = worlds[kind]()
    local verdict = plan.validate(kind, value(0), now, now, 1)
    if verdict.plan then
      assert(core.plain_encode(verdict.plan))
      plan.diff(verdict.plan, now)
    end
  end
end)

return cases
