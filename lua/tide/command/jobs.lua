-- `tide jobs`: the runs of a cluster.
local errors = require "tide.errors"
local listing = require "tide.show.listing"
local units = require "tide.units"

-- "report 3, loss 0.91, 702k ex/s", or why it waits.
local function progress_of(row)
  if row.why and row.state ~= "running" then return row.why end
  local p <const> = row.progress or {}
  local parts = {}
  if (p.report or 0) > 0 then parts[1] = "report " .. p.report end
  if p.loss then parts[#parts + 1] = ("loss %.4g"):format(p.loss) end
  if p.rate and p.rate > 0 and row.state == "running" then
    parts[#parts + 1] = units.format_count(p.rate) .. " ex/s"
  end
  if row.why then parts[#parts + 1] = row.why end
  return table.concat(parts, ", ")
end

return listing.command {
  name = "jobs",
  brief = "the runs of a cluster: who trains what, on which slots",
  summary = "Lists the runs of a cluster: those that wait, go on, are paused or suspended; with --all also those that "
    .. "have ended.",
  examples = {
    {"tide jobs", "what goes on"},
    {"tide jobs -a", "and what has ended"},
    {"tide jobs --watch 2s", "again every two seconds"},
  },
  options = {{name = "all", short = "a", doc = "ended ones too"}},
  schema = "tide.job/1",
  columns = {
    {key = "name", title = "job"}, {key = "state"}, {key = "slots_text", title = "slots"},
    {key = "nodes_text", title = "nodes"}, {key = "for_s", title = "for", format = "duration"},
    {key = "progress_text", title = "progress"}, {key = "host_text", title = "host"},
  },
  collect = function(context)
    local answer, err = context.core.node_run([[return require("tide.command.job").inside(...)]],
      "@tide/command/job.lua", {op = "list", all = context.options.all or false})
    if not answer then return nil, errors.from(err) end
    if answer.error then return nil, errors.from(answer.error) end
    return answer.value
  end,
  rows = function(view)
    for _, row in ipairs(view.runs) do
      row.slots_text = row.wanted and ("%d of %d"):format(row.slots, row.wanted) or tostring(row.slots)
      row.nodes_text = #row.nodes > 0 and table.concat(row.nodes, " ") or "-"
      row.for_s = (row.ended_at or row.submitted_at + row.age_s) - (row.started_at or row.submitted_at)
      row.progress_text = progress_of(row)
      row.host_text = ("%s, pid %s"):format(row.user or row.host.node or "?", row.host.pid or "?")
    end
    return view.runs
  end,
}
