#!/bin/bash
# device = "cuda" from Lua, on the emulated device (tests/cuda/emulated.h), which stands in for tide_cuda.so: models and
# jobs end where the CPU's do. And what is said where there is no GPU.
. "$(dirname "$0")/harness.sh"

build=${TIDE_BUILD_DIR:-$root/build}

cat >models.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"

local function close(a, b) return math.abs(a - b) <= 2e-4 * (1 + math.abs(b)) end

local function net()
  return nn.sequential {input = {8, 8, 1}, loss = nn.xent(), nn.conv(16, 3, {bias = false}), nn.batchnorm(), nn.relu(),
                        nn.maxpool(2), nn.flatten(), nn.linear(12), nn.tanh(), nn.dropout(0.5), nn.linear(4)}
end

tide.main(function()
  local rng = require "tide.core".random(5)
  local x, y = tide.tensor.zeros("f32", 24, 64), tide.tensor.zeros("i32", 24)
  for i = 1, #x do x[i] = rng:uniform() - 0.5 end
  for i = 1, #y do y[i] = rng:below(4) end
  local data = {x = x, y = y}
  for rule, clip in pairs {sgd = false, momentum = 1, nesterov = 1, adagrad = 1, rmsprop = 1, adam = 1, adamw = 1} do
    local function compile(device)
      return net():compile {device = device, seed = 3, clip = clip or nil, optimizer = nn[rule] {lr = 0.01}}
    end
    local here, there = compile "cpu", compile "cuda"
    for _ = 1, 4 do
      local a, b = here:step(data), there:step(data)
      assert(close(b.loss, a.loss) and a.correct == b.correct, rule)
    end
    assert(close(there:evaluate(data).loss, here:evaluate(data).loss), rule)
    local p, q = here:forward(data).logits, there:forward(data).logits
    for i = 1, #p do assert(close(q[i], p[i]), rule) end
    local g, h = here:gradients_of(data)["fc1.w"], there:gradients_of(data)["fc1.w"]
    for i = 1, #g do assert(close(h[i], g[i]), rule) end
  end
  -- Rules of one's own run on the host; averages and gradients apart from their update go with the device.
  for name, rule in pairs {lion = nn.lion {lr = 0.01}, lamb = nn.lamb {lr = 0.01}, adam = nn.adam {lr = 0.01}} do
    local function compile(device) return net():compile {device = device, seed = 3, optimizer = rule, average = 0.5} end
    local here, there = compile "cpu", compile "cuda"
    for step = 1, 4 do
      if step % 2 == 0 then
        here:step(data)
        there:step(data)
      else
        here:update(here:gradients(data))
        there:update(there:gradients(data))
      end
    end
    for _, what in ipairs {"parameter", "averaged"} do
      local a, b = here[what](here, "fc1.w"), there[what](there, "fc1.w")
      for i = 1, #a do assert(close(b[i], a[i]), name .. " " .. what) end
    end
    assert(close(there:evaluate(data).loss, here:evaluate(data).loss), name)
  end
  -- What is written to a parameter counts after give(), and comes back.
  local m = net():compile {device = "cuda"}
  local w = m:parameter "fc2.b"
  w[1] = 17
  m:give()
  assert(m:forward(data).logits[1] > 15 and m:parameter "fc2.b"[1] == 17)
  -- A label out of range is named, and the model goes on.
  y[2] = 9
  local ok, err = pcall(m.evaluate, m, data)
  assert(not ok and tostring(err):find("example 2 has label 9, outside 0..3", 1, true), tostring(err))
  y[2] = 1
  assert(m:evaluate(data).count == 24)
  print "the models agree"
end)
LUA
cat >job.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local opt = tide.options {device = {"", default = "cpu"}, comm = {"", default = "always-ps"}, workers = {"", default = 1}}
local net = nn.sequential {input = {28, 28, 1}, loss = nn.xent(), nn.flatten(), nn.linear(20), nn.batchnorm(), nn.tanh(),
                           nn.linear(10)}
local job = nn.job {name = "same", program = net, data = tide.data.images(nil, {count = 120, test = 0.5, seed = 2}),
  batch = 60, epochs = 3, device = opt.device, comm = "comm/" .. opt.comm, optimizer = nn.momentum {lr = 0.1, decay = 0.001}}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.workers}
  local run = cluster:start(job)
  for r in run:events "report" do print(("%d %.5f"):format(r.n, r.loss / r.examples)) end
  print(("test %.5f"):format(run:evaluate "test".loss))
  run:wait()
end)
LUA

if ! "$TIDE" version -v | grep -q 'cuda.device'; then
    run 1 run models.lua
    says err.txt 'T0904.*no CUDA device can be used here'
fi

export LD_LIBRARY_PATH=$build/emulated${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
run 0 version -v
says out.txt 'cuda.device *emulated'
run 0 run models.lua
says out.txt 'the models agree'
# One worker keeps its parameters on the device; several exchange gradients by way of the host, dense or as factors.
for way in "1 always-ps" "2 always-ps" "2 always-sfb"; do
    set -- $way
    for device in cpu cuda; do
        run 0 run job.lua --workers "$1" --comm "$2" --device $device
        grep -E '^[0-9]+ |^test' out.txt >$device.txt
        [ "$(wc -l <$device.txt)" = 4 ] || fail "$way on $device: no four lines"
    done
    paste -d' ' cpu.txt cuda.txt | awk '{ d = $2 - $4; if ($1 != $3 || d > 2e-4 || d < -2e-4) exit 1 }' ||
        fail "$way: the device ends elsewhere than the CPU: $(paste -d' ' cpu.txt cuda.txt | tr '\n' ';')"
    nothing_left
done
finish
