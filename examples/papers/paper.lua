-- What the scripts of this directory share: runs of Tide's examples as processes, published points, medians over seeds,
-- a table, a chart, and the page that all.lua makes of them. A script declares itself, measures, and is done:
--
--   local paper = require "paper"
--   local p = paper.open {name = "boa", title = "BOA", source = "...", options = {...}}
--   tide.main(function()
--     local runs = p:sim("boa", {policy = "batching/equal"})       -- one list of JSON objects a seed
--     p:row {what = "time over the best split", ours = p:figure(runs, function(r) return r.over end), most = 1.05}
--     p:chart {...}
--     p:close()
--   end)
local tide = require "tide"
local published = require "published"

local paper = {}
paper.__index = paper

local SEEDS <const> = {1, 2, 3} -- of all papers
local BINARY <const> = '"$(readlink /proc/$PPID/exe)"' -- the program that runs this script, as the shell finds it
local DIRECTORY <const> = arg[0]:match "^(.*/)" or "./"

---@class paper.about
---@field name string of the script
---@field title string short name of the system
---@field source string authors, title, venue
---@field where string what is simulated, what is real
---@field arguments? string that the page's command needs
---@field options? table further options of the script

---Declares the script's options and returns the paper.
---@param about paper.about
function paper.open(about)
  local fields <const> = {
    small = {"two points a curve and one seed, to see that it works", default = false},
    chart = {"file for the chart", default = (".tide/papers/%s.svg"):format(about.name)},
    data = {"directory with data sets; without it they are generated, or left out", type = "directory"},
    json = {"one JSON object instead of text", default = false},
  }
  for name, field in pairs(about.options or {}) do fields[name] = field end
  local opt <const> = tide.options(fields)
  return setmetatable({about = about, opt = opt, seeds = opt.small and {SEEDS[1]} or SEEDS, rows = {}, charts = {},
                       notes = {}, missing = {}, quiet = opt.json or tide.output and tide.output.json,
                       began = tide.now()}, paper)
end

local function quoted(word) return "'" .. tostring(word):gsub("'", "'\\''") .. "'" end

