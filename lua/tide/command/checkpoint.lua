-- `tide checkpoint`: writes, lists, checks and restores checkpoints of all tables.
local arguments = require "tide.cli.arguments"
local checkpoint = require "tide.run.checkpoint"
local cluster_view = require "tide.cluster.view"
local errors = require "tide.errors"
local listing = require "tide.show.listing"
local text = require "tide.text"
local units = require "tide.units"

local COLUMNS <const> = {
  {key = "generation"}, {key = "kind"}, {key = "cut"}, {key = "clock"}, {key = "rows", format = "count"},
  {key = "bytes", format = "size"}, {key = "base"}, {key = "nodes"}, {key = "problem"},
}

local actions = {}

local function at_cluster(context, request)
  local result, err = cluster_view.attached(context, function(client) return client.ask_one(request) end)
  if not result then return nil, err.code == "T0501" and err or checkpoint.error(err, request.dir) end
  return result
end

local function absolute(path)
  if path:find "^/" then return path end
  return (os.getenv "PWD" or ".") .. "/" .. path
end

function actions.save(context, dir)
  local info, err = at_cluster(context, {op = "checkpoint", dir = absolute(dir), keep = context.options.keep})
  if not info then return nil, err end
  return context:tell("tide.checkpoint/1", info, ("generation %d: %s rows, %s, %s in %s"):format(info.generation,
    units.format_count(info.rows), units.format_size(info.bytes), info.full and "full" or "changes only",
    units.format_duration(info.took_s)))
end

function actions.list(context, dir)
  local list, err = checkpoint.list(dir)
  if not list then return nil, err end
  for _, g in ipairs(list) do
    g.kind = not g.committed and "unfinished" or g.full and "full" or "changes"
    g.full, g.committed = nil, nil
  end
  listing.print(context, list, COLUMNS, "tide.checkpoint/1")
  return 0
end

function actions.verify(context, dir)
  local checked, err = checkpoint.verify(dir, context.options.generation)
  if not checked then return nil, err end
  return context:tell("tide.checkpoint/1", {dir = dir, whole = checked},
    ("%d generation%s whole"):format(checked, checked == 1 and " is" or "s are"))
end

function actions.restore(context, dir)
  local o <const> = context.options
  local ok, err = context:confirm(("Replace all rows of the cluster by those in `%s`?"):format(text.clean(dir)))
  if not ok then return nil, err end
  local restored, problem = at_cluster(context, {op = "restore", dir = absolute(dir), generation = o.generation})
  if not restored then return nil, problem end
  for line in (restored.skipped or ""):gmatch "[^\n]+" do context:say("warning: " .. text.clean(line)) end
  return context:tell("tide.checkpoint/1", restored, ("restored generation %d: %s rows"):format(restored.generation,
    units.format_count(restored.rows)))
end

return {
  name = "checkpoint",
  brief = "save, list, verify, restore checkpoints",
  summary = "Writes all tables of a running cluster to a directory, shows and checks what is there, or brings it back.",
  examples = {
    {"tide checkpoint save ckpt", "a generation of all tables, while workers continue"},
    {"tide checkpoint list ckpt", "which generations there are"},
    {"tide checkpoint verify ckpt", "checks every block; exit 1 names the damaged one"},
    {"tide checkpoint restore ckpt -y", "the newest generation that is whole"},
  },
  arguments = {
    {name = "action", doc = "save, list, verify or restore"},
    {name = "dir", doc = "the directory of the checkpoints; all nodes must reach it"},
  },
  options = {
    {name = "generation", short = "g", type = "integer", min = 1, doc = "this one (verify, restore)"},
    {name = "keep", type = "integer", min = 2, max = 1000, doc = "generations that stay (save; default 3)"},
    arguments.shared.cluster, arguments.shared.yes, arguments.shared.dry_run,
  },
  run = function(context)
    local o <const> = context.options
    local action <const> = actions[o.action]
    if not action then
      local names <const> = text.sorted_keys(actions)
      return nil, errors.new("T0105", {
        message = ("`%s` is not one of %s"):format(o.action, table.concat(names, ", ")),
        help = text.did_you_mean(o.action, names) or "give one of the four"})
    end
    if o.dry_run and (o.action == "save" or o.action == "restore") then
      return context:tell("tide.checkpoint/1", {action = o.action, dir = o.dir, dry_run = true},
        o.action == "save" and "would write a generation to " .. text.clean(o.dir)
        or "would replace all rows by those in " .. text.clean(o.dir))
    end
    return action(context, o.dir)
  end,
}
