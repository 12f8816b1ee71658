-- Quantities as people write and read them: durations, sizes, rates, shares, counts.
--
-- Parsing takes a number (seconds, bytes, bytes per second, fraction) or a string with a unit, and returns the number
-- in the base unit, or nil and a sentence. Formatting is for people; machines get exact numbers under `--json`.

local units = {}

local DURATIONS <const> = {us = 1e-6, ms = 1e-3, s = 1, m = 60, min = 60, h = 3600, d = 86400}
local SIZES <const> = {
  B = 1, kB = 1000, MB = 1000 ^ 2, GB = 1000 ^ 3, TB = 1000 ^ 4,
  KiB = 1024, MiB = 1024 ^ 2, GiB = 1024 ^ 3, TiB = 1024 ^ 4,
}
local BITS <const> = {bit = 1 / 8, kbit = 1000 / 8, Mbit = 1000 ^ 2 / 8, Gbit = 1000 ^ 3 / 8}

local function split(value)
  local number, unit = tostring(value):match("^%s*([%d.]+[eE]?[+-]?%d*)%s*(%a*)%s*$")
  return number and tonumber(number), unit
end

local function parse(value, table_of_units, what, examples)
  if type(value) == "number" then
    if value >= 0 and value < math.huge then return value end
    return nil, ("%s is not %s"):format(tostring(value), what)
  end
  local number, unit = split(value)
  local factor <const> = unit == "" and 1 or table_of_units[unit]
  if not number or not factor then
    return nil, ("`%s` is not %s: write %s"):format(tostring(value), what, examples)
  end
  return number * factor
end

---Seconds of "250us", "20ms", "30s", "5m", "2h" or a number.
---@param value string|number `250us 20ms 30s 5m 2h`; a bare number is seconds
---@return number? seconds
---@return string? why
function units.parse_duration(value)
  return parse(value, DURATIONS, "a duration", "250us, 20ms, 30s, 5m or 2h")
end

---Bytes of "64KiB", "4MB" or a number.
---@param value string|number `64KiB 4MiB 2GiB` (1024), `kB MB GB` (1000); a bare number is bytes
---@return integer? bytes
---@return string? why
function units.parse_size(value)
  local bytes, why = parse(value, SIZES, "a size", "512, 64KiB, 4MiB or 2GB")
  if not bytes then return nil, why end
  if bytes >= 2 ^ 63 then return nil, ("`%s` is too large for a size"):format(tostring(value)) end
  return math.floor(bytes + 0.5)
end

---Bytes a second of "10Gbit", "1.2GB" or a number.
---@param value string|number `10Gbit 800Mbit 1.2GB` a second (`/s` may follow); a bare number is bytes per second
---@return number? bytes_per_s
---@return string? why
function units.parse_rate(value)
  local stripped <const> = type(value) == "string" and value:gsub("/s%s*$", "") or value
  local _, unit = split(stripped)
  return parse(stripped, BITS[unit] and BITS or SIZES, "a rate", "10Gbit, 800Mbit or 1.2GB")
end

---A fraction of "10%" or a number.
---@param value string|number `10%` or a fraction
---@return number? fraction
---@return string? why
function units.parse_share(value)
  local percent <const> = type(value) == "string" and value:match("^%s*([%d.]+)%s*%%%s*$")
  local share <const> = percent and tonumber(percent) and tonumber(percent) / 100 or tonumber(value)
  if share and share >= 0 and share <= 1 then return share end
  return nil, ("`%s` is not a share: write \"10%%\" or 0.1"):format(tostring(value))
end

-- Three significant digits without an exponent: 8.42, 84.2, 842.
local function three_digits(x)
  local text
  if x >= 99.95 then
    text = ("%.0f"):format(x)
  elseif x >= 9.995 then
    text = ("%.1f"):format(x)
  else
    text = ("%.2f"):format(x)
  end
  return text:find("%.") and text:gsub("0+$", ""):gsub("%.$", "") or text
end

local function scaled(value, base, names, separator)
  if value ~= value then return "nan" end
  if value < 0 then return "-" .. scaled(-value, base, names, separator) end
  if value == math.huge then return "inf" end
  local step = 1
  -- 999.5 would print as 1000: it belongs to the next unit.
  while value >= 999.5 and step < #names do
    value = value / base
    step = step + 1
  end
  local number <const> = three_digits(value)
  return names[step] == "" and number or number .. separator .. names[step]
end

local COUNT_NAMES <const> = {"", "k", "M", "G", "T"}
local SIZE_NAMES <const> = {"B", "KiB", "MiB", "GiB", "TiB"}

---A count with three digits and k, M, G or T.
---@param n number
---@return string `8.4k`
function units.format_count(n) return scaled(n, 1000, COUNT_NAMES, "") end

---Bytes with three digits and KiB, MiB or GiB.
---@param bytes number
---@return string `3.2 MiB`
function units.format_size(bytes) return scaled(bytes, 1024, SIZE_NAMES, " ") end

---A rate with three digits.
---@param per_s number
---@param unit? string what is counted, "ex"
---@return string `702 ex/s`
function units.format_rate(per_s, unit)
  return scaled(per_s, 1000, COUNT_NAMES, "") .. (unit and " " .. unit or "") .. "/s"
end

---A fraction as percent.
---@param fraction number
---@return string `99.2%`
function units.format_share(fraction) return ("%.1f%%"):format(fraction * 100) end

---Seconds with three digits and their unit.
---@param seconds number
---@return string `250 us`, `20 ms`, `1.5 s`, `2m 05s`, `3h 07m`, `2d 04h`
function units.format_duration(seconds)
  if seconds ~= seconds then return "nan" end
  if seconds < 0 then return "-" .. units.format_duration(-seconds) end
  if seconds == 0 then return "0 s" end
  if seconds < 0.9995e-3 then return three_digits(seconds * 1e6) .. " us" end
  if seconds < 0.9995 then return three_digits(seconds * 1e3) .. " ms" end
  if seconds < 59.95 then return three_digits(seconds) .. " s" end
  if seconds >= 1e9 then return "for ever" end
  local s <const> = math.floor(seconds + 0.5)
  if s < 3600 then return ("%dm %02ds"):format(s // 60, s % 60) end
  if s < 86400 then return ("%dh %02dm"):format(s // 3600, s % 3600 // 60) end
  return ("%dd %02dh"):format(s // 86400, s % 86400 // 3600)
end

---Time as a clock, for progress lines.
---@param seconds number
---@return string `00:12`, `1:02:03`
function units.format_clock(seconds)
  if seconds ~= seconds or seconds < 0 or seconds >= 3600000 then return "--:--" end
  local s <const> = math.floor(seconds + 0.5)
  if s < 3600 then return ("%02d:%02d"):format(s // 60, s % 60) end
  return ("%d:%02d:%02d"):format(s // 3600, s % 3600 // 60, s % 60)
end

---An integer of 64 bits without sign, as keys are: Lua shows those from 2^63 on as negative.
---@param n integer
---@return string
function units.format_unsigned(n)
  if n >= 0 then return ("%d"):format(n) end
  local tenth <const> = (n >> 1) // 5
  return ("%d%d"):format(tenth, n - tenth * 10)
end

return units
