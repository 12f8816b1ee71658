-- How much of a shared cluster each person may have, and has had: weights, limits and priorities of persons and
-- groups as an admin gives them, and the slot seconds of each person, which halve every half-life. Pure: the keeper of
-- runs and the simulator of jobs charge it, and policies of the kind `scheduling` see it as `view.persons`.
--
-- docs/guides/shares.md is the guide.
local checks = require "tide.checks"
local errors = require "tide.errors"
local lua_data = require "tide.lua_data"
local text = require "tide.text"
local units = require "tide.units"

local shares = {}
shares.__index = shares

local HALF_LIFE_S <const> = 7 * 86400
local WEIGHT_MOST <const>, COUNT_MOST <const> = 1e6, 1 << 20
local PERSONS_MOST <const> = 2000

---@class tide.policy.share of a person or a group
---@field weight number its share of the slots among all with demand; 1
---@field priority? integer persons of a higher one are served first; that of the group, else 0
---@field slots? integer most slots at a time; of a group those of all its members together
---@field runs? integer most runs that have slots, likewise
---@field memory? integer most bytes on a node that the caps of their runs claim together
---@field group? string of a person

---@class tide.policy.share_settings
---@field half_life_s number
---@field default tide.policy.share of persons that are not named
---@field groups table<string, tide.policy.share>
---@field persons table<string, tide.policy.share>

local function refuse(message, help)
  return nil, errors.new("T0113", {message = "shares: " .. message, state = "nothing changed", help = help})
end

