-- tide.data.forest: samples that are graphs (trees, chains, lattices), from files or generated; read by the core. Its
-- parts: "train", and "dev", "test" where there are such; a part is samples of a forest in some order.
local formats = require "tide.formats"
local package = require "tide.package"
local tensor = require "tide.tensor"

---@class tide.data.forest_part
---@field forest userdata of the core
---@field order table|nil u32 tensor: numbers of samples, from 0
---@field first integer from 1: of the order, or of the samples
---@field count integer samples
local part = {}
part.__index = part

local function new_part(forest)
  return setmetatable({forest = forest, first = 1, count = (forest:size())}, part)
end

---How many samples it has.
---@return integer samples
function part:rows() return self.count end

---Samples first .. first + count - 1, from 1, of this part; shares storage.
---@param first integer
---@param count integer
function part:slice(first, count)
  if math.type(first) ~= "integer" or math.type(count) ~= "integer" or first < 1 or count < 0
      or count > self.count - first + 1 then
    error(package.error("T0113", ("slice(%s, %s) is not within the part's %d samples, numbered from 1"):format(
      first, count, self.count)), 2)
  end
  return setmetatable({forest = self.forest, order = self.order, first = self.first + first - 1, count = count,
                       labels = self.labels}, part)
end

---The same samples as order[1], order[2], .. say (numbers from 0).
---@param order table u32 tensor
function part:reorder(order)
  return setmetatable({forest = self.forest, order = order, first = 1, count = #order}, part)
end

---Samples of this part in an order of their own.
---@param order table u32 tensor: numbers of samples of this part, from 0
function part:numbered(order)
  if not self.order and self.first == 1 then return self:reorder(order) end
  local own = tensor.zeros("u32", #order, 1)
  for i = 1, #order do
    own[i] = self.order and self.order[self.first + order[i]] or self.first - 1 + order[i]
  end
  return self:reorder(own)
end

---Vertices that count: whose index `label` is not -1; without it all.
---@param label? string
---@param kinds? string[] of vertices that count; all
---@return integer
function part:counted(label, kinds)
  return self.forest:counted(label, self.order, self.first, self.count, kinds)
end

---Iterates over batches, each a part.
---@param size integer samples
---@param o? {shuffle?: integer} seed of the order; without it that of the file
function part:batches(size, o)
  if math.type(size) ~= "integer" or size < 1 then
    error(package.error("T0113", ("batches: the size %s is not a whole number from 1"):format(size)), 2)
  end
  local whole, at = self, 0
  if o and o.shuffle then
    local order = tensor.zeros("u32", self.count, 1)
    for i = 1, self.count do
      order[i] = self.order and self.order[self.first + i - 1] or self.first + i - 2
    end
    order:shuffle(o.shuffle)
    whole = self:reorder(order)
  end
  return function()
    if at >= whole.count then return nil end
    local n <const> = math.min(size, whole.count - at)
    at = at + n
    return whole:slice(at - n + 1, n)
  end
end

---Vertices of each sample, which is what it costs.
---@return table u32 tensor, in the forest's order
function part:weights()
  self.forest_weights = self.forest_weights or self.forest:weights()
  return self.forest_weights
end

---How many vertices its samples have.
---@return integer vertices of the whole forest
function part:vertices()
  local _, vertices = self.forest:size()
  return vertices
end

---The same samples, labelled at their roots alone.
---@param name? string the index, "label" without it
function part:roots(name)
  local forest, err = self.forest:roots(name or "label")
  if not forest then error(package.error("T0402", err.message), 2) end
  return setmetatable({forest = forest, order = self.order, first = self.first, count = self.count}, part)
end

---An input of the whole forest: a row a vertex (or an edge).
function part:input(name) return self.forest:input(name) end

local FILES <const> = {"train", "dev", "test"}
local FORMATS <const> = {parents = true, lists = true, sexpr = true, stanford = true, sentences = true}
local LAW <const> = {generate = true, samples = true, test = true, vocabulary = true, seed = true, max = true,
                     leaves = true, skew = true}

local function refuse(message, ...) error(package.error("T0113", message:format(...)), 3) end

local function generate(o)
  local test <const> = o.test or 0
  local forest, err = formats.forest_generate {
    name = o.generate, samples = (o.samples or 1000) + test, vocabulary = o.vocabulary or 1000, seed = o.seed or 1,
    max = o.max or 19, leaves = o.leaves, skew = o.skew,
  }
  if not forest then return nil, err end
  local all <const> = new_part(forest)
  local parts = {train = all:slice(1, all.count - test)}
  if test > 0 then parts.test = all:slice(all.count - test + 1, test) end
  return parts, ("generated %s"):format(o.generate)
end

---Paths of a part: one, or of "stanford" three.
local function paths_of(directory, name, format)
  if format == "stanford" then
    return {directory .. "/" .. name .. "/parents.txt", directory .. "/" .. name .. "/sents.txt",
            directory .. "/" .. name .. "/labels.txt"}
  end
  return {directory .. "/" .. name .. ".txt"}
end

local function exists(path)
  local file <const> = package.list_files(path:match "^(.*)/" or ".") or {}
  local base <const> = path:match "[^/]*$"
  for _, each in ipairs(file) do
    local name <const> = type(each) == "table" and each.name or each
    if name == base then return path end
    if name == base .. ".gz" then return path .. ".gz" end
  end
end

local function files(where, format)
  local sources, names = {}, {}
  local function add(name, paths)
    names[#names + 1] = name
    for _, path in ipairs(paths) do sources[#sources + 1] = path end
  end
  if type(where) == "table" then
    for _, name in ipairs(FILES) do
      local given <const> = where[name]
      if given then add(name, type(given) == "table" and given or {given}) end
    end
  else
    local directory <const> = where:gsub("/+$", "")
    for _, name in ipairs(FILES) do
      local paths, all = paths_of(directory, name, format), true
      for i, path in ipairs(paths) do
        paths[i] = exists(path)
        all = all and paths[i] ~= nil
      end
      if all then add(name, paths) end
    end
    if #names == 0 and format ~= "stanford" then add("train", {where}) end
  end
  if names[1] ~= "train" then
    return nil, package.error("T0401", ("no file to train on: %s"):format(tostring(where)),
      {help = 'a file, a directory with train.txt (dev.txt, test.txt), or {train = FILE, test = FILE}'})
  end
  return sources, names
end

---Vectors of words from a file: rows of a table that begin as they say (`p:table(name, rows, columns, data.vectors)`).
---@class tide.data.vectors
---@field path string
---@field ids table u64 tensor: numbers of the words that it has, from 0
---@field values table f32 tensor: a row each
---@field columns integer
---@field most integer words
local vectors = {}
vectors.__index = vectors

---@return tide.data.vectors|nil
---@return table|nil error
local function read_vectors(path, words)
  if not words or #words == 0 then
    return nil, package.error("T0113", "`vectors` are of words: the formats sexpr and stanford have them")
  end
  local ids <const>, values <const> = formats.word_vectors(path, words)
  if not ids then return nil, values end
  return setmetatable({path = path, ids = ids, values = values, columns = values:columns(), most = #words}, vectors)
end

local function read(where, o)
  local sources, names = files(where, o.format)
  if not sources then return nil, names end
  local made, err = formats.forest(sources, {format = o.format, classes = o.classes})
  if not made then return nil, err end
  local parts = {}
  for i, forest in ipairs(made.parts) do parts[names[i]] = new_part(forest) end
  local found
  if o.vectors then
    found, err = read_vectors(o.vectors, made.words)
    if not found then return nil, err end
  end
  return parts, type(where) == "string" and where or names[1], made.words, found
end

---The largest bound of an index in all parts, which all then have.
local function bound(parts, name)
  local most = 0
  for _, p in pairs(parts) do
    for _, input in ipairs(p.forest:inputs()) do
      if input.name == name then most = math.max(most, input.below) end
    end
  end
  for _, p in pairs(parts) do p.forest:below(name, most) end
  return most
end

return function(data)
  ---Trees, sentences and other graphs for models of `nn.vertex`.
  ---@param where string|table a directory or file; {train = FILE, dev =, test =}; {generate = "random_trees" |
  ---"skewed_trees" | "balanced_trees" | "chains" | "lattices", samples =, test =, vocabulary =, seed =, max =,
  ---leaves =}
  ---@param o? {format?: string, classes?: integer, vectors?: string} format of files: "sexpr" (default), "parents",
  ---"lists", "stanford", "sentences"; vectors: a file of word vectors, "word v1 v2 .." a line, perhaps packed by gzip
  ---@return tide.data.set count (vertices with a label), samples, vocabulary, classes, words (of files with words),
  ---vectors (those of the file: how a table of words begins), parts train, dev, test
  return function(where, o)
    o = o or {}
    for key in pairs(o) do
      if key ~= "format" and key ~= "classes" and key ~= "vectors" then
        refuse("tide.data.forest has no option `%s`", tostring(key))
      end
    end
    local format <const> = o.format or "sexpr"
    if not FORMATS[format] then
      refuse("forests have the formats sexpr, parents, lists, stanford, sentences, not %q", tostring(format))
    end
    if type(where) == "table" then
      for key in pairs(where) do
        if where.generate and not LAW[key] then refuse("a generated forest has no option `%s`", tostring(key)) end
      end
    elseif type(where) ~= "string" then
      refuse "tide.data.forest needs a path, {train =, test =} or {generate = NAME, ..}"
    end
    return data.lazy(function()
      local parts, from, words, found
      if type(where) == "table" and where.generate then
        if o.vectors then return nil, package.error("T0113", "generated forests have no words for `vectors`") end
        parts, from = generate(where)
      else
        parts, from, words, found = read(where, {format = format, classes = o.classes, vectors = o.vectors})
      end
      if not parts then return nil, from end
      local train <const>, held <const> = parts.train, parts.test or parts.dev
      local vocabulary <const>, classes <const> = bound(parts, "word"), bound(parts, "label")
      local note = ("%s: %d samples to train on, %d held out"):format(from, train.count, held and held.count or 0)
      if found then note = note .. (", vectors of %d of %d words"):format(#found.ids, #words) end
      return {parts = parts, count = train:counted(classes > 0 and "label" or nil), vocabulary = vocabulary,
              classes = classes, samples = train.count, words = words, vectors = found, note = note}
    end)
  end
end
