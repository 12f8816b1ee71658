-- tide.data.libsvm: sparse examples with a label each, in LibSVM's text form (gzip or not), or generated. Read by the
-- core, in blocks. Parts: "train", and "test" where there is one; a part is sparse rows.
local formats = require "tide.formats"
local package = require "tide.package"
local tasks = require "tide.data.tasks"
local tensor = require "tide.tensor"

---@class tide.data.sparse_rows
---@field offsets table u64 tensor, rows + 1: row i (from 1) has the entries offsets[i] + 1 .. offsets[i + 1] of
---@field indices table u32 tensor, from 0 and rising in a row, and
---@field values table f32 tensor; both belong to all rows that were read, also behind a slice
---@field labels table f32 tensor, or i32 of classes from 0
---@field tasks table|nil u32 tensor: the number of each row's task
---@field columns integer
local sparse_rows = {}
sparse_rows.__index = sparse_rows

---How many examples it has.
---@return integer
function sparse_rows:rows() return self.labels:rows() end

---Rows first .. first + count - 1 (from 1); shares storage.
---@return tide.data.sparse_rows
function sparse_rows:slice(first, count)
  return setmetatable({labels = self.labels:slice(first, count), offsets = self.offsets:slice(first, count + 1),
                       indices = self.indices, values = self.values, columns = self.columns,
                       tasks = self.tasks and self.tasks:slice(first, count)}, sparse_rows)
end

