-- ESSP: how stale parameters are, and the loss by clock and by second, under BSP, SSP, ESSP and VAP.
--   tide run examples/papers/essp.lua                 --data DIR: MovieLens (DIR/ml-100k/u.data) in place of generated
-- Constants, set on 2026-11-28 before the first run, all defaults of examples/mf_ssp.lua: a clock is 5 ms of work, the
-- straggler moves and is 4 times slower, rank 16, 12 epochs; without straggler, for the profile, 3. 8 nodes, 25 Gbit/s.
local tide = require "tide"
local paper = require "paper"

local p = paper.open {
  name = "essp", title = "ESSP",
  source = "Dai et al., High-Performance Distributed ML at Scale through Parameter Server Consistency Models (2015)",
  where = "Simulated: matrix factorisation on 8 nodes of one worker",
}
local MODELS <const> = p.opt.small and {"bsp", "ssp:3", "essp:3"} or {"bsp", "ssp:3", "essp:3", "vap:0.01"}

local function run(straggler, epochs)
  return p:sim("mf_ssp", {models = table.concat(MODELS, " "), nodes = p.opt.small and 2 or 8, workers = 1,
                          epochs = p.opt.small and 3 or epochs, straggler = straggler,
                          data = p.opt.data and p.opt.data .. "/ml-100k/u.data"})
end

---Points of the first seed's run.
local function curves(runs, field)
  local series = {}
  for i, model in ipairs(MODELS) do series[i] = {name = model, points = runs[1][i][field]} end
  return series
end

tide.main(function()
  local moves <const>, none <const> = run("moves", 12), run("none", 3)
  local profile, mean = {}, {}
  for i, model in ipairs(MODELS) do
    local hist <const>, sum = none[1][i].staleness.hist, 0
    for _, n in ipairs(hist or {}) do sum = sum + n end
    profile[i] = {name = model, values = {}}
    for k = 1, 4 do profile[i].values[k] = (hist and hist[k] or 0) / math.max(sum, 1) end
    mean[model] = p:figure(none, function(_, all) return all[i].staleness.mean end)
    p:row {what = model .. ", no straggler: mean clock differential of a read", ours = mean[model]}
  end
  for i, model in ipairs(MODELS) do
    if i > 1 then
      p:row {what = model .. ", moving straggler: speed-up to the common loss over bsp",
             ours = p:speedup(moves, moves, function(_, all) return all[i].target_s end, function(_, all)
               return all[1].target_s
             end)}
    end
  end
  p:row {what = "essp:3 less ssp:3, no straggler: mean clock differential", least = 0,
         ours = mean["essp:3"].y - mean["ssp:3"].y, note = "0 or more: ESSP's reads are as fresh or fresher"}
  p:check(mean["essp:3"].y >= mean["ssp:3"].y, "ESSP's reads are as fresh as SSP's")
  p:chart {title = "Staleness profile, no straggler, seed 1", x = "clock differential of a read", y = "share of reads",
           groups = {"-1", "-2", "-3", "-4"}, series = profile, note = "seed 1"}
  p:chart {title = "Loss by clock, moving straggler", x = "epoch (8 clocks)", y = "loss of a cell", log_y = true,
           series = curves(moves, "by_epoch"), note = "seed 1"}
  p:chart {title = "Loss by second, moving straggler", x = "virtual seconds", y = "loss of a cell", log_y = true,
           series = curves(moves, "by_second"), note = "seed 1"}
  p:differs "8 simulated nodes in place of a cluster, and a generated matrix in place of Netflix"
  p:lacks "the histograms' and curves' values: the paper shows them as pictures only"
  p:lacks "the theory's bound: it needs the gradients' variance and the parameters' diameter, which no run prints"
  p:close()
end)
