#!/bin/bash
# Operations beside those of dense nets: rows by index, losses of sequences; what numbers they give, what they refuse.
. "$(dirname "$0")/harness.sh"

cat >open.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"

local function tensor(kind, rows, list)
  local t = tide.tensor.zeros(kind, rows, #list // rows)
  for i, x in ipairs(list) do t[i] = x end
  return t
end

local function same(what, got, want)
  assert(#got == #want, ("%s: %d numbers, not %d"):format(what, #got, #want))
  for i, x in ipairs(want) do
    assert(math.abs(got[i] - x) <= 1e-5 * (1 + math.abs(x)), ("%s: element %d is %g, not %g"):format(what, i, got[i], x))
  end
end

---What a program of `build(p)` gives for a batch: its value z as a list.
local function value(batch, build)
  local net <const> = nn.program("value", function(p)
    local z <const> = build(p)
    p:output("z", z)
    p:loss(z)
  end)
  return net:compile {}:forward(batch).z
end

local function refused(text, f, ...)
  local ok, err = pcall(f, ...)
  assert(not ok, "nothing was refused: " .. text)
  assert(tostring(err):find(text, 1, true), tostring(err))
  assert(tostring(err):find("open.lua:%d+"), tostring(err))
end

tide.main(function()
  -- Rows by each example's own index, and back.
  local rows <const> = {x = tensor("f32", 2, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}), i = tensor("i32", 2, {2, 0, -1, 0, 0, 1})}
  local function gathered(p) return p:input("x", 3, 2):gather(p:index("i", 3)) end
  same("gather", value(rows, gathered), {5, 6, 1, 2, 0, 0, 7, 8, 7, 8, 9, 10})
  same("scatter_add", value(rows, function(p) return p:input("x", 3, 2):scatter_add(p:index("i", 3), 4) end),
    {3, 4, 0, 0, 1, 2, 0, 0, 16, 18, 11, 12, 0, 0, 0, 0})
  same("gather of numbers", value({x = tensor("f32", 2, {1, 2, 3, 4, 5, 6}), i = rows.i},
    function(p) return p:input("x", 3):gather(p:index("i", 3)) end), {3, 1, 0, 4, 4, 5})
  refused("index 3 is 3, outside 0..2", value, {x = rows.x, i = tensor("i32", 2, {0, 0, 3, 0, 0, 0})}, gathered)
  refused("gather of x [B x 3 x 2], i [B x 3]: the second operand must be an index", value, rows, function(p)
    return p:input("x", 3, 2):gather(p:input("i", 3))
  end)
  refused("scatter_add of x [B x 3 x 2], i [B x 2]: the index has a number for each row", value, rows, function(p)
    return p:input("x", 3, 2):scatter_add(p:index("i", 2), 4)
  end)

  -- Losses of sequences: figures of tests/peers/open_programs.py.
  local z <const> = {0.5, -1, 2, 0, 0.25, -0.75, 1.5, 1, -2, 3, 0, 1}
  local function xent(weights, o)
    local net <const> = nn.program("xent", function(p)
      p:loss(nn.xent(p:input("z", 2, 3), p:index("y", 2), {smoothing = o and o.smoothing,
        weights = weights and p:input("w", 2)}))
    end)
    local r <const> = net:compile {}:evaluate {z = tensor("f32", 2, z), y = tensor("i32", 2, {2, 1, -1, 0}),
                                            w = weights and tensor("f32", 2, weights)}
    return {r.loss, r.count, r.correct}
  end
  same("xent", xent(), {1.17507988, 3, 3})
  same("weighted", xent({0.5, 2, 1, 0}), {1.64850078, 2.5, 2})
  same("smoothed", xent({0.5, 2, 1, 1}, {smoothing = 0.1}), {2.1433468, 3.5, 3})
  refused("one label a row", nn.program, "bad", function(p) p:loss(nn.xent(p:input("z", 2, 3), p:index("y", 3))) end)
  refused("smoothing is a share", nn.program, "bad", function(p)
    p:loss(nn.xent(p:input("z", 3), p:index "y", {smoothing = 1}))
  end)
  refused("nn.xent has no option `weight`", nn.program, "bad", function(p)
    p:loss(nn.xent(p:input("z", 3), p:index "y", {weight = 1}))
  end)
  -- The last layer and its loss in one, against the same by two; no row of logits is kept.
  local function linear_xent(tied)
    local net <const> = nn.program("linear", function(p)
      local w <const> = p:param("w", tied and {5, 3} or {3, 5})
      p:loss(nn.linear_xent(p:input("x", 3), w, p:index "y", {weights = p:input("weight", 1), smoothing = 0.1, tied = tied}))
    end, {inputs = true})
    local m <const> = net:compile {}
    local x <const>, w <const> = tide.tensor.zeros("f32", 4, 3), m:parameter "w"
    for i = 1, 12 do x[i] = math.sin(0.7 * (i - 1)) end
    for i = 1, 15 do w[i] = math.sin(1 + 0.7 * (i - 1)) end
    local batch <const> = {x = x, y = tensor("i32", 4, {2, 4, -1, 0}), weight = tensor("f32", 4, {0.5, 2, 1, 1})}
    local g <const> = m:gradients(batch)
    same("the loss alone", {m:evaluate(batch).loss}, {g.loss})
    local all = {g.loss, g.count}
    for _, t in ipairs {g:input "x", g.w} do
      for i = 1, #t do all[#all + 1] = t[i] end
    end
    return all
  end
  same("linear_xent", linear_xent(false), {5.62687558, 3.5, -0.0598918009, -0.0240773723, 0.104986633, 1.849738, -1.93215331, 1.76901777, 0, 0, 0,
    -0.267682876, 0.493536088, -0.656667463, 0.232895202, 0.335016757, 0.381307654, 0.345349531, -1.29456914,
    -0.217395672, 0.339830104, 0.00830498199, 0.25331201, -0.384051424, -0.565441965, 0.184816043, -0.368603653,
    0.0421378934, 0.707091681})
  same("linear_xent, tied", linear_xent(true), {5.72802165, 3.5, 0.684625008, 0.531681373, 0.12867968, 0.912539643, 1.91400222, 2.01527964, 0, 0, 0,
    -0.173682432, -0.156436012, -0.0656152918, 0.494703241, -0.00806811494, -0.50704491, 0.246922932, 0.103919346,
    -0.0879591319, 0.0543021927, -0.174577385, -0.321350491, 0.515877259, 0.580040397, 0.371401473, -1.31180563,
    -0.501314244, 0.54495306})
  local function kept(loss)
    return nn.program("large", function(p)
      local x <const>, w <const> = p:input("x", 4), p:param("w", {4, 50000}, tide.uniform {low = -1, high = 1})
      p:loss(loss(x, w, p:index "y"))
    end):compile({}).train:figures().row_bytes
  end
  assert(kept(nn.linear_xent) < 1000, "linear_xent keeps " .. kept(nn.linear_xent) .. " bytes an example")
  assert(kept(function(x, w, y) return nn.xent(x:mm(w), y) end) >= 200000, "logits are not kept elsewhere")
  refused("the second operand must be a matrix", nn.program, "bad", function(p)
    p:loss(nn.linear_xent(p:input("x", 3), p:param("w", {3}), p:index "y"))
  end)
  refused("4 and 3 must be equal", nn.program, "bad", function(p)
    p:loss(nn.linear_xent(p:input("x", 3), p:param("w", {4, 5}), p:index "y"))
  end)

  local function ctc(labels, lengths)
    local net <const> = nn.program("ctc", function(p)
      local x <const> = p:input("z", 4, 3)
      p:loss(nn.ctc(x, p:index("y", 2), {lengths = lengths and p:index "n"}))
    end, {inputs = true})
    local m <const> = net:compile {}
    local waves <const> = tide.tensor.zeros("f32", 2, 12)
    for i = 1, 24 do waves[i] = math.sin(0.7 * (i - 1)) end
    local r <const> = m:backward {z = waves, y = tensor("i32", 2, labels), n = lengths and tensor("i32", 2, lengths)}
    return {r.loss, r.count, table.unpack(m.train:output "d:z")}
  end
  same("ctc", ctc({1, 2, 1, 1}), {4.69313594, 2, -0.0450176275, -0.434790776, 0.479808403, 0.0784270024, -0.147141167, 0.0687141645, 0.0339066864,
    0.104012317, -0.137919004, 0.0166560636, 0.342487559, -0.359143623, 0.351802305, -0.508646377, 0.156844072, -0.40249848,
    -0.00288478048, 0.40538326, -0.219764265, -0.254294011, 0.474058276, 0.155275986, -0.311576741, 0.156300755})
  same("ctc of fewer frames", ctc({1, -1, 2, 1}, {2, 3}), {3.06299574, 2, 0.0160824416, -0.495890845, 0.479808403, 0.00351685483, -0.16094255, 0.157425695, 0,
    0, 0, 0, 0, 0, -0.012737333, 0.311322586, -0.298585253, 0.188446212,
    0.111341667, -0.29978788, 0.122801886, -0.596860161, 0.474058276, 0, 0, 0})
  assert(ctc({1, 1, 2, -1}, {2, 4})[2] == 1, "labels that do not fit count")
  refused("example 2 has label 0, outside 1..2", ctc, {1, 2, 1, 0})

  -- Reductions along an axis, and where their gradients go.
  local six <const> = {x = tensor("f32", 1, {1, 5, 3, 3, 2, 7})}
  same("max of columns", value(six, function(p) return nn.max(p:input("x", 3, 2), 2) end), {5, 3, 7})
  same("max of an axis", value(six, function(p) return nn.max(p:input("x", 3, 2), 1) end), {3, 7})
  same("min of an axis", value(six, function(p) return nn.min(p:input("x", 3, 2), -2) end), {1, 3})
  same("logsumexp", value(six, function(p) return nn.logsumexp(p:input("x", 3, 2), 1) end),
    {math.log(math.exp(1) + math.exp(3) + math.exp(2)), math.log(math.exp(5) + math.exp(3) + math.exp(7))})
  -- The first element is no base: masks of attention and of beam search lie far below the others.
  local masked <const> = {x = tensor("f32", 3, {-1e9, 1, 1, -math.huge, 1, 1, 1, -1e38, 100})}
  same("logsumexp of masked elements", value(masked, function(p) return nn.logsumexp(p:input("x", 3), 1) end),
    {1 + math.log(2), 1 + math.log(2), 100})
  local of_max <const> = nn.program("max", function(p) p:loss(nn.max(p:input("x", 3, 2), 1)) end, {inputs = true}):compile {}
  local at <const> = of_max:gradients(six):input "x"
  same("gradient of max", {at[1], at[2], at[3], at[4], at[5], at[6]}, {0, 0, 1, 0, 0, 1})

  -- Buffers and constants: no gradient, kept by files, part of the id.
  local function shifted(first)
    return nn.program("shifted", function(p)
      local x <const> = p:input("x", 3) - p:buffer("mean", {3})
      local c <const> = p:constant(tensor("f32", 1, {first, 1, 2}))
      p:output("z", x * c)
      p:loss(nn.mse(nn.linear(1, {name = "l"})(x * c), p:input("t", 1)))
    end)
  end
  local two <const> = {x = tensor("f32", 2, {1, 2, 3, 4, 5, 6}), t = tensor("f32", 2, {1, 2})}
  local m <const> = shifted(1):compile {optimizer = nn.sgd {lr = 0.01}}
  local mean <const> = m:buffer "mean"
  for i = 1, 3 do mean[i] = i end
  m:give()
  m:step(two)
  same("a buffer", m:forward(two).z, {0, 0, 0, 3, 3, 6})
  m:save "shifted.safetensors"
  local again <const> = shifted(1):compile {}
  again:load "shifted.safetensors"
  same("a buffer that was saved", again:forward(two).z, {0, 0, 0, 3, 3, 6})
  assert(shifted(1):id() == shifted(1):id() and shifted(1):id() ~= shifted(2):id(), "a constant is part of the id")
  local ok <const>, why <const> = pcall(m.buffer, m, "sum")
  assert(not ok and tostring(why):find("the program has no buffer `sum`", 1, true), tostring(why))

  -- Shapes that meet along any axis, constants along the last ones.
  local three <const> = {x = tensor("f32", 2, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})}
  local function table_of(p, name, dims) return p:param(name, dims, {"constant", 2}) end
  same("a constant of two dims", value(three, function(p) return p:input("x", 3, 2) * table_of(p, "w", {3, 2}) end),
    {2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24})
  same("a constant column", value(three, function(p)
    return p:input("x", 3, 2):cumsum(1) - table_of(p, "w", {3, 1})
  end), {-1, 0, 2, 4, 7, 10, 5, 6, 14, 16, 25, 28})
  same("an axis of one", value(three, function(p)
    local x <const> = p:input("x", 3, 2)
    return x - x:mean(1):reshape(1, 2)
  end), {-2, -2, 0, 0, 2, 2, -2, -2, 0, 0, 2, 2})
  same("rows less columns", value(three, function(p)
    local x <const> = p:input("x", 3, 2)
    return nn.where(x:slice(1, 1):lt(x:sum(1):reshape(1, 2)), x, -1 * x):permute(2, 1)
  end), {1, 3, 5, 2, 4, 6, 7, 9, 11, 8, 10, 12})
  same("le, ne", value(three, function(p)
    local x <const> = p:input("x", 3, 2)
    return x:le(3) + 10 * x:ne(2)
  end), {11, 1, 11, 10, 10, 10, 10, 10, 10, 10, 10, 10})
  same("expand", value(three, function(p) return p:input("x", 3, 2):slice(1, 1):expand(2, 2) end),
    {1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11})
  refused("must be equal", value, three, function(p) return p:input("x", 3, 2) + table_of(p, "w", {2, 2}) end)
  refused("has no axis 3", value, three, function(p) return p:input("x", 3, 2):cumsum(3) end)
  same("einsum", value(three, function(p)
    local x <const> = p:input("x", 3, 2)
    return nn.einsum("ij,kj->ki", x, x)
  end), {5, 11, 17, 11, 25, 39, 17, 39, 61, 113, 143, 173, 143, 181, 219, 173, 219, 265})
  same("einsum with a constant", value(three, function(p)
    return nn.einsum("kc,rk->cr", table_of(p, "w", {3, 1}), p:input("x", 2, 3))
  end), {12, 30, 48, 66})
  refused("einsum ij,jk->ik: j is 2 and 3", value, three, function(p)
    local x <const> = p:input("x", 3, 2)
    return nn.einsum("ij,jk->ik", x, x)
  end)
  refused('einsum hij,jk->hik: "hij" names 3 axes, and value [B x 3 x 2]', value, three, function(p)
    local x <const> = p:input("x", 3, 2)
    return nn.einsum("hij,jk->hik", x, x)
  end)

  -- Rows: the largest, logarithms of shares, segments.
  local function both(p)
    local values <const>, ids <const> = p:input("x", 6):topk(2)
    return values * nn.one_hot(ids, 6):sum(1):slice(5, 2)
  end
  same("topk and one_hot", value({x = tensor("f32", 1, {3, -1, 2, 3, 5, 4})}, both), {5, 4})
  same("log_softmax", value({x = tensor("f32", 1, {0, math.log(3)})}, function(p) return p:input("x", 2):log_softmax() end),
    {math.log(0.25), math.log(0.75)})
  same("segment_mean", value({x = three.x, i = tensor("i32", 2, {1, 1, -1, 0, 2, 2})}, function(p)
    return nn.segment_mean(p:input("x", 3, 2), p:index("i", 3), 3)
  end), {0, 0, 2, 3, 0, 0, 7, 8, 0, 0, 10, 11})
  do -- memory grows with rows and segments, not with their product
    local many <const> = nn.program("many", function(p)
      p:loss(nn.segment_mean(p:input("x", 4000, 1) * p:param("w", {1}), p:index("i", 4000), 3000))
    end):compile {}
    assert(many.train:figures().row_bytes < 4 * 20 * 7000, many.train:figures().row_bytes)
  end
  same("segment_sum", value({x = three.x, i = tensor("i32", 2, {1, 1, -1, 0, 2, 2})}, function(p)
    return nn.segment_sum(p:input("x", 3, 2), p:index("i", 3), 3)
  end), {0, 0, 4, 6, 0, 0, 7, 8, 0, 0, 20, 22})
  same("gelu, silu, erf", value({x = tensor("f32", 1, {-1.5, 0.5})}, function(p)
    local x <const> = p:input("x", 2)
    return nn.gelu(x):concat(nn.gelu(x, "tanh")):concat(nn.silu(x)):concat(x:erf())
  end), {-0.100210802, 0.345731231, -0.100428423, 0.34571401, -0.273638286, 0.311229666, -0.966105146, 0.520499878})

  -- Attention and what goes with it: figures of tests/peers/open_programs.py.
  local function wave(rows, columns, from)
    local t = tide.tensor.zeros("f32", rows, columns)
    for i = 1, #t do t[i] = math.sin(from + 0.7 * (i - 1)) end
    return t
  end
  local function attended(o)
    local net <const> = nn.program("attention", function(p)
      local q <const>, k <const>, v <const> = p:input("q", 3, 4), p:input("k", 4, 2), p:input("v", 4, 2)
      local z <const> = nn.attention(o.times and q * o.times or q, k, v, {heads = 2, kv_heads = 1, causal = o.causal,
                                               scale = o.scale, lengths = o.lengths and p:index "n"})
      p:output("z", z)
      p:loss(z:sqr())
    end)
    return net:compile {}:forward({q = wave(2, 12, 0), k = wave(2, 8, 1), v = wave(2, 8, 2),
                                   n = o.lengths and tensor("i32", 2, o.lengths)}).z
  end
  same("attention", attended {}, {0.112869842, -0.031081745, 0.380891574, 0.0102139615, -0.146317974, -0.196067642, -0.486274615, -0.187181664, -0.231248316, -0.0880323039, 0.362775798, 0.0262043467, 0.252861286, -0.032848341, -0.425296833, -0.264339759, -0.465441768, -0.210632967, 0.226226338, 0.0455191543, 0.404175904, 0.0566521981, -0.109524928, -0.186890687})
  same("causal", attended {causal = true}, {0.4509804, -0.0627359554, 0.521650186, 0.0128370202, -0.163803301, -0.410251119, -0.722469033, -0.635698878, -0.231248316, -0.0880323039, 0.362775798, 0.0262043467, 0.639548735, 0.208604942, 0.698219959, 0.332527049, -0.168999306, -0.398195694, 0.388760274, 0.0652831534, 0.404175904, 0.0566521981, -0.109524928, -0.186890687})
  same("padded", attended {lengths = {2, 0}}, {0.4509804, -0.0627359554, 0.521650186, 0.0128370202, 0.269885799, -0.256395205, 0.115040696, -0.421983723, 0.308594569, -0.215000756, 0.53330004, 0.0252951603, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
  same("rotary", value({x = wave(1, 12, 0)}, function(p) return nn.rotary(p:input("x", 3, 4), {heads = 1, base = 100}) end),
    {0, 0.644217687, 0.98544973, 0.863209367, 0.914400594, -0.250949172, -0.189031591, -1.01256433, -0.334696609, -0.17983998, -0.847412024, 0.971811066})
  same("scaled", attended {scale = 1}, {table.unpack(attended {times = math.sqrt(2)})})
  same("rotary by positions", value({x = tensor("f32", 1, {1, 0, 0, 1, 1, 0, 0, 1}), at = tensor("i32", 1, {0, 3})},
    function(p)
      return nn.rotary(p:input("x", 2, 4), {heads = 1, base = 100, pairing = "adjacent", positions = p:index("at", 2)})
    end), {1, 0, 0, 1, math.cos(3), math.sin(3), -math.sin(0.3), math.cos(0.3)})
  same("rmsnorm", value({x = wave(2, 3, 0)}, function(p) return nn.rmsnorm()(p:input("x", 3)) end), {0, 0.947735103, 1.44973558, 1.50997336, 0.58597972, -0.613609339})
  refused("3 heads of queries and 3 of keys do not share these columns", nn.program, "bad", function(p)
    local x <const> = p:input("x", 3, 4)
    p:loss(nn.attention(x, x, x, {heads = 3}))
  end)
  refused("nn.attention has no option `head`", nn.program, "bad", function(p)
    local x <const> = p:input("x", 3, 4)
    p:loss(nn.attention(x, x, x, {head = 2}))
  end)
  -- Operations of one's own: traced, differentiated by what they say, checked by differences.
  local swish <const> = nn.operation {name = "swish",
    forward = function(x)
      local s <const> = x:sigmoid()
      return x * s, {s = s}
    end,
    backward = function(g, saved, _, y) return g * (saved.s + y * (1 - saved.s)) end}
  local function trained(f)
    local net <const> = nn.program("own", function(p)
      p:loss(nn.xent(nn.linear(3)(f(nn.linear(8)(p:input("x", 4)))), p:index "y"))
    end)
    local m <const> = net:compile {optimizer = nn.sgd {lr = 0.3}, clip = 1}
    for _ = 1, 20 do m:step {x = wave(6, 4, 0), y = tensor("i32", 6, {0, 1, 2, 0, 1, 2})} end
    return m:evaluate({x = wave(6, 4, 0), y = tensor("i32", 6, {0, 1, 2, 0, 1, 2})}).loss, m:explain()
  end
  local own <const>, list <const> = trained(swish)
  local built_in <const>, other <const> = trained(nn.silu)
  same("an operation of its own", {own}, {built_in})
  assert(list:match "(%d+) of them regions" == other:match "(%d+) of them regions", "it is not fused")
  local checked <const> = nn.check_gradient(swish, {wave(3, 4, 0)})
  assert(checked.checked == 12 and checked.worst < 1e-8)
  local two <const> = nn.operation {name = "two",
    forward = function(a, b) return {a * b, a + b} end,
    backward = function(g, _, a, b) return g[1] * b + g[2], g[1] * a + g[2] end}
  nn.check_gradient(function(a, b)
    local x <const>, y <const> = two(a, b)
    return x:sqr() + (nn.split(y, 2))
  end, {wave(3, 2, 0), wave(3, 2, 1)})
  nn.check_gradient(function(a, b) return (two(a, b)) end, {wave(3, 2, 0), wave(3, 2, 1)}) -- y is used by none
  nn.check_gradient(function(q, i) return nn.attention(q, q, q:gather(i), {heads = 2, causal = true}) end,
    {{wave(2, 12, 0), 3, 4}, {tensor("i32", 2, {0, 2, 1, -1, 0, 0}), 3}})
  local function faulty(name, backward)
    local op <const> = nn.operation {name = name, forward = function(a) return a:sqr() end, backward = backward}
    return function() nn.check_gradient(op, {wave(3, 4, 0)}) end
  end
  refused("operand 1, element 2: backward gives", faulty("half", function(g, _, a) return g * a end))
  refused("backward of wide: gradient 1 is [B x 1], and its operand [B x 4]",
    faulty("wide", function(g, _, a) return (g * a):sum "rows" end))
  refused("backward of many returns 2 gradients, and it has 1 operands", faulty("many", function(g) return g, g end))
  refused("operation none has no backward", faulty "none")
  refused("gradient 1 is a number", faulty("one", function() return 1 end))
  refused("operation outside reads a value from outside: make it an operand", nn.program, "bad", function(p)
    local b <const> = p:param("b", {3})
    p:loss(nn.operation {name = "outside", forward = function(v) return v * b end}(p:input("x", 3)))
  end)
  refused("operation owner: make parameter fc1.w an operand", nn.program, "bad", function(p)
    p:loss(nn.operation {name = "owner", forward = function(v) return (nn.linear(3)(v)) end}(p:input("x", 3)))
  end)
  print "the operations hold"
end)
LUA
run 0 run open.lua
says out.txt 'the operations hold'

# Operations in C: one that is right, then each mistake by itself. `build FROM TO`: the example with a line changed.
cp "$root/examples/own_operation.lua" "$root/examples/huber.c" .
compile() { cc -O1 "$@" -shared -fPIC changed.c -I"$root/runtime/include" -o huber.so || fail "no module: $(cat changed.c)"; }
build() {
    sed "s/$1/$2/" huber.c >changed.c
    ! cmp -s huber.c changed.c || fail "nothing was changed: $1"
    compile -w
}
cp huber.c changed.c
compile -Wall -Wextra -Werror
run 0 run own_operation.lua
says out.txt 'backward agrees with differences: true'
says out.txt 'huber .*slope 3.0[0-9] of 3'
build 'by\[i\] = g\[i\]' 'by[i] = 2 * g[i]'
run 1 run own_operation.lua
says err.txt 'T0903.*operand 1, element 1: backward gives .*, differences'
build 'out\[0\] = in\[0\];' 'out[0] = in[0]; out[0].rank = 9;'
run 1 run own_operation.lua
says err.txt 'T0903.*huber of x1 \[B x 1\]: it gives result 1 a shape that is none'
build '.backward = backward' '.backward = 0'
run 1 run own_operation.lua
says err.txt 'T0903.*operation huber has no backward'
build 'TIDE_KERNEL_ABI, .version' 'TIDE_KERNEL_ABI - 1, .version'
run 1 run own_operation.lua
says err.txt 'T0909.*huber.so: it was built for version 6 of tide/kernel.h, this is version 7: build it again'
# Two results, of which a program uses either or both.
cat >changed.c <<'C'
#include <tide/kernel.h>
static int shape(const struct tide_own_shape *in, const double *numbers, struct tide_own_shape *out, char *error) {
    (void)numbers, (void)error;
    out[0] = out[1] = in[0];
    return 0;
}
static int forward(const struct tide_own_call *call) {
    const double *x = call->in[0].data;
    for (size_t i = 0; i < call->in[0].rows * call->in[0].columns; i++) {
        ((double *)call->out[0].data)[i] = x[i] * x[i];
        ((double *)call->out[1].data)[i] = x[i] * x[i] * x[i];
    }
    return 0;
}
static int backward(const struct tide_own_call *call) {
    const double *x = call->in[0].data, *a = call->g[0].data, *b = call->g[1].data;
    for (size_t i = 0; i < call->in[0].rows * call->in[0].columns; i++) {
        ((double *)call->by[0].data)[i] = 2 * x[i] * a[i] + 3 * x[i] * x[i] * b[i];
    }
    return 0;
}
static const struct tide_own_operation operations[] = {
    {.name = "powers", .doc = "x^2 and x^3.", .in_count = 1, .out_count = 2, .shape = shape, .forward = forward,
     .backward = backward}};
const struct tide_kernel_module *tide_kernel_module(const struct tide_kernel_host *host) {
    static const struct tide_kernel_module module = {
        .abi = TIDE_KERNEL_ABI, .version = "1", .operations = operations, .operation_count = 1};
    (void)host;
    return &module;
}
C
compile -Wall -Wextra -Werror
cat >two.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local own <const> = tide.kernel.load "huber.so"
tide.main(function()
  local x <const> = tide.tensor.zeros("f32", 3, 2):normal(1)
  nn.check_gradient(function(v) return (own.powers(v)) end, {x})
  nn.check_gradient(function(v) return (select(2, own.powers(v))) end, {x})
  nn.check_gradient(function(v)
    local a, b = own.powers(v)
    return a + 2 * b
  end, {x})
  print "both results have gradients"
end)
LUA
run 0 run two.lua
says out.txt 'both results have gradients'
build 'y\[i\] = a <= bound' '*(volatile int *)(size_t)(8 + i) = 1; y[i] = a <= bound'
if [ -z "${TIDE_SANITIZED:-}" ]; then # whose handler of signals is another
    timeout 60 "$TIDE" run own_operation.lua >out.txt 2>err.txt
    says err.txt 'crashed: SIGSEGV at address 0x8 in kernel huber, at own_operation.lua:24'
    cat >crashing.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local own <const> = tide.kernel.load "huber.so"
local function column(seed) return tide.tensor.zeros("f32", 16, 1):normal(seed) end
local job <const> = nn.job {
  name = "crashing", batch = 16, epochs = 1, optimizer = nn.sgd {lr = 0.1},
  program = nn.program("line", function(p) p:loss(own.huber(p:input("x", 1) * p:param("w", {1}), {bound = 0.5})) end),
  data = tide.data.lazy(function() return {count = 16, parts = {["train.x"] = column(1)}} end),
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  cluster:start(job):wait()
end)
LUA
    timeout 60 "$TIDE" run crashing.lua >out.txt 2>err.txt
    says err.txt 'crashed: SIGSEGV at address 0x8 in kernel huber \(worker on n1\)'
fi
finish
