-- `tide shares [set FILE|clear]`: shares and limits of persons.
local arguments = require "tide.cli.arguments"
local client = require "tide.cluster.client"
local errors = require "tide.errors"
local listing = require "tide.command.listing"
local shares = require "tide.policy.persons"
local text = require "tide.text"
local units = require "tide.units"

local INSIDE <const> = "tide.command.job.inside"
local COLUMNS <const> = {
  {key = "name", title = "person"}, {key = "group"}, {key = "weight"}, {key = "priority"}, {key = "slots"},
  {key = "slots_max", title = "max slots"}, {key = "runs"}, {key = "runs_max", title = "max runs"},
  {key = "memory_max", title = "max memory", format = "size"}, {key = "slot_hours", title = "slot hours"},
  {key = "part", title = "ratio", format = "share"},
}

local function show(context)
  local answer <const>, err = client.look(INSIDE, {op = "shares"})
  if not answer then return nil, err end
  local rows <const> = answer.persons
  for _, row in ipairs(rows) do
    row.slot_hours, row.half_life_s = row.used / 3600, answer.half_life_s
  end
  if #rows == 0 then context:say "no person has had slots yet, and none has a share: `tide shares set FILE`" end
  local ok, problem = listing.print(context, rows, COLUMNS)
  if not ok then return nil, problem end
  if not context.json and not context.plain and #rows > 0 then
    context:say("slot hours count half after " .. units.format_duration(answer.half_life_s))
  end
  return 0
end

-- Sets the shares of a file; nil: removes them.
local function change(context, given, said)
  local answer <const>, err = client.run(INSIDE, {op = "shares.set", shares = given})
  if not answer then return nil, err end
  context:say(said)
  return 0
end

local function set(context, o)
  local content <const>, unread = context.core.file_read(o.file)
  if not content then return nil, errors.from(unread) end
  local given <const>, err = shares.read(content, o.file)
  if not given then return nil, err end
  return change(context, given, "the shares are those of " .. text.clean(o.file))
end

return {
  name = "shares",
  brief = "shares and limits of persons",
  summary = "Shows the shares of persons: weights, limits, what they hold, and what they have used, which counts half "
    .. "after a half-life. `set FILE` changes them, also while runs are active. Weights and priorities count under the "
    .. "policy scheduling/fair; limits of slots, runs and memory count also without a policy.",
  examples = {
    {"tide shares", "each person's weight, limits, slots and use"},
    {"tide shares set shares.lua", "a file such as: return {persons = {alice = {weight = 2, slots = 16}}}"},
    {"tide policy swap scheduling/fair", "slots are given out by these shares"},
  },
  verbs = {
    {name = "show", doc = "each person's weight, limits, slots and use", run = show},
    {name = "set", doc = "sets the shares of a file", run = set,
     arguments = {{name = "file", doc = "Lua that returns half_life, default, groups, persons"}}},
    {name = "clear", doc = "equal shares, without limits", run = function(context)
      return change(context, nil, "all persons have equal shares, without limits")
    end},
  },
  verb = "show",
  attached = true,
  schema = "tide.shares/1",
  options = {arguments.shared.cluster},
}
