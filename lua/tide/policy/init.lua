-- tide.policy: policies in scripts that have no run, or no run any more. Those of a run are run.policy.
local errors = require "tide.errors"
local journal = require "tide.policy.journal"
local replay = require "tide.policy.replay"
local source = require "tide.policy.source"

local policy = {}

---Names a policy together with parameters, wherever a policy is named.
---@param path string shipped name or path
---@param params? table
policy.file = source.file

---The text of a policy that ships, by `kind/name`.
---@return string[] "kind/name" of the shipped policies
policy.shipped = source.shipped

---Decides over the views of a journal: with the policies that it holds (report.identical, or the first difference), or
---with another one (report.plans, as bytes for core.plain_decode; open loop: the views do not react).
---@param path string journal of a run
---@param o? {policy?: string|table, params?: table, kind?: string, scope?: string, last?: number} last: only what was
---  decided in so many seconds before the end, by another policy
---@return table|nil report, table? err
function policy.replay(path, o)
  local records, why, torn = journal.read(path)
  if not records then return nil, errors.new("T0401", tostring(why)) end
  local report, err = replay.run(records, o or {})
  if report then report.torn = torn end
  return report, err
end

return policy
