-- Scheduled sets: each round takes a few variables that can change together, and more rounds are in flight before the
-- sums of the first are here. After STRADS (Kim et al., EuroSys 2016: schedule, push, pull) and SAP (Lee et al., NIPS
-- 2014: priority and dependency); the check by sums of rows, and what it guarantees, is docs/guides/descent.md's.
--
-- A round: `schedule` gives candidates; those are taken that agree with all taken and all in flight; every worker sends
-- its part of the sums of the set, and of the products of candidates that come up; with the sums of all, every worker
-- computes the same changes. With `ahead` rounds in flight a set knows the changes of rounds up to its number - ahead.
local ending = require "tide.descent.ending"
local kernels = require("tide.package").kernels
local package = require "tide.package"
local schedules = require "tide.descent.schedules"
local tensor = require "tide.tensor"
local tide = require "tide"

local check <const>, add <const> = kernels.descent_check, kernels.vector_add

local CACHE_MOST <const> = 1 << 20 -- pairs
local SAFE_ROUNDS <const> = 100
local REBUILD <const> = 1000
local STALLED <const> = 10 -- epochs over all that gain nothing and bring the gap no nearer: numbers are at their end
local STILL <const> = 1e-12 -- an epoch that gains less, as a share of the objective, is the last of its kind
local HEAD <const> = 3 -- numbers of a message before its sums: mark of the set, objective, one of the model's
local LITTLE <const> = 1e-9 -- an epoch that gains less, as a share of the objective, is worth a look at the gap

---@class tide.descent.problem what is optimised: kinds are in linear_sets.lua and own.lua
---@field J integer
---@field x table f64 tensor
---@field prepare fun(self, index: integer, size: integer) this worker's part of the data; x may have changed
---@field push fun(self, set: integer[]): number[]|table this worker's part of the sums; begins with none
---@field pull fun(self, set: integer[], sums: table, sum: number): number[], number changes, squares by curvature
---@field apply fun(self, set: integer[], changes: number[]) x, and what follows from it here
---@field pairs? fun(self, from: integer[], with: integer[]): table f64 tensor #from x #with: a part of products
---@field scaled? fun(self, j: integer, k: integer, product: number): number |product| of unit columns
---@field dependency? fun(j: integer, k: integer): number in place of pairs
---@field part? fun(self): number, number this worker's part of the smooth objective, and a number that pull gets summed
---@field penalty? fun(self): number of x as it is
---@field whole? fun(self, loss: number, sum: number, penalty: number): number the objective of these sums
---@field gap? fun(self): number, number objective and gap, by sums over all

---@class tide.descent.sets: tide.team.part
local sets = {}
sets.__index = sets

local function fail(message, help) error(package.error("T0203", message, {help = help}), 0) end

---@param o table set, check, theta, tau, floor, order or schedule, ahead, tolerance, seed, rounds
function sets.engine(w, team, o, problem)
  local self <const> = setmetatable({w = w, team = team, o = o, problem = problem, round = 0, updates = 0, refused = 0,
                                     looked = 0, spent = {choose = 0, check = 0, push = 0, pull = 0}}, sets)
  self.state_of = schedules.new {J = problem.J, x = problem.x, seed = o.seed or 1, floor = o.floor or 0.1}
  return self
end

---- messages between workers -------------------------------------------------------------------------------------

---@return table what is not numbers of variables
function sets:kept()
  return {b = self.problem.b or 0, round = self.round, updates = self.updates, due = self.due or false,
          lambda = self.problem.lambda or false, epochs = self:between_epochs()}
end

function sets:state()
  local s <const> = self:kept()
  s.x, s.weights = self.problem.x, self.state_of.weights
  s.epochs = not self.begun and self.carried or false -- else some may have come further
  return s
end

