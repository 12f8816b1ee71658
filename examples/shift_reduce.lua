-- Trees that are built while they are computed: words are shifted on a stack, and reducing makes a vertex of the two on
-- top (shift-reduce; Bowman et al. 2016). What a tree will be is not told beforehand: each action is given when the
-- values of the last one are known. Here the labelled trees give the actions, where a parser would read them from the
-- outputs of the step. All sentences take their steps together.
--   tide run shift_reduce.lua                    generated trees
--   tide run shift_reduce.lua --data sst/        the Stanford Sentiment Treebank
local tide, nn = require "tide", require "tide.nn"

local opt = tide.options {
  data   = {"directory with train.txt and test.txt of bracketed trees; without it: generated", type = "string"},
  width  = {"of a vertex's state", default = 32},
  count  = {"number of generated trees", default = 600},
  limit  = {"trees of a file that are used", default = 2000},
  lr     = {"rate, of adagrad", default = 0.05},
  epochs = {"passes over the trees", default = 2},
  batch  = {"trees that grow together", default = 32},
  seed   = {"of initial values, trees and orders", default = 1},
  json   = {"one JSON object instead of text", default = false},
}

local H <const> = opt.width
local data <const> = opt.data and tide.data.forest(opt.data, {format = "sexpr"})
  or tide.data.forest {generate = "random_trees", samples = opt.count, test = opt.count // 6, vocabulary = 300,
                       max = 9, seed = opt.seed}

local program <const> = nn.vertex("shift_reduce", function(p, v)
  local x = v:embed(p:table("E", data.vocabulary, H), v:index "word")
  local h, c = v:state("h", H), v:state("c", H)
  local both = v:child(1, h):concat(v:child(2, h))
  local z = nn.linear(5 * H, {name = "w"})(x) + nn.linear(5 * H, {name = "u", bias = false})(both)
  local i, o, u, f1, f2 = nn.split(z, 5)
  local c1 = i:sigmoid() * u:tanh() + f1:sigmoid() * v:child(1, c) + f2:sigmoid() * v:child(2, c)
  local h1 = o:sigmoid() * c1:tanh()
  v:publish {h = h1, c = c1}
  local logits = nn.linear(data.classes, {name = "out"})(h1)
  p:output("logits", logits)
  p:loss(nn.xent(logits, v:index "label"))
end, {children = 2})

---A sentence and its tree as the actions that make it: words are shifted from left to right, and a vertex is reduced as
---soon as its right child is on the stack. Vertices come in post-order.
local function actions_of(part, number, words, labels)
  local sample <const> = part.forest:sample(part.first + number - 1)
  local list = {}
  local function visit(vertex)
    local children <const>, at <const> = sample.children[vertex], sample.first + vertex - 1
    for _, child in ipairs(children) do visit(child) end
    list[#list + 1] = {word = words[at], label = labels[at], arity = #children}
  end
  visit(#sample.children)
  return list
end

---Grows the trees of some sentences, an action of each a step.
local function grow(m, sentences, o)
  local g <const> = m:grow {vertices = 1024, train = o.train}
  local stacks, at, active, right, computed = {}, {}, #sentences, 0, 0
  for s in ipairs(sentences) do stacks[s], at[s] = {}, 1 end
  while active > 0 do
    local made = {}
    for s, actions in ipairs(sentences) do
      local stack <const>, action <const> = stacks[s], actions[at[s]]
      if action then
        local children = {}
        for _ = 1, action.arity do table.insert(children, 1, table.remove(stack)) end
        local vertex <const> = g:add(children, {word = action.word})
        stack[#stack + 1] = vertex
        made[vertex] = action
        at[s] = at[s] + 1
        if not actions[at[s]] then active = active - 1 end
      end
    end
    local z, ids = g:step "logits"
    for i, vertex in ipairs(ids) do -- what is known of a vertex once it is computed
      local best, most = 0, -math.huge
      for k = 1, data.classes do
        local value <const> = z[(i - 1) * data.classes + k]
        if value > most then best, most = k - 1, value end
      end
      local action <const> = made[vertex]
      g:label(vertex, action.label)
      right = right + (best == action.label and 1 or 0)
      computed = computed + 1
    end
  end
  local r <const> = g:finish(#sentences)
  r.right, r.made = right, computed
  return r
end

local function all_actions(part, most)
  local words <const>, labels <const> = part:input "word", part:input "label"
  local list = {}
  for s = 1, math.min(part:rows(), most) do list[s] = actions_of(part, s, words, labels) end
  return list
end

---A batch of a list, from `first` on.
local function some(list, first) return table.move(list, first, math.min(first + opt.batch - 1, #list), 1, {}) end

tide.main(function()
  local function say(...) if not opt.json and not tide.output.json then print(string.format(...)) end end
  say("data: %s", data.note)
  local m <const> = program:compile {optimizer = nn.adagrad {lr = opt.lr}, tables = {E = {"adagrad", lr = 0.1}},
                                     per = "sample", seed = opt.seed}
  local train <const> = all_actions(data:whole "train", opt.limit)
  local test <const> = all_actions(data:whole "test", opt.limit)
  local epochs = {}
  for epoch = 1, opt.epochs do
    local sums = {loss = 0, count = 0, correct = 0}
    for first = 1, #train, opt.batch do
      local r <const> = grow(m, some(train, first), {train = true})
      for key, value in pairs(sums) do sums[key] = value + r[key] end
    end
    local held = {right = 0, made = 0}
    for first = 1, #test, opt.batch do
      local r <const> = grow(m, some(test, first), {train = false})
      for key, value in pairs(held) do held[key] = value + r[key] end
    end
    epochs[epoch] = {epoch = epoch, loss = sums.loss / sums.count, accuracy = sums.correct / sums.count,
                     test_accuracy = held.right / held.made}
    say("epoch %2d  loss %.4f  accuracy %.4f  test accuracy %.4f", epoch, epochs[epoch].loss, epochs[epoch].accuracy,
      epochs[epoch].test_accuracy)
  end
  if opt.json or tide.output.json then
    print(tide.json.encode {schema = "tide.vertex/1", data = data.note, epochs = epochs, program = program:id(),
                            test_accuracy = epochs[#epochs].test_accuracy})
  end
end)
