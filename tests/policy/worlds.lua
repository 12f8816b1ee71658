-- What tests of the policy host have in common: a driver in virtual time, workers whose time is a line in their batch.
local guard = require "tide.policy.guard"
local Host = require "tide.policy.host"

-- A job of n workers; step seconds = the slowest worker's at + per * batch.
local function world(o)
  o = o or {}
  local w = {time = 0, clock = 0, events = {}, applied = 0, doubled = 0, epochs = {}, workers = {}, batch = o.batch or 96}
  local speeds = o.speeds or {1, 1.6, 3}
  for i, speed in ipairs(speeds) do
    w.workers[i] = {id = i, node = i, state = "up", batch = w.batch // #speeds, batch_min = 1, batch_max = w.batch,
                    at = 0.01, per = 0.01 / speed, examples = {}, seconds = {}, metrics = {}}
  end
  w.driver = {
    now = function() return w.time end,
    signals = function() return o.signals or {["worker.speed"] = true, ["worker.sample"] = true, ["worker.times"] = true} end,
    notify = function(e) w.events[#w.events + 1] = e end,
    snapshot = function()
      local view = {job = {id = 1, batch = w.batch}, workers = {}, age = {}}
      for i, x in ipairs(w.workers) do
        view.workers[i] = {id = x.id, node = x.node, state = x.state, batch = x.batch, batch_min = x.batch_min,
          batch_max = x.batch_max, clock = w.clock, compute_s = x.at + x.per * x.batch,
          examples = x.examples[#x.examples], seconds = x.seconds[#x.seconds],
          speed = {examples = {table.unpack(x.examples)}, seconds = {table.unpack(x.seconds)}}}
      end
      return view
    end,
    things = function()
      local out = {compute_s = {}}
      for i, x in ipairs(w.workers) do out.compute_s[i] = x.metrics.compute_s end
      return out
    end,
    apply = function(_, _, actions, epoch)
      if o.fail_apply then return nil, "the node is gone" end
      w.epochs[#w.epochs + 1] = epoch
      for _, a in ipairs(actions) do
        assert(a.field == "batch", a.field)
        if w.workers[a.id].batch == a.value then w.doubled = w.doubled + 1 end
        w.workers[a.id].batch, w.applied = a.value, w.applied + 1
      end
      local sum = 0
      for _, x in ipairs(w.workers) do sum = sum + x.batch end
      assert(sum == w.batch, "the batches do not sum up")
      return true
    end,
  }
  function w.step_s()
    local most = 0
    for _, x in ipairs(w.workers) do most = math.max(most, x.at + x.per * x.batch) end
    return most
  end
  -- One step of training, then the host.
  function w.train(h, times)
    for _ = 1, times or 1 do
      local s = w.step_s()
      for _, x in ipairs(w.workers) do
        x.examples[#x.examples + 1], x.seconds[#x.seconds + 1] = x.batch, x.at + x.per * x.batch
        guard.sample(x.metrics, "compute_s", w.time + s, x.at + x.per * x.batch, 64)
        if #x.examples > 64 then table.remove(x.examples, 1) table.remove(x.seconds, 1) end
      end
      w.time, w.clock = w.time + s, w.clock + 1
      h:metric("examples_per_s", w.batch / s)
      h:step()
    end
  end
  return w
end

local function new_host(w, o)
  o = o or {}
  return Host.new {driver = w.driver, seed = o.seed or 1, journal = o.journal, timed = o.timed}
end

local function policy(body, o)
  o = o or {}
  return {path = (o.name or "test") .. ".lua", text = ([[return {api = 1, kind = %q, name = %q, version = %d, every = %g, min_gap = 0.001,
    needs = {%s}, params = {%s},
    init = function(params, saved) return {params = params, n = saved and saved.n or 0, saved = saved} end,
    decide = function(st, view, k) %s end,
    export = function(st) return {n = st.n} end}]]):format(o.kind or "batching", o.name or "test", o.version or 1,
    o.every or 1, o.needs or "", o.params or "", body)}
end

-- A policy that moves one example at each decision.
local SHIFT <const> = [[st.n = st.n + 1
  local from, to = 1 + st.n % #view.workers, 1 + (st.n + 1) % #view.workers
  if view.workers[from].batch < 2 then return {} end
  return {batch = {[from] = view.workers[from].batch - 1, [to] = view.workers[to].batch + 1}, why = "turn " .. st.n}]]

-- Two pairs of a fast and a slow worker.
local PAIRS <const> = {speeds = {1, 3, 1, 3}, batch = 160}

return {world = world, new_host = new_host, policy = policy, SHIFT = SHIFT, PAIRS = PAIRS}
