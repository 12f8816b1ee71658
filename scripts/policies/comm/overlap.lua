-- As hybrid, but bytes that hide behind computing are free: of the tensors that bytes alone would send as factors,
-- those whose product costs most for what they save travel dense, as long as all that leaves a worker in a step fits
-- into `share` of what its link carries while it computes. For links that work beside the processor (cards with their
-- own engine, processors with idle cores); where sending takes the time of computing, take hybrid.
local function sizes_of(st, t, workers)
  local width = st.format == "f32" and 4 or 2
  local dense = width * 2 * t.values * (workers - 1) / workers
  local factors = width * (workers - 1) * (t.rank * t.row_values + t.rest)
  return dense, t.row_values > 0 and factors or math.huge
end

-- Seconds that a tensor's factors cost above its dense values: the product of the other workers' rows.
local function product_s(st, t, workers)
  return 2 * (t.values - t.rest) * t.rank * (workers - 1) / st.flops_per_s
end

local function decide(st, view)
  local workers = #view.workers
  local path, format, candidates, bytes = {}, {}, {}, 0
  for _, t in ipairs(view.tensors or {}) do
    local dense, factors = sizes_of(st, t, workers)
    local cheaper = workers > 1 and factors < dense
    path[t.id], format[t.id] = cheaper and "factor" or "ps", st.format
    bytes = bytes + math.min(dense, factors)
    if cheaper then
      local more = (dense - factors) / (t.path == "ps" and st.gain or 1) -- what is dense stays so for a while
      candidates[#candidates + 1] = { id = t.id, more = more, worth = product_s(st, t, workers) / more }
    end
  end
  local rate, compute_s = view.net and view.net.bytes_per_s, view.job.compute_s
  local room = rate and compute_s and st.share * rate * compute_s - bytes or 0
  table.sort(candidates, function(a, b)
    if a.worth ~= b.worth then return a.worth > b.worth end
    return a.id < b.id
  end)
  local hidden = 0
  for _, c in ipairs(candidates) do
    if c.more <= room then
      path[c.id], room, hidden = "ps", room - c.more, hidden + 1
    end
  end
  return { path = path, format = format,
           why = ("%d of %d tensors as factors; %d more would be, but hide"):format(#candidates - hidden,
             #(view.tensors or {}), hidden) }
end

return {
  api = 1, kind = "comm", name = "overlap", version = 1, every = 10, on = { "grant", "net" },
  params = { format = "f32", flops_per_s = 5e10, share = 0.6, gain = 1.1 },
  needs = { "tensor.sizes", "net.rate", "worker.times" },
  init = function(params) return params end,
  decide = decide,
}
