-- Arithmetic of tensors against plain loops; run by test_gallery.sh, which looks for the last line.
local tide = require "tide"
local T <const> = tide.tensor

local function near(a, b, what)
  assert(math.abs(a - b) <= 1e-5 * math.max(1, math.abs(b)), ("%s: %s is not %s"):format(what, a, b))
end

-- Every element of `t` against f(row, column), both from 1.
local function each(t, f, what)
  for r = 1, t:rows() do
    for c = 1, t:columns() do near(t[(r - 1) * t:columns() + c], f(r, c), ("%s at %d, %d"):format(what, r, c)) end
  end
end

local function refused(pattern, f, ...)
  local ok, problem = pcall(f, ...)
  assert(not ok and tostring(problem):find(pattern), tostring(problem))
end

local function shape(type, rows, columns)
  local t <const> = T.zeros(type, rows, columns):normal(rows * 10 + columns)
  local row <const> = T.zeros(type, 1, columns):uniform(3, 1, 2)
  local column <const> = T.zeros(type, rows, 1):uniform(4, 1, 2)
  local function at(x, r, c) return x[(r - 1) * columns + c] end
  each(t:copy():add(row), function(r, c) return at(t, r, c) + row[c] end, "a row added")
  each(t:copy():div(column), function(r, c) return at(t, r, c) / column[r] end, "by a column")
  each(t:copy():mul(t), function(r, c) return at(t, r, c) ^ 2 end, "square")
  each(t:copy():sub(0.5), function(r, c) return at(t, r, c) - 0.5 end, "a number")
  each(t:copy():axpy(3, t), function(r, c) return 4 * at(t, r, c) end, "axpy")
  each(2 * t - t, function(r, c) return at(t, r, c) end, "operators")
  each(t:copy():map("max(-x, a) ^ 2 / (1 + exp(b)) - (x > a)", {a = row, b = column}), function(r, c)
    local x <const>, a <const> = at(t, r, c), row[c]
    return math.max(-x, a) ^ 2 / (1 + math.exp(column[r])) - (x > a and 1 or 0)
  end, "map")
  each(t:transpose():transpose(), function(r, c) return at(t, r, c) end, "transposed twice")
  local dot, sums, low = 0, {}, {}
  for r = 1, rows do
    sums[r], low[r] = 0, 1
    for c = 1, columns do
      dot, sums[r] = dot + at(t, r, c) ^ 2, sums[r] + at(t, r, c)
      if at(t, r, c) < at(t, r, low[r]) then low[r] = c end
    end
  end
  near(t:dot(t), dot, "dot")
  near(t:norm(), math.sqrt(dot), "norm")
  each(t:row_sums(), function(r) return sums[r] end, "sums of rows")
  local function dots(x, step)
    return function(r)
      local d = 0
      for c = 1, columns do d = d + at(t, r, c) * x[(r - 1) * step + c] end
      return d
    end
  end
  each(t:row_dots(t), dots(t, columns), "rows by rows")
  each(t:row_dots(row), dots(row, 0), "rows by the only row")
  each(t:argmin(), function(r) return low[r] - 1 end, "argmin")
  each(t:row_min(), function(r) return at(t, r, low[r]) end, "least of rows")
  local numbers <const> = T.zeros("u32", 2 * rows):fill(0, 1)
  for i = 1, #numbers do numbers[i] = numbers[i] % rows end
  each(t:gather(numbers), function(r, c) return at(t, (r - 1) % rows + 1, c) end, "gathered")
  each(T.zeros(type, rows, columns):scatter_add(numbers, t:gather(numbers)), function(r, c)
    return 2 * at(t, r, c)
  end, "scattered")
end

