-- `require "tide"`: what scripts see. docs/guides/scripting.md is the guide.
local checks = require "tide.checks"
local core = require "tide.core"
local errors = require "tide.errors"
local job = require "tide.run.job"
local options = require "tide.options"
local script = require "tide.script"
local table_spec = require "tide.run.table_spec"
local units = require "tide.units"

local tide = {
  version = core.version,
  seed = 1,                     ---@type integer of the script: its option `seed`, else 1
  output = script.output,       ---@type table the command's flags, for scripts that print
}

---- the script ----------------------------------------------------------------------------------------------------

---Declares and reads the script's flags.
---@param spec table<string, table> name = {doc, default=, type=, choices=, min=, above=, max=, required=}
---@return table<string, any> values
function tide.options(spec)
  local values = options.declare(spec, script.args, {script = script.path, source = script.source})
  if math.type(values.seed) == "integer" then tide.seed = values.seed end
  return values
end

---The function that runs on the driver once the script has loaded; elsewhere it is ignored.
---@param f fun()
function tide.main(f)
  if type(f) ~= "function" then error(script.error("T0113", "tide.main requires a function"), 2) end
  if script.main then error(script.error("T0117", "a script has one tide.main"), 2) end
  script.main = f
end

---Makes a job: what is trained, on what data, by which code. The fields are those of the class `tide.job_fields`.
---@param fields tide.job_fields
---@return tide.job
function tide.job(fields) return job.new(fields) end

---Declares a class of actors, which cluster:group spawns on nodes: docs/guides/actors.md.
---@param fields table {name=, start=, ended=, <method>=}
---@return tide.actor_class
function tide.actor(fields) return require("tide.run.actors").class(fields) end

---The group that a reference means.
---@param ref table of group:ref()
---@return tide.group
function tide.group(ref) return require("tide.run.actors").group(ref) end

---The actor that is registered under a name on some node of the cluster, such as one written in C or a published group:
---docs/guides/embedding.md.
---@param name string
---@return tide.named_actor
function tide.lookup(name) return require("tide.run.actors").lookup(name) end

---A table of the cluster by its name, such as "mf-1.factors": for actors, which belong to no run.
---@param name string
---@return tide.table_handle
function tide.open(name)
  local handle, err = core.table_find(name)
  if not handle then error(errors.from(err), 2) end
  return handle
end

---A table that is only read, from the checkpoints of a run: docs/guides/large-tables.md.
---@param o {dir: string, table: string, every?: string|number} every: follows newer generations by itself
---@return tide.reader
function tide.reader(o) return require("tide.reader").open(o) end

---Features of several fields with widths of their own: docs/guides/large-tables.md.
---@param widths table<string, integer>
---@return tide.fields
function tide.fields(widths) return require("tide.feature_fields").new(widths) end

tide.table = table_spec.new
tide.dense, tide.hashed = table_spec.dense, table_spec.hashed
tide.zero, tide.uniform, tide.normal, tide.xavier =
  table_spec.zero, table_spec.uniform, table_spec.normal, table_spec.xavier

---A native kernel by its name: a function of named arguments. `tide help kernels` lists them; `tide.kernel.load` adds
---others.
---@param name string
---@return fun(arguments: table): table<string, number>
tide.kernel = require "tide.kernel"

local RANGE_MAX <const> = 100000000 -- 1.6 GiB

local function is_function(who, f)
  if type(f) ~= "function" then checks.fail(("%s requires a function, not a %s"):format(who, type(f))) end
end

