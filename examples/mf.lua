-- Matrix factorisation by blocks: at any time no two workers share a row or a column of the matrix. Or without blocks,
-- column after column or cell after cell: workers have rows of their own, and all use the columns at any time.
--   tide run mf.lua                                      a generated matrix, four node processes
--   tide run mf.lua --order columnwise --technique relocate
--   tide run mf.lua --data ml-100k/u.data                MovieLens: u.data, ratings.dat, ratings.csv
--   tide run mf.lua --data mf1m/                         MatrixMarket: a file, or train.mtx and test.mtx
local tide = require "tide"

local opt = tide.options {
  data     = {"ratings or MatrixMarket: a file, or a directory with train.* and test.*; without it: generated",
              type = "string"},
  generate = {"size of the generated matrix", default = "small", choices = {"small", "mf100k", "mf1m"}},
  rank     = {"latent dimensions; without it 64, for the small generated matrix 8", type = "integer", min = 1},
  epochs   = {"passes over the cells", default = 20},
  eps      = {"step size at the start", default = 0.01, above = 0},
  lambda   = {"weight of the regulariser; without it 12 with --data, else 0.05", type = "number"},
  start    = {"distribution of initial values", default = "normal", choices = {"normal", "uniform"}},
  std      = {"of normal initial values; without it 0.1 with --data, else rank^-1/4", type = "number"},
  center   = {"subtract the mean of the training cells", default = true},
  test     = {"share of a single file that is held out", default = 0.1},
  driver   = {"bold driver: step size 5 % up after a better epoch, halved after a worse one", default = true},
  order    = {"blocks that share nothing; or, with columns shared, column by column, or cell by cell",
              default = "blocks", choices = {"blocks", "columnwise", "plain"}},
  group    = {"orders without blocks: cells between which columns are pulled and pushed", default = 1000},
  ahead    = {"orders without blocks: groups whose columns are sent for; without it 2, by intent 8", type = "integer"},
  blocks   = {"blocks on a side of the matrix, a multiple of all workers; else by caches, density", type = "integer"},
  technique = {"where columns live: at a fixed home, or with who uses them now; without blocks also: with copies on "
               .. "all nodes, or by intent", default = "static",
               choices = {"static", "relocate", "replicate", "intent"}},
  nodes    = {"node processes on this machine", default = 4, min = 1},
  workers  = {"workers of each node", default = 1, min = 1},
  seed     = {"of initial values, split and orders", default = 1},
  save     = {"file for the factors", type = "string"},
  json     = {"one JSON object instead of text", default = false},
}

local rank = opt.rank or (not opt.data and opt.generate == "small" and 8) or 64
local lambda = opt.lambda or (opt.data and 12) or 0.05
local std = opt.std or (opt.data and 0.1) or rank ^ -0.25

local data = tide.data.ratings(opt.data or tide.data.generate(opt.generate), {
  split = {test = opt.test, seed = opt.seed}, partition = "rows", center = opt.center,
  blocks = opt.blocks, row_bytes = 4 * rank})

local names = {"rows", "columns"}              -- of the tables
local by_blocks <const> = opt.order == "blocks"
local moves <const> = opt.technique == "relocate"
local copies <const> = opt.technique == "replicate" or opt.technique == "intent"
if by_blocks and copies then
  error("blocks never share a column, so there is nothing to copy: --technique static or relocate, or else another "
        .. "--order", 0)
end

---Arguments of the kernels: the tables, and the cells of a block.
local function on(w, block, more)
  more.rows, more.columns, more.cells, more.values = w.tables.rows, w.tables.columns, block.cells, block.values
  return more
end

---What this worker trains on in which order, and what makes the columns come.
local function order_of(w)
  local columns <const> = w.tables.columns
  if by_blocks then return w.data:rotation(w, {epochs = opt.epochs, columns = moves and columns or nil}) end
  local fetch <const> = moves and "localize" or opt.technique == "intent" and "intent" or nil
  return w.data:groups(w, {order = opt.order, size = opt.group, columns = columns, fetch = fetch,
                           ahead = opt.ahead or opt.technique == "intent" and 8 or 2})
end

---Training loss of this worker's rows, and of its share of the columns: sum of squares and regulariser.
local function training_loss(w)
  local sums = {loss = 0, error = 0}
  for strip in w.data:strips "train" do
    local r = tide.kernel "mf_loss" (on(w, strip, {
      lambda = w.params.lambda, row_first = strip.row_first, row_count = strip.row_count,
      column_first = strip.col_first, column_count = strip.col_count}))
    sums.loss, sums.error = sums.loss + r.loss, sums.error + r.error
  end
  return sums
end

---Copies of this worker's rows and of its share of the columns.
local function snapshot(w)
  local kept = {}
  for strip in w.data:strips "train" do
    kept[#kept + 1] = {rows = w.tables.rows:pull(strip.row_keys), row_first = strip.row_first,
                       columns = w.tables.columns:pull(strip.col_keys), col_first = strip.col_first}
  end
  return kept
end

local function restore(w, kept)
  for _, k in ipairs(kept) do
    tide.kernel "rows_restore" {rows = w.tables.rows, first = k.row_first, values = k.rows}
    tide.kernel "rows_restore" {rows = w.tables.columns, first = k.col_first, values = k.columns}
  end
  w:barrier "restored"
end

