-- Which runs of a directory go, by age and size, and how a run's directory is removed.
local core = require "tide.core"
local errors = require "tide.errors"

local gc = {}

local ENOTEMPTY <const>, EEXIST <const>, ENOENT <const> = 39, 17, 2
local OVER <const> = {done = true, stopped = true, failed = true, lost = true}
local KEEP <const> = "keep" -- a tag
local DEEP_MAX <const> = 8

---Bytes of the files below a directory.
---@param path string
---@param depth? integer
---@return integer
function gc.size(path, depth)
  depth = depth or 0
  local bytes = 0
  for _, name in ipairs(depth < DEEP_MAX and core.file_list(path) or {}) do
    local below <const> = path .. "/" .. name
    local file <close> = io.open(below, "rb")
    local size <const> = file and file:read(0) and file:seek "end"
    bytes = bytes + (size or file and gc.size(below, depth + 1) or 0)
  end
  return bytes
end

---Removes a directory with what is in it. Links in it are removed, not followed.
---@param path string
---@param depth? integer
---@return true|nil, tide.error? err
function gc.remove(path, depth)
  depth = depth or 0
  local ok, why, number = os.remove(path)
  if ok or number == ENOENT then return true end
  if (number == ENOTEMPTY or number == EEXIST) and depth < DEEP_MAX then
    for _, name in ipairs(core.file_list(path) or {}) do
      local gone <const>, err = gc.remove(path .. "/" .. name, depth + 1)
      if not gone then return nil, err end
    end
    ok, why = os.remove(path)
    if ok then return true end
  end
  why = tostring(why):gsub("^.*: ", "")
  return nil, errors.new("T0403", {message = "the run cannot be removed: " .. why, where = path})
end

---@param runs tide.past_run[] oldest first
---@param o {older_s?: number, bytes?: integer, now: number}
---@return {remove: {run: tide.past_run, bytes: integer, why: string}[], bytes: integer, count: integer} plan with bytes
---  and count of all runs
function gc.plan(runs, o)
  local plan <const> = {remove = {}, bytes = 0, count = #runs}
  local over = {}
  for _, run in ipairs(runs) do
    local kept = not OVER[run.state]
    for _, tag in ipairs(run.tags or {}) do kept = kept or tag == KEEP end
    local each <const> = {run = run, bytes = gc.size(run.directory)}
    plan.bytes = plan.bytes + each.bytes
    if not kept then over[#over + 1] = each end
  end
  local left = plan.bytes
  for _, each in ipairs(over) do
    local at <const> = each.run.ended_at or each.run.started_at or 0
    local is_old <const> = o.older_s and o.now - at > o.older_s
    if is_old or o.bytes and left > o.bytes then
      each.why = is_old and "its age" or "the size of all"
      plan.remove[#plan.remove + 1], left = each, left - each.bytes
    end
  end
  return plan
end

return gc
