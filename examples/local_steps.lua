-- Five ways to train one net where links are slow: gradients each step; local SGD and DiLoCo, whose workers exchange
-- every 25 steps; gossip, where a worker averages with one other; and averages that arrive a round late.
--
--   tide sim examples/local_steps.lua                       -- links of 1 Gbit/s and 50 ms
--   tide sim examples/local_steps.lua --chart >curves.svg   -- loss over time
--
-- The task: the next of 65 symbols, of the last 8, drawn by a rule with noise; no net gets below 1.582.
local tide, nn = require "tide", require "tide.nn"
local simulated <const>, sim = pcall(require, "tide.sim")
local opt <const> = tide.options {
  ways = {"of sync, local, diloco, gossip, delayed", default = "sync local diloco gossip delayed"},
  every = {"local steps of a round", default = 25},
  steps = {"of all workers", default = 1000},
  nodes = {"of a worker each", default = 4},
  batch = {"of all workers", default = 128},
  width = {"of the hidden layer", default = 256},
  chart = {"prints the curves as SVG in place of figures", default = false},
}
local V <const>, LAST <const>, HELD <const>, EPOCHS <const> = 65, 8, 2048, 10
local COUNT <const> = opt.batch * opt.steps // EPOCHS -- examples of an epoch

-- The last symbols and the next one, of the rule s = (3 s + 1 + (one of 65, a quarter of the time)) % 65.
local function examples(count, seed)
  local rng <const>, s = tide.random(seed), 0
  local x <const>, y <const> = tide.tensor.zeros("i32", count, LAST), tide.tensor.zeros("i32", count)
  local recent <const> = {}
  for i = 1 - LAST, count do
    s = (3 * s + 1 + (rng:below(4) == 0 and rng:below(V) or 0)) % V
    recent[i] = s
    for k = 1, i > 0 and LAST or 0 do x[(i - 1) * LAST + k], y[i] = recent[i - LAST + k - 1], s end
  end
  return x, y
end

local net <const> = nn.program("next", function(p)
  local x, y = p:index("x", LAST), p:index "y"
  local h = nn.relu(nn.linear(opt.width)(nn.embedding(V, 16)(x):reshape(16 * LAST)))
  p:loss(nn.xent(nn.linear(V)(nn.relu(nn.linear(opt.width)(h))), y))
end)
local adamw <const> = nn.adamw {lr = 1e-3, beta2 = 0.95, decay = 0.1}

-- The exchange does it: gradients, or differences of rounds.
local function job_of(way, exchange)
  return nn.job {
    name = way, program = net, optimizer = adamw, batch = opt.batch, epochs = EPOCHS, exchange = exchange,
    comm = "comm/always-ps", validate = "held",
    data = tide.data.lazy(function()
      local parts <const> = {}
      parts["train.x"], parts["train.y"] = examples(COUNT, 1)
      parts["held.x"], parts["held.y"] = examples(HELD, 2)
      return {parts = parts, count = COUNT}
    end),
  }
end

-- Workers average by themselves, through peers: w = (w + theirs) / 2, or w += mean - w of the round before.
local function gossip(peers, own, round)
  local to <const> = peers.ranks[(peers.index - 1 ~ 1 << round % 2) + 1] -- the neighbour, then the one behind it
  if not to then return end
  peers:send(to, round, own)
  own:add((assert(peers:receive(to, round)))):mul(0.5)
end
local function delayed(peers, own, round, state)
  local late <const>, sent <const> = state.ticket, state.sent
  state.sent = own:copy()
  state.ticket = peers:gather(round, own, {async = true})
  if not late then return end
  local mean <const> = own:copy():fill(0)
  for _, theirs in pairs(assert(late:wait())) do mean:add(theirs) end
  own:add(mean:mul(1 / #peers.ranks):sub(sent))
end
local function peers_job(way, average)
  return tide.job {
    name = way, on_worker_loss = "replay", stop = {epochs = EPOCHS},
    worker = function(w)
      local m <const>, peers <const>, state <const> = net:compile {optimizer = adamw}, w:peers(), {}
      local x, y = examples(COUNT, 1)
      local hx, hy = examples(HELD, 2)
      local rows <const> = opt.batch // w.workers
      for epoch = 1, EPOCHS do
        local loss, n = 0, 0
        for step = 1, COUNT // opt.batch do
          local r <const> = m:step {x = x, y = y, first = (step - 1) * opt.batch + (w.rank - 1) * rows + 1, rows = rows}
          local steps <const> = (epoch - 1) * (COUNT // opt.batch) + step
          loss, n = loss + r.loss, n + r.count
          if steps % opt.every == 0 then average(peers, m.parameters, steps // opt.every, state) end
        end
        local held <const> = w.rank == 1 and m:evaluate {x = hx, y = hy} or {loss = 0, count = 0}
        w:report {loss = loss, examples = n, valid_loss = held.loss, valid_examples = held.count}
      end
    end,
  }
end

local WAYS <const> = {
  sync = function() return job_of("sync") end,
  ["local"] = function() return job_of("local", {every = opt.every}) end,
  diloco = function() return job_of("diloco", {every = opt.every, outer = nn.nesterov {lr = 0.7, mu = 0.5}}) end,
  gossip = function() return peers_job("gossip", gossip) end,
  delayed = function() return peers_job("delayed", delayed) end,
}
local jobs <const> = {}
for way in opt.ways:gmatch "%S+" do jobs[#jobs + 1] = assert(WAYS[way], "no way is called " .. way)() end

tide.main(function()
  if simulated and sim.active then sim.net {latency = "50ms", nic = "1Gbit"} end
  local lines <const>, say <const> = {}, opt.chart and function() end or function(line, ...) print(line:format(...)) end
  say("%-8s %9s %9s %12s", "way", "loss", "seconds", "MB a worker")
  for _, job in ipairs(jobs) do
    local cluster <close> = tide.cluster {nodes = opt.nodes}
    local bytes, seconds, points, loss = 0, 0, {}, nil
    for r in cluster:start(job):events "report" do
      bytes, seconds, loss = bytes + (r.comm_bytes or r.peers_bytes), r.elapsed_s, r.valid_loss / r.valid_examples
      points[#points + 1] = {seconds, loss}
    end
    lines[#lines + 1] = {name = job.name, points = points}
    say("%-8s %9.4f %9.2f %12.2f", job.name, loss, seconds, bytes / opt.nodes / 1e6)
  end
  if opt.chart then print(tide.chart.svg {{title = "Held-out loss", x = "Time (s)", y = "Loss", series = lines}}) end
end)
