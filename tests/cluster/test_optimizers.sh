#!/usr/bin/env bash
# Update rules against PyTorch (optimizers.py, optimizers.txt), rules of one's own, gradients apart from their update,
# moving averages; and checkpoints, which know whose state they have.
source "$(dirname "$0")/harness.sh"
here=$root/tests/cluster

cat >rules.lua <<LUA
local VALUES = "$here/optimizers.txt"
LUA
cat >>rules.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local ORDER = {"wide", "tall", "bias"}

local function close(a, b, bound) return math.abs(a - b) <= bound * (1 + math.abs(b)) end

local function refused(text, f, ...)
  local ok, err = pcall(f, ...)
  assert(not ok, "nothing was refused: " .. text)
  assert(tostring(err):find(text, 1, true), tostring(err))
  return err
end

local function net()
  return nn.program("three", function(p)
    local normal = tide.normal {std = 0.3}
    local wide, tall, bias = p:param("wide", {4, 6}, normal), p:param("tall", {6, 4}, normal), p:param("bias", {6})
    p:loss((p:input("x", 4):mm(wide) + bias):mm(tall):sqr())
  end)
end

local function batch(device, rows, seed)
  return {x = tide.tensor.zeros("f32", rows, 4):normal(seed):convert(device == "reference" and "f64" or "f32")}
end

---Ten steps with the gradients of optimizers.py; sums of the parameters.
local function sums_of(rule, device)
  local m = net():compile {optimizer = rule, device = device}
  local data = batch(device, 1, 1)
  for k, name in ipairs(ORDER) do
    local w = m:parameter(name)
    for i = 1, #w do w[i] = math.sin(k + i) end
  end
  for t = 1, 10 do
    local g = m:gradients(data)
    for k, name in ipairs(ORDER) do
      local w, to = m:parameter(name), g[name]
      for i = 1, #w do to[i] = math.cos(0.7 * t * (k + i)) + 0.3 * w[i] end
    end
    g.count = 1
    m:update(g)
  end
  local sums = {}
  for _, name in ipairs(ORDER) do
    local w, s = m:parameter(name), {0, 0, 0}
    for i = 1, #w do s[1], s[2], s[3] = s[1] + w[i], s[2] + w[i] * w[i], s[3] + i * w[i] end
    sums[name] = s
  end
  return sums
end

local function check_values()
  local seen = {}
  for line in io.lines(VALUES) do
    local rule, name, a, b, c = line:match "^(%S+) (%S+) (%S+) (%S+) (%S+)$"
    local o = {lr = rule ~= "adafactor" and 0.02 or nil, decay = 0.1}
    if rule == "muon" then o.only = function() return true end end
    for device, bound in pairs {cpu = 3e-6, reference = 1e-10} do
      local key = rule .. device
      seen[key] = seen[key] or sums_of(nn[rule](o), device)
      for i, wanted in ipairs {tonumber(a), tonumber(b), tonumber(c)} do
        local got = seen[key][name][i]
        assert(close(got, wanted, bound), ("%s %s on %s, sum %d: %.9g, not %.9g"):format(rule, name, device, i, got,
          wanted))
      end
    end
  end
end

local function adamw_of_ones_own(more)
  local o = {name = "own", lr = 0.02, decay = 0.1, state = {"m", "v"},
    numbers = function(t) return {c1 = 1 / (1 - 0.9 ^ t), c2 = 1 / (1 - 0.999 ^ t)} end,
    step = function(s)
      local m, v = s.m * 0.9 + s.g * 0.1, s.v * 0.999 + s.g:sqr() * 0.001
      return {w = s.w - (m * s.c1 / ((v * s.c2):sqrt() + 1e-8) + s.w * s.decay) * s.rate, m = m, v = v}
    end}
  for k, v in pairs(more or {}) do o[k] = v end
  return nn.optimizer(o)
end

