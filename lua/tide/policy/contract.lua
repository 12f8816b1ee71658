-- What a policy file must be: the seven kinds with their defaults, the signals a policy may ask for, and the check of a
-- loaded policy table. Pure data and pure functions.
local text = require "tide.text"

local contract = {}

contract.API = 1

---@class tide.policy.kind
---@field scope "cluster"|"job"|"table"
---@field every number seconds between decisions
---@field on string[] events that trigger one at once
---@field min_gap number least seconds between decisions
---@field fallback string the shipped policy that holds the seat when nothing else can
---@field instructions integer of a decision
---@field seconds number of a decision, where time counts

---@type table<string, tide.policy.kind>
contract.kinds = {
  scheduling = {scope = "cluster", every = 60, on = {"submit", "finish", "join", "leave", "fit"}, min_gap = 2,
                fallback = "scheduling/fifo"},
  scaling = {scope = "job", every = 30, on = {"grant", "leave", "straggler"}, min_gap = 5, fallback = "scaling/fixed"},
  placement = {scope = "job", every = 5, on = {"join", "leave", "hot"}, min_gap = 1, fallback = "placement/static"},
  batching = {scope = "job", every = 30, on = {"grant", "join", "leave", "fit"}, min_gap = 1,
              fallback = "batching/equal"},
  comm = {scope = "job", every = 30, on = {"grant", "net"}, min_gap = 5, fallback = "comm/servers"},
  sync = {scope = "table", every = 30, on = {"straggler"}, min_gap = 5, fallback = "sync/fixed"},
  dispatch = {scope = "job", every = 0.5, on = {"idle", "leave"}, min_gap = 0.05, fallback = "dispatch/in-order"},
}

-- A plan for a whole cluster takes more than one for a job.
for name, kind in pairs(contract.kinds) do
  kind.instructions, kind.seconds = 10000000, 0.1
  if name == "scheduling" then kind.instructions, kind.seconds = 100000000, 1 end
end

---Kinds in the order in which they are listed.
contract.kind_names = {"scheduling", "scaling", "placement", "batching", "comm", "sync", "dispatch"}

---The provider of a signal, for the message when it is missing.
contract.signals = {
  ["job.request"] = "the controller of the cluster", ["job.attained"] = "the controller of the cluster",
  ["job.resize"] = "the controller of the cluster", ["job.person"] = "the controller of the cluster",
  ["job.goodput"] = "the job's own fit of its throughput", ["job.throughput"] = "the job's own fit of its throughput",
  ["job.oracle"] = "the job simulator, or a job's fits of its throughput and loss",
  ["job.progress"] = "the controller of the job", ["job.remaining"] = "the controller of the job",
  ["worker.speed"] = "workers that report `examples`",
  ["worker.sample"] = "workers that report `examples`", ["worker.times"] = "workers' reports",
  ["server.load"] = "the shards of the tables", ["slot.rates"] = "the shards of the tables",
  ["key.hot"] = "workers' samples of their accesses", ["tensor.sizes"] = "the job's program",
  ["net.rate"] = "the links between nodes", ["table.staleness"] = "the caches of clocked tables",
  ["table.norms"] = "the caches of clocked tables", ["chunk.times"] = "workers' reports",
}

---The noise of gradients under `job.throughput`: an example of any batch is worth the same.
contract.all_noise = {sqr = 0, var = 1}

local FIELDS <const> = {
  api = true, kind = true, name = true, version = true, params = true, needs = true, every = true, on = true,
  min_gap = true, init = true, decide = true, export = true,
}

local EVENTS <const> = {}
for _, kind in pairs(contract.kinds) do
  for _, name in ipairs(kind.on) do EVENTS[name] = true end
end

local function is_scalar(v)
  local t = type(v)
  return t == "number" and v == v and v ~= math.huge and v ~= -math.huge or t == "string" or t == "boolean"
end

local function is_flat_list(v)
  if type(v) ~= "table" then return false end
  local count = 0
  for key, item in pairs(v) do
    if math.type(key) ~= "integer" or not is_scalar(item) then return false end
    count = count + 1
  end
  return count == #v
end

local function check_strings(list, what)
  if list == nil then return true end
  if type(list) ~= "table" then return nil, ("`%s` must be a list of names"):format(what) end
  local count = 0
  for _ in pairs(list) do count = count + 1 end
  for i = 1, count do
    if type(list[i]) ~= "string" then return nil, ("`%s` must be a list of names"):format(what) end
  end
  return true
end

local function check_times(p)
  for _, field in ipairs {"every", "min_gap"} do
    local v = p[field]
    if v ~= nil and not (type(v) == "number" and v >= 0.001 and v <= 86400 * 365) then
      return nil, ("`%s` must be seconds, 0.001 or more"):format(field)
    end
  end
  local ok, why = check_strings(p.on, "on")
  if not ok then return nil, why end
  for _, event in ipairs(p.on or {}) do
    if not EVENTS[event] then return nil, ("`on` names the event `%s`, which no kind has"):format(event) end
  end
  return true
