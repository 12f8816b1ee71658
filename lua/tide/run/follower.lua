-- Increments over links, the follower: copies what a run publishes (tide.run.increments) to this machine.
--
-- The follower copies what it lacks of the newest generation's chain, file by file, and writes a generation's manifest
-- last: the directory has whole generations only. A copy that was cut off continues at the position that it reached.
-- tide.reader verifies the files when it loads them and then swaps versions, as from the original directory.
--
-- Ages are durations: the follower subtracts the age of a cut from its own clock at the moment of its request. So the
-- clocks of two machines are never compared, and an age is never too low.
local core = require "tide.core"
local errors = require "tide.errors"
local gc = require "tide.run.gc"
local increments = require "tide.run.increments"
local remote_run = require "tide.run.remote"
local text = require "tide.text"

local follower = {}

local MANIFEST <const>, CUTS <const> = increments.MANIFEST, "FOLLOWED.json"
local ATTEMPTS <const> = 3 -- of a pass whose generation was removed meanwhile

local function refuse(code, message, help) return nil, errors.new(code, {message = message, help = help}) end

local function file_error(path, why)
  return nil, errors.new("T0403", {message = ("%s: %s"):format(path, tostring(why):gsub("^.*: ", ""))})
end

-- Written beside its place and renamed: readers see the old text or the new one. What a crash loses is copied anew.
local function put(path, content)
  local beside <const> = path .. ".tmp"
  local file <close>, why <const> = io.open(beside, "wb")
  if not file then return file_error(path, why) end
  local ok, problem = file:write(content)
  if ok then ok, problem = file:close() end
  if ok then ok, problem = os.rename(beside, path) end
  if not ok then return file_error(path, problem) end
  return true
end

-- Copies what is missing of a file.
local function fetch_file(ask, path, request, size)
  local file <close>, why <const> = io.open(path, "ab")
  if not file then return file_error(path, why) end
  local at = file:seek "end"
  if at > size then -- two followers wrote it
    os.remove(path)
    return refuse("T0702", ("`%s` has %d bytes of %d; it is copied anew"):format(path, at, size))
  end
  while at < size do
    request.op, request.at = "published.part", at
    local answer <const>, err = ask(request)
    if not answer then return nil, err end
    if answer.text == "" then return refuse("T0702", ("`%s` ends at %d of %d bytes"):format(path, at, size)) end
    local ok <const>, problem = file:write(answer.text)
    if not ok then return file_error(path, problem) end
    at = at + #answer.text
  end
  local ok <const>, problem = file:flush()
  if not ok then return file_error(path, problem) end
  return true
end

-- Another generation of this number lies there, or none: what was copied of it is of no use.
local function prepare(path, manifest)
  local coming <const> = path .. "/" .. MANIFEST .. ".coming"
  if core.file_read(coming) ~= manifest then
    local ok, err = gc.remove(path)
    if ok then ok, err = core.mkdir(path) end
    if ok then ok, err = put(coming, manifest) end
    if not ok then return nil, errors.from(err, "T0403") end
  end
  return coming
end

local function fetch_generation(ask, dir, name, number)
  local answer <const>, err = ask {op = "published.files", table = name, generation = number}
  if not answer then return nil, err end
  local path <const> = increments.path(dir, number)
  if core.file_read(path .. "/" .. MANIFEST) == answer.manifest then return 0 end
  local coming <const>, problem = prepare(path, answer.manifest)
  if not coming then return nil, problem end
  local bytes = 0
  for _, f in ipairs(answer.files) do
    if not f.name:find "^[^./][^/]*$" then return refuse("T0703", "a file is called " .. text.clean(f.name)) end
    local ok, why = fetch_file(ask, path .. "/" .. f.name, {table = name, generation = number, file = f.name}, f.size)
    if not ok then return nil, why end
    bytes = bytes + f.size
  end
  local ok <const>, why = os.rename(coming, path .. "/" .. MANIFEST)
  if not ok then return file_error(path, why) end
  return bytes
end

