-- tide.reader: a table that is only read, from the checkpoints of a run. docs/guides/large-tables.md.
local checkpoint = require "tide.run.checkpoint"
local core = require "tide.core"
local errors = require "tide.errors"
local script = require "tide.script"
local units = require "tide.units"

---@class tide.reader
---@field problem tide.error|nil why the last refresh brought nothing
local reader = {}
reader.__index = reader

local FIELDS <const> = {dir = true, table = true, every = true}

local function follow(self, every_s)
  while not self.closed do
    core.sleep(every_s)
    if self.closed then return end
    self:refresh()
  end
end

---Loads a table of the newest generation in a checkpoint directory. With `every` it follows newer ones by itself.
---@param o {dir: string, table: string, every?: string|number}
---@return tide.reader
function reader.open(o)
  script.check_fields("T0115", "tide.reader", o, FIELDS)
  if type(o.dir) ~= "string" or type(o.table) ~= "string" then
    error(script.error("T0113", 'tide.reader requires a directory and a table: {dir = "ckpt", table = "rows"}'), 2)
  end
  local every_s <const>, why <const> = units.parse_duration(o.every or 0)
  if not every_s then error(script.error("T0113", "every: " .. why), 2) end
  local handle <const>, err <const> = core.reader(o.dir, o.table)
  if not handle then error(checkpoint.error(err, o.dir), 2) end
  local self <const> = setmetatable({handle = handle, dir = o.dir}, reader)
  if every_s > 0 then self.follower = core.fiber(follow, self, every_s) end
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

---How old the rows may be, in seconds, by the wall clocks of this machine and of the one that wrote them.
---@return number
function reader:behind() return self.handle:info().behind_s end

---What it serves: {generation, rows, bytes, width, loaded, read, behind_s}.
---@return table
function reader:info() return self.handle:info() end

---Ends it.
function reader:close()
  if self.closed then return end
  self.closed = true
  if self.follower then core.fiber_cancel(self.follower) end
  self.handle:close()
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
