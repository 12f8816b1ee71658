-- Policies of the active runs of this cluster, at the prompt. Files are those of the client: a policy is read on its
-- machine.
local core = require "tide.core"
local errors = require "tide.errors"
local remote = require "tide.policy.remote"
local roles = require "tide.console.roles"
local units = require "tide.units"

local policy = {}

local session ---@type table of tide.console.session

---@param own table the session these calls belong to
function policy._use(own) session = own end

-- Where a kind's seat is; `ref`: a policy, of whatever kind.
local function controller(job, kind, ref)
  local address, err = remote.find(job, kind or ref and remote.kind_of(ref))
  if not address then error(err, 3) end
  return address
end

local function given(answer, err)
  if answer == nil then error(errors.from(err), 3) end
  return answer
end

-- A shipped policy by its name, or a file of the client's.
local function found(ref)
  if type(ref) ~= "string" then
    error(errors.new("T0113", "a policy is named by a string: a shipped name or a file"), 3)
  end
  if core.embedded("policies/" .. ref) then return ref end
  if not roles.may(session.role(), "admin") then
    error(roles.refusal("a policy that does not ship with Tide", "admin", session.role()), 3)
  end
  local answer, err = session.ask_client {op = "console.file", path = ref}
  if not answer then error(errors.from(err), 3) end
  return {text = answer.text, path = answer.path}
end

-- Converts "60s" and "10%" to numbers for the host of policies.
local function guarded(o)
  if not o or not o.guard then return o end
  local out, guard = {}, {}
  for k, v in pairs(o) do out[k] = v end
  for k, v in pairs(o.guard) do guard[k] = v end
  if type(guard.within) == "string" then guard.within = assert(units.parse_duration(guard.within)) end
  for _, k in ipairs {"drop", "rise"} do
    local share = type(guard[k]) == "string" and guard[k]:match "^([%d.]+)%%$"
    if share then guard[k] = tonumber(share) / 100 end
  end
  out.guard = guard
  return out
end

---The seats of the run: which policy decides what, since when, with how many errors.
---@param o? {job?: string}
---@return table[] rows
function policy.list(o) return given(remote.new(controller(o and o.job)).list()) end

---Loads a policy, validates it, and replays the seat's recorded views. Nothing in the cluster changes.
---@param ref string a shipped name or a file
---@param params? table
---@return table report
function policy.check(ref, params)
  local own <const> = found(ref)
  return given(remote.new(controller(nil, nil, own)).check(own, params))
end

---Runs a policy beside the live one on the same views; its plans are validated and never carried out.
---@param ref string a shipped name or a file
---@param o? {for_?: string, params?: table, scope?: string}
---@return table answer
function policy.shadow(ref, o)
  local own <const> = found(ref)
  return given(remote.new(controller(nil, nil, own)).shadow(own, o))
end

---What a shadow would have done differently, or what both groups of a canary do.
---@param kind string
---@param o? {scope?: string}
---@return table report
function policy.report(kind, o) return given(remote.new(controller(nil, kind)).report(kind, o)) end

---Puts a policy in the place of the live one of its kind, checked on the newest view first; with `canary` at first for
---a part of the nodes, workers or tables only, which the guard then makes all or none.
---@param ref string a shipped name or a file
---@param o? {params?: table, guard?: table, canary?: table, scope?: string, force?: boolean}
---@return table answer old, new, epoch
function policy.swap(ref, o)
  local own <const> = found(ref)
  return given(remote.new(controller(nil, nil, own)).swap(own, guarded(o)))
end

---Changes params of a live policy.
---@param kind string
---@param params table
---@return table answer
function policy.set(kind, params) return given(remote.new(controller(nil, kind)).set(kind, params)) end

---Brings the policy before this one back, with its state.
---@param kind string
---@param o? {latest?: boolean, scope?: string}
---@return table answer
function policy.rollback(kind, o) return given(remote.new(controller(nil, kind)).rollback(kind, o)) end

---Who was swapped in, when, and what came of it.
---@param kind string
---@param o? {scope?: string}
---@return table[] rows
function policy.history(kind, o) return given(remote.new(controller(nil, kind)).history(kind, o)) end

---The last plan that touched a thing.
---@param what string
---@return table answer
function policy.why(what) return given(remote.new(controller()).why(what)) end

---Decides the journal of the run again: with the policies that it had (identical, or the first difference), or, open
---loop, with another one, which tells where that would have decided otherwise. Read here, so on the machine of the
---driver only.
---@param ref? string a shipped name or a file
---@param o? {last?: string, params?: table, kind?: string, scope?: string} last: "10m" before now, with another policy
---@return table report decisions, same, ...
function policy.replay(ref, o) return given(remote.new(controller()).replay(ref and found(ref), o)) end

return policy
