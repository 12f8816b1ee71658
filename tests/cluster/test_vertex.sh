#!/bin/bash
# Programs of vertices from Lua: models on forests, errors with their places, and training by one worker and by several,
# which must agree; a worker that dies; the examples.
. "$(dirname "$0")/harness.sh"

value() { sed -n "s/.*\"$1\": *\\([-0-9.e]*\\).*/\\1/p" out.txt; }
more() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > b) }'; }

printf '1 9\n4\n0 0 0 3 0 1 2\n1 2 3 4\n-1 -1 -1 0\n' >three.txt
cat >model.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"

local function refused(text, f, ...)
  local ok, err = pcall(f, ...)
  assert(not ok, "nothing was refused: " .. text)
  assert(tostring(err):find(text, 1, true), tostring(err))
end

local H <const> = 16

local function tree(name, break_it)
  return nn.vertex(name or "tree", function(p, v)
    local h = v:state("h", H)
    local x = v:embed(p:table("E", 50, H), v:index "word")
    local h1 = (nn.linear(H, {name = "own"})(x) + nn.linear(H, {name = "below", bias = false})(v:sum(h))):tanh()
    v:publish {h = h1}
    local z = nn.linear(5, {name = "out"})(h1)
    p:output("logits", z)
    p:loss(nn.xent(z, v:index "label"))
    if break_it then break_it(p, v, h, h1) end
  end)
end

local forest <const> = tide.data.forest {generate = "random_trees", samples = 40, test = 8, vocabulary = 50, max = 5}

