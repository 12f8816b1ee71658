-- Parameter servers of different speed, and who balances them. Workers pull and push a model in chunks, one row a chunk,
-- in synchronous iterations; from iteration `from` on one server takes `factor` times as long for a row. Who decides
-- where chunks are: a shipped placement policy, or an assignment that other systems use and never change.
--   tide run examples/psld.lua --who psld        tide sim examples/psld.lua --who static --factor 10
local tide = require "tide"
local opt = tide.options {
  who = {"placement: psld, static, lpt, or the rules hash, round-robin, bytes, mxnet, oracle", default = "psld"},
  servers = {"nodes that hold the chunks", default = 4}, workers = {"nodes that work", default = 2},
  chunks = {"chunks of the model", default = 240}, iterations = {"how many", default = 400},
  from = {"iteration at which one server becomes slow", default = 20}, factor = {"how many times slower", default = 4.0},
  wander = {"iterations after which the next server is slow instead; 0: never", default = 0},
  cost = {"what a served row takes a server, us", default = 100},
}

local SHIPPED <const> = {psld = "placement/psld", lpt = "placement/lpt", static = "placement/static"}
local job = tide.job {
  name = "psld", stop = {epochs = opt.iterations}, policies = {placement = SHIPPED[opt.who] or "placement/static"},
  tables = {model = {keys = {"dense", opt.chunks}, width = 16, slots = "range"}},
  worker = function(w)
    local keys, delta = {}, tide.tensor.zeros("f32", opt.chunks, 16)
    for i = 1, opt.chunks do keys[i] = i - 1 end
    while not w:stopping() do
      local began <const> = tide.now()
      w.tables.model:pull(keys)
      w.tables.model:push(keys, delta)
      w:report {examples = 1, seconds = tide.now() - began}
    end
  end,
}

-- Slots of chunks by the rules of other systems, from what their sources say; sizes are equal here.
local rules = {}
function rules.hash(chunk, servers) -- djb2 of the key's name, as BytePS
  local h = 5381
  for c in tostring(chunk << 16):gmatch "." do h = (h * 33 + c:byte()) & 0xffffffffffffffff end
  return (h >> 1) % servers + 1
end
rules["round-robin"] = function(chunk, servers) return chunk % servers + 1 end
rules.bytes = function(chunk, servers) return ((chunk << 16) + (chunk % 65536)) * 9973 % servers + 1 end
rules.mxnet = function(chunk, servers) return chunk * 9973 % servers + 1 end

-- The shares that a server of this speed should have, chunk by chunk to whoever ends first.
local function oracle(slow, servers)
  local load, homes = {}, {}
  for s = 1, servers do load[s] = 0 end
  for chunk = 0, opt.chunks - 1 do
    local best
    for s = 1, servers do
      local cost = s == slow and opt.factor or 1
      if not best or load[s] + cost < load[best] + (best == slow and opt.factor or 1) then best = s end
    end
    load[best], homes[chunk] = load[best] + (best == slow and opt.factor or 1), best
  end
  return homes
end

local function assign(model, servers, home_of)
  local groups = {}
  for chunk = 0, opt.chunks - 1 do
    local to = servers[home_of(chunk)]
    groups[to.id] = groups[to.id] or {}
    table.insert(groups[to.id], chunk * 4096 // opt.chunks)
  end
  for _, server in ipairs(servers) do
    if groups[server.id] then assert(model:move(groups[server.id], server.id)) end
  end
end

local function slow_at(n)
  if n < opt.from then return nil end
  return opt.wander > 0 and (n - opt.from) // opt.wander % opt.servers + 1 or 1
end

tide.main(function()
  local cluster <close> = tide.cluster {servers = opt.servers, nodes = opt.workers}
  local servers = {}
  for _, node in ipairs(cluster:agents()) do
    if node.name:find "^s" then servers[#servers + 1] = node end
  end
  for _, s in ipairs(servers) do cluster:serve_cost(s.name, opt.cost * 1e-6) end
  local run = cluster:start(job)
  local slow, times, began, moved = nil, {}, nil, 0
  if rules[opt.who] then
    assign(run.tables.model, servers, function(chunk) return rules[opt.who](chunk, opt.servers) end)
  end
  for r in run:events "report" do
    if began then times[r.n] = tide.now() - began end
    local now_slow = slow_at(r.n)
    if now_slow ~= slow then
      if slow then cluster:serve_cost(servers[slow].name, opt.cost * 1e-6) end
      if now_slow then cluster:serve_cost(servers[now_slow].name, opt.cost * opt.factor * 1e-6) end
      slow = now_slow
      if opt.who == "oracle" and slow then
        local homes = oracle(slow, opt.servers)
        assign(run.tables.model, servers, function(chunk) return homes[chunk] end)
      end
    end
    began = tide.now()
  end
  run:wait()
  local counts, late = run.tables.model:homes(), {}
  local spread = {}
  for i, s in ipairs(servers) do spread[i] = tostring(counts[s.id] or 0) end
  local before, after, sum = {}, {}, 0
  for n = 5, opt.iterations do
    if times[n] then
      if n <= opt.from then before[#before + 1] = times[n] else after[#after + 1] = times[n] end
      sum = sum + times[n]
      if n > opt.iterations - 30 then late[#late + 1] = times[n] end
    end
  end
  for _, list in ipairs {before, after, late} do table.sort(list) end
  local mean = 0
  for _, t in ipairs(after) do mean = mean + t / #after end
  print(("%-12s before %6.1f ms  straggler: mean %6.1f ms  settled %6.1f ms  slots %s"):format(opt.who,
    1e3 * before[#before // 2 + 1], 1e3 * mean, 1e3 * late[#late // 2 + 1], table.concat(spread, " ")))
end)
