-- Chooses the bound of stale synchronous parallelism by what waiting costs: while workers wait for more than `wait` of
-- their time the bound doubles, up to `most`; while they wait for less than a quarter of that it shrinks by one.
local policy = {
  api = 1, kind = "sync", name = "adaptive", version = 1,
  params = { wait = 0.10, least = 0, most = 16, eager = true },
  needs = { "worker.times" }, every = 10, on = { "straggler" },
}

function policy.init(params, saved)
  return { params = params, bound = saved and math.tointeger(saved.bound) or nil }
end

function policy.decide(st, view)
  local wait, total = 0, 0
  for _, w in ipairs(view.workers) do
    if w.wait_s and w.compute_s then wait, total = wait + w.wait_s, total + w.wait_s + w.compute_s end
  end
  if total <= 0 then return {} end
  local p = st.params
  local bound = st.bound or math.tointeger(tonumber((view.table.consistency or ""):match "%d+")) or 0
  local share, new = wait / total, bound
  if share > p.wait then new = math.min(math.max(2 * bound, 1), p.most) end
  if share < p.wait / 4 then new = math.max(bound - 1, p.least) end
  st.bound = new
  if new == bound then return {} end
  local model = new == 0 and "bsp" or (p.eager and "essp:" or "ssp:") .. new
  return { consistency = model, why = ("workers wait %.0f %% of their time"):format(100 * share) }
end

function policy.export(st) return { bound = st.bound } end

return policy
