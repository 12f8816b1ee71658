-- Nodes from a simulated launcher under faults: starts fail, nodes come late and die at work, and the number of workers
-- goes up and down meanwhile. Every example counts once a pass; at the end as many nodes are there as are wanted.
local tide = require "tide"
local opt = tide.options {
  fails = {"share of nodes that never come", default = 0.3}, dies = {"share that dies at work", default = 0.3},
  queue = {"longest wait in the queue", default = "4s"},
}
local EXAMPLES <const> = 400

local job = tide.job {
  name = "sums", data = EXAMPLES, chunks = 40, stop = {epochs = 12}, on_worker_loss = "replay",
  tables = {t = tide.table {keys = tide.dense(EXAMPLES), width = 1, init = tide.zero(), update = "add"}},
  worker = function(w)
    while not w:stopping() do
      for chunk in w:chunks() do
        tide.sleep(0.05 * (chunk.last - chunk.first + 1))
        chunk:report {examples = chunk.last - chunk.first + 1}
      end
      w:report {}
    end
  end,
}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2, servers = 1}
  cluster:provision {kind = "local", prefix = "p", store = false, min = 2, max = 6,
    simulate = {queue_s = tonumber((opt.queue:gsub("s$", ""))), start_s = 1, fails = opt.fails, dies = opt.dies}}
  local run = cluster:start(job)
  local wants <const> = {5, 3, 6, 4}
  for report in run:events "report" do
    assert(report.examples == EXAMPLES, ("pass %d has %d examples"):format(report.n, report.examples))
    local want <const> = wants[report.n // 2]
    if report.n % 2 == 0 and want then cluster:nodes {want = want} end
  end
  run:wait()
  local until_s <const> = tide.now() + 120
  local there
  repeat
    there = 0
    for _, member in ipairs(cluster:nodes()) do
      if member.name:find "^p%-" and (member.state == "up" or member.state == "joining") then there = there + 1 end
    end
    if there == 4 then break end
    tide.sleep(0.5)
  until tide.now() > until_s
  local names = {}
  for _, member in ipairs(cluster:nodes()) do
    assert(not names[member.name], "a name twice: " .. member.name)
    names[member.name] = true
  end
  print("nodes of the pool", there)
end)
