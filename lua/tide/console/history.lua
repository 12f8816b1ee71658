-- What was typed at the prompt, kept for the next session: JSON lines in a file that only its owner may read.
local core = require "tide.core"
local json = require "tide.json"

local history = {}
history.__index = history

local ENTRIES_MAX <const> = 10000
local SECRET <const> = {"password", "secret", "token"}

---@param getenv fun(name: string): string?
---@return string? path nil: there is no place for it
function history.path(getenv)
  local state = getenv "XDG_STATE_HOME"
  local home <const> = getenv "HOME"
  if not (state and state:find "^/") then state = home and home:find "^/" and home .. "/.local/state" end
  return state and state .. "/tide/history.jsonl" or nil
end

---May the line be kept? Not if it begins with a blank, or seems to hold a secret.
---@param line string
---@return boolean
function history.keeps(line)
  if line:find "^%s" or line == "" then return false end
  local lower <const> = line:lower()
  for _, word in ipairs(SECRET) do
    if lower:find(word, 1, true) then return false end
  end
  return true
end

---@param path string? nil: nothing is kept
---@return table history with `entries`, oldest first
function history.open(path)
  local self = setmetatable({path = path, entries = {}}, history)
  for _, entry in ipairs(json.lines(path and core.file_read(path))) do
    if type(entry.text) == "string" then self.entries[#self.entries + 1] = entry end
  end
  return self
end

-- The file is rewritten, private from the start, when it is new or has grown over twice its limit.
local function rewrite(self)
  core.mkdir(self.path:match "^(.*)/", 448) -- 0700
  local lines = {}
  for i = math.max(1, #self.entries - ENTRIES_MAX + 1), #self.entries do
    lines[#lines + 1] = core.json_encode(self.entries[i])
  end
  core.file_write(self.path, table.concat(lines, "\n") .. "\n", true)
end

---Adds what was typed; in the file when it may be kept.
---@param entry {text: string, cluster: string, targets?: string, seconds?: number, ok?: boolean}
function history:add(entry)
  if not history.keeps(entry.text) then return end
  entry.time = os.date "!%Y-%m-%dT%H:%M:%SZ"
  self.entries[#self.entries + 1] = entry
  if not self.path then return end
  local file = io.open(self.path, "r")
  if not file or #self.entries > 2 * ENTRIES_MAX then
    if file then file:close() end
    rewrite(self)
    return
  end
  file:close()
  file = io.open(self.path, "a")
  if file then
    file:write(core.json_encode(entry), "\n")
    file:close()
  end
end

return history
