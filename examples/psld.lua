-- Parameter servers of different speed, and who balances them. Workers pull and push a model of ResNet-50's shape in
-- synchronous iterations; from iteration `from` on one server takes `factor` times as long for a row, or has so much
-- less of a core, or of its link. Who decides where rows are: a shipped placement policy, or an assignment that other
-- systems use and never change.
--   tide run examples/psld.lua --who psld        tide sim examples/psld.lua --who static --factor 10
--   tide sim examples/psld.lua --slow link --cost 0 --width 256        bench/psld_link.sh, with real links
local tide = require "tide"
local opt = tide.options {
  who = {"psld, static, hash, lpt, or a rule: round-robin, mxnet, byteps, byteps-naive, oracle", default = "psld"},
  servers = {"nodes that hold the model", default = 4}, workers = {"nodes that work", default = 2},
  iterations = {"how many", default = 400}, from = {"iteration at which one server becomes slow", default = 20},
  factor = {"how many times slower", default = 4.0},
  wander = {"iterations after which the next server is slow instead; 0: never", default = 0},
  cost = {"what a served row takes a server, us", default = 15}, width = {"values of a row", default = 16},
  slow = {"what is slow", default = "serve", choices = {"serve", "cpu", "link"}},
  mbit = {"bandwidth of a server's link, with --slow link", default = 100.0},
  cut = {"command that gives a server another bandwidth: its name and Mbit/s are added", default = ""},
  json = {"one JSON object instead of text", default = false},
}

