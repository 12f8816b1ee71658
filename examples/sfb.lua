-- Sufficient factor broadcasting: four models whose gradients are few outer products, and how what they learn travels.
--   tide run sfb.lua                                     generated data, four node processes, all models and methods
--   tide run sfb.lua --data news20.scale --models mlr    a LibSVM file (.gz too), one model
--   tide run sfb.lua --chart sfb.svg                     objectives by epoch, bytes of a step
-- Methods: ps (dense sums by servers), full (factors to all), partial (factors to --fanout others, who pass them
-- on), sparse (without zeros), bf16 (half the bytes), topk and onebit (dense, lossy). `single` is one worker with whole
-- batches.
-- Bytes are those out of a worker in a step, beside what the formulas of docs/guides/exchange.md say.
local tide = require "tide"
local factors = tide.factors

local opt = tide.options {
  data    = {"LibSVM file; without it: generated", type = "string"},
  models  = {"which, one after the other", default = "mlr,sdca,metric,coding"},
  methods = {"which, one after the other", default = "single,ps,full,partial,sparse"},
  train   = {"generated examples", default = 1200},
  columns = {"of generated examples", default = 800},
  classes = {"of generated examples", default = 100},
  width   = {"of the projection of metric", default = 32},
  atoms   = {"of the dictionary of coding", default = 48},
  batch   = {"examples of a step, of all workers together", default = 64},
  epochs  = {"passes over the examples", default = 6},
  l2      = {"weight of |W|^2 / 2 of mlr and sdca", default = 1e-4},
  fanout  = {"how many others a worker sends its factors to with partial", default = 1},
  nodes   = {"node processes on this machine, a worker each", default = 4},
  seed    = {"of data, initial values and orders", default = 1},
  chart   = {"file for a picture of it", type = "string"},
  json    = {"one JSON object a row instead of text", default = false},
}

local MODELS <const> = {
  mlr    = function() return factors.mlr {lr = 30, l2 = opt.l2} end,
  sdca   = function() return factors.sdca {l2 = opt.l2} end,
  metric = function() return factors.metric {width = opt.width, lr = 0.2} end,
  coding = function() return factors.coding {atoms = opt.atoms, lr = 1, l1 = 0.05} end,
}
local SFB <const>, PS <const> = "comm/always-sfb", "comm/always-ps"
local METHODS <const> = {
  single  = {workers = 1, policy = SFB, format = "f32"},
  ps      = {policy = PS, format = "f32"},
  full    = {policy = SFB, format = "f32"},
  partial = {policy = SFB, format = "f32", fanout = opt.fanout},
  sparse  = {policy = SFB, format = "sparse"},
  bf16    = {policy = SFB, format = "bf16"},
  topk    = {policy = PS, format = "topk"},
  onebit  = {policy = PS, format = "onebit"},
}
local WIDTHS <const> = {f32 = 4, bf16 = 2, topk = 8 / 100, onebit = 1 / 8 + 8 / 1024}

---The data of a model: signals are narrower than texts.
local function data_of(name)
  local narrow <const> = name == "coding" and not opt.data
  return tide.data.libsvm(opt.data or {generate = {train = opt.train, columns = narrow and 96 or opt.columns,
    nonzeros = 24, classes = opt.classes, seed = opt.seed}}, {labels = "class"})
end

local function each(list, known, what)
  local names = {}
  for name in list:gmatch "[^,]+" do
    if not known[name] then error(("%s is none of the %s"):format(name, what), 0) end
    names[#names + 1] = name
  end
  return names
end

-- Workers load this script, too, so every pair has a job of its own name.
local rows = {}
for _, name in ipairs(each(opt.models, MODELS, "models")) do
  local model <const>, data <const> = MODELS[name](), data_of(name)
  for _, method in ipairs(each(opt.methods, METHODS, "methods")) do
    local m <const> = METHODS[method]
    rows[#rows + 1] = {model = name, method = method, data = data, spec = model, m = m, job = factors.job {
      name = ("sfb-%s-%s"):format(name, method), model = model, data = data, batch = opt.batch, epochs = opt.epochs,
      seed = opt.seed, comm = {policy = m.policy, params = {format = m.format, fanout = m.fanout}},
    }}
  end
end