local job = tide.job {
  name = "mf",
  data = data,
  seed = opt.seed,
  stop = {epochs = opt.epochs},
  params = {eps = opt.eps, lambda = lambda},

  tables = function(d)                         -- asked once, when the data's header is known
    local init = opt.start == "uniform" and tide.uniform {low = 0, high = 1} or tide.normal {std = std}
    return {                                   -- slots in ranges: row and column blocks lie on their workers' nodes
      rows    = tide.table {keys = tide.dense(d.rows), width = rank, slots = "range", init = init, update = "add",
                            technique = opt.technique == "static" and "static" or "relocate"},
      columns = tide.table {keys = tide.dense(d.cols), width = rank, slots = "range", init = init, update = "add",
                            technique = opt.technique, seed = opt.seed + 1},
    }
  end,

  worker = function(w)                         -- on every worker, on its own fiber; calls that wait suspend only it
    local sgd <const>, order <const> = tide.kernel "mf_sgd_block", order_of(w)
    if opt.technique ~= "static" then w.tables.rows:localize(w.data:row_keys()) end -- no other worker uses them
    local kept = snapshot(w)
    local before = training_loss(w).loss
    w:barrier "start"
    for epoch = 1, opt.epochs do
      local began <const> = tide.now()
      for block in order:epoch(epoch) do
        local r = sgd(on(w, block, {
          row_counts = w.data.row_counts, column_counts = w.data.column_counts, eps = w.params.eps,
          lambda = w.params.lambda, seed = block.seed}))
        w:report {loss = r.loss, examples = r.examples, wait = false}               -- moves the progress line
      end
      if copies then w.tables.columns:flush() end
      w:barrier "epoch"
      local train_s <const> = tide.now() - began
      local sums <const>, copy <const> = training_loss(w), snapshot(w)
      w:report {loss = sums.loss, error = sums.error, examples = w.data.count, train_s = train_s,
                before = before}                                                    -- waits for all
      before = 0
      if w.params.restore then restore(w, kept) else kept = copy end
      if w:stopping() then break end
    end
  end,

  on_report = function(run, sum)               -- on the controller, once a report: the bold driver
    local loss, last = sum.loss / sum.examples, run.state.loss or sum.before / sum.examples
    local eps, sane = run.params.eps, loss < 10 * last
    if not sane and copies then                -- of which each worker may have others
      error("the loss has run away; try a smaller --eps, or --technique static or relocate", 0)
    elseif not sane then                       -- not finite, or off: back to the last good epoch
      run.state.loss = last
      return {eps = eps / 2, restore = true}
    end
    run.state.loss = loss
    return {eps = opt.driver and eps * (loss < last and 1.05 or 0.5) or eps, restore = false}
  end,

  evaluate = {mse = function(w)                -- sum and count of each worker's held-out cells
    local sum, count = 0, 0
    for strip in w.data:strips "test" do
      local r = tide.kernel "mf_error" (on(w, strip, {}))
      sum, count = sum + r.sum, count + r.count
    end
    return sum, count
  end},
}

local function say(...)
  if not opt.json and not tide.output.json then print(string.format(...)) end
end

---Seconds of the slowest worker: training and barriers, without the loss.
local function slowest(report)
  local most = 0
  for _, worker in ipairs(report.workers) do most = math.max(most, worker.train_s) end
  return most
end

tide.main(function()
  say("data: %s", data.note)
  local cluster <close> = tide.cluster {nodes = opt.nodes, workers = opt.workers}
  local run = cluster:start(job)
  local epochs, best = {}, {}
  local tested = data:part "test".values:rows() > 0
  local function test_rmse() return tested and math.sqrt(run:evaluate "mse") or nil end
  local function shown(rmse) return rmse and ("test RMSE %.4f"):format(rmse) or "no test cells" end
  say("before    %s", shown(test_rmse()))
  for r in run:events "report" do
    local e = {epoch = r.n, loss = r.loss / r.examples, rmse = test_rmse(), train_s = slowest(r), eps = r.params.eps}
    epochs[#epochs + 1] = e
    if e.rmse and e.rmse < (best.rmse or math.huge) then best = e end
    say("epoch %2d  loss %.4f  train RMSE %.4f  %s  %7.3f s%s", e.epoch, e.loss, math.sqrt(r.error / r.examples),
      shown(e.rmse), e.train_s, r.params.restore and "  taken back" or "")
  end
  local summary = run:wait()
  local files = opt.save and run:dump(opt.save, names) or {}
  local total, last = 0, epochs[#epochs]
  for _, e in ipairs(epochs) do total = total + e.train_s end

  if opt.json or tide.output.json then
    local result = summary:to_data()
    result.schema, result.data, result.epochs, result.files = "tide.mf/1", data.note, epochs, files
    result.train_s, result.rmse, result.best_rmse = total / #epochs, last.rmse, best.rmse
    print(tide.json.encode(result))
    return
  end
  say("\n%s%s; %.3f s an epoch, %.3g cells/s\n", shown(last.rmse),
    best.rmse and (", best %.4f after epoch %d"):format(best.rmse, best.epoch) or "", total / #epochs,
    data.count * #epochs / total)
  print(summary:table {"reports", "epoch_s", "accesses_local", "accesses_remote", "local_share", "wire_bytes",
                       "wire_messages"})
  for _, file in ipairs(files) do say("written: %s", file) end
  say [[

what next
  tide run examples/mf.lua --data ml-100k/u.data           films: users, items, ratings
  tide run examples/mf.lua --generate mf1m --rank 100      a million cells, for speed
  tide run examples/mf.lua --help                          all options]]
end)
