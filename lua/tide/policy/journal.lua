-- The journal of a policy host: what was loaded, seen, decided and done, so that every decision can be replayed.
--
-- A record is a plain value (core.plain_encode). In a file: u32 length, 16 hex digits of its SHA-256, the bytes. One
-- that was cut off by a crash ends the journal; what is before it stays good.
local core = require "tide.core"

local journal = {}
journal.__index = journal

local MAGIC <const> = "tide policy journal 1\n"
local RECORD_MAX <const> = 1 << 26
local HEAD <const> = 20

---@param write? fun(bytes: string) where records go; nil: they are kept by the host's own history only
function journal.new(write)
  local self = setmetatable({write = write, bytes = 0, records = 0}, journal)
  if write then write(MAGIC) end
  return self
end

---A journal in a file, which is made or continued behind its last good record.
---@param path string
---@param failed fun(why: string) called once when a record could not be written
---@return table|nil journal, string? why
function journal.open(path, failed)
  local text = ""
  local file = io.open(path, "rb")
  if file then
    text = file:read "a"
    file:close()
  end
  local good = #MAGIC
  if #text >= #MAGIC then
    local records, why, last = journal.parse(text)
    if not records then return nil, why end
    good = last
  end
  local handle, why = io.open(path, "wb")
  if not handle then return nil, why end
  if #text >= #MAGIC then handle:write(text:sub(1, good)) else handle:write(MAGIC) end
  handle:flush()
  local told = false
  return setmetatable({path = path, bytes = 0, records = 0, write = function(bytes)
    local ok, problem = handle:write(bytes)
    if ok then ok, problem = handle:flush() end
    if not ok and not told then
      told = true
      failed(problem)
    end
  end, close = function() handle:close() end}, journal)
end

---@param record table plain
function journal:append(record)
  local payload, err = core.plain_encode(record)
  if not payload then error(err, 0) end
  self.records, self.bytes = self.records + 1, self.bytes + #payload + HEAD
  if self.write then self.write(string.pack("<I4", #payload) .. core.sha256(payload):sub(1, HEAD - 4) .. payload) end
end

---@param text string content of a journal
---@return table|nil records, string? why, integer? good bytes up to the end of the last good record
function journal.parse(text)
  if text:sub(1, #MAGIC) ~= MAGIC then return nil, "this is no policy journal" end
  local at, records = #MAGIC + 1, {}
  while at + HEAD <= #text + 1 do
    local size = string.unpack("<I4", text, at)
    local sum, payload = text:sub(at + 4, at + HEAD - 1), text:sub(at + HEAD, at + HEAD + size - 1)
    if size > RECORD_MAX or #payload < size or core.sha256(payload):sub(1, HEAD - 4) ~= sum then break end
    local record = core.plain_decode(payload)
    if type(record) ~= "table" then break end
    records[#records + 1] = record
    at = at + HEAD + size
  end
  return records, nil, at - 1
end

---@param path string
---@return table|nil records, string? why, boolean? torn whether bytes behind the last good record were left out
function journal.read(path)
  local file, why = io.open(path, "rb")
  if not file then return nil, why end
  local text = file:read "a"
  file:close()
  local records, problem, good = journal.parse(text)
  if not records then return nil, path .. ": " .. problem end
  return records, nil, good < #text
end

return journal
