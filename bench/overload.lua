-- Ten times as many operations as a server can take, for a while: what of its capacity still comes out, how much of its
-- memory cap it uses, how late heartbeats get meanwhile, and how soon a call takes as long as before again. In the end
-- every push counts once.
--   tide run bench/overload.lua [--seconds 60] [--json]
local tide = require "tide"
local client = require "tide.cluster.client"
local core = require "tide.core"
local opt = tide.options {
  seconds = {"of overload", default = 20}, json = {"rows as JSON", default = false},
  cost = {"what the server needs for a key, us", default = 5},
  memory = {"cap of each node", default = "64MiB"},
}
local KEYS <const>, WIDTH <const>, ROWS <const> = 20000, 64, 64
local DEPTH <const>, TIMES <const>, CALM_S <const> = 2, 10, 3

local job = tide.job {
  name = "overload", tables = {model = {keys = {"dense", KEYS}, width = WIDTH}},
  worker = function(w)
    local model <const>, ones <const> = w.tables.model, tide.tensor.zeros("f32", ROWS, WIDTH)
    ones:fill(1)
    local function draw()
      local keys = {}
      for i = 1, ROWS do keys[i] = w.rng:below(KEYS) end
      return keys
    end
    local function call()
      local began <const> = tide.now()
      model:push(draw(), ones)
      return tide.now() - began
    end
    -- So many calls in flight for a while: keys and seconds.
    local function load_for(seconds, depth)
      local tickets, done, began = {}, 0, tide.now()
      repeat
        tickets[#tickets + 1] = model:push(draw(), ones, {async = true})
        if #tickets == depth then assert(table.remove(tickets, 1):wait()) end
        done = done + ROWS
      until tide.now() - began >= seconds
      local took <const> = tide.now() - began
      local under_way <const> = #tickets * ROWS
      for _, ticket in ipairs(tickets) do assert(ticket:wait()) end
      return done - under_way, took, under_way
    end
    local calm, sum, count = tide.now() + CALM_S, 0, 0
    repeat
      sum, count = sum + call(), count + 1
      tide.sleep(0.02)
    until tide.now() > calm
    local normal <const> = sum / count
    local pushed = count * ROWS
    local function account(keys, took, rest)
      pushed = pushed + keys + rest
      return keys / took
    end
    local report <const> = {normal = normal}
    w:barrier()
    report.capacity = account(load_for(CALM_S, DEPTH))
    w:barrier()
    report.goodput = account(load_for(opt.seconds, DEPTH * TIMES))
    local ended, well = tide.now(), 0
    repeat
      well = call() < 2 * normal and well + 1 or 0
      pushed = pushed + ROWS
      tide.sleep(0.02)
    until well == 5 or tide.now() - ended > 30
    report.recovered, report.pushed = tide.now() - ended, pushed
    w:report(report)
  end,
}

local function row(what, unit, value)
  if opt.json then
    print(('{"schema":"tide.bench/1","bench":"overload","row":"%s","unit":"%s","value":%.6g}'):format(what, unit,
      value))
  else
    print(("%-10s %-48s %12.4g %s"):format("overload", what, value, unit))
  end
end

local function quantile(list, q)
  table.sort(list)
  return list[math.max(1, math.ceil(q * #list))]
end

tide.main(function()
  local cluster <close> = tide.cluster {servers = 1, nodes = 2, workers = 2, memory = opt.memory}
  cluster:serve_cost("s1", opt.cost * 1e-6)
  local run = cluster:start(job)
  local beats, ends, server = {}, false, nil
  for _, node in ipairs(cluster:agents()) do
    if node.name == "s1" then server = node.id end
  end
  local watcher = tide.spawn(function()
    while not ends do
      tide.sleep(0.1) -- a heartbeat's time
      for _, link in ipairs(core.links()) do
        if link.peer == server and link.round_trip_ns then beats[#beats + 1] = link.round_trip_ns / 1e6 end
      end
    end
  end)
  local total = {normal = 0, capacity = 0, goodput = 0, recovered = 0, pushed = 0}
  for r in run:events "report" do
    for _, w in ipairs(r.workers) do
      for key, value in pairs(total) do
        total[key] = key == "recovered" and math.max(value, w[key]) or value + w[key]
      end
    end
  end
  ends = true
  watcher:wait()
  run:wait()
  local memory
  for _, node in ipairs(client.gather_inside {op = "status"}) do
    if node.name == "s1" then memory = node.answer.memory end
  end
  local keys = {}
  for k = 1, KEYS do keys[k] = k - 1 end
  local sum <const> = run.tables.model:pull(keys):sum() / WIDTH
  assert(math.abs(sum - total.pushed) < 0.5, ("pushes lost or doubled: %.0f of %d"):format(sum, total.pushed))
  row("capacity of the server", "keys/s", total.capacity)
  row(("goodput at %d times as much"):format(TIMES), "%", 100 * total.goodput / total.capacity)
  row("most of the server's memory cap", "%", 100 * memory.most_bytes / memory.cap_bytes)
  row("heartbeat round trip p99", "ms", quantile(beats, 0.99))
  row("mean call before", "ms", 1e3 * total.normal / 4)
  row("until calls take twice that again", "s", total.recovered)
end)
