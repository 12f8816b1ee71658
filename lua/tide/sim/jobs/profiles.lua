-- Profiles of applications: what a step of a placement and batch takes, and how training goes at a batch. The files
-- are those of Pollux's published simulator (docs/guides/scheduling.md, "Files"); lookups are linear and raise
-- outside of the data.
local core = require "tide.core"
local csv = require "tide.sim.jobs.csv"
local errors = require "tide.errors"

local profiles = {}
profiles.__index = profiles

local app = {}
app.__index = app

local MACHINES_MOST <const> = 16 -- with more a placement is looked up as if on so many

-- What the published simulator says of these applications outside of their files.
local PUBLISHED <const> = {yolov3 = {high = 8}, ncf = {slots = 1, batch = 32768}}

local function number(name) return {name = name} end
local TIMES <const> = {number "local_bsz", number "step_time", number "sync_time"}
local PLACEMENTS <const> = {{name = "placement", text = true}, table.unpack(TIMES)}
local MESH <const> = {number "num_nodes", number "num_replicas", table.unpack(TIMES)}
local TRAINING <const> = {number "progress", number "iteration", number "grad_sqr", number "grad_var"}

---- reading -------------------------------------------------------------------------------------------------------

-- Rows of one key in the order of the batch: {x = batches, step =, sync =}.
local function add_times(list, key, t, i, path)
  local own = list[key]
  if not own then
    own = {x = {}, step = {}, sync = {}}
    list[key] = own
  end
  local x, step, sync = t.local_bsz[i], t.step_time[i], t.sync_time[i]
  if not (x > 0 and step > 0 and sync >= 0 and sync <= step) then
    csv.fail(path, t.line[i], "requires local_bsz > 0 and 0 <= sync_time <= step_time, step_time > 0")
  end
  local n = #own.x
  if n > 0 and x <= own.x[n] then csv.fail(path, t.line[i], "rows of one placement must be in order of local_bsz") end
  own.x[n + 1], own.step[n + 1], own.sync[n + 1] = x, step, sync
end

local function read_placements(self, path)
  local t = csv.read(path, PLACEMENTS)
  self.placements, self.low, self.high = {}, math.huge, 0
  for i = 1, #t.line do
    if not t.placement[i]:find "^[1-9]+$" then
      csv.fail(path, t.line[i], ("`placement` is `%s`, not digits"):format(t.placement[i]))
    end
    add_times(self.placements, t.placement[i], t, i, path)
    self.low, self.high = math.min(self.low, t.local_bsz[i]), math.max(self.high, t.local_bsz[i])
  end
end

local function read_mesh(self, path)
  local t = csv.read(path, MESH)
  self.mesh = {}
  for i = 1, #t.line do
    add_times(self.mesh, ("%d,%d"):format(t.num_nodes[i], t.num_replicas[i]), t, i, path)
  end
end

local function read_training(self, path, batch)
  local t = csv.read(path, TRAINING)
  for i = 1, #t.line do
    if i > 1 and (t.progress[i] <= t.progress[i - 1] or t.iteration[i] <= t.iteration[i - 1]) then
      csv.fail(path, t.line[i], "progress and iteration must grow")
    end
    if t.grad_sqr[i] < 0 or t.grad_var[i] < 0 or t.progress[i] <= 0 then
      csv.fail(path, t.line[i], "progress must be above 0, grad_sqr and grad_var 0 or more")
    end
  end
  self.training[#self.training + 1] = {batch = batch, progress = t.progress, iteration = t.iteration,
                                       sqr = t.grad_sqr, var = t.grad_var, path = path}
end

