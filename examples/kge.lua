-- Knowledge graph embeddings: ComplEx and RESCAL on WordNet or on any triples, filtered ranking at the end.
--   tide run kge.lua                                  WordNet, four node processes
--   tide run kge.lua --data wn18rr/ --model rescal    a directory with train.txt, valid.txt, test.txt
local tide = require "tide"

local opt = tide.options {
  data       = {"directory with train.txt, valid.txt, test.txt; without it: WordNet", type = "directory"},
  wordnet    = {"where the WordNet database is", default = "/usr/share/wordnet"},
  model      = {"scores of triples", default = "complex", choices = {"complex", "rescal"}},
  dim        = {"numbers of an entity: complex ones for complex", default = 100, min = 1},
  epochs     = {"passes over the training triples", default = 15},
  batch      = {"triples in a mini-batch", default = 512, min = 1},
  neg        = {"entities drawn against a batch (512), in mode steps against a triple's side (10)", type = "integer"},
  lr         = {"learning rate of Adagrad", default = 0.3, above = 0},
  loss       = {"loss of a batch", default = "softmax", choices = {"softmax", "logistic"}},
  penalty    = {"kind of regulariser; without it n3 for complex, l2 else", type = "string", choices = {"l2", "n3"}},
  gamma      = {"weight of the regulariser; without it 0.15 for n3, 0.001 for l2", type = "number"},
  mode       = {"mini-batches, or one example after the other", default = "batched", choices = {"batched", "steps"}},
  sampling   = {"order random: how negatives are drawn (docs/guides/tables.md); default: local for mini-batches whose "
                .. "rows relocate, else preloc", type = "string",
                choices = {"naive", "preloc", "pool", "postpone", "local"}},
  ahead      = {"mode steps: triples sent for while others are worked on; without it: 64 for sampling local, else 8",
                type = "integer"},
  technique  = {"rows stay; entities go where they are used next; copies of relations, in steps of all; or by intent",
                default = "relocate", choices = {"static", "relocate", "replicate", "intent"}},
  memory     = {"most bytes of entities in the memory of a node; the others are on its disk (--disk)", type = "string"},
  disk       = {"a directory on each node for entities that are not in memory: an absolute path", type = "string"},
  order      = {"mode steps: of triples, random, or by pairs of buckets of entities, which pass from worker to worker, "
                .. "with negatives from what is local", default = "random", choices = {"random", "buckets"}},
  cluster    = {"each worker gets triples of few relations, whose rows stay on its node; without it: as relocate is",
                type = "boolean"},
  nodes      = {"node processes on this machine", default = 4, min = 1},
  workers    = {"workers of each node", default = 1, min = 1},
  seed       = {"of initial values, orders and draws", default = 1},
  eval_every = {"rank a sample of the valid part after every so many epochs; 0: never", default = 0},
  eval_limit = {"test triples that are ranked at the end; 0: all", default = 0},
  save       = {"file for the trained tables", type = "string"},
  json       = {"one JSON object instead of text", default = false},
}

local by_buckets <const> = opt.order == "buckets"
if opt.cluster == nil then opt.cluster = opt.technique == "relocate" and not by_buckets end
if by_buckets and (opt.mode ~= "steps" or opt.technique ~= "relocate" or opt.cluster) then
  error("buckets pass from worker to worker: --order buckets needs --mode steps, --technique relocate, no --cluster", 0)
end

local data = opt.data and tide.data.triples(opt.data) or tide.data.wordnet(opt.wordnet)
local SAMPLING <const> = by_buckets and "local" or opt.sampling
  or opt.mode == "batched" and opt.technique == "relocate" and "local" or "preloc"
-- Where intents tell all that is used, they are fine: what is intended early by all nodes has copies on all.
local FINE <const> = opt.mode == "steps" and opt.technique == "intent" and SAMPLING == "local"
local CALL <const> = opt.mode == "batched" and 4 * opt.batch or FINE and 50 or 1000    -- triples
-- Calls whose entities are intended. Rows that come from a disk too early leave memory before they are used.
local AHEAD <const> = FINE and 8 or opt.disk and 1 or 4
local width = opt.model == "complex" and 2 * opt.dim or opt.dim

