-- The comm policies of the package: what they choose for layers whose best way is known by arithmetic, and that what
-- they wish is always a plan that can be carried out.
local plan = require "tide.policy.plan"
local source = require "tide.policy.source"

local cases = {}
local function case(name, f) cases[#cases + 1] = {name, f} end

-- A convolution, a wide matrix with its biases, a narrow one.
local function view(o)
  local workers = {}
  for i = 1, o.workers do workers[i] = {id = i} end
  local tensors = {
    {id = 1, name = "conv", values = 9248, rest = 9248, row_values = 0},
    {id = 2, name = "wide", values = 4096 * 4097, rest = 4096, row_values = 8192},
    {id = 3, name = "narrow", values = 4097 * 10, rest = 10, row_values = 4106},
  }
  for _, t in ipairs(tensors) do
    t.rank, t.path, t.format, t.fanout, t.seconds = o.rank or 32, "ps", "f32", 0, {}
  end
  return {workers = workers, tensors = tensors, job = {compute_s = o.compute_s}, net = {bytes_per_s = o.rate}}
end

local function decide(name, params, now)
  local found = assert(source.find("comm/" .. name))
  local policy = assert(load(found.text, "@" .. name))()
  local own = {}
  for k, v in pairs(policy.params) do own[k] = v end
  for k, v in pairs(params or {}) do own[k] = v end
  local wish = policy.decide(policy.init(own), now)
  wish.why = nil
  local verdict = plan.validate("comm", wish, now, now, 1)
  assert(verdict.plan, name .. ": its plan is refused")
  return wish
end

local function expect(wish, paths, formats)
  for i, path in ipairs(paths) do
    assert(wish.path[i] == path, ("tensor %d goes by %s, not %s"):format(i, wish.path[i], path))
    assert(wish.format[i] == formats[i], ("tensor %d goes in %s, not %s"):format(i, wish.format[i], formats[i]))
  end
end

case("hybrid takes factors where they are fewer bytes", function()
  expect(decide("hybrid", nil, view {workers = 4}), {"ps", "factor", "ps"}, {"f32", "f32", "f32"})
  expect(decide("hybrid", nil, view {workers = 4, rank = 4096}), {"ps", "ps", "ps"}, {"f32", "f32", "f32"})
  expect(decide("hybrid", nil, view {workers = 1}), {"ps", "ps", "ps"}, {"f32", "f32", "f32"})
end)

case("hybrid weighs a format by what it takes on each way", function()
  -- Out of each of 4 workers: 2.0 MB of topk, 3.3 MB of signs; 3.2 MB of factors of 32 rows, 2.4 MB of 24.
  expect(decide("hybrid", {format = "topk"}, view {workers = 4}), {"ps", "ps", "ps"}, {"topk", "topk", "topk"})
  expect(decide("hybrid", {format = "onebit"}, view {workers = 4, rank = 24}), {"ps", "factor", "ps"},
    {"onebit", "f32", "onebit"})
  expect(decide("hybrid", {format = "bf16"}, view {workers = 4}), {"ps", "factor", "ps"}, {"bf16", "bf16", "bf16"})
  -- Without their zeros factors win where they would not.
  local now = view {workers = 4, rank = 1000}
  expect(decide("hybrid", nil, now), {"ps", "ps", "ps"}, {"f32", "f32", "f32"})
  expect(decide("hybrid", {format = "sparse", density = 0.2}, now), {"ps", "factor", "ps"}, {"f32", "sparse", "f32"})
end)

case("hybrid goes by seconds once the rate is known", function()
  expect(decide("hybrid", nil, view {workers = 4, rate = 125e6}), {"ps", "factor", "ps"}, {"f32", "f32", "f32"})
  expect(decide("hybrid", nil, view {workers = 8, rate = 1e12}), {"ps", "ps", "ps"}, {"f32", "f32", "f32"})
  -- A processor whose products are quick.
  local now = view {workers = 8, rate = 1e12}
  now.net.flops_per_s = 1e12
  expect(decide("hybrid", nil, now), {"ps", "factor", "ps"}, {"f32", "f32", "f32"})
end)

case("hybrid sends dense what hides behind the layers below", function()
  local now = view {workers = 8, rate = 1e9} -- 0.117 s of the wide matrix dense, 0.17 s of product as factors
  expect(decide("hybrid", nil, now), {"ps", "factor", "ps"}, {"f32", "f32", "f32"})
  now.tensors[2].window_s, now.tensors[3].window_s = 0.2, 0.3
  expect(decide("hybrid", nil, now), {"ps", "ps", "ps"}, {"f32", "f32", "f32"})
  now.tensors[2].window_s = 0.1
  expect(decide("hybrid", nil, now), {"ps", "factor", "ps"}, {"f32", "f32", "f32"})
  -- It would take what hides of the layer above.
  now.tensors[2].window_s, now.tensors[3].window_s = 0.2, 0.1
  expect(decide("hybrid", nil, now), {"ps", "factor", "ps"}, {"f32", "f32", "f32"})
end)

case("hybrid sends no more bytes for what the processor would hardly notice", function()
  -- 70 ms of a step of half a minute.
  local now = view {workers = 8, rate = 1e9}
  now.tensors[2].window_s, now.tensors[3].window_s = 20, 30
  expect(decide("hybrid", nil, now), {"ps", "factor", "ps"}, {"f32", "f32", "f32"})
  expect(decide("hybrid", {least = 0.001}, now), {"ps", "ps", "ps"}, {"f32", "f32", "f32"})
end)

case("overlap sends dense what hides", function()
  expect(decide("overlap", nil, view {workers = 4, rate = 125e6, compute_s = 0.1}), {"ps", "factor", "ps"},
    {"f32", "f32", "f32"})
  expect(decide("overlap", nil, view {workers = 4, rate = 125e6, compute_s = 10}), {"ps", "ps", "ps"},
    {"f32", "f32", "f32"})
end)

return cases
