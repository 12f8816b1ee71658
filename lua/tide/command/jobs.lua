-- `tide jobs`: the runs of a cluster.
local listing = require "tide.command.listing"
local remote_run = require "tide.run.remote"

return listing.command {
  name = "jobs",
  brief = "the runs of a cluster: states, slots, progress",
  summary = "Lists the runs of a cluster: queued, running, paused or suspended; with --all also those that "
    .. "have ended.",
  examples = {
    {"tide jobs", "active runs"},
    {"tide jobs -a", "and what has ended"},
    {"tide jobs --watch 2s", "again every two seconds"},
  },
  options = {{name = "all", short = "a", doc = "ended ones too"}},
  schema = "tide.job/1",
  columns = {
    {key = "name", title = "job"}, {key = "state"}, {key = "slots_text", title = "slots"},
    {key = "memory", format = "size"}, {key = "nodes_text", title = "nodes"},
    {key = "for_s", title = "for", format = "duration"},
    {key = "progress_text", title = "progress"}, {key = "user", title = "person"}, {key = "tags"},
  },
  collect = function(context, client)
    return client.look("tide.command.job.inside", {op = "list", all = context.options.all or false})
  end,
  rows = function(view)
    for _, row in ipairs(view.runs) do
      row.slots_text = row.wanted and ("%d of %d"):format(row.slots, row.wanted) or tostring(row.slots)
      row.nodes_text = #row.nodes > 0 and table.concat(row.nodes, " ") or "-"
      row.for_s = (row.ended_at or row.submitted_at + row.age_s) - (row.started_at or row.submitted_at)
      row.progress_text = remote_run.progress(row)
      if row.tags and #row.tags == 0 then row.tags = nil end
    end
    return view.runs
  end,
}