---These rows (from 1), in this order, in storage of their own.
---@param list integer[]
---@return tide.data.sparse_rows
function sparse_rows:take(list)
  local entries = 0
  for _, i in ipairs(list) do entries = entries + self.offsets[i + 1] - self.offsets[i] end
  local out <const> = {columns = self.columns, labels = tensor.zeros(self.labels:type(), #list, 1),
                       offsets = tensor.zeros("u64", #list + 1, 1), indices = tensor.zeros("u32", entries, 1),
                       values = tensor.zeros("f32", entries, 1), tasks = self.tasks and tensor.zeros("u32", #list, 1)}
  local at = 0
  for k, i in ipairs(list) do
    local first <const>, count <const> = self.offsets[i], self.offsets[i + 1] - self.offsets[i]
    out.labels[k] = self.labels[i]
    if out.tasks then out.tasks[k] = self.tasks[i] end
    if count > 0 then
      out.indices:put(at + 1, self.indices:view(first + 1, count, 1))
      out.values:put(at + 1, self.values:view(first + 1, count, 1))
    end
    at = at + count
    out.offsets[k + 1] = at
  end
  return setmetatable(out, sparse_rows)
end

---Entries of all rows.
---@return integer
function sparse_rows:entries() return self.offsets[#self.offsets] - self.offsets[1] end

---Shares storage until it is shuffled.
---@return tide.data.sparse_rows
function sparse_rows:copy() return sparse_rows.slice(self, 1, self:rows()) end

---Puts the rows in an order that depends on the seed alone. Rows that share storage with these stay as they are.
---@param seed integer
function sparse_rows:shuffle(seed)
  local made = formats.sparse_shuffle(self, seed)
  local labels = tensor.zeros(self.labels:type(), self:rows(), 1)
  local numbers <const> = self.tasks and tensor.zeros("u32", self:rows(), 1)
  for i, from in pairs(made.order) do
    labels[i] = self.labels[from + 1]
    if numbers then numbers[i] = self.tasks[from + 1] end
  end
  self.tasks = numbers
  self.offsets, self.indices, self.values, self.labels = made.offsets, made.indices, made.values, labels
end

---Rows first .. first + count - 1 (from 1; default all) with their zeros.
---@return table f32 tensor count x columns
function sparse_rows:dense(first, count)
  first = first or 1
  return formats.sparse_dense(self, self.columns, first, count or self:rows() - first + 1)
end

---The entries of a row (from 1): index (from 0), value.
function sparse_rows:row(i)
  local at, last = self.offsets[i], self.offsets[i + 1]
  return function()
    if at >= last then return nil end
    at = at + 1
    return self.indices[at], self.values[at]
  end
end

local PARTS <const> = {"train", "test"}

---@return table|nil sources of formats.libsvm, string|table where the data is from, or an error
local function sources_of(where)
  if type(where) ~= "table" then return {where}, where end
  local sizes = where.generate
  if not sizes then return {where.train or where[1], where.test or where[2]}, where.train or where[1] end
  local texts, err = formats.generate("sparse", sizes)
  if not texts then return nil, err end
  local sources = {}
  for i, part in ipairs(PARTS) do
    if i == 1 or (sizes.test or 0) > 0 then sources[i] = {name = "generated " .. part, text = texts[i]} end
  end
  return sources, "generated"
end

---Classes that the test has and the training part has not.
local function unseen_classes(read)
  local seen, unseen = {}, 0
  if not (read.classes and read.parts[2]) then return 0 end
  for _, label in pairs(read.parts[1].labels) do seen[label] = true end
  for _, label in pairs(read.parts[2].labels) do
    if not seen[label] then seen[label], unseen = true, unseen + 1 end
  end
  return unseen
end

local function describe(data, from, read)
  local train, test = read.parts[1], read.parts[2]
  return ("%s: %d examples to train on, %d held out, %d columns, %.4g of 100 entries are there%s%s"):format(
    from, train:rows(), test and test:rows() or 0, read.columns,
    100 * train:entries() / math.max(1, train:rows() * read.columns),
    read.classes and (", %d classes"):format(#read.classes) or "",
    read.parts[1].tasks and "" or read.queries > 0 and (", the qid of %d rows is not used"):format(read.queries) or "")
    .. data.oddities {{unseen_classes(read), "classes of the test are never in train"}}
end

return function(data)
  data.market = require "tide.data.market" (data, sparse_rows)

  ---Sparse examples, one `label index:value ...` a line.
  ---@param where string|table a file, {train=, test=}, or {generate={train=, test=, columns=, nonzeros=, classes=,
  ---seed=}}: classes = 0 gives the lasso's task, labels that are numbers
  ---several tasks: {generate={tasks=, rows=, columns=, rank=, noise=, seed=}}, or {files={name = path}}, one a task
  ---@param options? {labels?: "number"|"class", base?: 0|1, columns?: integer, tasks?: "qid"} labels "class": the
  ---distinct labels, rising, become 0, 1, ..; base: of the indices in the text (else 0 if an index 0 occurs, 1 if none
  ---does); tasks "qid": the qid of a line is its task
  ---@return tide.data.set columns, classes (f32 tensor of the labels as written), parts train and test
  return function(where, options)
    options = options or {}
    if options.tasks ~= nil and options.tasks ~= "qid" then
      error(package.error("T0113", "tide.data.libsvm: `tasks` is \"qid\" where there are tasks"), 2)
    end
    if type(where) == "table" and where.generate and where.generate.tasks then
      return tasks.generate(data, where.generate, sparse_rows)
    end
    if type(where) == "table" and where.files then return tasks.files(data, where.files, options, sparse_rows) end
    if type(where) ~= "string" and type(where) ~= "table" then
      error(package.error("T0113", "tide.data.libsvm needs a path, {train=, test=} or {generate={...}}"), 2)
    end
    return data.lazy(function()
      local sources, from = sources_of(where)
      if not sources then return nil, from end
      local piped <const> = data.check_pipes(sources)
      if piped then return nil, piped end
      local read, err = formats.libsvm(sources, {labels = options.labels, base = options.base,
                                                 columns = options.columns, tasks = options.tasks ~= nil})
      if not read then return nil, err end
      local parts = {}
      for i, part in ipairs(read.parts) do
        part.columns = read.columns
        parts[PARTS[i]] = setmetatable(part, sparse_rows)
      end
      return {parts = parts, columns = read.columns, classes = read.classes, count = parts.train:rows(),
              note = describe(data, from, read)}
    end)
  end
end
