-- docs/guides/techniques.md: for step = 1, steps do
local tide = require "tide"
local steps <const> = 6
local job = tide.job {
  name = "ahead", tables = {entities = tide.table {keys = tide.dense(100), width = 2, technique = "intent"}},
  worker = function(w)
    local function keys_of(step) return {step % 100, (step * 7) % 100} end
    local function train(step) w.tables.entities:pull(keys_of(step)) end
    @block@
    w:report {clocks = w.clocks}
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  for r in run:events "report" do print("clocks", r.clocks) end --> clocks 12
end)
