-- Hybrid communication (Zhang et al., "Poseidon", USENIX ATC 2017): for each tensor the cheaper of parameter servers
-- and the broadcast of factors. While no rate is known bytes decide, as published:
--   dense  2 n (P - 1) / P            factors  (P - 1) (K (M + N) + rest)        values out of each worker
-- Once the links' rate was seen, seconds do: factors cost a product of all workers' rows on every worker, dense values
-- three passes over memory. Above `full` workers factors are passed on by those who got them, `fanout` at a time.
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

local function decide(st, view)
  local workers, rate = #view.workers, view.net and view.net.bytes_per_s
  local dense_format, factor_format = formats_of(st)
  local path, format, fanout = {}, {}, {}
  local factors, saved = 0, 0
  for _, t in ipairs(view.tensors or {}) do
    local dense, sparse = sizes_of(st, t, workers)
    local dense_cost, sparse_cost = dense, sparse
    if rate then
      dense_cost = dense / rate + 3 * 4 * t.values / st.memory_bytes_per_s
      sparse_cost = math.max(sparse / rate, 2 * (t.values - t.rest) * t.rank * workers / st.flops_per_s)
    end
    if t.path == "factor" then dense_cost = dense_cost * st.gain else sparse_cost = sparse_cost * st.gain end
    path[t.id], format[t.id], fanout[t.id] = "ps", dense_format, workers > st.full and st.fanout or 0
    if workers > 1 and t.row_values > 0 and sparse_cost < dense_cost then
      path[t.id], format[t.id] = "factor", factor_format
      factors, saved = factors + 1, saved + dense - sparse
    end
  end
  return { path = path, format = format, fanout = fanout,
           why = ("%d of %d tensors as factors: %.0f bytes less a step"):format(factors, #view.tensors, saved) }
end

return {
  api = 1, kind = "comm", name = "hybrid", version = 1, every = 10, on = { "grant", "net" },
  -- gain: what a change must bring; density: share of factors' values that `sparse` does not leave out
  params = { format = "f32", density = 0.5, flops_per_s = 5e10, memory_bytes_per_s = 8e9, gain = 1.1, full = 16,
             fanout = 4 },
  needs = { "tensor.sizes", "net.rate" },
  init = function(params) return params end,
  decide = decide,
}
