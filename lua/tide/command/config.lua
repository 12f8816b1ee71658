-- `tide config`: what is configured, and where each value comes from.
local checks = require "tide.checks"
local config = require "tide.cli.config"
local listing = require "tide.command.listing"
local table_view = require "tide.show.table_view"
local text = require "tide.text"

local COLUMNS <const> = {
  {key = "key"}, {key = "value", right = false}, {key = "from"}, {key = "default", right = false}, {key = "doc"},
}

local function record(key, found)
  local setting <const> = config.setting(key)
  local entry <const> = found[key]
  local value = setting.default
  if entry then value = entry.value end
  return {
    key = key, value = value, from = entry and entry.from or "default",
    default = setting.default, type = setting.type, doc = setting.doc,
  }
end

local function explain(context, key, found)
  if not config.setting(key) then
    return nil, checks.unknown("T0111", "unknown key `%s`", key, config.keys())
  end
  local one <const> = record(key, found)
  if context.json then
    context:record(one)
  elseif context.plain then
    context:print(table_view.plain_lines({one}, COLUMNS)[1])
  else
    local default <const> = one.default == nil and "" or ("; default %s"):format(tostring(one.default))
    context:print(("%s = %s"):format(key, one.value == nil and "(not set)" or text.clean(tostring(one.value))))
    context:print(("  from %s; type %s%s"):format(text.clean(one.from), one.type, default))
    context:print("  " .. one.doc)
  end
  return 0
end

return {
  name = "config",
  brief = "what is configured and where it comes from",
  summary = "Shows the settings of configuration files and environment, and where each value comes from.",
  examples = {
    {"tide config", "all settings"},
    {"tide config --explain nodes", "one of them"},
    {"TIDE_NODES=4 tide config --json", "as JSON lines"},
  },
  options = {{name = "explain", type = "string", value = "NAME", doc = "only this setting, with its meaning"}},
  notes = {
    "Flags go before TIDE_<NAME> of the environment, then ./tide.lua, then $XDG_CONFIG_HOME/tide/config.lua "
      .. "(~/.config without it), then /etc/tide/config.lua. A file is Lua that returns a table: "
      .. "return {nodes = 4, timeout = \"10m\"}",
  },
  configured = false,
  schema = "tide.config/1",
  run = function(context)
    local found, err = config.read(context)
    if not found then return nil, err end
    if context.options.explain then return explain(context, context.options.explain, found) end
    local rows = {}
    for i, key in ipairs(config.keys()) do rows[i] = record(key, found) end
    return listing.print(context, rows, COLUMNS)
  end,
}