---Sums of a ranking over the first `limit` triples of this worker's piece of a part.
local function rank(w, part, limit)
  local triples, ranker = w.data:part(part), tide.kernel "kge_rank"
  local rows = limit > 0 and math.min(triples:rows(), limit // w.workers + 1) or triples:rows()
  local known = tide.tensor.join {w.data:whole "train", w.data:whole "valid", w.data:whole "test"}
  return ranker {
    model = opt.model, entities = w.tables.entities, relations = w.tables.relations, triples = triples,
    known = known, first = 0, count = rows, entity_count = w.data.entity_count,
  }
end

---Triples of this worker. Clustered by relation, the rows of its relations come to it once, and those of relations that
---had to be cut over several workers have copies on all nodes.
local function triples_of(w)
  if not opt.cluster then return w.data:part "train" end
  local triples, own, shared = w.data:clustered("train", 2)
  w.tables.relations:localize(own)
  if #shared > 0 then assert(w.tables.relations:manage(shared, "replicate", {rate = 20})) end -- of RESCAL large rows
  return triples
end

---First row (from 0) and number of rows of each call of the kernel.
local function calls_of(triples, size)
  local calls = {}
  for first = 0, triples:rows() - 1, size do
    calls[#calls + 1] = {first, math.min(size, triples:rows() - first)}
  end
  return calls
end

---This worker will use the entities of some triples in clock `clock`.
local function intend(w, clock, triples, first, count)
  local seen, keys = {}, {}
  for i = 3 * first + 1, 3 * (first + count), 3 do
    for _, key in ipairs {triples[i], triples[i + 2]} do
      if not seen[key] then seen[key], keys[#keys + 1] = true, key end
    end
  end
  w:intent(w.tables.entities, keys, clock)
end

---All triples of this worker in a random order, which is another one in each epoch. By intent, each call is a clock.
local function random_order(w)
  local triples <const>, intends <const> = triples_of(w), opt.technique == "intent"
  local calls <const>, clock = calls_of(triples, CALL), 0
  return function(epoch)
    triples:shuffle(w.seed + 1000 * w.rank + epoch)
    for i = 1, intends and math.min(AHEAD, #calls) or 0 do intend(w, clock + i - 1, triples, table.unpack(calls[i])) end
    local at = 0
    return function()
      if intends and at > 0 then clock = w:clock() end
      at = at + 1
      if not calls[at] then return nil end
      if intends and calls[at + AHEAD] then intend(w, clock + AHEAD, triples, table.unpack(calls[at + AHEAD])) end
      local first <const>, count <const> = table.unpack(calls[at])
      return {triples = triples, first = first, count = count,
              seed = (w.seed * 1000 + epoch) * 1000003 + w.rank * 65537 + first}
    end
  end
end

---The triples that join entities of two buckets which this worker has, and then those of others.
local function bucket_order(w)
  local buckets <const> = w.data:buckets(w, {entities = w.tables.entities, epochs = opt.epochs})
  return function(epoch) return buckets:epoch(epoch) end
end

local job = tide.job {
  name = "kge",
  data = data,
  seed = opt.seed,
  stop = {epochs = opt.epochs},

  tables = function(d)                       -- asked once, when the data's header is known
    local update, init = {"adagrad", lr = opt.lr, sum_init = 1e-6}, tide.uniform {low = -0.1, high = 0.1}
    return {
      entities  = tide.table {keys = tide.dense(d.entity_count), width = width, init = init, update = update,
                              memory = opt.memory, disk = opt.disk,
                              technique = opt.technique == "replicate" and opt.mode == "batched" and "static"
                                or opt.disk and opt.technique == "intent" and "relocate" or opt.technique},
      relations = tide.table {keys = tide.dense(d.relation_count), init = init, update = update,
                              technique = opt.cluster and "relocate"
                                or (opt.technique == "replicate" or opt.technique == "intent" or by_buckets)
                                  and "replicate" or "static",
                              width = opt.model == "rescal" and width * width or width},
    }
  end,

  worker = function(w)                       -- on every worker, on its own fiber; calls that wait suspend only it
    local train <const>, calls <const> = tide.kernel "kge_train", by_buckets and bucket_order(w) or random_order(w)
    local sampler = SAMPLING ~= "preloc"                                                  -- the kernel itself does that
      and w.tables.entities:sampler {scheme = SAMPLING, seed = w.seed * 65537 + w.rank} or nil
    for epoch = 1, opt.epochs do
      local loss, examples, told = 0, 0, {loss = 0, examples = 0}
      for call in calls(epoch) do
        local r = train {
          model = opt.model, entities = w.tables.entities, relations = w.tables.relations, triples = call.triples,
          first = call.first, count = call.count, entity_count = w.data.entity_count, mode = opt.mode,
          batch = opt.batch, negatives = opt.neg, sampler = sampler,
          ahead = opt.ahead or SAMPLING == "local" and 64 or 8, intended = FINE or by_buckets, loss = opt.loss,
          penalty = opt.penalty, gamma_e = opt.gamma, gamma_r = opt.gamma, seed = call.seed,
        }
        loss, examples = loss + r.loss, examples + call.count
        if examples - told.examples >= CALL then                                    -- moves the progress line
          w:report {loss = loss - told.loss, examples = examples - told.examples, wait = false}
          told = {loss = loss, examples = examples}
        end
      end
      w:report {loss = loss, examples = examples}                                   -- waits for all
      if w:stopping() then break end
    end
  end,

  evaluate = {                               -- sums and count of each worker's piece; the driver gets the means
    valid = function(w)
      local r = rank(w, "valid", 500)
      return r, r.count
    end,
    test = function(w)
      local r = rank(w, "test", opt.eval_limit)
      return r, r.count
    end,
  },
}

---Well-known entities for a look at the result, as far as the data has them; else the first ones.
local function samples()
  local found, wanted = {}, {["dog.n.01"] = 1, ["paris.n.01"] = 2, ["piano.n.01"] = 3, ["whisper.v.01"] = 4}
  for key, name in ipairs(data.entities) do
    local place = wanted[name]
    if place then found[place] = key - 1 end
  end
  local list = {}
  for place = 1, 4 do list[#list + 1] = found[place] end
  if #list > 0 then return list end
  for key = 0, math.min(3, data.entity_count) - 1 do list[#list + 1] = key end
  return list
end

---Names of the entities whose rows point the same way.
local function neighbours(run, key)
  local r = tide.kernel "nearest_rows" {rows = run.tables.entities, key = key, count = data.entity_count, limit = 5}
  local names = {}
  for i = 1, 5 do
    local k = r["key" .. i]
    if k then names[i] = data.entities[math.tointeger(k) + 1] end
  end
  return {entity = data.entities[key + 1], nearest = names}
end

local function say(...)
  if not opt.json and not tide.output.json then print(string.format(...)) end
end

tide.main(function()
  say("data: %s", data.note)
  say("negatives: sampling %s", SAMPLING)
  local cluster <close> = tide.cluster {nodes = opt.nodes, workers = opt.workers}
  local run = cluster:start(job)
  local epochs, before = {}, 0
  for r in run:events "report" do
    epochs[r.n] = {epoch = r.n, loss = r.loss / r.examples, train_s = r.elapsed_s - before}
    before = r.elapsed_s
    local valid = opt.eval_every > 0 and r.n % opt.eval_every == 0 and run:evaluate "valid"
    say("epoch %2d  loss %.4f  %7.2f s%s", r.n, r.loss / r.examples, r.elapsed_s,
      valid and ("  valid MRR %.4f"):format(valid.mrr) or "")
  end
  local summary = run:wait()
  local began = tide.now()
  local test = run:evaluate "test"
  local near = {}
  for i, key in ipairs(samples()) do near[i] = neighbours(run, key) end
  local files = opt.save and run:dump(opt.save, {"entities", "relations"}) or {}

  if opt.json or tide.output.json then
    local result = summary:to_data()
    result.schema, result.model, result.data, result.nearest, result.files = "tide.kge/1", opt.model, data.note, near,
      files
    result.order = opt.order
    result.sampling = SAMPLING
    result.mrr, result.hits1, result.hits3, result.hits10 = test.mrr, test.hits1, test.hits3, test.hits10
    result.mean_rank, result.ranked, result.epochs = test.rank, test.count, epochs
    print(tide.json.encode(result))
    return
  end
  say("\nfiltered ranking of %d test triples among %d entities, both sides (%.1f s)", test.count // 2,
    data.entity_count, tide.now() - began)
  say("  MRR %.4f   Hits@1 %.4f   Hits@3 %.4f   Hits@10 %.4f   mean rank %.0f\n", test.mrr, test.hits1, test.hits3,
    test.hits10, test.rank)
  print(summary:table {"reports", "epoch_s", "examples_per_s", "accesses_local", "accesses_remote", "local_share",
                       "wire_bytes", "wire_messages"})
  say("\nnearest neighbours")
  for _, n in ipairs(near) do say("  %-18s %s", n.entity, table.concat(n.nearest, ", ")) end
  for _, file in ipairs(files) do say("written: %s", file) end
  say [[

what next
  tide run examples/kge.lua --epochs 40 --eval-every 5     train longer, rank the valid part on the way
  tide run examples/kge.lua --model rescal --dim 50        another model
  tide run examples/kge.lua --help                         all options]]
end)
