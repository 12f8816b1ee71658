-- `tide events`: what happened in a cluster.
local events = require "tide.cluster.events"
local listing = require "tide.command.listing"

return listing.command {
  name = "events",
  brief = "events of a cluster: nodes, slots, runs, policies, checkpoints",
  summary = "Lists the events of a running cluster, oldest first, with reasons.",
  examples = {
    {"tide events", "the newest 512 of each node"},
    {"tide events --where 'kind == \"policy\"'", "swaps, rollbacks, guards"},
    {"tide events --json", "JSON, a line for each event"},
  },
  schema = "tide.event/1",
  columns = {{key = "at"}, {key = "kind"}, {key = "node"}, {key = "text", title = "what happened"}},
  collect = function(_, client) return client.gather "events" end,
  rows = function(answers)
    local told = {}
    for _, row in ipairs(answers) do
      if row.answer then told[#told + 1] = {node = row.name, events = row.answer.events} end
    end
    local rows <const> = events.merge(told)
    for _, row in ipairs(rows) do row.at = os.date("%F %T", row.time // 1 | 0) end
    return rows
  end,
}
