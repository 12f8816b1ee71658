-- Lapse: time of an epoch of RESCAL, and of matrix factorisation by blocks, from 1 to 8 nodes of 4 workers.
--   tide run examples/papers/lapse.lua
-- Constants, set on 2026-11-28 before the first run. RESCAL: 1.2 h of Lapse on 1x4 for DBpedia-500k's 3.1 M triples
-- (recalled) are 5.57 ms of a worker a triple; d = 100, 10 negatives, 573 relations by Zipf's law, 10 Gbit/s, 50 us. A
-- sample of 3,200 triples stands for the epoch; entities are a tenth. MF: 58 ns a cell of rank 100 (measured,
-- docs/internals/performance.md) of 10M x 1M with 10^9; a thousandth of all, latency (1 us) and calls (10 ns) too.
local tide = require "tide"
local paper = require "paper"

local p = paper.open {
  name = "lapse", title = "Lapse",
  source = "Renz-Wieland et al., Dynamic Parameter Allocation in Parameter Servers, VLDB 2020 (labels of the deck)",
  where = "Simulated: 1 to 8 nodes of 4 workers, 10 Gbit/s",
}
local NODES <const> = p.opt.small and {1, 2} or {1, 2, 4, 8}
local TRIPLES <const> = p.opt.small and 320 or 3200
local ENTITIES <const>, RELATIONS <const>, HOURS <const> = 49060, 573, 1.2

---A graph whose relations follow Zipf's law; the valid part names all entities, so that all have rows.
local function write_graph()
  local random <const>, cumulated, sum = tide.random(1), {}, 0
  for r = 1, RELATIONS do
    sum = sum + 1 / r
    cumulated[r] = sum
  end
  local function relation()
    local u <const> = random:uniform() * sum
    for r = 1, RELATIONS do if u < cumulated[r] then return r end end
    return RELATIONS
  end
  local lines <const> = {train = {}, valid = {}, test = {"e0\tr1\te1"}}
  for i = 1, TRIPLES do
    lines.train[i] = ("e%d\tr%d\te%d"):format(random:below(ENTITIES), relation(), random:below(ENTITIES))
  end
  for i = 0, ENTITIES - 2, 2 do
    lines.valid[#lines.valid + 1] = ("e%d\tr%d\te%d"):format(i, i // 2 % RELATIONS + 1, i + 1)
  end
  for part, list in pairs(lines) do p:write("dbpedia/" .. part .. ".txt", table.concat(list, "\n") .. "\n") end
  return ".tide/papers/dbpedia"
end

---A thousandth of the paper's matrix in rows, columns and cells: 100 cells a row, 1,000 a column.
local function write_matrix()
  local random <const>, rows <const> = tide.random(1), p.opt.small and 1000 or 10000
  local lines <const> = {"%%MatrixMarket matrix coordinate real general", ("%d 1000 %d"):format(rows, rows * 100)}
  for row = 1, rows do
    for ten = 1, 991, 10 do lines[#lines + 1] = ("%d %d %.3f"):format(row, ten + random:below(10), random:uniform()) end
  end
  return p:write("mf1b.mtx", table.concat(lines, "\n") .. "\n")
end

tide.main(function()
  local world <const> = {latency = "50us", nic = "10Gbit"}
  world.costs = p:costs("rescal", {kge_train = HOURS * 3600 * 4 / 3.1e6})
  local data <const>, series, at, one = write_graph(), {}, {}, nil
  for i, technique in ipairs {"relocate", "static"} do
    series[i], at[technique] = {name = "ours, " .. technique, points = {}}, {}
    for k, nodes in ipairs(NODES) do
      local runs <const> = p:sim("kge", {data = data, model = "rescal", mode = "steps", dim = 100, neg = 10, epochs = 1,
        technique = technique, ["eval-limit"] = 1, nodes = nodes, workers = 4}, world)
      local seconds <const> = p:figure(runs, function(r) return r.epochs[1].train_s end)
      one = one or seconds.y -- relocate on 1x4 is 1.2 h
      local hours <const> = {y = HOURS * seconds.y / one, low = HOURS * seconds.low / one,
                             high = HOURS * seconds.high / one}
      series[i].points[k], at[technique][nodes] = p:point(nodes, hours), hours
    end
  end
  series[3], series[4] = p:published "lapse.lapse", p:published "lapse.classic"
  for _, nodes in ipairs(NODES) do
    local published <const> = p:value("lapse.lapse", nodes)
    p:row {what = ("RESCAL, %dx4: Lapse, ours relocate"):format(nodes), published = published, unit = "h",
           ours = at.relocate[nodes], least = published.low, most = published.high,
           note = nodes == 1 and "calibrated here" or nil}
  end
  local last <const> = NODES[#NODES]
  p:row {what = ("RESCAL, %dx4: PS-Lite, ours static"):format(last), published = p:value("lapse.classic", last),
         unit = "h", ours = at.static[last], note = "static pulls ahead and reads local rows in place"}
  p:check(at.relocate[last].y < at.relocate[1].y, "more nodes are faster")

  local mf <const> = {latency = "1us", nic = "10Gbit", costs = p:costs("mf", {mf_sgd_block = 58e-9}, 1e-8)}
  local line, matrix <const>, base = {name = "ours, relocate", points = {}}, write_matrix(), nil
  for k, nodes in ipairs(NODES) do
    local runs <const> = p:sim("mf", {data = matrix, rank = 100, order = "blocks", technique = "relocate", epochs = 2,
      nodes = nodes, workers = 4}, mf)
    base = base or runs
    local gain <const> = p:speedup(base, runs, function(r) return r.train_s end)
    line.points[k] = p:point(nodes, gain)
    if nodes == 8 then
      p:row {what = "MF, 8x4 over 1x4", published = p:value "lapse.mf", ours = gain, least = 7.1}
    end
  end
  p:chart {title = "RESCAL, d = 100", x = "nodes of 4 workers", y = "hours an epoch", log_x = true, log_y = true,
           series = series}
  p:chart {title = "Matrix factorisation by blocks", x = "nodes of 4 workers", y = "speed-up over one node",
           log_x = true, series = {line, p:published "lapse.mf"}}
  p:differs "one rate of computing from 1x4; MF: a thousandth of rows, columns, cells, latency and cost of a call"
  p:lacks "classic access (PS-Lite: local rows through the server): no technique of ours has it"
  p:lacks "bounded staleness (0.6 and 2.9 times, deck), ComplEx, word vectors, the ablation: no labels, or not run yet"
  p:close()
end)
