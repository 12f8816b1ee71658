#!/bin/bash
# Programs from Lua: nets, errors, models; and training by one worker and by several, which must agree.
. "$(dirname "$0")/harness.sh"

value() { sed -n "s/.*\"$1\": *\\([-0-9.e]*\\).*/\\1/p" out.txt; }
more() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > b) }'; }

cat >nets.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"

local function close(a, b, bound) return math.abs(a - b) <= bound * (1 + math.abs(b)) end

---Fails with `text` (plain), at a line of this script.
local function refused(text, f, ...)
  local ok, err = pcall(f, ...)
  assert(not ok, "nothing was refused")
  assert(tostring(err):find(text, 1, true), tostring(err))
  return err
end

local function logistic(name)
  return nn.program(name or "mlr", function(p)
    local W, b = p:param("W", {6, 3}, tide.uniform {low = -0.5, high = 0.5}), p:param("b", {3})
    local z = p:input("x", 6):mm(W) + b
    p:output("logits", z)
    p:output("share", z:softmax())
    p:loss(nn.xent(z, p:index "y"))
  end)
end

local function batch(n, columns, classes)
  local rng = require "tide.core".random(3)
  local x, y = tide.tensor.zeros("f32", n, columns), tide.tensor.zeros("i32", n)
  for i = 1, #x do x[i] = rng:uniform() - 0.5 end
  for i = 1, n do y[i] = rng:below(classes) end
  return {x = x, y = y}
end