function sets:adopt(s)
  self.problem.x:put(1, s.x)
  self.problem.b, self.round, self.updates = s.b, s.round, s.updates
  self.state_of.weights:put(1, s.weights)
  self.due, self.problem.lambda = s.due or nil, s.lambda or nil
  self.carried = s.epochs or nil
end

---x, the intercept, and with checkpoints the weights of variables: what table x has.
---@return table f64 tensor
---@return boolean whether a round has been made
function sets:numbers()
  local p <const>, J <const> = self.problem, self.problem.J
  local numbers <const> = tensor.zeros("f64", (self.o.checkpoint and 2 or 1) * J + 1)
  numbers:put(1, p.x)
  numbers[J + 1] = p.intercept and p:intercept() or 0.0
  if self.o.checkpoint then numbers:put(J + 2, self.state_of.weights) end
  return numbers, self.round > 0
end

---The state of a checkpoint.
function sets:fetch(s, numbers)
  local J <const> = self.problem.J
  s.x, s.weights = numbers:slice(1, J), numbers:slice(J + 2, J)
  self:adopt(s)
end

---Where the epochs are, when one has ended: what the next is to be, and what the last has come to.
function sets:between_epochs()
  return {whole = self.state_of.whole, objective = self.objective or false, full = self.full or false,
          stalled = self.stalled or 0, least = self.least or false}
end

---What a resumed run makes anew, so that both continue with the same bits.
function sets:refresh()
  if self.ready then self.ready, self.carried = false, self:between_epochs() end
end

function sets:digest() return self.problem.digest and self.problem:digest() or "" end

---What is in flight is dropped: it changed nothing yet.
function sets:divide()
  self.ready = false
  if self.begun then self.carried = nil end
end

local function begin(self)
  local p <const>, s <const> = self.problem, self.state_of
  p:prepare(self.team)
  s.left_out = p.left_out
  s.round = self.round
  s:begin()
  self.cache, self.cached, self.queue, self.flight, self.flying = {}, 0, {}, {}, {}
  self.best, self.since, self.sizes, self.safe = nil, {}, {}, 0
  -- What workers decide by must be alike, so nothing of before counts: some may have come one round further.
  self.objective, self.full, self.rebuilt, self.reported = nil, nil, self.round, self.round
  self.stalled, self.least = 0, nil
  self.updates_before = self.updates
  local carried <const> = self.carried -- all are between the same two epochs
  if carried then
    s.whole, self.objective, self.full = carried.whole, carried.objective or nil, carried.full or nil
    self.stalled, self.least = carried.stalled, carried.least or nil
  end
  self.carried, self.begun, self.ready = nil, true, true
end

---- settings that change while it runs ----------------------------------------------------------------------------

local function setting(self, key, default)
  local value = self.w.params[key]
  if value == nil then value = self.o[key] end
  if value == nil then return default end
  return value
end

local function settings(self)
  local t <const> = {set = setting(self, "set", 32), check = setting(self, "check", "rowsum"),
                     theta = setting(self, "theta", 0.9), tau = setting(self, "tau", 0.1),
                     ahead = setting(self, "ahead", "auto"), floor = setting(self, "floor", 0.1),
                     order = setting(self, "order", "active")}
  if math.type(t.set) ~= "integer" or t.set < 1 then fail(("set is %s, not a whole number from 1 on"):format(t.set)) end
  if t.check ~= "rowsum" and t.check ~= "pair" and t.check ~= "none" then
    fail(("check is `%s`, none of rowsum, pair, none"):format(tostring(t.check)))
  end
  if not (type(t.theta) == "number" and t.theta > 0 and t.theta < 1) then
    fail(("theta is %s, not in (0, 1)"):format(tostring(t.theta)))
  end
  if t.ahead ~= "auto" and not (math.type(t.ahead) == "integer" and t.ahead >= 1) then
    fail(("ahead is %s, not \"auto\" or a whole number from 1 on"):format(tostring(t.ahead)))
  end
  if not self.o.schedule and not schedules[t.order] then
    fail(("order is `%s`, none of active, priority, random, blocks"):format(tostring(t.order)))
  end
  self.state_of.floor = t.floor
  if self.safe > 0 then t.check, t.theta = "rowsum", math.min(t.theta, 0.9) end
  return t
