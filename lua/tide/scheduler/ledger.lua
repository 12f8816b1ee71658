-- Slot hours by week, person and run: what `tide accounts` prints. The entry of a week and a person is a record of the
-- control store, "accounts/2026-W48/alice" -> {run = slot seconds}, written at most twice a minute.
local core = require "tide.core"
local text = require "tide.text"

local ledger = {}
ledger.__index = ledger

local PREFIX <const> = "accounts/"
local SAVE_S <const> = 30
local WEEKS_KEPT <const> = 26
local RUNS_MOST <const> = 300 -- of a person in a week; the smallest of more are added up
local OTHERS <const> = "others"

local function week_of(wall) return os.date("!%G-W%V", wall // 1 | 0) end

---@return table reads what there is
function ledger.new()
  local self <const> = setmetatable({entries = {}, changed = {}, saved_at = core.now()}, ledger)
  local oldest <const> = week_of(core.wall() - WEEKS_KEPT * 7 * 86400)
  for key, bytes in pairs(core.control_list(PREFIX) or {}) do
    if key:sub(#PREFIX + 1) < oldest then
      core.fiber(core.control_put, key)
    else
      self.entries[key] = core.decode(bytes)
    end
  end
  return self
end

-- The smallest runs of an entry become one.
local function fold(entry)
  local names <const> = text.sorted_keys(entry)
  if #names <= RUNS_MOST then return end
  table.sort(names, function(a, b) return entry[a] < entry[b] end)
  local sum = entry[OTHERS] or 0
  for i = 1, #names - RUNS_MOST // 2 do
    if names[i] ~= OTHERS then sum, entry[names[i]] = sum + entry[names[i]], nil end
  end
  entry[OTHERS] = sum
end

---@param person string
---@param run string its name
---@param slot_seconds number
function ledger:add(person, run, slot_seconds)
  local key <const> = PREFIX .. week_of(core.wall()) .. "/" .. person
  local entry <const> = self.entries[key] or {}
  self.entries[key], self.changed[key] = entry, true
  entry[run] = (entry[run] or 0) + slot_seconds
end

---Keeps what changed; called often.
---@return boolean whether it was due, and there was something
function ledger:keep()
  if core.now() - self.saved_at < SAVE_S or not next(self.changed) then return false end
  self.saved_at = core.now()
  local changed <const> = self.changed
  self.changed = {}
  for key in pairs(changed) do
    fold(self.entries[key])
    core.fiber(core.control_put, key, core.encode(self.entries[key]))
  end
  return true
end

---@return {week: string, person: string, run: string, slot_s: number}[] by week, person and run
function ledger:rows()
  local rows = {}
  for _, key in ipairs(text.sorted_keys(self.entries)) do
    local week <const>, person <const> = key:match "^accounts/([^/]+)/(.*)$"
    for _, run in ipairs(text.sorted_keys(self.entries[key])) do
      rows[#rows + 1] = {week = week, person = person, run = run, slot_s = self.entries[key][run]}
    end
  end
  return rows
end

return ledger
