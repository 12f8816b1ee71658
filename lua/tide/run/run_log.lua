-- run.log of a run's directory: what the script and its workers print, and the error that it ends with. A line begins
-- with a time in UTC; a line without one continues the line before. Behind the time `[n1 #3]` names node and rank of a
-- worker, `[n1 #3 err]` what it wrote to standard error, `[err]` what the script did. log_query.lua reads that.
--
-- The log is bounded. When run.log has PART_BYTES it becomes run.log.1, whose former content is dropped. Positions
-- count bytes from the beginning of the whole log: the first line of a second file says how many bytes precede it.
local core = require "tide.core"
local errors = require "tide.errors"
local output = require "tide.run.output"

local run_log = {PART_BYTES = 16 << 20, READ_BYTES = 64 << 10}
run_log.__index = run_log

local PENDING_MAX <const> = 1000 -- lines that are printed before the directory exists
local BASE <const> = "(%d bytes of this log precede this line, the newest of them in run.log.1)"
local BASE_PATTERN <const> = "^%S+ %S+ %((%d+) bytes of this log precede"

---The time of a line, as node logs have it: "2026-11-26 23:15:04.123" in UTC.
---@return string
local function stamp()
  local now <const> = core.wall()
  return os.date("!%F %T", now // 1 | 0) .. (".%03d"):format(now % 1 * 1000 // 1 | 0)
end

---A log that keeps its lines in memory until it is opened.
---@return tide.run_log
function run_log.new() return setmetatable({pending = {}, streams = {}}, run_log) end

-- How many bytes of the log precede a file of it.
local function base_of(file)
  file:seek("set", 0)
  return math.tointeger(tonumber((file:read(128) or ""):match(BASE_PATTERN))) or 0
end

---@param directory string
---@return true|nil, table? err
function run_log:open(directory)
  local path <const> = directory .. "/run.log"
  local file <const>, why <const>, number <const> = io.open(path, "a+b")
  if not file then return nil, {message = why, name = number == 28 and "ENOSPC" or nil} end
  self.path, self.file, self.base = path, file, base_of(file)
  local pending <const> = self.pending
  self.pending = nil
  for _, line in ipairs(pending) do self:write(line) end
  return true
end

-- Begins a new file when this one is full.
local function rotate(self)
  local size <const> = self.file:seek "end"
  if size < run_log.PART_BYTES then return true end
  self.file:close()
  os.rename(self.path, self.path .. ".1")
  local why
  self.file, why = io.open(self.path, "a+b")
  if not self.file then return nil, why end
  self.base = self.base + size
  return self.file:write(stamp(), " ", BASE:format(self.base), "\n")
end

---Adds a line, or several under one time.
---@param text string without a final line end
---@return true|nil, string? why
function run_log:write(text)
  if self.pending then
    if #self.pending < PENDING_MAX then self.pending[#self.pending + 1] = text end
    return true
  end
  if not self.file then return true end -- closed, or the simulator's
  local ok, why = rotate(self)
  if ok then ok, why = self.file:write(stamp(), " ", text, "\n") end
  if ok then ok, why = self.file:flush() end
  return ok and true, why
end

---Adds what a script prints; the log gets whole lines.
---@param chunk string
---@param err? boolean it was written to standard error
function run_log:print(chunk, err)
  local stream = self.streams[err or false]
  if not stream then
    stream = {}
    stream.put, stream.flush = output.lines(function(lines) self:write((err and "[err] " or "") .. lines) end)
    self.streams[err or false] = stream
  end
  stream.put(chunk)
end

---Adds an error as people read it, unless it is the one that was added last.
---@param err tide.error
function run_log:error(err)
  local told <const> = errors.line(err)
  if self.told == told then return end
  self.told = told
  local rank <const> = (err.actor or ""):match "^worker .*/(%d+)$"
  local mark <const> = rank and err.node and ("[%s #%s err] "):format(err.node, rank) or ""
  self:write(mark .. errors.format(err, {unicode = true}))
end

function run_log:close()
  for _, stream in pairs(self.streams) do stream.flush() end
  if self.file then self.file:close() end
  self.file, self.pending = nil, nil
end

---Some of a log, at most READ_BYTES.
---@param directory string
---@param after? integer position; default: the newest bytes
---@return string|nil text
---@return integer|nil size of the whole log
---@return integer|nil next position behind the text
function run_log.read(directory, after)
  if core.simulated() then return "", 0, 0 end
  local file <close> = io.open(directory .. "/run.log", "rb")
  if not file then return nil end
  local base <const>, own <const> = base_of(file), file:seek "end"
  local size <const> = base + own
  after = math.min(after or math.max(0, size - run_log.READ_BYTES), size)
  local from, start = file, base
  local older <close> = after < base and io.open(directory .. "/run.log.1", "rb") or nil
  if older then
    from, start = older, base - older:seek "end"
  end
  after = math.max(after, start)
  from:seek("set", after - start)
  local text <const> = from:read(run_log.READ_BYTES) or ""
  return text, size, after + #text
end

---The same as an answer to the request `log`.
---@param directory string
---@param after? integer
---@return {text: string, size: integer, next: integer}
function run_log.answer(directory, after)
  local text <const>, size <const>, next_at <const> = run_log.read(directory, after)
  return {text = text or "", size = size or 0, next = next_at or 0}
end

return run_log
