-- SFB: bytes of sufficient factors against full matrices, as workers grow.
--   tide run examples/papers/sfb.lua
-- Constants, set on 2026-11-28 before the first run: multiclass regression with J = 100 classes and D = 800 columns,
-- K = 16 examples a worker and step. One path costs as much as the other at K P = 2 J D / (J + D). The network of the
-- seconds is 1 Gbit/s, 50 us.
local tide = require "tide"
local paper = require "paper"

local p = paper.open {
  name = "sfb", title = "SFB",
  source = "Xie et al., Distributed Machine Learning via Sufficient Factor Broadcasting, 2015 (no values were found)",
  where = "Simulated: 2 to 32 workers of one node each, 1 Gbit/s; bytes are those that the exchange counts",
}
local J <const>, D <const>, K <const> = 100, 800, 16
local WORKERS <const> = p.opt.small and {2, 4} or {2, 4, 8, 16, 32}
local WORLD <const> = {nic = "1Gbit", latency = "50us"}

---Bytes or seconds of a step by method: the x where the second is as much as the first, on the line between workers.
local function crossing(a, b)
  for i = 2, #a do
    local before <const>, after <const> = b[i - 1][2] / a[i - 1][2], b[i][2] / a[i][2]
    if before < 1 and after >= 1 then
      return a[i - 1][1] + (a[i][1] - a[i - 1][1]) * (1 - before) / (after - before)
    end
  end
  return nil
end

tide.main(function()
  local bytes, seconds = {{}, {}}, {{}, {}}
  for k, workers in ipairs(WORKERS) do
    local runs <const> = p:sim("sfb", {models = "mlr", methods = "ps,full", nodes = workers, batch = K * workers,
                                       train = 2048, columns = D, classes = J, epochs = 2}, WORLD)
    for m = 1, 2 do
      bytes[m][k] = p:point(workers, p:figure(runs, function(_, all) return all[m].bytes_step / 1e6 end))
      seconds[m][k] = p:point(workers, p:figure(runs, function(_, all) return 1e3 / all[m].steps_s end))
    end
  end
  p:check(bytes[2][1][2] < bytes[1][1][2], "few workers send fewer bytes by factors")
  local models <const> = p.opt.small and "mlr" or "mlr,sdca,metric,coding"
  local four <const> = p:sim("sfb", {models = models, methods = "ps,full", nodes = 4, epochs = 2}, WORLD)
  for i = 1, #four[1], 2 do
    for m = 0, 1 do
      local r <const> = four[1][i + m]
      p:row {what = ("%s, %s, 4 workers: bytes of a step over the formula's"):format(r.model, r.method), most = 1.02,
             least = 0.98, ours = p:figure(four, function(_, all)
               return all[i + m].bytes_step / all[i + m].formula_bytes
             end)}
    end
  end
  if not p.opt.small then
    local predicted <const> = 2 * J * D / (J + D) / K
    for _, each in ipairs {{"bytes", bytes}, {"seconds", seconds}} do
      local at <const> = crossing(each[2][1], each[2][2])
      p:row {what = each[1] .. ": workers where both paths cost as much, over 2 J D / ((J + D) K)", least = 0.8,
             most = 1.2, ours = at and at / predicted or 0, note = ("predicted %.1f, measured %s"):format(predicted,
               at and ("%.1f"):format(at) or "none up to 32")}
    end
  end
  local function series(of)
    return {{name = "full matrices", points = of[1]}, {name = "factors", points = of[2]}}
  end
  p:chart {title = "Bytes out of a worker, multiclass regression", x = "workers", y = "MB a step", log_x = true,
           log_y = true, series = series(bytes)}
  p:chart {title = "Time of a step, 1 Gbit/s", x = "workers", y = "virtual ms", log_x = true, log_y = true,
           series = series(seconds)}
  p:differs "coding's matrix is small (48 x 96), so the heads of its frames are 2 to 3 % of the bytes"
  p:differs "generated data; the paper's are ImageNet's features and others"
  p:lacks "times of the paper's clusters: not found"
  p:close()
end)
