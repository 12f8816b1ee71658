-- How much of a shared cluster each person may have, and has had: weights, limits and priorities of persons and
-- groups as an admin gives them, and the slot seconds of each person, which halve every half-life. Pure: the keeper of
-- runs and the simulator of jobs charge it, and policies of the kind `scheduling` see it as `view.persons`.
--
-- docs/guides/shares.md is the guide.
local errors = require "tide.errors"
local text = require "tide.text"
local units = require "tide.units"

local shares = {}
shares.__index = shares

local HALF_LIFE_S <const> = 7 * 86400
local WEIGHT_MOST <const>, COUNT_MOST <const> = 1e6, 1 << 20
local PERSONS_MOST <const> = 2000

---@class tide.policy.share of a person or a group
---@field weight number its part of the slots among all that want some; 1
---@field priority? integer persons of a higher one are served first; that of the group, else 0
---@field slots? integer of a person: most slots at a time
---@field runs? integer of a person: most runs that have slots
---@field memory? integer of a person: most bytes on a node that the caps of its runs claim together
---@field group? string of a person

---@class tide.policy.share_settings
---@field half_life_s number
---@field default tide.policy.share of persons that are not named
---@field groups table<string, tide.policy.share>
---@field persons table<string, tide.policy.share>

local function refuse(message, help, code)
  return nil, errors.new(code or "T0113", {message = "shares: " .. message, state = "nothing changed", help = help})
end

local function is_count(v) return math.type(v) == "integer" and v >= 1 and v <= COUNT_MOST end

-- field -> what it must be, the check of a value, which may give another one, and whether groups have it.
local FIELDS <const> = {
  weight = {"a number above 0", function(v)
    return type(v) == "number" and v > 0 and v <= WEIGHT_MOST and v
  end, true},
  slots = {"a whole number from 1 on", function(v) return is_count(v) and v end},
  runs = {"a whole number from 1 on", function(v) return is_count(v) and v end},
  memory = {"a size such as \"4GiB\"", function(v) return units.parse_size(v) end},
  priority = {"a whole number", function(v) return math.type(v) == "integer" and math.abs(v) <= 1000 and v end, true},
  group = {"the name of a group", function(v) return type(v) == "string" and v end},
}

-- One entry: {weight = 2, ..}, checked.
local function checked(what, given, is_person)
  if type(given) ~= "table" then return refuse(("%s is a %s, not a table"):format(what, type(given))) end
  local entry = {weight = 1}
  for key, value in pairs(given) do
    local field <const> = FIELDS[key]
    if not field or not (is_person or field[3]) then
      return refuse(("%s has no field `%s`"):format(what, text.clean(tostring(key))),
        text.did_you_mean(tostring(key), text.sorted_keys(FIELDS)), "T0115")
    end
    local value_is <const> = field[2](value)
    if not value_is then
      return refuse(("%s: `%s` = %s is not %s"):format(what, key, text.clean(tostring(value)), field[1]))
    end
    entry[key] = value_is
  end
  return entry
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

-- A group that is not there.
local function contradiction(settings)
  for _, name in ipairs(text.sorted_keys(settings.persons)) do
    local group <const> = settings.persons[name].group
    if group and not settings.groups[group] then
      return ("persons.%s: there is no group `%s`"):format(name, text.clean(group)),
        text.did_you_mean(group, text.sorted_keys(settings.groups))
    end
  end
  return nil
end

local TOP <const> = {half_life = true, default = true, groups = true, persons = true}

---@param given any {half_life = "7d", default = {..}, groups = {name = {..}}, persons = {name = {..}}}
---@return tide.policy.share_settings|nil, table? err T0113
function shares.check(given)
  if type(given) ~= "table" then return refuse(("a %s is no table"):format(type(given))) end
  for key in pairs(given) do
    if not TOP[key] then
      return refuse(("there is no field `%s`"):format(text.clean(tostring(key))),
        text.did_you_mean(tostring(key), text.sorted_keys(TOP)), "T0115")
    end
  end
  local half_life_s = HALF_LIFE_S
  if given.half_life ~= nil then
    local seconds <const> = units.parse_duration(given.half_life)
    if not seconds or seconds < 1 or seconds > 366 * 86400 then
      return refuse("`half_life` is a duration from 1s to 366d, such as \"7d\"")
    end
    half_life_s = seconds
  end
  local settings <const> = {half_life_s = half_life_s}
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
  local chunk <const>, why = load(content, "@" .. path, "t", {})
  if not chunk then return refuse(tostring(why), "write it as `return {persons = {alice = {weight = 2}}}`") end
  local ok <const>, given = pcall(chunk)
  if not ok then return refuse(tostring(given), "the file may call nothing: it returns a table") end
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
---@return table {name, group, weight, group_weight, priority, used, slots_max, runs_max, memory_max}
function shares:of(name)
  local own <const> = self.settings.persons[name] or self.settings.default
  local group <const> = own.group and self.settings.groups[own.group]
  return {name = name, group = own.group, weight = own.weight, group_weight = group and group.weight or nil,
          priority = own.priority or group and group.priority or 0, used = self.by[name] or 0,
          slots_max = own.slots, runs_max = own.runs, memory_max = own.memory}
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
  return (own.slots_max or own.runs_max or own.memory_max) ~= nil
end

---Why a run of a person may not have slots now; nil: it may.
---@param name string
---@param held {slots: integer, runs: integer, memory: integer} what the person's other runs have
---@param wants {slots: integer, memory?: integer}
---@return string|nil
function shares:refuses(name, held, wants)
  local own <const> = self:of(name)
  if own.runs_max and held.runs >= own.runs_max then
    return ("%s has %d of at most %d runs"):format(name, held.runs, own.runs_max)
  elseif own.slots_max and held.slots + wants.slots > own.slots_max then
    return ("%s has %d of at most %d slots, and this run takes %d"):format(name, held.slots, own.slots_max, wants.slots)
  elseif own.memory_max and held.memory + (wants.memory or 0) > own.memory_max then
    return ("runs of %s would claim %s of memory on a node, at most %s are allowed"):format(name,
      units.format_size(held.memory + (wants.memory or 0)), units.format_size(own.memory_max))
  end
  return nil
end

return shares
