-- Nodes with rows and workers that are told to leave in the middle of their chunks, by a seeded launcher: every update
-- is in the table exactly once.
local tide = require "tide"
local EXAMPLES <const>, PASSES <const> = 240, 3

local job = tide.job {
  name = "leave", data = EXAMPLES, chunks = 12, stop = {epochs = PASSES}, on_worker_loss = "replay",
  tables = {t = tide.table {keys = tide.dense(EXAMPLES), width = 1, init = tide.zero(), update = "add"}},
  worker = function(w)
    while not w:stopping() do
      for chunk in w:chunks() do
        for first, last in chunk:steps(3) do
          local ones <const> = tide.tensor.zeros("f32", last - first + 1, 1)
          ones:fill(1)
          w.tables.t:push(tide.range(first - 1, last - 1), ones)
          chunk:report {examples = last - first + 1}
          tide.sleep(0.02 * (last - first + 1))
        end
      end
      w:report {}
    end
  end,
}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  cluster:provision {kind = "local", prefix = "p", min = 1, max = 3, simulate = {start_s = 0.5}}
  cluster:nodes {want = 3}
  tide.sleep(2)
  local run = cluster:start(job)
  for report in run:events "report" do
    assert(report.examples == EXAMPLES, ("pass %d has %d examples"):format(report.n, report.examples))
    if report.n < PASSES then cluster:nodes {want = 3 - report.n} end
  end
  run:wait()
  local rows <const> = run.tables.t:pull(tide.range(0, EXAMPLES - 1))
  local left = 0
  for _, member in ipairs(cluster:nodes()) do left = left + (member.state == "left" and 1 or 0) end
  print(("rows %g %g left %d"):format(rows:min(), rows:max(), left))
end)
