-- Matrix factorisation by blocks on many nodes, in the simulator: which share of the time do workers compute?
--   tide sim --calibrate costs.json examples/mf.lua --nodes 1 --workers 1 --generate mf1m --rank 100 --epochs 5
--   tide sim bench/blocked.lua --cell NANOSECONDS        row_s of mf_sgd_block in costs.json
--
-- Schedule, barriers and the moves of column blocks are those of examples/mf.lua with --technique relocate. A block's
-- cells are slept instead of computed. The matrix is a tenth of what Lapse was measured on (VLDB 2020: 3.4 M x 3 M, 10^9
-- cells), each side and the cells; what a write, a read and a byte cost an I/O thread is what moves of rows of 100 floats
-- took on the machine of docs/performance.md.
local tide = require "tide"
local sim = require "tide.sim"

local opt = tide.options {
  nodes = {"with a worker each", default = 64},
  own = {"row blocks of a worker", default = 4},
  columns = {"of the matrix", default = 300000},
  cells = {"of the matrix, all known", default = 100000000},
  rank = {"latent dimensions", default = 100},
  cell = {"nanoseconds that a cell takes", default = 165},
  gbit = {"rate of each node's card", default = 10},
  epochs = {"passes over the cells", default = 2},
}
local BLOCKS <const> = opt.nodes * opt.own

local function keys_of(block)
  local first <const> = block * opt.columns // BLOCKS
  local count <const> = (block + 1) * opt.columns // BLOCKS - first
  return tide.tensor.zeros("u64", count, 1):fill(first, 1), count
end

local function fill(columns, block)
  local keys <const>, count <const> = keys_of(block)
  local ones <const> = tide.tensor.zeros("f32", count, opt.rank)
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
    for epoch = 1, opt.epochs do
      local square <const>, began <const> = tide.data.latin_square(BLOCKS, epoch, w.seed), tide.now()
      for e = 1, BLOCKS do
        for i = 1, opt.own do
          local coming <const> = columns:localize(keys_of(square[e][first + i]), {async = true})
          local following <const> = square[e][first + i + 1]
          if i < opt.own then columns:localize(keys_of(following), {async = true}) end
          coming:wait()
          tide.sleep(opt.cells / BLOCKS / BLOCKS * opt.cell * 1e-9)
        end
        if tide.data.columns_change(square, e, opt.own) then w:barrier "block" end
      end
      w:report {train_s = tide.now() - began}
    end
  end,
}

tide.main(function()
  sim.net {nic = opt.gbit .. "Gbit", latency = "20us", send = "3us", receive = "2us", byte = 0.7e-9}
  local cluster <close> = tide.cluster {nodes = opt.nodes, workers = 1}
  local run = cluster:start(job)
  local computing <const> = opt.cells / opt.nodes * opt.cell * 1e-9
  for r in run:events "report" do
    local slowest = 0
    for _, worker in ipairs(r.workers) do slowest = math.max(slowest, worker.train_s) end
    print(("epoch %d: %.3f s, of which a worker computes %.3f s: efficiency %.3f"):format(r.n, slowest, computing,
      computing / slowest))
  end
  run:wait()
end)
