#!/usr/bin/env bash
# Jobs of nets: several inputs, metrics, early stop, a rate that is changed live, checkpoints that resume exactly.
source "$(dirname "$0")/harness.sh"

cat >job.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local opt = tide.options {epochs = {"epochs", default = 5}, stop = {"at this report", default = 0},
  lr = {"set at the first report", default = 0.0}, patience = {"of the stop rule", default = 9}}
local net = nn.program("two", function(p)
  local a, b, label = p:input("a", 2), p:input("b", 2), p:index "label"
  local z = nn.linear(2)(nn.relu(nn.linear(8)(a:concat(b))))
  p:output("z", z)
  p:loss(nn.xent(z, label))
end)
local job = nn.job {
  name = "two", program = net, batch = 20, epochs = opt.epochs, params = {lr = 0.02},
  optimizer = nn.adam {lr = function(step, params) return params.lr * 0.99 ^ step end, beta2 = 0.99, eps = 1e-7},
  data = tide.data.lazy(function()
    local parts = {}
    for name, count in pairs {train = 300, test = 100} do
      local a, b = tide.tensor.zeros("f32", count, 2):normal(count), tide.tensor.zeros("f32", count, 2):normal(count + 1)
      parts[name .. ".a"], parts[name .. ".b"] = a, b
      parts[name .. ".label"] = (a:row_sums() - b:row_sums()):map "x > 0":convert "i32"
    end
    return {parts = parts}
  end),
  metrics = {ones = function(outputs, batch)
    assert(batch.a:rows() == batch.rows and batch.label:rows() == outputs.z:rows())
    return outputs.z:argmax():convert "f32":sum()
  end},
  validate = "test", stop = {patience = opt.patience, by = opt.patience < 9 and 10 or 0}, checkpoint = {dir = "saved"},
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run <close> = cluster:start(job)
  for r in run:events "report" do
    print(("%d loss %.9f valid %.9f ones %g of %g"):format(r.n, r.loss / r.examples, r.valid_loss / r.valid_examples,
      r.valid_ones, r.valid_ones_n))
    if r.n == 1 and opt.lr > 0 then
      run:set {lr = opt.lr}
      local ok, err = pcall(run.set, run, {rate = 1})
      assert(not ok and tostring(err):find("rate", 1, true))
    end
    if r.n == opt.stop then run:stop() end
  end
  print(("correct %g ones %g"):format(run:evaluate "test".correct, run:evaluate "ones"))
end)
LUA
run 0 run job.lua
cp out.txt whole.txt
says out.txt '^5 loss 0\.[0-9]+ valid 0\.[0-9]+ ones [0-9]+ of 100$'
says out.txt '^correct 0\.(8[5-9]|9[0-9]) ones 0\.[45]'
rm -rf saved
run 0 run job.lua --stop 2
cp out.txt parts.txt
sed -i '/^correct/d' parts.txt
run 0 run --resume saved job.lua
cat out.txt >>parts.txt
diff whole.txt parts.txt || fail "what was resumed is not what was not stopped"
run 0 run job.lua --epochs 2 --lr 0.5
cmp -s <(sed -n 1p out.txt) <(sed -n 1p whole.txt) || fail "the first epoch is another one"
if cmp -s <(sed -n 2p out.txt) <(sed -n 2p whole.txt); then fail "the rate was not changed"; fi
run 0 run job.lua --patience 2 # it never gets better by 10
[ "$(grep -c loss out.txt)" = 3 ] || fail "not stopped behind the second epoch without a better one: $(cat out.txt)"

cat >wrong.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local function says(text, f)
  local ok, err = pcall(f)
  assert(not ok and tostring(err):find(text, 1, true), text .. ": " .. tostring(err))
end
local net = nn.sequential {input = {3}, loss = nn.xent(), nn.linear(2)}
local function job(more)
  local o = {name = "j", program = net, batch = 2, epochs = 1, optimizer = nn.sgd {lr = 0.1}, data = 10}
  for key, value in pairs(more) do o[key] = value end
  return function() nn.job(o) end
end
says("did you mean `metrics`", job {metric = {}})
says("`metrics` are functions by name", job {metrics = {a = 1}})
says("which `validate = PART` makes", job {stop = {metric = "valid_loss", patience = 1}})
says("`stop.metric` is `f1`", job {stop = {metric = "f1", patience = 1}})
says("nn.adam has no option `beta`", function() nn.adam {lr = 1, beta = 1} end)
says("requires `patience`", function() tide.job {name = "k", worker = print, stop = {metric = "loss"}} end)
says("did you mean `patience`", function() tide.job {name = "k", worker = print, stop = {patince = 2}} end)
local T = tide.tensor
local x, y = T.zeros("f32", 20, 3):normal(1), T.zeros("f32", 20, 2):normal(2)
for name, loss in pairs {mse = nn.mse(), sigmoid_xent = nn.sigmoid_xent(), hinge = nn.hinge()} do
  local targets = name == "mse" and y or y:copy():map(name == "hinge" and "2 * (x > 0) - 1" or "x > 0")
  local m = nn.sequential {input = {3}, loss = loss, nn.linear(2)}:compile {optimizer = nn.sgd {lr = 0.1}}
  local first = m:step {x = x, y = targets}.loss
  for _ = 1, 20 do m:step {x = x, y = targets} end
  assert(m:evaluate {x = x, y = targets}.loss < first, name)
