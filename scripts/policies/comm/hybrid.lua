-- Hybrid communication (Zhang et al., "Poseidon", USENIX ATC 2017): for each tensor the cheaper of parameter servers
-- and the broadcast of factors. While no rate is known bytes decide, as published:
--   dense  2 n (P - 1) / P            factors  (P - 1) (K (M + N) + rest)        values out of each worker
-- Once the links' rate was seen, seconds do: factors cost a product of all workers' rows on every worker, dense values
-- one of its own rows and three passes over memory, bytes the processor's time to send and receive them. The link's
-- time costs nothing while other layers are computed: so a tensor whose factors would take the processor more goes
-- dense, as long as everything still arrives within `share` of the time between a layer's gradient and its next use.
-- Above `full` workers factors are passed on by those who got them, `fanout` at a time.
-- A lossy format is one of dense values, `sparse` one of factors: what goes the other way travels as f32.
local BYTES = { f32 = 4, bf16 = 2, f16 = 2, topk = 8 / 100, onebit = 1 / 8 + 8 / 1024 } -- of a value
local LOSSY, LOSSY_LEAST = { topk = true, onebit = true }, 4096 -- layers with fewer values ignore it

local function formats_of(st)
  local f = st.format
  return f == "sparse" and "f32" or f, LOSSY[f] and "f32" or f
end

-- Bytes out of a worker in a step, dense and as factors.
local function sizes_of(st, t, workers)
  local dense, factors = formats_of(st)
  local each = LOSSY[dense] and t.values < LOSSY_LEAST and BYTES.f32 or BYTES[dense]
  local of_factors = factors == "sparse" and 1 / 8 + 4 * st.density or BYTES[factors]
  return each * 2 * t.values * (workers - 1) / workers, of_factors * (workers - 1) * (t.rank * t.row_values + t.rest)
end

-- What both ways cost: seconds of the link, and of the processor.
local function costs_of(st, t, workers, net)
  local dense, sparse = sizes_of(st, t, workers)
  local own = 2 * (t.values - t.rest) * t.rank / (net.flops_per_s or st.flops_per_s)
  return {
    dense = { link = dense / net.bytes_per_s,
              work = own + 3 * 4 * t.values / st.memory_bytes_per_s + 2 * dense / st.wire_bytes_per_s },
    factor = { link = sparse / net.bytes_per_s, work = own * workers + 2 * sparse / st.wire_bytes_per_s },
  }
end

-- What factors would take the processor more than dense values goes dense where that hides, the dearest first. What it
-- saves must be worth the bytes: `least` of a step, and the longest window is about that.
local function hide(st, tensors, costs, path)
  local candidates, step = {}, 0
  for _, t in ipairs(tensors) do step = math.max(step, t.window_s or 0) end
  for i, t in ipairs(tensors) do
    local c <const> = costs[i]
    local saved = c.factor.work - c.dense.work
    -- What is dense already stays so for a while.
    local gain = t.path == "ps" and st.gain or 1
    if path[t.id] == "factor" and saved * gain > st.least * step then
      candidates[#candidates + 1] = { i = i, worth = saved * gain / math.max(c.dense.link - c.factor.link, 1e-9) }
    end
  end
  table.sort(candidates, function(a, b)
    if a.worth ~= b.worth then return a.worth > b.worth end
    return a.i < b.i
  end)
  local function link_of(i) return path[tensors[i].id] == "factor" and costs[i].factor.link or costs[i].dense.link end
  for _, each in ipairs(candidates) do
    local id <const> = tensors[each.i].id
    path[id] = "ps"
    local before, fits = 0, true -- lower layers go first, and are needed first
    for k, t in ipairs(tensors) do
      before = before + link_of(k)
      local slack <const> = t.path == "ps" and st.gain or 1
      if k >= each.i and before > st.share * slack * (t.window_s or 0) then fits = false end
    end
    if not fits then path[id] = "factor" end
  end
end

local function decide(st, view)
  local workers, net, tensors = #view.workers, view.net, view.tensors or {}
  local known = net and net.bytes_per_s
  local dense_format, factor_format = formats_of(st)
  local path, format, fanout, costs = {}, {}, {}, {}
  for i, t in ipairs(tensors) do
    local dense, sparse = sizes_of(st, t, workers)
    if known then
      local c = costs_of(st, t, workers, net)
      costs[i], dense, sparse = c, c.dense.link + c.dense.work, math.max(c.factor.link, c.factor.work)
    end
    if t.path == "factor" then dense = dense * st.gain else sparse = sparse * st.gain end
    path[t.id] = workers > 1 and t.row_values > 0 and sparse < dense and "factor" or "ps"
  end
  if known and workers > 1 then hide(st, tensors, costs, path) end
  local factors, saved = 0, 0
  for _, t in ipairs(tensors) do
    local as_factors = path[t.id] == "factor"
    format[t.id] = as_factors and factor_format or dense_format
    fanout[t.id] = workers > st.full and st.fanout or 0
    if as_factors then
      local dense, sparse = sizes_of(st, t, workers)
      factors, saved = factors + 1, saved + dense - sparse
    end
  end
  return { path = path, format = format, fanout = fanout,
           why = ("%d of %d tensors as factors: %.0f bytes less a step"):format(factors, #tensors, saved) }
end

return {
  api = 1, kind = "comm", name = "hybrid", version = 3, every = 10, on = { "grant", "net" },
  -- gain: what a change must bring; density: share of factors' values that `sparse` does not leave out;
  -- least: what going dense must save the processor, of a step; flops_per_s: until products were measured;
  -- wire_bytes_per_s: of a processor that sends or receives
  params = { format = "f32", density = 0.5, flops_per_s = 5e10, memory_bytes_per_s = 8e9, wire_bytes_per_s = 4e9,
             share = 0.6, least = 0.01, gain = 1.1, full = 16, fanout = 4 },
  needs = { "tensor.sizes", "net.rate", "worker.times" },
  init = function(params) return params end,
  decide = decide,
}
