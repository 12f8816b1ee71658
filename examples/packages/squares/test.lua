-- The test of squares: make test
local tide = require "tide"
local squares = require "squares"

local job = squares.job {name = "sum", count = 10}

tide.main(function()
  local ok, err = pcall(squares.job, {name = "wrong", cuont = 10})
  assert(not ok and tostring(err):find("cuont", 1, true), "a misspelt field is accepted")
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  run:wait()
  assert(squares.sum(run) == 385, ("the sum is %g, not 385"):format(squares.sum(run)))
  print "ok"
end)
