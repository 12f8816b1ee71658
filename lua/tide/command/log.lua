-- `tide log`: what the nodes of a running cluster have written. The logs of runs: run_logs.lua.
local arguments = require "tide.cli.arguments"
local cluster_view = require "tide.cluster.view"
local log_lines = require "tide.show.log_lines"

local EVERY_S <const> = 0.5

-- Lines that no earlier look had, by node.
local function look(client, seen)
  local rows, err = client.gather "log"
  if not rows then return nil, err end
  local lists = {}
  for _, row in ipairs(rows) do
    local list = {}
    for _, line in ipairs(row.answer and row.answer.lines or {}) do
      if line.number > (seen[row.id] or 0) then
        seen[row.id] = line.number
        list[#list + 1] = {time = line.time, level = line.level, node = row.name, text = line.text}
      end
    end
    lists[#lists + 1] = list
  end
  return log_lines.merge(lists)
end

local function print_log(context)
  local o <const> = context.options
  local chosen <const> = {level = o.level, node = o.node, since = o.since and context.core.wall() - o.since}
  local deadline <const> = context.timeout_s and context.core.now() + context.timeout_s
  return cluster_view.attached(context, function(client)
    local seen, most = {}, o.last
    while true do
      local lines, err = look(client, seen)
      if not lines then return nil, err end
      log_lines.print(context, log_lines.chosen(lines, chosen), most)
      most = nil
      if not o.follow then return 0 end
      local exit <const> = cluster_view.pause(context.core, EVERY_S, deadline)
      if exit then return exit == 124 and 124 or 0 end
    end
  end)
end

return {
  name = "log",
  brief = "log lines of the nodes of a cluster: filter, merge, follow",
  summary = "Prints the newest 256 log lines of each node of a running cluster, oldest first. Times are in UTC. "
    .. "`tide runs logs` has those of a run.",
  examples = {
    {"tide log", "the nodes of the one cluster that runs"},
    {"tide log -f --level warn", "follow until Ctrl-C, only warnings and errors"},
    {"tide log --node n2 --json", "one node, a JSON object a line"},
  },
  hints = {["--run"] = "the log of a run is printed by `tide runs logs RUN`",
           ["--dir"] = "the log of a run is printed by `tide runs logs RUN --dir DIR`"},
  options = {
    arguments.shared.cluster,
    {name = "follow", short = "f", doc = "follow new lines"},
    {name = "level", type = "string", choices = {"debug", "info", "warn", "error"}, value = "LEVEL",
     doc = "only this level and above"},
    {name = "node", type = "string", value = "NODE", doc = "only of this node"},
    {name = "since", type = "duration", doc = "only what is not older than this"},
    {name = "last", type = "integer", min = 1, value = "N", doc = "only the last N lines, to begin with"},
  },
  stays = function(o) return o.follow == true end,
  schema = "tide.log/1",
  run = print_log,
}
