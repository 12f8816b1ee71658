-- Names at the prompt: signatures and texts from annotations, completion, help.
--
-- One source for all: annotations (tide.annotations), of the calls' rows and of the program's embedded text. Completion
-- walks plain tables by rawget alone: it runs no metamethod and calls nothing, so it cannot hang on what it looks at.
local annotations = require "tide.annotations"
local core = require "tide.core"
local catalogue = require "tide.catalogue"
local manual = require "tide.manual"
local text = require "tide.text"

local names = {}

local CANDIDATES_MAX <const> = 200
local KEYS_MAX <const> = 20000

local KEYWORDS <const> = {"and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
  "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while"}

local state = {entries = {}, globals = {}}

---- entries ----------------------------------------------------------------------------------------------------------

local function database()
  if state.loaded then return state.entries end
  state.loaded = true
  for name, entry in pairs(manual.entries()) do state.entries[name] = entry end
  for _, entry in ipairs(manual.console()) do state.entries[entry.name] = entry end
  local module <const> = "tide.core.meta"
  local content <const> = core.embedded(module)
  for _, entry in ipairs(content and annotations.parse(content, "core", "core.") or {}) do
    entry.source = {content = content, module = module}
    state.entries[entry.name] = entry
  end
  return state.entries
end

---The environment that completion looks at.
---@param globals table
function names.load(globals) state.globals = globals end

---- completion ----------------------------------------------------------------------------------------------------

