-- Dynamic stale synchronous parallelism (Zhao et al., 2019): between `least` and `most`, the bound at which the fastest
-- worker would wait least. When it may run r clocks beyond `least`, the last of them ends at r * fast, and it waits
-- until the slowest, whose clocks end at slow, 2 * slow, .., has ended one. Of equal waits the smallest bound; it is
-- not raised for less than a tenth of the slowest's clock.
local policy = {
  api = 1, kind = "sync", name = "dynamic", version = 1,
  params = { least = 1, most = 8 },
  needs = { "table.staleness" }, every = 2, on = { "straggler" },
}

function policy.init(params) return { params = params } end

-- Seconds of a clock without waiting, of the fastest and of the slowest worker.
local function intervals(view)
  local fast, slow
  for _, w in ipairs(view.workers) do
    if w.clock_s then
      local busy = w.clock_s * (1 - (view.waits[w.id] or 0))
      fast, slow = math.min(fast or busy, busy), math.max(slow or busy, busy)
    end
  end
  return fast, slow
end

function policy.decide(st, view)
  local p, model, now = st.params, view.table.consistency:match "^(e?ssp):(%d+)$"
  local fast, slow = intervals(view)
  if not model or not fast or fast <= 0 then return {} end
  local best, best_wait, now_wait
  for r = 0, p.most - p.least do
    local ends = r * fast                                               -- of the fastest's last clock
    local wait = math.max(1, math.ceil(ends / slow - 1e-9)) * slow - ends -- until the slowest ends one
    if not best or wait < best_wait - 1e-9 then best, best_wait = p.least + r, wait end
    if p.least + r == tonumber(now) then now_wait = wait end
  end
  if now_wait and tonumber(now) <= best and now_wait <= best_wait + 0.1 * slow then return {} end
  return { consistency = ("%s:%d"):format(model, best),
           why = ("clocks take %.3g s to %.3g s without waiting"):format(fast, slow) }
end

return policy
