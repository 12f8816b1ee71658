-- docs/guides/dynamic-networks.md: local g = m:grow {vertices = 4096}                -- initial room; it doubles by itself. train = false: no gradients
local tide, nn = require "tide", require "tide.nn"
local tree = nn.vertex("tree", function(p, v)
  local h = v:state("h", 8)
  local h1 = (nn.linear(8, {name = "own"})(v:embed(p:table("E", 50, 8), v:index "word")) + v:sum(h)):tanh()
  v:publish {h = h1}
  local z = nn.linear(5, {name = "out"})(h1)
  p:output("logits", z)
  p:loss(nn.xent(z, v:index "label"))
end)
local m <const> = tree:compile {optimizer = nn.sgd {lr = 0.1}, tables = {E = {"sgd", lr = 0.1}}}
local children <const>, id <const>, label <const>, samples <const> = {}, 7, 2, 1
tide.main(function()
  @block@
  print(z:rows(), #ids, r.count // 1 | 0)            --> 1 1 1
end)
