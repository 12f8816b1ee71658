-- Policies of the active runs of this cluster, at the prompt. Files are those of the client: a policy is read on its
-- machine. The rows of these calls are in tide.console.rows.
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

function policy.list(o) return given(remote.new(controller(o and o.job)).list()) end

function policy.check(ref, params)
  local own <const> = found(ref)
  return given(remote.new(controller(nil, nil, own)).check(own, params))
end

function policy.shadow(ref, o)
  local own <const> = found(ref)
  return given(remote.new(controller(nil, nil, own)).shadow(own, o))
end

function policy.report(kind, o) return given(remote.new(controller(nil, kind)).report(kind, o)) end

function policy.swap(ref, o)
  local own <const> = found(ref)
  return given(remote.new(controller(nil, nil, own)).swap(own, guarded(o)))
end

function policy.set(kind, params) return given(remote.new(controller(nil, kind)).set(kind, params)) end

function policy.rollback(kind, o) return given(remote.new(controller(nil, kind)).rollback(kind, o)) end

function policy.history(kind, o) return given(remote.new(controller(nil, kind)).history(kind, o)) end

function policy.why(what) return given(remote.new(controller()).why(what)) end

function policy.replay(ref, o) return given(remote.new(controller()).replay(ref and found(ref), o)) end

return policy
