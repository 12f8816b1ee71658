-- Operations of tide.nn on sequences, axes and rows by index. The guide is docs/guides/programs.md. init.lua adds the
-- functions of `nn` and `value` to its own.
local nn, value = {}, {}
local tools -- of init.lua

local function apply(...) return tools.apply(...) end
local function refuse(...) return tools.refuse(...) end
local function known_options(...) return tools.known_options(...) end

local function a_value(what, x)
  if not tools.is_value(x) then refuse("%s requires a value of the program, not a %s", what, type(x)) end
  return x
end

---Its number behind the batch, from 1; negative: from the last.
local function axis_of(x, axis)
  local rank <const> = #(x:dims())
  local n <const> = math.type(axis) == "integer" and (axis < 0 and rank + 1 + axis or axis) or 0
  if n < 1 or n > rank then refuse("%s has no axis %s behind the batch", tostring(x), tostring(axis)) end
  return n
end

---- elementwise ----------------------------------------------------------------------------------------------------

---1 where the two differ, else 0; NaN differs from all.
function value:ne(other) return 1 - self:eq(other) end
---1 where it is less than the other, else 0.
function value:lt(other) return tools.map("gt", other, self) end
---1 where it is at most the other, else 0.
function value:le(other) return tools.map("ge", other, self) end
---Where condition is not 0 the first, else the second: nn.select.
function nn.where(condition, a, b) return tools.map("select", condition, a, b) end

---x times the normal distribution's share below x.
---@param x? tide.nn.value without it a layer
---@param form? "tanh" the approximation by tanh
---@return tide.nn.value|function
function nn.gelu(x, form)
  if not tools.is_value(x) then return function(v) return nn.gelu(v, x) end end
  if form == "tanh" then return 0.5 * x * (1 + (math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)):tanh()) end
  if form ~= nil then refuse("nn.gelu has the form \"tanh\" beside its own, not %s", tostring(form)) end
  return 0.5 * x * (1 + (x * math.sqrt(0.5)):erf())
end

---x sigmoid(x).
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function nn.silu(x)
  if x == nil then return nn.silu end
  return a_value("nn.silu", x) * x:sigmoid()
end

---- axes ------------------------------------------------------------------------------------------------------------

---The mean over the columns ("rows": one number a row) or over an axis behind the batch, from 1.
---@param over "rows"|integer
function value:mean(over)
  if over == "rows" then return self:sum "rows" / self:columns() end
  return self:sum(over) / self:dims()[axis_of(self, over)]
end

---Sums up to each element of an axis behind the batch, from 1; -1: the last.
---@param axis integer
function value:cumsum(axis) return apply(self.program, "cumsum", {self}, {first = axis_of(self, axis) - 1}) end

---An axis of 1 (behind the batch, from 1) repeated n times.
---@param axis integer
---@param n integer
function value:expand(axis, n)
  return apply(self.program, "expand", {self}, {first = axis_of(self, axis) - 1, count = tools.whole("expand", n)})
end

-- The last axis, and back.
local function with_last(x, axis, f)
  local rank <const>, n = #(x:dims()), axis_of(x, axis)
  if n == rank then return f(x) end
  local order = {}
  for i = 1, rank do order[i] = i end
  order[n], order[rank] = rank, n
  return f(x:permute(table.unpack(order))):permute(table.unpack(order))
end

---The largest along an axis (behind the batch, from 1; -1: the last), which becomes 1. The gradient goes to the first
---of equals.
---@param x tide.nn.value
---@param axis integer
function nn.max(x, axis)
  return with_last(a_value("nn.max", x), axis, function(v) return (v:topk(1)) end)
end

---The smallest, likewise.
---@param x tide.nn.value
---@param axis integer
function nn.min(x, axis) return -nn.max(-a_value("nn.min", x), axis) end

local FINITE <const> = 0x1.fffffep127 -- the largest f32

---log(sum(exp x)) along an axis, which becomes 1.
---@param x tide.nn.value
---@param axis integer
function nn.logsumexp(x, axis)
  return with_last(a_value("nn.logsumexp", x), axis, function(v)
    -- relative to the largest: any other element may be a mask of -1e9 or -inf, of which the sum has no digit
    local largest <const> = v:topk(1):max(-FINITE):min(FINITE)
    return (v - largest):exp():sum "rows":log() + largest
  end)
end

---Its axes behind the batch in another order: `x:permute(2, 1)` of [B x n x m] is [B x m x n].
---@param ... integer
function value:permute(...)
  local order <const>, packed = {...}, 0
  if #order ~= #(self:dims()) then refuse("permute of %s: %d axes are named", tostring(self), #order) end
  for i = 1, 3 do packed = packed | ((order[i] and axis_of(self, order[i]) or i) - 1) << 2 * (i - 1) end
  return apply(self.program, "permute", {self}, {n = packed})
end

---- einsum ----------------------------------------------------------------------------------------------------------

