-- Rows of a program's tables in a job: they lie in tables of the cluster. Before a step a worker pulls the rows that
-- its part of the batch reads. After the step it pushes their gradients, divided by the count of the whole batch, which
-- each worker derives from the labels. A `bsp` table sums all pushes and applies the rule once a clock, so all workers
-- read the same rows bit for bit.
local compute = require "tide.compute"
local package = require "tide.package"
local rows = require "tide.nn.rows"
local tide = require "tide"

---@class tide.nn.shared_rows: tide.nn.rows
local shared = setmetatable({}, {__index = rows})
shared.__index = shared

local PLACED <const> = {consistency = true, replicas = true, technique = true}

---A table's rule, and the placement of its rows: {"adagrad", lr =, consistency =, replicas =, technique =}.
---@return table rule of rows.rule
---@return table fields of the table's declaration
local function split(name, given)
  local rule, placed = {}, {}
  for key, value in pairs(type(given) == "table" and given or {}) do
    if PLACED[key] then placed[key] = value else rule[key] = value end
  end
  return rows.rule(name, type(given) == "table" and rule or given), placed
end

---The name in the cluster: names there are lower case.
local function cluster_name(name) return (name:lower():gsub("[^a-z0-9_]", "_")) end
shared.cluster_name = cluster_name

local SUMS <const> = "sums_" -- prefix of the table that sums a table's gradients
local RESERVED <const> = {params = true, states = true, memory = true, average = true}

---The declarations of a program's tables.
---@param program tide.nn.program
---@param given? table<string, table>
---@param clip? number if given, also declares a table for the sums of each table's gradients
---@return table<string, table> name -> function that makes the declaration
function shared.declare(program, given, clip)
  local made, known = {}, {}
  for _, t in ipairs(program.vertex and program:tables() or {}) do
    known[t.name] = true
    local key <const> = cluster_name(t.name)
    if RESERVED[key] or made[key] then
      error(package.error("T0203", ("a table cannot be named %q: the job has its own of that name"):format(t.name)), 0)
    end
    local rule, placed = split(t.name, given and given[t.name])
    local update = {"add"} -- sgd: pushes are scaled by the rate of their step
    if rule.rule ~= "sgd" then
      update = {rule.rule}
      for option, value in pairs(rule) do update[option ~= "rule" and option or 1] = value end
    end
    if clip and placed.consistency and placed.consistency ~= "bsp" then
      error(package.error("T0203", ("clip bounds the norm of all gradients of a step: table %q requires "
        .. 'consistency = "bsp", the default'):format(t.name)), 0)
    end
    made[clip and SUMS .. key or key] = function()
      return tide.table {keys = tide.dense(t.rows), width = t.columns, update = {"total"}, consistency = "bsp"}
    end
    made[key] = function()
      local init = t.kind == "uniform" and {"uniform", -t.number, t.number} or t.kind == "normal"
        and {"normal", t.number} or {"zero"}
      if t.kind == "constant" and t.number ~= 0 then
        error(package.error("T0203", ("table %q: rows of a job begin at zero, uniform or normal"):format(t.name)), 0)
      end
      return tide.table {keys = tide.dense(t.rows), width = t.columns, init = init, update = update,
                             consistency = placed.consistency or "bsp", replicas = placed.replicas,
                             technique = placed.technique}
    end
  end
  for name in pairs(given or {}) do
    if not known[name] then error(package.error("T0203", ("the program has no table %q"):format(tostring(name))), 0) end
  end
  return made
end

---@param given? table<string, table>
---@return table<string, table> the rules alone
function shared.rules(given)
  local rules = {}
  for name, each in pairs(given or {}) do rules[name] = split(name, each) end
  return rules
end

---@param given? table<string, table>
---@return boolean whether one of them follows the workers' clocks
function shared.clocked(given)
  for _, each in pairs(given or {}) do
    local consistency <const> = each.consistency or "bsp"
    if consistency ~= "sequential" then return true end
  end
  return false
end

---What makes a model's tables, for tide.nn.model.
---@param w tide.worker
function shared.of(w)
  return {new = function(model, spec, index, rule)
    return setmetatable({name = spec.name, index = index, rule = rule, width = spec.columns, float = "f32",
                         device = model.device, vectors = spec.vectors,
                         table = w.tables[cluster_name(spec.name)], sums = w.tables[SUMS .. cluster_name(spec.name)]},
      shared)
  end}
end

---Called by one worker before the first read: sets the rows that a file gives initial values.
function shared:begin()
  local from <const> = self.vectors
  if from and #from.ids > 0 then self.table:assign(from.ids, from.values) end
end

---Blocks until the last push is acknowledged; then gathers the rows in `here`.
function shared:bring(ids)
  self:settle()
  if #ids > 0 then self.table:pull(ids, {into = self.here:slice(1, #ids)}) end
end

---For the norm of all workers' gradients: pushes this worker's. `product` returns the result a clock later.
function shared:offer()
  compute.fetch(self.on.gradients, self.gradients)
  local count <const> = #self.ids
  if count > 0 then self.pushed = self.sums:push(self.ids, self.gradients:slice(1, count), {async = true}) end
end

---@return number of this worker's gradients with the sums of all: over all workers, the square of the sums
function shared:product()
  local count <const> = #self.ids
  if count == 0 then return 0 end
  return self.gradients:slice(1, count):dot(self.sums:pull(self.ids))
end

---Pushes the change of the rows by the gradients of the last batch, multiplied by `scale`.
function shared:update(scale, step)
  local count <const> = #self.ids
  if count == 0 then return end
  compute.fetch(self.on.gradients, self.gradients)
  local change <const> = self.gradients:slice(1, count)
  local factor <const> = self.rule.rule == "sgd" and -self:rate(step) * scale or scale
  compute.rows_scale(change, factor)
  self.pushed = self.table:push(self.ids, change, {async = true})
end

---Blocks until the homes have acknowledged the last push.
function shared:settle()
  local pushed <const> = self.pushed
  self.pushed = nil
  if pushed then assert(pushed:wait()) end
end

return shared
