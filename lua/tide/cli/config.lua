-- Configuration: flags > TIDE_* environment > ./tide.lua > $XDG_CONFIG_HOME/tide/config.lua > /etc/tide/config.lua.
--
-- A file is Lua that returns a table (lua_data.lua). Unknown keys and wrong values are errors that name the line.

local arguments = require "tide.cli.arguments"
local errors = require "tide.errors"
local lua_data = require "tide.lua_data"
local options = require "tide.options"
local schema = require "tide.cli.schema"
local text = require "tide.text"

local config = {}

local FILE_BYTES_MAX <const> = 64 * 1024

local by_key, keys = {}, {}
for i, setting in ipairs(schema) do
  by_key[setting.key] = setting
  keys[i] = setting.key
end

---@param context tide.context
---@return {path: string, project: boolean}[] files in order of precedence
local function files(context)
  local home <const> = context.getenv "XDG_CONFIG_HOME"
  local user = home and home ~= "" and home or nil
  if not user and context.getenv "HOME" then user = context.getenv "HOME" .. "/.config" end
  local list = {{path = "./tide.lua", project = true}}
  if user then list[#list + 1] = {path = user .. "/tide/config.lua"} end
  list[#list + 1] = {path = "/etc/tide/config.lua"}
  return list
end

local function faulty(where, message, help)
  return errors.new("T0111", {where = where, message = message, help = help})
end

-- Line of a key's assignment, for messages; nil when it is not written plainly.
local function line_of(source, key)
  local number = 0
  for line in (source .. "\n"):gmatch("(.-)\n") do
    number = number + 1
    if line:gsub("%-%-.*", ""):find("%f[%w_]" .. key .. "%f[^%w_]%s*%]?%s*=") then return number end
  end
  return nil
end

local function check(setting, value)
  local numeric <const> = setting.type == "duration" or setting.type == "integer"
  if type(value) ~= "string" and not (numeric and type(value) == "number") then
    return nil, ("a %s is no %s"):format(type(value), setting.type)
  end
  return options.convert(setting.type, tostring(value), setting)
end

local function check_table(file, source, result)
  if type(result) ~= "table" then
    return nil, faulty(file.path, ("returns a %s, not a table"):format(type(result)))
  end
  local found = {}
  for key, value in next, result do
    local line <const> = line_of(source, tostring(key):gsub("%W", "%%%0"))
    local where <const> = file.path .. (line and ":" .. line or "")
    local setting <const> = by_key[key]
    if not setting then
      return nil, faulty(where, ("unknown key `%s`"):format(tostring(key)), text.did_you_mean(key, keys))
    end
    if file.project and not setting.project then
      return nil, faulty(where, ("`%s` cannot be set here"):format(key), "set it in your own configuration file")
    end
    local converted, why = check(setting, value)
    if converted == nil then return nil, faulty(where, ("`%s`: %s"):format(key, why)) end
    if file.project and setting.refused and tostring(converted):find(setting.refused) then
      return nil, faulty(where, ("`%s` = \"%s\": %s"):format(key, converted, setting.refusal),
        "a repository that was cloned must not redirect commands: give it by --cluster")
    end
    found[key] = {value = converted, from = where}
  end
  return found
end

local function read_file(file)
  local handle <const> = io.open(file.path, "r")
  if not handle then return {} end
  local source <const> = handle:read(FILE_BYTES_MAX + 1) or ""
  handle:close()
  if #source > FILE_BYTES_MAX then return nil, faulty(file.path, "it is larger than 64 KiB") end
  local ok <const>, result = lua_data.read(source, file.path)
  if not ok then
    local line, message = result:match(":(%d+): (.*)$")
    return nil, faulty(file.path .. (line and ":" .. line or ""), message or result)
  end
  return check_table(file, source, result)
end

local function from_environment(context, found)
  for _, setting in ipairs(schema) do
    local name <const> = "TIDE_" .. setting.key:upper()
    local given <const> = context.getenv(name)
    if given and given ~= "" then
      local value, why = check(setting, given)
      if value == nil then return nil, faulty("$" .. name, ("%s: %s"):format(name, why)) end
      found[setting.key] = {value = value, from = "$" .. name}
    end
  end
  return true
end

---All settings with their values and where each comes from.
---@param context tide.context
---@return table<string, {value: any, from: string}>? settings
---@return tide.error? err
function config.read(context)
  local found = {}
  local ok, err = from_environment(context, found)
  if not ok then return nil, err end
  for _, file in ipairs(files(context)) do
    local more, problem = read_file(file)
    if not more then return nil, problem end
    for key, entry in pairs(more) do found[key] = found[key] or entry end
  end
  return found
end

---Fills options that were not given from the configuration.
---@param context tide.context
---@param command table
---@param values table<string, any> of the flags; changed
---@return true? filled
---@return tide.error? err
function config.fill(context, command, values)
  local found, err = config.read(context)
  if not found then return nil, err end
  if found.log then context.core.log_format(found.log.value) end -- of children too: they read the same
  context.configured = {}
  for _, option in ipairs(arguments.of(command)) do
    local key <const> = option.name:gsub("-", "_")
    if option.config and values[key] == nil and found[option.config] then
      values[key] = found[option.config].value
      context.configured[key] = true
    end
  end
  return true
end

---@return tide.setting?
function config.setting(key) return by_key[key] end

---@return string[] keys
function config.keys() return keys end

return config
