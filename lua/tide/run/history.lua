-- What is left of runs: the directories .tide/runs/ID. Files are the truth, there is no database beside them.
--
--   run.json       person, job and how it ended; replaced as a whole when the state changes
--   reports.jsonl  the numbers of each report, a line each, as they come: the run's curves
--   events.jsonl   what happened, a line each
--   notes.json     what people noted about it (notes.lua)
--   run.log, script.lua, options.json, summary.json, policies-JOB.journal, node-*.log
--
-- A driver that is killed leaves its run as "running" in run.json; a reader finds that its process is gone, by
-- pid and start time, and calls it lost. A line that was cut off is left out. Names of runs are matched against the
-- names of directories and never joined to paths from outside.
local checks = require "tide.checks"
local core = require "tide.core"
local errors = require "tide.errors"
local json = require "tide.json"
local notes = require "tide.run.notes"
local report_of = require "tide.report"
local run_params = require "tide.run.params"
local text = require "tide.text"

local history = {}

history.ROOT = ".tide/runs" ---@type string

local SCHEMA <const> = "tide.run/1"
local RECORD_BYTES <const> = 64 << 10 -- of a run.json that is read
local SMALL <const> = 20000 -- runs that are read without looking for garbage meanwhile
local LIVING <const> = {queued = true, running = true}

local function read(path, limit)
  local file <const> = io.open(path, "rb")
  if not file then return nil end
  local content <const> = file:read(limit or "a")
  file:close()
  return content
end

---- of the process that writes -------------------------------------------------------------------------------------

---@param pid integer|string "self" for this one
---@return integer|nil ticks since the machine began, when this process began
function history.began(pid)
  local rest <const> = (read(("/proc/%s/stat"):format(pid)) or ""):match "^%d+ %(.*%) %S+ (.*)$"
  if not rest then return nil end
  local n = 0
  for word in rest:gmatch "%S+" do
    n = n + 1
    if n == 19 then return math.tointeger(tonumber(word)) end
  end
end

---@return string name of this machine
function history.host() return (read "/proc/sys/kernel/hostname" or "?"):match "^%S*" end

---@return string|nil the commit that the current directory's tree is at
local function git_commit()
  local head <const> = read(".git/HEAD", 4096)
  if not head then return nil end
  local ref <const> = head:match "^ref: ([%w_./-]+)"
  local commit <const> = ref and read(".git/" .. ref, 4096) or head
  return commit:match "^(%x+)%s*$"
end

---What a run's record says of the process that keeps it.
---@return table
function history.process()
  local pid <const> = require("tide.directory").own_pid()
  return {pid = pid, began = history.began(pid), host = history.host(), user = core.person(), version = core.version,
          git = git_commit()}
end

---Writes run.json, as a whole.
---@param directory string
---@param record table
---@return true|nil, table? err
function history.write(directory, record)
  record.schema = SCHEMA
  record.params = record.params and run_params.printable(record.params)
  return core.file_write(directory .. "/run.json", core.json_encode(record) .. "\n")
end

---- for readers ----------------------------------------------------------------------------------------------------

---@class tide.past_run
---@field id string its directory
---@field name? string "mf-1"
---@field job? string
---@field state string queued, running, done, stopped, failed, lost; "unreadable"
---@field why? string
---@field script? string
---@field args? string[]
---@field seed? integer
---@field params? table
---@field user? string
---@field note? string
---@field tags? string[]
---@field started_at? number seconds since 1970
---@field ended_at? number
---@field took_s? number
---@field reports? integer
---@field loss? number
---@field examples_per_s? number
---@field directory string

-- Whether the process that kept a run is there yet; nil: unknown here.
local function is_alive(record, here)
  if record.host ~= here.host then return nil end
  local began <const> = record.pid and history.began(record.pid)
  return began ~= nil and (record.began == nil or began == record.began)
end

local function with_notes(record, directory)
  local noted <const> = notes.read(directory)
  record.note, record.tags = noted.note, #noted.tags > 0 and noted.tags or nil
  return record
end

-- Fields of files in a run's directory (checks.odd_field).
local ERROR <const> = {code = "string", where = "string", message = "string"}
local RECORD <const> = {
  name = "string", job = "string", state = "string", why = "string", script = "string", sha256 = "string",
  user = "string", host = "string", cluster = "string", version = "string", git = "string", pid = "number",
  began = "number", seed = "number", reports = "number", loss = "number", examples_per_s = "number",
  started_at = "time", ended_at = "time", params = "table", args = "strings", error = ERROR,
}
local EVENT <const> = {time = "time", kind = "string", text = "string"}
local REPORT <const> = {n = "number", time = "number", elapsed_s = "number", examples = "number"}

