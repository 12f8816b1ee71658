-- PSLD: balances parameter servers by what each of them is seen to serve. Reconstructed from the paper's abstract.
--
--  * service rate of a server: keys it served per second of being busy, median of the last `window` decisions, with
--    a confidence half-width of 1.96 s / sqrt(n). Where workers wait for servers `network` times as long as these are
--    busy it is the network that decides, and the seconds count that workers waited for the server.
--  * act only when sure: a burst is no straggler. Even if the server that ends last is as fast as its interval allows
--    it ends `gain` later than all would end together, and that for two decisions in a row.
--  * exploit: steepest descent from the server that ends last to the one that would end first, the heaviest slot that
--    fits into what is too much there.
--  * a migration must pay for itself: of these moves the first n that win most, where n moves win what the last server
--    is busy less over `horizon` iterations, less `interference` times the seconds that their bytes take to travel. How
--    fast they travel is learnt from the policy's own moves, starting from `bytes_per_s`.
--  * explore: with probability `explore` one slot goes to the server whose estimate is oldest. One that is empty
--    gets a slot after `probe` decisions, then after twice as many, and so on until it is found to be faster.
local policy = {
  api = 1, kind = "placement", name = "psld", version = 4,
  params = {
    window = 8, gain = 1.05, explore = 0.02, probe = 4, moves = 1024,
    horizon = 50, horizon_s = 30, -- iterations; seconds, where nothing is reported that tells how long one is
    interference = 1.0, bytes_per_s = 100e6, network = 3.0,
  },
  needs = { "server.load", "slot.rates" }, every = 0.5, on = { "join", "leave" }, min_gap = 0.2,
}

function policy.init(params, saved)
  local rates = {}
  for id, list in pairs(saved and type(saved.rates) == "table" and saved.rates or {}) do rates[id] = list end
  return { params = params, rates = rates, sure = 0, seen = {}, probe = {},
           bytes_per_s = saved and tonumber(saved.bytes_per_s) or params.bytes_per_s }
end