tide.main(function()
  local program <const> = tree()
  assert(program:id() == tree():id())
  local train <const>, test <const> = forest:whole "train", forest:whole "test"
  assert(train:rows() == 40 and test:rows() == 8 and forest.vocabulary == 50 and forest.classes == 5)
  assert(train:slice(40, 1):rows() == 1 and train:slice(41, 0):rows() == 0)
  for _, bad in ipairs {{0, 1}, {40, 2}, {1, -1}, {1.5, 1}} do -- the samples behind a part are another's
    assert(not pcall(train.slice, train, bad[1], bad[2]))
  end
  assert(not pcall(train.batches, train, 0)) -- it would never end

  -- Outputs come in the order of samples and their vertices, whatever else is in the batch.
  local m = program:compile {optimizer = nn.sgd {lr = 0.1}, tables = {E = {"sgd", lr = 0.1}}}
  local all, at = m:forward(train).logits, 0
  for one in train:batches(7) do
    local z = m:forward(one).logits
    for i = 1, #z do assert(math.abs(z[i] - all[at + i]) < 1e-6) end
    at = at + #z
  end
  assert(at == #all)

  -- One vertex at a time gives the same step.
  local other = program:compile {optimizer = nn.sgd {lr = 0.1}, tables = {E = {"sgd", lr = 0.1}}}
  other.serial = true
  for _ = 1, 3 do
    local a, b = m:step(train), other:step(train)
    assert(math.abs(a.loss - b.loss) < 1e-4 * a.loss and a.vertices == b.vertices and a.levels < b.levels)
  end
  local e, f = m:table "E", other:table "E"
  for i = 1, #e do assert(math.abs(e[i] - f[i]) < 1e-5) end

  -- The gradient is that of differences.
  local g, w = m:gradients_of(train)["below.w"], m:parameter "below.w"
  for i = 1, #w, 37 do
    local old = w[i]
    w[i] = old + 0.01
    local up = m:evaluate(train).loss
    w[i] = old - 0.01
    local down = m:evaluate(train).loss
    w[i] = old
    assert(math.abs((up - down) / 0.02 - g[i]) < 2e-3 * (1 + math.abs(g[i])))
  end
  assert(m:evaluate(test:roots()).count == 8)
  assert(m:explain():find("down: level by level from the top", 1, true))

  -- A batch in pieces does what it does whole; what folds into products when it is whole, too.
  for _, rule in ipairs {"sgd", "adagrad"} do
    local o <const> = {optimizer = nn[rule] {lr = 0.1}, tables = {E = {rule, lr = 0.1}}}
    local whole <const> = program:compile(o)
    o.memory = "30KiB"
    local cut <const> = program:compile(o)
    local pieces = 0
    for part in train:batches(25, {shuffle = 3}) do
      local a, b = cut:step(part), whole:step(part)
      assert(math.abs(a.loss - b.loss) < 1e-5 * b.loss and a.count == b.count and a.vertices == b.vertices)
      pieces = pieces + (a.pieces or 1)
    end
    assert(pieces > 3)
    local a, b = cut:table "E", whole:table "E"
    for i = 1, #a do assert(math.abs(a[i] - b[i]) < 1e-5) end
    a, b = cut:forward(train).logits, whole:forward(train).logits
    assert(#a == #b)
    for i = 1, #a do assert(math.abs(a[i] - b[i]) < 1e-5) end
    a, b = cut:evaluate(train), whole:evaluate(train)
    assert(a.count == b.count and a.correct == b.correct and math.abs(a.loss - b.loss) < 1e-4)
  end
  do -- clip bounds the norm over parameters and rows; gradients of parts, rows too, add up to those of all
    local o <const> = {optimizer = nn.sgd {lr = 1}, tables = {E = {"sgd", lr = 1}}, clip = 0.01}
    local step <const>, parts <const> = program:compile(o), program:compile(o)
    local before <const>, rows_before <const> = step.parameters:copy(), step:table "E":copy()
    step:step(train)
    local moved, of_rows = 0, 0
    for i = 1, #before do moved = moved + (step.parameters[i] - before[i]) ^ 2 end
    local E <const> = step:table "E"
    for i = 1, #E do of_rows = of_rows + (E[i] - rows_before[i]) ^ 2 end
    assert(of_rows > 0 and math.abs((moved + of_rows) ^ 0.5 - 0.01) < 1e-5, (moved + of_rows) ^ 0.5)
    local g = nil
    for part in train:batches(7) do
      local each <const> = parts:gradients(part)
      g = g and g:add(each) or each
    end
    parts:update(g)
    local F <const> = parts:table "E"
    for i = 1, #E do assert(math.abs(E[i] - F[i]) < 1e-6) end
    for i = 1, #before do assert(math.abs(step.parameters[i] - parts.parameters[i]) < 1e-6) end
  end
  local tiny <const> = program:compile {memory = "2KiB"}
  refused("15 vertices, does not fit: it needs 2112 bytes or more, and there are 2048", tiny.evaluate, tiny, train)
  refused("`12 cubits` is not a size", program.compile, program, {memory = "12 cubits"})

  -- Mistakes.
  refused("v:sum makes one a vertex of it", tree, "t", function(p, _, h) p:output("h", h) end)
  refused("v:sum makes one a vertex of it", tree, "t", function(p, _, h) p:loss(h) end)
  refused("publish is called once", tree, "t", function(_, v, _, h1) v:publish {h = h1} end)
  refused('state "g" is not published', nn.vertex, "t", function(_, v)
    v:publish {h = v:sum(v:state("h", 4)) + v:sum(v:state("g", 4))}
  end)
  refused("publishes nothing", nn.vertex, "t", function(_, v) v:state("h", 4) end)
  refused("vertices of this program have 2 named children", nn.vertex, "t",
    function(_, v) v:child(3, v:state("h", 4)) end, {children = 2})
  do -- A child that a program reads nowhere.
    local three <const> = tide.data.forest("three.txt", {format = "lists"}):whole "train"
    local function loss(o, sums)
      local model <const> = nn.vertex("n", function(p, v)
        local h <const> = v:state("h", 4)
        local x = v:embed(p:table("E", 9, 4), v:index "word") + v:child(1, h) + v:child(2, h)
        if sums then x = x + v:sum(h) end
        v:publish {h = x:tanh()}
        p:loss(nn.xent(nn.linear(3)(x), v:index "label"))
      end, o):compile {optimizer = nn.sgd {lr = 0}, tables = {E = {"sgd", lr = 0}}}
      return model:step(three).loss
    end
    local why <const> = "sample 1: vertex 4 has 3 children, and the program reads 2 of a vertex"
    refused(why, loss, {children = 2})
    refused(why, loss, {children = {"left", "right"}})
    refused(why, loss)
    refused(why, loss, {children = 2}, true)
    assert(loss(nil, true) > 0 and loss {children = 3} > 0)
    refused("`children` of nn.vertex is 0, not a positive integer", loss, {children = 0})
  end
  refused("layer norm is possible", tree, "t", function(_, _, _, h1) nn.batchnorm()(h1) end)
  refused("model.lua:", tree, "t", function(p, _, h) p:output("h", h) end)
  refused('table "E" needs an update rule', program.compile, program, {tables = {}})
  refused('table "E" needs an update rule', program.compile, program, {tables = {E = {"lamb", lr = 1}}})
  refused('table "E": rule adam has no option `mu`', program.compile, program, {tables = {E = {"adam", lr = 1, mu = 1}}})
  local averaged <const> = {average = 0.9, optimizer = nn.sgd {lr = 1}, tables = {E = {"sgd", lr = 1}}}
  refused('`average` covers parameters, not the rows of a table', program.compile, program, averaged)
  averaged.name, averaged.program, averaged.data, averaged.batch, averaged.epochs = "averaged", program, train, 1, 1
  refused('nn.job `averaged`: `average` covers parameters, not the rows of a table', nn.job, averaged)
  do -- rules with memory count the updates of each row
    local adam <const> = program:compile {optimizer = nn.sgd {lr = 0.1}, tables = {E = {"adam", lr = 0.01, beta1 = 0.8}}}
    local heavy <const> = program:compile {optimizer = nn.sgd {lr = 0.1}, tables = {E = {"momentum", lr = 0.01}}}
    local rows <const>, v <const>, seen <const> = {}, {}, {adam:table "E":copy(), heavy:table "E":copy()}
    for part in train:batches(9) do
      for k, model in ipairs {adam, heavy} do
        local g <const> = model:gradients(part)
        local ids <const>, values <const> = g.rows[1].ids, g.rows[1].values
        for i = 1, #ids do
          local id <const>, w <const> = ids[i], values:columns()
          rows[id] = rows[id] or {t = 0, m = {}, v = {}}
          local row <const> = rows[id]
          row.t = row.t + (k == 1 and 1 or 0)
          for c = 1, w do
            local d <const>, at <const> = values[(i - 1) * w + c] / g.count, id * w + c
            if k == 1 then
              row.m[c], row.v[c] = 0.8 * (row.m[c] or 0) + 0.2 * d, 0.999 * (row.v[c] or 0) + 0.001 * d * d
              local root <const> = math.sqrt(row.v[c] / (1 - 0.999 ^ row.t)) + 1e-8
              seen[1][at] = seen[1][at] - 0.01 * row.m[c] / (1 - 0.8 ^ row.t) / root
            else
              v[at] = 0.9 * (v[at] or 0) + d
              seen[2][at] = seen[2][at] - 0.01 * v[at]
            end
          end
        end
        model:update(g)
      end
    end
    for k, model in ipairs {adam, heavy} do
      local E <const> = model:table "E"
      for i = 1, #E do assert(math.abs(E[i] - seen[k][i]) < 2e-5, ("%d: %g, not %g"):format(k, E[i], seen[k][i])) end
    end
  end
  refused('the program has no table "F"', program.compile, program, {tables = {E = {"sgd", lr = 1}, F = {"sgd", lr = 1}}})
  refused("it requires parts of a tide.data.forest", m.step, m, {x = 1})
  local wide = tide.data.forest {generate = "random_trees", samples = 2, vocabulary = 500, max = 5}
  refused("its table has 50 rows", m.step, m, wide:whole "train")
  local net = nn.sequential {input = {3}, loss = nn.xent(), nn.linear(2)}:compile {optimizer = nn.sgd {lr = 1}}
  refused("requires tensors, not a forest", net.step, net, train)
  refused("has no option `vocab`", tide.data.forest, {generate = "chains", vocab = 5})
  print "all is as it should be"
end)
LUA
run 0 run model.lua
says out.txt '^all is as it should be$'

# Files: what is wrong is named with its place.
mkdir trees
printf '(2 (1 a) (0 b))\n(2 (1 a) (7 b))\n' >trees/train.txt
cat >files.lua <<'LUA'
local tide = require "tide"
local data = tide.data.forest("trees", {format = "sexpr"})
tide.main(function() print(data.note, data.vocabulary, data:whole("train"):vertices()) end)
LUA
run 1 run files.lua
says err.txt 'error\[T0402\]: expected a label and a blank'
says err.txt 'trees/train.txt:2:11'
printf '(2 (1 a) (0 b))\n' >trees/train.txt
printf '(2 (1 a) (0 unknown))\n' >trees/test.txt
run 0 run files.lua
says out.txt '1 samples to train on, 1 held out.*3.*3'

# Word vectors: rows of the words that a file has begin as it says, the others as ever.
cat >vectors.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local opt = tide.options {file = {"vectors", default = "vectors.txt"}}
local data = tide.data.forest("trees", {vectors = opt.file})
local function program(columns, vectors)
  return nn.vertex("tree", function(p, v)
    local x = v:embed(p:table("E", data.vocabulary, columns, vectors), v:index "word")
    v:publish {h = x + v:sum(v:state("h", columns))}
    p:loss(nn.xent(nn.linear(5)(x), v:index "label"))
  end)
end
local job = nn.job {name = "vectors", program = program(data.vectors.columns, data.vectors), data = data, batch = 1,
  epochs = 1, optimizer = nn.sgd {lr = 0}, tables = {E = {"adagrad", lr = 0}}}
tide.main(function()
  print(data.note)
  local with <const>, without <const> = program(3, data.vectors):compile():table "E", program(3):compile():table "E"
  assert(with:rows() == 3 and with[1] == 0.5 and with[2] == -2 and with[3] == 1000) -- a
  for i = 4, 9 do assert(with[i] == without[i] and math.abs(with[i]) <= 0.1) end     -- b, and all others
  local ok, err = pcall(program, 4, data.vectors)
  assert(not ok and tostring(err):find("the vectors of vectors.txt have 3 columns", 1, true), err)
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  for _ in run:events "report" do end
  local rows <const> = run.tables.e:pull {0, 1}
  assert(rows[1] == 0.5 and rows[2] == -2 and rows[3] == 1000 and math.abs(rows[4]) <= 0.1)
  run:wait()
  print "vectors are as they should be"
end)
LUA
printf '2 3\nthe 1 2 3\n. . 1 1 1\na 0.5 -2 1e3\r\na 7 7 7\n' >vectors.txt
run 0 run vectors.lua
says out.txt 'vectors of 1 of 2 words'
says out.txt '^vectors are as they should be$'
gzip -k vectors.txt && mv vectors.txt plain.txt && mv vectors.txt.gz vectors.txt
run 0 run vectors.lua
mv plain.txt vectors.txt
printf 'the 1 2 3\na 0.5 x 1\n' >bad.txt
run 1 run vectors.lua --file bad.txt
says err.txt "error\[T0402\]: expected a number that a 32-bit float holds, found 'x'"
says err.txt 'bad.txt:2:7'
printf 'the 1 2 3\na 0.5 1\n' >bad.txt
run 1 run vectors.lua --file bad.txt
says err.txt 'expected a word and 3 numbers, found 3 fields'
says err.txt 'bad.txt:2'
run 1 run vectors.lua --file nothing.txt
says err.txt 'nothing.txt'

# Kinds: a file says which one a vertex is of; each has its function.
cat >kinds.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local opt = tide.options {file = {"graphs", default = "shift.txt"}}
local function refused(text, f, ...)
  local ok, err = pcall(f, ...)
  assert(not ok and tostring(err):find(text, 1, true), tostring(err))
end
local H <const> = 6
local function parser(kinds) return nn.vertices("parser", kinds, {children = {"left", "right"}}) end
local function word(p, v) return v:embed(p:table("E", 9, H), v:index "word") end
local out <const> = nn.linear(3, {name = "out"})
local function shift(p, v)
  local h1 = nn.linear(H, {name = "shift"})(word(p, v)):tanh()
  v:publish {h = h1} -- no other's state is asked for
  p:output("h", h1)
end
local function reduce(p, v)
  local h = v:state("h", H)
  local h1 = nn.linear(H, {name = "reduce"})(v:child("left", h):concat(v:child("right", h))):tanh()
  v:publish {h = h1}
  local z = out(h1)
  p:output("logits", z)
  p:loss(nn.xent(z, v:index "label"))
end
local function join(p, v)
  local h1 = nn.linear(H, {name = "join"})(v:sum(v:state("h", H))):tanh()
  v:publish {h = h1}
  p:output("h", h1)
  p:loss(nn.xent(out(h1), v:index "label"))
end
tide.main(function()
  local part <const> = tide.data.forest(opt.file, {format = "lists"}):whole "train"
  local program <const> = parser {shift = shift, reduce = reduce, join = join}
  assert(program:id() == parser({join = join, reduce = reduce, shift = shift}):id())
  local rules <const> = {optimizer = nn.sgd {lr = 0.2}, tables = {E = {"sgd", lr = 0.2}}}
  local m, other = program:compile(rules), program:compile(rules)
  other.serial = true
  local first, r
  for _ = 1, 30 do
    r = m:step(part)
    local s = other:step(part)
    assert(math.abs(r.loss - s.loss) < 1e-4 and r.count == s.count)
    first = first or r.loss
  end
  assert(r.count == 3 and r.vertices == 9 and r.loss < first / 2) -- what shift has for a label does not count
  local z = m:forward(part)
  assert(z.logits:rows() == 3 and z.h:rows() == 6) -- of reduce; of shift and join
  assert(m:explain():find("of reduce", 1, true))
  refused("child \"above\": this program's children have the names left, right", parser, {
    a = function(_, v) v:child("above", v:state("h", H)) end})
  refused('kind "shift" publish nothing', parser, {shift = function() end})
  refused('kind "a" does not publish "g"', parser, {a = shift,
    b = function(p, v) local s = v:sum(v:state("g", H)) v:publish {g = s, h = s} p:loss(s) end})
  refused("kinds.lua:", parser, {a = shift, b = function(p, v) v:publish {h = word(p, v):slice(1, 2)} end})
  refused('is of kind "join"; the program has "reduce", "shift"', m.step, parser({shift = shift, reduce = reduce})
    :compile(rules), part)
  refused("several kinds do not grow", m.grow, m)
  print "kinds are as they should be"
end)
LUA
printf '2 9 shift reduce join\n5\n0 0 2 0 1 0 2 2 3\n0 1 -1 5 -1\n2 -1 1 2 0\n0 0 1 0 1\n4\n0 0 2 0 1 2 2 1\n3 4 -1 -1\n-1 -1 -1 2\n0 0 1 2\n' >shift.txt
run 0 run kinds.lua
says out.txt '^kinds are as they should be$'
sed '11s/1 2/1 3/' shift.txt >bad.txt
run 1 run kinds.lua --file bad.txt
says err.txt 'error\[T0402\]: expected a kind, 0 .. 2'
says err.txt 'bad.txt:11:7'

# Several workers do what one does: dense parameters through the exchange, rows of words in a table.
cat >agree.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local opt = tide.options {nodes = {"nodes", default = 1}, comm = {"policy", default = "comm/hybrid"},
  memory = {"of a batch", type = "string"}, rule = {"of rows", default = "adagrad"}, clip = {"", type = "number"},
  nan = {"", default = "stop"}, dense = {"optimizer", default = "sgd"}, consistency = {"of rows", default = "bsp"}}
local H <const> = 16
local data = tide.data.forest {generate = "random_trees", samples = 120, test = 20, vocabulary = 60, max = 9, seed = 5}
local program = nn.vertex("tree", function(p, v)
  local h = v:state("h", H)
  local x = v:embed(p:table("E", 60, H), v:index "word")
  local h1 = (nn.linear(H, {name = "own"})(x) + nn.linear(H, {name = "below", bias = false})(v:sum(h))):tanh()
  v:publish {h = h1}
  p:loss(nn.xent(nn.linear(5, {name = "out"})(h1), v:index "label"))
end)
local job = nn.job {name = "agree", program = program, data = data, batch = 12, epochs = 2, comm = opt.comm, memory = opt.memory,
  optimizer = nn[opt.dense] {lr = opt.dense == "adam" and 0.01 or 0.3}, clip = opt.clip, nan = opt.nan,
  tables = {E = {opt.rule, lr = opt.rule == "adam" and 0.01 or 0.05, consistency = opt.consistency}}}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(job)
  for r in run:events "report" do
    assert((r.resyncs or 0) == 0)
    print(("epoch %d loss %.5f of %d, roots %.3f"):format(r.n, r.loss / r.examples, r.examples,
      run:evaluate("test_roots").correct))
  end
  run:wait()
end)
LUA
run 0 run agree.lua
cp out.txt one.txt
for nodes in 2 4; do
    run 0 run agree.lua --nodes $nodes
    diff one.txt out.txt >&2 || fail "$nodes workers do not what one does"
done
for policy in comm/always-ring comm/always-sfb; do
    run 0 run agree.lua --nodes 2 --comm $policy
    diff one.txt out.txt >&2 || fail "$policy does not what one worker does"
done

cp one.txt adagrad.txt
run 0 run agree.lua --rule adam
cp out.txt one.txt
cmp -s one.txt adagrad.txt && fail "adam does what adagrad does"
run 0 run agree.lua --rule adam --nodes 2
diff one.txt out.txt >&2 || fail "adam: two workers do not what one does"
cp adagrad.txt one.txt
run 0 run agree.lua --nodes 2 --comm comm/always-sfb --memory 16KiB
diff one.txt out.txt >&2 || fail "in pieces two workers do not what one does"

# Clip bounds the norm over parameters and rows: the rows that several workers have gradients of count once.
for rules in "--rule sgd" "--rule adam --dense adam"; do
    run 0 run agree.lua $rules --clip 0.2
    cp out.txt one.txt
    run 0 run agree.lua $rules
    cmp -s one.txt out.txt && fail "$rules: nothing was clipped"
    for nodes in 2 3; do
        run 0 run agree.lua $rules --clip 0.2 --nodes $nodes
        near one.txt out.txt 3e-5 "$rules, clipped: $nodes workers do not what one does"
    done
done
run 0 run agree.lua --rule sgd --clip 0.2 --nodes 2 --memory 16KiB --nan skip
cp out.txt two.txt
run 0 run agree.lua --rule sgd --clip 0.2
near out.txt two.txt 3e-5 "in pieces, clipped: two workers do not what one does"
# The same against a computation of its own.
cat >clipped.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local opt = tide.options {nodes = {"", default = 1}, epochs = {"", default = 3}, lr = {"", default = 0.5},
  to = {"", default = "end.safetensors"}}
local data = tide.data.forest("words.txt", {format = "parents"})
local program = nn.vertex("words", function(p, v)
  local x = v:embed(p:table("E", 7, 4), v:index "word")
  v:publish {h = x + v:sum(v:state("h", 4))}
  p:loss(nn.xent(nn.linear(3, {name = "out"})(x), v:index "label"))
end)
local job = nn.job {name = "clipped", program = program, data = data, batch = 24, epochs = opt.epochs, clip = 0.05,
  optimizer = nn.sgd {lr = opt.lr}, tables = {E = {"sgd", lr = opt.lr}}}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run <close> = cluster:start(job)
  for _ in run:events "report" do end
  program:save(run, opt.to)
end)
LUA
for word in 2 0 6 1 1 4 2 3 2 6 0 1 2 2 3 1 4 2 2 0 1 6 3 2; do echo 1 -1 $word $((word * 5 % 3)); done |
    tr ' ' '\n' | { echo 24 7; cat; } >words.txt