end

local function check_head(p)
  if p.api ~= contract.API then
    return nil, p.api == nil and "`api = 1` is missing"
      or ("it is written for api %s, this host knows %d"):format(tostring(p.api), contract.API)
  end
  if type(p.kind) == "table" then
    return nil, "a list of kinds is not supported: one policy holds one seat"
  end
  if type(p.kind) ~= "string" or not contract.kinds[p.kind] then
    return nil, ("`kind` is %s; there are %s"):format(tostring(p.kind), table.concat(contract.kind_names, ", "))
  end
  if type(p.name) ~= "string" or #p.name > 63 or not p.name:find "^[a-z0-9][a-z0-9._-]*$" then
    return nil, "`name` must be of small letters, digits, `.`, `_`, `-`"
  end
  if math.type(p.version) ~= "integer" or p.version < 0 then return nil, "`version` must be an integer" end
  return true
end

local function check_params(p)
  if p.params == nil then return true end
  if type(p.params) ~= "table" then return nil, "`params` must be a table of named defaults" end
  for name, value in pairs(p.params) do
    if type(name) ~= "string" then return nil, "`params` must be a table of named defaults" end
    if not is_scalar(value) and not is_flat_list(value) then
      return nil, ("parameter `%s` must be a number, a string, a boolean or a flat list"):format(name)
    end
  end
  return true
end

---Checks what a policy file returned (functions as `true`). Missing defaults are filled in.
-- Every name in `needs` is that of a signal or of a kernel, whether it is measured here or not.
local function check_names(needs)
  local of <const> = {}
  for _, name in ipairs(needs) do of[name] = true end
  if of["job.goodput"] and of["job.throughput"] then
    return nil, "it needs `job.goodput` and `job.throughput`, which fill the same fields: one of them"
  end
  for _, name in ipairs(needs) do
    if not (contract.signals[name] or name:find "^kernel%.[%w_]+$") then
      local near <const> = text.did_you_mean(name, contract.signals)
      return nil, ("it needs `%s`, which no signal is called%s"):format(name, near and "; " .. near or "")
    end
  end
  return true
end

---@param p any
---@return table|nil policy, string? why
function contract.check(p)
  if type(p) ~= "table" then return nil, "the file returns no table" end
  for key in pairs(p) do
    if not FIELDS[key] then return nil, ("field `%s` is not known"):format(tostring(key)) end
  end
  local ok, why = check_head(p)
  if ok then ok, why = check_params(p) end
  if ok then ok, why = check_times(p) end
  if ok then ok, why = check_strings(p.needs, "needs") end
  if ok then ok, why = check_names(p.needs or {}) end
  if not ok then return nil, why end
  for _, name in ipairs {"init", "decide"} do
    if p[name] ~= true then return nil, ("`%s` must be a function"):format(name) end
  end
  if p.export ~= nil and p.export ~= true then return nil, "`export` must be a function" end
  local kind = contract.kinds[p.kind]
  return {
    api = p.api, kind = p.kind, name = p.name, version = p.version, params = p.params or {}, needs = p.needs or {},
    every = p.every or kind.every, on = p.on or kind.on, min_gap = p.min_gap or kind.min_gap,
    exports = p.export == true,
  }
end

---The defaults with what is given over them.
---@param defaults table
---@param given? table
---@return table|nil params, string? why
function contract.merge_params(defaults, given)
  local merged = {}
  for k, v in pairs(defaults) do merged[k] = v end
  for k, v in pairs(given or {}) do
    local default = defaults[k]
    if default == nil then return nil, ("it has no parameter `%s`"):format(tostring(k)) end
    if type(v) ~= type(default) or not (is_scalar(v) or is_flat_list(v)) then
      return nil, ("parameter `%s` is a %s, it must be a %s"):format(k, type(v), type(default))
    end
    merged[k] = v
  end
  return merged
end

---@param needs string[]
---@param available table<string, boolean> signals that are measured
---@return true|nil, string? why which one is missing and what could provide it
function contract.check_needs(needs, available)
  local k = require("tide.core").k
  for _, name in ipairs(needs) do
    local kernel = name:match "^kernel%.([%w_]+)$"
    if kernel then
      if not k[kernel] then return nil, ("it needs the kernel `k.%s`, which is not there"):format(kernel) end
    elseif not available[name] then
      local who = contract.signals[name]
      if not who then return nil, ("it needs `%s`, which no signal is called"):format(name) end
      return nil, ("it needs the signal `%s`, which is not measured here; it comes from %s"):format(name, who)
    end
  end
  return true
end

return contract