---Options as words, in the order of their names.
local function words_of(options)
  local names, words = {}, {}
  for name in pairs(options) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local value <const> = options[name]
    if value == true then
      words[#words + 1] = "--" .. name
    elseif value ~= false then
      words[#words + 1] = "--" .. name .. " " .. quoted(value)
    end
  end
  return table.concat(words, " ")
end

local known = {} -- by command: what it printed

---The JSON objects that a command of Tide prints, one a line; processor_s: what it and its nodes took.
local function objects_of(command)
  if known[command] then return known[command] end
  local errors <const> = os.tmpname()
  local pipe <const> = assert(io.popen(
    ("OPENBLAS_NUM_THREADS=1 nice -n 5 %s %s 2>%s; code=$?; times; exit $code"):format(BINARY, command, errors)))
  local list <const> = {}
  for line in pipe:lines() do
    local object <const> = line:find "^{" and tide.json.decode(line)
    if object and object.schema ~= "tide.sim/1" then list[#list + 1] = object end
    local user_m, user_s, system_m, system_s = line:match "^(%d+)m([%d.]+)s (%d+)m([%d.]+)s$"
    if user_m then -- the last such line is the children's
      list.processor_s = 60 * (user_m + system_m) + user_s + system_s
    end
  end
  local ok <const> = pipe:close()
  local file <close> = io.open(errors)
  local said <const> = file and file:read "a" or ""
  os.remove(errors)
  if not ok or #list == 0 then error(("`tide %s` failed: %s"):format(command, said), 0) end
  known[command] = list
  return list
end

---The file of an example, by its name, or of a script by its path from the root of the repository.
local function script_of(name)
  return DIRECTORY .. (name:find "/" and "../../" .. name or ("../%s.lua"):format(name))
end

---Runs an example in the simulator, once a seed.
---@param name string such as "psld", or a path from the repository's root
---@param options table of the example
---@param world? table options of the simulator
---@return table[][] by seed: the JSON objects that it prints
function paper:sim(name, options, world)
  local by_seed <const> = {}
  for i, seed in ipairs(self.seeds) do
    by_seed[i] = objects_of(("sim --json --no-files --seed %d %s %s %s"):format(seed, words_of(world or {}),
      script_of(name), words_of(options)))
  end
  return by_seed
end

---Runs an example that has an option `seed` with real processes, once a seed.
function paper:real(name, options)
  local by_seed <const> = {}
  for i, seed in ipairs(self.seeds) do
    by_seed[i] = objects_of(("run --json %s %s --seed %d"):format(script_of(name), words_of(options), seed))
  end
  return by_seed
end

---The JSON objects of another command, such as "sim jobs w.csv".
function paper.command(_, text, options) -- luacheck: no self
  return objects_of(text .. " --json " .. words_of(options or {}))
end

---What a paper's script measures; its chart goes to options.chart.
---@return table
function paper.run(name, options)
  return objects_of(("run --json %s%s.lua %s"):format(DIRECTORY, name, words_of(options)))[1]
end

---Median, least and most over the seeds.
---@param runs table[][] of sim, real
---@param f fun(first: table, all: table[], i: integer): number|nil of the objects of the i-th seed
---@return {y: number, low: number, high: number, all: number[]}
function paper.figure(_, runs, f)
  local all, sorted = {}, {}
  for i, objects in ipairs(runs) do
    all[i] = f(objects[1], objects, i)
    sorted[i] = all[i]
  end
  table.sort(sorted)
  return {y = sorted[(#sorted + 1) // 2], low = sorted[1], high = sorted[#sorted], all = all}
end

---How many times as fast as `base` other runs are, by seed.
---@param seconds fun(first: table, all: table[]): number|nil
---@param base_seconds? fun(first: table, all: table[]): number of `base`, where it is another
function paper:speedup(base, runs, seconds, base_seconds)
  return self:figure(runs, function(first, all, i)
    local s <const> = seconds(first, all)
    return s and (base_seconds or seconds)(base[i][1], base[i]) / s
  end)
end

---A point of a chart: x, the figure's median, and the seeds' least and most.
function paper.point(_, x, figure) return {x, figure.y, figure.low, figure.high} end

local function set_of(name) return published[name] or error(name .. " is not in published.lua", 0) end

---The published points of a name as a series of marks.
function paper.published(_, name)
  local set <const> = set_of(name)
  local points = {}
  for i, p in ipairs(set.points) do points[i] = {p.x, p.y, p.low, p.high} end
  return {name = set.name .. " (" .. set.mark .. ")", marks = true, points = points}
end

---A published value as a level line from one x to another: its own x is not known.
function paper.line(_, name, from, to)
  local set <const> = set_of(name)
  return {name = set.name .. " (" .. set.mark .. ")", points = {{from, set.points[1].y}, {to, set.points[1].y}}}
end

---One published value: {y, mark}.
function paper.value(_, name, x)
  local set <const> = set_of(name)
  for _, p in ipairs(set.points) do
    if x == nil or p.x == x then return {y = p.y, low = p.low, high = p.high, mark = set.mark} end
  end
  error(("%s has no point at %s"):format(name, x), 0)
end

---Writes a file below .tide/papers/, such as costs or generated data.
---@return string path
function paper.write(_, name, text)
  local path <const> = ".tide/papers/" .. name
  os.execute("mkdir -p '" .. path:match "^(.*)/" .. "'")
  local file <close> = assert(io.open(path, "w"))
  file:write(text)
  return path
end

---What kernels cost, as a file for `tide sim --costs`: {[kernel] = seconds of a row}; call_s of a call, else 10 us.
function paper:costs(name, rows, call_s)
  local kernels <const> = {}
  for kernel, seconds in pairs(rows) do kernels[kernel] = {call_s = call_s or 1e-5, row_s = seconds} end
  return self:write(name .. ".json", tide.json.encode {schema = "tide.costs/1", kernels = kernels})
end

---A row of the table.
---@param row {what: string, published?: table, ours: table|number, unit?: string, least?: number, most?: number,
---  note?: string}
function paper:row(row)
  local ours <const> = type(row.ours) == "number" and {y = row.ours} or row.ours
  local pub <const> = row.published
  local pass
  if row.least or row.most then
    pass = ours.y ~= nil and (not row.least or ours.y >= row.least) and (not row.most or ours.y <= row.most)
  end
  self.rows[#self.rows + 1] = {
    what = row.what, published = pub and pub.y, mark = pub and pub.mark, ours = ours.y, low = ours.low,
    high = ours.high, unit = row.unit, ratio = pub and ours.y and ours.y / pub.y, least = row.least, most = row.most,
    pass = pass, note = row.note,
  }
end

---@param chart table as of tide.chart.svg
function paper:chart(chart)
  chart.note = chart.note or (#self.seeds > 1 and "median of seeds 1, 2, 3; band: least to most" or "seed 1")
  self.charts[#self.charts + 1] = chart
end

---What must hold in the small form too, such as an order of two systems.
function paper.check(_, holds, text) if not holds then error("does not hold: " .. text, 0) end end

---A condition that differs from the paper's, or a constant with its source.
function paper:differs(text) self.notes[#self.notes + 1] = text end

---What is not reproduced, and why.
function paper:lacks(text) self.missing[#self.missing + 1] = text end

local function number(v)
  if not v then return "-" end
  if v == 0 or math.abs(v) >= 1e6 or math.abs(v) < 1e-3 then return ("%.3g"):format(v) end
  return (("%.4g"):format(v))
end

---The table's cells, as texts.
local function cells(row)
  local ours = number(row.ours) .. (row.unit and " " .. row.unit or "")
  if row.low and number(row.low) ~= number(row.high) then
    ours = ("%s (%s to %s)"):format(ours, number(row.low), number(row.high))
  end
  local mark = row.least and row.most and ("%s to %s"):format(number(row.least), number(row.most))
    or row.least and "at least " .. number(row.least) or row.most and "at most " .. number(row.most) or "-"
  if row.pass ~= nil then mark = mark .. (row.pass and ": yes" or ": **no**") end
  return {row.what, row.published and ("%s (%s)"):format(number(row.published), row.mark) or "not found", ours,
          row.ratio and ("%.2f"):format(row.ratio) or "-", mark, row.note or ""}
end

local HEADS <const> = {"figure", "published", "ours", "ratio", "pass mark", "note"}

---The paper as a part of the page, from what close printed.
---@param result table
---@param chart string path of the chart, from the page
---@return string
function paper.markdown(result, chart)
  local out <const> = {("## %s"):format(result.title), "",
    ("%s. %s. Command: `tide run examples/papers/%s.lua%s`."):format(result.source, result.where, result.name,
      result.arguments or ""), "",
    ("![%s](%s)"):format(result.title, chart), "", "| " .. table.concat(HEADS, " | ") .. " |",
    ("|---"):rep(#HEADS) .. "|"}
  for _, row in ipairs(result.rows) do out[#out + 1] = "| " .. table.concat(cells(row), " | ") .. " |" end
  for _, part in ipairs {{"Conditions that differ", result.notes}, {"Not reproduced", result.missing}} do
    if #part[2] > 0 then
      out[#out + 1], out[#out + 2], out[#out + 3] = "", part[1] .. ":", ""
      for _, text in ipairs(part[2]) do out[#out + 1] = "- " .. text end
    end
  end
  return table.concat(out, "\n") .. "\n"
end

---Writes the chart, and prints the table, or with --json all as one object.
function paper:close()
  local about <const> = self.about
  assert(tide.chart.write(self.opt.chart, self.charts))
  if self.quiet then
    local result <const> = {schema = "tide.paper/1", name = about.name, title = about.title, source = about.source,
                            where = about.where, arguments = about.arguments, seconds = tide.now() - self.began}
    return print(tide.json.object(result, {rows = self.rows, notes = self.notes, missing = self.missing,
                                           seeds = self.seeds}))
  end
  print(about.source .. "\n" .. about.where .. "\n")
  for _, row in ipairs(self.rows) do
    local c <const> = cells(row)
    print(("%-52s published %-18s ours %-28s ratio %-5s %s"):format(c[1], c[2], c[3], c[4],
      c[5]:gsub("%*", "")))
  end
  for _, text in ipairs(self.notes) do print("differs: " .. text) end
  for _, text in ipairs(self.missing) do print("not reproduced: " .. text) end
  print("chart: " .. self.opt.chart)
end

return paper
