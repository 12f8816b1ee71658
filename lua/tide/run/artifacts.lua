-- Files that a run keeps: `w:artifact(name, value)` of a worker, `run:artifact(name, value)` of the script. They lie
-- in the run's directory, artifacts/NAME, on the machine of the run's controller; artifacts.jsonl has a line for each:
-- name, bytes, SHA-256, time, rank, node. A name that is kept again replaces the file of before.
--
-- A file comes in parts into a file beside, and gets its name when it is whole and its sum is right. A full disk or a
-- sender that dies in between changes nothing of what is there. How many bytes a run keeps is limited.
local arrays = require "tide.array_files"
local checks = require "tide.checks"
local core = require "tide.core"
local errors = require "tide.errors"
local json = require "tide.json"
local text = require "tide.text"
local units = require "tide.units"

local artifacts = {PART_BYTES = 256 << 10}

local INDEX <const>, FOLDER <const>, COMING <const> = "artifacts.jsonl", "artifacts", ".coming-"
local NAME_BYTES <const> = 128
local ENOSPC <const> = 28

---@class tide.artifact
---@field name string
---@field bytes integer
---@field sha256 string
---@field time number seconds since 1970
---@field rank? integer of the worker that gave it
---@field node? string

local ENTRY <const> = {sha256 = "string", time = "time", rank = "number", node = "string"}

local function refuse(message, o)
  o = o or {}
  o.message, o.state = message, "nothing was kept"
  return nil, errors.new(o.code or "T0113", o)
end

---@param name any
---@return true|nil, table? err T0113
function artifacts.check_name(name)
  if type(name) == "string" and #name <= NAME_BYTES and name:find "^[%w_][%w_.-]*$" then return true end
  return refuse(("an artifact is not named %s"):format(type(name) == "string" and "`" .. text.clean(name:sub(1, 80))
    .. "`" or "by a " .. type(name)), {help = ("a name has at most %d letters, digits and . _ -, and begins with none "
    .. "of . -"):format(NAME_BYTES)})
end

local function file_error(path, why, number)
  return refuse(("%s: %s"):format(path, tostring(why):gsub("^.*: ", "")), {code = "T0403",
    name = number == ENOSPC and "ENOSPC" or nil,
    help = number == ENOSPC and "free the disk, for instance by `tide runs gc --older 30d`" or nil})
end

---- what is there ---------------------------------------------------------------------------------------------------