local function add(found, candidate, start)
  if candidate:sub(1, #start) == start and not found.seen[candidate] and #found < CANDIDATES_MAX then
    found.seen[candidate] = true
    found[#found + 1] = candidate
  end
end

local function add_keys(found, value, start, deadline)
  local count = 0
  local key = nil
  repeat
    key = next(value, key)
    count = count + 1
    if type(key) == "string" and key:find "^[%a_][%w_]*$" and not key:find "^__" then add(found, key, start) end
  until key == nil or count > KEYS_MAX or count % 100 == 0 and core.now() > deadline
end

-- The value of "a.b.c" by raw access, or nil.
local function raw_path(path)
  local value = state.globals
  for part in path:gmatch "[%w_]+" do
    if type(value) ~= "table" then return nil end
    value = rawget(value, part)
  end
  return value
end

local METHODS <const> = {
  "pull", "push", "localize", "pull_local", "where", "stats", "show", "consistency", "rate", "homes", "sampler"}

local function after_dot(path, start, found, deadline)
  for name in pairs(database()) do
    local member = name:match("^" .. path:gsub("%p", "%%%0") .. "%.([%w_]+)$")
    if member then add(found, member, start) end
  end
  if path == "tables" then
    for _, entry in ipairs(core.tables() or {}) do add(found, entry.name:match "[^.]+$", start) end
  elseif path:find "^tables%.[%w_]+$" then
    for _, method in ipairs(METHODS) do add(found, method, start) end
  end
  local value = raw_path(path)
  if type(value) == "table" then add_keys(found, value, start, deadline) end
end

-- The function whose arguments the cursor is in: its name, and the text behind its opening bracket.
local function open_call(line)
  local depth = 0
  for at = #line, 1, -1 do
    local c <const> = line:sub(at, at)
    if c == ")" then depth = depth + 1 end
    if c == "(" then
      if depth == 0 then
        local name = line:sub(1, at - 1):match "([%w_.:]+)%s*$"
        return name and name:gsub(":", "."), line:sub(at + 1)
      end
      depth = depth - 1
    end
  end
  local name, rest = line:match "([%a_][%w_.]*)%s*({[^}]*)$"
  return name, rest
end

local function targets_after(start, o, found)
  for _, word in ipairs {"all", "role:worker", "role:server", "role:controller", "job:", "actor:"} do
    add(found, word, start)
  end
  for _, member in ipairs(o.members or {}) do
    if member.state == "up" then add(found, member.name, start) end
  end
end

local function option_keys(call, inside, start, found)
  local entry = call and database()[call]
  if not entry or not inside:find "{[^}]*$" then return false end
  for _, param in ipairs(entry.params) do
    for _, field in ipairs(param.fields or {}) do add(found, field.name .. "=", start) end
  end
  return #found > 0
end

local function in_string(call, start, o, found)
  if call and call:find "^policy%." then
    for _, name in ipairs(core.embedded_names "policies/") do add(found, (name:gsub("^policies/", "")), start) end
  elseif call == "on" then
    targets_after(start:gsub("^@", ""), o, found)
    for i, candidate in ipairs(found) do found[i] = "@" .. candidate end
  else
    for _, member in ipairs(o.members or {}) do add(found, member.name, start) end
    for _, entry in ipairs(core.tables() or {}) do add(found, entry.name, start) end
  end
end

---What could follow at the cursor.
---@param line string
---@param cursor integer bytes before the cursor
---@param o {budget_s: number, members: table[]}
---@return table {start: integer bytes of the word that is there, candidates: string[], hint: string|nil}
function names.complete(line, cursor, o)
  local before <const> = line:sub(1, cursor)
  local deadline <const> = core.now() + (o.budget_s or 1)
  local found = {seen = {}}
  local call, inside = open_call(before)
  local entry = call and database()[call]
  local start
  local quoted <const> = inside and inside:match "^%s*[\"']([^\"']*)$" or before:match "[%w_.]+%s*[\"']([^\"']*)$"
  if before:find "^%s*@[^%s]*$" then
    start = before:match "@([^%s,]*)$" or ""
    targets_after(start, o, found)
  elseif quoted then
    start = quoted
    in_string(call or before:match "([%w_.]+)%s*[\"'][^\"']*$", start, o, found)
  else
    local path, word = before:match "([%a_][%w_.]*)[.:]([%w_]*)$"
    start = word or before:match "([%a_][%w_]*)$" or ""
    if path then
      after_dot(path, start, found, deadline)
    elseif not option_keys(call, inside or "", start, found) then
      for name in pairs(database()) do
        if not name:find(".", 1, true) then add(found, name, start) end
      end
      add_keys(found, state.globals, start, deadline)
      for _, keyword in ipairs(KEYWORDS) do add(found, keyword, start) end
    end
  end
  found.seen = nil
  table.sort(found)
  return {start = #start, candidates = found, hint = entry and annotations.hint(entry)}
end

---- help ------------------------------------------------------------------------------------------------------------

local FIRST <const> = [[
The ten things to do first
  nodes()                       what there is                     top()      which actors are busy
  tables                        the tables; tables.NAME for one   links()    the connections
  why()                         what holds up the runs
  why("n1/agent")  stack "mf-1" what an actor waits for; what workers do, line by line
  tables.NAME:pull{1,2,3}       rows, printed by their summary
  @all 1+1                      on every node; @role:worker, @n3, @n[2-5]
  policy.list()                 policies of the run; policy.swap("batching/boa")
  events()  tap("n1/store")     what happened; messages that come to an actor
  watch("#nodes()", {every=1})  again and again, until Ctrl-C
  Ctrl-C                        ends what runs; twice leaves it to itself: jobs(), kill(id), \fg ID
  ?NAME  ??NAME                 signature and text, source; help "T0501" explains an error
  \?                            the prompt's own commands]]

local function error_help(code)
  local entry <const> = catalogue[code]
  if not entry then return nil end
  return ("%s: %s\n%s\nWhat to do: %s."):format(code, entry.title, entry.explanation or "", entry.remedy or "-")
end

-- The text of a function: of a call, where its row's function is.
local function source_of(entry)
  local source <const> = entry.source
  if not source then return nil end
  local of_call <const> = source.generated and (entry.name:find "^policy%." and "policy" or "calls")
  local module <const> = of_call and "tide.console." .. of_call or source.module
  local head <const> = of_call and ("function %s.%s("):format(of_call, entry.name:match "[%w_]+$")
  local lines, number = {}, 0
  for line in ((of_call and core.embedded(module) or source.content) .. "\n"):gmatch "(.-)\n" do
    number = number + 1
    if lines[1] or of_call and line:sub(1, #head) == head or not of_call and number >= entry.line then
      lines[#lines + 1] = line
      if line == "end" or #lines == 60 or line:find "%f[%w]end%s*%-%->" or line:find "%)%s*end" then break end
    end
  end
  return ("%s, line %d\n%s"):format(module, number - #lines + 1, table.concat(lines, "\n"))
end

---Help on a name, an error's code, or in general.
---@param what string
---@param source? boolean the source of it instead
---@return string
function names.help(what, source)
  what = what:gsub("^%s+", ""):gsub("%s+$", ""):gsub("%(.*$", ""):gsub("^[\"'](.*)[\"']$", "%1")
  if what == "" then return FIRST end
  if what:find "^[tT]%d%d%d%d$" then
    return error_help(what:upper()) or ("there is no error " .. what:upper())
  end
  local entries <const> = database()
  local entry = entries[what] or entries["core." .. what] or entries["tide." .. what]
  if entry then return source and source_of(entry) or annotations.text(entry) end
  local page <const> = manual.help(what)
  if page then return source and source_of(manual.find(what)[1] or {}) or page end
  local near <const> = text.did_you_mean(what, entries)
  return ("nothing is known of `%s`%s"):format(text.clean(what), near and "; " .. near or "")
end

return names