local function check_own()
  local built_in = sums_of(nn.adamw {lr = 0.02, decay = 0.1})
  for _, per in ipairs {"element", "parameter"} do
    local own = sums_of(adamw_of_ones_own {per = per})
    for name, s in pairs(built_in) do
      for i = 1, 3 do assert(close(own[name][i], s[i], 2e-6), per .. name) end
    end
  end
  -- More elements than a piece of a pass has.
  local big = nn.program("big", function(p)
    local w = p:param("w", {300, 300}, tide.normal {std = 1})
    p:loss(p:input("x", 300):mm(w):sqr())
  end)
  local x = tide.tensor.zeros("f32", 2, 300):normal(1)
  local a, b = big:compile {optimizer = adamw_of_ones_own()}, big:compile {optimizer = nn.adamw {lr = 0.02, decay = 0.1}}
  for _ = 1, 3 do
    a:step {x = x}
    b:step {x = x}
  end
  local wa, wb = a:parameter "w", b:parameter "w"
  for i = 1, #wa do assert(close(wa[i], wb[i], 1e-5), i) end
  -- Each parameter its own rule.
  local each = sums_of(nn.each(function(p) return p.rows > 1 and nn.lion {lr = 0.02, decay = 0.1} or nn.sgd {lr = 0.02} end))
  assert(close(each.wide[1], sums_of(nn.lion {lr = 0.02, decay = 0.1}).wide[1], 1e-9))
  assert(close(each.bias[1], sums_of(nn.sgd {lr = 0.02}).bias[1], 1e-9))
end

-- What else the rules and their declarations take.
local function check_options()
  local built_in = sums_of(nn.adamw {lr = 0.003, beta2 = 0.95, decay = 0.1})
  local muon = sums_of(nn.muon {lr = 0.02, rest_lr = 0.003, decay = 0.1}) -- the last matrix and vectors are `rest`
  for _, name in ipairs {"tall", "bias"} do
    for i = 1, 3 do assert(close(muon[name][i], built_in[name][i], 1e-9), name) end
  end
  assert(not close(muon.wide[1], built_in.wide[1], 1e-3))
  local given = sums_of(nn.muon {lr = 0.02, decay = 0.1, rest = nn.lion {lr = 0.001}})
  assert(close(given.bias[1], sums_of(nn.lion {lr = 0.001}).bias[1], 1e-9))
  local usual = sums_of(nn.adafactor {lr = 0.02})
  for option, number in pairs {eps = 10, clip = 0.1, power = -0.5} do
    assert(not close(sums_of(nn.adafactor {lr = 0.02, [option] = number}).wide[1], usual.wide[1], 1e-4), option)
  end
  -- Matrices alone; states may have any name that s has not.
  local apart = sums_of(nn.optimizer {name = "apart", lr = 0.02, decay = 0.1, state = {"scale"}, step = function(s)
    assert(s.matrix or s.decay == 0)
    return {w = s.matrix and s.w - s.g * s.rate or s.w, scale = s.scale + 1}
  end})
  local plain = sums_of(nn.sgd {lr = 0.02})
  assert(close(apart.wide[1], plain.wide[1], 1e-6))
  local still = 0
  for i = 1, 6 do still = still + math.sin(3 + i) end
  assert(close(apart.bias[1], still, 1e-6))
end

-- A batch that changes scales the rates of normalised rules as Adam's.
for rule, normalised in pairs {adamscale = true, adascale = false} do
  local job = nn.job {name = rule, program = net(), data = 10, epochs = 1, batch = {start = 2, max = 4},
                      optimizer = adamw_of_ones_own {normalised = normalised}}
  local adaptation <const> = require("tide.extensions").of(job, "adaptation")
  assert(adaptation.rule == rule, adaptation.rule)
end