-- Fields of a group; a person has more.
---@type tide.declared[]
local GROUP <const> = {
  {name = "weight", type = "number", above = 0, max = WEIGHT_MOST, default = 1, doc = "among others"},
  {name = "slots", type = "integer", min = 1, max = COUNT_MOST, doc = "most slots at a time"},
  {name = "runs", type = "integer", min = 1, max = COUNT_MOST, doc = "most runs that have slots"},
  {name = "memory", type = "size", doc = "most bytes on a node that the caps of their runs claim together"},
  {name = "priority", type = "integer", min = -1000, max = 1000, doc = "of those that wait"},
}
local PERSON <const> = table.move(GROUP, 1, #GROUP, 1, {})
PERSON[#GROUP + 1] = {name = "group", type = "string", doc = "of the person"}

-- One entry: {weight = 2, ..}, checked.
local function checked(what, given, is_person)
  local entry <const>, err = checks.read("shares: " .. what, is_person and PERSON or GROUP, given)
  if err then err.state = "nothing changed" end
  return entry, err
end

local function checked_all(what, given, is_person)
  local all, count = {}, 0
  if type(given) ~= "table" then return refuse(("`%s` is a %s, not a table"):format(what, type(given))) end
  for name, entry in pairs(given) do
    if type(name) ~= "string" or not name:find "^[%w_][%w_.@-]*$" or #name > 64 then
      return refuse(("`%s` has the name %s: a name has letters, digits and . _ @ -"):format(what,
        text.clean(tostring(name))))
    end
    count = count + 1
    if count > PERSONS_MOST then return refuse(("more than %d %s"):format(PERSONS_MOST, what)) end
    local err
    all[name], err = checked(("%s.%s"):format(what, name), entry, is_person)
    if not all[name] then return nil, err end
  end
  return all
end

local LIMITS <const> = {"slots", "runs", "memory"}

-- A group that is not there, or a member that may have more than its group.
local function contradiction_of(what, entry, groups)
  if not entry.group then return nil end
  local group <const> = groups[entry.group]
  if not group then
    return ("%s: there is no group `%s`"):format(what, text.clean(entry.group)),
      text.did_you_mean(entry.group, groups)
  end
  for _, limit in ipairs(LIMITS) do
    if entry[limit] and group[limit] and entry[limit] > group[limit] then
      return ("%s: `%s` = %d contradicts its group, which may have %d"):format(what, limit, entry[limit], group[limit]),
        ("lower it, or raise groups.%s.%s"):format(entry.group, limit)
    end
  end
end

local function contradiction(settings)
  local wrong, help = contradiction_of("default", settings.default, settings.groups)
  for _, name in ipairs(text.sorted_keys(settings.persons)) do
    if wrong then break end
    wrong, help = contradiction_of("persons." .. name, settings.persons[name], settings.groups)
  end
  return wrong, help
end

local NOTHING <const> = {slots = 0, runs = 0, memory = 0}
---@type tide.declared[]
local TOP <const> = {
  {name = "half_life", type = "duration", min = 1, max = 366 * 86400, default = HALF_LIFE_S, doc = "of what was used"},
  {name = "default", type = "any", doc = "of persons that are not named"},
  {name = "groups", type = "any", doc = "by name"},
  {name = "persons", type = "any", doc = "by name"},
}

---@param given any {half_life = "7d", default = {..}, groups = {name = {..}}, persons = {name = {..}}}
---@return tide.policy.share_settings|nil, table? err T0113
function shares.check(given)
  if type(given) ~= "table" then return refuse(("a %s is no table"):format(type(given))) end
  local top <const>, fault <const> = checks.read("shares", TOP, given)
  if not top then
    fault.state = "nothing changed"
    return nil, fault
  end
  local settings <const> = {half_life_s = top.half_life}
  local default <const>, problem = checked("default", given.default or {}, true)
  if not default then return nil, problem end
  settings.default = default
  for _, what in ipairs {"groups", "persons"} do
    local err
    settings[what], err = checked_all(what, given[what] or {}, what == "persons")
    if not settings[what] then return nil, err end
  end
  local wrong <const>, help = contradiction(settings)
  if wrong then return refuse(wrong, help) end
  return settings
end

---A file of shares: Lua that returns a table, and can call nothing.
---@param content string
---@param path string for errors
---@return table|nil given, which shares.check accepts
---@return table? err T0113
function shares.read(content, path)
  local ok <const>, given = lua_data.read(content, path)
  if not ok then return refuse(given, "the file may call nothing: `return {persons = {alice = {weight = 2}}}`") end
  local fits <const>, err = shares.check(given)
  if not fits then return nil, err end
  return given
end

---@param settings? tide.policy.share_settings
---@param used? {at: number, by: table<string, number>} what was used before, as `shares:export` gives it
---@param now number seconds
---@return table
function shares.new(settings, used, now)
  return setmetatable({settings = settings or assert(shares.check {}), at = used and used.at or now,
                       by = used and used.by or {}}, shares)
end

-- What was used until now weighs less.
local function decay(self, now)
  local factor <const> = 0.5 ^ (math.max(now - self.at, 0) / self.settings.half_life_s)
  self.at = math.max(now, self.at)
  for name, used in pairs(self.by) do
    used = used * factor
    self.by[name] = used > 1e-3 and used or nil
  end
end

---@param charges table<string, number> slot seconds by person, used just before now
---@param now number
function shares:charge(charges, now)
  decay(self, now)
  for name, slot_seconds in pairs(charges) do self.by[name] = (self.by[name] or 0) + slot_seconds end
end

---@return {at: number, by: table<string, number>} plain
function shares:export() return {at = self.at, by = self.by} end

---One person as policies see it.
---@param name string
---@return table {name, group, weight, group_weight, priority, used, slots_max, runs_max, memory_max,
---  group_slots_max, group_runs_max, group_memory_max}
function shares:of(name)
  local own <const> = self.settings.persons[name] or self.settings.default
  local group <const> = own.group and self.settings.groups[own.group]
  return {name = name, group = own.group, weight = own.weight, group_weight = group and group.weight or nil,
          priority = own.priority or group and group.priority or 0, used = self.by[name] or 0,
          slots_max = own.slots, runs_max = own.runs, memory_max = own.memory,
          group_slots_max = group and group.slots, group_runs_max = group and group.runs,
          group_memory_max = group and group.memory}
end

---The persons of some jobs, by name.
---@param jobs {person: string}[]
---@param now number
---@return table[]
function shares:persons(jobs, now)
  decay(self, now)
  local seen, list = {}, {}
  for _, job in ipairs(jobs) do seen[job.person] = true end
  for i, name in ipairs(text.sorted_keys(seen)) do list[i] = self:of(name) end
  return list
end

---@param name string
---@return boolean whether a run of this person can be refused slots that are free
function shares:is_limited(name)
  local own <const> = self:of(name)
  return (own.slots_max or own.runs_max or own.memory_max or own.group_slots_max or own.group_runs_max
    or own.group_memory_max) ~= nil
end

-- Why `who` may not have these slots too.
local function refusal(who, most, held, wants)
  if most.runs and held.runs >= most.runs then
    return ("%s has %d of at most %d runs"):format(who, held.runs, most.runs)
  elseif most.slots and held.slots + wants.slots > most.slots then
    return ("%s has %d of at most %d slots, and this run takes %d"):format(who, held.slots, most.slots, wants.slots)
  elseif most.memory and held.memory + (wants.memory or 0) > most.memory then
    return ("runs of %s would claim %s of memory on a node, at most %s are allowed"):format(who,
      units.format_size(held.memory + (wants.memory or 0)), units.format_size(most.memory))
  end
end

---Why a run of a person may not have slots now; nil: it may.
---@param name string
---@param held table<string, {slots: integer, runs: integer, memory: integer}> what others' runs have, by person
---@param wants {slots: integer, memory?: integer}
---@return string|nil
function shares:refuses(name, held, wants)
  local own <const> = self:of(name)
  local why <const> = refusal(name, {runs = own.runs_max, slots = own.slots_max, memory = own.memory_max},
    held[name] or NOTHING, wants)
  if why or not own.group then return why end
  local of_group <const> = {slots = 0, runs = 0, memory = 0}
  for person, has in pairs(held) do
    if self:of(person).group == own.group then
      for key, sum in pairs(of_group) do of_group[key] = sum + has[key] end
    end
  end
  return refusal("group " .. own.group, {runs = own.group_runs_max, slots = own.group_slots_max,
    memory = own.group_memory_max}, of_group, wants)
end

return shares