tide.main(function()
  -- A formula is a program; two of one formula have one id.
  local net = logistic()
  assert(net:id() == logistic():id() and net:id() ~= logistic("other"):id())
  assert(tostring(net):find("= mm(x [B x 6], W [6 x 3])", 1, true), tostring(net))
  assert(tostring(net):find("nets.lua:16", 1, true), tostring(net))
  assert(net:dot():find('digraph "mlr"', 1, true))

  -- The gradient is that of differences.
  local data = batch(8, 6, 3)
  local m = net:compile {optimizer = nn.sgd {lr = 0.5}}
  local g = m:gradients_of(data).W
  assert(g:rows() == 6 and g:columns() == 3)
  local W = m:parameter "W"
  for i = 1, #W do
    local old = W[i]
    W[i] = old + 0.01
    local up = m:evaluate(data).loss
    W[i] = old - 0.01
    local down = m:evaluate(data).loss
    W[i] = old
    assert(close((up - down) / 0.02, g[i], 2e-3), ("%g and %g"):format((up - down) / 0.02, g[i]))
  end

  -- Gradients of inputs are those of differences, too; a column of a wider value counts for its own row.
  for _, device in ipairs {"cpu", "reference"} do
    local float <const> = device == "cpu" and "f32" or "f64"
    local both = nn.program("both", function(p)
      local a, b = p:input("a", 6), p:input("b", 3)
      local v = nn.relu(nn.linear(3)(b))
      local seen = v:concat((a:slice(1, 3) * v):sum "rows"):concat((a:slice(4, 3) * a:slice(1, 3)):sum "rows")
      p:loss(nn.sigmoid_xent(nn.linear(1)(nn.relu(nn.linear(4)(seen))), p:input("t", 1)))
    end, {inputs = true}):compile {device = device}
    local d = {a = tide.tensor.zeros(float, 5, 6):normal(1), b = tide.tensor.zeros(float, 5, 3):normal(2),
               t = tide.tensor.zeros(float, 5, 1)}
    local made = both:gradients(d):input "a"
    for i = 1, #made do
      local old <const>, h <const> = d.a[i], device == "cpu" and 1e-2 or 1e-5
      d.a[i] = old + h
      local up <const> = both:evaluate(d).loss
      d.a[i] = old - h
      local down <const> = both:evaluate(d).loss
      d.a[i] = old
      assert(close(made[i], (up - down) / (2 * h), device == "cpu" and 3e-3 or 1e-8), ("%s %d"):format(device, i))
    end
  end
  refused("there is no gradient of an input", function() return m:gradients(data):input "x" end)
  refused('an input cannot be called "rows"', function()
    nn.program("bad", function(p) p:input("rows", 3) end)
  end)

  -- Training lowers the loss under every rule; rows of a batch are rows of its tensors.
  for _, rule in ipairs {"sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "adamw"} do
    local model = net:compile {optimizer = nn[rule] {lr = 0.1, decay = 1e-4}, clip = 10}
    local first = model:evaluate(data).loss
    for _ = 1, 30 do model:step(data) end
    assert(model:evaluate(data).loss < 0.8 * first, rule)
  end
  local r = m:step {x = data.x, y = data.y, first = 3, rows = 2}
  assert(r.count == 2)
  local out = m:forward(data)
  assert(out.logits:rows() == 8 and close(out.share:slice(1, 1):sum(), 1, 1e-5))

  -- What a folded step does is what gradient and update do.
  local folded, plain = net:compile {optimizer = nn.sgd {lr = 0.3}}, net:compile {optimizer = nn.sgd {lr = 0.3}, clip = 1e9}
  for _ = 1, 5 do
    folded:step(data)
    plain:step(data)
  end
  for i = 1, #W do assert(close(folded:parameter "W"[i], plain:parameter "W"[i], 1e-5)) end

  -- Schedules.
  local s = nn.schedule
  assert(s.step(1, 10, 0.5)(10) == 1 and s.step(1, 10, 0.5)(11) == 0.5)
  assert(close(s.cosine(1, 100)(51), 0.5, 1e-9) and close(s.cosine(1, 100)(101), 0, 1e-9))
  assert(s.warmup(10, s.constant(1))(5) == 0.5 and s.inverse(1, 1)(2) == 0.5)

  -- A layer used twice shares its parameters; a layer of one's own is a function.
  local scale = nn.layer("scale", "scale", function(_, x, own) return x * own.param("s", {x:columns()}, {"constant", 2}) end)
  local twice = nn.program("twice", function(p)
    local h = scale(scale(p:input("x", 6)))
    p:loss(h:sqr())
  end)
  assert(#twice:layout().parameters == 1 and twice:layout().parameters[1].name == "scale1.s")
  local squares = 0
  for _, x in pairs(data.x) do squares = squares + x * x end
  assert(close(twice:compile {}:evaluate {x = data.x}.loss, 16 * squares, 1e-5))

  -- Mistakes name the line, the layer and the shapes.
  local err = refused('linear "fc"', function()
    local shared = nn.linear(10, {name = "fc"})
    nn.program("bad", function(p)
      shared(p:input("a", 64))
      shared(p:input("c", 32))
    end)
  end)
  assert(err.code == "T0903" and err.where:find("nets.lua:%d+"), tostring(err))
  assert(err.message:find("c [B x 32], fc.w [64 x 10]: 32 and 64 must be equal", 1, true), err.message)
  refused("have no order", function()
    nn.program("bad", function(p) return p:input("x", 3) < p:input("z", 3) end)
  end)
  refused("cannot be combined with a string", function()
    nn.program("bad", function(p) return p:input("x", 3) + "z" end)
  end)
  refused("the program has no loss", nn.program, "bad", function(p) p:input("x", 3) end)
  refused("a value of program a is used in program b", function()
    local x
    nn.program("a", function(p)
      x = p:input("x", 3)
      p:loss(x * x)
    end)
    nn.program("b", function(p) p:loss(p:input("x", 3) + x) end)
  end)
  refused("layer option `strid` is not known", nn.conv, 8, 3, {strid = 2})
  refused("nn.sgd has no option `momentum`", nn.sgd, {lr = 1, momentum = 0.9})
  refused('input "x" is f32 rows of 6, not f32 rows of 5', m.step, m, batch(4, 5, 3))
  refused('input "x" is a number, not a tensor', m.step, m, {x = 3})
  refused('the batch has no input "y"', m.step, m, {x = data.x}) -- not that of the step before
  refused("a batch is a table of tensors by names of inputs, not a number", m.step, m, 3)
  refused("nn.schedule.cosine(rate, steps, low) of numbers; argument 1 is a table", nn.schedule.cosine, {lr = 1})
  refused("nn.schedule.step(rate, every, factor) of numbers; argument 3 is a nil", nn.schedule.step, 1, 2)
  refused("nn.schedule.constant(rate) of numbers; argument 2 is a number", nn.schedule.constant, 1, 2)
  refused("nn.schedule.warmup(steps, schedule) of a number and a function", nn.schedule.warmup, 2, 0.1)
  refused("`lr` returned a nil for step 1, not a finite number of 0 or more", function()
    m.program:compile {optimizer = nn.sgd {lr = function() end}}:step(batch(4, 6, 3))
  end)
  refused("the program has no parameter `fc1.q`", function() return m:gradients(batch(4, 6, 3))["fc1.q"] end)
  local few <const>, many <const> = batch(4, 6, 3), batch(32, 6, 3)
  refused('input "x" has 4 rows, input "y" has 32', m.step, m, {x = few.x, y = many.y})
  refused('input "x" has 32 rows, input "y" has 4', m.evaluate, m, {x = many.x, y = few.y, first = 3, rows = 2})
  refused("example 1 has label 7, outside 0..2", function()
    data.y[1] = 7
    m:step(data)
  end)
  data.y[1] = 0

  -- What is not finite is named with the operation and the step that made it.
  local function log_of(f)
    return function(o)
      local model = nn.program("log", function(p)
        local z = f(p:input("x", 6):mm(p:param("W", {6, 3}, tide.uniform {low = -1, high = 1})))
        p:loss(nn.xent(nn.linear(3)(z), p:index "y"))
      end):compile(o or {optimizer = nn.sgd {lr = 0.1}})
      local before = model.parameters:copy()
      local err = refused("is not finite", function() model:step(data) end)
      for i = 1, #before do assert(model.parameters[i] == before[i], "a faulty step changed the parameters") end
      return err
    end
  end
  err = log_of(function(x) return x:log() end)()
  assert(err.message:find "^the loss of step 1 is not finite: log made the first, %d+ of 24, from finite numbers", err.message)
  assert(err.where:find "nets.lua:%d+", tostring(err))
  err = log_of(function(x) return (x * 0):sqrt() end) {optimizer = nn.adam {lr = 0.1}}
  assert(err.message:find "^the gradient of step 1 is not finite: %a+ %(backward%) made the first", err.message)
  refused('the loss of step 3 is not finite: mm of layer "fc2" made the first', function()
    local model = nn.sequential {input = {6}, loss = nn.xent(), nn.linear(4), nn.linear(3)}
      :compile {optimizer = nn.sgd {lr = 0.1}}
    for step = 1, 3 do
      for _, name in ipairs(step == 3 and {"fc1.w", "fc2.w"} or {}) do model:parameter(name):fill(1e30) end
      model:step(data)
    end
  end)
  refused('parameter "fc1.w" has 18 of 18, from the update of a step before', function()
    local model = nn.sequential {input = {6}, loss = nn.xent(), nn.linear(3)}:compile {optimizer = nn.sgd {lr = 0.1}}
    model:parameter "fc1.w":fill(0 / 0)
    model:step(data)
  end)
  local whole <const> = data.x[1]
  data.x[1] = 0 / 0
  for _, clip in ipairs {false, 1} do
    refused('input "x" has 1 of 48', function()
      net:compile {optimizer = nn.adam {lr = 0.1}, clip = clip or nil}:step(data)
    end)
    local model = net:compile {optimizer = nn.sgd {lr = 0.1}, clip = clip or nil, nan = "skip"}
    local before = model.parameters:copy()
    assert(model:step(data).skipped == 1)
    for i = 1, #before do assert(model.parameters[i] == before[i]) end
    data.x[1] = whole
    assert(not model:step(data).skipped and model.parameters[1] ~= before[1])
    data.x[1] = 0 / 0
  end
  data.x[1] = whole
  refused('nan is "stop" or "skip", not "warn"', net.compile, net, {nan = "warn"})

  -- Statistics by layer are those of the arrays; the model stays as it is.
  local looked = nn.sequential {input = {6}, loss = nn.xent(), nn.linear(5), nn.batchnorm(), nn.relu(), nn.linear(3)}
    :compile {optimizer = nn.sgd {lr = 0.1}, seed = 5}
  local kept, statistics = looked.parameters:copy(), looked.states:copy()
  local seen = looked:watch(data)
  for i = 1, #kept do assert(looked.parameters[i] == kept[i]) end
  for i = 1, #statistics do assert(looked.states[i] == statistics[i]) end
  assert(#seen == 3 and seen[2].name == "bn1" and close(seen[2].values.std, 1, 1e-3) and close(seen[2].values.mean, 0, 1e-5))
  local made = looked:gradients(data)["fc2.w"]
  local bias = looked:gradients(data)["fc2.b"]
  local most, sum = 0, 0
  for _, part in ipairs {made, bias} do
    for i = 1, #part do most, sum = math.max(most, math.abs(part[i])), sum + part[i] end
  end
  assert(close(seen[3].gradient.max, most / 8, 1e-6) and close(seen[3].gradient.mean, sum / 8 / 18, 1e-6))
  assert(tostring(seen):find("bn1 +values"), tostring(seen))
  assert(seen:fields()["fc1.weights_std"] == seen[1].weights.std)
  local summary = looked:summary()
  assert(summary:find "fc1 +linear +%[B x 5%] +35\n" and summary:find "bn1 +batchnorm +%[B x 5%] +10\n"
    and summary:find "all +63\n", summary)
  print "the nets hold"
end)
LUA
run 0 run nets.lua
says out.txt 'the nets hold'

# One step after the other, whoever does it: two workers get halves of each batch, and end where one does.
cat >same.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local opt = tide.options {rule = {"", default = "sgd"}, clip = {"", type = "number"}, workers = {"", default = 1}}
local net = nn.sequential {input = {28, 28, 1}, loss = nn.xent(), nn.flatten(), nn.linear(20), nn.tanh(), nn.linear(10)}
local job = nn.job {name = "same", program = net, data = tide.data.images(nil, {count = 324, test = 0.5, seed = 2}),
  batch = 162, epochs = 6, clip = opt.clip, optimizer = nn[opt.rule] {lr = opt.rule == "adam" and 0.01 or 0.2, decay = 0.001}}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.workers}
  local run = cluster:start(job)
  for r in run:events "report" do print(("%d %.5f"):format(r.n, r.loss / r.examples)) end
  print(("test %.5f"):format(run:evaluate "test".loss))
  run:wait()
end)
LUA
for rule in "sgd" "momentum --clip 0.5" "adam"; do
    # shellcheck disable=SC2086
    run 0 run same.lua --rule $rule
    grep -E '^[0-9]+ |^test' out.txt >one.txt
    [ "$(wc -l <one.txt)" = 7 ] || fail "$rule: no seven lines"
    for workers in 2 3; do
        # shellcheck disable=SC2086
        run 0 run same.lua --rule $rule --workers $workers
        grep -E '^[0-9]+ |^test' out.txt >many.txt
        paste -d' ' one.txt many.txt | awk '{ d = $2 - $4; if ($1 != $3 || d > 2e-4 || d < -2e-4) exit 1 }' ||
            fail "$rule: $workers workers end elsewhere than one: $(paste -d' ' one.txt many.txt | tr '\n' ';')"
    done
    nothing_left
done

# The example learns, by every net.
# After so many epochs its accuracy is 0.95 and more, however products round; of residual, whose running statistics settle
# late, it is anything before.
for net in "mlp 3" "conv 3" "residual 7"; do
    read -r net epochs <<<"$net"
    run 0 run "$root/examples/mnist.lua" --net $net --count 700 --epochs "$epochs" --batch 16 --nodes 2 --json
    more "$(value test_accuracy)" 0.8 || fail "$net: test accuracy $(value test_accuracy)"
    nothing_left
done

# Running statistics are the mean of the workers': the test loss of an evaluation is that of one model.
cat >states.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local net = nn.sequential {input = {28, 28, 1}, loss = nn.xent(), nn.flatten(), nn.linear(8), nn.batchnorm(), nn.linear(10)}
local job = nn.job {name = "states", program = net, data = tide.data.images(nil, {count = 200, test = 0.2}), batch = 40,
  epochs = 2, optimizer = nn.sgd {lr = 0.1}}
job.evaluate.mean = function(w)
  local kept = w.tables.states:pull({0})
  for i = 1, #kept do assert(kept[i] == w.trainer.model.states[i], "a worker has statistics of its own") end
  return kept[1] ~= 0 and 1 or 0, 1
end
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3}
  local run = cluster:start(job)
  for r in run:events "report" do print(r.n, run:evaluate "mean") end
  run:wait()
end)
LUA
run 0 run states.lua
says out.txt '^2.1.0'
nothing_left

run 1 run "$root/examples/mnist.lua" --data /nonexistent --nodes 1
says err.txt "has no images in MNIST's format"
mkdir broken
printf '\0\0\10\3\0\0\0\2\0\0\0\2\0\0\0\2\1\2\3' >broken/t10k-images-idx3-ubyte
printf '\0\0\10\1\0\0\0\2\1\2' >broken/t10k-labels-idx1-ubyte
run 1 run "$root/examples/mnist.lua" --data broken --nodes 1
says err.txt 'the IDX header promises 8 bytes, there are 3'
nothing_left
finish
