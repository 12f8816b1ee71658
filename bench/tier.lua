-- Pulls from a table of which a tenth is in memory: rows a second, and how many of them are read. bench/tier.sh runs it
-- and measures the disk in the same run. Keys are uniform or of a Zipf distribution of exponent 0.99.
local tide = require "tide"
local opt = tide.options {
  disk = {"directory of the rows", default = "/var/tmp"}, rows = {"of the table", default = 400000},
  seconds = {"of each line", default = 10}, memory = {"share of the rows", default = 0.1},
  fibers = {"that pull", default = 8},
}
local WIDTH <const>, AT_ONCE <const> = 64, 1000
local N <const> = math.tointeger(opt.rows)

-- Draws by the inverse of the distribution's integral, which for so many keys is near enough. Keys are spread.
local function zipf(rng, s)
  local u <const> = rng:uniform()
  local rank <const> = ((N ^ (1 - s) - 1) * u + 1) ^ (1 / (1 - s))
  return math.floor(rank) * 2654435761 % N
end

local job = tide.job {
  name = "tier",
  tables = {rows = tide.table {keys = tide.dense(N), width = WIDTH, disk = opt.disk,
    memory = math.floor(N * opt.memory * (WIDTH * 4 + 5) + 8 * N + (4 << 20))}},
  worker = function(w)
    local t <const> = w.tables.rows
    local ones <const> = tide.tensor.zeros("f32", AT_ONCE, WIDTH):fill(1)
    for first = 0, N - 1, AT_ONCE do t:push(tide.range(first, math.min(first + AT_ONCE, N) - 1), ones) end
    local function measure(name, draw)
      local pulled, ends = 0, tide.now() + opt.seconds
      local before <const>, fibers = t:stats(), {}
      local began <const> = tide.now()
      for i = 1, opt.fibers do
        fibers[i] = tide.spawn(function()
          while tide.now() < ends do
            local keys <const> = {}
            for k = 1, AT_ONCE do keys[k] = draw() end
            t:pull(keys)
            pulled = pulled + AT_ONCE
          end
        end)
      end
      for _, f in ipairs(fibers) do f:wait() end
      local took <const>, after <const> = tide.now() - began, t:stats()
      local reads <const> = after.thawed - before.thawed
      print(("%-12s %9.0f rows/s pulled  %9.0f rows/s read  %5.1f %% hits"):format(name, pulled / took, reads / took,
        100 * (1 - reads / pulled)))
    end
    measure("uniform", function() return w.rng:below(N) end)
    measure("zipf 0.99", function() return zipf(w.rng, 0.99) end)
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  cluster:start(job):wait()
end)
