-- A registry of models: files that runs kept, by name and version, each with the run, params and sum that it comes
-- from.
--
-- .tide/models/NAME/VERSION/ has the file and model.json. A version is a number, given in order and never again while a
-- later one is there. The file is a copy, so a model outlives the directory of its run.
local checks = require "tide.checks"
local artifacts = require "tide.run.artifacts"
local core = require "tide.core"
local errors = require "tide.errors"
local gc = require "tide.run.gc"

local models = {}

models.ROOT = ".tide/models" ---@type string

local SCHEMA <const> = "tide.model/1"

---@class tide.model
---@field name string
---@field version integer
---@field file string name of the file in its directory
---@field path string
---@field bytes integer
---@field sha256 string
---@field run string id of the run
---@field job? string
---@field script? string
---@field params? table
---@field loss? number of the run's last report
---@field added_at number seconds since 1970
---@field added_by string
---@field note? string

local RECORD <const> = {
  bytes = "number", sha256 = "string", run = "string", job = "string", script = "string", params = "table",
  loss = "number", added_at = "time", added_by = "string", note = "string",
}

local function record_of(root, name, version)
  local directory <const> = ("%s/%s/%d"):format(root, name, version)
  local record <const> = core.json_decode(core.file_read(directory .. "/model.json") or "null")
  if type(record) ~= "table" or record.schema ~= SCHEMA or not artifacts.check_name(record.file)
    or checks.odd_field(record, RECORD) then
    return nil
  end
  record.name, record.version, record.path = name, version, directory .. "/" .. record.file
  return record
end

-- Numbers of the versions that are there, ascending; also of those whose record cannot be read.
local function versions_of(root, name)
  local list = {}
  for _, each in ipairs(core.file_list(root .. "/" .. name) or {}) do
    local version <const> = each:find "^%d+$" and math.tointeger(tonumber(each))
    if version then list[#list + 1] = version end
  end
  table.sort(list)
  return list
end

---@param root? string
---@return tide.model[] by name and version
function models.list(root)
  root = root or models.ROOT
  local list <const>, names <const> = {}, core.file_list(root) or {}
  table.sort(names)
  for _, name in ipairs(names) do
    for _, version in ipairs(artifacts.check_name(name) and versions_of(root, name) or {}) do
      list[#list + 1] = record_of(root, name, version)
    end
  end
  return list
end

---@param wanted string "NAME", its newest version, or "NAME@VERSION"
---@param root? string
---@return tide.model|nil, tide.error? err T0401
function models.find(wanted, root)
  root = root or models.ROOT
  local name <const>, version = wanted:match "^(.-)@(%d+)$"
  local called <const> = name or wanted
  local known <const> = artifacts.check_name(called) and versions_of(root, called) or {}
  version = version and math.tointeger(tonumber(version)) or known[#known]
  local record <const> = version and artifacts.check_name(called) and record_of(root, called, version)
  if record then return record end
  local names = {}
  for _, model in ipairs(models.list(root)) do names[model.name] = true end
  return nil, checks.unknown("T0401", "there is no model `%s` in " .. root, wanted, names, "`tide models` lists them")
end

-- A reader for artifacts.fetch.
local function reader(path)
  return function(at)
    local file <close>, why <const> = io.open(path, "rb")
    if not file then return nil, errors.new("T0403", {message = tostring(why)}) end
    file:seek("set", at)
    return file:read(artifacts.PART_BYTES)
  end
end

---Adds a version: an artifact of a run that is kept in this directory.
---@param name string
---@param run tide.past_run
---@param artifact string
---@param o? {note?: string, root?: string}
---@return tide.model|nil, tide.error? err
function models.add(name, run, artifact, o)
  o = o or {}
  local root <const> = o.root or models.ROOT
  local ok, err = artifacts.check_name(name)
  if not ok then return nil, err end
  local entry
  entry, err = artifacts.find(run.directory, artifact)
  if not entry then return nil, err end
  local known <const> = versions_of(root, name)
  local version <const> = (known[#known] or 0) + 1
  local directory <const> = ("%s/%s/%d"):format(root, name, version)
  ok, err = core.mkdir(directory)
  if ok then
    ok, err = artifacts.fetch(entry, directory .. "/" .. artifact, reader(artifacts.path(run.directory, artifact)))
  end
  if ok then
    ok, err = core.file_write(directory .. "/model.json", core.json_encode {schema = SCHEMA, file = artifact,
      bytes = entry.bytes, sha256 = entry.sha256, run = run.id, job = run.job, script = run.script, params = run.params,
      loss = run.loss, added_at = core.wall(), added_by = core.person(), note = o.note} .. "\n")
  end
  if ok then return record_of(root, name, version) end
  gc.remove(directory)
  return nil, errors.from(err, "T0403")
end

---Writes a copy, whose sum is checked.
---@param model tide.model
---@param path string
---@return true|nil, tide.error? err
function models.fetch(model, path)
  return artifacts.fetch({name = model.file, bytes = model.bytes, sha256 = model.sha256}, path, reader(model.path))
end

---@param model tide.model
---@return true|nil, tide.error? err
function models.remove(model)
  return gc.remove((model.path:gsub("/[^/]*$", "")))
end

return models