end
says("nn.sequential has no field `los`", function() nn.sequential {input = {3}, los = nn.mse(), nn.linear(2)} end)
tide.main(function() print "wrong ok" end)
LUA
run 0 run wrong.lua
says out.txt '^wrong ok$'

# A loss that is not finite ends the run and says where it began; or its steps are skipped, on all workers. Reports have
# statistics of layers.
cat >nan.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local opt = tide.options {nan = {"", default = "stop"}, clip = {"", default = 0.0}, bad = {"", default = 7},
  every = {"local steps", default = 0}}
local job = nn.job {
  name = "nan", program = nn.sequential {input = {3}, loss = nn.xent(), nn.linear(4), nn.tanh(), nn.linear(2)},
  batch = 10, epochs = 2, optimizer = nn.momentum {lr = 0.1}, nan = opt.nan, clip = opt.clip > 0 and opt.clip or nil,
  watch = true, exchange = opt.every > 0 and {every = opt.every} or nil,
  data = tide.data.lazy(function()
    local x = tide.tensor.zeros("f32", 100, 3):normal(1)
    local y = x:row_sums():map "x > 0":convert "i32"
    if opt.bad > 0 then x[opt.bad] = 0 / 0 end
    if opt.bad < 0 then x:fill(0 / 0) end
    return {parts = {["train.x"] = x, ["train.y"] = y}, count = 100}
  end),
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  for r in cluster:start(job):events "report" do
    assert(r.loss == r.loss and (r.resyncs or 0) == 0)
    print(("report %d skipped %g of %d examples, fc1 %s"):format(r.n, r.skipped or 0, r.examples,
      r["fc1.values_std"] > 0 and r["fc2.gradient_max"] > 0 and "seen"))
    local shown = require("tide.cluster.collect").here {}.runs[1].layers -- what the dashboard gets
    assert(#shown == 6 and shown[1].layer == "fc1" and shown[1].of == "values" and shown[6].of == "weights")
    assert(r.n < 2 or shown[1].std == r["fc1.values_std"])
  end
end)
LUA
run 1 run nan.lua
says err.txt 'the loss of step [0-9]+ is not finite: input "x" has 1 of 15'
for clip in 0 1; do
    run 0 run nan.lua --nan skip --clip $clip
    says out.txt '^report 2 skipped 1 of 90 examples, fc1 seen$'
done
run 0 run nan.lua --nan skip --every 2 # a local step is one worker's half of a batch
says out.txt '^report 2 skipped 1 of 95 examples, fc1 seen$'
for every in 0 2; do
    run 1 run nan.lua --bad -1 --nan skip --every $every # nothing learned is no success
    says err.txt 'all [0-9]+ steps of epoch 1 were skipped: none had a finite loss'
done
run 0 run nan.lua --bad 0
says out.txt '^report 2 skipped 0 of 100 examples, fc1 seen$'

# ---- what ends a job ----
cat >ends.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local opt = tide.options {epochs = {"passes; -1: not said", default = -1}, loss = {"that ends it", default = 0.0},
                          patience = {"with the part valid, which has no label", default = 0}}
local job = nn.job {
  name = "ends", program = nn.sequential {input = {3}, loss = nn.xent(), nn.linear(2)}, batch = 10,
  optimizer = nn.sgd {lr = 1}, epochs = opt.epochs >= 0 and opt.epochs or nil, validate = opt.patience > 0 and "valid" or nil,
  stop = opt.patience > 0 and {patience = opt.patience} or opt.loss > 0 and {loss = opt.loss} or nil,
  data = tide.data.lazy(function()
    local x = tide.tensor.zeros("f32", 100, 3):normal(1)
    return {parts = {["train.x"] = x, ["train.y"] = x:row_sums():map "x > 0":convert "i32", ["valid.x"] = x,
                     ["valid.y"] = tide.tensor.zeros("i32", 100):fill(-1)}, count = 100}
  end),
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run <close>, last = cluster:start(job), 0
  for r in run:events "report" do last = r.loss / r.examples end
  print(("ended below the loss: %s"):format(last <= opt.loss))
end)
LUA
run 0 run ends.lua --loss 0.3
says out.txt '^ended below the loss: true$'
run 1 run ends.lua
says err.txt 'nn.job `ends`: `epochs`, passes over the data, is missing, and no `stop` rule ends the run'
run 1 run ends.lua --epochs 0
says err.txt '`epochs` is 0, not a whole number from 1 on'
run 1 run ends.lua --patience 2
says err.txt "the stop rule's metric \`valid_loss\` is of 0 \`valid_examples\` in each of 2 reports"
finish
