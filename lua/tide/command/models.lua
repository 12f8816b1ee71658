-- `tide models VERB`: the registry of models of a directory.
local arguments = require "tide.cli.arguments"
local errors = require "tide.errors"
local history = require "tide.run.history"
local listing = require "tide.command.listing"
local models = require "tide.run.models"
local text = require "tide.text"
local units = require "tide.units"

local COLUMNS <const> = {
  {key = "name", title = "model"}, {key = "version"}, {key = "bytes", title = "size", format = "size"}, {key = "loss"},
  {key = "run"}, {key = "params_text", title = "params"}, {key = "added"}, {key = "added_by", title = "person"},
  {key = "note"},
}

local function list(context)
  local rows <const> = models.list()
  for _, row in ipairs(rows) do
    for key, value in pairs(type(row.params) == "table" and row.params or {}) do
      if row[key] == nil and type(value) ~= "table" then row[key] = value end -- for --where and --sort
    end
    row.params_text, row.params = text.assignments(row.params), nil
    row.added = os.date("%F %T", (row.added_at or 0) // 1 | 0)
  end
  if #rows == 0 then context:say("no models are kept in " .. models.ROOT) end
  return listing.print(context, rows, COLUMNS)
end

local function show(context, o)
  local model <const>, err = models.find(o.model)
  if not model then return nil, err end
  if context.json then
    context:record(model)
    return 0
  end
  context:field("model", ("%s@%d"):format(model.name, model.version))
  context:field("file", model.path)
  context:field("size", units.format_size(model.bytes))
  context:field("sha256", model.sha256)
  context:field("run", model.job and ("%s (job %s)"):format(model.run, model.job) or model.run)
  context:field("script", model.script)
  context:field("params", text.assignments(model.params))
  context:field("loss", model.loss)
  context:field("added", ("%s by %s"):format(os.date("%F %T", (model.added_at or 0) // 1 | 0), model.added_by or "?"))
  context:field("note", model.note)
  return 0
end

local function add(context, o)
  local run <const>, err = history.find(o.run)
  if not run then return nil, err end
  local model <const>, problem = models.add(o.name, run, o.artifact, {note = o.note})
  if not model then return nil, problem end
  return context:tell(model, ("%s@%d: %s of run %s, %s"):format(model.name, model.version, text.clean(model.file),
    model.run, units.format_size(model.bytes)))
end

local function fetch(context, o)
  local model <const>, err = models.find(o.model)
  if not model then return nil, err end
  local to <const> = o.to or model.file
  local ok <const>, problem = models.fetch(model, to)
  if not ok then return nil, problem end
  return context:tell({name = model.name, version = model.version, path = to, sha256 = model.sha256},
    ("%s: %s@%d, sha256 %s"):format(text.clean(to), model.name, model.version, model.sha256))
end

local function remove(context, o)
  if not o.model:find "@%d+$" then
    return nil, errors.new("T0105", {message = "`tide models remove` requires a version", help = "tide models remove "
      .. text.clean(o.model) .. "@1"})
  end
  local model <const>, err = models.find(o.model)
  if not model then return nil, err end
  local yes <const>, refused = context:confirm(("Remove %s@%d?"):format(model.name, model.version))
  if not yes then return nil, refused end
  local ok <const>, problem = models.remove(model)
  if not ok then return nil, problem end
  return context:tell({name = model.name, version = model.version}, ("%s@%d is removed"):format(model.name,
    model.version))
end

local MODEL <const> = {name = "model", doc = "NAME, its newest version, or NAME@VERSION"}

return {
  name = "models",
  brief = "a registry of models: which run and params each comes from",
  summary = "Keeps models by name and version in .tide/models: copies of files that runs kept (w:artifact), with the "
    .. "run, its params and the SHA-256 of the file.",
  examples = {
    {"tide models add ranker mf-3 model.npy --note 'after tuning'", "ranker@1, or the next version"},
    {"tide models list --where 'loss < 0.9' --sort loss", "by what their runs came to"},
    {"tide models show ranker@1", "run, params, sum, path"},
    {"tide models fetch ranker --to ranker.npy", "a copy, whose sum is checked"},
  },
  verbs = {
    {name = "list", doc = "all of them", run = list},
    {name = "add", doc = "a version: a file that a run of this directory keeps", run = add,
     arguments = {{name = "name", doc = "of the model"}, {name = "run", doc = "as `tide runs` names it"},
       {name = "artifact", doc = "the name of the file"}}},
    {name = "show", doc = "where one comes from", arguments = {MODEL}, run = show},
    {name = "fetch", doc = "a copy, whose sum is checked", arguments = {MODEL}, run = fetch},
    {name = "remove", doc = "one version", arguments = {{name = "model", doc = "NAME@VERSION"}}, run = remove},
  },
  verb = "list",
  schema = "tide.model/1",
  options = {
    {name = "where", of = "list", type = "string", value = "EXPR",
     doc = "only models for which a Lua expression holds"},
    {name = "sort", of = "list", type = "string", value = "FIELD", doc = "order by a field, also a param"},
    {name = "reverse", of = "list", doc = "turn the order of --sort round"},
    {name = "note", of = "add", type = "string", value = "TEXT", doc = "kept with the version"},
    {name = "to", of = "fetch", type = "string", value = "PATH",
     doc = "where the copy goes (default: its name, here)"},
    arguments.shared.yes,
  },
}
