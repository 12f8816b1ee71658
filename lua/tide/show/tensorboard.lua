-- Curves as an event file that TensorBoard reads: records of protobuf, each with its length and checksums.
--
-- A record is u64 length | u32 masked CRC-32C of these 8 bytes | payload | u32 masked CRC-32C of the payload, little
-- endian; mask(c) = rotr(c, 15) + 0xa282ead8. The payload is tensorflow.Event: 1 double wall_time, 2 varint step,
-- 3 string file_version (of the first record), 5 Summary {1 repeated Value {1 tag, 2 float simple_value}}.
local tensorboard = {}

local POLYNOMIAL <const> = 0x82f63b78 -- Castagnoli, reflected
local TABLE <const> = {}
for i = 0, 255 do
  local c = i
  for _ = 1, 8 do c = c & 1 == 1 and c >> 1 ~ POLYNOMIAL or c >> 1 end
  TABLE[i] = c
end

---@param bytes string
---@return integer CRC-32C (RFC 3720)
function tensorboard.crc32c(bytes)
  local c = 0xffffffff
  for i = 1, #bytes do c = c >> 8 ~ TABLE[(c ~ bytes:byte(i)) & 0xff] end
  return c ~ 0xffffffff
end

local function masked(bytes)
  local c <const> = tensorboard.crc32c(bytes)
  return ((c >> 15 | c << 17) + 0xa282ead8) & 0xffffffff
end

local function record(payload)
  local length <const> = string.pack("<I8", #payload)
  return length .. string.pack("<I4", masked(length)) .. payload .. string.pack("<I4", masked(payload))
end

local function varint(n)
  local bytes = {}
  repeat
    bytes[#bytes + 1] = string.char(n & 0x7f | (n > 0x7f and 0x80 or 0))
    n = n >> 7
  until n == 0
  return table.concat(bytes)
end

local function field(number, bytes) return varint(number << 3 | 2) .. varint(#bytes) .. bytes end

local function event(time, step, rest) return string.pack("<Bd", 0x09, time) .. "\x10" .. varint(step) .. rest end

---@param reports table[] of tide.run.history
---@param value fun(report: table, name: string): number?
---@param names string[] of curves, which become tags
---@param began number seconds since 1970, for reports without a time
---@return string content of the file
function tensorboard.file(reports, value, names, began)
  local out = {record(string.pack("<Bd", 0x09, began) .. field(3, "brain.Event:2"))}
  for i, report in ipairs(reports) do
    local values = {}
    for _, name in ipairs(names) do
      local number <const> = value(report, name)
      if number then values[#values + 1] = field(1, field(1, name) .. string.pack("<Bf", 0x15, number)) end
    end
    local time <const> = type(report.time) == "number" and report.time or began + (report.elapsed_s or 0)
    local step <const> = math.tointeger(report.n) or i
    if #values > 0 and step >= 0 then
      out[#out + 1] = record(event(time, step, field(5, table.concat(values))))
    end
  end
  return table.concat(out)
end

---@param run tide.past_run
---@return string name of a file that TensorBoard looks for
function tensorboard.name(run)
  return ("events.out.tfevents.%d.%s.%d.0"):format((run.started_at or 0) // 1 | 0,
    (run.host or "host"):gsub("[^%w-]", "-"), run.pid or 0)
end

return tensorboard
