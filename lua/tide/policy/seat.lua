-- A seat: the place of one policy. Holds the loaded version, runs its decisions in the sandbox, keeps what it last
-- exported, and counts its faults. The host applies plans and chooses successors (host.lua).
local core = require "tide.core"
local contract = require "tide.policy.contract"
local errors = require "tide.errors"
local source = require "tide.policy.source"

local seat = {}
seat.__index = seat

local VIEWS_MAX <const> = 200
local VERSIONS_MAX <const> = 100
local FAULTS_IN_A_ROW <const> = 3
local FAULTS_IN_A_MINUTE <const> = 5

---@param kind string
---@param scope string of a cluster, job or table
---@param o {seed: integer, timed: boolean, signals: table<string, boolean>}
function seat.new(kind, scope, o)
  return setmetatable({
    kind = kind, scope = scope, seed = o.seed, timed = o.timed, signals = o.signals, tick = 0, versions = {},
    views = {}, first_view = 1, next_at = 0, last_at = -math.huge, reasons = {}, last = {status = "none"},
    faults = {}, row = 0, decisions = 0, actions = 0, errors = 0, blocked = {}, whys = {},
    installed = 0,
  }, seat)
end

function seat:name() return self.scope == "" and self.kind or self.kind .. "@" .. self.scope end

---The random stream of one decision: a pure function of run, seat and tick.
function seat.seed_of(seed, kind, scope, tick)
  local hex = core.sha256(("%d %s %s %d"):format(seed, kind, scope, tick))
  return tonumber(hex:sub(1, 15), 16)
end

---A version ready to decide: loaded, checked, initialised.
---@param found table of source.find
---@param params? table
---@param saved? string plain bytes of what the predecessor exported
---@return table|nil version, table? err
function seat:prepare(found, params, saved)
  local version, err = source.load(found, {timed = self.timed, params = params, signals = self.signals,
    kind = self.kind})
  if not version then return nil, err end
  local ok, fault = version.sandbox:init(core.plain_encode(version.params), saved,
    seat.seed_of(self.seed, self.kind, self.scope, -1), source.budget(self.kind, self.timed, source.INIT_FACTOR))
  if not ok then
    version.sandbox:close()
    return nil, errors.new("T0302", ("policy `%s` fails in init: %s"):format(found.path,
      fault.message), {where = fault.message:match "^(.-:%d+): ", trace = fault.trace})
  end
  self.printed = version.sandbox:usage().log
  version.saved, version.since_saved = saved, saved
  return version
end

---Puts a version into the seat. The old one's state is closed; its source and last export stay in its entry.
---@param version table of prepare
---@param now number
function seat:install(version, now)
  local old = self.current
  if old then
    old.sandbox:close()
    old.sandbox = nil
  end
  self.installed = self.installed + 1
  version.since, version.number = now, self.installed
  self.versions[#self.versions + 1] = version
  if #self.versions > VERSIONS_MAX then table.remove(self.versions, 1) end
  self.current = version
  self.faults, self.row = {}, 0
  self.every = version.policy.every
  self.next_at, self.wake, self.last_at = now, nil, -math.huge
end

---What the holder exported last: for a successor, after a fault, after a crash.
function seat:last_export() return self.current and self.current.saved end

---Throws a half-changed state away: a fresh one from the last export.
---@return boolean whether it works
function seat:rebuild()
  local v = self.current
  if v.sandbox then v.sandbox:close() end
  v.sandbox = nil
  local fresh = self:prepare({text = v.text, path = v.path, sha = v.sha}, v.params, v.saved)
  if not fresh then return false end
  v.sandbox = fresh.sandbox
  return true
end

---@param view table plain; gets tick, reason and last
---@param needs string[] signals that the view holds
---@return string|nil plan bytes, table? fault, string view_bytes, integer seed
function seat:decide(view, needs)
  local v = self.current
  self.tick = self.tick + 1
  local bytes = assert(core.plain_encode(view))
  local seed = seat.seed_of(self.seed, self.kind, self.scope, self.tick)
  self:remember(bytes, seed, needs)
  if not v.sandbox then return nil, {kind = "error", message = "its state could not be rebuilt"}, bytes, seed end
  local plan, fault = v.sandbox:decide(bytes, seed, source.budget(self.kind, self.timed))
  self.printed = v.sandbox:usage().log
  return plan, fault, bytes, seed
end

---After an accepted plan: keeps what the policy exports.
---@return string|nil bytes, table? fault
function seat:save()
  local v = self.current
  if not v.policy.exports then return nil end
  local bytes, fault = v.sandbox:export(source.budget(self.kind, self.timed))
  if bytes then v.saved = bytes end
  return bytes, fault
end

---Views of the last decisions, oldest first.
function seat:recorded()
  local list = {}
  for i = 0, #self.views - 1 do list[#list + 1] = self.views[(self.first_view - 1 + i) % #self.views + 1] end
  return list
end

function seat:remember(bytes, seed, needs)
  local entry = {view = bytes, seed = seed, needs = needs}
  if #self.views < VIEWS_MAX then
    self.views[#self.views + 1] = entry
  else
    self.views[self.first_view] = entry
    self.first_view = self.first_view % VIEWS_MAX + 1
  end
  self.newest = entry
end

---Notes a fault.
---@return boolean whether the policy has had too many
function seat:faulted(now)
  self.errors, self.row = self.errors + 1, self.row + 1
  self.faults[#self.faults + 1] = now
  while self.faults[1] and self.faults[1] <= now - 60 do table.remove(self.faults, 1) end
  return self.row >= FAULTS_IN_A_ROW or #self.faults >= FAULTS_IN_A_MINUTE
end

---When the seat decides next.
function seat:due()
  local at = self.wake and math.min(self.wake, self.next_at) or self.next_at
  if #self.reasons > 0 then at = -math.huge end
  return math.max(at, self.last_at + self.current.policy.min_gap)
end

---Records an event that the policy subscribes to.
function seat:event(name, id)
  for _, wanted in ipairs(self.current.policy.on) do
    if wanted == name and #self.reasons < 100 then
      self.reasons[#self.reasons + 1] = {event = name, id = id}
      return true
    end
  end
  return false
end

---The policy that may take over: the newest version before the current one that did not fail, or the fallback.
---@return table|nil version nil: only the kind's fallback is left
function seat:previous_good()
  for i = #self.versions - 1, 1, -1 do
    local v = self.versions[i]
    if not v.failed and v.sha ~= self.current.sha then return v end
  end
  return nil
end

function seat:fallback() return source.find(contract.kinds[self.kind].fallback) end

return seat
