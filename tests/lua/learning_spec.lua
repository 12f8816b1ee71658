-- Steps of the learners' workers that no result shows at once: what is done again when a worker dies, what is cut for
-- whom, what is forgotten between steps. Tensors and kernels are fakes; what they compute is tested where the core is.
local fake

before_each(function()
  fake = require "tests.lua.fresh"()
  fake.core.kernel = function() return function() return {} end end
end)

-- Remembers calls of methods by name.
local function recorder(names)
  local calls, object = {}, {}
  for _, name in ipairs(names) do
    object[name] = function(_, ...) calls[#calls + 1] = {name, ...} end
  end
  return object, calls
end

describe("topics", function()
  it("cut each slice of the vocabulary into shares that have every word once", function()
    local store = require "tide.lda.store"
    local rows, row = {}, 0
    for word = 1, 11 do -- every third word has a row
      rows[word] = word % 3 == 0 and row or 0xffffffff
      row = row + (word % 3 == 0 and 1 or 0)
    end
    local self = {row_of = rows, slice = function(_, first, count, from, had)
      return {first = first, count = count, row = from, rows = had}
    end}
    local slice <const> = {first = 2, count = 9, row = 0, rows = 3}
    for n = 1, 10 do
      local next_word, next_row = slice.first, slice.row
      for i = 1, n do
        local share = store.share(self, slice, i, n)
        assert.same({next_word, next_row}, {share.first, share.row})
        next_word, next_row = share.first + share.count, share.row + share.rows
      end
      assert.same({11, 3}, {next_word, next_row})
    end
  end)

  it("begin a pass again with the topics and the prior that it began with", function()
    local exchange = require "tide.lda.exchange"
    local alpha, priors = recorder {"put"}
    local blocks, kept = recorder {"restore"}
    local self = setmetatable({base = {alpha = alpha}, w = {state = {alpha = "fitted"}}, blocks = blocks,
      parts = {[0] = {}, [2] = {}}, former_alpha = "alpha", former_state = "before"}, exchange)
    for _ = 1, 2 do self:forget_pass() end -- the second time there is no prior to go back to
    assert.same({{"put", 1, "alpha"}}, priors)
    assert.equal("before", self.w.state.alpha)
    assert.equal(4, #kept)
  end)

  it("say of a part that went to another worker that they have it no more", function()
    local exchange = require "tide.lda.exchange"
    local told, sent
    local self = setmetatable({count = 2, parts = {[0] = {}, [1] = {}}, o = {}, base = {set_alpha = error},
      blocks = recorder {"remove"}, in_order = function(_, p) return "topics of " .. p end}, exchange)
    self.w = {rank = 1, state = {}, peers = function(_, own)
      told = own.had
      return {ranks = {1, 2}, index = 1, values = {{pass = 3, had = told}, {pass = 3, had = {}}},
              send = function(_, to, tag, value)
                sent = {to, tag, value}
                return true
              end}
    end}
    exchange.meet(self, 4)
    assert.same({0, 1}, told)
    assert.same({2, "part 1", "topics of 1"}, sent)
    exchange.meet(self, 5)
    assert.same({0}, told)
  end)
end)

describe("descent", function()
  it("goes back from scheduled sets to Gram sets once, not again and again", function()
    local auto = require "tide.descent.auto"
    local refuses, log = false, {}
    local self = setmetatable({w = {log = function() end}, team = {index = 1}, o = {gram_most = 10}, returned = false,
                               mode = "gram", round = 1}, auto)
    self.begin = function(_, mode)
      self.mode, self.round = mode, 1
      log[#log + 1] = mode
      self.inner = {round = 1, advance = function(inner) inner.due = {alike = {gap = 1, support = 3}} end,
                    refuses = function() return refuses and "too many" or nil end}
    end
    self:begin "gram"
    for _ = 1, 4 do
      refuses = true
      self:advance()
      refuses = false
      self:advance()
    end
    assert.same({"gram", "sets", "gram", "sets"}, log)
  end)

  it("has the columns' factor of before a pass in which a worker died", function()
    local ccd = require "tide.descent.ccd"
    local H, calls = recorder {"put"}
    H.copy = function() return "before" end
    local self = setmetatable({H = H, o = {rank = 1}, team = {}}, ccd)
    assert.is_false((pcall(self.advance, self)))
    assert.same({{"put", 1, "before"}}, calls)
  end)
end)

describe("nets", function()
  local adapt
  before_each(function() adapt = require "tide.nn.adapt" end)

  it("cut a step into passes that fit the memory", function()
    local a = adapt.new({}, {}, {start = 8, hi = 4})
    assert.same({1, 1, 2, 2, 3, 1}, {a:passes(3), a:passes(4), a:passes(5), a:passes(8), a:passes(9), a:passes(0)})
    a.passes_wished = 3
    assert.same({3, 2}, {a:passes(4), a:passes(2)}) -- of one example at least
  end)

  it("add up the gradients of a step's passes, and none of the step before", function()
    local calls = {}
    fake.core.update = function() calls[#calls + 1] = "add" end
    fake.core.tensor = function() return {fill = function(_, v) calls[#calls + 1] = "fill " .. v end} end
    local layer <const> = {first = 0, count = 4, parameters = {}}
    local a = adapt.new({}, {layout = {keys = 1}, backward = function(_, batch, hooks)
      if hooks.ready then hooks.ready(1) end
      return {loss = 1, count = batch.rows, correct = 1}
    end}, {start = 8, rule = "none"})
    local exchange = {tensors = {layer}, ranks = {1, 2}, number = 1, core = {gradients = function() return {} end}}
    local batch <const> = {passes = 3, load = function() return {rows = 2} end}
    for _ = 1, 2 do assert.equal(6, a:backward(exchange, batch, {ready = function() end}).count) end
    assert.same({"fill 0", "add", "add", "add", "fill 0", "add", "add", "add"}, calls)
  end)

  it("forget moments of another batch's gradients, and count steps from there", function()
    local first, filled = recorder {"fill"}
    local second, too = recorder {"fill"}
    local a = adapt.new({}, {memory = {first, second}}, {start = 8})
    a.restart = 5
    a:learn({number = 4, step = 4, examples = 8}, 2)
    assert.same({}, filled)
    a:learn({number = 5, step = 5, examples = 8}, 2)
    assert.same({{{"fill", 0}}, {{"fill", 0}}}, {filled, too})
    assert.same({5, nil}, {a.restarted, a.restart})
  end)

  it("scale a table's change by the whole batch, whatever its rule", function()
    local shared = require "tide.nn.shared_rows"
    local factors = {}
    fake.core.fetch = function() end
    fake.core.rows_scale = function(_, factor) factors[#factors + 1] = factor end
    for _, rule in ipairs {"sgd", "adagrad"} do
      local self = setmetatable({ids = {7}, on = {}, rule = {rule = rule}, rate = function() return 0.5 end,
        gradients = {slice = function() return {} end}, table = {push = function() end}}, shared)
      self:update(0.25, 1)
    end
    assert.same({-0.125, 0.25}, factors)
  end)
end)
