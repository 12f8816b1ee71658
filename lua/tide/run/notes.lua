-- What people write about a run: one note, and tags. The keeper of runs has them in its record of the run; beside
-- run.json the directory has them as notes.json, a file of its own, because run.json belongs to the run's process.
local checks = require "tide.checks"
local core = require "tide.core"
local errors = require "tide.errors"
local text = require "tide.text"

local notes = {}

local SCHEMA <const> = "tide.notes/1"
local NOTE_BYTES <const>, TAG_BYTES <const>, TAGS_MAX <const> = 1000, 64, 16
local FILE_BYTES <const> = 16 << 10

---@class tide.notes
---@field note? string
---@field tags string[] sorted, each once

local function refused(message, help) return nil, errors.new("T0113", {message = message, help = help}) end

---Changes what is noted of a run.
---@param noted {note?: string, tags?: string[]}
---@param change {note?: string, tags?: string[]} tags: words to add, or to remove if a "-" follows; an empty note
---  removes it
---@return tide.notes|nil, table? err T0113
function notes.changed(noted, change)
  local note <const> = change.note or noted.note or ""
  if not utf8.len(note) or #note > NOTE_BYTES then
    return refused(("a note is UTF-8 text of at most %d bytes"):format(NOTE_BYTES))
  end
  local has = {}
  for _, tag in ipairs(noted.tags or {}) do has[tag] = true end
  for _, word in ipairs(change.tags or {}) do
    local tag <const>, removes <const> = word:match "^(.-)(%-?)$"
    if #tag > TAG_BYTES or not tag:find "^[%w_.:=/][%w_.:=/-]*$" then
      return refused(("`%s` is no tag"):format(text.clean(word:sub(1, TAG_BYTES))),
        ("a tag has at most %d letters, digits and . _ : = / -, and ends with none of the last"):format(TAG_BYTES))
    end
    has[tag] = removes == "" or nil
  end
  local tags <const> = text.sorted_keys(has)
  if #tags > TAGS_MAX then return refused(("a run has at most %d tags"):format(TAGS_MAX)) end
  return {note = note ~= "" and note or nil, tags = tags}
end

local function file_of(directory) return directory .. "/notes.json" end

---What is noted of the run in a directory; nothing if the file is missing or damaged.
---@param directory string
---@return tide.notes
function notes.read(directory)
  local file <const> = io.open(file_of(directory), "rb")
  if not file then return {tags = {}} end
  local read <const> = core.json_decode(file:read(FILE_BYTES) or "")
  file:close()
  if type(read) ~= "table" or read.schema ~= SCHEMA or checks.odd_field(read, {note = "string", tags = "strings"}) then
    return {tags = {}}
  end
  return notes.changed({}, read) or {tags = {}}
end

---@param directory string of the run
---@param noted tide.notes
---@return true|nil, table? err
function notes.write(directory, noted)
  return core.file_write(file_of(directory), core.json_encode {schema = SCHEMA, note = noted.note,
    tags = #noted.tags > 0 and noted.tags or nil} .. "\n")
end

return notes
