-- The decisions of a run's policies in the order of time, from the journal of the run: what each saw, wanted and got,
-- and why; and what another policy would have decided, by replay in this process. Open loop: what was seen does not
-- react to what the other one would have done.
local core = require "tide.core"
local errors = require "tide.errors"
local journal = require "tide.policy.journal"
local replay = require "tide.policy.replay"
local source = require "tide.policy.source"
local text = require "tide.text"

local timeline = {}

local TEXT_MAX <const> = 160

---@class tide.policy.entry
---@field at number seconds of the run's clock
---@field seat string "batching of mf"
---@field what string "decision", "load", "swap", "set", "rollback", "take-over", ...
---@field policy string that held the seat: "even v1"
---@field canary? boolean of a policy that is tried on a part
---@field saw? string the view in short
---@field wanted? string the plan in short; "nothing" if it is empty
---@field got string what became of it: "applied 2", "partial: ...", "rejected: ...", or what was loaded
---@field why? string of the plan, or of the person who changed the policy
---@field would? string with another policy: its plan in short, where it differs
---@field differs? boolean
---@field view? table with o.whole: what was seen, plan and plans as they are
---@field plan? table
---@field would_plan? table

-- Maps by id become maps by text, which JSON can hold.
local function jsonable(value)
  if type(value) ~= "table" then
    if value ~= value or value == math.huge or value == -math.huge then return tostring(value) end
    return value
  end
  local out = {}
  if #value > 0 then
    for i, item in ipairs(value) do out[i] = jsonable(item) end
    return out
  end
  for k, v in pairs(value) do out[tostring(k)] = jsonable(v) end
  return out
end

local function number(v)
  if math.type(v) == "integer" then return tostring(v) end
  return ("%.4g"):format(v)
end

