-- docs/guides/programs.md: local g = m:gradients(first_half)
local tide, nn = require "tide", require "tide.nn"
local net = nn.sequential {input = {4}, loss = nn.xent(), nn.linear(3)}
local m = net:compile {optimizer = nn.adamw {lr = 0.1}, average = 0.9}
local function half(seed) return {x = tide.tensor.zeros("f32", 8, 4):normal(seed), y = tide.tensor.zeros("i32", 8)} end
local first_half <const>, second_half <const> = half(1), half(2)
@block@
print(g.count // 1 | 0, #m:averaged "fc1.w")             --> 16 12
tide.main(function() end)
