#!/bin/bash
# Operations beside those of dense nets: rows by index, losses of sequences; what numbers they give, what they refuse.
. "$(dirname "$0")/harness.sh"

cat >open.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"

local function tensor(kind, rows, list)
  local t = tide.tensor.zeros(kind, rows, #list // rows)
  for i, x in ipairs(list) do t[i] = x end
  return t
end

local function same(what, got, want)
  assert(#got == #want, ("%s: %d numbers, not %d"):format(what, #got, #want))
  for i, x in ipairs(want) do
    assert(math.abs(got[i] - x) <= 1e-5 * (1 + math.abs(x)), ("%s: element %d is %g, not %g"):format(what, i, got[i], x))
  end
end

---What a program of `build(p)` gives for a batch: its value z as a list.
local function value(batch, build)
  local net <const> = nn.program("value", function(p)
    local z <const> = build(p)
    p:output("z", z)
    p:loss(z)
  end)
  return net:compile {}:forward(batch).z
end

local function refused(text, f, ...)
  local ok, err = pcall(f, ...)
  assert(not ok, "nothing was refused: " .. text)
  assert(tostring(err):find(text, 1, true), tostring(err))
  assert(tostring(err):find("open.lua:%d+"), tostring(err))
end

tide.main(function()
  -- Rows by each example's own index, and back.
  local rows <const> = {x = tensor("f32", 2, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}), i = tensor("i32", 2, {2, 0, -1, 0, 0, 1})}
  local function gathered(p) return p:input("x", 3, 2):gather(p:index("i", 3)) end
  same("gather", value(rows, gathered), {5, 6, 1, 2, 0, 0, 7, 8, 7, 8, 9, 10})
  same("scatter_add", value(rows, function(p) return p:input("x", 3, 2):scatter_add(p:index("i", 3), 4) end),
    {3, 4, 0, 0, 1, 2, 0, 0, 16, 18, 11, 12, 0, 0, 0, 0})
  same("gather of numbers", value({x = tensor("f32", 2, {1, 2, 3, 4, 5, 6}), i = rows.i},
    function(p) return p:input("x", 3):gather(p:index("i", 3)) end), {3, 1, 0, 4, 4, 5})
  refused("index 3 is 3, outside 0..2", value, {x = rows.x, i = tensor("i32", 2, {0, 0, 3, 0, 0, 0})}, gathered)
  refused("embed of x [B x 3 x 2], i [B x 3]: the second operand must be an index", value, rows, function(p)
    return p:input("x", 3, 2):gather(p:input("i", 3))
  end)
  refused("one number for each row", value, rows, function(p)
    return p:input("x", 3, 2):scatter_add(p:index("i", 2), 4)
  end)

  -- Losses of sequences: figures of tests/peers/open_programs.py.
  local z <const> = {0.5, -1, 2, 0, 0.25, -0.75, 1.5, 1, -2, 3, 0, 1}
  local function xent(weights, o)
    local net <const> = nn.program("xent", function(p)
      p:loss(nn.xent(p:input("z", 2, 3), p:index("y", 2), {smoothing = o and o.smoothing,
        weights = weights and p:input("w", 2)}))
    end)
    local r <const> = net:compile {}:evaluate {z = tensor("f32", 2, z), y = tensor("i32", 2, {2, 1, -1, 0}),
                                            w = weights and tensor("f32", 2, weights)}
    return {r.loss, r.count, r.correct}
  end
  same("xent", xent(), {1.17507988, 3, 3})
  same("weighted", xent({0.5, 2, 1, 0}), {1.64850078, 2.5, 2})
  same("smoothed", xent({0.5, 2, 1, 1}, {smoothing = 0.1}), {2.1433468, 3.5, 3})
  refused("one label a row", nn.program, "bad", function(p) p:loss(nn.xent(p:input("z", 2, 3), p:index("y", 3))) end)
  refused("smoothing is a share", nn.program, "bad", function(p)
    p:loss(nn.xent(p:input("z", 3), p:index "y", {smoothing = 1}))
  end)
  refused("nn.xent has no option `weight`", nn.program, "bad", function(p)
    p:loss(nn.xent(p:input("z", 3), p:index "y", {weight = 1}))
  end)
  print "the operations hold"
end)
LUA
run 0 run open.lua
says out.txt 'the operations hold'
