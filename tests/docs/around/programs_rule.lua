-- docs/guides/programs.md: local lion = nn.optimizer {
local tide, nn = require "tide", require "tide.nn"
local net = nn.sequential {input = {4}, loss = nn.xent(), nn.linear(3)}
@block@
local r = m:step {x = tide.tensor.zeros("f32", 8, 4):normal(1), y = tide.tensor.zeros("i32", 8)}
print(r.count // 1 | 0)                                   --> 8
tide.main(function() end)
