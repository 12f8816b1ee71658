-- `tide accounts`: slot hours of a cluster by week, person and run.
local listing = require "tide.command.listing"

local BY <const> = {person = {"week", "person"}, run = {"week", "person", "run"}, week = {"week"}}

-- Adds up rows that agree in the fields.
local function grouped(rows, fields)
  local list, by = {}, {}
  for _, row in ipairs(rows) do
    local key = {}
    for i, field in ipairs(fields) do key[i] = row[field] end
    local name <const> = table.concat(key, "\0")
    if not by[name] then
      by[name] = {slot_s = 0, runs = 0}
      for _, field in ipairs(fields) do by[name][field] = row[field] end
      list[#list + 1] = by[name]
    end
    by[name].slot_s, by[name].runs = by[name].slot_s + row.slot_s, by[name].runs + 1
  end
  for _, row in ipairs(list) do row.slot_hours = row.slot_s / 3600 end
  return list
end

return listing.command {
  name = "accounts",
  brief = "slot hours by week, person and run",
  summary = "Adds up the slot hours that runs of a cluster have held, of the last 26 weeks. An hour on four slots is "
    .. "four slot hours.",
  examples = {
    {"tide accounts", "by week and person"},
    {"tide accounts --by run --where 'person == \"alice\"'", "each run of one person"},
  },
  options = {{name = "by", type = "string", choices = {"person", "run", "week"}, value = "WHAT",
              doc = "a row for each person (default), run or week"}},
  schema = "tide.accounts/1",
  columns = {{key = "week"}, {key = "person"}, {key = "run"}, {key = "runs"},
             {key = "slot_hours", title = "slot hours"}},
  collect = function(_, client) return client.look("tide.command.job.inside", {op = "accounts"}) end,
  rows = function(view, context) return grouped(view.rows, BY[context.options.by or "person"]) end,
}
