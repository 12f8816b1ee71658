-- `tide shares [set FILE|clear]`: who may have how much of a cluster.
local arguments = require "tide.cli.arguments"
local client = require "tide.cluster.client"
local cluster_view = require "tide.cluster.view"
local errors = require "tide.errors"
local listing = require "tide.show.listing"
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

local verbs = {}

function verbs.show(context)
  local answer <const>, err = client.look(INSIDE, {op = "shares"})
  if not answer then return nil, err end
  local rows <const> = answer.value.persons
  for _, row in ipairs(rows) do
    row.slot_hours, row.half_life_s = row.used / 3600, answer.value.half_life_s
  end
  if #rows == 0 then context:say "no person has had slots yet, and none has a share: `tide shares set FILE`" end
  local ok, problem = listing.print(context, rows, COLUMNS, "tide.shares/1")
  if not ok then return nil, problem end
  if not context.json and not context.plain and #rows > 0 then
    context:say("slot hours count half after " .. units.format_duration(answer.value.half_life_s))
  end
  return 0
end

-- Gives the cluster what a file says; nil: the shares go.
local function change(context, given, said)
  local answer <const>, err = client.run(INSIDE, {op = "shares.set", shares = given})
  if not answer then return nil, err end
  context:say(said)
  return 0
end

function verbs.set(context, path)
  local content <const>, unread = context.core.file_read(path)
  if not content then return nil, errors.from(unread) end
  local given <const>, err = shares.read(content, path)
  if not given then return nil, err end
  return change(context, given, "the shares are those of " .. text.clean(path))
end

function verbs.clear(context) return change(context, nil, "all persons have equal shares, without limits") end

return {
  name = "shares",
  brief = "who may have how much of a cluster",
  summary = "Shows the shares of persons: weights, limits, what they hold, and what they have used, which counts half "
    .. "after a half-life. `set FILE` changes them, also while runs are active. Weights and priorities count under the "
    .. "policy scheduling/fair; limits of slots, runs and memory count also without a policy.",
  examples = {
    {"tide shares", "each person's weight, limits, slots and use"},
    {"tide shares set shares.lua", "a file such as: return {persons = {alice = {weight = 2, slots = 16}}}"},
    {"tide policy swap scheduling/fair", "slots are given out by these shares"},
  },
  arguments = {
    {name = "verb", optional = true, doc = "show (default), set, clear"},
    {name = "file", optional = true, doc = "of set: Lua that returns half_life, default, groups, persons"},
  },
  options = {arguments.shared.cluster},
  run = function(context)
    local o <const> = context.options
    local verb <const> = o.verb or "show"
    if not verbs[verb] then
      return nil, errors.new("T0105", {message = ("`%s` is no verb of shares"):format(text.clean(verb)),
        help = text.did_you_mean(verb, text.sorted_keys(verbs)) or "there are show, set, clear"})
    end
    if (verb == "set") ~= (o.file ~= nil) then
      return nil, errors.new(o.file and "T0105" or "T0103", {message = o.file
        and ("`tide shares %s` takes no file"):format(verb) or "`tide shares set` requires a file",
        help = "tide shares set shares.lua"})
    end
    return cluster_view.attached(context, function() return verbs[verb](context, o.file) end)
  end,
}
