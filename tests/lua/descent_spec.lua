-- What tide.descent decides without any numbers of workers: folds, when a fit is over, and which options it accepts.
local support = require "tests.lua.support"
support.reset()
local ending = require "tide.descent.ending"
local folds = require "tide.descent.folds"

---@return integer[] 1 .. count
local function counted(count)
  local list = {}
  for i = 1, count do list[i] = i end
  return list
end

---How many examples each fold leaves out, and of these how many `f` holds for.
local function sizes(fold_of, count, f)
  local list, own = {}, {}
  for fold = 0, count do list[fold], own[fold] = 0, 0 end
  for i, fold in ipairs(fold_of) do
    list[fold] = list[fold] + 1
    if f and f(i) then own[fold] = own[fold] + 1 end
  end
  return list, own
end

describe("tide.descent.folds", function()
  it("leaves each example out once, in folds of like sizes", function()
    assert.same({[0] = 0, 3, 3, 2, 2}, sizes(folds.of(counted(10), 4, {}), 4))
  end)

  it("deals no example of weight 0", function()
    local weights = {1, 0, 2, 0, 0.5, 0, 1, 0, 3, 1}
    local fold_of = folds.of(counted(10), 3, {weights = weights})
    for i, weight in ipairs(weights) do assert.equal(weight == 0, fold_of[i] == 0) end
    assert.same({[0] = 4, 2, 2, 2}, sizes(fold_of, 3))
  end)

  it("gives each fold its share of both classes", function()
    local function rare(i) return i <= 10 end
    local fold_of, note = folds.of(counted(50), 5, {class = function(i) return rare(i) and 1 or 2 end})
    local all, own = sizes(fold_of, 5, rare)
    assert.same({[0] = 0, 10, 10, 10, 10, 10}, all)
    assert.same({[0] = 0, 2, 2, 2, 2, 2}, own)
    assert.is_nil(note)
  end)

  it("warns of a class with fewer examples than folds, and keeps a single one for the fits", function()
    local function of(rare)
      return folds.of(counted(20), 4, {class = function(i) return i <= rare and 1 or 2 end})
    end
    local fold_of, note = of(1)
    assert.equal(0, fold_of[1])
    assert.match("1 example for 4 folds: every fold is fitted with it", note)
    fold_of, note = of(3)
    assert.same({1, 2, 3}, {fold_of[1], fold_of[2], fold_of[3]})
    assert.match("3 examples for 4 folds: some folds are judged without it", note)
  end)
end)

describe("tide.descent.ending", function()
  it("is over when neither the value nor the gap gets better", function()
    local best, over
    for step = 1, 30 do
      best, over = ending.look(best, 1 - 0.5 ^ math.min(step, 20), 1e-3)
      assert.equal(step >= 11, over) -- the first value is the least: it rises
    end
  end)

  it("goes on while one of them gets better", function()
    local best, over
    for step = 1, 100 do
      best, over = ending.look(best, 1 + 1 / step, 1)
      assert.is_false(over)
    end
    for step = 1, 100 do
      best, over = ending.look(best, 2, 0.8 ^ step)
      assert.is_false(over)
    end
  end)

  it("says the tolerance and the gap that was reached", function()
    assert.equal("warning: tolerance 1e-17 is not reached: nothing gets better any more in f64 at a gap of 2e-12, "
      .. "1e-12 of the objective", ending.unmet(ending.STILL, 1e-17, 2e-12, 2))
  end)
end)

describe("tide.descent", function()
  local descent, set

  setup(function()
    set = setmetatable({columns = 3}, {})
    require("tide.package").data_set(getmetatable(set))
    descent = require "tide.descent"
  end)

  local function refuses(kind, options, pattern)
    options.name, options.data = "job", set
    local ok, err = pcall(descent[kind], options)
    assert.is_false(ok)
    assert.match(pattern, err.message, 1, true)
  end

  it("refuses options that would do nothing", function()
    refuses("lasso", {lambda = 1, share = 0.1}, "has both `lambda` and `share`")
    refuses("lasso", {lambda = 1, labels = "class"}, "no field `labels`")
    refuses("lasso", {lambda = 1, start = 2}, "no field `start`")
    refuses("lasso", {lambda = 1, mode = "gram", set = 16}, '`set` has no meaning with mode = "gram"')
    refuses("lasso", {lambda = 1, mode = "sets", gram_most = 9}, '`gram_most` has no meaning with mode = "sets"')
    refuses("enet", {lambda = 1, ridge = 1, mix = 0.5}, "has both `ridge` and `mix`")
    refuses("enet", {lambda = 1}, "requires `ridge` or `mix`")
    refuses("path", {theta = 0.5}, "`theta` has no meaning on a path")
    refuses("path", {model = "lasso", ridge = 1}, '`ridge` has no meaning but with model = "enet"')
    refuses("path", {model = "logistic", mix = 0.5}, '`mix` has no meaning but with model = "enet"')
    refuses("path", {model = "enet"}, "requires `ridge` or `mix`")
    refuses("path", {lambdas = {2, 1}, ratio = 0.1}, "`ratio` has no meaning beside a list of `lambdas`")
  end)

  it("refuses options of other kinds and sizes", function()
    refuses("lasso", {lambda = 1, intercept = 1}, "`intercept` is 1, not true or false")
    refuses("lasso", {lambda = 1, seed = 1.5}, "`seed` is 1.5, not a whole number")
    refuses("lasso", {share = 1e-300}, "`share` is 1e-300, less than f64 tells from 0")
    refuses("path", {ratio = 2}, "`ratio` is 2, not below 1")
    refuses("path", {lambdas = {}}, "`lambdas` is an empty list")
    refuses("ccd", {passes = 0}, "`passes` is 0, not a whole number from 1 on")
    refuses("ccd", {tolerance = -1}, "`tolerance` is a number of 0 or more")
  end)
end)

describe("tide.multitask", function()
  local multitask, set

  setup(function()
    set = setmetatable({columns = 3}, {})
    require("tide.package").data_set(getmetatable(set))
    support.core.kernel = support.core.kernel or function() end
    multitask = require "tide.multitask"
  end)

  local function refuses(options, pattern)
    options.name, options.data = "tasks", set
    local ok, err = pcall(multitask.job, options)
    assert.is_false(ok)
    assert.match(pattern, err.message, 1, true)
  end

  it("refuses options that would do nothing", function()
    refuses({share = 0.1}, "no field `share`")
    refuses({passes = 2}, '`passes` has no meaning with solver = "cg"')
    refuses({deadline = 2}, '`deadline` has no meaning with solver = "cg"')
    refuses({rho = "rows"}, '`rho` has no meaning with solver = "cg"')
    refuses({loss = "hinge", smooth = 1}, '`smooth` has no meaning but with loss = "smoothed"')
    refuses({start = 0.5}, '`start` has no meaning but with relation = "learned"')
    refuses({relation = "independent", steps = 2}, '`steps` has no meaning but with relation')
    refuses({relation = {"mean", 0.5}, lambdas = 0.1, validate = 0.2}, "`validate` has no meaning where nothing")
    refuses({relation = {graph = {}, rigde = 1}}, "relation has no field `rigde`")
  end)

  it("refuses options of other kinds and sizes", function()
    refuses({tolerance = 0}, "tolerance is 0, not a number above 0")
    refuses({rounds = 0}, "`rounds` is 0, not a whole number from 1 on")
    refuses({relation = {"mean", 1}}, "the second is in [0, 1)")
    refuses({lambdas = {1, -1}}, "lambdas[2] is -1, not a number above 0")
  end)
end)
