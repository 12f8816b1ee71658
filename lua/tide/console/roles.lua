-- Who may do what at the prompt. A session has one role for life, and its lines see only the names of that role.
--
--   read     looks: lists, events, taps, rows
--   operate  and acts on what is there: policies that ship with Tide, their parameters, the way back
--   admin    full Lua, with everything that the node's own scripts can do
--
-- A call has the role of its row (tide.console.rows); every other name needs admin. A session of a lesser role has an
-- environment of its own, bounded instructions, and asks other nodes in its own role. This keeps mistakes and shared
-- terminals from harm; it is no wall against a client that may open a session as admin: until connections carry
-- credentials of their own (keys), every client that the cluster admits may, which is the user who runs it.
local errors = require "tide.errors"
local rows = require "tide.console.rows"
local text = require "tide.text"

local roles = {}

---From the least to the greatest.
---@type string[]
roles.NAMES = {"read", "operate", "admin"}
roles.INSTRUCTIONS = 1e9        -- of an evaluation, below admin
roles.MEMORY_BYTES = 256 << 20  -- of a session
roles.SHARED_BYTES = 64 << 20   -- of all sessions of a node together, below admin

local RANK <const> = {read = 1, operate = 2, admin = 3}

local NEEDS <const> = {print = "read"}
for _, row in ipairs(rows.list) do
  if row.right ~= "admin" then NEEDS[row.name] = row.right end
end

-- Of Lua's own: nothing that loads code, reaches files or processes, or other people's tables.
local PLAIN <const> = {"assert", "error", "ipairs", "next", "pairs", "pcall", "rawequal", "rawget", "rawlen", "rawset",
  "select", "setmetatable", "tonumber", "tostring", "type", "xpcall", "_VERSION", "math", "string", "table", "utf8",
  "coroutine"}
local OS <const> = {"clock", "date", "difftime", "time"}

-- The methods of a run's handle, and the roles that they require.
local RUN <const> = {refresh = "read", wait = "read", log = "read", pause = "operate", resume = "operate",
  set = "operate", set_workers = "operate", stop = "operate", cancel = "operate"}

-- What the handle of a table shows below admin.
local HANDLE <const> = {"pull", "where", "stats", "homes", "health", "rate", "consistency"}
-- Of these, methods that require another role with a value to set.
local SETS <const> = {rate = "operate", consistency = "operate"}

---@param role any
---@return boolean whether there is such a role
function roles.is(role) return RANK[role] ~= nil end

---@param role string
---@param needed string
---@return boolean
function roles.may(role, needed) return RANK[role] >= RANK[needed] end

---@param name string the requested name
---@param needed string
---@param role string
---@return tide.error
function roles.refusal(name, needed, role)
  return errors.new("T0801", {message = ("%s needs role %s (this session's is %s)"):format(text.clean(name), needed,
    role), help = ("open a session that has it: tide attach --role %s"):format(needed)})
end

local function copied(from)
  local out = {}
  for k, v in pairs(from) do out[k] = v end
  return out
end

local function refused(name, needed, role)
  return function() error(roles.refusal(name, needed, role), 2) end
end

-- A table's handle as something that can only be looked at.
local function shown_handle(handle, describe, role)
  local view = {name = handle.name, width = handle.width, spec = handle.spec}
  for _, method in ipairs(HANDLE) do
    view[method] = function(_, ...)
      local needed <const> = (...) ~= nil and SETS[method]
      if needed and not roles.may(role, needed) then
        error(roles.refusal(("tables.%s:%s"):format(handle.name, method), needed, role), 2)
      end
      return handle[method](handle, ...)
    end
  end
  return setmetatable(view, {
    __index = function(_, key)
      local known, member = pcall(function() return handle[key] end)
      if known and member ~= nil then error(roles.refusal(("tables.%s:%s"):format(handle.name, tostring(key)), "admin",
        role), 2) end
      return nil
    end,
    __console = function() return describe(handle) end,
  })
end

-- A run as its role may steer it.
local function shown_run(run, role)
  local view = {}
  return setmetatable(view, {
    __index = function(_, key)
      local member <const> = run[key]
      if type(member) ~= "function" then return member end
      local needed <const> = RUN[key] or "admin"
      if not roles.may(role, needed) then error(roles.refusal("run:" .. key, needed, role), 2) end
      return function(_, ...)
        local ok, more = member(run, ...)
        return rawequal(ok, run) and view or ok, more
      end
    end,
    __console = function() return getmetatable(run).__console(run) end,
  })
end

---The globals of a session of this role, made from those of an admin's.
---@param all table
---@param role string
---@param describe fun(handle: any): string a table's handle as text
---@return table globals
function roles.globals(all, role, describe)
  if role == "admin" then return all end
  local own = {policy = {}, os = {}, node = copied(all.node or {})}
  for _, name in ipairs(PLAIN) do own[name] = type(all[name]) == "table" and copied(all[name]) or all[name] end
  own.string.dump = nil
  for _, name in ipairs(OS) do own.os[name] = all.os[name] end
  for name, needed in pairs(NEEDS) do
    local verb <const> = name:match "^policy%.(.*)$"
    local f <const> = roles.may(role, needed) and (verb and all.policy[verb] or all[name])
      or refused(name, needed, role)
    if verb then
      own.policy[verb] = f
    elseif not name:find(".", 1, true) then
      own[name] = f
    end
  end
  own.tables = setmetatable({}, {
    __index = function(_, name) return shown_handle(all.tables[name], describe, role) end,
    __console = getmetatable(all.tables).__console,
  })
  own.run = function(name) return shown_run(all.run(name), role) end
  own._G = own
  return setmetatable(own, {__index = function(_, name)
    if rawget(all, name) ~= nil then error(roles.refusal(tostring(name), "admin", role), 2) end
    return nil
  end})
end

return roles
