-- docs/guides/peers.md: local round, peers = 1, w:peers(1)
local tide = require "tide"
local rounds <const> = 3
local function step(_, peers, round) return peers:sum("n", tide.tensor.zeros("f64", 1):fill(round)) ~= nil end
local job = tide.job {
  name = "rounds", stop = {epochs = 1}, on_worker_loss = "replay",
  worker = function(w)
    @block@
    w:report {rounds = round - 1}
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  for r in run:events "report" do print("rounds", r.rounds) end --> rounds 6
end)
