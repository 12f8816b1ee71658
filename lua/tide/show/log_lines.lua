-- Lines of logs: read from files of both forms, chosen by level, node and time, merged, written.
--
-- A line is "2026-11-26 23:15:04.123 warn  n1: text" or {"time", "level", "node", "text"} as JSON; times are in UTC.
-- Lines of run.log have a time and no level; an error there is of level "error".
-- What has no time belongs to the line before it.
local core = require "tide.core"
local text = require "tide.text"

local log_lines = {}

---@class tide.log_line
---@field time number seconds since 1970
---@field level "debug"|"info"|"warn"|"error"
---@field node string
---@field text string

---@type table<string, integer>
log_lines.LEVELS = {debug = 1, info = 2, warn = 3, error = 4}

local function days_of(year, month, day)
  if month <= 2 then year = year - 1 end
  local era_year <const> = year % 400
  local shifted <const> = (month + 9) % 12
  local year_day <const> = (153 * shifted + 2) // 5 + day - 1
  return year // 400 * 146097 + era_year * 365 + era_year // 4 - era_year // 100 + year_day - 719468
end

---@param stamp string "2026-11-26 23:15:04.123", or with T and Z
---@return number|nil seconds since 1970
function log_lines.time(stamp)
  local y <const>, mo <const>, d <const>, h <const>, mi <const>, s <const> =
    stamp:match "^(%d%d%d%d)%-(%d%d)%-(%d%d)[T ](%d%d):(%d%d):(%d%d%.?%d*)"
  if not y then return nil end
  return days_of(y // 1 | 0, mo // 1 | 0, d // 1 | 0) * 86400 + h * 3600 + mi * 60 + tonumber(s)
end

---Reads a line of run.log: which rank wrote it, when, and to which stream.
---@param line string without its end
---@return {time: string, rank: integer, node: string?, err: boolean, fatal: boolean, text: string}|nil entry nil: the
---  line continues the one before; rank 0: the script itself and Tide; fatal: the error that ended the run, or a worker
function log_lines.entry(line)
  local time <const>, rest <const> = line:match "^(%d%d%d%d%-%d%d%-%d%d %d%d:%d%d:%d%d%.%d%d%d) (.*)$"
  if not time then return nil end
  local node, rank, mark, said = rest:match "^%[(%S+) #(%d+)( ?e?r?r?)%] ?(.*)$"
  if not node or mark ~= "" and mark ~= " err" then
    node, rank, said = nil, 0, rest:match "^%[err%] (.*)$"
    mark = said and " err" or ""
  end
  said = said or rest
  local fatal <const> = said:find "^error%[T%d+%]" ~= nil
  return {time = time, rank = math.tointeger(tonumber(rank)) or 0, node = node, err = mark ~= "" or fatal and not node,
          fatal = fatal, text = said}
end

local function parsed(line, node)
  if line:sub(1, 1) == "{" then
    local value <const> = core.json_decode(line)
    local time <const> = type(value) == "table" and log_lines.time(tostring(value.time))
    if time then
      return {time = time, level = log_lines.LEVELS[value.level] and value.level or "info",
              node = value.node ~= "" and value.node or node, text = tostring(value.text)}
    end
  end
  local stamp <const>, rest <const> = line:match "^(%d+%-%d+%-%d+ %d+:%d+:%d+%.%d+) (.*)$"
  local time <const> = stamp and log_lines.time(stamp)
  if not time then return nil end
  local level, said = rest:match "^(%l+) +(.*)$"
  if not log_lines.LEVELS[level] then
    local entry <const> = log_lines.entry(line) -- of the log of a run
    level, said = entry and entry.fatal and "error" or "info", rest
  end
  local who <const>, what <const> = said:match "^([%w_.-]+): (.*)$"
  if who and level and rest:find "^%l+ " and log_lines.LEVELS[rest:match "^%l+"] then
    return {time = time, level = level, node = who, text = what}
  end
  return {time = time, level = level, node = node, text = said}
end

---@param content string of a file
---@param node string whose it is, where a line does not say
---@return tide.log_line[]
function log_lines.read(content, node)
  local list = {}
  for line in content:gmatch "([^\n]*)\n" do
    local one <const> = parsed(line, node)
    if one then
      list[#list + 1] = one
    elseif line ~= "" then
      local last <const> = list[#list]
      list[#list + 1] = {time = last and last.time or 0, level = last and last.level or "info", node = node,
                         text = line}
    end
  end
  return list
end

---@param lists tide.log_line[][] each oldest first
---@return tide.log_line[] oldest first
function log_lines.merge(lists)
  local all, place = {}, {}
  for _, list in ipairs(lists) do
    for _, line in ipairs(list) do
      all[#all + 1] = line
      place[line] = #all
    end
  end
  table.sort(all, function(a, b)
    if a.time ~= b.time then return a.time < b.time end
    return place[a] < place[b]
  end)
  return all
end

---@param list tide.log_line[]
---@param o {level?: string, node?: string, since?: number, search?: string in any case of letters}
---@return tide.log_line[]
function log_lines.chosen(list, o)
  local least <const>, search <const>, out = log_lines.LEVELS[o.level or "debug"], o.search and o.search:lower(), {}
  for _, line in ipairs(list) do
    if log_lines.LEVELS[line.level] >= least and (not o.node or line.node == o.node)
      and (not o.since or line.time >= o.since)
      and (not search or line.text:lower():find(search, 1, true)) then
      out[#out + 1] = line
    end
  end
  return out
end

---@param line tide.log_line
---@return string
function log_lines.text(line)
  local seconds <const> = line.time // 1 | 0
  return ("%s.%03d  %-5s  %s: %s"):format(os.date("!%F %T", seconds), (line.time - seconds) * 1000 // 1 | 0, line.level,
    text.clean(line.node), text.clean_lines(line.text))
end

---Prints lines in the form that was asked for.
---@param context tide.context
---@param list tide.log_line[]
---@param most? integer only the newest of them
function log_lines.print(context, list, most)
  for i = math.max(1, #list - (most or #list) + 1), #list do
    local line <const> = list[i]
    if context.json then
      context:record({time = line.time, level = line.level, node = line.node, text = line.text})
    elseif context.plain then
      context:print(table.concat({("%.3f"):format(line.time), line.level, text.clean(line.node),
        text.clean(line.text)}, "\t"))
    else
      context:print(log_lines.text(line))
    end
  end
end

return log_lines
