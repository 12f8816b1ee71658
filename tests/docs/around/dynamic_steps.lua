-- docs/guides/dynamic-networks.md: local m = tree_lstm:compile {optimizer = nn.adagrad {lr = 0.05}, tables = {E = {"adagrad", lr = 0.1}}, per = "sample"}
local tide, nn = require "tide", require "tide.nn"
local tree_lstm = nn.vertex("tree", function(p, v)
  local h = v:state("h", 8)
  local x = v:embed(p:table("E", 50, 8), v:index "word")
  local h1 = (nn.linear(8, {name = "own"})(x) + v:sum(h)):tanh()
  v:publish {h = h1}
  local z = nn.linear(5, {name = "out"})(h1)
  p:output("logits", z)
  p:loss(nn.xent(z, v:index "label"))
end)
local data <const> = tide.data.forest {generate = "random_trees", samples = 60, test = 8, vocabulary = 50, max = 5}
local epoch <const> = 1
local part <const> = data:whole "test"
tide.main(function()
  @block@
  print("columns", logits:columns())                 --> columns 5
end)
