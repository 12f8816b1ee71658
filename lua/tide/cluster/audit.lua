-- Audit logs as files: read, and held against their own chain. Each line has a number one more than the line before,
-- and in `prev` that line's SHA-256; the file .head has number and sum of the last line that was surely on the disk.
local core = require "tide.core"
local errors = require "tide.errors"

local audit = {}

local START <const> = ("0"):rep(64) -- before the first line

---The audit logs in a directory.
---@param directory string
---@return string[] paths
function audit.logs(directory)
  local paths = {}
  for _, name in ipairs(core.file_list(directory) or {}) do
    if name:find "^audit%-.+%.log$" then paths[#paths + 1] = directory .. "/" .. name end
  end
  table.sort(paths)
  return paths
end

---Records of a log, those of its former file first.
---@param path string
---@return table[]|nil records each with its `line`, `text_line` and `file`
---@return table? err
function audit.read(path)
  local records = {}
  for _, file in ipairs {path .. ".1", path} do
    local content <const>, err = core.file_read(file)
    if not content and file == path then return nil, errors.new("T0110", {message = err.message}) end
    local number = 0
    for line in (content or ""):gmatch "([^\n]*)\n?" do
      number = number + 1
      if line ~= "" then
        local record <const> = core.json_decode(line)
        records[#records + 1] = type(record) == "table" and record or {damaged = true}
        records[#records].line, records[#records].file, records[#records].text_line = number, file, line
      end
    end
  end
  return records
end

local function damage(record, message)
  return errors.new("T0804", {message = message, where = ("%s:%d"):format(record.file, record.line)})
end

-- What is wrong between a record and the one before it.
local function broken(record, before)
  if record.damaged or type(record.n) ~= "number" or type(record.prev) ~= "string" then
    return damage(record, "this line is no record")
  end
  if not before then
    local begins <const> = record.n == 1 and record.prev ~= START and "the first record follows nothing, and says "
      .. "otherwise"
    return begins and damage(record, begins) or nil
  end
  if record.n > before.n + 1 then
    return damage(record, ("between record %d and this one, %d are missing"):format(before.n, record.n - before.n - 1))
  elseif record.n ~= before.n + 1 then
    return damage(record, ("record %d follows record %d"):format(record.n, before.n))
  elseif record.prev ~= core.sha256(before.text_line) then
    return damage(before, ("record %d was changed after it was written, or this is another log's"):format(before.n))
  end
  return nil
end

-- The end of a log against its head.
local function broken_end(path, records)
  local content <const> = core.file_read((path:gsub("%.log$", ".head")))
  if not content or content == "" then return nil end -- nothing was on the disk for sure
  local number, sum = content:match "^(%d+) (%x+)\n"
  number = math.tointeger(tonumber(number))
  if not number then return errors.new("T0804", {message = "the head of the log is damaged", where = path}) end
  for _, record in ipairs(records) do
    if record.n == number then
      return core.sha256(record.text_line) ~= sum and damage(record, ("record %d was changed after it was written")
        :format(number)) or nil
    end
  end
  local last <const> = records[#records]
  return errors.new("T0804", {where = path, message =
    ("the log ends with record %s, but record %d was written: records are missing"):format(last and last.n or "0",
      number)})
end

---@param path string
---@return {path: string, records: integer, first?: integer, last?: integer, head?: string}|nil nil: it is damaged
---@return table? err the first damage
function audit.verify(path)
  local records <const>, err = audit.read(path)
  if not records then return nil, err end
  local before
  for _, record in ipairs(records) do
    local problem <const> = broken(record, before)
    if problem then return nil, problem end
    before = record
  end
  local problem <const> = broken_end(path, records)
  if problem then return nil, problem end
  return {path = path, records = #records, first = records[1] and records[1].n, last = before and before.n,
          head = before and core.sha256(before.text_line)}
end

return audit