run 0 run clipped.lua --epochs 1 --lr 0 --to begin.safetensors
for nodes in 1 3; do
    run 0 run clipped.lua --nodes $nodes
    python3 "$root/tests/cluster/clipped.py" begin.safetensors end.safetensors 3 >said.txt || fail "$nodes workers: $(cat said.txt)"
done
run 1 run agree.lua --clip 0.2 --consistency sequential
says err.txt 'T0203.*clip bounds the norm of all gradients of a step: table "E" requires consistency = "bsp"'

# What was learnt, in a file: parameters and rows; and a run that goes on as if it had never stopped.
cat >kept.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local opt = tide.options {epochs = {"epochs", default = 4}, stop = {"at this report", default = 0},
  consistency = {"of rows", default = "sequential"}}
local H <const> = 8
local data = tide.data.forest {generate = "random_trees", samples = 90, test = 20, vocabulary = 40, max = 6, seed = 5}
local function tree(rows)
  return nn.vertex("tree", function(p, v)
    local h = v:state("h", H)
    local x = v:embed(p:table("E", rows, H), v:index "word")
    local h1 = (nn.linear(H, {name = "own"})(x) + nn.linear(H, {name = "below", bias = false})(v:sum(h))):tanh()
    v:publish {h = h1}
    p:loss(nn.xent(nn.linear(5, {name = "out"})(h1), v:index "label"))
  end)
