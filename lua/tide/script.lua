-- Loading of scripts, and what a script registers while it loads: its jobs and its main function.
--
-- The same script text is loaded in three roles: "driver" (runs tide.main), "controller" (a run's on_report and stop
-- rule), "worker" (job.worker, job.evaluate) and "actor". No closure travels between them: a job is found by its name.
-- The modules that the script requires travel with it (bundle.lua); text and options are compared by SHA-256, so that
-- all roles run the same.
local core = require "tide.core"
local errors = require "tide.errors"
local script_guard = require "tide.script_guard"

local script = {
  role = nil,        ---@type "driver"|"controller"|"worker"|"actor"|nil what this Lua state is
  path = nil,        ---@type string|nil of the loaded script
  args = {},         ---@type string[] the script's own flags
  jobs = {},         ---@type table<string, table> jobs by name
  actors = {},       ---@type table<string, table> classes of actors by name
  newest = nil,      ---@type table|nil the job registered last
  main = nil,        ---@type function|nil what tide.main was given
  api = {seed = 1},  ---@type table what `require "tide"` gives, once the script has required it
  output = {json = false, plain = false, quiet = false}, ---@type table the command's flags, for scripts that print
  in_main = false,   -- true while tide.main's function runs
  modules = {},      ---@type table<string, {path: string, sha: string, text: string?}> files that the script required
  rules = {},        ---@type table<string, {numbers: table, version: string, path: string}> update rules of modules
  c_modules = {},    ---@type table<string, string> paths of those that are no Lua
}

---A printable error that travels.
---@param code string of the catalogue, "T0202"
---@param message string
---@param fields? table where, node, name, help
---@return tide.error
function script.error(code, message, fields)
  local all = {message = message}
  for k, v in pairs(fields or {}) do all[k] = v end
  return errors.new(code, all)
end

---The script's file (or a module's of it) that a place in an error or trace names; Lua shortens long names.
---@param file string
---@return string|nil path
local function own_file(file)
  local tail = file:match("^%.%.%.(.*)$")
  local function same(path) return path == file or (tail and path:sub(-#tail) == tail) end
  if script.path and same(script.path) then return script.path end
  for _, module in pairs(script.modules) do
    if same(module.path) then return module.path end
  end
  return nil
end

---@return string|nil file:line of the innermost frame that lies in the script
local function place_in(trace)
  for file, line in trace:gmatch("\n%s*([^\n:]+):(%d+):") do
    local path = own_file(file)
    if path then return path .. ":" .. line end
  end
  return nil
end

---Handler for xpcall: makes an error of whatever was raised; its place is the script's line.
---@param raised any
---@return tide.error
function script.failure(raised)
  local trace = debug.traceback("", 2)
  local err = errors.from(raised, "T0202")
  local file, line = (err.where or ""):match("^(.*):(%d+)$")
  if type(raised) ~= "table" and file then
    local path = own_file(file)
    err.where = path and path .. ":" .. line or nil
  end
  -- Errors of the core name the module of ours that called it; the user needs the script's line.
  if err.where and err.where:find("^tide/[%w_/]+%.lua:%d+$") and not own_file(file) then err.where = nil end
  err.where = err.where or place_in(trace)
  err.trace = err.trace or trace
  return err
end

-- Without what Lua's own loader skips in files: a byte-order mark and a first line that begins with #.
local function chunk_of(content, path)
  content = content:gsub("^\xef\xbb\xbf", "")
  content = content:gsub("^#[^\n]*", "")
  return load(content, "@" .. path, "t")
end

---@param name string of a module, on this machine
---@return {path: string, sha: string, text: string}|nil
function script.read_module(name)
  local path <const> = package.searchpath(name, package.path)
  local content <const> = path and core.file_read(path)
  return content and {path = path, sha = core.sha256(content), text = content} or nil
end

-- Behind Tide's own modules: those of the script. The driver reads them from its disk, and remembers them; the other
-- roles have what it sent.
local function search_modules(directory, sent)
  local searchers <const> = package.searchers
  if not sent then
    package.path = ("%s/?.lua;%s/?/init.lua;%s"):format(directory, directory, package.path)
    table.insert(searchers, 3, function(name)
      local module <const> = script.read_module(name)
      if not module then return nil end
      script.modules[name] = module
      return assert(chunk_of(module.text, module.path)), module.path
    end)
    return
  end
  for i = #searchers, 3, -1 do searchers[i] = nil end
  searchers[3] = function(name)
    local module <const> = sent[name]
    if not module or not module.text then
      error(script.error("T0221", ("module `%s` has not come with the script"):format(name), {help =
        "only modules that the script requires by a literal name travel to nodes: add require \"" .. name .. "\""}), 0)
    end
    script.modules[name] = module
    return assert(chunk_of(module.text, module.path)), module.path
  end
end

-- Which modules the script has that do not travel.
local function find_c_modules(before)
  for name in pairs(package.loaded) do
    if not before[name] and not script.modules[name] then
      script.c_modules[name] = package.searchpath(name, package.cpath)
    end
  end
end

---Loads and runs a script's text; afterwards script.jobs and script.main are known.
---@param o {text: string, path: string, args: string[], role: string, modules: table?} modules: that came with it
---@return true|nil, table? err
function script.load(o)
  script.role, script.path, script.args, script.source = o.role, o.path, o.args, o.text
  rawset(_G, "arg", {[0] = o.path, table.unpack(o.args)})
  search_modules(o.path:match("^(.*)/[^/]*$") or ".", o.role ~= "driver" and (o.modules or {}) or nil)
  local chunk, problem = chunk_of(o.text, o.path)
  if not chunk then
    local file, line, rest = problem:match("^(.-):(%d+): (.*)$")
    return nil, script.error("T0201", rest or problem, {where = file and file .. ":" .. line})
  end
  if core.simulated() then script_guard.install() end
  local before = {}
  for name in pairs(package.loaded) do before[name] = true end
  local ok, err = xpcall(chunk, script.failure, table.unpack(o.args))
  if not ok then return nil, err end
  find_c_modules(before)
  for _, job in pairs(script.jobs) do job:remember_upvalues() end
  return true
end

---What identifies "the same script with the same options", besides its text.
---@return string hex
function script.args_sha(args)
  return core.sha256(table.concat(args, "\0"))
end

---Compares files of kernels, which do not travel, with the driver's.
---@param expected table<string, {path: string, sha: string}>
---@return true|nil, table? err T0207 with both hashes
function script.check_modules(expected, node)
  for name, mine in pairs(script.modules) do
    local theirs = expected[name]
    if theirs and theirs.sha ~= mine.sha then
      return nil, script.error("T0207", ("module `%s` differs: the driver loaded %s, this node has %s"):format(
        name, theirs.sha:sub(1, 12), mine.sha:sub(1, 12)), {where = mine.path, node = node})
    end
  end
  return true
end

---Reads a script once: it may be a pipe.
---@param path string
---@return string? source
---@return tide.error? err
function script.read(path)
  local file <close>, why = io.open(path, "rb")
  local source
  if file then source, why = file:read("a") end
  if source then return source end
  return nil, errors.new("T0205", {message = ("cannot read `%s`: %s"):format(path, ((why or ""):gsub("^.*: ", "")))})
end

return script
