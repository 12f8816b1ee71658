-- REINFORCE (Williams 1992) with actors as environments: each plays poles on carts with the newest policy, and the
-- script trains the policy on what all of them saw.
--
--   tide run examples/reinforce.lua
--   tide sim examples/reinforce.lua --nodes 8
local tide, nn = require "tide", require "tide.nn"
local opt = tide.options {
  nodes = {"nodes", default = 2},
  each = {"actors of a node", default = 2},
  carts = {"of an actor", default = 8},
  rounds = {"of play and training", default = 60},
  most = {"steps of an episode", default = 200},
  rate = {"of Adam", default = 0.02},
  seed = {"of the carts and their actions", default = 1},
}
local DISCOUNT <const> = 0.99

local net = nn.program("policy", function(p)
  local z = nn.linear(2)(nn.tanh(nn.linear(32)(p:input("state", 4))))
  p:output("shares", z:softmax())
  p:loss(-(z:log_softmax() * p:input("taken", 2)):sum "rows" * p:input("gain", 1))
end)

-- A step of a cart whose pole is to stay upright (Barto, Sutton, Anderson 1983): place, speed, angle, its speed.
local function move(s, right)
  local force <const>, cos <const>, sin <const> = right and 10 or -10, math.cos(s[3]), math.sin(s[3])
  local pushed <const> = (force + 0.05 * s[4] * s[4] * sin) / 1.1
  local turn <const> = (9.8 * sin - cos * pushed) / (0.5 * (4 / 3 - 0.1 * cos * cos / 1.1))
  local speed <const> = pushed - 0.05 * turn * cos / 1.1
  s[1], s[2], s[3], s[4] = s[1] + 0.02 * s[2], s[2] + 0.02 * speed, s[3] + 0.02 * s[4], s[4] + 0.02 * turn
  return math.abs(s[1]) <= 2.4 and math.abs(s[3]) <= 0.2095
end

-- Tensors of what was seen: states, actions, and the discounted sum of what came after, a step being worth 1.
local function tensors_of(seen)
  local n = 0
  for _, steps in ipairs(seen) do n = n + #steps end
  local state <const>, taken <const> = tide.tensor.zeros("f32", n, 4), tide.tensor.zeros("f32", n, 2)
  local gain <const>, row = tide.tensor.zeros("f32", n, 1), 0
  for _, steps in ipairs(seen) do
    local sum = 0
    for t = #steps, 1, -1 do
      sum, row = 1 + DISCOUNT * sum, row + 1
      for i = 1, 4 do state[4 * (row - 1) + i] = steps[t][i] end
      taken[2 * (row - 1) + (steps[t].right and 2 or 1)], gain[row] = 1, sum
    end
  end
  return {state = state, taken = taken, gain = gain}
end

local Carts = tide.actor {
  name = "carts",
  start = function(self)
    self.policy, self.rng = net:compile {}, tide.random(opt.seed * 1000 + self.rank)
  end,
  ---One episode of each cart.
  play = function(self, parameters)
    self.policy.parameters:put(1, parameters)
    local n <const>, states, seen = opt.carts, {}, {}
    for c = 1, n do
      states[c], seen[c] = {}, {}
      for i = 1, 4 do states[c][i] = 0.1 * self.rng:uniform() - 0.05 end
    end
    local batch <const> = {state = tide.tensor.zeros("f32", n, 4), taken = tide.tensor.zeros("f32", n, 2),
                           gain = tide.tensor.zeros("f32", n, 1)}
    local up = n
    for _ = 1, opt.most do
      if up == 0 then break end
      for c = 1, n do
        for i = 1, 4 do batch.state[4 * (c - 1) + i] = states[c][i] end
      end
      local shares <const> = self.policy:forward(batch).shares
      for c = 1, n do
        local s <const>, right <const> = states[c], self.rng:uniform() < shares[2 * c]
        if not s.fell then
          seen[c][#seen[c] + 1] = {s[1], s[2], s[3], s[4], right = right}
          if not move(s, right) then s.fell, up = true, up - 1 end
        end
      end
    end
    return tensors_of(seen)
  end,
}

-- The parts of all actors together; gains with mean 0 and variance 1.
local function joined(parts)
  local all <const> = {}
  for _, name in ipairs {"state", "taken", "gain"} do
    local n, at = 0, 1
    for _, part in pairs(parts) do n = n + part[name]:rows() end
    all[name] = tide.tensor.zeros("f32", n, parts[1][name]:columns())
    for rank = 1, #parts do
      local part <const> = parts[rank][name]
      all[name]:slice(at, part:rows()):put(1, part)
      at = at + part:rows()
    end
  end
  local n <const>, mean <const> = #all.gain, all.gain:sum() / #all.gain
  local variance <const> = all.gain:copy():map("(x - m) ^ 2", {m = mean}):sum() / n
  all.gain = all.gain:map("(x - m) / s", {m = mean, s = math.sqrt(variance) + 1e-6})
  return all, n
end

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local carts <close> = cluster:group(Carts, {}, {on = "@all", each = opt.each, restart = 3})
  local policy <const> = net:compile {optimizer = nn.adam {lr = opt.rate}, clip = 1, seed = opt.seed}
  for round = 1, opt.rounds do
    local parts <const>, lost <const> = carts:call("play", policy.parameters)
    assert(not lost, "an actor did not answer")
    local batch <const>, n <const> = joined(parts)
    policy:step(batch)
    if round % 10 == 0 then print(("round %3d  %5.1f steps upright"):format(round, n / carts.size / opt.carts)) end
  end
end)
