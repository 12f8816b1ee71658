-- PSLD: balances parameter servers by what each of them is seen to serve. Reconstructed from the paper's abstract.
--
--  * service rate of a server: what it served per second of being busy, median of the last `window` decisions, with a
--    confidence half-width of 1.96 s / sqrt(n). A burst is no straggler: only when its interval lies below the median
--    server's for two decisions in a row, and with a gain of `gain`, is anything moved.
--  * exploit: steepest descent, one slot at a time from the server that ends last to the one that would end first.
--  * explore: with probability `explore` one slot goes to the server whose estimate is oldest, so that one that has
--    recovered is noticed.
local policy = {
  api = 1, kind = "placement", name = "psld", version = 1,
  params = { window = 8, gain = 1.05, explore = 0.02, moves = 32 },
  needs = { "server.load", "slot.rates" }, every = 2, on = { "join", "leave" },
}

function policy.init(params, saved)
  local rates = {}
  for id, list in pairs(saved and type(saved.rates) == "table" and saved.rates or {}) do rates[id] = list end
  return { params = params, rates = rates, low = {}, seen = {} }
end

local function observe(st, view)
  for _, s in ipairs(view.servers) do
    local list = st.rates[s.node] or {}
    if s.ops_per_s and s.cpu_s and s.cpu_s > 0 and s.ops_per_s > 0 then
      list[#list + 1] = s.ops_per_s / s.cpu_s
      if #list > st.params.window then table.remove(list, 1) end
      st.seen[s.node] = view.now
    end
    st.rates[s.node] = list
  end
end

-- Median and half-width by server; the median of the medians.
local function estimate(st, view, k)
  local rate, width, all = {}, {}, {}
  for _, s in ipairs(view.servers) do
    local list = st.rates[s.node]
    if #list > 0 then
      local mean, var = 0, 0
      for _, r in ipairs(list) do mean = mean + r / #list end
      for _, r in ipairs(list) do var = var + (r - mean) ^ 2 / math.max(#list - 1, 1) end
      rate[s.node], width[s.node] = k.quantile(list, 0.5), 1.96 * math.sqrt(var / #list)
      all[#all + 1] = rate[s.node]
    end
  end
  local typical = k.quantile(all, 0.5)
  for _, s in ipairs(view.servers) do rate[s.node] = rate[s.node] or typical end
  return rate, width, typical
end

local function separated(st, view, rate, width, typical)
  local acts = false
  for _, s in ipairs(view.servers) do
    local below = rate[s.node] + (width[s.node] or 0) < typical * 0.98
    st.low[s.node] = below and (st.low[s.node] or 0) + 1 or 0
    acts = acts or st.low[s.node] >= 2
  end
  return acts
end

local function ends(load, rate)
  local last, first
  for id, l in pairs(load) do
    if not last or l / rate[id] > load[last] / rate[last] then last = id end
    if not first or l / rate[id] < load[first] / rate[first] then first = id end
  end
  return last, first
end

function policy.decide(st, view, k)
  observe(st, view)
  local rate, width, typical = estimate(st, view, k)
  if not typical or #view.servers < 2 then return {} end
  local load, own, moves = {}, {}, {}
  for _, s in ipairs(view.servers) do load[s.node], own[s.node] = 0, {} end
  for _, slot in ipairs(view.table_slots) do
    local w = (slot.pulls_per_s or 0) + (slot.pushes_per_s or 0)
    if load[slot.home] and w > 0 then
      load[slot.home] = load[slot.home] + w
      table.insert(own[slot.home], { slot = slot, w = w })
    end
  end
  local before = ends(load, rate)
  local start = load[before] / rate[before]
  if separated(st, view, rate, width, typical) or #view.reason > 0 then
    while #moves < st.params.moves do
      local from, best, best_end, to = ends(load, rate), nil, nil, nil
      for id in pairs(load) do
        for i, c in ipairs(id ~= from and own[from] or {}) do
          local after = math.max((load[id] + c.w) / rate[id], (load[from] - c.w) / rate[from])
          if after < (best_end or load[from] / rate[from] * 0.999) then best, best_end, to = i, after, id end
        end
      end
      if not best then break end
      local c = table.remove(own[from], best)
      load[from], load[to] = load[from] - c.w, load[to] + c.w
      moves[#moves + 1] = { table = c.slot.table, slot = c.slot.id, to = to }
    end
    local after = ends(load, rate)
    if #moves > 0 and k.hysteresis(start, load[after] / rate[after], st.params.gain) then
      local text = ("the last server ends after %.3g, then %.3g"):format(start, load[after] / rate[after])
      return { moves = moves, why = text }
    end
    return {}
  end
  if view.rng() < st.params.explore then
    local oldest
    for _, s in ipairs(view.servers) do
      if not oldest or (st.seen[s.node] or -1) < (st.seen[oldest] or -1) then oldest = s.node end
    end
    for _, s in ipairs(view.servers) do
      if s.node ~= oldest and #own[s.node] > 1 then
        local c = own[s.node][view.rng(#own[s.node])]
        return { moves = { { table = c.slot.table, slot = c.slot.id, to = oldest } }, why = "to see how fast it is" }
      end
    end
  end
  return {}
end

function policy.export(st) return { rates = st.rates } end

return policy
