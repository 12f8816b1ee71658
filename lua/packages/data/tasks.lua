-- Examples of several tasks: rows with the number of their task, split within tasks, from files of one task each, or
-- generated.
local formats = require "tide.formats"
local package = require "tide.package"
local tensor = require "tide.tensor"
local tide = require "tide"

local tasks = {}

local function fail(message) error(package.error("T0113", message), 3) end

---Numbers of rows (from 1) by the number of their task.
---@param part table rows with `tasks`
---@return table<integer, integer[]> rows, integer[] numbers of the tasks, rising
function tasks.rows(part)
  if not part.tasks then fail 'the data has no tasks: read it with tasks = "qid"' end
  local rows, numbers = {}, {}
  for i, t in pairs(part.tasks) do
    if not rows[t] then
      rows[t] = {}
      numbers[#numbers + 1] = t
    end
    table.insert(rows[t], i)
  end
  table.sort(numbers)
  return rows, numbers
end

---Cuts each task's rows of the part "train" into parts, in an order that depends on the seed alone.
---@param data table tide.data
---@param o {train: number, validate?: number, test?: number, seed?: integer} shares
function tasks.split(data, set, o)
  package.check_fields("T0115", "split", o, {train = true, validate = true, test = true, seed = true})
  local sum = 0
  for _, key in ipairs {"train", "validate", "test"} do
    local v <const> = o[key] or 0
    if type(v) ~= "number" or v < 0 or v > 1 then fail(("split: `%s` is %s, not a share"):format(key, tostring(v))) end
    sum = sum + v
  end
  if math.abs(sum - 1) > 1e-9 then fail(("split: the shares add up to %g, not 1"):format(sum)) end
  return data.lazy(function()
    local whole <const> = set:whole "train"
    local rows <const>, numbers <const> = tasks.rows(whole)
    local lists <const> = {train = {}, validate = {}, test = {}}
    local random <const> = tide.random(o.seed or 1)
    for _, t in ipairs(numbers) do
      local own <const> = rows[t]
      for i = #own, 2, -1 do
        local k <const> = random:below(i) + 1
        own[i], own[k] = own[k], own[i]
      end
      local held <const> = math.floor(#own * (o.test or 0) + 0.5)
      local tried <const> = math.floor(#own * (o.validate or 0) + 0.5)
      for i, row in ipairs(own) do
        local left <const> = #own - i
        local list <const> = left < held and lists.test or left < held + tried and lists.validate or lists.train
        -- a task has something to learn from
        table.insert(i == 1 and lists.train or list, row)
      end
    end
    local parts = {}
    for name, list in pairs(lists) do
      if #list > 0 then parts[name] = whole:take(list) end
    end
    return {parts = parts, columns = set.columns, classes = set.classes, count = #lists.train,
            note = ("%s; %d tasks, %d examples to train on, %d to validate, %d held out"):format(set.note, #numbers,
              #lists.train, #lists.validate, #lists.test)}
  end)
end

local function gauss(random)
  return math.sqrt(-2 * math.log(1 - random:uniform())) * math.cos(2 * math.pi * random:uniform())
end

-- Parameters of each task, as the relation requires.
local function truth_of(random, o, kind, m, d)
  local w, common, factors = {}, {}, {}
  for k = 1, d do common[k] = gauss(random) end
  for i = 1, m do
    factors[i] = {}
    for r = 1, o.rank or 2 do factors[i][r] = gauss(random) end
  end
  for k = 1, d do
    local shared = {}
    for r = 1, o.rank or 2 do shared[r] = gauss(random) end
    for i = 1, m do
      w[i] = w[i] or {}
      local own = gauss(random)
      if kind == "rank" then
        own = own * math.sqrt(0.1)
        for r, v in ipairs(shared) do own = own + factors[i][r] * v end
      elseif kind ~= "unrelated" then
        own = 0.3 * own + (kind == "clusters" and i % 2 == 0 and -1 or 1) * common[k]
      end
      w[i][k] = own
    end
  end
  return w
end

---Tasks whose parameters have a covariance of low rank: L L' + 0.1 I, L tasks x rank; or, with `relation`, all near one
---(mean), near one or its opposite (clusters), or none (unrelated).
function tasks.generate(data, o, rows_class)
  package.check_fields("T0115", "generate", o, {tasks = true, rows = true, test = true, columns = true, rank = true,
                                               noise = true, seed = true, relation = true, classes = true})
  local m <const>, n <const>, d <const> = o.tasks, o.rows or 40, o.columns or 20
  local test <const> = o.test or 0
  for _, v in ipairs {m, n, d} do
    if math.type(v) ~= "integer" or v < 1 then fail "generate: tasks, rows and columns are whole numbers from 1 on" end
  end
  local kind <const> = o.relation or "rank"
  if not ({rank = true, mean = true, clusters = true, unrelated = true})[kind] then
    fail(("generate: relation `%s` is none of rank, mean, clusters, unrelated"):format(tostring(kind)))
  end
  return data.lazy(function()
    local random <const> = tide.random(o.seed or 1)
    local w <const> = truth_of(random, o, kind, m, d)
    local function part(count)
      local all <const> = m * count
      local p <const> = {columns = d, labels = tensor.zeros("f32", all, 1), tasks = tensor.zeros("u32", all, 1),
                         offsets = tensor.zeros("u64", all + 1, 1):fill(0, d),
                         indices = tensor.zeros("u32", all * d, 1),
                         values = tensor.zeros("f32", all * d, 1)}
      local row = 0
      for i = 1, m do
        for _ = 1, count do
          local y = (o.noise or 0.3) * gauss(random)
          for k = 1, d do
            local x <const> = gauss(random) / math.sqrt(d)
            p.indices[row * d + k], p.values[row * d + k] = k - 1, x
            y = y + x * w[i][k]
          end
          row = row + 1
          if o.classes then y = y > 0 and 1 or -1 end
          p.labels[row], p.tasks[row] = y, i
        end
      end
      return setmetatable(p, rows_class)
    end
    local parts = {train = part(n), test = test > 0 and part(test) or nil}
    return {parts = parts, columns = d, count = m * n, truth = w,
            note = ("generated: %d tasks of %d examples, %d columns"):format(m, n, d)}
  end)
end

---One task a file; tasks are numbered by the order of their names.
function tasks.files(data, files, options, rows_class)
  return data.lazy(function()
    local names, labels, offsets, indices, values, numbers = {}, {}, {0}, {}, {}, {}
    for name in pairs(files) do names[#names + 1] = name end
    table.sort(names)
    local columns = 0
    for number, name in ipairs(names) do
      local read, err = formats.libsvm({files[name]},
        {labels = "number", base = options.base, columns = options.columns})
      if not read then return nil, err end
      local p <const> = read.parts[1]
      columns = math.max(columns, read.columns)
      for i = 1, p.labels:rows() do
        labels[#labels + 1], numbers[#numbers + 1] = p.labels[i], number
        for e = p.offsets[i] + 1, p.offsets[i + 1] do
          indices[#indices + 1], values[#values + 1] = p.indices[e], p.values[e]
        end
        offsets[#offsets + 1] = #indices
      end
    end
    local part <const> = setmetatable({
      columns = columns, labels = tensor.from("f32", labels), tasks = tensor.from("u32", numbers),
      offsets = tensor.from("u64", offsets), indices = tensor.from("u32", indices),
      values = tensor.from("f32", values)},
      rows_class)
    return {parts = {train = part}, columns = columns, count = #labels, names = names,
            note = ("%d files, a task each: %d examples, %d columns"):format(#names, #labels, columns)}
  end)
end

return tasks
