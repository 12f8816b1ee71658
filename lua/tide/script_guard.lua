-- Under `tide sim` a script must not see the machine it runs on: its clock, files, processes, environment. The
-- functions of `os` and `io` that would show them raise, for the script and its modules; Tide's own keep them.
local errors = require "tide.errors"

local guard = {}

local FILES <const> = "a data source (tide.data.*) for input, run:dump for tables, print for text"
local TIME <const> = "tide.now() for time that passes in the simulation"

local REFUSED <const> = {
  {os, "os", "time", TIME}, {os, "os", "clock", TIME}, {os, "os", "date", TIME},
  {os, "os", "execute", "nothing: a simulation starts no processes"}, {os, "os", "getenv", "tide.options for settings"},
  {os, "os", "remove", FILES}, {os, "os", "rename", FILES}, {os, "os", "tmpname", FILES},
  {os, "os", "setlocale", "nothing: the locale is C"},
  {io, "io", "open", FILES}, {io, "io", "lines", FILES}, {io, "io", "read", FILES}, {io, "io", "input", FILES},
  {io, "io", "output", FILES}, {io, "io", "popen", "nothing: a simulation starts no processes"},
  {io, "io", "tmpfile", FILES}, {_G, nil, "dofile", "require"}, {_G, nil, "loadfile", "require"},
}

-- Whether the function that called the refused one is Tide's own.
local function own_caller()
  local info <const> = debug.getinfo(3, "S")
  return info ~= nil and info.source:find("^@tide/") ~= nil
end

local function refuse(holder, module, name, instead)
  local original <const> = holder[name]
  rawset(holder, name, function(...)
    if own_caller() then return original(...) end
    local full <const> = module and module .. "." .. name or name
    error(errors.new("T0217", ("`%s` is not allowed under tide sim: use %s"):format(full, instead)), 2)
  end)
end

---Replaces the functions in this Lua state, once.
function guard.install()
  if guard.installed then return end
  guard.installed = true
  for _, entry in ipairs(REFUSED) do refuse(table.unpack(entry, 1, 4)) end
end

return guard