-- `known`: records of runs that are over, by id, which are not read again; nil: none are kept.
local function of_directory(root, id, here, known)
  local directory <const> = root .. "/" .. id
  if known and known[id] then return with_notes(known[id], directory) end
  local content <const> = read(directory .. "/run.json", RECORD_BYTES)
  if not content then return nil end
  local record <const> = core.json_decode(content)
  if type(record) ~= "table" then
    return {id = id, state = "unreadable", why = "run.json is damaged", directory = directory}
  elseif record.schema ~= SCHEMA then
    return {id = id, state = "unreadable", directory = directory,
            why = ("run.json is of schema %s"):format(text.clean(tostring(record.schema)))}
  end
  local odd <const> = checks.odd_field(record, RECORD)
  if odd then
    return {id = id, state = "unreadable", why = ("run.json is damaged: `%s`"):format(odd), directory = directory}
  end
  record.id, record.directory = id, directory -- whatever it says of itself
  with_notes(record, directory)
  if known and not LIVING[record.state] then known[id] = record end
  if LIVING[record.state] and is_alive(record, here) == false then
    record.state, record.why = "lost", "its driver is gone"
  end
  if record.started_at and record.ended_at then record.took_s = record.ended_at - record.started_at end
  return record
end

---@param run tide.past_run
---@return boolean whether it has not ended
function history.is_living(run) return LIVING[run.state] or false end

local function is_id(name) return name:find "^[%w][%w_.-]*$" ~= nil and #name <= 128 end

