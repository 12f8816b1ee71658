-- `tide checkpoint`: writes, lists, checks and restores checkpoints of all tables.
local arguments = require "tide.cli.arguments"
local checkpoint = require "tide.run.checkpoint"
local cluster_view = require "tide.cluster.view"
local errors = require "tide.errors"
local listing = require "tide.command.listing"
local text = require "tide.text"
local units = require "tide.units"

local COLUMNS <const> = {
  {key = "generation"}, {key = "kind"}, {key = "cut"}, {key = "clock"}, {key = "rows", format = "count"},
  {key = "bytes", format = "size"}, {key = "base"}, {key = "nodes"}, {key = "problem"},
}

local function at_cluster(context, request)
  local result, err = cluster_view.attached(context, function(client) return client.ask_one(request) end)
  if not result then return nil, err.code == "T0501" and err or checkpoint.error(err, request.dir) end
  return result
end

local function absolute(path)
  if path:find "^/" then return path end
  return (os.getenv "PWD" or ".") .. "/" .. path
end

local function would(context, o, line)
  return context:tell({action = o.verb, dir = o.dir, dry_run = true}, line)
end

local function no_directory() return errors.new("T0708", {message = "the directory of the checkpoints is empty"}) end

local function save(context, o)
  if o.dir == "" then return nil, no_directory() end
  if o.dry_run then return would(context, o, "would write a generation to " .. text.clean(o.dir)) end
  local info, err = at_cluster(context, {op = "checkpoint", dir = absolute(o.dir), keep = o.keep})
  if not info then return nil, err end
  return context:tell(info, ("generation %d: %s rows, %s, %s in %s"):format(info.generation,
    units.format_count(info.rows), units.format_size(info.bytes), info.full and "full" or "changes only",
    units.format_duration(info.took_s)))
end

local function list(context, o)
  local found, err = checkpoint.list(o.dir)
  if not found then return nil, err end
  for _, g in ipairs(found) do
    g.kind = not g.committed and "unfinished" or g.full and "full" or "changes"
    g.full, g.committed = nil, nil
  end
  return listing.print(context, found, COLUMNS)
end

local function verify(context, o)
  local checked, err = checkpoint.verify(o.dir, o.generation)
  if not checked then return nil, err end
  return context:tell({dir = o.dir, whole = checked},
    ("%d generation%s whole"):format(checked, checked == 1 and " is" or "s are"))
end

local function restore(context, o)
  if o.dir == "" then return nil, no_directory() end
  if o.dry_run then return would(context, o, "would replace all rows by those in " .. text.clean(o.dir)) end
  local ok, err = context:confirm(("Replace all rows of the cluster by those in `%s`?"):format(text.clean(o.dir)))
  if not ok then return nil, err end
  local restored, problem = at_cluster(context, {op = "restore", dir = absolute(o.dir), generation = o.generation})
  if not restored then return nil, problem end
  for line in (restored.skipped or ""):gmatch "[^\n]+" do context:say("warning: " .. text.clean(line)) end
  return context:tell(restored, ("restored generation %d: %s rows read"):format(restored.generation,
    units.format_count(restored.rows)))
end

local DIR <const> = {name = "dir", doc = "the directory of the checkpoints; all nodes must reach it"}

return {
  name = "checkpoint",
  brief = "save, list, verify, restore checkpoints",
  summary = "Saves all tables of a running cluster to a directory, lists and verifies generations, or restores one.",
  examples = {
    {"tide checkpoint save ckpt", "a generation of all tables, while workers continue"},
    {"tide checkpoint list ckpt", "which generations there are"},
    {"tide checkpoint verify ckpt", "checks every block; exit 1 names the damaged one"},
    {"tide checkpoint restore ckpt -y", "the newest generation that is whole"},
  },
  verbs = {
    {name = "save", doc = "writes a generation of all tables", arguments = {DIR}, run = save},
    {name = "list", doc = "the generations there are", arguments = {DIR}, run = list},
    {name = "verify", doc = "checks every block", arguments = {DIR}, run = verify},
    {name = "restore", doc = "replaces all rows by those of a generation", arguments = {DIR}, run = restore},
  },
  schema = "tide.checkpoint/1",
  options = {
    {name = "generation", short = "g", type = "integer", min = 1, of = "verify, restore",
     doc = "number of the generation (default: the newest)"},
    {name = "keep", type = "integer", min = 2, max = 1000, of = "save",
     doc = "number of generations to keep (default 3)"},
    arguments.shared.cluster, arguments.shared.yes, arguments.shared.dry_run,
  },
}