local function check_refusals()
  local function own(o)
    return function()
      local given = {name = "bad", lr = 1, step = function(s) return {w = s.w - s.g} end}
      for k, v in pairs(o) do given[k] = v end
      net():compile {optimizer = nn.optimizer(given)}:step(batch("cpu", 1, 1))
    end
  end
  local err = refused("did you mean `state`", own {states = {"m"}})
  assert(err.code == "T0903", tostring(err))
  refused("requires name", own {name = ""})
  refused("requires lr", own {lr = "fast"})
  refused("state 1 needs a name, which is not w, g, t or rate", own {state = {"g"}})
  refused('state `r` is per "element"; others need per = "parameter", not "row"', own {state = {{"r", per = "row"}}})
  refused("step returns `m`, which is no state of it", own {step = function(s) return {w = s.w, m = s.w} end})
  refused("step must return `m`, a value; it is a nil", own {state = {"m"}})
  refused("step returns `w` of shape [B x 1 x 24], which is [B x 24]",
    own {per = "parameter", step = function(s) return {w = s.w:reshape(1, s.rows * s.columns)} end})
  err = refused("have no order", own {step = function(s) return s.w < s.g and {} end})
  assert(err.where:find "rules.lua:%d+", tostring(err))
  refused("step returns a table", own {step = function(s) return s.w end})
  refused("cannot be called `decay`", own {state = {"decay"}})
  refused("cannot be called `w`", own {numbers = function() return {w = 1} end})
  refused("numbers returns `c` as a string", own {numbers = function() return {c = "1"} end})
  refused("nn.lion has no option `beta`", nn.lion, {lr = 1, beta = 0.9})
  refused("nn.lion requires lr", nn.lion, {})
  refused("nn.each requires a function", nn.each, nn.sgd {lr = 1})
  refused("returns a number for parameter `wide`", function() net():compile {optimizer = nn.each(function() return 1 end)} end)
  refused("`lr` returned -1.0 for step 1, not a finite number of 0 or more",
    function() net():compile {optimizer = nn.sgd {lr = function() return -1.0 end}}:step(batch("cpu", 1, 1)) end)
  for _, clip in ipairs {0, -1, 0 / 0, "1"} do
    refused(("clip is %s, not a number above 0"):format(clip), function() net():compile {clip = clip} end)
  end
  refused("average is 2, not a number between 0 and 1", function() net():compile {average = 2} end)
  refused("update requires an optimizer", function()
    local m = net():compile {}
    m:update(m:gradients(batch("cpu", 1, 1)))
  end)
end

local function check_gradients()
  local function model(o)
    local m = net():compile {optimizer = nn.adam {lr = 0.01}, clip = 0.5, average = o and o.average}
    for k, name in ipairs(ORDER) do
      local w = m:parameter(name)
      for i = 1, #w do w[i] = math.sin(k + i) end
    end
    return m
  end
  local data = batch("cpu", 8, 3)
  local whole, parts = model(), model()
  for _ = 1, 3 do
    whole:step(data)
    -- Parts of unlike sizes: sums and counts add up, so the step is that of the whole batch.
    local g = parts:gradients {x = data.x, first = 1, rows = 5}
    g:add(parts:gradients {x = data.x, first = 6, rows = 3})
    assert(g.count == 8 and g:norm() > 0)
    parts:update(g)
  end
  local a, b = whole:parameter "wide", parts:parameter "wide"
  for i = 1, #a do assert(close(a[i], b[i], 1e-6), i) end
  local g = parts:gradients(data)
  local norm = g:norm()
  assert(close(g:scale(0.25):norm(), norm / 4, 1e-6))
  refused("add requires the result of gradients(batch)", g.add, g, {})
  -- The average follows the parameters, and evaluations use it.
  local m, e = net():compile {optimizer = nn.momentum {lr = 0.01}, average = 0.75}, {}
  local w = m:parameter "wide"
  local averaged = m:averaged "wide"
  for i = 1, #w do assert(averaged[i] == w[i]) end -- it begins as they do
  for i = 1, #w do e[i] = w[i] end
  for t = 1, 4 do
    m:step(batch("cpu", 4, t))
    averaged = m:averaged "wide"
    for i = 1, #w do
      e[i] = 0.75 * e[i] + 0.25 * w[i]
      assert(close(averaged[i], e[i], 1e-6), i)
    end
  end
  local with_average = m:evaluate(data).loss
  for _, name in ipairs(ORDER) do m:parameter(name):put(1, m:averaged(name)) end
  m:save "averages.safetensors"
  local other = net():compile {}
  other:load "averages.safetensors"
  assert(close(other:evaluate(data).loss, with_average, 1e-6) and with_average > 0)
