-- A GPT in the manner of nanoGPT, of characters or byte pairs: tokens that see what came before them.
--   tide run gpt.lua                         generated sums, "7+5=12;", whose answers it learns
--   tide run gpt.lua --text book.txt --layers 4 --width 128 --length 128 --epochs 10
--   tide run gpt.lua --text book.txt --tokens 1024      tokens of a byte-pair code in place of characters
-- The loss is in nats a token; perplexity is its exponential.
local tide, nn = require "tide", require "tide.nn"

local opt = tide.options {
  text    = {"file to learn; without it: generated sums", type = "string"},
  tokens  = {"of the byte-pair code; 256: characters", default = 256, min = 1},
  layers  = {"blocks of attention and a net of two layers", default = 2, min = 1},
  width   = {"numbers a token", default = 64, min = 1},
  heads   = {"of attention, which share the width", default = 4, min = 1},
  length  = {"tokens of an example", default = 32, min = 1},
  count   = {"generated sums", default = 6000, min = 1},
  batch   = {"examples of a step, of all workers together", default = 32, min = 1},
  epochs  = {"passes over the text", default = 10},
  lr      = {"rate, of adamw, at its largest", default = 5e-3, above = 0},
  dropout = {"share left out behind each block", default = 0.0, min = 0},
  sample  = {"tokens that it writes in the end", default = 60},
  nodes   = {"node processes on this machine", default = 1, min = 1},
  seed    = {"of initial values, sums and orders", default = 1},
}
local T <const>, C <const> = opt.length, opt.width

---The text: of a file, or sums that are right.
local function text()
  if opt.text then
    local file <close> = assert(io.open(opt.text, "rb"))
    return file:read "a"
  end
  local rng, sums = tide.random(opt.seed), {}
  for i = 1, opt.count do
    local a <const>, b <const> = rng:below(10), rng:below(10)
    sums[i] = ("%d+%d=%d;"):format(a, b, a + b)
  end
  return table.concat(sums)
end

local all <const> = text()
local code <const> = tide.data.byte_pairs(all, opt.tokens) -- 256: each byte is a token
local tokens <const>, V <const> = code:encode(all), code.size

local data <const> = tide.data.lazy(function()
  local count <const>, parts = (#tokens - 1) // T, {}
  local held <const> = math.max(1, count // 10)
  for part, range in pairs {train = {0, count - held}, test = {count - held, held}} do
    local x <const>, y <const> = tide.tensor.zeros("i32", range[2], T), tide.tensor.zeros("i32", range[2], T)
    for i = 1, range[2] * T do
      x[i], y[i] = tokens[range[1] * T + i], tokens[range[1] * T + i + 1]
    end
    parts[part .. ".x"], parts[part .. ".y"] = x, y
  end
  return {parts = parts, count = count - held, note = ("%d tokens of %d kinds"):format(#tokens, V)}
end)

local net <const> = nn.program("gpt", function(p)
  local function table_of(name, n) return p:param(name, {n, C}, tide.normal {std = 0.02}) end
  local rows <const> = table_of("tokens", V)
  local x = rows:gather(p:index("x", T)) + table_of("places", T)
  for _ = 1, opt.layers do
    local q <const>, k <const>, v <const> = nn.split(nn.linear(3 * C, {bias = false})(nn.layernorm()(x)), 3)
    local seen <const> = nn.attention(q, k, v, {heads = opt.heads, causal = true})
    x = x + nn.dropout(opt.dropout)(nn.linear(C, {bias = false})(seen))
    local h <const> = nn.gelu(nn.linear(4 * C, {bias = false})(nn.layernorm()(x)))
    x = x + nn.dropout(opt.dropout)(nn.linear(C, {bias = false})(h))
  end
  local z <const> = nn.layernorm()(x):mm(rows, {tb = true}) -- scores by the same table
  p:output("z", z)
  p:loss(nn.xent(z, p:index("y", T)))
end)

local steps <const> = opt.epochs * ((#tokens - 1) // T * 9 // 10 // opt.batch)
local job <const> = nn.job {
  name = "gpt", program = net, data = data, batch = opt.batch, epochs = opt.epochs, seed = opt.seed, clip = 1,
  optimizer = nn.adamw {lr = nn.schedule.warmup(20, nn.schedule.cosine(opt.lr, steps)), beta2 = 0.95, decay = 0.1},
}

---The text that the model writes behind `written`, the likeliest token each time.
local function write(m, written, count)
  local x <const> = tide.tensor.zeros("i32", 1, T)
  for n = #written, #written + count - 1 do
    for i = 1, T do x[i] = written[math.max(0, n - T) + i] or 0 end
    local z <const>, row <const>, best = m:forward({x = x, y = x}).z, (math.min(n, T) - 1) * V, 1
    for k = 2, V do
      if z[row + k] > z[row + best] then best = k end
    end
    written[n + 1] = best - 1
  end
  return code:decode(written)
end

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run <const> = cluster:start(job)
  print(data.note)
  for r in run:events "report" do
    local test <const> = run:evaluate("test").loss
    print(("epoch %2d  %.4f  test %.4f nats a token, perplexity %.3f"):format(r.n, r.loss / r.examples, test,
      math.exp(test)))
  end
  run:wait()
  local path <const> = os.tmpname() .. ".npz"
  net:save(run, path)
  local m <const> = net:compile {}
  m:load(path)
  os.remove(path)
  if opt.sample > 0 then print(write(m, {table.unpack(tokens, 1, math.min(T, 3))}, opt.sample)) end
end)