local function finish_training(self)
  table.sort(self.training, function(a, b) return a.batch < b.batch end)
  self.start, self.max = self.training[1].batch, self.training[#self.training].batch
  self.epochs = math.huge
  for _, t in ipairs(self.training) do self.epochs = math.min(self.epochs, #t.progress) end
  self.ends = {}
  for e = 1, self.epochs do
    local least = math.huge
    for _, t in ipairs(self.training) do least = math.min(least, t.progress[e]) end
    self.ends[e] = least
  end
end

local function open_app(folder, name)
  local self = setmetatable({name = name, training = {}, cache = {}, oracles = {}}, app)
  local listed, why = core.file_list(folder)
  if not listed then error(errors.from(why), 0) end
  local files = {}
  for _, file in ipairs(listed) do files[file] = true end
  read_placements(self, folder .. "/placements.csv")
  if files["interpolated.csv"] then
    read_mesh(self, folder .. "/interpolated.csv")
  elseif files["scalability.csv"] then
    read_mesh(self, folder .. "/scalability.csv")
  else
    self.mesh = {}
  end
  for _, file in ipairs(require("tide.text").sorted_keys(files)) do
    local batch = file:match "^validation%-(%d+)%.csv$"
    if batch then read_training(self, folder .. "/" .. file, math.tointeger(tonumber(batch))) end
  end
  if #self.training == 0 then
    error(errors.new("T0205", {message = folder .. ": there is no validation-BATCH.csv"}), 0)
  end
  finish_training(self)
  local more = PUBLISHED[name] or {}
  self.high = more.high or self.high
  self.slots_most, self.batch_only = more.slots, more.batch
  self.low, self.high = math.tointeger(self.low), math.tointeger(self.high)
  if not self.low or not self.high then
    error(errors.new("T0205", {message = folder .. "/placements.csv: local_bsz must be whole numbers"}), 0)
  end
  return self
end

---@param folder string with a folder an application
---@return table profiles
function profiles.open(folder)
  local listed, why = core.file_list(folder)
  if not listed then error(errors.from(why), 0) end
  local names = {}
  for _, name in ipairs(listed) do names[name] = true end
  return setmetatable({folder = folder, names = names, apps = {}}, profiles)
end

---@param name string
---@return table|nil app nil: there is none of this name
function profiles:app(name)
  if not self.names[name] then return nil end
  local found = self.apps[name]
  if not found then
    found = open_app(self.folder .. "/" .. name, name)
    self.apps[name] = found
  end
  return found
end

---- looking up ----------------------------------------------------------------------------------------------------

-- Index of the last x[i] <= v, so that i + 1 is there too.
local function below(x, v)
  local low, high = 1, #x - 1
  while low < high do
    local middle = (low + high + 1) // 2
    if x[middle] <= v then low = middle else high = middle - 1 end
  end
  return low
end

local function linear(x, y, v, i)
  if #x == 1 then return y[1] end
  return (y[i + 1] - y[i]) / (x[i + 1] - x[i]) * (v - x[i]) + y[i]
end

---The text that names a placement: slots by machine, the smallest of its rotations.
---@param counts integer[]
function profiles.placement(counts)
  local best
  for shift = 0, #counts - 1 do
    local digits = {}
    for i = 1, #counts do digits[i] = counts[(i - 1 + shift) % #counts + 1] end
    local text = table.concat(digits)
    if not best or text < best then best = text end
  end
  return best
end

---@param counts integer[] slots of each machine
---@param m integer examples a slot and pass
---@return number step_s, number sync_s
function app:seconds(counts, m)
  local key = table.concat(counts, ",") .. ":" .. m
  local known = self.cache[key]
  if known then return known[1], known[2] end
  local sum, is_digits = 0, true
  for _, n in ipairs(counts) do sum, is_digits = sum + n, is_digits and n < 10 end
  local t = is_digits and self.placements[profiles.placement(counts)]
    or self.mesh[("%d,%d"):format(math.min(#counts, MACHINES_MOST), sum)]
  if not t or m < t.x[1] or m > t.x[#t.x] then
    error(errors.new("T0205", {message = ("profile %s: nothing is known of %d examples on slots %s"):format(self.name,
      m, table.concat(counts, " + "))}), 0)
  end
  local i = #t.x > 1 and below(t.x, m) or 1
  known = {linear(t.x, t.step, m, i), linear(t.x, t.sync, m, i)}
  self.cache[key] = known
  return known[1], known[2]
end

-- A column of epoch e between validated batches.
local function at_batch(self, column, batch, e)
  local list = self.training
  if #list == 1 or batch <= list[1].batch then return list[1][column][e] end
  local i = 1
  while i < #list - 1 and list[i + 1].batch <= batch do i = i + 1 end
  local a, b = list[i], list[i + 1]
  return (b[column][e] - a[column][e]) / (b.batch - a.batch) * (batch - a.batch) + a[column][e]
end

---Squared norm of the mean gradient and trace of its covariance, over the smallest batch.
---@param batch number
---@param e integer epoch, from 1
function app:noise(batch, e) return at_batch(self, "sqr", batch, e), at_batch(self, "var", batch, e) end

---@return number iteration that ends epoch e
function app:iteration(batch, e) return at_batch(self, "iteration", batch, e) end

---Examples a slot and pass, and extra passes, of a total batch.
---@param total number
---@param slots integer
---@param alone? boolean whether one slot always takes two passes
---@return integer m, integer extra
function app:split(total, slots, alone)
  local function up(x) return math.ceil(x - 1e-8) end
  local part = up(total / slots)
  local extra = math.max(up(part / self.high) - 1, 0)
  if slots == 1 and (alone or total > self.start) then extra = math.max(extra, 1) end
  return math.min(up(part / (extra + 1)), self.max // (slots * (extra + 1))), extra
end

---Step seconds at a fixed batch by slots, machines filled one after the other.
---@param batch integer
---@param machine integer slots of one
---@param most integer
---@return number[]
function app:steps(batch, machine, most)
  local limit = math.min(most, self.slots_most or batch // self.low)
  local key = ("%d,%d,%d"):format(batch, machine, limit)
  local list = self.oracles[key]
  if list then return list end
  list = {}
  for slots = 1, limit do
    local counts, left = {}, slots
    while left > 0 do
      counts[#counts + 1] = math.min(left, machine)
      left = left - counts[#counts]
    end
    local m, extra = self:split(batch, slots, true)
    local ok, step, sync = pcall(self.seconds, self, counts, m)
    if not ok then break end -- the data end here
    list[slots] = step + (step - sync) * extra
  end
  self.oracles[key] = list
  return list
end

return profiles
