-- A policy of one's own: who computes how many examples of a step. It is checked, and swapped in while the job runs; a
-- third worker is three times as slow. A policy in a file is named by its path.
--   tide run examples/gallery/policy.lua
local tide = require "tide"

local opt = tide.options {steps = {"steps of the job", default = 60}}

local POLICY <const> = [[
-- Shares by speed: examples a second of each worker, as it was measured.
return {
  api = 1, kind = "batching", name = "by-speed", version = 1, needs = {"worker.speed"}, every = 0.05, min_gap = 0.01,
  init = function() return {} end,
  decide = function(_, view)
    local speeds, sum = {}, 0
    for i, w in ipairs(view.workers) do
      local n = #w.speed.examples
      if n == 0 then return {} end
      speeds[i] = w.speed.examples[n] / w.speed.seconds[n]
      sum = sum + speeds[i]
    end
    local batch, left = {}, view.job.batch
    for i, w in ipairs(view.workers) do
      batch[w.id] = i == #view.workers and left or math.floor(view.job.batch * speeds[i] / sum + 0.5)
      left = left - batch[w.id]
    end
    return {batch = batch, why = "by speed"}
  end,
}]]

local SPEEDS <const> = {1, 1, 3}
local job = tide.job {
  name = "shares", batch = 210, stop = {epochs = opt.steps}, policies = {batching = "batching/equal"},
  worker = function(w)
    while not w:stopping() do
      local began <const> = tide.now()
      tide.sleep(w.batch * SPEEDS[w.rank] * 1e-4) -- the work
      w:report {examples = w.batch, compute_s = tide.now() - began}
    end
  end,
}

local function shares(report)
  local list = {}
  for i, w in ipairs(report.workers) do list[i] = ("%d"):format(w.examples) end
  return table.concat(list, " ")
end

tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3}
  local run = cluster:start(job)
  local last
  for r in run:events "report" do
    if r.n == 10 then
      print("equal shares: " .. shares(r))
      assert(run.policy.swap {text = POLICY, path = "by-speed.lua"})
    end
    last = r
  end
  run:wait()
  local fast <const>, slow <const> = last.workers[1].examples, last.workers[3].examples
  print(("by speed: the slow worker has %s of a fast one's share"):format(
    slow * 2.5 < fast and slow * 3.5 > fast and "a third" or ("%d / %d"):format(slow, fast)))
end)
