-- tide.factors: models with one matrix whose gradient is a sum of few outer products (Xie et al., "Distributed Machine
-- Learning via Sufficient Factor Broadcasting", 2016), trained on sparse rows by a job whose workers each hold it.
--
-- A step takes a batch of all workers together. Batches are cut from one order of the examples, which depends on the
-- seed alone, and workers take their pieces of them in the order of ranks: so the sums of a step, their order included,
-- are those of a single worker that takes whole batches, and where factors travel unrounded the parameters are the same
-- bit for bit.
local compute = require "tide.compute"
local group = require "tide.nn.worker_group"
local data = require "tide.data"
local optimizer = require "tide.nn.optimizer"
local package = require "tide.package"
local ranges = require "tide.nn.ranges"
local replica = require "tide.nn.replica"
local tensor = require "tide.tensor"
local tide = require "tide"

local factors = {}

local KEY <const> = 1024
local EVALUATED <const> = 1024 -- examples of a call

local function fail(message, help) error(package.error("T0203", message, {help = help}), 0) end

---A matrix of zeros, as the kernels take it and as an exchange does: in rows of KEY.
---@return table matrix, table rows: the same storage
local function zeros(rows, columns)
  local storage <const> = tensor.zeros("f32", (rows * columns + KEY - 1) // KEY, KEY)
  return storage:view(1, rows, columns), storage
end

---- kinds ---------------------------------------------------------------------------------------------------------
-- shape(o, set): rows and columns of W; arguments(o, part, n, w): what the kernel takes besides the batch, how many
-- examples there are (of pairs: how many pairs), and rows of KEY that hold dual variables; start(o, w, rng): initial
-- values, else zeros.

local function classes_of(set)
  if not set.classes then
    fail("the labels of the data are numbers", "read it with labels = \"class\"")
  end
  return #set.classes
end

---Two pairs an example: with one of its class, and with one of another, if there are such.
local function pairs_of(labels, rng)
  local n <const>, members = #labels, {}
  for i, label in pairs(labels) do
    members[label] = members[label] or {}
    table.insert(members[label], i)
  end
  local list, similar = {}, {}
  local function add(i, j, same)
    list[#list + 1], list[#list + 2], similar[#similar + 1] = i - 1, j - 1, same
  end
  for i, label in pairs(labels) do
    local own <const> = members[label]
    if #own > 1 then
      local j
      repeat j = own[rng:below(#own) + 1] until j ~= i
      add(i, j, 1)
    end
    if #own < n then
      local j
      repeat j = rng:below(n) + 1 until labels[j] ~= label
      add(i, j, 0)
    end
  end
  return tensor.from("u32", list), tensor.from("u8", similar)
end

local function uniform(w, rng, bound)
  for i = 1, #w do w[i] = bound * (2 * rng:uniform() - 1) end
end

local KINDS <const> = {
  mlr = {
    kernel = "factors_mlr",
    shape = function(_, set) return set.columns, classes_of(set) end,
    arguments = function(_, part) return {labels = part.labels}, part:rows() end,
  },
  sdca = {
    kernel = "factors_sdca", adds = true,
    shape = function(_, set) return set.columns, classes_of(set) end,
    arguments = function(o, part, columns)
      local dual <const>, storage <const> = zeros(part:rows(), columns)
      return {labels = part.labels, l2 = o.l2, sigma = o.sigma, dual = dual}, part:rows(), storage
    end,
  },
  metric = {
    kernel = "factors_metric",
    shape = function(o, set)
      classes_of(set)
      return set.columns, o.width
    end,
    arguments = function(o, part, _, rng)
      local list, similar = pairs_of(part.labels, rng)
      if #similar == 0 then fail("factors.metric: the data has no pair of examples") end
      return {pairs = list, similar = similar, weight = o.weight}, #similar
    end,
    start = function(_, w, rng) uniform(w, rng, math.sqrt(3 / w:columns())) end,
  },
  coding = {
    kernel = "factors_coding",
    shape = function(o, set) return o.atoms, set.columns end,
    arguments = function(o, part) return {l1 = o.l1}, part:rows() end,
    start = function(_, w, rng)
      uniform(w, rng, 1)
      package.kernels.project_rows {w = w}
    end,
    updated = function(w) package.kernels.project_rows {w = w} end,
  },
}

---@class tide.factors.spec
---@field kind string
local spec = {}
spec.__index = spec

local RANGES <const> = {lr = "rate", l2 = "rate", sigma = "factor", width = "count", weight = "rate", atoms = "count",
                        l1 = "size"}

local function new_spec(kind, defaults, o)
  local self = setmetatable({kind = kind}, spec)
  for k, v in pairs(defaults) do self[k] = v end
  package.check_fields("T0203", "factors." .. kind, o or {}, defaults)
  for k, v in pairs(o or {}) do
    local problem <const> = not (k == "lr" and type(v) == "function")
      and ranges.problem(v, kind == "sdca" and k == "l2" and "size" or RANGES[k])
    if problem then fail(("factors.%s: `%s` is %s"):format(kind, k, problem)) end
    self[k] = v
  end
  return self
end

---Multiclass logistic regression by gradients; l2 is the weight of |W|^2 / 2. The data has classes.
---@param o? {lr?: number|fun(step: integer): number, l2?: number}
function factors.mlr(o) return new_spec("mlr", {lr = 0.5, l2 = 0}, o) end

---The same by dual coordinate ascent, which needs no rate. sigma: by how much steps of a batch, which start from the
---same parameters, are taken back; it doubles when an epoch lowers the dual objective.
---@param o {l2: number, sigma?: number}
function factors.sdca(o) return new_spec("sdca", {l2 = 1e-3, sigma = 1}, o) end

---Distance metric learning: a projection to `width` numbers in which examples of one class are near each other and
---others at a distance of 1 at least; weight: of the latter. Two pairs an example.
---@param o? {lr?: number, l2?: number, width?: integer, weight?: number}
function factors.metric(o) return new_spec("metric", {lr = 0.05, l2 = 0, width = 16, weight = 1}, o) end

---Sparse coding: a dictionary of `atoms` rows of length 1 at most, and codes with the weight l1 on their magnitudes.
---@param o? {lr?: number, atoms?: integer, l1?: number}
function factors.coding(o) return new_spec("coding", {lr = 0.5, atoms = 32, l1 = 0.1}, o) end

---- the model -----------------------------------------------------------------------------------------------------

---The matrix as a layer of an exchange, like tide.nn.exchange.describe for programs.
local function describe(rows, columns)
  local n <const> = rows * columns
  return {{id = 1, name = "W", first = 0, count = n, rows = rows, cols = columns, values = n, rest = 0, bytes = 4 * n,
           row_values = rows + columns, positions = 1, parameters = {{number = 1, first = 0, count = n, matrix = true}},
           matrices = {{parameter = 1, first = 0, rows = rows, columns = columns}}}}
end

---@param o tide.factors.spec
---@param set tide.data.set sparse rows
---@return table[]
---@package
function factors.describe(o, set) return describe(KINDS[o.kind].shape(o, set)) end

---@class tide.factors.model what tide.nn.exchange drives
---@field w table tensor rows x columns: shares storage with `parameters`
---@field used integer rows of factors passed on since it was last set to 0; nonzeros: of their values
local model = {}
model.__index = model

local function new_model(o, set, seed)
  local kind <const> = KINDS[o.kind]
  local rows <const>, columns <const> = kind.shape(o, set)
  local w <const>, parameters <const> = zeros(rows, columns)
  local self = setmetatable({
    spec = o, kind = kind, kernel = package.kernels[kind.kernel], tensors = describe(rows, columns),
    layout = {keys = parameters:rows()}, w = w, parameters = parameters, adds = kind.adds, used = 0, nonzeros = 0,
    optimizer = {rule = "sgd", decay = not kind.adds and o.l2 or 0},
    train = {offer = function() end},
  }, model)
  if kind.start then kind.start(o, self.w, tide.random(seed)) end
  return self
end

---A part of the data as the kernel takes it.
local function new_input(self, part, seed)
  local arguments, count, storage = self.kind.arguments(self.spec, part, self.w:columns(), tide.random(seed))
  arguments.offsets, arguments.indices, arguments.values = part.offsets, part.indices, part.values
  arguments.w = self.w
  return {arguments = arguments, count = count, storage = storage}
end

---The rate of a step; -1 for changes that are added unscaled.
function model:rate(step)
  if self.adds then return -1 end
  return optimizer.rate(self.spec, step)
end

---Passes on the factors of a batch of these examples.
---@return {loss: number, count: number, correct: number} summed, before the step
function model:backward(batch, hooks, x)
  hooks.need(1)
  local input <const>, n <const> = batch.input, #batch.rows
  if not self.u or self.u:rows() < n then
    self.u, self.v = tensor.zeros("f32", n, self.w:columns()), tensor.zeros("f32", n, self.w:rows())
  end
  local arguments <const> = input.arguments
  arguments.rows, arguments.u, arguments.v = batch.rows, self.u, self.v
  local r <const> = self.kernel(arguments)
  x:factors(1, 1, self.v, self.u, math.tointeger(r.factors))
  self.used = self.used + r.factors
  self.nonzeros = self.nonzeros + r.nonzeros
  hooks.ready(1)
  return {loss = r.loss, count = r.count, correct = r.correct or 0}
end

---Plain gradient descent, which products can make.
function model.folds() return true end

---No memory beside the parameters.
function model.remembered() return {} end

---Gradients are the exchange's, and their sum.
function model:stage(_, sum) self.summed = sum end

---The update of a dense gradient.
function model:change(first, count, scale, step)
  compute.update("cpu", {rule = "sgd", rate = self:rate(step), scale = scale, decay = self.optimizer.decay}, first,
    count,    self.parameters, self.summed)
end

function model:updated()
  if self.kind.updated then self.kind.updated(self.w) end
end

---Sets W from the dual variables of all examples.
local function rebuild(input)
  local a <const> = input.arguments
  local all = tensor.zeros("u32", input.count, 1)
  for i = 1, input.count do all[i] = i - 1 end
  package.kernels.factors_primal {offsets = a.offsets, indices = a.indices, values = a.values, rows = all, w = a.w,
                                dual = a.dual, l2 = a.l2}
end

---Sums over examples (a u32 tensor of their numbers) for the current W.
---@return {loss: number, correct: number, entropy: number}
function model:evaluate(input, numbers)
  local arguments <const> = input.arguments
  local sums = {loss = 0, correct = 0, entropy = 0}
  arguments.u, arguments.v = nil, nil
  for at = 1, #numbers, EVALUATED do
    arguments.rows = numbers:slice(at, math.min(EVALUATED, #numbers + 1 - at))
    local r = self.kernel(arguments)
    for k, v in pairs(sums) do sums[k] = v + (r[k] or 0) end
  end
  return sums
end

---What the regulariser adds to the objective.
function model:penalty()
  local l2 <const> = self.spec.l2
  return l2 and l2 > 0 and 0.5 * l2 * compute.norm2("cpu", 0, #self.w, self.parameters) or 0
end

---- the job ---------------------------------------------------------------------------------------------------------

---@class tide.factors.trainer
local trainer = {}
trainer.__index = trainer

---The examples of batch b in `order`.
local function span_of(self, b)
  local before <const> = (b - 1) * self.batch
  return {first = before + 1, count = math.min(self.batch, self.input.count - before)}
end

---The numbers of a worker's examples: its piece of each batch.
---@return integer[]
local function own_examples(self)
  local own = {}
  for b = 1, self.batches do
    local span <const> = span_of(self, b)
    local first, count = self.group:piece(span.count, self.owners)
    for i = 1, count do own[#own + 1] = self.order[span.first + first + i - 2] end
  end
  return own
end

local function new_trainer(w, o)
  local m <const> = new_model(o.model, w.data, w.seed)
  local input <const> = new_input(m, w.data:whole "train", w.seed + 1)
  return setmetatable({w = w, model = m, input = input, order = data.order(input.count, w.seed), batch = o.batch,
                       batches = (input.count + o.batch - 1) // o.batch, replica = replica.new(w, m),
                       group = group.new(w, m)}, trainer)
end

---Before the first epoch: all dual variables are 0.
function trainer:begin()
  self.owners = self.model.adds and self.group.ranks
  self.replica:store()
end

-- Rows of the table of dual variables, by pieces.
local function piece_of_duals(self, i, n)
  local first <const>, count <const> = package.piece(self.input.storage:rows(), i, n)
  return replica.range(first - 1, count), self.input.storage:slice(first, count), count
end

---Called when all workers leave and others will resume. W is in its table since the end of the epoch; the dual
---variables, so far local to their workers, are written to a table too.
function trainer:hand_in()
  local left_off <const>, ranks <const> = self.group.left_off, self.group.leavers
  if self.model.adds then
    self.group:add_up(self.input.storage, ranks)
    self.replica:store(nil, function(i, n)
      local keys <const>, rows <const>, count <const> = piece_of_duals(self, i, n)
      if count > 0 then self.w.tables.duals:push(keys, rows) end
    end)
    left_off.sigma = self.input.arguments.sigma
  end
  self.w.state = left_off
end

---Resumes from workers that have left. If they were lost instead, their dual variables and W are 0 again.
function trainer:go_on()
  local state <const> = self.w.state
  self.group.steps = state.steps or 0
  if not self.model.adds then return self.replica:fetch() end
  self.owners = self.group.ranks
  if not state.sigma then return end
  self.replica:fetch()
  local keys <const>, rows <const> = piece_of_duals(self, 1, 1)
  self.w.tables.duals:pull(keys, {into = rows})
  self.input.arguments.sigma = state.sigma
  self:keep_own()
end

---Sets the dual variables of other workers' examples to 0 here.
function trainer:keep_own()
  local theirs = {}
  for i = 1, self.input.count do theirs[i] = true end
  for _, number in ipairs(own_examples(self)) do theirs[number + 1] = nil end
  for i in pairs(theirs) do self.input.arguments.dual:slice(i, 1):fill(0) end
end

---All batches, in an order of the epoch's own.
function trainer:epoch(epoch)
  local spans = {}
  for i, b in pairs(data.order(self.batches, self.w.seed * 7919 + epoch)) do spans[i] = span_of(self, b + 1) end
  for first, count in self.group:batches(spans, self.batch, self.model.adds) do
    self:share_duals(self.group:present())
    local r = self.group:step {input = self.input, rows = self.order:slice(first, count)}
    self.w:report {examples = r.count, wait = false}
  end
  self.moved = self.group:settle()
  self.replica:store()
  self.replica:compare()
end

---Assigns examples to workers where there are dual variables: each worker stores its own and keeps those of others at
---0. If the assignment changes, because a worker died, left or joined, all workers sum theirs. Dual variables of a lost
---worker are 0 again, and W is computed anew from all: so W = sum a alpha' / (l2 n), and the duality gap stays valid.
---All workers call it with the same ranks.
---@param ranks integer[]
function trainer:share_duals(ranks)
  if not self.model.adds or table.concat(ranks, " ") == table.concat(self.owners or {}, " ") then return end
  local input <const>, a <const> = self.input, self.input.arguments
  self.group:add_up(input.storage, ranks)
  rebuild(input)
  self.owners, self.dual, a.sigma = ranks, nil, self.model.spec.sigma -- ascent begins anew
  self:keep_own()
end

---The dual objective must rise; if it fell, the steps of a batch interfere more than sigma allows.
---@param entropies table<integer, number> by rank
function trainer:mind_sigma(entropies)
  local sum = 0
  for _, rank in ipairs(replica.ranks(entropies)) do sum = sum + entropies[rank] end
  local dual <const> = sum / self.input.count - self.model:penalty()
  if self.dual and dual < self.dual then self.input.arguments.sigma = 2 * self.input.arguments.sigma end
  self.dual = dual
end

---Each worker evaluates its own examples, whose dual variables are local; retried if a worker dies meanwhile.
---@return table sums, integer examples
function trainer:evaluate()
  while true do
    local own <const> = own_examples(self)
    local sums <const> = self.model:evaluate(self.input, tensor.from("u32", own))
    if not self.model.adds then return sums, #own end
    local entropies <const> = self.w:barrier("dual", sums.entropy)
    local ranks <const> = replica.ranks(entropies)
    if #ranks == #self.owners then
      self:mind_sigma(entropies)
      return sums, #own
    end
    self:share_duals(ranks)
    self.replica:store()
  end
end

---Figures of an epoch, summed over the workers: the objective after it is loss / examples + penalty.
function trainer:figures()
  local report <const> = self.moved
  local sums <const>, examples <const> = self:evaluate()
  report.loss, report.correct, report.entropy = sums.loss, sums.correct, sums.entropy
  report.examples, report.steps, report.factors = examples, self.batches, self.model.used
  report.alike = {penalty = self.model:penalty()}
  report.nonzeros, self.model.used, self.model.nonzeros = self.model.nonzeros, 0, 0
  report.resyncs, self.replica.resyncs = self.replica.resyncs, 0
  return report
end

local function evaluate(w)
  local m <const> = w.trainer.model
  local test <const> = new_input(m, w.data:whole "test", w.seed + 2)
  local first, count = w.trainer.group:piece(test.count)
  local numbers = tensor.zeros("u32", count, 1)
  for i = 1, count do numbers[i] = first + i - 2 end
  local sums = m:evaluate(test, numbers)
  sums.entropy = nil
  return sums, count
end

local KNOWN <const> = {name = true, model = true, data = true, batch = true, epochs = true, seed = true, comm = true}

---A job that trains a model (factors.mlr, sdca, metric, coding) on sparse rows (tide.data.libsvm).
---Its reports have loss, examples, correct, penalty, entropy, factors (rows of factors), nonzeros (of their values),
---steps, resyncs, and figures of the exchange; run:evaluate "test" gives loss and correct of the part "test".
---@param o table {name, model, data, batch (of all workers together), epochs, seed?, comm?: as in nn.job}
---@return tide.job
function factors.job(o)
  package.check_fields("T0203", "factors.job", o, KNOWN)
  if getmetatable(o.model) ~= spec then
    fail("factors.job: `model` is none of factors.mlr, sdca, metric, coding {...}")
  end
  for _, name in ipairs {"batch", "epochs"} do
    local problem <const> = ranges.problem(o[name], "count")
    if problem then fail(("factors.job: `%s` is %s"):format(name, problem)) end
  end
  local job <const> = tide.job {
    name = o.name, data = o.data, seed = o.seed or 1, stop = {epochs = o.epochs},
    policies = {comm = o.comm or "comm/hybrid"},
    tables = function(set)
      local rows, columns = KINDS[o.model.kind].shape(o.model, set)
      local function rows_of(values)
        return tide.table {keys = tide.dense((values + KEY - 1) // KEY), width = KEY, slots = "range",
                               update = {"assign"}, replicas = package.copies()}
      end
      local duals <const> = KINDS[o.model.kind].adds -- rows take memory once they are written: when all workers leave
      return {params = rows_of(rows * columns), duals = duals and rows_of(set.count * columns) or nil}
    end,
    on_worker_loss = "replay",
    worker = function(w)
      w.trainer = new_trainer(w, o)
      for epoch in w.trainer.group:epochs(o.epochs) do
        if epoch.first then w.trainer:begin() end
        if epoch.resumes then w.trainer:go_on() end
        w.trainer:epoch(epoch.number)
        w:report(w.trainer:figures())
      end
      if w.trainer.group.left_off then w.trainer:hand_in() end
    end,
    evaluate = {test = evaluate},
  }
  return package.extend(job, {
    communication = {tensors = function() return factors.describe(o.model, o.data) end, batch = o.batch},
    meeting = {},
  })
end

---Primal objective of a report, and of factors.sdca its distance from the dual one: the optimum is no further away.
---@return number objective, number gap
function factors.objective(report)
  local mean <const> = report.loss / report.examples
  return mean + report.penalty, mean - report.entropy / report.examples + 2 * report.penalty
end

return factors
