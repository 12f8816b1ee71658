-- BOA's other lever: the set of workers. One whose step takes longer than all others would need for the whole batch,
-- even with the fewest examples that it may have, is let go; who is left divides its share.
--
--  * each worker's time is a line in its batch; one with a single distinct batch counts as having no fixed part, so it
--    is never removed for a cost that was not measured.
--  * workers in order of what the fewest examples cost them, cheapest first; the prefix with the shortest best split
--    stays, if that is shorter by `gain` than with all, for `patience` decisions in a row.
-- It never asks for workers: who was let go is not known to have become faster.
local policy = {
  api = 1, kind = "scaling", name = "worker-set", version = 1,
  params = { gain = 1.10, patience = 3, least = 1 },
  needs = { "worker.speed" }, every = 1, min_gap = 0.5,
}

function policy.init(params) return { params = params, sure = 0 } end

local function cost_of(w, k)
  local x, y, n = w.speed.examples, w.speed.seconds, #w.speed.examples
  local line
  if math.min(table.unpack(x)) == math.max(table.unpack(x)) then
    line = { at = 0, per = k.quantile(y, 0.5) / x[n] }
  else
    line = k.line(x, y)
  end
  local least = math.max(w.batch_min or 1, 1)
  return { at = line.at, per = line.per, min = least, max = w.batch_max, id = w.id, alone = line.at + line.per * least }
end

function policy.decide(st, view, k)
  local cost = {}
  for _, w in ipairs(view.workers) do
    if w.state == "up" then
      if w.speed.borrowed then return {} end -- it has only just come
      cost[#cost + 1] = cost_of(w, k)
    end
  end
  table.sort(cost, function(a, b)
    if a.alone ~= b.alone then return a.alone < b.alone end
    return a.id < b.id
  end)
  local best, all, stays
  for n = 1, #cost do
    local ok, split = pcall(k.minmax_split, view.job.batch, table.move(cost, 1, n, 1, {}))
    if ok and n >= st.params.least and (not best or split.seconds < best) then best, stays = split.seconds, n end
    if n == #cost and ok then all = split.seconds end
  end
  st.sure = all and stays < #cost and k.hysteresis(all, best, st.params.gain) and st.sure + 1 or 0
  if st.sure < st.params.patience then return {} end
  st.sure = 0
  local drop, why = {}, {}
  for n = stays + 1, #cost do
    drop[#drop + 1] = cost[n].id
    why[cost[n].id] = ("%.4g s for the least it may have, the others need %.4g s for all"):format(cost[n].alone, best)
  end
  table.sort(drop)
  return { drop = drop, why = why }
end

return policy
