-- Graph embeddings: ComplEx (Trouillon et al., ICML 2016) on a small graph of who is next to whom on a ring.
--   tide run examples/gallery/graph.lua
local tide = require "tide"

local opt = tide.options {
  data   = {"directory with train.txt, valid.txt, test.txt; without it: a ring", type = "directory"},
  dim    = {"complex numbers of an entity", default = 16},
  epochs = {"passes over the triples", default = 200},
  nodes  = {"worker nodes", default = 2},
}

-- n is followed by n + 1, and is two steps before n + 2; every tenth of the second kind is held out.
local function ring(n)
  local parts = {train = {}, test = {}}
  for i = 0, n - 1 do
    table.move({i, 0, (i + 1) % n}, 1, 3, #parts.train + 1, parts.train)
    local part <const> = i % 10 == 0 and parts.test or parts.train
    table.move({i, 1, (i + 2) % n}, 1, 3, #part + 1, part)
  end
  local function triples(list) return tide.tensor.from("u32", list):view(1, #list // 3, 3) end
  return {parts = {train = triples(parts.train), valid = triples(parts.test), test = triples(parts.test)},
          entity_count = n, relation_count = 2, count = #parts.train // 3}
end

local job = tide.job {
  name = "graph",
  data = opt.data and tide.data.triples(opt.data) or tide.data.lazy(function() return ring(400) end),
  tables = function(d)
    local update <const>, init <const> = {"adagrad", lr = 0.3, sum_init = 1e-6}, tide.uniform {low = -0.1, high = 0.1}
    return {entities = tide.table {keys = tide.dense(d.entity_count), width = 2 * opt.dim, init = init,
                                   update = update},
            relations = tide.table {keys = tide.dense(d.relation_count), width = 2 * opt.dim, init = init,
                                    update = update, technique = "replicate"}}
  end,
  worker = function(w)
    for epoch = 1, opt.epochs do
      local r <const> = tide.kernel "kge_train" {
        entities = w.tables.entities, relations = w.tables.relations, triples = w.data:part "train", negatives = 64,
        entity_count = w.data.entity_count, batch = 64, gamma_e = 0.001, gamma_r = 0.001, seed = epoch * 1000 + w.rank}
      w:report {loss = r.loss, examples = w.data:part "train":rows()}
    end
  end,
  evaluate = {test = function(w)
    local r <const> = tide.kernel "kge_rank" {
      entities = w.tables.entities, relations = w.tables.relations, triples = w.data:part "test",
      known = w.data:whole "train", entity_count = w.data.entity_count}
    return r, r.count
  end},
}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(job)
  for r in run:events "report" do
    if r.n % 20 == 0 then print(("epoch %3d  loss %.3f"):format(r.n, r.loss / r.examples)) end
  end
  run:wait()
  local test <const> = run:evaluate "test"
  print(("held out: mean reciprocal rank %.2f, among the first ten %.0f %%"):format(test.mrr, 100 * test.hits10))
end)
