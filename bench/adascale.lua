-- Batches of 1, 4 and 16 times the user's, with AdaScale: loss and test score at the same progress, and what sampling
-- the noise of the gradients costs a step.
--   tide run bench/adascale.lua                 --progress 400 --start 32
--   tide run bench/adascale.lua --only cost     a step with samples against one of a fixed batch
local tide, nn = require "tide", require "tide.nn"

local opt = tide.options {
  start    = {"the user's batch", default = 32},
  progress = {"steps of it to train for", default = 400},
  count    = {"images", default = 6000},
  only     = {"rows", default = "all", choices = {"all", "scales", "cost"}},
  nodes    = {"node processes", default = 2},
  json     = {"one JSON object a row", default = false},
}

local SCALES <const> = {1, 4, 16}
local EPOCHS <const> = 400

-- Holds the batch at so many times the user's.
local function held(scale)
  return {path = ("held-%d.lua"):format(scale), text = ([[
    return {api = 1, kind = "batching", name = "held", version = 1, every = 3600, init = function() return {} end,
      decide = function(_, view)
        local total = view.job.limits.start * %d
        return {total = total, accum = math.ceil(total / #view.workers / view.job.limits.hi)}
      end}]]):format(scale)}
end

local data = tide.data.images(nil, {count = opt.count, seed = 3})
local function net(width)
  return nn.sequential {input = {28, 28, 1}, loss = nn.xent(), nn.flatten(), nn.linear(width), nn.relu(), nn.linear(10)}
end

local function job(name, batch, batching, width)
  return nn.job {name = name, program = net(width), data = data, batch = batch, batching = batching, epochs = EPOCHS,
                 optimizer = nn.sgd {lr = 0.02}, seed = 1}
end

local scaled = {}
for i, scale in ipairs(SCALES) do
  scaled[i] = job("scale-" .. scale, {start = opt.start, max = 16 * opt.start, hi = 4 * opt.start}, held(scale), 32)
end
local fixed = job("fixed", 8 * opt.start, nil, 256)
local sampled = job("sampled", {start = 8 * opt.start, max = 8 * opt.start + 1, hi = 8 * opt.start}, held(1), 256)

local function row(what, values)
  if opt.json then
    values.what = what
    return print(tide.json.encode(values))
  end
  local parts = {}
  for _, name in ipairs(require("tide.text").sorted_keys(values)) do
    parts[#parts + 1] = ("%s %.4g"):format(name, values[name])
  end
  print(("%-28s %s"):format(what, table.concat(parts, "  ")))
end

local function run_scale(cluster, scale, own)
  local run = cluster:start(own)
  local steps = 0
  for r in run:events "report" do
    steps = steps + r.steps / opt.nodes
    if r.progress >= opt.progress then
      local test = run:evaluate "test"
      row(("batch %d x %d"):format(scale, opt.start), {progress = r.progress, steps = steps, loss = r.loss / r.examples,
        test_loss = test.loss, test_correct = test.correct, seconds = r.elapsed_s})
      run:stop()
      break
    end
  end
  run:wait()
end

local function step_seconds(cluster, own, reports)
  local run = cluster:start(own)
  local best, before = math.huge, nil
  for r in run:events "report" do
    if before then best = math.min(best, (r.elapsed_s - before) / (r.steps / opt.nodes)) end
    before = r.elapsed_s
    if r.n >= reports then
      run:stop()
      break
    end
  end
  run:wait()
  return best
end

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  if opt.only ~= "cost" then
    for i, scale in ipairs(SCALES) do run_scale(cluster, scale, scaled[i]) end
  end
  if opt.only ~= "scales" then
    local without <const>, with <const> = step_seconds(cluster, fixed, 12), step_seconds(cluster, sampled, 12)
    row("step, ms", {fixed = without * 1e3, sampled = with * 1e3, ratio = with / without})
  end
end)