end

tide.main(function()
  check_values()
  check_own()
  check_options()
  check_refusals()
  check_gradients()
  print "the rules hold"
end)
LUA
run 0 run rules.lua
says out.txt 'the rules hold'

# Jobs with them: several workers train as one, a resumed run continues exactly, and states of another rule are refused.
cat >job.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local opt = tide.options {rule = {"", default = "own"}, stop = {"at this report", default = 0},
  version = {"of the own rule", default = 1}, nodes = {"", default = 2}, every = {"local steps", default = 0}}
local rules = {adafactor = nn.adafactor {}, adam = nn.adam {lr = 0.01}, own = nn.optimizer {
  name = "heavy", version = opt.version, lr = 0.02, state = {"m", "v"},
  step = function(s)
    local m, v = s.m * 0.9 + s.g * 0.1, s.v * 0.99 + s.g:sqr() * 0.01
    return {w = s.w - m / (v:sqrt() + 1e-4) * s.rate, m = m, v = v}
  end}}
local job = nn.job {
  name = "heavy", batch = 32, epochs = 4, optimizer = rules[opt.rule], clip = 1, validate = "test",
  average = opt.every == 0 and 0.9 or nil,
  exchange = opt.every > 0 and {every = opt.every, outer = nn.nesterov {lr = 0.7, mu = 0.5}} or nil,
  program = nn.sequential {input = {28, 28, 1}, loss = nn.xent(), nn.flatten(), nn.linear(12), nn.tanh(), nn.linear(10)},
  data = tide.data.images(nil, {count = 300, test = 0.3, seed = 2}), checkpoint = {dir = "kept-" .. opt.rule},
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run <close> = cluster:start(job)
  for r in run:events "report" do
    print(("%d loss %.9f valid %.9f"):format(r.n, r.loss / r.examples, r.valid_loss / r.valid_examples))
    if r.n == opt.stop then run:stop() end
  end
end)
LUA
for rule in own adafactor; do
    run 0 run job.lua --rule $rule
    cp out.txt whole.txt
    [ "$(grep -c valid whole.txt)" = 4 ] || fail "$rule: no four reports"
    awk '{ first = NR == 1 ? $3 : first; last = $3 } END { exit !(last < 0.8 * first) }' whole.txt || fail "$rule: learns nothing"
    run 0 run job.lua --rule $rule --nodes 1
    paste -d' ' whole.txt out.txt | awk '{ d = $3 - $8; e = $5 - $10; if (d * d > 1e-8 || e * e > 1e-8) exit 1 }' ||
        fail "$rule: two workers end elsewhere than one: $(paste -d' ' whole.txt out.txt | tr '\n' ';')"
    rm -rf kept-$rule
    run 0 run job.lua --rule $rule --stop 2
    cp out.txt parts.txt
    run 0 run --resume kept-$rule job.lua --rule $rule
    cat out.txt >>parts.txt
    diff whole.txt parts.txt || fail "$rule: what was resumed is not what was not stopped"
done
run 1 run --resume kept-own job.lua --version 2
says err.txt 'error.T0705.: the checkpoint has the state of optimizer `heavy 1 \(m, v\), averaged`, the job trains with `heavy 2'
run 1 run --resume kept-own job.lua --rule adam
says err.txt 'the job trains with `adam, averaged`'

# With local steps each worker's own memory is kept.
rm -rf kept-adam
run 0 run job.lua --rule adam --every 2
cp out.txt whole.txt
rm -rf kept-adam
run 0 run job.lua --rule adam --every 2 --stop 2
cp out.txt parts.txt
run 0 run --resume kept-adam job.lua --rule adam --every 2
cat out.txt >>parts.txt
diff whole.txt parts.txt || fail "local steps: what was resumed is not what was not stopped"
run 1 run --resume kept-adam job.lua --rule adam
says err.txt 'has the state of optimizer `adam, outer nesterov`, the job trains with `adam, averaged`'
nothing_left
finish