---The integers a..b as an array.
---@param a integer
---@param b integer
---@return integer[]
function tide.range(a, b)
  a, b = checks.whole("tide.range", "where to begin", a), checks.whole("tide.range", "where to end", b)
  if b - a >= RANGE_MAX then
    checks.fail(("tide.range(%d, %d) are more than %d numbers"):format(a, b, RANGE_MAX), "take them in parts")
  end
  local list = {}
  for i = a, b do list[#list + 1] = i end
  return list
end

---Monotonic seconds.
---@return number
function tide.now() return core.now() end

---Calls f, as a span of this name in the trace of the cluster, if one is recorded; returns what f returns.
---@param name string
---@param f function
function tide.span(name, f, ...) return core.span(name, f, ...) end

---Writes a line to the log of this process.
---@param level "debug"|"info"|"warn"|"error"
function tide.log(level, ...)
  local parts = table.pack(...)
  for i = 1, parts.n do parts[i] = tostring(parts[i]) end
  core.log(level, table.concat(parts, " "))
end

---- clusters ------------------------------------------------------------------------------------------------------

---Starts node processes on this machine; with `tide run --cluster C` the nodes are those of C.
---@param o? {nodes?: integer, workers?: integer}
---@return table cluster, to be closed: `local cluster <close> = tide.cluster {}`
function tide.cluster(o) return require("tide.cluster").new(o) end

---- fibers --------------------------------------------------------------------------------------------------------

local fiber = {}
fiber.__index = fiber

---Waits until the function has returned.
---@param timeout_s? number
---@return any ... what the function returned; raises what it raised
function fiber:wait(timeout_s)
  local results = table.pack(core.fiber_wait(self.handle, timeout_s))
  if not results[1] then error(errors.from(results[2], "T0202"), 2) end
  return table.unpack(results, 2, results.n)
end

---Ends the function where it waits.
function fiber:cancel() core.fiber_cancel(self.handle) end

---Whether the function has returned, failed or been canceled.
---@return boolean whether it has ended
function fiber:done() return self.finished.yes end

---Runs f(...) concurrently in this script.
---@return table handle with wait, cancel, done
function tide.spawn(f, ...)
  is_function("tide.spawn", f)
  local finished = {yes = false}
  local handle = core.fiber(function(...)
    local mark <close> = setmetatable({}, {__close = function() finished.yes = true end}) -- luacheck: ignore 211
    return f(...)
  end, ...)
  return setmetatable({handle = handle, finished = finished}, fiber)
end

---Runs all functions, waits for all, gives their first results in order. One that fails cancels the rest.
---@param functions function[]
---@return any[]
function tide.all(functions)
  if type(functions) ~= "table" then checks.fail "tide.all requires a list of functions" end
  for i, f in ipairs(functions) do is_function(("tide.all: item %d"):format(i), f) end
  local handles, results = {}, {}
  for i, f in ipairs(functions) do handles[i] = tide.spawn(f) end
  for i, h in ipairs(handles) do
    local ok, result = pcall(h.wait, h)
    if not ok then
      for j = i + 1, #handles do handles[j]:cancel() end
      error(result, 2)
    end
    results[i] = result
  end
  return results
end

---Runs f with a deadline.
---@param time string|number "2s"
---@param f function
---@return any ... of f; raises when the time is over
function tide.within(time, f)
  local seconds, why = units.parse_duration(time)
  if not seconds then error(script.error("T0113", why), 2) end
  is_function("tide.within", f)
  local h = tide.spawn(f)
  local results = table.pack(core.fiber_wait(h.handle, seconds))
  if not results[1] then
    h:cancel()
    error(errors.from(results[2], "T0202"), 2)
  end
  return table.unpack(results, 2, results.n)
end

---Lets the calling fiber wait; others continue.
---@param time string|number
function tide.sleep(time)
  local seconds, why = units.parse_duration(time)
  if not seconds then error(script.error("T0113", why), 2) end
  core.sleep(seconds)
end

---A generator of random numbers: :next() a 64-bit integer, :uniform() in [0, 1), :below(n) in 0..n-1.
---@param seed integer
function tide.random(seed) return core.random(seed) end

---Numeric tools, the `k` of policies: see docs/guides/policy-contract.md.
tide.k = core.k
---Times and sizes as text.
tide.units = units

-- Read when first asked for: most scripts use few of them.
local LAZY <const> = {
  lda = "tide.lda", chart = "tide.chart", staleness = "tide.show.staleness",
  data = "tide.data", tensor = "tide.tensor", json = "tide.json",
  show = "tide.show", policy = "tide.policy", factors = "tide.nn.factors", straggler = "tide.run.straggler",
  package = "tide.package", team = "tide.team", compute = "tide.compute", formats = "tide.formats",
  descent = "tide.descent", multitask = "tide.multitask", trials = "tide.run.trials",
}
script.api = setmetatable(tide, {__index = function(self, key)
  local name = LAZY[key]
  if not name then return nil end
  local module = require(name)
  rawset(self, key, module)
  return module
end})
return tide
