-- Matrix factorisation by blocks on many nodes, in the simulator: which share of the time do workers compute?
--   tide sim --calibrate costs.json examples/mf.lua --nodes 1 --workers 1 --generate mf1m --rank 100 --epochs 5
--   tide sim bench/blocked.lua --cell NANOSECONDS        row_s of mf_sgd_block in costs.json
--
-- Schedule, barriers and the moves of column blocks are those of examples/mf.lua with --technique relocate. A block's
-- cells are slept instead of computed. The matrix is one that Lapse was measured on (VLDB 2020: 3.4 M x 3 M, 10^9
-- cells); of an epoch only so many sub-epochs are done that each worker has had `groups` sets of columns, of which
-- nothing hides the moves of the first. What a byte costs an I/O thread is what moves of rows of 100 floats took on the
-- machine of docs/internals/performance.md; --io 0 leaves it to the cards.
local tide = require "tide"
local schedule = require "tide.data.schedule"
local sim = require "tide.sim"

local opt = tide.options {
  nodes = {"with a worker each", default = 64},
  own = {"row blocks of a worker", default = 4},
  columns = {"of the matrix", default = 3000000},
  cells = {"of the matrix, all known", default = 1000000000},
  groups = {"of columns that each worker has, one after the other", default = 3},
  rank = {"latent dimensions", default = 100},
  cell = {"nanoseconds that a cell takes", default = 165},
  gbit = {"rate of each node's card", default = 10},
  io = {"nanoseconds that a byte costs an I/O thread, at either end", default = 0.7},
}
local BLOCKS <const> = opt.nodes * opt.own

local function keys_of(block)
  local first <const> = block * opt.columns // BLOCKS
  return tide.tensor.zeros("u64", (block + 1) * opt.columns // BLOCKS - first, 1):fill(first, 1)
end

local function fill(columns, block)
  local keys <const> = keys_of(block)
  local ones <const> = tide.tensor.zeros("f32", #keys, opt.rank)
  ones:fill(1)
  columns:push(keys, ones)
end

local job = tide.job {
  name = "blocked",
  tables = {columns = tide.table {keys = tide.dense(opt.columns), width = opt.rank, slots = "range", update = "add",
                                  technique = "relocate"}},
  worker = function(w)
    local columns <const>, first <const> = w.tables.columns, (w.rank - 1) * opt.own
    for i = 0, opt.own - 1 do fill(columns, first + i) end -- or there are no rows to move
    w:barrier "filled"
    local rotation <const> = tide.data.rotation(w, {plan = schedule.plan(BLOCKS, opt.own, w.seed), columns = columns,
                                                    keys = keys_of})
    local began <const>, visits, first_s = tide.now(), 0, nil
    for _ in rotation:epoch(1) do
      tide.sleep(opt.cells / BLOCKS / BLOCKS * opt.cell * 1e-9)
      visits = visits + 1
      if visits == opt.own * opt.own then first_s = tide.now() - began end
      if visits == opt.groups * opt.own * opt.own then break end
    end
    w:report {train_s = tide.now() - began, first_s = first_s}
  end,
}

tide.main(function()
  sim.net {nic = opt.gbit .. "Gbit", latency = "20us", send = "3us", receive = "2us", byte = opt.io * 1e-9}
  local cluster <close> = tide.cluster {nodes = opt.nodes, workers = 1}
  local run = cluster:start(job)
  local set <const> = opt.cells / opt.nodes / opt.nodes * opt.cell * 1e-9 -- what a worker computes with one
  for r in run:events "report" do
    local all, first = 0, 0
    for _, worker in ipairs(r.workers) do
      all, first = math.max(all, worker.train_s), math.max(first, worker.first_s)
    end
    print(("%.4f s, of which a worker computes %.4f s: efficiency %.3f; behind its first columns %.3f"):format(all,
      opt.groups * set, opt.groups * set / all, (opt.groups - 1) * set / (all - first)))
  end
  run:wait()
end)
