-- tide.job{}: what is trained, by whom, on what. A job registers itself by its name while the script loads.
local script = require "tide.script"
local text = require "tide.text"

---@class tide.job
---@field name string identifier
---@field worker fun(w: tide.worker) runs once on every worker
---@field data? tide.data.set cut over the workers
---@field tables? table<string, table>|fun(data: tide.data.set): table<string, table>
---@field params? table handed to the workers as w.params
---@field on_report? fun(run: table, sum: table): table|nil once per report of all workers; its answer changes params
---@field evaluate? table<string, fun(w: tide.worker): number|table, number> sum (or table of sums) and count
---@field stop? {epochs?: integer, loss?: number, time?: number|string}
---@field checkpoint? {dir: string, every?: string|number, keep?: integer, cut?: "clock"|"fuzzy"} written now and then
---@field progress? {total?: integer, unit?: string} what the progress line counts up to
---@field seed? integer
local job = {}
job.__index = job

local KNOWN <const> = {
  name = "string", worker = "function", data = "table", tables = {"table", "function"}, params = "table",
  on_report = "function", evaluate = "table", stop = "table", checkpoint = "table", progress = "table", seed = "number",
  workers = "number",
}
local STOPS <const> = {epochs = true, loss = true, time = true}

---@param name any
---@return boolean whether it may name a cluster, node, table or job
function job.is_identifier(name)
  return type(name) == "string" and #name <= 63 and name:find("^[a-z0-9][a-z0-9._-]*$") ~= nil
end

local function check(fields)
  if type(fields) ~= "table" then error(script.error("T0203", "tide.job wants a table of fields"), 3) end
  for key, value in pairs(fields) do
    local want = KNOWN[key]
    if not want then
      error(script.error("T0203", ("job field `%s` is not known"):format(tostring(key)),
        {help = text.did_you_mean(tostring(key), text.sorted_keys(KNOWN))}), 3)
    end
    local got, fits = type(value), false
    for _, t in ipairs(type(want) == "table" and want or {want}) do fits = fits or got == t end
    if not fits then
      error(script.error("T0203", ("job field `%s` is a %s, not a %s"):format(key, got,
        type(want) == "table" and table.concat(want, " or a ") or want)), 3)
    end
  end
  if not job.is_identifier(fields.name) then
    error(script.error("T0203", "a job needs a name of small letters, digits, `.`, `_`, `-`"), 3)
  end
  if not fields.worker then
    error(script.error("T0203", ("job `%s` has no worker function"):format(fields.name)), 3)
  end
  for key in pairs(fields.stop or {}) do
    if not STOPS[key] then error(script.error("T0203", ("stop rule `%s` is not known"):format(tostring(key))), 3) end
  end
end

local function check_checkpoint(fields)
  if not fields.checkpoint then return nil end
  local settings, problem = require("tide.checkpoint").settings(fields.checkpoint)
  if not settings then
    error(script.error("T0708", ("job `%s`: %s"):format(fields.name, problem)), 3)
  end
  return settings
end

---Registers a job. On workers and controllers this is what finds `worker`, `evaluate` and `on_report` by name.
---@param fields table see tide.job
---@return tide.job
function job.new(fields)
  check(fields)
  if script.in_main then
    error(script.error("T0206", ("job `%s` is made inside tide.main, which only the driver runs"):format(fields.name),
      {help = "move tide.job to the top of the script, where every worker runs it too"}), 2)
  end
  if script.jobs[fields.name] then
    error(script.error("T0203", ("two jobs are called `%s`"):format(fields.name)), 2)
  end
  local self = setmetatable({}, job)
  for k, v in pairs(fields) do self[k] = v end
  self.checkpoint = check_checkpoint(fields)
  script.jobs[self.name] = self
  script.newest = self
  return self
end

local function upvalues(f, visit)
  for i = 1, 255 do
    local name, value = debug.getupvalue(f, i)
    if not name then return end
    visit(name, value)
  end
end

local function each_travelling(self, visit)
  upvalues(self.worker, visit)
  for _, f in pairs(self.evaluate or {}) do upvalues(f, visit) end
end

---Called when the script has loaded: upvalues that are still nil are known to no worker, whatever main puts there.
function job:remember_upvalues()
  self.empty = {}
  each_travelling(self, function(name, value) if value == nil then self.empty[name] = true end end)
end

---@return true|nil, table? err T0206 when main has filled an upvalue that no worker will see
function job:check_upvalues()
  local found
  each_travelling(self, function(name, value)
    if value ~= nil and self.empty and self.empty[name] then found = name end
  end)
  if found then
    return nil, script.error("T0206", ("upvalue `%s` of job `%s` is only known in main"):format(found, self.name),
      {help = "pass it in params, or compute it at the top of the script"})
  end
  return true
end

return job
