-- The policies of a run, seen from a script or a command: every word of the console is a function here. Policies are
-- read where the call is made; expected refusals come back as nil and an error.
local core = require "tide.core"
local errors = require "tide.errors"
local keeper = require "tide.keeper"
local source = require "tide.policy.source"
local units = require "tide.units"

local remote = {}

local CALL_S <const> = 60

local function seconds(time)
  if time == nil or type(time) == "number" then return time end
  local s, why = units.parse_duration(time)
  if not s then error(errors.new("T0113", why), 4) end
  return s
end

---Which kind a policy is of.
---@param ref string|table as source.find takes it
---@return string|nil kind, table? err why it cannot be loaded
function remote.kind_of(ref)
  local found, err = source.find(ref)
  if not found then return nil, err end
  local loaded, problem = source.load(found, {timed = true})
  if not loaded then return nil, problem end
  loaded.sandbox:close()
  return loaded.policy.kind
end

---Where policies are asked for: of the kind scheduling at the cluster's keeper of runs; else those of the run of `job`,
---else those of the only run.
---@param job? string
---@param kind? string
---@return string|nil address, table? err
function remote.find(job, kind)
  if kind == "scheduling" then return keeper.find() end
  for _, member in ipairs(core.members()) do
    if member.state == "up" then
      for _, name in ipairs {job and "policies-" .. job or "policies", "policies"} do
        local address = core.whereis(member.name .. "/" .. name)
        if address then return address end
      end
    end
  end
  return nil, errors.new("T0303", "no active run with policies in this cluster",
    {help = "start one whose job has `policies = {...}`; `tide policy shipped` names some"})
end

local function copy(o)
  local a = {}
  for k, v in pairs(o or {}) do a[k] = v end
  return a
end

---@param address string of the run's controller, or of the keeper of runs
---@return table functions list, check, shadow, report, swap, set, rollback, history, why, replay, file
function remote.new(address)
  local function ask(verb, arguments)
    local bytes, problem = core.plain_encode(arguments)
    if not bytes then return nil, errors.from(problem) end
    local answer, err = core.call(address, {op = "policy", verb = verb, arguments = bytes}, CALL_S)
    if not answer then return nil, errors.from(err) end
    return core.plain_decode(answer.result)
  end
  local function with_file(verb, ref, o)
    local found, err = source.find(ref)
    if not found then return nil, err end
    local a = copy(o)
    a.policy, a.for_ = {text = found.text, path = found.path}, seconds(a.for_)
    a.params = a.params or found.params
    return ask(verb, a)
  end
  local function with_kind(verb, kind, o)
    local a = copy(o)
    a.kind = kind
    return ask(verb, a)
  end
  return {
    file = source.file,
    list = function() return ask("list", {}) end,
    metric = function(name, o) return ask("metric", {name = name, last = seconds(o and o.last)}) end,
    check = function(ref, params)
      local found, err = source.find(ref)
      if not found then return nil, err end
      found.params = params or found.params
      local kind, problem = remote.kind_of(found)
      if not kind then return nil, problem end
      local recorded, why = ask("views", {kind = kind})
      if not recorded then return nil, why end
      return require("tide.policy.replay").check(recorded, found)
    end,
    shadow = function(ref, o) return with_file("shadow", ref, o) end,
    report = function(kind, o) return with_kind("report", kind, o) end,
    swap = function(ref, o) return with_file("swap", ref, o) end,
    set = function(kind, params, o)
      local a = copy(o)
      a.params = a.params or params
      return with_kind("set", kind, a)
    end,
    rollback = function(kind, o) return with_kind("rollback", kind, o) end,
    history = function(kind, o) return with_kind("history", kind, o) end,
    why = function(what) return ask("why", {what = what}) end,
    replay = function(ref, o)
      local answer, err = ask("journal", {})
      if not answer then return nil, err end
      local found
      if ref then
        found, err = source.find(ref)
        if not found then return nil, err end
      end
      return require("tide.policy").replay(answer.path, {policy = found, params = o and o.params,
        last = seconds(o and o.last), kind = o and o.kind, scope = o and o.scope})
    end,
  }
end

return remote