-- ResNet-50's tensors, each cut into rows that stand for 16,384 parameters. {first row, rows, parameters} of each.
local function resnet50()
  local tensors, rows = {}, 0
  local function add(n)
    tensors[#tensors + 1] = {first = rows, rows = math.max(1, n // 16384), size = n}
    rows = rows + tensors[#tensors].rows
  end
  local function conv(from, to, k)
    add(from * to * k * k)
    add(to) -- the scale and shift of its normalisation
    add(to)
  end
  conv(3, 64, 7)
  local from = 64
  for stage, blocks in ipairs {3, 4, 6, 3} do
    local width = 32 << stage
    for block = 1, blocks do
      conv(from, width, 1)
      conv(width, width, 3)
      conv(width, 4 * width, 1)
      if block == 1 then conv(from, 4 * width, 1) end
      from = 4 * width
    end
  end
  add(2048 * 1000)
  add(1000)
  return tensors, rows
end
local tensors <const>, rows <const> = resnet50()

local SHIPPED <const> = {psld = "placement/psld", lpt = "placement/lpt", static = "placement/static",
                         hash = "placement/hash"}
local job = tide.job {
  name = "psld", stop = {epochs = opt.iterations}, policies = {placement = SHIPPED[opt.who] or "placement/static"},
  tables = {model = {keys = {"dense", rows}, width = opt.width, slots = "range"}},
  worker = function(w)
    local keys, delta = {}, tide.tensor.zeros("f32", rows, opt.width)
    for i = 1, rows do keys[i] = i - 1 end
    while not w:stopping() do
      local began <const> = tide.now()
      w.tables.model:pull(keys)
      w.tables.model:push(keys, delta)
      w:report {examples = 1, seconds = tide.now() - began}
    end
  end,
}

-- Where other systems put rows, by what their sources say: (number of the tensor, tensor, row in it) -> server.
local rules = {}
rules["round-robin"] = function(i) return (i - 1) % opt.servers + 1 end -- TensorFlow: whole variables
function rules.mxnet(i, t, row) -- below a million parameters whole, else in equal parts
  if t.size < 1000000 then return (i - 1) * 9973 % opt.servers + 1 end
  return row * opt.servers // t.rows + 1
end
function rules.byteps(i, _, row) -- parts of 4 MB by the djb2 hash of their key
  local hash = 5381
  for c in tostring((i - 1 << 16) + row // 64):gmatch "." do hash = (hash * 33 + c:byte()) & 0xffffffff end
  return hash % opt.servers + 1
end
rules["byteps-naive"] = function(i, _, row) return (i - 1 + row // 64) * 9973 % opt.servers + 1 end

-- Who knows the speeds: row by row to the server that ends first.
local function knowing(slow)
  local load = {}
  for s = 1, opt.servers do load[s] = 0 end
  return function()
    local best, ends
    for s = 1, opt.servers do
      local after = load[s] + (s == slow and opt.factor or 1)
      if not ends or after < ends then best, ends = s, after end
    end
    load[best] = ends
    return best
  end
end

local function assign(model, servers, server_of)
  local groups = {}
  for i, t in ipairs(tensors) do
    for row = 0, t.rows - 1 do
      local to = servers[server_of(i, t, row)].id
      groups[to] = groups[to] or {}
      table.insert(groups[to], (t.first + row) * 4096 // rows) -- slots = "range": its slot
    end
  end
  for _, server in ipairs(servers) do
    if groups[server.id] then assert(model:move(groups[server.id], server.id)) end
  end
end

local function slow_at(n)
  if n < opt.from then return nil end
  return opt.wander > 0 and (n - opt.from) // opt.wander % opt.servers + 1 or 1
end

-- Makes a server `factor` times slower than the others; 1: as fast.
local set = {}
function set.serve(cluster, name, factor) cluster:serve_cost(name, opt.cost * factor * 1e-6) end
function set.cpu(cluster, name, factor) cluster:cpu_share(name, 1 / factor) end
function set.link(_, name, factor)
  local sim <const>, mbit = require "tide.sim", opt.mbit / factor
  if sim.active then
    sim.node(name, {nic = ("%gMbit"):format(mbit)})
  else
    assert(os.execute(("%s %s %g"):format(opt.cut, name, mbit)), "--cut must name a command that works")
  end
end

local function median(list)
  table.sort(list)
  return list[#list // 2 + 1] or 0
end

-- Median before, mean with a straggler, median of the last 30, in ms.
local function figures(times)
  local before, late, sum, count = {}, {}, 0, 0
  for n = 5, opt.iterations - 1 do
    local t = 1e3 * times[n]
    if n < opt.from then
      before[#before + 1] = t
    else
      sum, count = sum + t, count + 1
    end
    if n >= opt.iterations - 30 then late[#late + 1] = t end
  end
  return median(before), sum / math.max(count, 1), median(late)
end

tide.main(function()
  local cluster <close> = tide.cluster {servers = opt.servers, nodes = opt.workers}
  local servers, slow, times, began = {}, nil, {}, nil
  for _, node in ipairs(cluster:agents()) do
    if node.name:find "^s" then servers[#servers + 1] = node end
  end
  for _, s in ipairs(servers) do
    set.serve(cluster, s.name, 1)
    set[opt.slow](cluster, s.name, 1)
  end
  local run = cluster:start(job)
  local model <const> = run.tables.model
  if rules[opt.who] then assign(model, servers, rules[opt.who]) end
  if opt.who == "oracle" then assign(model, servers, knowing()) end
  for r in run:events "report" do
    if began then times[r.n - 1] = tide.now() - began end
    local now_slow = slow_at(r.n)
    if now_slow ~= slow then
      if slow then set[opt.slow](cluster, servers[slow].name, 1) end
      if now_slow then set[opt.slow](cluster, servers[now_slow].name, opt.factor) end
      slow = now_slow
      if opt.who == "oracle" then assign(model, servers, knowing(slow)) end
    end
    began = tide.now()
  end
  run:wait()
  local before <const>, straggling <const>, late <const> = figures(times)
  if opt.json or tide.output.json then
    return print(tide.json.encode {schema = "tide.psld/1", who = opt.who, factor = opt.factor, slow = opt.slow,
                                   before_ms = before, straggler_ms = straggling, end_ms = late})
  end
  print(("%-12s before %6.1f ms  with a straggler %6.1f ms  at the end %6.1f ms"):format(opt.who, before, straggling,
    late))
end)