local function observe(st, view)
  local cpu_s, step_s = 0, 0
  for _, s in ipairs(view.servers) do cpu_s, step_s = cpu_s + (s.cpu_s or 0), step_s + (s.step_s or 0) end
  local network = step_s > st.params.network * cpu_s
  if network ~= st.network then st.rates, st.network = st.network ~= nil and {} or st.rates, network end
  for _, s in ipairs(view.servers) do
    local list, busy_s = st.rates[s.id] or {}, network and s.step_s or s.cpu_s
    if s.ops_per_s and busy_s and busy_s > 0 and s.ops_per_s > 0 then
      list[#list + 1] = s.ops_per_s / busy_s
      if #list > st.params.window then table.remove(list, 1) end
      st.seen[s.id] = view.now
    end
    st.rates[s.id] = list
  end
end

-- How long an iteration is, and how fast the last migration was.
local function clock(st, view)
  local n = view.job.clock
  if n and st.clock and n > st.clock then st.iteration_s = (view.now - st.clock_at) / (n - st.clock) end
  if n and (not st.clock or n > st.clock) then st.clock, st.clock_at = n, view.now end
  local m = st.migration
  if not m then return end
  for _, slot in ipairs(view.table_slots) do
    if slot.moving then
      m.seen = true
      return
    end
  end
  local rate = m.bytes / (view.now - m.at)
  -- A move that no decision saw in flight took less than the time between two: this rate is a lower bound.
  if m.bytes > 0 then st.bytes_per_s = m.seen and rate or math.max(st.bytes_per_s, rate) end
  st.migration = nil
end

-- Median and half-width by server; a server without measurements counts as a typical one.
local function estimate(st, list_of, k)
  local rate, width, all = {}, {}, {}
  for _, id in ipairs(list_of) do
    local list = st.rates[id]
    if #list > 0 then
      local mean, var = 0, 0
      for _, r in ipairs(list) do mean = mean + r / #list end
      for _, r in ipairs(list) do var = var + (r - mean) ^ 2 / math.max(#list - 1, 1) end
      rate[id], width[id] = k.quantile(list, 0.5), 1.96 * math.sqrt(var / #list)
      all[#all + 1] = rate[id]
    end
  end
  if #all == 0 then return nil end
  local typical = k.quantile(all, 0.5)
  for _, id in ipairs(list_of) do rate[id], width[id] = rate[id] or typical, width[id] or 0 end
  return rate, width
end

-- Ids of the servers that may hold slots, and what each of them has: load, and its slots with the heaviest first.
local function holdings(view)
  local ids, load, own = {}, {}, {}
  for _, s in ipairs(view.servers) do
    if s.state == "up" then ids[#ids + 1], load[s.id], own[s.id] = s.id, 0, {} end
  end
  for _, slot in ipairs(view.table_slots) do
    local w = slot.ops_per_s or 0
    if load[slot.home] and w > 0 and not slot.moving and view.tables[slot.table].replicas == 0 then
      load[slot.home] = load[slot.home] + w
      table.insert(own[slot.home], { slot = slot, w = w })
    end
  end
  for _, id in ipairs(ids) do table.sort(own[id], function(a, b)
    if a.w ~= b.w then return a.w > b.w end
    return a.slot.table ~= b.slot.table and a.slot.table < b.slot.table or a.slot.id < b.slot.id
  end) end
  return ids, load, own
end

local function ends(ids, load, rate)
  local last, first
  for _, id in ipairs(ids) do
    if not last or load[id] / rate[id] > load[last] / rate[last] then last = id end
    if not first or load[id] / rate[id] < load[first] / rate[first] then first = id end
  end
  return last, first
end

-- The heaviest slot that `from` has too much of, else its lightest; nil: no move makes the later of both earlier.
local function pick(own, load, rate, from, to, ideal)
  local list, too_much = own[from], load[from] - ideal * rate[from]
  for i = 1, #list do
    if list[i].w <= too_much or i == #list then
      local ends_at = math.max((load[to] + list[i].w) / rate[to], (load[from] - list[i].w) / rate[from])
      return ends_at < 0.999 * load[from] / rate[from] and i or nil
    end
  end
end

-- Moves that win most, when the last server would end with them, and their bytes.
local function descend(st, ids, load, own, rate)
  local moves, all, speed, bytes = {}, 0, 0, 0
  for _, id in ipairs(ids) do all, speed = all + load[id], speed + rate[id] end
  local last = ends(ids, load, rate)
  local start = load[last] / rate[last]
  local horizon_s = st.iteration_s and st.params.horizon * st.iteration_s or st.params.horizon_s
  local best = { n = 0, wins = 0, ends = start, bytes = 0 }
  while #moves < st.params.moves do
    local from, to = ends(ids, load, rate)
    local i = from ~= to and pick(own, load, rate, from, to, all / speed)
    if not i then break end
    local c = table.remove(own[from], i)
    load[from], load[to], bytes = load[from] - c.w, load[to] + c.w, bytes + (c.slot.bytes or 0)
    moves[#moves + 1] = { table = c.slot.table, slot = c.slot.id, to = to }
    last = ends(ids, load, rate)
    local ends_at = load[last] / rate[last]
    local wins = (start - ends_at) * horizon_s - st.params.interference * bytes / st.bytes_per_s
    if wins > best.wins then best = { n = #moves, wins = wins, ends = ends_at, bytes = bytes } end
  end
  return table.move(moves, 1, best.n, 1, {}), best
end

-- Even as fast as it may be, the last one ends later than all could together, were they as slow as they may be.
local function is_late(st, ids, load, rate, width, last)
  local all, speed = 0, 0
  for _, id in ipairs(ids) do
    all, speed = all + load[id], speed + math.max(rate[id] - width[id], 0.1 * rate[id])
  end
  return load[last] / (rate[last] + width[last]) > st.params.gain * all / speed
end

-- A slot for the server that has been empty for long, or whose estimate is oldest.
local function explore(st, view, ids, load, own)
  local target
  for _, id in ipairs(ids) do
    local p = st.probe[id]
    if load[id] > 0 then
      if p and p.empty then p.empty, p.wait = nil, p.wait * 2 end
    else
      p = p or { wait = st.params.probe }
      st.probe[id] = p
      p.empty = p.empty or view.tick
      if view.tick - p.empty >= p.wait then target = target or id end
    end
  end
  if not target and view.rng() < st.params.explore then
    for _, id in ipairs(ids) do
      if not target or (st.seen[id] or -1) < (st.seen[target] or -1) then target = id end
    end
  end
  if not target then return {} end
  for _, id in ipairs(ids) do
    if id ~= target and #own[id] > 1 then
      local c = own[id][view.rng(#own[id])]
      return { moves = { { table = c.slot.table, slot = c.slot.id, to = target } }, why = "to see how fast it is" }
    end
  end
  return {}
end

function policy.decide(st, view, k)
  observe(st, view)
  clock(st, view)
  local ids, load, own = holdings(view)
  local rate, width = estimate(st, ids, k)
  if not rate or #ids < 2 then return {} end
  local last = ends(ids, load, rate)
  local start = load[last] / rate[last]
  if start == 0 then return {} end
  st.sure = is_late(st, ids, load, rate, width, last) and st.sure + 1 or 0
  if st.sure < 2 and #view.reason == 0 then return explore(st, view, ids, load, own) end
  local moves, best = descend(st, ids, load, own, rate)
  if #moves == 0 or not k.hysteresis(start, best.ends, st.params.gain) then return {} end
  st.sure, st.migration = 0, { at = view.now, bytes = best.bytes }
  return { moves = moves, why = ("the last server ends after %.3g s of a second, then %.3g; %.3g MB move"):format(start,
    best.ends, best.bytes / 1e6) }
end

function policy.export(st) return { rates = st.rates, bytes_per_s = st.bytes_per_s } end

return policy
