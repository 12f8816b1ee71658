-- A run with one cause of slowness planted, and what tide.show.slowest says of it. `--cause none` plants nothing.
-- Prints "planted CAUSE found CAUSE SHARE" and the sentence.
local tide = require "tide"
local sim = require "tide.sim"
local o <const> = tide.options {
  cause = {"what is planted", default = "none", choices = {"none", "worker", "store", "hot_key", "network", "clocks",
    "driver", "steps", "chunks"}},
}

local KEYS <const>, NODES <const> = 4000, 4
local rng <const> = tide.random((sim.seed or 1) * 977 + 5)
-- Drawn alike by driver and workers: both load this script.
local step_s <const> = 0.002 + 0.003 * rng:uniform()
local count <const> = 6 + rng:below(20)
local jitter <const> = 0.05 + 0.15 * rng:uniform()
local victim <const> = 1 + rng:below(NODES)
local strength <const> = rng:uniform()
local clocked <const> = o.cause == "clocks"

-- One step: rows of others, and some computing that differs a little from step to step.
local function step(w, t, seconds)
  local keys = {}
  for i = 1, count do keys[i] = w.rng:below(KEYS) end
  if o.cause == "hot_key" then
    for i = 2, count do keys[i] = nil end
    keys[1], keys[2] = 17, w.rng:below(KEYS)
  end
  t:pull(keys)
  tide.sleep(seconds * (1 - jitter + 2 * jitter * w.rng:uniform()))
end

local job = tide.job {
  name = "planted", data = o.cause == "chunks" and 6000 or nil, chunks = o.cause == "chunks" and NODES + 1 or nil,
  tables = {t = tide.table {keys = tide.dense(KEYS), width = 4, update = "add",
                            consistency = clocked and "ssp:1" or nil}},
  worker = function(w)
    local t <const> = w.tables.t
    while not w:stopping() do
      if o.cause == "chunks" then
        for chunk in w:chunks() do
          tide.sleep(step_s * 10 * (1 - jitter + 2 * jitter * w.rng:uniform()))
          chunk:report {examples = chunk.count}
        end
        w:report {}
      elseif o.cause == "steps" then
        tide.sleep(step_s / 10 * (1 - jitter + 2 * jitter * w.rng:uniform()))
        w:report {examples = 1}
      elseif clocked then
        local slow = w.rank == victim and 2 + 2 * strength or 1
        for _ = 1, 100 do
          step(w, t, step_s * slow)
          t:push({w.rank}, {{1, 1, 1, 1}})
          w:clock()
        end
        w:report {examples = 100}
      else
        for _ = 1, 20 do step(w, t, step_s) end
        w:report {examples = 20}
      end
    end
  end,
}

local plant = {}
function plant.worker(_, run) run:slow_worker(victim, 1.6 + 2 * strength) end
function plant.store(cluster) cluster:serve_cost("n" .. victim, 2 * step_s / count * (0.5 + strength)) end
function plant.hot_key(cluster)
  for i = 1, NODES do cluster:serve_cost("n" .. i, step_s / 5 * (0.7 + strength / 2)) end
end

local LATENCY_S <const> = {network = step_s * (0.2 + 0.4 * strength), steps = step_s / 10 * (0.5 + strength)}

tide.main(function()
  if LATENCY_S[o.cause] then sim.fault("delay", {latency = LATENCY_S[o.cause], at = "1s"}) end
  local cluster <close> = tide.cluster {nodes = NODES}
  local run <close> = cluster:start(job)
  local held <const> = o.cause == "driver" and 10 * step_s * (1 + strength) or 0
  local finding
  local fiber = tide.spawn(function()
    local ended <close> = setmetatable({}, {__close = function() run:stop() end}) -- luacheck: ignore 211
    tide.sleep "500ms"
    if plant[o.cause] then plant[o.cause](cluster, run) end
    tide.sleep(o.cause == "steps" and "600ms" or "1s")
    finding = cluster:slowest(o.cause == "steps" and "300ms" or "2s")[1]
  end)
  for _ in run:events "report" do
    if held > 0 then tide.sleep(held) end
  end
  fiber:wait()
  print(("planted %s found %s %.2f"):format(o.cause, finding.cause, finding.share))
  for _, line in ipairs(require("tide.show.slowest").lines(finding)) do print(line) end
end)
