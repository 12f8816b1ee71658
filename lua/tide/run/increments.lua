-- Increments over links, the publisher: the generations of a run's checkpoint, for readers on other machines.
--
-- The run's controller answers three requests of a follower (tide.run.follower): which generation is the newest
-- (`published`), which files of one table a generation has (`published.files`), and a part of a file
-- (`published.part`). A table that is closed to clients is not published.
local core = require "tide.core"
local errors = require "tide.errors"
local script = require "tide.script"
local text = require "tide.text"

local increments = {PART_BYTES = 256 << 10, MANIFEST = "MANIFEST.json", methods = {}, from_driver = {}}

---@param dir string
---@param number integer
---@return string
function increments.path(dir, number) return ("%s/%06d"):format(dir, number) end

local CLIENTS_NONE <const> = 2 -- as the option `clients` is numbered in a manifest

local function refuse(message, code) return nil, errors.new(code or "T0702", {message = message}) end

---Numbers of the finished generations of a directory, descending.
---@param dir string
---@return integer[]
function increments.generations(dir)
  local list = {}
  for _, name in ipairs(core.file_list(dir) or {}) do
    local whole <close> = name:find "^%d%d%d%d%d%d+$"
      and io.open(("%s/%s/%s"):format(dir, name, increments.MANIFEST), "rb") or nil
    if whole then list[#list + 1] = math.tointeger(tonumber(name)) end
  end
  table.sort(list, function(a, b) return a > b end)
  return list
end

local function manifest_of(dir, number)
  local content <const> = core.file_read(increments.path(dir, number) .. "/" .. increments.MANIFEST)
  local whole <const> = content and core.json_decode(content)
  local manifest <const> = type(whole) == "table" and whole.manifest
  if type(manifest) ~= "table" then return refuse(("generation %d of `%s` is not there"):format(number, dir)) end
  return manifest, content
end

-- The part of one table: by its name, or by that without the run's.
local function part_of(manifest, name)
  for _, t in ipairs(manifest.tables) do
    if t.name == name or t.name:match "^[^.]*%.(.*)$" == name then
      if t.options.clients == CLIENTS_NONE then
        return refuse(("table `%s` is closed to clients (clients = \"none\")"):format(text.clean(t.name)), "T0801")
      end
      return t
    end
  end
  return refuse(("generation %d has no table `%s`"):format(manifest.generation, text.clean(name)), "T0401")
end

---- the publisher ---------------------------------------------------------------------------------------------------

---@param dir string of the checkpoint
---@param name string of the table
---@return {table: string, generation: integer, id: string, age_s: number, chain: integer[]}|nil, tide.error? err
function increments.newest(dir, name)
  local number <const> = increments.generations(dir)[1]
  if not number then return refuse(("there is no finished checkpoint in `%s` yet"):format(dir)) end
  local manifest <const>, err = manifest_of(dir, number)
  if not manifest then return nil, err end
  local part <const>, problem = part_of(manifest, name)
  if not part then return nil, problem end
  return {table = part.name, generation = number, id = manifest.id, chain = manifest.chain,
          age_s = math.max(0, core.wall() - manifest.cut_wall_ns / 1e9)}
end

---@return {manifest: string, files: {name: string, size: integer}[]}|nil, tide.error? err
function increments.files(dir, name, number)
  local manifest <const>, content = manifest_of(dir, number)
  if not manifest then return nil, content end
  local part <const>, err = part_of(manifest, name)
  if not part and err.code ~= "T0401" then return nil, err end -- else the table was made after this generation
  local files = {}
  for _, f in ipairs(part and part.files or {}) do
    files[#files + 1] = {name = f.name .. ".crc", size = f.sums_size}
    files[#files + 1] = {name = f.name, size = f.size}
  end
  return {manifest = content, files = files}
end

---@return {text: string}|nil, tide.error? err
function increments.part(dir, name, number, file_name, at)
  local known <const>, err = increments.files(dir, name, number)
  if not known then return nil, err end
  for _, f in ipairs(known.files) do
    local file <close> = f.name == file_name and io.open(increments.path(dir, number) .. "/" .. file_name, "rb") or nil
    if file then
      file:seek("set", at)
      return {text = file:read(increments.PART_BYTES) or ""}
    end
  end
  return refuse(("generation %d has no file `%s`"):format(number, text.clean(file_name)))
end

-- Of a run's controller: {table, generation, file, at}.
local function of_run(answer)
  return function(self, request)
    local checkpoint <const> = self.job and self.job.checkpoint
    if not checkpoint then
      return nil, script.error("T0702", "the run publishes nothing: its job has no field `checkpoint`")
    end
    return answer(checkpoint.dir, request.table, request.generation, request.file, request.at)
  end
end

increments.from_driver.published = of_run(increments.newest)
increments.from_driver["published.files"] = of_run(increments.files)
increments.from_driver["published.part"] = of_run(increments.part)

return increments
