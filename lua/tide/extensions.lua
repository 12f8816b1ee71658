-- The extension points of jobs: what a package says of how the workers of its job work together. The core acts on what
-- is registered here, and knows no package. docs/guides/own-packages.md is the guide.
--
--   communication  what the workers send each other in each step: the job gets a seat for `comm` policies
--   adaptation     a batch that changes: the job's batching seat decides by a fit of its throughput and the noise
--   meeting        all workers come to the barrier `epoch` before each epoch and agree there on who takes part and what
--                  is left; each says the same of where they stand, and divides the data among those that are there
--   batch          the examples of a step over all workers: the core shares them out, `w.batch` is a worker's part
--
-- A job has at most one implementation of a point.
local checks = require "tide.checks"
local script = require "tide.script"
local text = require "tide.text"

local extensions = {}

---@class tide.extension.communication
---@field tensors fun(): table[] of each tensor: id, name, rows, cols, values, row_values, positions, bytes, rest
---@field batch integer examples of a step over all workers, from which the policy has the rows of factors

---@class tide.extension.adaptation
---@field start integer batch to which the rate belongs
---@field max integer
---@field lo integer the least and
---@field hi integer the largest that a worker computes at once
---@field hold integer epochs without a change, from the first on
---@field grow number the batch gets at most so many times as large at once
---@field rule? string how the rate follows the batch

---@class tide.extension.meeting
---@field midway? boolean they also meet in mid-epoch when the core asks for it (`w.meet` counts that), because
---  workers come or go; default: they come and go where they report
---@field misfit? fun(records: table[]): string|nil why the job cannot continue from a checkpoint's records of workers

---@class tide.extension.batch
---@field total integer
---@field min? integer of a worker; default 1
---@field max? integer of a worker; default `total`

local POINTS <const> = {
  communication = {needs = {tensors = "function", batch = "number"}, may = {}},
  adaptation = {needs = {start = "number", max = "number", lo = "number", hi = "number", hold = "number",
                         grow = "number"}, may = {rule = "string"}},
  meeting = {needs = {}, may = {midway = "boolean", misfit = "function"}},
  batch = {needs = {total = "number"}, may = {min = "number", max = "number"}},
}

local registered <const> = setmetatable({}, {__mode = "k"}) -- job -> point -> implementation

local function refuse(...) error(script.error("T0113", (...):format(select(2, ...))), 3) end

---Registers implementations of extension points for a job.
---@param job tide.job
---@param given table<string, table> by point
function extensions.register(job, given)
  local own <const> = registered[job] or {}
  for _, point in ipairs(text.sorted_keys(given)) do
    local known <const>, implementation <const> = POINTS[point], given[point]
    if not known then
      error(checks.unknown("T0115", "there is no extension point `%s`", point, POINTS), 2)
    end
    if own[point] then refuse("job `%s` has an implementation of `%s` already", job.name, point) end
    if type(implementation) ~= "table" then
      refuse("`%s` of job `%s` is a %s, not a table", point, job.name, type(implementation))
    end
    local fields <const> = setmetatable({}, {__index = function(_, key)
      return known.needs[key] or known.may[key]
    end})
    for _, key in ipairs(text.sorted_keys(implementation)) do
      if not fields[key] then
        refuse("extension point `%s` has no field `%s`: job `%s`", point, key, job.name)
      elseif type(implementation[key]) ~= fields[key] then
        refuse("`%s.%s` of job `%s` is a %s, not a %s", point, key, job.name, type(implementation[key]), fields[key])
      end
    end
    for _, key in ipairs(text.sorted_keys(known.needs)) do
      if implementation[key] == nil then refuse("`%s.%s` of job `%s` is missing", point, key, job.name) end
    end
    own[point] = implementation
  end
  registered[job] = own
end

---@param job tide.job
---@param point "communication"|"adaptation"|"meeting"|"batch"
---@return table|nil implementation
function extensions.of(job, point)
  local own <const> = registered[job]
  return own and own[point]
end

---@param job tide.job
---@return boolean whether its workers also come and go in mid-epoch
function extensions.meets_midway(job)
  local meeting <const> = extensions.of(job, "meeting")
  return meeting ~= nil and meeting.midway == true
end

return extensions