end
local program = tree(40)
local job = nn.job {name = "kept", program = program, data = data, batch = 10, epochs = opt.epochs,
  optimizer = nn.adam {lr = 0.01}, tables = {E = {"adagrad", lr = 0.05, consistency = opt.consistency}},
  checkpoint = {dir = "vertices"}}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  local run <close> = cluster:start(job)
  for r in run:events "report" do
    print(("epoch %d loss %.9f"):format(r.n, r.loss / r.examples))
    if r.n == opt.stop then run:stop() end
  end
  local said <const> = run:evaluate "test"
  print(("held out %.9f"):format(said.correct))
  program:save(run, "tree.safetensors")
  local m, n = program:compile {seed = 9}, program:compile {device = "reference"}
  m:load "tree.safetensors"
  n:load "tree.safetensors"
  local test <const> = data:whole "test"
  local r <const> = m:evaluate(test)
  assert(math.abs(r.correct / r.count - said.correct) < 1e-9 and math.abs(n:evaluate(test).loss - r.loss) < 1e-3)
  m:save "again.safetensors"
  local k <const> = program:compile {seed = 3}
  k:load "again.safetensors"
  assert(k:evaluate(test).loss == r.loss)
  local ok, err = pcall(k.load, tree(41):compile(), "again.safetensors")
  assert(not ok and tostring(err):find("`E` is 40 x 8, the parameter 41 x 8", 1, true), err)