tide.main(function()
  for _, type in ipairs {"f32", "f64"} do
    for _, size in ipairs {{1, 1}, {1, 7}, {7, 1}, {3, 5}, {2, 300}, {300, 2}, {5, 257}} do
      shape(type, size[1], size[2])
    end
  end
  local a <const>, b <const> = T.zeros("f32", 4, 3):normal(1), T.zeros("f32", 3, 5):normal(2)
  local product <const> = T.zeros("f32", 4, 5):fill(1):matmul(a, b, {scale = 2, keep = 3})
  each(product, function(r, c)
    local s = 0
    for k = 1, 3 do s = s + a[(r - 1) * 3 + k] * b[(k - 1) * 5 + c] end
    return 2 * s + 3
  end, "product")
  -- by a vector, from the right and from the left, transposed or not
  local function by_vector(m, k, right, transposed, keep)
    local x <const> = T.zeros("f32", transposed and k or m, transposed and m or k):normal(m + k)
    local v <const> = T.zeros("f32", right and k or 1, right and 1 or k):normal(7)
    local out <const> = T.zeros("f32", right and m or 1, right and 1 or m):fill(2)
    if right then
      out:matmul(x, v, {transpose_a = transposed, scale = 0.5, keep = keep})
    else -- v (1 x k) by the transpose of x
      out:matmul(v, x, {transpose_b = not transposed, scale = 0.5, keep = keep})
    end
    for i = 1, m do
      local s = 0
      for j = 1, k do s = s + v[j] * (transposed and x[(j - 1) * m + i] or x[(i - 1) * k + j]) end
      assert(math.abs(out[i] - (0.5 * s + 2 * (keep or 0))) < 1e-4, ("%d x %d: %g"):format(m, k, out[i]))
    end
  end
  for _, right in ipairs {true, false} do
    for _, transposed in ipairs {true, false} do
      by_vector(5, 3, right, transposed, 3)
      by_vector(1, 40, right, transposed)
      by_vector(33, 1, right, transposed)
    end
  end
  local nan <const> = T.zeros("f32", 2, 1):fill(0 / 0):matmul(T.zeros("f32", 2, 3), T.zeros("f32", 3, 1))
  assert(nan[1] == 0 and nan[2] == 0, "what was there does not count without keep")
  -- rows of one number, by numbers of either width
  for _, type in ipairs {"u32", "u64", "i64"} do
    local to <const>, at <const> = T.zeros("f32", 4), T.from(type, {3, 0, 3})
    to:scatter_add(at, T.from("f32", {1, 2, 4})):scatter_add(at, 10):scatter_add(at, T.from("f32", {100}))
    assert(table.concat(to:totable(), " ") == "112.0 0.0 0.0 225.0", table.concat(to:totable(), " "))
    assert(table.concat(to:gather(at):totable(), " ") == "225.0 112.0 225.0")
    refused("there are rows 0 .. 3", to.scatter_add, to, T.from(type, {0, 4}), 1)
    assert(to[1] == 112, "nothing was added by what was refused")
  end
  refused("is %-1: there are rows", a.gather, a, T.from("i64", {-1}))
  assert(T.zeros("f32", 2):normal(5):convert("f64"):type() == "f64")
  local empty <const> = T.zeros("f32", 0, 3)
  assert(#empty:add(1):map("x * 2") == 0 and empty:norm() == 0 and empty:row_sums():rows() == 0)
  assert(tostring(T.zeros("f32", 20, 20)):find("%.%.%.}\n  %.%.%.$"), "a large tensor is printed in part")
  refused("does not fit 4 x 3", a.add, a, b)
  refused("the other tensor is f32 2 x 3, this one f32 4 x 3", a.row_dots, a, T.zeros("f32", 2, 3))
  refused("at character 4: it ends too early", a.map, a, "x +")
  refused("'q' is no function", a.map, a, "q * 2")
  refused("nested too deeply", a.map, a, ("-"):rep(99) .. "x")
  refused("too long", a.map, a, "x" .. (" + x"):rep(200))
  refused("part of the tensor that changes", a.add, a, a:slice(1, 1))
  local own <const> = T.from("f32", {1, 2, 3})
  refused("part of the tensor that changes", own.pick, own, own, T.from("u32", {2, 0, 1}))
  refused("beyond the last row", own.pick, own, T.from("f32", {7, 8}), T.from("u32", {1, 2}))
  refused("part of the tensor that changes", own.scatter_add, own, T.from("u32", {1, 2, 0}), own)
  assert(table.concat(own:totable(), " ") == "1.0 2.0 3.0", "what was refused changed nothing")
  refused("there are rows 0 .. 3", a.gather, a, T.from("u32", {4}))
  refused("no option 'trans'", product.matmul, product, a, b, {trans = true})
  refused("300 does not fit u8", a.convert, T.from("f32", {300}):convert "i32", "u8")
  refused("0.5 does not fit i32", a.convert, T.from("f32", {0.5}), "i32")
  print "tensors ok"
end)
