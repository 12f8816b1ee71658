#!/bin/bash
# A GPT, graph nets and a mixture of experts begin from the same weights as in PyTorch, and go the same way: the losses
# are those of tests/peers/open_programs.py. The examples of these models learn.
. "$(dirname "$0")/harness.sh"

cat >models.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local opt = tide.options {device = {"", default = "cpu"}, which = {"", default = "all"}, steps = {"", default = 8}}

---16 bits that the examples and first weights of all models are made of.
local function u(i, s)
  local x = (i * 2654435761 + s * 40503) & 0xffffffff
  x = x ~ x >> 15
  x = x * 2246822519 & 0xffffffff
  x = x ~ x >> 13
  return x >> 8 & 0xffff
end
local function P(i, s) return u(i, s) / 65536 * 0.2 - 0.1 end

---Weights by their numbers; `flat`: in the order they lie in.
local function set(m, name, s, scale, flat)
  local w <const> = m:parameter(name)
  local rows <const>, columns <const> = w:rows(), w:columns()
  for i = 0, rows * columns - 1 do
    w[i + 1] = scale * P(flat and i or i % columns * rows + i // columns, s)
  end
  m:give()
end

local function float() return opt.device == "reference" and "f64" or "f32" end
local function filled(kind, rows, columns, f)
  local t = tide.tensor.zeros(kind, rows, columns)
  for i = 1, rows * columns do t[i] = f(i - 1) end
  return t
end

local function train(name, m, batch_of)
  if opt.which ~= "all" and opt.which ~= name then return end
  local losses = {}
  for t = 0, opt.steps - 1 do
    local r <const> = m:step(batch_of(t))
    if t < 4 or t == 7 or t == opt.steps - 1 then losses[#losses + 1] = ("%.6f"):format(r.loss / r.count) end
  end
  print(name .. " " .. table.concat(losses, " "))
end

local function dense(n, name) return nn.linear(n, {bias = false, name = name}) end

local function gpt()
  local V <const>, C <const>, T <const>, B <const> = 65, 64, 32, 8
  local net <const> = nn.program("gpt", function(p)
    local wte <const>, wpe <const> = p:param("wte", {V, C}), p:param("wpe", {T, C})
    local x = wte:gather(p:index("x", T)) + wpe
    for l = 1, 2 do
      local q <const>, k <const>, v <const> = nn.split(dense(3 * C, "qkv" .. l)(nn.layernorm()(x)), 3)
      x = x + dense(C, "o" .. l)(nn.attention(q, k, v, {heads = 4, causal = true}))
      x = x + dense(C, "r" .. l)(nn.gelu(dense(4 * C, "f" .. l)(nn.layernorm()(x))))
    end
    p:loss(nn.xent(nn.layernorm()(x):mm(wte, {tb = true}), p:index("y", T)))
  end)
  local m <const> = net:compile {device = opt.device, clip = 1,
                                 optimizer = nn.adamw {lr = 1e-3, beta2 = 0.95, decay = 0.1}}
  set(m, "wte", 1, 1, true)
  set(m, "wpe", 2, 1, true)
  for l = 1, 2 do
    for i, name in ipairs {"qkv", "o", "f", "r"} do set(m, name .. l .. ".w", 10 * l + i, name == "r" and 1 or 2) end
  end
  local tokens, s = {}, 0
  for k = 0, T * B * opt.steps do
    tokens[k] = s
    local own <const> = u(k, 21)
    s = (3 * s + 1 + (own % 4 == 0 and own or 0)) % V
  end
  train("gpt", m, function(t)
    return {x = filled("i32", B, T, function(i) return tokens[T * B * t + i] end),
            y = filled("i32", B, T, function(i) return tokens[T * B * t + i + 1] end)}
  end)
end

---200 vertices of 4 classes, the 40 first of which have labels; the edges as rows of two lists.
local function graph(loops)
  local N <const> = 200
  local from, to, degree = {}, {}, {}
  local function edge(i, j)
    from[#from + 1], to[#to + 1] = i, j
    degree[j] = (degree[j] or 0) + 1
  end
  for i = 0, N - 1 do
    for j = i + 1, N - 1 do
      if u(N * i + j, 31) / 65536 < (i % 4 == j % 4 and 0.06 or 0.01) then
        edge(i, j)
        edge(j, i)
      end
    end
    if loops then edge(i, i) end
  end
  local E <const> = #from
  return N, E, degree, {
    x = filled(float(), 1, N * 16, function(i)
      local n <const>, j <const> = i // 16, i % 16
      return 5 * P(16 * n + j, 32) + 5 * P(16 * (n % 4) + j, 33)
    end),
    from = filled("i32", 1, E, function(i) return from[i + 1] end),
    to = filled("i32", 1, E, function(i) return to[i + 1] end),
    y = filled("i32", 1, N, function(i) return i < 40 and i % 4 or -1 end),
  }, from, to
end

local function gcn()
  local N <const>, E <const>, degree <const>, batch <const>, from <const>, to <const> = graph(true)
  batch.share = filled(float(), 1, E, function(i) return 1 / math.sqrt(degree[from[i + 1]] * degree[to[i + 1]]) end)
  local net <const> = nn.program("gcn", function(p)
    local from_i <const>, to_i <const>, share <const> = p:index("from", E), p:index("to", E), p:input("share", E, 1)
    local function spread(h) return (h:gather(from_i) * share):scatter_add(to_i, N) end
    local h <const> = nn.relu(spread(dense(16, "w1")(p:input("x", N, 16))) + p:param("b1", {16}))
    p:loss(nn.xent(spread(dense(4, "w2")(h)) + p:param("b2", {4}), p:index("y", N)))
  end)
  local m <const> = net:compile {device = opt.device, optimizer = nn.adam {lr = 0.01}}
  for i = 1, 2 do set(m, ("w%d.w"):format(i), i, 4) end
  train("gcn", m, function() return batch end)
end

local function sage()
  local N <const>, E <const>, _, batch <const> = graph(false)
  local net <const> = nn.program("sage", function(p)
    local from <const>, to <const> = p:index("from", E), p:index("to", E)
    local function layer(h, n, own, others)
      local mean <const> = nn.segment_mean(h:gather(from), to, N)
      return nn.linear(n, {name = own})(h) + dense(n, others)(mean)
    end
    local h <const> = nn.relu(layer(p:input("x", N, 16), 16, "w1", "w2"))
    p:loss(nn.xent(layer(h, 4, "w3", "w4"), p:index("y", N)))
  end)
  local m <const> = net:compile {device = opt.device, optimizer = nn.adam {lr = 0.01}}
  for i = 1, 4 do set(m, ("w%d.w"):format(i), i, 4) end
  train("sage", m, function() return batch end)
end

-- As examples/sage.lua: a step of ten vertices, three neighbours of each, and three of each of these.
local function sampled()
  local N <const>, _, _, batch <const>, from <const>, to <const> = graph(false)
  local near = {}
  for v = 0, N - 1 do near[v] = {} end
  for e, v in ipairs(to) do table.insert(near[v], from[e]) end
  local function draw(of, t, stream)
    local all = {}
    for i, v in ipairs(of) do
      for k = 0, 2 do
        local count <const> = v < 0 and 0 or #near[v]
        all[#all + 1] = count == 0 and -1 or near[v][u(1000 * t + 3 * (i - 1) + k, stream) % count + 1]
      end
    end
    return all
  end
  local net <const> = nn.program("sampled", function(p)
    local x <const> = p:constant(batch.x:view(1, N, 16))
    local own <const>, others <const> = nn.linear(16, {name = "w1"}), dense(16, "w2")
    local function first(self, rest) return nn.relu(own(self) + others(rest)) end
    local x1 <const> = x:gather(p:index("near", 3))
    local h0 <const> = first(x:gather(p:index("own", 1)), x1:mean(1):reshape(1, 16))
    local h1 <const> = first(x1, x:gather(p:index("far", 9)):reshape(3, 3, 16):mean(2):reshape(3, 16))
    local z <const> = nn.linear(4, {name = "w3"})(h0) + dense(4, "w4")(h1:mean(1):reshape(1, 16))
    p:loss(nn.xent(z, p:index("y", 1)))
  end)
  local m <const> = net:compile {device = opt.device, optimizer = nn.adam {lr = 0.01}}
  for i = 1, 4 do set(m, ("w%d.w"):format(i), i, 4) end
  train("sampled", m, function(t)
    local own = {}
    for i = 1, 10 do own[i] = (10 * t + i - 1) % 40 end
    local one <const> = draw(own, t, 61)
    local function rows(list) return filled("i32", 10, #list // 10, function(i) return list[i + 1] end) end
    return {own = rows(own), near = rows(one), far = rows(draw(one, t, 62)),
            y = filled("i32", 10, 1, function(i) return own[i + 1] % 4 end)}
  end)
end

local function moe()
  local D <const>, B <const>, K <const> = 16, 64, 4
  local net <const> = nn.program("moe", function(p)
    local x <const> = p:input("x", D)
    local share <const> = dense(K, "gate")(x):softmax()
    local values <const>, chosen <const> = share:topk(2)
    local all = dense(D, "out0")(nn.relu(dense(32, "in0")(x)))
    for e = 1, K - 1 do all = all:concat(dense(D, "out" .. e)(nn.relu(dense(32, "in" .. e)(x)))) end
    local weight <const> = (values / values:sum "rows"):reshape(2, 1)
    local h <const> = x + (all:reshape(K, D):gather(chosen) * weight):sum(1)
    p:loss(nn.xent(dense(10, "head")(h), p:index "y"))
    local routed <const> = nn.one_hot(chosen, K):sum(1):sum "columns" / (2 * B)
    p:loss(0.01 * K * B * (routed * (share:sum "columns" / B)))
  end)
  local m <const> = net:compile {device = opt.device, optimizer = nn.adam {lr = 0.01}}
  set(m, "gate.w", 1, 4)
  set(m, "head.w", 30, 4)
  for e = 0, K - 1 do
    set(m, ("in%d.w"):format(e), 10 + e, 4)
    set(m, ("out%d.w"):format(e), 20 + e, 4)
  end
  train("moe", m, function(t)
    local function n(b) return (t * B + b) % 256 end
    return {x = filled(float(), B, D, function(i)
              return 5 * P(n(i // D) * D + i % D, 11) + 5 * P(n(i // D) % 10 * D + i % D, 12)
            end),
            y = filled("i32", B, 1, function(b) return n(b) % 10 end)}
  end)
end

tide.main(function()
  gpt()
  gcn()
  sage()
  sampled()
  moe()
end)
LUA
cat >want.txt <<'TXT'
gpt 4.269800 4.236593 4.190073 4.170199 4.158992
gcn 1.453437 1.420401 1.391489 1.366306 1.281420
sage 1.541683 1.417252 1.311697 1.221559 0.928256
sampled 1.557449 1.485756 1.392332 1.322104 1.017427
moe 2.439631 2.333473 2.132472 2.135276 1.647021
TXT
run 0 run models.lua
near want.txt out.txt 1e-5 "losses differ from PyTorch's"
run 0 run models.lua --device reference --which moe
grep '^moe' want.txt >one.txt
near one.txt out.txt 2e-6 "losses in float64 differ from PyTorch's"

build=${TIDE_BUILD_DIR:-$root/build}
away=$build/emulated${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} # the kernels of CUDA on the emulated device, if it is of this build
LD_LIBRARY_PATH=$away run 0 version -v
if grep -q 'cuda.device *emulated' out.txt; then
    LD_LIBRARY_PATH=$away run 0 run models.lua --device cuda --steps 2
    cut -d' ' -f1-3 want.txt >two.txt
    near two.txt out.txt 2e-6 "losses on the emulated device differ from PyTorch's"
fi

run 0 run "$root/examples/gpt.lua" --epochs 4 --count 1500 --batch 16 --sample 5
perplexity=$(sed -n 's/^epoch  4 .*perplexity //p' out.txt)
awk -v p="$perplexity" 'BEGIN { exit !(p > 1 && p < 7) }' || fail "the example's perplexity is $perplexity"
right() { sed -n "s/^$1 .* \([0-9.]*\) % right.*/\1/p" out.txt; }
run 0 run "$root/examples/gcn.lua" --vertices 120 --epochs 30 --inside 0.2 --between 0.02
awk -v p="$(right 'step  30')" 'BEGIN { exit !(p > 60) }' || fail "gcn: $(cat out.txt)"
run 0 run "$root/examples/gcn.lua" --net sage --vertices 120 --epochs 30 --inside 0.2 --between 0.02
awk -v p="$(right 'step  30')" 'BEGIN { exit !(p > 50) }' || fail "sage: $(cat out.txt)"
run 0 run "$root/examples/sage.lua" --vertices 400 --labels 200 --epochs 8 --lr 0.03
awk -v p="$(right 'epoch  8')" 'BEGIN { exit !(p > 45) }' || fail "sampled neighbours: $(cat out.txt)"
run 0 run "$root/examples/moe.lua" --count 1000 --epochs 3
awk -v p="$(right 'epoch  3')" 'BEGIN { exit !(p > 60) }' || fail "moe: $(cat out.txt)"
finish
