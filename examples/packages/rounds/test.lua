-- The test of rounds: tide run test.lua, tide sim test.lua. A worker comes and one goes; every number counts once.
local package = require "tide.package"
local rounds = require "rounds"
local tide = require "tide"

local job = rounds.job {name = "sum", count = 12, rounds = 100000}

local function refuses(points, what)
  local ok, err = pcall(package.extend, job, points)
  assert(not ok and tostring(err):find(what, 1, true), ("expected `%s`, got: %s"):format(what, tostring(err)))
end

tide.main(function()
  refuses({meeting = {}}, "has an implementation of `meeting` already")
  refuses({meetings = {}}, "did you mean `meeting`")
  refuses({communication = {batch = 1}}, "`communication.tensors` of job `sum` is missing")
  refuses({batch = {total = "all"}}, "`batch.total` of job `sum` is a string, not a number")
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  local last, came, gone = 0, nil, nil
  for r in run:events "report" do
    last = r.n
    if r.n == 2 then run:set_workers(3) end
    if not came and #r.workers == 3 then
      came = r.n
      run:drop_worker(1)
    elseif came and not gone and #r.workers == 2 then
      gone = r.n
      run:stop()
    end
  end
  run:wait()
  assert(came and gone, "no worker has come, or none has gone")
  assert(rounds.sum(run) == last * 78, ("the sum is %g, not %d"):format(rounds.sum(run), last * 78))
  print "ok"
end)
