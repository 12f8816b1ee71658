-- A tour of policies that are changed while training continues: start, check, shadow, swap under load, see the steps
-- become shorter, let a guard roll back a policy that makes them longer, roll back by hand, try one on a part first.
--   tide run examples/hot_swap.lua        tide sim examples/hot_swap.lua
-- docs/guides/tour.md is what it prints.
local tide = require "tide"
local opt = tide.options {steps = {"how many", default = 240}}

local SPEEDS <const> = {1.0, 1.0, 3.0}
local job = tide.job {
  name = "tour", batch = 240, stop = {epochs = opt.steps}, policies = {batching = "batching/equal"},
  worker = function(w)
    while not w:stopping() do
      local began <const> = tide.now()
      tide.sleep((2 + 0.25 * w.batch) * SPEEDS[w.rank] * 1e-3)
      w:report {loss = 1, examples = w.batch, compute_s = tide.now() - began}
    end
  end,
}

local WORSE <const> = [[
return {
  api = 1, kind = "batching", name = "worse", version = 1, every = 0.05, min_gap = 0.01,
  init = function() return {} end,
  decide = function(_, view)
    local batch = {}
    for i, w in ipairs(view.workers) do batch[w.id] = i == #view.workers and view.job.batch - #view.workers + 1 or 1 end
    return {batch = batch, why = "all to the last one"}
  end,
}]]

local function say(text, ...) print("\n-- " .. text:format(...)) end

tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3}
  local run = cluster:start(job)
  local policy <const> = run.policy
  local slowest, shares = {}, ""
  local function curve(from, to)
    local list, bars = table.move(slowest, from, to, 1, {}), {}
    for i = 1, #list, 2 do bars[#bars + 1] = ("%3.0f"):format(list[i]) end
    print(("steps %d to %d, every second one, ms: %s"):format(from, to, table.concat(bars, " ")))
  end
  local acts = {
    [20] = function()
      say("equal shares: the third worker is three times slower, and all wait for it")
      curve(1, 20)
    end,
    [21] = function()
      say("policy.check: would BOA have worked? On the views that the run has recorded, nothing changes")
      local r <const> = assert(policy.check "batching/boa")
      print(("plans %d of %d valid; those views lack %s"):format(r.valid, r.views, r.lacks))
      say("policy.shadow: BOA decides beside the live policy, on the same views")
      assert(policy.shadow("batching/boa", {for_ = "1m"}))
    end,
    [50] = function()
      local r <const> = assert(policy.report "batching")
      print(("%d decisions, %d the same as the live one's, %d invalid, %d faults"):format(r.decisions, r.same,
        r.invalid, r.faults))
      say("policy.swap: between two steps, nobody waits; guarded by the length of a step")
      local a <const> = assert(policy.swap("batching/boa", {guard = {metric = "step_s", rise = 0.2, within = "2s"}}))
      print(("%s -> %s, epoch %d"):format(a.old, a.new, a.epoch))
    end,
    [90] = function()
      curve(41, 80)
      print("shares now: " .. shares)
      print("why: " .. policy.why("batch 3")[1].why)
    end,
    [130] = function()
      say("a policy that is worse, under a guard: it is taken back by itself")
      local a <const> = assert(policy.swap({text = WORSE, path = "worse.lua"},
        {guard = {metric = "step_s", rise = 0.2, within = "5s"}}))
      print(("%s -> %s, epoch %d"):format(a.old, a.new, a.epoch))
    end,
    [160] = function()
      curve(127, 160)
      print("holds the seat: " .. policy.list()[1].name)
      local again <const>, err <const> = policy.swap({text = WORSE, path = "worse.lua"})
      print("again? " .. (again and "yes" or err.message))
    end,
    [170] = function()
      say("policy.rollback: by hand, to what was there before")
      local a <const> = assert(policy.rollback "batching")
      print(("%s -> %s"):format(a.old, a.new))
    end,
    [180] = function()
      say("canary: BOA again, at first for workers 2 and 3 only; worker 1 keeps what it has")
      local a <const> = assert(policy.swap("batching/boa", {canary = {workers = {2, 3}},
        guard = {metric = "compute_s", rise = 0.2, within = "1s"}}))
      print(("%s beside %s on %s"):format(a.new, a.old, a.canary))
    end,
    [190] = function() print("shares now: " .. shares) end,
    [240] = function()
      local r <const> = assert(policy.report "batching")
      print(r.outcome)
      print("shares now: " .. shares)
    end,
  }
  for r in run:events "report" do
    local most, list = 0, {}
    for _, w in ipairs(r.workers) do most, list[w.rank] = math.max(most, w.compute_s), ("%d"):format(w.examples) end
    slowest[r.n], shares = 1e3 * most, table.concat(list, " ")
    assert(r.examples == 240, "a step lacks examples")
    if acts[r.n] then acts[r.n]() end
  end
  run:wait()
  say "policy.history: who held the seat"
  for _, v in ipairs(policy.history "batching") do
    print(("%s %-6s v%d at %5.1f s%s"):format(v.number or "-", v.name, v.version, v.since,
      v.failed and ", failed: " .. v.failed or v.canary and ", canary on " .. v.canary or ""))
  end
end)
