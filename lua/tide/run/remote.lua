-- A run of the cluster from outside of its script: what `cluster:run "mf-1"`, the prompt and `tide job` act by.
local checks = require "tide.checks"
local artifacts = require "tide.run.artifacts"
local core = require "tide.core"
local declared = require "tide.declared"
local errors = require "tide.errors"
local keeper = require "tide.keeper"
local run_log = require "tide.run.run_log"
local run_params = require "tide.run.params"
local text = require "tide.text"
local units = require "tide.units"

local remote_run = {}

local WAIT_S <const> = 30
local POLL_S <const> = 0.2

-- Options of the methods.
local TIMEOUT <const> = {name = "timeout", type = "duration", doc = "how long it may take (30s)"}
local RELEASE <const> = {{name = "release", type = "boolean", doc = "its slots become free"}, TIMEOUT}
local NEW <const> = {{name = "new", type = "boolean", doc = "names that it does not have yet"}}
local WITHIN <const> = {{name = "within", type = "duration", doc = "then it is cancelled"}}
local AFTER <const> = {{name = "after", type = "integer", min = 0, doc = "the position to begin at"}}

---@class tide.remote_run
---@field name string "mf-17"
---@field n integer
---@field job string
---@field state string queued, starting, running, paused, suspended, stopping, done, stopped, failed, lost
---@field why? string
---@field slots integer that it has
---@field wanted? integer slots that it asked for
---@field params? table
---@field progress table {report, loss, examples, rate, total} of its newest report
local methods = {}