---The artifacts of a run, by name. Lines of files that are gone are left out, and so are those that were cut off.
---@param directory string of the run
---@return tide.artifact[]
function artifacts.list(directory)
  local by_name = {}
  local file <close> = io.open(directory .. "/" .. INDEX, "rb")
  for _, entry in ipairs(json.lines(file and file:read "a")) do
    if artifacts.check_name(entry.name) and math.type(entry.bytes) == "integer"
      and not checks.odd_field(entry, ENTRY) then
      by_name[entry.name] = entry
    end
  end
  local list = {}
  for _, name in ipairs(text.sorted_keys(by_name)) do
    local there <close> = io.open(artifacts.path(directory, name), "rb")
    if there then list[#list + 1] = by_name[name] end
  end
  return list
end

---@param directory string of the run
---@param name string that check_name accepts
---@return string
function artifacts.path(directory, name) return ("%s/%s/%s"):format(directory, FOLDER, name) end

---@param directory string of the run
---@param name string
---@return tide.artifact|nil, table? err T0401
function artifacts.find(directory, name)
  local names = {}
  for i, entry in ipairs(artifacts.list(directory)) do
    if entry.name == name then return entry end
    names[i] = entry.name
  end
  return nil, checks.unknown("T0401", "the run has no artifact `%s`", name, names,
    #names == 0 and "w:artifact(NAME, VALUE) keeps one" or nil)
end

---Some of an artifact.
---@param directory string
---@param name string
---@param at integer
---@return {text: string, size: integer}|nil, table? err
function artifacts.part(directory, name, at)
  local entry <const>, err = artifacts.find(directory, name)
  if not entry then return nil, err end
  local file <close> = io.open(artifacts.path(directory, name), "rb")
  if not file then return refuse("it is gone: " .. name, {code = "T0403"}) end
  file:seek("set", at)
  return {text = file:read(artifacts.PART_BYTES) or "", size = file:seek "end"}
end

---- keeping one -----------------------------------------------------------------------------------------------------

---@class tide.artifact.coming
local coming = {}
coming.__index = coming

local numbers = 0

-- Why a run does not keep so much more.
local function over_limit(directory, name, bytes)
  local sum, count <const> = 0, {}
  for _, entry in ipairs(artifacts.list(directory)) do
    if entry.name ~= name then sum, count[#count + 1] = sum + entry.bytes, true end
  end
  local most <const>, most_count <const> = core.limit "run_artifact_bytes", core.limit "run_artifacts"
  if sum + bytes > most then
    return ("artifact `%s` has %s, the run keeps %s and may keep %s"):format(name, units.format_size(bytes),
      units.format_size(sum), units.format_size(most)), "set more: --limit run_artifact_bytes=8GiB"
  elseif #count >= most_count then
    return ("the run keeps %d artifacts, and may keep no more"):format(#count), "--limit run_artifacts=N"
  end
end

---Begins to keep one. `directory` nil: in the simulator nothing is kept.
---@param directory string|nil
---@param o {name: string, bytes: integer, sha256: string, rank?: integer, node?: string}
---@return tide.artifact.coming|nil, table? err
function artifacts.begin(directory, o)
  local named <const>, err = artifacts.check_name(o.name)
  if not named then return nil, err end
  local entry <const> = {name = o.name, bytes = o.bytes, sha256 = o.sha256, rank = o.rank, node = o.node}
  numbers = numbers + 1
  local self <const> = setmetatable({entry = entry, got = 0, sum = core.sha256_sum(), directory = directory}, coming)
  if not directory then return self end
  local much <const>, help = over_limit(directory, o.name, o.bytes)
  if much then return refuse(much, {code = "T0603", help = help}) end
  local made <const>, why = core.mkdir(directory .. "/" .. FOLDER)
  if not made then return nil, errors.from(why, "T0403") end
  self.coming = artifacts.path(directory, COMING .. numbers)
  local file <const>, problem, number = io.open(self.coming, "wb")
  if not file then return file_error(self.coming, problem, number) end
  self.file = file
  return self
end

---@param part string
---@return true|nil, table? err after which nothing of it stays
function coming:add(part)
  self.got = self.got + #part
  self.sum:add(part)
  if not self.file then return true end
  local ok <const>, why, number = self.file:write(part)
  if ok then return true end
  self:drop()
  return file_error(artifacts.path(self.directory, self.entry.name), why, number)
end

---It is whole.
---@return tide.artifact|nil, table? err after which nothing of it stays
function coming:finish()
  local entry <const> = self.entry
  if self.got ~= entry.bytes or self.sum:hex() ~= entry.sha256 then
    self:drop()
    return refuse(("artifact `%s` changed while it was kept"):format(entry.name),
      {help = "keep it when it is written completely"})
  end
  entry.time = core.wall()
  if not self.file then return entry end
  local ok, why, number = self.file:flush()
  if ok then ok, why, number = self.file:close() end
  self.file = ok and self.file or nil
  local path <const> = artifacts.path(self.directory, entry.name)
  if ok then ok, why, number = os.rename(self.coming, path) end
  if ok then
    local index <close>, problem <const>, code <const> = io.open(self.directory .. "/" .. INDEX, "ab")
    ok, why, number = index, problem, code
    if ok then ok, why, number = index:write(core.json_encode(entry), "\n") end
    if ok then ok, why, number = index:flush() end
  end
  self.file = nil
  if ok then return entry end
  os.remove(self.coming)
  return file_error(path, why, number)
end

---Nothing of it stays.
function coming:drop()
  if not self.file then return end
  self.file:close()
  self.file = nil
  os.remove(self.coming)
end

---- the sender ------------------------------------------------------------------------------------------------------

-- Where the bytes of a value are: a path, or the bytes themselves, of tensors in the format that the name ends in.
-- array_files writes files alone, which lie on the node's disk in the simulator: core reads them back.
local function source_of(name, value)
  if type(value) == "string" then return {path = value} end
  local format <const> = arrays.format_of(name)
  if not format then
    return refuse(("`%s` does not say in which format a tensor is kept"):format(name),
      {help = "end the name in .npy, .npz, .safetensors or .csv"})
  end
  local base <const> = os.tmpname()
  local path <const> = ("%s.%s"):format(base, name:match "%.(%w+%.gz)$" or format)
  local ok, written, err = pcall(arrays.write, path, value)
  os.remove(base)
  local content, why
  if ok and written then content, why = core.file_read(path) end
  core.file_remove(path)
  if content then return {content = content} end
  if why then return nil, errors.from(why, "T0403") end
  return nil, errors.from(ok and err or written, "T0113")
end

local function each_part(source, f)
  local content <const>, path <const> = source.content, source.path
  if content then
    local ok, err = true, nil
    for at = 1, #content, artifacts.PART_BYTES do
      if ok then ok, err = f(content:sub(at, at + artifacts.PART_BYTES - 1)) end
    end
    return ok, err
  end
  local file <close>, why <const>, number <const> = io.open(path, "rb")
  if not file then return file_error(path, why, number) end
  while true do
    local part <const>, problem <const>, code <const> = file:read(artifacts.PART_BYTES)
    if not part then
      if problem then return file_error(path, problem, code) end
      return true
    end
    local ok <const>, err = f(part)
    if not ok then return nil, err end
  end
end

---Keeps a value: `store` begins with name, size and sum, then takes the parts, and finishes.
---@param name string
---@param value any a path, a tensor, or tensors by name
---@param store {begin: (fun(o: table): true?, table?), add: (fun(part: string): true?, table?),
---  finish: (fun(): table?, table?)}
---@return tide.artifact|nil, table? err
function artifacts.send(name, value, store)
  local ok, err = artifacts.check_name(name)
  if not ok then return nil, err end
  local source <const>, problem <const> = source_of(name, value)
  if not source then return nil, problem end
  local sum <const>, bytes = core.sha256_sum(), 0
  local entry
  ok, err = each_part(source, function(part)
    bytes = bytes + #part
    sum:add(part)
    return true
  end)
  if ok then ok, err = store.begin {name = name, bytes = bytes, sha256 = sum:hex()} end
  if ok then ok, err = each_part(source, store.add) end
  if ok then entry, err = store.finish() end
  return entry, err
end

---Keeps a value in a directory of this machine.
---@param directory string|nil
---@param name string
---@param value any
---@return tide.artifact|nil, table? err
function artifacts.keep(directory, name, value)
  local one
  return artifacts.send(name, value, {
    begin = function(o)
      local err
      one, err = artifacts.begin(directory, o)
      return one and true, err
    end,
    add = function(part) return one:add(part) end,
    finish = function() return one:finish() end,
  })
end

---Writes a copy, as a whole or not at all.
---@param entry tide.artifact
---@param path string
---@param read fun(at: integer): string?, table?
---@return true|nil, table? err
function artifacts.fetch(entry, path, read)
  local beside <const> = path .. ".part"
  local file, why, number = io.open(beside, "wb")
  if not file then return file_error(path, why, number) end
  local sum <const>, at, err = core.sha256_sum(), 0, nil
  while at < entry.bytes do
    local part
    part, err = read(at)
    if not part or part == "" then break end
    sum:add(part)
    at = at + #part
    local ok
    ok, why, number = file:write(part)
    if not ok then
      file:close()
      os.remove(beside)
      return file_error(path, why, number)
    end
  end
  local closed
  closed, why, number = file:close()
  if closed and at == entry.bytes and sum:hex() == entry.sha256 then
    closed, why, number = os.rename(beside, path)
    if closed then return true end
  end
  os.remove(beside)
  if not closed then return file_error(path, why, number) end
  return nil, err or errors.new("T0403", {message = ("artifact `%s` is not what was kept: its sum differs"):format(
    entry.name), state = "nothing was written"})
end

---- the run's controller --------------------------------------------------------------------------------------------

artifacts.methods, artifacts.from_driver = {}, {}
local from_driver <const> = artifacts.from_driver

local COMING_MOST <const> = 64 -- at a time; of more the oldest is dropped, whose sender is gone

---From a worker: {name, bytes, sha256, rank, node} -> {id}.
from_driver["artifact.begin"] = function(self, request)
  local one <const>, err = artifacts.begin(not core.simulated() and self.a.directory or nil, request)
  if not one then return nil, err end
  self.coming, self.coming_last = self.coming or {}, (self.coming_last or 0) + 1
  local oldest <const> = self.coming[self.coming_last - COMING_MOST]
  if oldest then oldest:drop() end
  self.coming[self.coming_last - COMING_MOST], self.coming[self.coming_last] = nil, one
  return {id = self.coming_last}
end

local function coming_of(self, id)
  local one <const> = (self.coming or {})[id]
  if one then return one end
  return nil, errors.new("T0603", {message = "this artifact was dropped: too many come at once"})
end

---{id, text}
from_driver["artifact.add"] = function(self, request)
  local one <const>, err = coming_of(self, request.id)
  if not one then return nil, err end
  local ok <const>, problem = one:add(request.text)
  if not ok then self.coming[request.id] = nil end
  return ok and {} or nil, problem
end

---{id} -> {artifact}
from_driver["artifact.end"] = function(self, request)
  local one <const>, err = coming_of(self, request.id)
  if not one then return nil, err end
  self.coming[request.id] = nil
  local entry <const>, problem = one:finish()
  return entry and {artifact = entry}, problem
end

---{} -> {artifacts}
function from_driver.artifacts(self) return {artifacts = artifacts.list(self.a.directory or "?")} end

---{name, at} -> {text, size}
from_driver["artifact.part"] = function(self, request)
  return artifacts.part(self.a.directory or "?", request.name, request.at)
end

---How a worker keeps a value.
---@param controller string address
---@param by {rank: integer, node: string}
---@param name string
---@param value any
---@return tide.artifact|nil, table? err
function artifacts.keep_by(controller, by, name, value)
  local id
  return artifacts.send(name, value, {
    begin = function(o)
      local answer <const>, err = core.call(controller, {op = "artifact.begin", name = o.name, bytes = o.bytes,
        sha256 = o.sha256, rank = by.rank, node = by.node})
      id = answer and answer.id
      return answer and true, err
    end,
    add = function(part)
      local answer <const>, err = core.call(controller, {op = "artifact.add", id = id, text = part})
      return answer and true, err
    end,
    finish = function()
      local answer <const>, err = core.call(controller, {op = "artifact.end", id = id})
      return answer and answer.artifact, err
    end,
  })
end

return artifacts
