-- `tide down`: ends a cluster of `tide up`.
local arguments = require "tide.cli.arguments"
local errors = require "tide.errors"
local text = require "tide.text"
local up_down = require "tide.cluster.up_down"

-- Active runs of the cluster, as text behind its name: "" if there are none.
local function what_runs(context, name)
  context.options.cluster = name
  local runs <const>, err = up_down.runs(context)
  if not runs then return (", which does not say what runs there (%s)"):format(errors.from(err).message) end
  local jobs = {}
  for i, run in ipairs(runs) do jobs[i] = ("%s (%s)"):format(text.clean(run.name), text.clean(run.state)) end
  return #jobs > 0 and " with " .. table.concat(jobs, ", ") or ""
end

return {
  name = "down",
  brief = "end a cluster that `tide up` started",
  summary = "Ends a cluster that `tide up` started. Its runs are stopped first. Rows that were not saved are lost.",
  examples = {
    {"tide down", "asks, then ends the one cluster that runs"},
    {"tide down lab -y", "ends cluster `lab` without asking"},
    {"tide down --dry-run", "what would be ended"},
  },
  arguments = {{name = "name", optional = true, doc = "the cluster; same as --cluster"}},
  options = {arguments.shared.cluster, arguments.shared.yes, arguments.shared.dry_run},
  schema = "tide.down/1",
  run = function(context)
    local o <const> = context.options
    local wanted <const> = o.name or o.cluster
    if wanted and not wanted:find("^[a-z0-9][a-z0-9._-]*$") then
      return nil, errors.new("T0113", {message = ("`%s` is no name of a cluster"):format(wanted),
        help = "tide down NAME; a cluster of other machines ends where it was started"})
    end
    local name <const>, none = up_down.started(wanted)
    if not name then return nil, errors.from(none, "T1003") end
    local what = "cluster `" .. text.clean(name) .. "`"
    if not o.yes then what = what .. what_runs(context, name) end
    if o.dry_run then
      if context.json then
        context:record({cluster = name, dry_run = true})
      else
        context:print("would end " .. what)
      end
      return 0
    end
    local ok, err = context:confirm("End " .. what .. "?")
    if not ok then return nil, err end
    local down, problem = up_down.down {cluster = name, timeout_s = context.timeout_s}
    if not down then return nil, errors.from(problem, "T1003") end
    local result = type(down) == "table" and down or {cluster = name}
    local runs <const> = result.runs or {}
    local object = {}
    for k, v in pairs(result) do object[k] = v end
    object.runs = #runs > 0 and runs or nil
    return context:tell(object,
      ("cluster `%s` is down"):format(text.clean(result.cluster or name or "?"))
      .. ((result.killed or 0) > 0 and (", %d processes by force"):format(result.killed) or "")
      .. (#runs > 0 and (", stopped %s"):format(text.clean(text.names(runs))) or ""))
  end,
}
