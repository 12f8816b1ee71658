-- Update rules of papers, each written as a user would (nn.optimizer): a formula of symbolic values.
local optimizer = require "tide.nn.optimizer"

local rules = {}

---Chen et al., arXiv 2302.06675, algorithm 2.
local function lion(nn)
  return function(o)
    return nn.optimizer {
      name = "lion", lr = o.lr, decay = o.decay, state = {"m"}, normalised = true,
      step = function(s)
        local c = s.m * o.beta1 + s.g * (1 - o.beta1)
        return {w = s.w - (c:sign() + s.w * s.decay) * s.rate, m = s.m * o.beta2 + s.g * (1 - o.beta2)}
      end,
    }
  end
end

---You et al., arXiv 1904.00962, algorithm 2: the step of a parameter is as long as the parameter.
local function lamb(nn)
  return function(o)
    return nn.optimizer {
      name = "lamb", lr = o.lr, decay = o.decay, state = {"m", "v"}, per = "parameter", normalised = true,
      numbers = function(t) return {c1 = 1 / (1 - o.beta1 ^ t), c2 = 1 / (1 - o.beta2 ^ t)} end,
      step = function(s)
        local m = s.m * o.beta1 + s.g * (1 - o.beta1)
        local v = s.v * o.beta2 + s.g:sqr() * (1 - o.beta2)
        local u = m * s.c1 / ((v * s.c2):sqrt() + o.eps) + s.w * s.decay
        local of_w, of_u = s.w:sqr():sum("rows"):sqrt(), u:sqr():sum("rows"):sqrt()
        local ratio = nn.select(of_w * of_u, of_w / of_u:max(1e-30), 1)
        return {w = s.w - u * (ratio * s.rate), m = m, v = v}
      end,
    }
  end
end

---Shazeer, Stern, arXiv 1804.04235, algorithms 4 and 5 without momentum: of a matrix only the means of squared
---gradients of rows and of columns are kept.
local function adafactor(nn)
  return function(o)
    local function numbers(t) return {a = t ^ o.power} end
    local function changed(s, v)
      local u = s.g * v:rsqrt()
      local rms = (u:sqr():sum "rows" * (1 / (s.rows * s.columns))):sqrt()
      local size = (s.w:sqr():sum "rows" * (1 / (s.rows * s.columns))):sqrt():max(o.eps)
      return s.w - s.w * (s.rate * s.decay) - u * (size * s.rate / rms:max(o.clip))
    end
    local vector <const> = nn.optimizer {
      name = "adafactor vector", lr = o.lr, decay = o.decay, state = {"v"}, per = "parameter", numbers = numbers,
      step = function(s)
        local v = s.v + (s.g:sqr() + 1e-30 - s.v) * s.a
        return {w = changed(s, v), v = v}
      end,
    }
    local matrix <const> = nn.optimizer {
      name = "adafactor", lr = o.lr, decay = o.decay, per = "parameter", numbers = numbers, normalised = true,
      state = {{"r", per = "row"}, {"c", per = "column"}},
      step = function(s)
        local g2 = (s.g:sqr() + 1e-30):reshape(s.rows, s.columns)
        local r = s.r + (g2:sum("rows"):reshape(s.rows) * (1 / s.columns) - s.r) * s.a
        local c = s.c + (g2:sum "columns" * (1 / s.rows) - s.c) * s.a
        local mean = r:sum "rows" * (1 / s.rows)
        local v = (r / mean):reshape(s.rows, 1):bmm(c:reshape(1, s.columns)):reshape(s.rows * s.columns)
        return {w = changed(s, v), r = r, c = c}
      end,
    }
    return nn.each(function(p) return p.rows > 1 and matrix or vector end)
  end
end

---Jordan et al., github.com/KellerJordan/Muon: the momentum of a matrix is made nearly orthogonal by five steps of a
---Newton-Schulz iteration. Weights are [in x out] here, [out x in] there.
local function muon(nn)
  return function(o)
    local rest <const> = o.rest or nn.adamw {lr = o.rest_lr, beta2 = 0.95, decay = o.decay}
    local hidden <const> = nn.optimizer {
      name = "muon", lr = o.lr, decay = o.decay, state = {"m"}, per = "parameter", normalised = true,
      step = function(s)
        local m = s.m * o.mu + s.g * (1 - o.mu)
        local u = s.g * (1 - o.mu) + m * o.mu
        local x = (u / (u:sqr():sum "rows":sqrt() + 1e-7)):reshape(s.rows, s.columns)
        local tall <const> = s.rows > s.columns -- then the smaller product is X'X
        for _ = 1, 5 do
          local a = x:bmm(x, tall and {ta = true} or {tb = true})
          local b = a * -4.7750 + a:bmm(a) * 2.0315
          x = x * 3.4445 + (tall and x:bmm(b) or b:bmm(x))
        end
        local long <const> = math.sqrt(math.max(1, s.columns / s.rows))
        return {w = s.w - s.w * (s.rate * s.decay) - x:reshape(s.rows * s.columns) * (s.rate * long), m = m}
      end,
    }
    return nn.each(function(p)
      if o.only then return o.only(p.name, p.rows, p.columns) and p.rows > 1 and hidden or rest end
      local last = 0
      for i, each in ipairs(p.parameters) do last = each.rows > 1 and i or last end
      return p.rows > 1 and p.number ~= last and not p.name:find "^embed" and hidden or rest
    end)
  end
end

---@param tools table of tide.nn
function rules.install(nn, tools)
  for _, rule in ipairs {"sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "adamw"} do
    rules[rule] = optimizer.kernel(tools, rule)
  end
  local function add(name, defaults, make) rules[name] = optimizer.options(tools, name, defaults, make(nn)) end
  add("lion", {beta1 = 0.9, beta2 = 0.99}, lion)
  add("lamb", {beta1 = 0.9, beta2 = 0.999, eps = 1e-6}, lamb)
  add("adafactor", {lr = function(t) return math.min(1e-2, t ^ -0.5) end, eps = 1e-3, clip = 1, power = -0.8},
    adafactor)
  add("muon", {mu = 0.95, rest_lr = 3e-4, rest = false, only = false}, muon)
  rules.own = function(o) return optimizer.own(tools, o) end
end

return rules