---Bytes of values out of a worker in a step.
---@param rank number rows of factors of a worker in a step
---@param nonzeros number of their values
local function formula(row, workers, rank, nonzeros)
  local t <const>, width <const> = factors.describe(row.spec, row.data)[1], WIDTHS[row.m.format]
  if row.m.format == "sparse" then return (workers - 1) * (4 * nonzeros + rank * t.row_values / 8) end
  if row.m.policy == SFB then return width * (workers - 1) * rank * t.row_values end
  return width * 2 * t.values * (workers - 1) / workers
end

local function train(row)
  local workers <const> = row.m.workers or opt.nodes
  local cluster <close> = tide.cluster {nodes = workers}
  local run = cluster:start(row.job)
  local reports, used, nonzeros, steps = {}, 0, 0, 0
  row.objectives = {}
  for r in run:events "report" do
    reports[r.n], used, nonzeros, steps = r, used + r.factors, nonzeros + r.nonzeros, steps + r.steps
    row.objectives[r.n], row.gap = factors.objective(r)
    row.correct = r.correct / r.examples
  end
  local summary = run:wait()
  -- Steps of a worker in a second, without the first epoch, in which all begin.
  local first, last = reports[math.min(1, #reports - 1)], reports[#reports]
  local seconds = last.elapsed_s - (first and first.elapsed_s or 0)
  row.steps_s = (#reports - (first and 1 or 0)) * last.steps / workers / seconds
  row.bytes_step = summary.comm_bytes_step or 0
  row.formula_bytes = formula(row, workers, used / steps, nonzeros / steps)
  row.workers, row.objective = workers, row.objectives[#row.objectives]
end

local function draw(path, done)
  local groups, bytes, charts = {}, {name = "bytes out of a worker in a step", values = {}}, {}
  local by_model, order = {}, {}
  for _, row in ipairs(done) do
    groups[#groups + 1], bytes.values[#groups + 1] = row.model .. " " .. row.method, row.bytes_step
    if not by_model[row.model] then
      by_model[row.model] = {title = row.model .. ": objective", x = "epoch", y = "objective", series = {}}
      order[#order + 1] = row.model
    end
    local points = {}
    for i, value in ipairs(row.objectives) do points[i] = {i, value} end
    local series = by_model[row.model].series
    series[#series + 1] = {name = row.method, points = points}
  end
  for _, name in ipairs(order) do charts[#charts + 1] = by_model[name] end
  charts[#charts + 1] = {title = "bytes of a step", y = "bytes", groups = groups, series = {bytes}}
  assert(tide.chart.write(path, charts))
end

tide.main(function()
  local text <const> = not opt.json and not tide.output.json
  local function say(...) if text then print(string.format(...)) end end
  local noted, singles = {}, {}
  for _, row in ipairs(rows) do
    if not noted[row.model] then
      noted[row.model] = true
      say("\n%s: %s", row.model, row.data.note)
      say("%-8s %12s %12s %8s %9s %13s %10s", "method", "bytes/step", "formula", "apart", "steps/s", "objective",
        "from single")
    end
    train(row)
    if row.method == "single" then singles[row.model] = row.objective end
    local single <const> = singles[row.model]
    row.from_single = single and row.objective / single - 1 or nil
    if text then
      local apart = row.formula_bytes > 0
        and ("%.2f %%"):format(100 * (row.bytes_step / row.formula_bytes - 1)) or "-"
      say("%-8s %12.0f %12.0f %8s %9.1f %13.7f %10s%s", row.method, row.bytes_step, row.formula_bytes, apart,
        row.steps_s, row.objective, row.from_single and ("%.2g %%"):format(100 * row.from_single) or "-",
        row.model == "sdca" and ("  gap %.2g"):format(row.gap) or "")
    else
      print(tide.json.encode {model = row.model, method = row.method, workers = row.workers, steps_s = row.steps_s,
        bytes_step = row.bytes_step, formula_bytes = row.formula_bytes, objective = row.objective,
        objectives = row.objectives, from_single = row.from_single, gap = row.model == "sdca" and row.gap or nil,
        correct = row.correct, data = row.data.note, schema = "tide.sfb/1"})
    end
  end
  if opt.chart then
    draw(opt.chart, rows)
    say("\nwritten: %s", opt.chart)
  end
end)