---What a run has done, or why it waits: "report 3, loss 0.91, 702k ex/s".
---@param row table as `tide jobs` gets them
---@return string
function remote_run.progress(row)
  if row.why and row.state ~= "running" then return row.why end
  local p <const> = row.progress or {}
  local parts = {}
  if (p.report or 0) > 0 then parts[1] = "report " .. p.report end
  if p.loss then parts[#parts + 1] = ("loss %.4g"):format(p.loss) end
  if p.rate and p.rate > 0 and row.state == "running" then
    parts[#parts + 1] = units.format_count(p.rate) .. " ex/s"
  end
  if row.why then parts[#parts + 1] = row.why end
  return table.concat(parts, ", ")
end

-- At the prompt.
local function describe(r)
  local lines = {("run %s  %s, %s slots on %s"):format(r.name, r.state,
    r.wanted and ("%d of %d"):format(r.slots, r.wanted) or r.slots,
    #r.nodes > 0 and table.concat(r.nodes, " ") or "no node")}
  local progress <const> = remote_run.progress(r)
  if progress ~= "" then lines[2] = progress end
  local params = {}
  for _, key in ipairs(text.sorted_keys(r.params or {})) do
    params[#params + 1] = ("%s = %s"):format(key, tostring(r.params[key]))
  end
  if #params > 0 then lines[#lines + 1] = "params " .. table.concat(params, ", ") end
  return text.clean_lines(table.concat(lines, "\n"))
end

local function handle_of(row)
  local self = {}
  for k, v in pairs(row) do self[k] = v end
  return setmetatable(self, {__index = methods, __name = "tide.run.remote", __console = describe,
    __tostring = function(r) return ("run %s (%s)"):format(r.name, r.state) end})
end

---Runs of this cluster, oldest first.
---@param given? {job?: string, state?: string, all?: boolean} all: ended ones too
---@return tide.remote_run[]
function remote_run.list(given)
  local o <const> = checks.options("runs", declared.runs, given)
  local answer, err = keeper.ask {op = "list", job = o.job, state = o.state, all = o.all or o.state ~= nil}
  if not answer then error(err, 2) end
  local list = {}
  for i, row in ipairs(answer.runs) do list[i] = handle_of(row) end
  return list
end

---One run by its name, number or job.
---@param name string|integer
---@return tide.remote_run|nil, table? err T0513 with the nearest names
function remote_run.find(name)
  if type(name) ~= "string" and math.type(name) ~= "integer" then
    return nil, errors.new("T0113", {message = "a run has a name or a number, as `tide jobs` shows them"})
  end
  local row, err = keeper.ask {op = "get", name = tostring(name)}
  if not row then return nil, err end
  return handle_of(row)
end

local function verb(self, name, arguments, timeout_s)
  timeout_s = timeout_s or WAIT_S
  local answer, err = keeper.ask({op = "verb", name = tostring(self.n), verb = name, arguments = arguments,
    timeout_s = timeout_s}, timeout_s + 10)
  if not answer then return nil, err end
  self.state, self.params = answer.state or self.state, answer.params or self.params
  return true
end

---Brings the fields of this handle up to date.
---@return tide.remote_run|nil self, table? err
function methods:refresh()
  local row, err = keeper.ask {op = "get", name = tostring(self.n)}
  if not row then return nil, err end
  for k, v in pairs(row) do self[k] = v end
  self.why = row.why
  return self
end

---Lets all workers wait in their next report, or for their next chunk; true when they do. With `release` they leave
---there: their slots are free, and the run continues when it is resumed.
---@param o? {release?: boolean, timeout?: string|number}
---@return true|nil, table? err
function methods:pause(o)
  o = checks.options("pause", RELEASE, o)
  return verb(self, "pause", {release = o.release or nil}, o.timeout)
end

---Resumes; one that released its slots waits for others first. One that has ended, but is not done, begins anew from
---its newest checkpoint, as a run of its own.
---@param o? {timeout?: string|number}
---@return true|tide.remote_run|nil, table? err the new run, if this one has ended
function methods:resume(o)
  o = checks.options("resume", {TIMEOUT}, o)
  if keeper.ENDED[self.state] then return require("tide.run.host").restart(self, core.node().endpoint) end
  return verb(self, "resume", {}, o.timeout)
end

---Changes params from the next report on. Unknown names are refused, unless `new`.
---@param params table
---@param o? {new?: boolean}
---@return true|nil, table? err
function methods:set(params, o)
  local ok, err = run_params.check(params)
  if not ok then error(err, 2) end
  return verb(self, "set", {params = params, new = checks.options("set", NEW, o).new or nil})
end

---Workers join or leave until there are `count`. Those that join need free slots.
---@param count integer
---@return true|nil, table? err
function methods:set_workers(count) return verb(self, "workers", {count = count}) end

---Asks the workers to stop at their next report; with `within` what has not stopped then is cancelled.
---@param o? {within?: string|number}
---@return true|nil, table? err
function methods:stop(o)
  return verb(self, "stop", {within_s = checks.options("stop", WITHIN, o).within})
end

---Ends the workers now.
---@return true|nil, table? err
function methods:cancel() return verb(self, "cancel", {}) end

---Waits until the run has ended.
---@param o? {timeout?: string|number}
---@return string|nil state done, stopped, failed or lost
---@return table? err
function methods:wait(o)
  local timeout_s <const> = checks.options("wait", {TIMEOUT}, o).timeout
  local deadline <const> = timeout_s and core.now() + timeout_s
  while true do
    local ok, err = self:refresh()
    if not ok then return nil, err end
    if keeper.ENDED[self.state] then return self.state end
    if deadline and core.now() >= deadline then
      return nil, errors.new("T0507", {message = ("run %s is %s still"):format(self.name, self.state)})
    end
    core.sleep(POLL_S)
  end
end

---What the script and its workers printed, and the error that ended the run: read by the run's host while it lives,
---else from its file on this machine. At most 64 KiB.
---@param o? {after?: integer} the position to begin at; default: the newest 64 KiB
---@return string|nil text, integer|table size of the log in bytes, or err, integer? next position behind the text
function methods:log(o)
  local after = checks.options("log", AFTER, o).after
  local ok, err = self:refresh()
  if not ok then return nil, err end
  if self.controller then
    local answer <const> = core.call(self.controller, {op = "log", after = after}, WAIT_S)
    if answer then return answer.text, answer.size, answer.next end
  end
  local directory <const> = (self.host or {}).directory or "?"
  local some <const>, size <const>, next_at <const> = run_log.read(directory, after)
  if not some then
    return nil, errors.new("T0205", {message = ("the log of %s is %s/run.log on machine %s"):format(self.name,
      directory, (self.host or {}).machine or "?"), help = "read it there"})
  end
  return some, size, next_at
end

-- An answer of the run's controller while it lives, else of the run's directory, if that is on this machine.
local function of_files(self, request, from_directory)
  local ok, err = self:refresh()
  if not ok then return nil, err end
  if self.controller then
    local answer <const>, problem = core.call(self.controller, request, WAIT_S)
    local gone <const> = not answer and (problem.name == "EDIED" or problem.name == "EUNREACHABLE")
    if not gone then return answer, problem end
  end
  local directory <const> = (self.host or {}).directory or "?"
  local here <close> = io.open(directory .. "/run.json", "rb")
  if here then return from_directory(directory) end
  return nil, errors.new("T0205", {message = ("the files of %s are in %s on machine %s"):format(self.name, directory,
    (self.host or {}).machine or "?"), help = "read them there: tide runs artifacts"})
end

---Files that the run keeps: read by the run's host while it lives, else from its directory on this machine.
---@return tide.artifact[]|nil, table? err
function methods:artifacts()
  local answer <const>, err = of_files(self, {op = "artifacts"}, function(directory)
    return {artifacts = artifacts.list(directory)}
  end)
  return answer and answer.artifacts, err
end

---Some of an artifact.
---@param name string
---@param at integer position
---@return string|nil text, integer|table size of the file, or err
function methods:artifact_part(name, at)
  local answer <const>, err = of_files(self, {op = "artifact.part", name = name, at = at}, function(directory)
    return artifacts.part(directory, name, at)
  end)
  if not answer then return nil, err end
  return answer.text, answer.size
end

---One of its tables.
---@param key string the job's name of it
---@return table|nil handle, table? err
function methods:table(key) return core.table_find(("%s.%s"):format(self.name, key)) end

return remote_run