---@param root? string default .tide/runs
---@param known? table<string, tide.past_run> of an earlier list: runs that were over then are not read again, but for
---  their notes
---@return tide.past_run[] oldest first
function history.list(root, known)
  root = root or history.ROOT
  local here <const>, list = {host = history.host()}, {}
  local names <const> = core.file_list(root) or {}
  table.sort(names)
  local small <const> = #names <= SMALL
  if small then collectgarbage "stop" end -- all that is read stays
  for _, id in ipairs(names) do
    local record <const> = is_id(id) and of_directory(root, id, here, known)
    if record then list[#list + 1] = record end
  end
  if small then collectgarbage "restart" end
  table.sort(list, function(a, b) -- names have seconds only
    local at <const>, other <const> = a.started_at or 0, b.started_at or 0
    return at < other or at == other and a.id < b.id
  end)
  return list
end

---The run that is meant: its id or the beginning of one, or the newest that is called so ("mf-1"), or "last".
---@param wanted string
---@param root? string
---@return tide.past_run|nil, tide.error? err
function history.find(wanted, root)
  root = root or history.ROOT
  local here <const> = {host = history.host()}
  if is_id(wanted) then
    local exact <const> = of_directory(root, wanted, here)
    if exact then return exact end
  end
  local list <const>, matches = history.list(root), {}
  if wanted == "last" and #list > 0 then return list[#list] end
  for _, run in ipairs(list) do
    if run.id:sub(1, #wanted) == wanted then matches[#matches + 1] = run end
  end
  if #matches == 1 then return matches[1] end
  if #matches > 1 then
    return nil, errors.new("T0401", {
      message = ("`%s` matches %d runs"):format(text.clean(wanted), #matches),
      help = ("give more letters of the id: %s, %s"):format(matches[1].id, matches[2].id)})
  end
  for i = #list, 1, -1 do
    if list[i].name == wanted or list[i].job == wanted then return list[i] end
  end
  local ids = {}
  for i, run in ipairs(list) do ids[i] = run.id end
  return nil, checks.unknown("T0401", "there is no run `%s` in " .. root, wanted, ids, "`tide runs` lists them")
end

-- Lines of JSON with such fields.
local function lines_of(content, types)
  local list = {}
  for _, value in ipairs(json.lines(content)) do
    if not checks.odd_field(value, types) then list[#list + 1] = value end
  end
  return list
end

---@param run tide.past_run
---@return table<string, number>[] reports, oldest first: the numbers of each, with n, elapsed_s, time
function history.reports(run) return lines_of(read(run.directory .. "/reports.jsonl") or "", REPORT) end

-- Where a field's number begins in the line from `at` to `stop`; nil: the line has no such field.
local function number_at(content, needle, at, stop)
  while true do
    local first <const>, last <const> = content:find(needle, at, true)
    if not first or first > stop then return nil end
    local before <const> = content:byte(first - 2) -- of the name's quote: a name may end like another one
    if content:byte(first - 1) == 34 and (before == 44 or before == 123) then return last + 1 end
    at = last + 1
  end
end

local NEAR <const> = 96 -- lines are alike: a field stands about as far from their beginning as in the one before

---Some numbers of all reports, without reading the others: a run may have 100 fields and 10^5 reports.
---@param run tide.past_run
---@param names string[]
---@return table<string, number>[] reports, oldest first: those of these fields that each has
function history.columns(run, names)
  local file <const> = io.open(run.directory .. "/reports.jsonl", "rb")
  if not file then return {} end
  local size <const> = file:seek "end"
  file:seek "set"
  local content <const>, rows, at = file:read(size) or "", {}, 1
  file:close()
  local needles, offsets = {}, {}
  for i, name in ipairs(names) do needles[i], offsets[i] = core.json_encode(name):sub(2) .. ":", 0 end
  while true do
    local stop <const> = content:find("\n", at, true)
    if not stop then return rows end
    local row = {}
    for i, name in ipairs(names) do
      local from <const>, needle <const> = at + math.max(offsets[i] - NEAR, 0), needles[i]
      local number = number_at(content, needle, from, stop)
      if not number and from > at then number = number_at(content, needle, at, stop) end
      if number then
        row[name], offsets[i] = tonumber(content:match("^[-+%d.eE]+", number)), number - #needle - at
      end
    end
    rows[#rows + 1], at = row, stop + 1
  end
end

local EDGE_BYTES <const> = 256 << 10 -- of the beginning and the end of a file whose names are looked for

---The first and the last reports of a run, whole.
---@param run tide.past_run
---@return table<string, number>[]
function history.edges(run)
  local file <const> = io.open(run.directory .. "/reports.jsonl", "rb")
  if not file then return {} end
  local content = file:read(EDGE_BYTES) or ""
  if file:seek "end" > EDGE_BYTES then
    file:seek("end", -EDGE_BYTES)
    content = (content:match "^.*\n" or "") .. ((file:read "a" or ""):match "\n(.*)$" or "")
  end
  file:close()
  return lines_of(content, REPORT)
end

---@param run tide.past_run
---@return {time: number, kind: string, text: string}[] oldest first
function history.events(run) return lines_of(read(run.directory .. "/events.jsonl") or "", EVENT) end

---Names of curves that reports have.
---@param reports table[]
---@param bins? boolean those of histograms too: `fc1.weights_bin_-3`
---@return string[]
function history.names(reports, bins)
  local seen = {}
  for _, report in ipairs(reports) do
    for name, value in pairs(report) do
      if type(value) == "number" and (bins or not name:find "_bin_%-?%d+$") then seen[name] = true end
    end
  end
  seen.n, seen.clock, seen.time, seen.elapsed_s = nil, nil, nil, nil
  return text.sorted_keys(seen)
end

---Points of a curve, at most `most`: the least, the greatest and the last of each stretch stay.
---@param reports table[]
---@param name string
---@param x "n"|"elapsed_s"|"examples"
---@param most? integer default 2,000
---@return number[][] points {x, y}
function history.curve(reports, name, x, most)
  local points, examples = {}, 0
  for _, report in ipairs(reports) do
    examples = examples + (type(report.examples) == "number" and report.examples or 0)
    local y <const> = report_of.value(report, name)
    local at <const> = x == "examples" and examples or report[x]
    if y and type(at) == "number" then points[#points + 1] = {at, y} end
  end
  most = most or 2000
  if #points <= most then return points end
  local thinned, each = {}, #points / (most // 3)
  for stretch = 0, most // 3 - 1 do
    local first <const>, last <const> = math.floor(stretch * each) + 1, math.floor((stretch + 1) * each)
    local low, high = first, first
    for i = first, last do
      if points[i][2] < points[low][2] then low = i end
      if points[i][2] > points[high][2] then high = i end
    end
    local kept <const> = {math.min(low, high), math.max(low, high), last}
    for k, i in ipairs(kept) do
      if k == 1 or i ~= kept[k - 1] then thinned[#thinned + 1] = points[i] end
    end
  end
  return thinned
end

return history