end)
LUA
run 0 run kept.lua
cp out.txt whole.txt
rm -rf vertices
run 0 run kept.lua --stop 2
grep '^epoch' out.txt >parts.txt
run 0 run --resume vertices kept.lua
cat out.txt >>parts.txt
diff whole.txt parts.txt >&2 || fail "what was resumed is not what was not stopped"
run 1 run kept.lua --consistency bsp
says err.txt 'consistency = "sequential"'

# The examples learn, by themselves and in the simulator.
run 0 run "$root/examples/treelstm.lua" --count 1000 --epochs 1 --nodes 1 --json
more "$(value test_accuracy)" 0.98 || fail "treelstm.lua: $(value test_accuracy)"
run 0 run "$root/examples/treelstm.lua" --model kinds --count 500 --epochs 1 --json
more "$(value test_accuracy)" 0.95 || fail "treelstm.lua --model kinds: $(value test_accuracy)"
run 0 run "$root/examples/treelstm.lua" --model fc --count 500 --epochs 1 --json
run 0 run "$root/examples/shift_reduce.lua" --count 300 --epochs 2 --json
more "$(value test_accuracy)" 0.95 || fail "shift_reduce.lua: $(value test_accuracy)"
run 0 run "$root/examples/lattice.lua" --count 300 --over max --json
run 0 run "$root/examples/lm.lua" --count 200 --epochs 1 --width 16 --json
run 0 sim --seed 4 "$root/examples/treelstm.lua" --model binary --count 100 --epochs 1 --width 16
finish
