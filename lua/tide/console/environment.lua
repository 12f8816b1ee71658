-- The globals at the prompt: the calls of tide.console.calls, the tables, this node, and what scripts know as `tide`.
local ask_all = require "tide.ask_all"
local calls = require "tide.console.calls"
local checks = require "tide.checks"
local core = require "tide.core"
local errors = require "tide.errors"
local policy = require "tide.console.policy"
local console_rows = require "tide.console.rows"
local table_names = require "tide.cluster.table_names"
local text = require "tide.text"
local units = require "tide.units"

local environment = {}

local ASK_S <const> = 5

-- What all nodes say of a table; rows stay where they are.
local function parts_of(name)
  local nodes, agents, parts = {}, {}, {}
  for _, member in ipairs(core.members()) do
    local agent <const> = member.state == "up" and member.store and core.whereis(member.name .. "/agent")
    if agent then nodes[#nodes + 1], agents[#agents + 1] = member.name, agent end
  end
  for i, answer in pairs((ask_all(agents, {op = "status"}, {timeout_s = ASK_S}))) do
    local stats <const> = answer.tables and answer.tables[name]
    if stats then parts[#parts + 1] = {node = nodes[i], stats = stats} end
  end
  table.sort(parts, function(a, b) return a.node < b.node end)
  return parts
end

local function keys_text(keys)
  if type(keys) ~= "table" then return "" end
  local count = keys.n or keys.count or keys[2]
  return type(count) == "number" and ("%s keys"):format(units.format_count(count)) or "hashed"
end

local function spec_text(handle)
  local ok, spec = pcall(function() return handle.spec end)
  if not ok or type(spec) ~= "table" then return "" end
  local words = {}
  for _, key in ipairs {"technique", "slots", "wire"} do
    if type(spec[key]) == "string" then words[#words + 1] = spec[key] end
  end
  local update = type(spec.update) == "table" and spec.update[1] or spec.update
  if type(update) == "string" then table.insert(words, 1, "update " .. update) end
  local keys <const> = keys_text(spec.keys)
  if keys ~= "" then table.insert(words, 1, keys) end
  return "  " .. table.concat(words, "  ")
end

---A table's handle as text: its shape and what each node has of it. Anything else: nil.
---@param value any
---@return string?
function environment.describe(value)
  local name = tostring(value):match "^table ([%w._-]+) %("
  if not name then return nil end
  local rows, bytes, near, all, owned = 0, 0, 0, 0, {}
  for _, part in ipairs(parts_of(name)) do
    local s <const> = part.stats
    rows, bytes = rows + (s.rows or 0), bytes + (s.memory_bytes or 0)
    near = near + (s.pulls_local or 0) + (s.pushes_local or 0)
    all = all + (s.pulls_local or 0) + (s.pushes_local or 0) + (s.pulls_remote or 0) + (s.pushes_remote or 0)
    owned[#owned + 1] = ("%s %d"):format(text.clean(part.node), s.rows or 0)
  end
  return ("table %s  width %d%s\n%d rows stored, %s; %s%s"):format(name, value.width, spec_text(value), rows,
    units.format_size(bytes), table.concat(owned, ", "),
    all > 0 and ("; local %.1f %%"):format(100 * near / all) or "")
end

local function tables_shown()
  local list = {}
  for _, entry in ipairs(core.tables() or {}) do list[#list + 1] = entry.name end
  table.sort(list)
  if #list == 0 then return "no tables" end
  return "tables " .. text.clean(table.concat(list, ", ")) .. "; tables.NAME for one"
end

local function tables_at_prompt()
  return setmetatable({}, {
    __index = function(_, name)
      local handle, err, known = table_names.find(tostring(name))
      if not handle then
        local problem <const> = checks.unknown("T0401", "no table `%s`", name, known)
        problem.cause = err and errors.from(err)
        error(problem, 2)
      end
      return handle
    end,
    __console = tables_shown,
  })
end

---Puts the prompt's names into a table of globals.
---@param globals table
---@param session table
function environment.install(globals, session)
  calls._use(session)
  policy._use(session)
  for name, f in pairs(console_rows.bound("", calls)) do globals[name] = f end
  globals.tide, globals.core = require "tide", core
  globals.node = core.node()
  globals.tables = tables_at_prompt()
  globals.policy = console_rows.bound("policy.", policy)
  globals.print = session.print
end

return environment