local function short(value, depth)
  if type(value) == "number" then return number(value) end
  if type(value) ~= "table" then return text.clean(tostring(value)) end
  if depth > 3 then return "{..}" end
  local parts = {}
  if #value > 0 then
    for i, item in ipairs(value) do parts[i] = short(item, depth + 1) end
  else
    local keys = {}
    for k in pairs(value) do keys[#keys + 1] = k end
    table.sort(keys, function(a, b)
      if type(a) == type(b) then return a < b end
      return type(a) == "number"
    end)
    for i, k in ipairs(keys) do parts[i] = ("%s=%s"):format(tostring(k), short(value[k], depth + 1)) end
  end
  return "{" .. table.concat(parts, " ") .. "}"
end

local function cut(s) return #s > TEXT_MAX and s:sub(1, TEXT_MAX - 3) .. "..." or s end

-- A plan without its reasons.
local function wanted_of(p)
  if p == nil then return nil end
  local bare = {}
  for k, v in pairs(p) do
    if k ~= "why" then bare[k] = v end
  end
  if next(bare) == nil then return "nothing" end
  local whole <const> = short(bare, 0)
  return cut(whole:sub(2, -2))
end

local function why_of(p)
  local why <const> = p and p.why
  if type(why) == "string" then return cut(text.clean(why)) end
  if type(why) == "table" then return cut(short(why, 1):sub(2, -2)) end
  return nil
end

-- Least and greatest of what is known of many.
local function range_of(list, field)
  local low, high
  for _, item in ipairs(list) do
    local v <const> = item[field]
    if type(v) == "number" then
      low, high = math.min(low or v, v), math.max(high or v, v)
    end
  end
  if not low then return nil end
  if low == high then return ("%s %s"):format(field, number(low)) end
  return ("%s %s..%s"):format(field, number(low), number(high))
end

local SIGNALS <const> = {"batch", "examples_per_s", "compute_s", "wait_s"}

local function saw_of(view)
  local parts = {}
  local reasons = {}
  for _, reason in ipairs(type(view.reason) == "table" and view.reason or {}) do
    reasons[#reasons + 1] = type(reason) == "table" and tostring(reason.event or reason.name or reason[1])
      or tostring(reason)
  end
  if #reasons > 0 then parts[1] = "after " .. table.concat(reasons, ", ") end
  if type(view.job) == "table" and view.job.clock then parts[#parts + 1] = "clock " .. number(view.job.clock) end
  local workers <const> = type(view.workers) == "table" and view.workers or {}
  if #workers > 0 then parts[#parts + 1] = #workers .. " workers" end
  for _, signal in ipairs(SIGNALS) do parts[#parts + 1] = range_of(workers, signal) end
  if type(view.nodes) == "table" and #view.nodes > 0 then parts[#parts + 1] = #view.nodes .. " nodes" end
  return cut(table.concat(parts, ", "))
end

local function got_of(r)
  local detail <const> = r.fault or r.refused
  local head = tostring(r.verdict)
  if r.verdict == "applied" then
    head = r.actions == 0 and "nothing changed" or ("applied %d"):format(r.actions or 0)
  end
  return detail and ("%s: %s"):format(head, cut(text.clean(detail))) or head
end

---@param records table[] of journal.read
---@param o? {kind?: string, scope?: string, policy?: string|table, params?: table, whole?: boolean, from?: number,
---  to?: number, last?: integer} policy: another one, which decides the same views of its kind; last: no more entries
---  than these, the newest
---@return tide.policy.entry[]|nil, tide.error? err
function timeline.of(records, o)
  o = o or {}
  local function fits(r) return (not o.kind or r.kind == o.kind) and (not o.scope or r.scope == o.scope) end
  local function inside(r) return fits(r) and (not o.from or r.at >= o.from) and (not o.to or r.at <= o.to) end
  local unwanted = 0 -- those before the newest `last`
  for _, r in ipairs(o.last and records or {}) do unwanted = unwanted + (inside(r) and 1 or 0) end
  unwanted = o.last and unwanted - o.last or 0
  local other, other_kind
  if o.policy then
    local found, err = source.find(o.policy)
    if not found then return nil, err end
    local peek
    peek, err = source.load(found, {timed = false, params = o.params})
    if not peek then return nil, err end
    peek.sandbox:close()
    other, other_kind = found, peek.policy.kind
  end
  local list, holders, plans, counted = {}, {}, {}, {}
  for _, r in ipairs(records) do
    local seat <const> = ("%s of %s"):format(r.kind, r.scope)
    local who <const> = seat .. (r.canary and " canary" or "")
    if r.text then holders[who] = ("%s v%s"):format(tostring(r.name), tostring(r.version)) end
    if fits(r) and other_kind == r.kind and r.what == "decision" and not r.canary then
      if not plans[r.scope] then
        local report, err = replay.run(records, {policy = other, params = o.params, scope = r.scope})
        if not report then return nil, err end
        plans[r.scope], counted[r.scope] = report.plans, 0
      end
      counted[r.scope] = counted[r.scope] + 1
    end
    if inside(r) then unwanted = unwanted - 1 end
    if inside(r) and unwanted < 0 then
      local entry = {at = r.at, seat = seat, what = r.what, canary = r.canary, policy = holders[who] or "?"}
      if r.what == "decision" then
        local view <const> = type(r.view) == "string" and core.plain_decode(r.view) or {}
        local p <const> = type(r.plan) == "string" and core.plain_decode(r.plan) or nil
        entry.saw, entry.wanted, entry.got, entry.why = saw_of(view), wanted_of(p), got_of(r), why_of(p)
        if o.whole then entry.view, entry.plan = jsonable(view), p and jsonable(p) end
        if other_kind == r.kind and not r.canary then
          local bytes <const> = plans[r.scope][counted[r.scope]]
          local would <const> = bytes and core.plain_decode(bytes) or nil
          entry.differs = bytes ~= r.plan
          entry.would = entry.differs and (wanted_of(would) or "a fault") or nil
          if o.whole then entry.would_plan = would and jsonable(would) end
        end
      else
        entry.got = r.text and holders[who] or r.what
        entry.why = r.why and cut(text.clean(tostring(r.why))) or nil
      end
      list[#list + 1] = entry
    end
  end
  return list
end

---Of a journal in a file.
---@param path string
---@param o? table of timeline.of
---@return tide.policy.entry[]|nil, tide.error? err, boolean? torn: what is behind the last good record was left out
function timeline.read(path, o)
  local records, why, torn = journal.read(path)
  if not records then return nil, errors.new("T0403", {message = why, where = path}) end
  local list, err = timeline.of(records, o)
  return list, err, torn
end

return timeline
