-- Policy files: found by shipped name ("batching/boa"), path, or given as text; loaded into a sandbox of their own.
local core = require "tide.core"
local contract = require "tide.policy.contract"
local errors = require "tide.errors"

local source = {}

source.MEMORY_BYTES = 32 << 20
source.INIT_FACTOR = 10

---@param kind? string of the policy; nil: not known yet
---@param timed boolean whether there is a deadline too; without it runs repeat
---@param factor? number
function source.budget(kind, timed, factor)
  factor = factor or 1
  local k = contract.kinds[kind or "batching"]
  return {instructions = k.instructions * factor, seconds = timed and k.seconds * factor or nil}
end

---A policy reference with its parameters, for places that name a policy.
---@param path string shipped name or path
---@param params? table
function source.file(path, params) return {policy = path, params = params} end

---@param ref string|table "kind/name", a path, {policy=, params=} or {text=, path=}
---@return table|nil {text=, path=, sha=, params=}, table? err
function source.find(ref)
  local params
  if type(ref) == "table" and ref.policy then ref, params = ref.policy, ref.params end
  if type(ref) == "table" and type(ref.text) == "string" then
    return {text = ref.text, path = ref.path or "policy.lua", sha = core.sha256(ref.text), params = ref.params}
  end
  if type(ref) ~= "string" then
    return nil, errors.new("T0301", "a policy is named by a shipped name (`batching/boa`) or a path")
  end
  local text = core.embedded("policies/" .. ref)
  local path = text and ref .. ".lua" or ref
  if not text then
    local file, why = io.open(ref, "rb")
    if not file then
      return nil, errors.new("T0301", ("no policy is called `%s`, and there is no such file: %s"):format(ref, why))
    end
    text = file:read "a"
    file:close()
    if not text then return nil, errors.new("T0301", ("`%s` cannot be read"):format(ref)) end
    text = text:gsub("^\xef\xbb\xbf", "") -- a byte-order mark, as in scripts
  end
  return {text = text, path = path, sha = core.sha256(text), params = params}
end

---@return string[] "kind/name" of the shipped policies
function source.shipped()
  local names = {}
  for _, name in ipairs(core.embedded_names "policies/") do names[#names + 1] = name:sub(#"policies/" + 1) end
  table.sort(names)
  return names
end

local function refuse(found, why, fault)
  local where = why:match "^(.-:%d+): "
  return nil, errors.new("T0302", ("policy `%s` is refused: %s"):format(found.path, why),
    {where = where, trace = fault and fault.trace})
end

---Loads a file into a fresh sandbox and checks the contract.
---@param found table of find
---@param o {timed: boolean, params?: table, signals?: table<string, boolean>, kind?: string}
---@return table|nil {sandbox, policy (contract), params, sha, path, text}, table? err
function source.load(found, o)
  local sandbox, err = core.sandbox(source.MEMORY_BYTES)
  if not sandbox then return nil, errors.from(err) end
  local bytes, fault = sandbox:load(found.text, "@" .. found.path, source.budget(o.kind, o.timed, source.INIT_FACTOR))
  if not bytes then return refuse(found, fault.message, fault) end
  local policy, why = contract.check(core.plain_decode(bytes))
  if policy and o.kind and policy.kind ~= o.kind then
    policy, why = nil, ("it is a %s policy, this seat is for %s"):format(policy.kind, o.kind)
  end
  local params
  if policy then params, why = contract.merge_params(policy.params, o.params or found.params) end
  if params and o.signals then
    local ok
    ok, why = contract.check_needs(policy.needs, o.signals)
    params = ok and params
  end
  if not params then
    sandbox:close()
    return refuse(found, why)
  end
  return {sandbox = sandbox, policy = policy, params = params, sha = found.sha, path = found.path, text = found.text}
end

return source