-- Notes when, by the own clock, the cut of a generation was at the latest ago; forgets generations that are not needed.
local function settle(dir, newest, asked_at)
  local needed, cuts <const> = {}, {}
  for _, number in ipairs(newest.chain) do needed[number] = true end
  local before <const> = core.json_decode(core.file_read(dir .. "/" .. CUTS) or "null")
  for number, at in pairs(type(before) == "table" and before.cuts or {}) do
    cuts[number] = needed[math.tointeger(tonumber(number))] and at or nil
  end
  cuts[tostring(newest.generation)] = asked_at - newest.age_s
  local ok <const>, err = put(dir .. "/" .. CUTS, core.json_encode {table = newest.table, cuts = cuts})
  if not ok then return nil, err end
  for _, number in ipairs(increments.generations(dir)) do
    if not needed[number] then gc.remove(increments.path(dir, number)) end
  end
  return true
end

local function pass(ask, dir, name)
  local asked_at <const> = core.wall()
  local newest <const>, err = ask {op = "published", table = name}
  if not newest then return nil, err end
  local had <const> = increments.generations(dir)[1]
  if had and had > newest.generation then
    return refuse("T0705", ("`%s` has generation %d, and `%s` is at %d: another checkpoint began"):format(dir, had,
      text.clean(newest.table), newest.generation), "follow it into an empty directory")
  end
  local bytes = 0
  for _, number in ipairs(newest.chain) do
    local some <const>, problem = fetch_generation(ask, dir, newest.table, number)
    if not some then return nil, problem end
    bytes = bytes + some
  end
  local ok <const>, problem = settle(dir, newest, asked_at)
  if not ok then return nil, problem end
  return {table = newest.table, generation = newest.generation, bytes = bytes, behind_s = newest.age_s}
end

---Brings a directory up to date with the newest generation.
---@param ask fun(request: table): table?, tide.error? of the run's controller
---@param dir string
---@param name string of the table
---@return {table: string, generation: integer, bytes: integer, behind_s: number}|nil copied, tide.error? err
function follower.follow(ask, dir, name)
  local made <const>, err = core.mkdir(dir)
  if not made then return nil, errors.from(err, "T0403") end
  local copied, problem
  for _ = 1, ATTEMPTS do
    copied, problem = pass(ask, dir, name)
    if copied or problem.code ~= "T0702" then break end
  end
  return copied, problem
end

---When the cut of a generation was, by the clock of this machine: nil if the directory was not followed into.
---@param dir string
---@param generation integer
---@return number? wall_s
function follower.cut_at(dir, generation)
  local record <const> = core.json_decode(core.file_read(dir .. "/" .. CUTS) or "null")
  return type(record) == "table" and type(record.cuts) == "table" and record.cuts[tostring(generation)] or nil
end

-- The run whose controller publishes the table, of those that are active.
local function publisher(name)
  local run_name <const> = name:match "^(.-)%."
  local fits, names = {}, {}
  for _, run in ipairs(remote_run.list()) do
    if (not run_name or run.name == run_name) and run:refresh() and run.controller then
      local answer <const> = core.call(run.controller, {op = "published", table = name}, core.limit "run_follow_wait")
      names[#names + 1] = run.name
      if answer then fits[#fits + 1] = run end
    end
  end
  if #fits == 1 then return fits[1].controller end
  if #fits > 1 then
    return nil, errors.new("T0401", {message = ("%d runs publish a table `%s`"):format(#fits, text.clean(name)),
      help = ("name it with its run: %s.%s"):format(fits[1].name, name)})
  end
  return nil, errors.new("T0702", {message = ("no run publishes a table `%s`"):format(text.clean(name)),
    help = #names == 0 and "no run is active: tide jobs"
      or "it is published once the run's job has written a generation: checkpoint = {dir = .., every = \"5s\"}"})
end

---In an actor of a client: one pass.
---@param request {table: string, dir: string}
---@return table|nil copied, tide.error? err
function follower.inside(request)
  local address <const>, err = publisher(request.table)
  if not address then return nil, err end
  return follower.follow(function(asked)
    local answer <const>, problem = core.call(address, asked, core.limit "run_follow_wait")
    return answer, problem and errors.from(problem)
  end, request.dir, request.table)
end

return follower
