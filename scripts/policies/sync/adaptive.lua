-- Chooses the bound of a table by what waiting costs: while its workers wait for it for more than `wait` of their time
-- the bound doubles, up to `most`; while they wait for less than a quarter of that it shrinks, by one clock (vap: by a
-- fifth) down to `least`. The model stays.
local policy = {
  api = 1, kind = "sync", name = "adaptive", version = 2,
  params = { wait = 0.10, least = 0, most = 16 },
  needs = { "table.staleness" }, every = 10, on = { "straggler" },
}

function policy.init(params) return { params = params } end

-- The mean over the workers of the share of their time that they wait.
local function share_of(view)
  local sum, count = 0, 0
  for _, w in ipairs(view.workers) do
    local wait = view.waits[w.id]
    if wait then sum, count = sum + wait, count + 1 end
  end
  return count > 0 and sum / count or nil
end

function policy.decide(st, view)
  local p, share = st.params, share_of(view)
  local model, bound, flat = view.table.consistency:match "^(%a+):([%d.e+-]+)(.*)$"
  if not share or not bound or model == "async" then return {} end
  local is_value = model == "vap"
  bound = is_value and tonumber(bound) or math.tointeger(tonumber(bound))
  local new = bound
  if share > p.wait then
    new = is_value and math.min(2 * bound, p.most) or math.min(math.max(2 * bound, 1), p.most)
  elseif share < p.wait / 4 then
    new = math.max(is_value and 0.8 * bound or bound - 1, p.least)
  end
  if new == bound or new <= 0 and is_value then return {} end
  local form = is_value and "%s:%.9g%s" or "%s:%d%s"
  return { consistency = form:format(model, new, flat),
           why = ("workers wait %.0f %% of their time"):format(100 * share) }
end

return policy