local function letters_of(list)
  local at = {}
  for i = 1, #list do
    local letter <const> = list:sub(i, i)
    if at[letter] then refuse("einsum: letter %s is twice in %s", letter, list) end
    at[letter] = i
  end
  return at
end

---The operand with its axes in this order; other axes are summed.
local function arranged(x, list, order)
  local kept = {}
  for i = #list, 1, -1 do
    if order:find(list:sub(i, i), 1, true) then
      table.insert(kept, 1, list:sub(i, i))
    else
      x = x:sum(i)
    end
  end
  local at, axes = letters_of(table.concat(kept)), {}
  for i = 1, #order do axes[i] = at[order:sub(i, i)] end
  return table.concat(kept) == order and x or x:permute(table.unpack(axes))
end

local function product_of(list, sizes)
  local n = 1
  for letter in list:gmatch "." do n = n * sizes[letter] end
  return n
end

---Sums of products by letters, one an axis behind the batch: `nn.einsum("ik,kj->ij", a, b)` is a product of matrices,
---"hic,hjc->hij" scores of heads. Letters that the result lacks are summed over. One operand may be of constant size.
---@param spec string
---@param a tide.nn.value
---@param b tide.nn.value
function nn.einsum(spec, a, b)
  local first <const>, second <const>, out <const> = tostring(spec):match "^(%a+),(%a+)%->(%a+)$"
  if not first then refuse("einsum: \"%s\" is not of the form \"ik,kj->ij\"", tostring(spec)) end
  local sizes = {}
  for _, each in ipairs {{first, a}, {second, b}} do
    local list <const>, x <const> = each[1], a_value("nn.einsum", each[2])
    local dims <const> = x:dims()
    if #dims ~= #list then
      refuse("einsum %s: %q names %d axes, and %s has %d behind the batch", spec, list, #list, tostring(x), #dims)
    end
    for i = 1, #list do
      local letter <const> = list:sub(i, i)
      if sizes[letter] and sizes[letter] ~= dims[i] then
        refuse("einsum %s: %s is %d and %d", spec, letter, sizes[letter], dims[i])
      end
      sizes[letter] = dims[i]
    end
  end
  local _, a_batched = a:dims()
  local _, b_batched = b:dims()
  if not a_batched and b_batched then return nn.einsum(("%s,%s->%s"):format(second, first, out), b, a) end
  local of_a, of_b, of_out = letters_of(first), letters_of(second), letters_of(out)
  local shared, left, right, summed = "", "", "", ""
  for letter in out:gmatch "." do
    if not (of_a[letter] or of_b[letter]) then refuse("einsum %s: %s is of no operand", spec, letter) end
    if of_a[letter] and of_b[letter] then shared = shared .. letter
    elseif of_a[letter] then left = left .. letter
    else right = right .. letter end
  end
  for letter in first:gmatch "." do
    if of_b[letter] and not of_out[letter] then summed = summed .. letter end
  end
  local groups <const>, k <const> = product_of(shared, sizes), product_of(summed, sizes)
  local n <const>, m <const> = product_of(left, sizes), product_of(right, sizes)
  local x, y = arranged(a, first, shared .. left .. summed), arranged(b, second, shared .. summed .. right)
  local made
  if a_batched and not b_batched then
    if shared ~= "" then refuse("einsum %s: %s is of the batch's operand and of the constant one", spec, shared) end
    made = x:reshape(n, k):mm(y:reshape(k, m))
  else
    made = x:reshape(groups, n, k):bmm(y:reshape(groups, k, m))
  end
  local dims, order = {}, shared .. left .. right
  for letter in order:gmatch "." do dims[#dims + 1] = sizes[letter] end
  return arranged(made:reshape(table.unpack(dims)), order, out)
end

---- rows ------------------------------------------------------------------------------------------------------------

---Logarithm of the softmax of each row.
function value:log_softmax() return apply(self.program, "log_softmax", {self}) end

---The k largest of each row, largest first, and an index of the columns they are of, from 0. Of equals the first; NaN
---is the largest.
---@param k integer
---@return tide.nn.value values, tide.nn.value index
function value:topk(k)
  local values <const> = apply(self.program, "topk", {self}, {count = tools.whole("topk", k)})
  return values, tools.wrap(self.program, values.id + 1) -- outputs follow each other
end

---Of an index: 1 in the column that it names, from 0, else 0; -1: zeros.
---@param index tide.nn.value
---@param k integer columns
function nn.one_hot(index, k)
  return apply(a_value("nn.one_hot", index).program, "one_hot", {index}, {count = tools.whole("one_hot", k)})
end

---Rows added up by segment: row i of [B x m x c] to row `segment[i]` of [B x n x c]. -1: to none.
---@param x tide.nn.value
---@param segment tide.nn.value an index [B x m]
---@param n integer segments
function nn.segment_sum(x, segment, n) return a_value("nn.segment_sum", x):scatter_add(segment, n) end

---The mean of the rows of each segment; of none: zeros.
---@param x tide.nn.value
---@param segment tide.nn.value an index [B x m]
---@param n integer segments
function nn.segment_mean(x, segment, n)
  local sums <const> = nn.segment_sum(x, segment, n)
  local first <const> = x:slice(1, 1)
  return sums / nn.segment_sum(first:eq(first), segment, n):max(1) -- by the number of rows: a one of each
end

---- sequences -------------------------------------------------------------------------------------------------------

local ATTENTION <const> = {heads = true, kv_heads = true, causal = true, lengths = true, scale = true}

---Attention of heads that are blocks of columns: q [B x n x c], k and v [B x m x c']. Scores are made and used in
---tiles; the softmax is never stored. Key j counts for query i if j < lengths[b] and, causal, j <= i + m - n; a query
---without keys gives zeros.
---@param q tide.nn.value
---@param k tide.nn.value
---@param v tide.nn.value
---@param o {heads: integer, kv_heads?: integer, causal?: boolean, lengths?: tide.nn.value, scale?: number} kv_heads:
---heads of k and v, a divisor of heads; lengths: an index, one an example; scale: 1 / sqrt(width of a head)
function nn.attention(q, k, v, o)
  o = known_options("nn.attention", o, ATTENTION)
  local heads <const> = tools.whole("nn.attention: heads", o.heads)
  if o.scale ~= nil then tools.bounded("nn.attention: scale", o.scale, "number") end
  local width <const> = a_value("nn.attention", q):columns() // heads
  return apply(q.program, "attention", {q, k, v, o.lengths},
    {heads = heads, kv_heads = o.kv_heads and tools.whole("nn.attention: kv_heads", o.kv_heads), causal = o.causal,
     alpha = o.scale or 1 / math.sqrt(math.max(width, 1))})
end

---Loss of sequences of labels that are shorter than their frames and not aligned with them (CTC, Graves 2006): class 0
---is the blank, labels end at -1. Examples whose labels do not fit into their frames do not count. `count` is of
---examples.
---@param z tide.nn.value [B x frames x classes]
---@param labels tide.nn.value an index [B x most labels]
---@param o? {lengths?: tide.nn.value} frames of each example, an index
function nn.ctc(z, labels, o)
  o = known_options("nn.ctc", o, {lengths = true})
  local made <const> = apply(a_value("nn.ctc", z).program, "ctc", {z, labels, o.lengths})
  made.is_loss = true
  return made
end

local LINEAR_XENT <const> = {weights = true, smoothing = true, tied = true}

---nn.xent of `x:mm(w)`, for classes by the ten thousand: logits and their gradients are made for some rows at a time,
---so 16 MB of them are in memory at most. Values and gradients are those of nn.xent.
---@param x tide.nn.value [B x .. x c]
---@param w tide.nn.value [c x classes]; tied: [classes x c], such as the table of an embedding
---@param labels tide.nn.value an index, one a row of x
---@param o? {weights?: tide.nn.value, smoothing?: number, tied?: boolean}
function nn.linear_xent(x, w, labels, o)
  o = known_options("nn.linear_xent", o, LINEAR_XENT)
  local made <const> = apply(a_value("nn.linear_xent", x).program, "linear_xent", {x, w, labels, o.weights},
    {smoothing = o.smoothing, tb = o.tied})
  made.is_loss = true
  return made
end

local ROTARY <const> = {heads = true, base = true, positions = true, pairing = true}

---Turns pairs of columns of each head by angles that grow with the position (RoPE, arXiv 2104.09864).
---@param x tide.nn.value [B x n x c]
---@param o {heads: integer, base?: number, positions?: tide.nn.value, pairing?: "half"|"adjacent"} base: 10000;
---positions: an index [B x n] in place of 0 .. n - 1; pairing: columns j and j + d / 2 (default), or 2 j and 2 j + 1
function nn.rotary(x, o)
  o = known_options("nn.rotary", o, ROTARY)
  local heads <const> = tools.whole("nn.rotary: heads", o.heads)
  local base <const> = tools.bounded("nn.rotary: base", o.base or 10000, "size")
  local pairing <const> = o.pairing or "half"
  if pairing ~= "half" and pairing ~= "adjacent" then refuse("nn.rotary pairs \"half\" or \"adjacent\"") end
  return apply(a_value("nn.rotary", x).program, "rotary", {x, o.positions},
    {k = x:columns() // heads, rate = base, tb = pairing == "adjacent"})
end

---Layer: each row divided by the root of its mean square, then scaled by a parameter.
---@param o? {eps?: number, name?: string}
function nn.rmsnorm(o)
  o = known_options("nn.rmsnorm", o, {eps = true, name = true})
  local eps <const> = tools.bounded("eps of rmsnorm", o.eps or 1e-5, "rate")
  return tools.layer("rmsnorm", "rms", function(_, x, own)
    local c <const> = x:columns()
    local gamma <const> = own.param("gamma", {c}, {"constant", 1})
    return x * (x:sqr():sum "rows" / c + eps):rsqrt() * gamma
  end, o.name)
end

return {nn = nn, value = value, use = function(given) tools = given end}
