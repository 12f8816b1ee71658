-- tide.reader: a table that is only read, from the checkpoints of a run. docs/guides/large-tables.md.
local checks = require "tide.checks"
local checkpoint = require "tide.run.checkpoint"
local children = require "tide.provision.children"
local core = require "tide.core"
local errors = require "tide.errors"
local follower = require "tide.run.follower"
local script = require "tide.script"
local units = require "tide.units"

---@class tide.reader
---@field problem tide.error|nil why the last refresh brought nothing
local reader = {}
reader.__index = reader

local FIELDS <const> = {dir = true, table = true, every = true, cluster = true, keys = true, wait = true}
local POLL_S <const>, WAIT_S <const> = 0.05, 60
local END_S <const> = 5 -- until the process that copies is killed

-- A process of its own copies generations from the cluster. It ends with this one.
local function start_copying(o, every_s)
  local made <const>, why = core.mkdir(o.dir)
  if not made then return nil, errors.from(why, "T0403") end
  local argv <const> = {children.program, "table", "follow", o.table, "--dir", o.dir, "--cluster", o.cluster,
                        "--every", ("%.3fs"):format(every_s > 0 and every_s or 1)}
  if o.keys then table.move({"--keys", o.keys}, 1, 2, #argv + 1, argv) end
  local process <const>, err = core.process(argv, {output = o.dir .. "/follow.log"})
  return process, err and errors.from(err, "T1001")
end

local function follow(self, o, every_s)
  while not self.closed do
    core.sleep(every_s)
    if self.closed then return end
    if self.process and self.process:ended() then self.process = start_copying(o, every_s) or self.process end
    self:refresh()
  end
end

-- A directory that has a generation serves at once, whether the cluster is there or not.
local function open_handle(o, process, wait_s)
  local deadline <const> = core.now() + wait_s
  while true do
    local handle <const>, err = core.reader(o.dir, o.table)
    if handle or not process then return handle, err and checkpoint.error(err, o.dir) end
    local absent <const> = checkpoint.error(err, o.dir).code == "T0702"
    if not absent or process:ended() or core.now() >= deadline then
      return nil, errors.new("T0702", {message = ("table `%s` has not come from cluster `%s`: %s"):format(o.table,
        o.cluster, children.last_lines(o.dir .. "/follow.log", 2)), help = "tide jobs --cluster " .. o.cluster})
    end
    core.sleep(POLL_S)
  end
end

---Loads a table of the newest generation in a checkpoint directory. With `every` it follows newer ones by itself. With
---`cluster` the directory is the reader's own: generations are copied there from a run of that cluster as they come.
---@param o {dir: string, table: string, every?: string|number, cluster?: string, keys?: string, wait?: string|number}
---@return tide.reader
function reader.open(o)
  checks.known("T0115", "tide.reader", o, FIELDS)
  if type(o.dir) ~= "string" or type(o.table) ~= "string" then
    error(script.error("T0113", 'tide.reader requires a directory and a table: {dir = "ckpt", table = "rows"}'), 2)
  end
  local every_s <const>, why <const> = units.parse_duration(o.every or 0)
  if not every_s or o.every and every_s == 0 then
    error(script.error("T0113", "every: " .. (why or "0 s; without it, r:refresh() loads a newer generation")), 2)
  end
  local wait_s <const>, problem <const> = units.parse_duration(o.wait or WAIT_S)
  if not wait_s then error(script.error("T0113", "wait: " .. problem), 2) end
  local process, err
  if o.cluster then
    process, err = start_copying(o, every_s)
    if not process then error(err, 2) end
  end
  local handle
  handle, err = open_handle(o, process, wait_s)
  if not handle then
    if process then process:signal(15) end
    error(err, 2)
  end
  local self <const> = setmetatable({handle = handle, dir = o.dir, process = process}, reader)
  if every_s > 0 then self.follower = core.fiber(follow, self, o, every_s) end
  return self
end

---Rows of keys, all of one generation. Keys without a row have their initial values.
---@param keys integer[]|tide.tensor
---@return tide.tensor rows f32
---@return tide.tensor found u8: 1 where the key has a row
---@return integer generation
function reader:pull(keys) return self.handle:pull(keys) end

---Loads a newer generation, if there is one. After an error the reader serves what it had.
---@return boolean? newer
---@return tide.error? err
function reader:refresh()
  local newer <const>, err <const> = self.handle:refresh()
  self.problem = newer == nil and checkpoint.error(err, self.dir) or nil
  if newer == nil then return nil, self.problem end
  return newer
end

---How old the rows may be at most, in seconds. Of a directory that another machine writes, it compares the wall clocks
---of both; of copies from a cluster, the own clock with itself.
---@return number
function reader:behind()
  local info <const> = self.handle:info()
  if self.cut_of ~= info.generation then
    self.cut_of, self.cut_at = info.generation, follower.cut_at(self.dir, info.generation)
  end
  return self.cut_at and math.max(0, core.wall() - self.cut_at) or info.behind_s
end

---What it serves: {generation, rows, bytes, width, loaded, read, behind_s}.
---@return table
function reader:info() return self.handle:info() end

---Ends it, and the process that copies: another reader may have the directory then.
function reader:close()
  if self.closed then return end
  self.closed = true
  if self.follower then core.fiber_cancel(self.follower) end
  self.handle:close()
  if not self.process then return end
  self.process:signal(15)
  local patience <const> = core.now() + END_S
  while not self.process:ended() and core.now() < patience do core.sleep(POLL_S) end
  if not self.process:ended() then self.process:signal(9) end
end
reader.__close = reader.close

---A patch as a file: keys, values and gone, from one generation to the newest.
---@param o {dir: string, table: string, since?: integer, path: string}
---@return {from: integer, to: integer, rows: integer, gone: integer, table: string}? what
---@return tide.error? err
function reader.export(o)
  local patch <const>, err <const> = core.table_patch(o.dir, o.table, o.since or 0)
  if not patch then return nil, checkpoint.error(err, o.dir) end
  local tensors <const> = {keys = patch.keys, values = patch.values, gone = patch.gone}
  local ok <const>, problem <const> = core.safetensors_write(o.path, tensors,
    {table = patch.table, from = tostring(patch.from), to = tostring(patch.to)})
  if not ok then return nil, errors.from(problem) end
  return {from = patch.from, to = patch.to, rows = #patch.keys, gone = #patch.gone, table = patch.table}
end

return reader
