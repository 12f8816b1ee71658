-- Shares of a batch: whole numbers that follow requests, within what each worker takes, and sum up.
local core = require "tide.core"

local shares = {}

---@param workers table[] {id, batch, batch_min, batch_max}
---@param request table<integer, integer> by id; a worker without one keeps its batch's weight. 0: it gets nothing
---@param total integer
---@return table<integer, integer>|nil by id, of those that get something; nil: their bounds do not allow it
function shares.scaled(workers, request, total)
  local cost, ids = {}, {}
  for _, w in ipairs(workers) do
    local want = request[w.id] or w.batch
    if want > 0 then
      cost[#cost + 1] = {at = 0, per = 1 / want, min = math.max(w.batch_min or 1, 1), max = w.batch_max or total}
      ids[#ids + 1] = w.id
    end
  end
  local ok, best = pcall(core.k.minmax_split, total, cost)
  if not ok then return nil end
  local out = {}
  for i, id in ipairs(ids) do out[id] = best.share[i] end
  return out
end

return shares