end

---- candidates and their products ----------------------------------------------------------------------------------

---What the schedule gives, checked.
local function draw(self, t)
  local s <const>, since <const> = self.state_of, tide.now()
  s.round = self.scheduled
  self.scheduled = self.scheduled + 1
  local list
  if self.o.schedule then
    list = self.o.schedule(s, self.scheduled)
  else
    list = schedules[t.order](s, t.set)
  end
  if type(list) ~= "table" then
    fail(("round %d: schedule gives a %s, not a list of variables"):format(self.scheduled, type(list)))
  end
  local seen <const> = {}
  for i, j in ipairs(list) do
    if math.type(j) ~= "integer" or j < 1 or j > s.J then
      fail(("round %d: schedule gives variable %s, there are 1 to %d"):format(self.scheduled, tostring(j), s.J))
    end
    if seen[j] then fail(("round %d: schedule gives variable %d twice"):format(self.scheduled, j)) end
    seen[j] = i
  end
  self.spent.choose = self.spent.choose + tide.now() - since
  return list
end

local function key_of(self, j, k)
  if j > k then j, k = k, j end
  return j * (self.problem.J + 1) + k
end

---Pairs of `list` with itself and with those that may be in flight beside it, whose products are not known.
local function missing(self, list, others)
  local cache <const>, pairs_of = self.cache, {}
  for a, j in ipairs(list) do
    for b = 1, a - 1 do
      local key <const> = key_of(self, j, list[b])
      if cache[key] == nil and j ~= list[b] then pairs_of[#pairs_of + 1] = {j, list[b], key} end
    end
    for _, k in ipairs(others) do
      local key <const> = key_of(self, j, k)
      if j ~= k and cache[key] == nil then pairs_of[#pairs_of + 1] = {j, k, key} end
    end
  end
  return pairs_of
end

---This worker's part of the products of these pairs.
local function products(self, wanted)
  local from, with, row, column = {}, {}, {}, {}
  for _, pair in ipairs(wanted) do
    if not row[pair[1]] then
      from[#from + 1] = pair[1]
      row[pair[1]] = #from
    end
    if not column[pair[2]] then
      with[#with + 1] = pair[2]
      column[pair[2]] = #with
    end
  end
  local all <const> = self.problem:pairs(from, with)
  local list = {}
  for i, pair in ipairs(wanted) do list[i] = all[(row[pair[1]] - 1) * #with + column[pair[2]]] end
  return list
end

local function remember(self, wanted, sums, first)
  if self.cached > CACHE_MOST then self.cache, self.cached = {}, 0 end
  for i, pair in ipairs(wanted) do
    self.cache[pair[3]] = self.problem:scaled(pair[1], pair[2], sums[first + i])
  end
  self.cached = self.cached + #wanted
end

---@return number |product| of unit columns
local function between(self, j, k)
  if j == k then return 1 end -- twice in flight: never
  if self.problem.dependency then return math.abs(self.problem.dependency(j, k)) end
  return self.cache[key_of(self, j, k)] or 1
end

---Variables that may be in flight when the list behind the queue is chosen.
local function queued(self)
  local list = {}
  for _, q in ipairs(self.queue) do table.move(q, 1, #q, #list + 1, list) end
  return list
end

---Which of the candidates are taken now.
local function choose(self, t, list)
  local since <const>, p <const> = tide.now(), self.problem
  local flying = {}
  for _, f in ipairs(self.flight) do table.move(f.set, 1, #f.set, #flying + 1, flying) end
  local taken, rest = {}, {}
  local free <const> = {}
  for _, j in ipairs(flying) do free[j] = false end
  local candidates = {}
  for _, j in ipairs(list) do
    if free[j] == false then
      if self.o.schedule then
        fail(("round %d: schedule gives variable %d, which is in flight"):format(self.scheduled, j))
      end
      rest[#rest + 1] = j
    else
      candidates[#candidates + 1] = j
    end
  end
  local checks <const> = t.check ~= "none" and (p.pairs or p.dependency)
  if not checks then
    for i, j in ipairs(candidates) do
      if i <= t.set then taken[i] = j else rest[#rest + 1] = j end
    end
  elseif #candidates > 0 then
    local m <const>, f <const> = #flying + #candidates, #flying
    local all <const> = table.move(candidates, 1, #candidates, f + 1, table.move(flying, 1, f, 1, {}))
    local g <const>, out <const> = tensor.zeros("f64", m, m), tensor.zeros("u8", #candidates)
    for a = 1, m do
      for b = 1, a - 1 do
        local v <const> = between(self, all[a], all[b])
        if v ~= 0 then g[(a - 1) * m + b], g[(b - 1) * m + a] = v, v end
      end
    end
    local r <const> = check {pairs = g, flight = f, mode = t.check, bound = t.check == "pair" and t.tau or t.theta,
                             most = t.set, taken = out}
    for i, j in ipairs(candidates) do
      if out[i] == 1 then taken[#taken + 1] = j else rest[#rest + 1] = j end
    end
    self.refused = self.refused + r.refused
  end
  self.looked = self.looked + #list
  self.spent.check = self.spent.check + tide.now() - since
  return taken, rest
end

---- rounds ---------------------------------------------------------------------------------------------------------

---A sum that distinguishes sets: all workers must have the same.
local function mark_of(set)
  local mark = #set
  for i, j in ipairs(set) do mark = (mark * 31 + j * i) % 9007199254740881 end
  return mark + 0.0
end

---Sends this worker's part of a round.
local function start(self, set, wanted)
  local p <const>, since <const> = self.problem, tide.now()
  local sums <const> = #set > 0 and p:push(set) or {}
  local more <const> = #wanted > 0 and products(self, wanted) or {}
  local count <const> = #sums
  local part <const> = tensor.zeros("f64", HEAD + count + #more)
  part[1] = mark_of(set)
  if p.part then part[2], part[3] = p:part() end
  for i = 1, count do
    local v <const> = sums[i]
    if type(v) ~= "number" then fail(("round %d: push gives a %s, not numbers"):format(self.round, type(v))) end
    part[HEAD + i] = v
  end
  for i, v in ipairs(more) do part[HEAD + count + i] = v end
  self.spent.push = self.spent.push + tide.now() - since
  self.flight[#self.flight + 1] = {set = set, wanted = wanted, count = count,
                                   wait = self.team:begin_gather("set", part), at = self.round,
                                   penalty = p.penalty and p:penalty() or 0}
end

---Undoes what was done since the objective was least.
local function undo(self)
  for i = #self.since, 1, -1 do
    local done <const>, back = self.since[i], {}
    for k, d in ipairs(done.changes) do back[k] = -d end
    self.problem:apply(done.set, back)
  end
  self.since, self.safe = {}, SAFE_ROUNDS
  self.w:log(("round %d: the objective rose from %.9g to %.9g: back to there, check by sums of rows for %d rounds")
    :format(self.round, self.best, self.risen, SAFE_ROUNDS))
end

---The objective as of the message that has come: rounds that were applied when it was sent. True: undone.
local function guard(self, objective, t)
  if objective ~= objective or objective == math.huge then
    if not self.best then fail(("round %d: the objective is %g"):format(self.round, objective)) end
  end
  local allowed = 0
  for _, size in ipairs(self.before_best or {}) do allowed = allowed + size end -- of rounds in flight before the best
  local best <const> = self.best
  if not best or objective <= best then
    self.best = objective
    self.before_best = {}
    for i = #self.sizes, 1, -1 do
      local own <const> = self.sizes[i]
      if own.round <= self.seen and #self.before_best < t.ahead - 1 then table.insert(self.before_best, own.size) end
    end
    -- what was applied after that message was sent stays to be undone
    local keep = {}
    for _, done in ipairs(self.since) do
      if done.round > self.seen then keep[#keep + 1] = done end
    end
    self.since = keep
    return false
  end
  if objective <= best + t.theta / 2 * allowed + 1e-12 * math.abs(best) then return false end
  self.risen = objective
  return true
end

---Waits for the oldest round and makes its changes.
local function finish(self, t)
  local p <const>, f <const> = self.problem, table.remove(self.flight, 1)
  local parts <const> = f.wait()
  local since <const> = tide.now()
  local total
  for i, part in ipairs(parts) do
    if part[1] ~= parts[1][1] or #part ~= #parts[1] then
      fail(("round %d: rank %s has another set than rank %s"):format(self.round + 1, self.team.ranks[i],
        self.team.ranks[1]), "`schedule` and `pull` may depend on nothing but the seed, the round, x and the sums")
    end
    if i == 1 then total = #parts > 1 and part:copy() or part else add {to = total, x = part} end
  end
  for i = 2, #total do
    if total[i] ~= total[i] or math.abs(total[i]) == math.huge then
      for k, part in ipairs(parts) do
        if part[i] ~= part[i] or math.abs(part[i]) == math.huge then
          fail(("round %d: a sum of rank %s is %g"):format(self.round + 1, self.team.ranks[k], part[i]))
        end
      end
    end
  end
  remember(self, f.wanted, total, HEAD + f.count)
  self.objective = p.whole and p:whole(total[2], total[3], f.penalty) or nil
  self.round = self.round + 1
  self.seen = f.at
  if self.objective and guard(self, self.objective, t) then
    undo(self)
    for _, other in ipairs(self.flight) do other.wait() end -- theirs are changes from another x
    self.flight, self.queue = {}, {}
    return
  end
  local changes, size = p:pull(f.set, total:slice(HEAD + 1, f.count), total[3])
  if #changes ~= #f.set then
    fail(("round %d: pull gives %d changes for %d variables"):format(self.round, #changes, #f.set))
  end
  p:apply(f.set, changes)
  self.state_of:changed(f.set, changes)
  self.since[#self.since + 1] = {set = f.set, changes = changes, round = self.round}
  self.sizes[#self.sizes + 1] = {round = self.round, size = size or 0}
  if #self.sizes > 64 then table.remove(self.sizes, 1) end
  self.updates = self.updates + #f.set
  self.safe = math.max(0, self.safe - 1)
  self.spent.pull = self.spent.pull + tide.now() - since
end

local function drain(self, t)
  while #self.flight > 0 do finish(self, t) end
end

---Rounds until an epoch has ended: of `active` its own, else as many as take every variable once on average.
local function epoch(self, t)
  local s <const>, p <const> = self.state_of, self.problem
  local ends <const> = self.round + (s.J + t.set - 1) // t.set
  local by_order <const> = not self.o.schedule and t.order == "active"
  self.scheduled = self.round
  self.queue = {}
  local depth <const> = t.ahead
  local over = false
  while true do
    while #self.queue < depth and not over do
      local list <const> = draw(self, t)
      if #list == 0 then over = true else
        local wanted = p.pairs and t.check ~= "none" and missing(self, list, queued(self)) or {}
        if #wanted > 0 then -- none has asked for them yet
          local sums <const> = tensor.from("f64", products(self, wanted))
          remember(self, wanted, self.team:sum("pairs", sums), 0)
        end
        self.queue[#self.queue + 1] = list
      end
    end
    local list <const> = table.remove(self.queue, 1)
    if not list then
      drain(self, t)
      if not by_order or (#s.deferred == 0 and s.order and s.at >= #s.order) then return end
      over = false
    else
      local taken <const>, rest <const> = choose(self, t, list)
      if by_order then s:defer(rest) end
      local following, wanted = nil, {}
      if not over and (by_order or self.scheduled < ends) then
        following = draw(self, t)
        if #following == 0 then
          over, following = true, nil
        elseif p.pairs and t.check ~= "none" then
          wanted = missing(self, following, queued(self))
        end
      else
        over = true
      end
      if #taken > 0 or #wanted > 0 then start(self, taken, wanted) end
      if following then self.queue[#self.queue + 1] = following end
      local blocked <const> = #taken == 0 and #self.flight > 0 -- by what is in flight
      if #self.flight >= t.ahead or blocked then finish(self, t) end
    end
  end
end

local function report_of(self, objective, gap, last)
  local spent <const>, n <const> = self.spent, math.max(1, self.round - (self.reported or 0))
  local fields <const> = {choose_s = spent.choose, check_s = spent.check, push_s = spent.push, pull_s = spent.pull}
  local alike <const> = {objective = objective or 0, gap = gap, rounds = self.round, updates = self.updates,
    passes = self.updates / self.problem.J, support = kernels.vector_dot ({x = self.problem.x}).nonzero,
    set = (self.updates - (self.updates_before or 0)) / n,
    rejected = self.looked > 0 and self.refused / self.looked or 0,
    last = last and 1 or nil, lambda = self.problem.lambda}
  self.reported, self.updates_before, self.refused, self.looked = self.round, self.updates, 0, 0
  self.spent = {choose = 0, check = 0, push = 0, pull = 0}
  self.due = {alike = alike, fields = fields, last = last}
end

---One epoch, and what is left to gain.
function sets:advance()
  local p <const>, s <const> = self.problem, self.state_of
  if not self.ready then begin(self) end
  local t <const> = settings(self)
  if t.ahead == "auto" then -- more rounds in flight pay while sets are full all the same
    local active = s.J
    if t.order == "active" and not s.whole then active = kernels.vector_dot ({x = p.x}).nonzero end
    t.ahead = active > 16 * t.set and (self.full or 0) >= 0.8 * t.set and 3 or 1
  end
  if self.round - (self.rebuilt or 0) >= REBUILD and p.rebuild then
    p:rebuild()
    self.rebuilt = self.round
  end
  local before <const> = self.objective
  local rounds <const>, updates <const> = self.round, self.updates
  epoch(self, t)
  if s.whole then self.full = (self.updates - updates) / math.max(1, self.round - rounds) end
  if p.settle then p:settle() end
  local objective, gap = nil, nil
  local little <const> = before and self.objective and before - self.objective < LITTLE * math.abs(self.objective)
  if p.gap and (s.whole or little) then objective, gap = p:gap() end
  local now <const> = objective or self.objective
  local gained <const> = before and now and (before - now) / math.max(math.abs(now), 1e-300) or 1
  local still <const> = s:turn(gained < (p.gap and STILL or self.o.tolerance))
  self.objective = now
  self.round = self.round + 1
  local last = still and not p.gap
  if gap then
    last = gap <= self.o.tolerance * math.max(objective, 1e-300)
    local nearer <const> = not self.least or gap < 0.9 * self.least
    self.least = nearer and gap or self.least
    if nearer or gained >= STILL then self.stalled = 0 elseif still then self.stalled = self.stalled + 1 end
    if not last and self.stalled >= STALLED then
      last = true
      if self.team.index == 1 then
        self.w:log(ending.unmet(ending.STILL, self.o.tolerance, gap, objective))
      end
    end
  end
  if self.o.rounds and self.round >= self.o.rounds then last = true end
  report_of(self, now, gap, last)
end

---A linear model by sets.
---@param model? tide.descent.linear that another way to choose has begun with
function sets.new(w, team, o, model)
  return sets.engine(w, team, o, require("tide.descent.linear_sets").new(team, o, model))
end

return sets
