-- docs/guides/programs.md: local m = net:compile {optimizer = nn.momentum {lr = 0.05}, clip = 1}
local tide, nn = require "tide", require "tide.nn"
local net = nn.sequential {input = {28, 28, 1}, loss = nn.xent(), nn.flatten(),
  nn.linear(32), nn.relu(), nn.linear(10)}
local images <const>, labels <const> = tide.tensor.zeros("f32", 128, 28 * 28):normal(1), tide.tensor.zeros("i32", 128)
@block@
print(r.count // 1 | 0, z:columns(), #w > 0, #g > 0)             --> 128 10 true true
tide.main(function() end)
