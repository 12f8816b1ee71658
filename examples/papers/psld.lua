-- PSLD: parameter servers of different speed, and who balances them.
--   tide run examples/papers/psld.lua
-- Constants, set on 2026-11-28 before the first run, all defaults of examples/psld.lua: ResNet-50's tensors in rows of
-- 16,384 parameters, 4 servers, 2 workers, 15 us a served row, a server slow from iteration 20 on.
local tide = require "tide"
local paper = require "paper"

local p = paper.open {
  name = "psld", title = "PSLD",
  source = "PSLD: parameter-server load distribution (values of its abstract)",
  where = "Simulated: 4 servers, one of which becomes slower; 2 workers pull and push ResNet-50's tensors",
}
local FACTORS <const> = p.opt.small and {2, 4} or {2, 4, 10}
local ITERATIONS <const> = p.opt.small and 60 or 400
local WHO <const> = p.opt.small and {"psld", "oracle"} or {"psld", "oracle", "mxnet", "byteps", "round-robin"}

---Static's time of an iteration with a straggler over that of `who`.
local function speedup(who, setting)
  local function run(name)
    local options <const> = {who = name, iterations = ITERATIONS}
    for key, value in pairs(setting) do options[key] = value end
    return p:sim("psld", options)
  end
  return p:speedup(run "static", run(who), function(r) return r.straggler_ms end)
end

tide.main(function()
  local series, at_four = {}, {}
  for i, who in ipairs(WHO) do
    series[i] = {name = "ours, " .. who, points = {}}
    for k, factor in ipairs(FACTORS) do
      local figure <const> = speedup(who, {factor = factor})
      series[i].points[k] = p:point(factor, figure)
      if factor == 4 then at_four[who] = figure end
    end
  end
  series[#series + 1] = p:line("psld.speedup", FACTORS[1], FACTORS[#FACTORS])
  p:chart {title = "One slow server of four", x = "how many times slower the server is", y = "speed-up over static",
           log_x = true, series = series}

  p:check(at_four.psld.low > 1 and at_four.oracle.low >= at_four.psld.low, "oracle, psld and static, in this order")
  p:row {what = "psld over static, one of four servers at 1/4 speed", published = p:value "psld.speedup",
         ours = at_four.psld, least = 2.5, note = "the setting behind the published value is unknown"}
  p:row {what = "oracle, which knows the speeds, over static", ours = at_four.oracle, note = "ideal: 3.25"}
  if p.opt.small then return p:close() end
  p:row {what = "psld over static, no slow server", ours = speedup("psld", {factor = 1}), least = 0.98}
  p:row {what = "psld over static, the slow server changes every 100 iterations",
         ours = speedup("psld", {factor = 4, wander = 100})}
  p:row {what = "psld over static, a server's link at 1/4 of 100 Mbit/s",
         ours = speedup("psld", {factor = 4, slow = "link", cost = 0, width = 256})}
  p:differs "servers serve a row in 15 us, and the slow one in so many times that; the paper's machines are not known"
  p:lacks "which models, servers and stragglers gave 2.86: not found in the abstract"
  p:close()
end)
