-- Checkpoints: what jobs, scripts and `tide checkpoint` share over core.checkpoint_*. Errors get their T07 codes here.
local checks = require "tide.checks"
local core = require "tide.core"
local declared = require "tide.declared"
local errors = require "tide.errors"

local checkpoint = {}

local CODES <const> = {
  ENOENT = "T0702", EPROTO = "T0703", EVERSION = "T0704", EMISMATCH = "T0705", EBUSY = "T0706", ETIMEDOUT = "T0707",
  EINVAL = "T0708",
}

---@param err any of core.checkpoint_*
---@param where? string the directory
---@param other? string the code where none fits, of what was called; default T0701
---@return tide.error
function checkpoint.error(err, where, other)
  local from <const> = errors.from(err)
  if from.code:find "^T07" then return from end
  local fields <const> = {where = where, node = from.node, message = from.message}
  return errors.new(CODES[from.name or ""] or other or "T0701", fields)
end

---Checks the job field `checkpoint`.
---@param fields table {dir=, every=, keep=, cut=}
---@param who? string what was called with it
---@return table? settings {dir, every_s, keep, cut}
---@return tide.error? problem T0708
function checkpoint.settings(fields, who)
  local o <const>, problem = checks.read(who or "checkpoint", declared.checkpoint, fields, "T0708")
  if not o then return nil, problem end
  if o.dir == "" then return nil, errors.new("T0708", {message = 'checkpoint needs a directory: dir = "..."'}) end
  return {dir = o.dir, every_s = o.every, keep = o.keep, cut = o.cut}
end

---Writes one generation. `job(info)` gives what is saved beside the tables, when all parts are on disk.
---@param o {dir: string, cut?: string, keep?: integer, run?: integer} run: whose clocks a cut by clock is of
---@param job? fun(info: table): any
---@return table? info {generation, full, cut, clock, rows, bytes, took_s}
---@return tide.error? err
function checkpoint.save(o, job)
  local began <const> = core.now()
  local handle, err = core.checkpoint_start {dir = o.dir, cut = o.cut, keep = o.keep, run = o.run}
  if not handle then return nil, checkpoint.error(err, o.dir) end
  local info <const> = handle:info()
  local ok, value = pcall(job or function() return nil end, info)
  if not ok then
    handle:abort()
    return nil, checkpoint.error(value, o.dir)
  end
  ok, err = handle:commit(value)
  if not ok then return nil, checkpoint.error(err, o.dir) end
  info.committed, info.took_s = true, core.now() - began
  return info
end

---Brings the tables back. Call it while no worker runs.
---@param dir string
---@param generation? integer default: the newest that is whole
---@param as? {job: string, run: string, number: integer, memory?: integer, others: boolean} the tables of
---  the job come back as those of the run; others under their own names, or not at all
---@return table? restored {generation, cut, clock, rows, skipped, job} rows: read, replaced ones too
---@return tide.error? err
function checkpoint.restore(dir, generation, as)
  local restored, err = core.checkpoint_restore(dir, generation, as)
  if restored then return restored end
  local from <const> = errors.from(err)
  local busy <const> = from.name == "EBUSY" or from.name == "ETIMEDOUT" -- not those of writing
  return nil, busy and errors.new("T0709", {where = dir, node = from.node, message = from.message})
    or checkpoint.error(err, dir, "T0709")
end

---@param dir string
---@return table[]? generations newest first
---@return tide.error? err
function checkpoint.list(dir)
  local list, err = core.checkpoint_list(dir)
  if not list then return nil, checkpoint.error(err, dir) end
  return list
end

---Checks every block.
---@param dir string
---@param generation? integer default: all that were finished
---@return integer? checked how many are whole
---@return tide.error? err names the first damage
function checkpoint.verify(dir, generation)
  local list, err = checkpoint.list(dir)
  if not list then return nil, err end
  local checked = 0
  for _, g in ipairs(list) do
    local finished = g.committed or not g.problem:find "never finished"
    local wanted = generation == g.generation or (not generation and finished)
    if wanted then
      local ok, problem = core.checkpoint_verify(dir, g.generation)
      if not ok then return nil, checkpoint.error(problem, dir) end
      checked = checked + 1
    end
  end
  if checked == 0 then
    return nil, errors.new("T0702", {where = dir, message = generation
      and ("there is no generation %d"):format(generation) or "there is no finished checkpoint"})
  end
  return checked
end

return checkpoint
