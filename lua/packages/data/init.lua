-- tide.data: lazy descriptions of data sets. Nothing is read until a field or a part is asked for, so a script may
-- name its data at the top: the driver reads what it needs of it, every worker cuts out its own part.
local compute = require "tide.compute"
local formats = require "tide.formats"
local package = require "tide.package"
local tensor = require "tide.tensor"

local data = {}

---What of a data set makes its test mean less than it seems, for its note: "" or "; 3 ..., 1 ...".
---@param counts {[1]: integer, [2]: string}[] a text with a number that is not 0 is reported
---@return string
---@package
function data.oddities(counts)
  local parts = {}
  for _, count in ipairs(counts) do
    if (count[1] or 0) > 0 then parts[#parts + 1] = ("%d %s"):format(count[1], count[2]) end
  end
  return parts[1] and "; " .. table.concat(parts, ", ") or ""
end

---@class tide.data.set
---@field count integer examples in the training part (on a worker: in its own piece)
---@field note string where the data is from and how it was split, for people
local set = {}

---Fields that start the reading.
function set:__index(key)
  local method = rawget(set, key)
  if method then return method end
  local loaded = set.read(self)
  return loaded[key]
end

---Reads the data of a set once, by its reader; raises the reader's error with its file:line.
---@package
function data.read(self)
  local loaded = rawget(self, "loaded")
  if loaded then return loaded end
  local err
  loaded, err = rawget(self, "reader")()
  if not loaded then error(formats.error(err), 0) end
  data.check_filled(loaded, rawget(self, "cut_by") == nil)
  rawset(self, "loaded", loaded)
  return loaded
end

---Data with nothing to train on train to a loss of 0: an error that says whose they are. A worker's piece may be empty.
---@param loaded {count: integer?, note: string?}
---@param whole boolean
---@package
function data.check_filled(loaded, whole)
  if whole and loaded.count == 0 and next(loaded.parts or {}) then
    local note <const> = loaded.note and loaded.note ~= "" and loaded.note or "the reader of the script"
    error(package.error("T0402", "there is nothing to train on: " .. note,
      {help = "look at the file, at `split` or `test`, and at filters such as `min_count`"}), 0)
  end
end

---A pipe is there for the process that was given it, and once: workers cannot read it again.
---@param paths string[]
---@return tide.error?
---@package
function data.check_pipes(paths)
  for _, path in ipairs(paths) do
    if package.role() == "worker" and type(path) == "string"
      and (path:find "^/dev/fd/" or path:find "^/proc/self/fd/" or path == "/dev/stdin") then
      return package.error("T0402", "a pipe can be read by one process, once, and workers read the data too",
        {where = path, help = "write it into a file, and name that"})
    end
  end
  return nil
end

set.read = data.read

---Whole part: "train", "valid", "test".
---@param name string
---@return table tensor one example a row
function set:whole(name)
  local part = set.read(self).parts[name]
  if not part then error(package.error("T0401", ("the data has no part `%s`"):format(tostring(name))), 2) end
  return part
end

---0 .. count - 1 in an order that depends on the seed alone.
---@return table u32 tensor
---@package
function data.order(count, seed)
  local order = tensor.zeros("u32", count, 1)
  for i = 1, count do order[i] = i - 1 end
  order:shuffle(seed)
  return order
end

---The part as this worker sees it: its own piece, in an order that is shuffled once by the job's seed so that pieces
---are alike. On the driver: the whole part.
---@param name string
---@return table tensor
function set:part(name)
  local whole = set.whole(self, name)
  local cut = rawget(self, "cut_by")
  if not cut then return whole end
  local pieces = rawget(self, "pieces")
  if not pieces[name] then
    local shuffled = whole:copy()
    shuffled:shuffle(cut.seed)
    local first, count = package.piece(whole:rows(), cut.rank, cut.workers)
    pieces[name] = shuffled:slice(first, count)
  end
  return pieces[name]
end

---The same data as seen by one of several workers.
---@param rank integer 1..workers
---@param workers integer
---@param seed integer
---@return tide.data.set
function set:cut(rank, workers, seed)
  return setmetatable({
    reader = rawget(self, "reader"), loaded = rawget(self, "loaded"), pieces = {},
    cut_by = {rank = rank, workers = workers, seed = seed},
    size_of = rawget(self, "size_of"), produce = rawget(self, "produce"),
    read_range = rawget(self, "read_range"), all = rawget(self, "all"),
    count = rawget(self, "size_of") and rawget(self, "size_of")(rank, workers) or nil,
  }, set)
end

---The part cut so that rows with one value in a column are one worker's, as far as that keeps pieces alike. On the
---driver: the whole part, whose values are all its own.
---@param name string
---@param column integer 1-based
---@return table tensor one example a row, in the order of the file
---@return integer[] own values that no other worker has
---@return integer[] shared values that other workers have as well
function set:clustered(name, column)
  local cut = rawget(self, "cut_by") or {rank = 1, workers = 1}
  return require("tide.data.cluster").piece(set.whole(self, name), column, cut.rank, cut.workers)
end

---The triples of a part by pairs of buckets of entities, each worker at its turn: `for pair in w.data:buckets(w,
---o):epoch(n) do ... end` with pair.triples and pair.seed; see buckets.lua.
---@param w tide.worker
---@param o? {part?: string, entities?: table, epochs?: integer} part: "train"; entities: the table, if its rows move to
---  who uses them; epochs: number of the last one
---@return tide.data.rotation
function set:buckets(w, o)
  if not self.entity_count then error(package.error("T0401", "only triples have entities to make buckets of"), 2) end
  return require("tide.data.buckets").new(w, {
    triples = set.whole(self, o and o.part or "train"), entity_count = self.entity_count,
    entities = o and o.entities, epochs = o and o.epochs})
end

---Iterates over a part in batches: first row (from 0, as kernels count) and number of rows.
---@param name string
---@param size integer rows in a batch
function set:batches(name, size)
  if math.type(size) ~= "integer" or size < 1 then
    error(package.error("T0113", ("batches: the size %s is not a whole number from 1"):format(size)), 2)
  end
  local rows, first = set.part(self, name):rows(), 0
  return function()
    if first >= rows then return nil end
    local at, n = first, math.min(size, rows - first)
    first = first + n
    return at, n
  end
end

---Goes through this worker's examples in blocks, in an order that differs from pass to pass and depends on the job's
---seed alone: `for block, pass in w.data:stream(w, {size = 1000, passes = 3}) do ... end`. The place is kept in
---w.state, so a resumed run continues with the next block: let w:clock() or w:report end the body. A block is what the
---source's `read` gives, or rows of a part.
---@param w tide.worker
---@param o {size: integer, passes?: integer, part?: string} passes: 1; part: of data sets that have parts
---@return fun(): any, integer? block, pass
function set:stream(w, o)
  package.check_fields("T0115", "w.data:stream", o, {size = true, passes = true, part = true})
  local size <const>, passes <const> = o.size, o.passes or 1
  if math.type(size) ~= "integer" or size < 1 or math.type(passes) ~= "integer" or passes < 1 then
    error(package.error("T0113", "w.data:stream requires `size`, and `passes`, whole numbers from 1"), 2)
  end
  local read_range <const> = rawget(self, "read_range")
  local rows <const> = not read_range and set.part(self, o.part or "train")
  local count <const> = read_range and self.count or rows:rows()
  local blocks <const> = (count + size - 1) // size
  local cut <const> = rawget(self, "cut_by") or {rank = 1, workers = 1}
  local first_own <const> = read_range and package.piece(rawget(self, "all"), cut.rank, cut.workers) or 1
  local place = w.state.stream or {pass = 1, done = 0}
  w.state.stream = place
  local order, order_of
  return function()
    if place.done == blocks then place.pass, place.done = place.pass + 1, 0 end
    if place.pass > passes or blocks == 0 then return nil end
    if order_of ~= place.pass then
      order, order_of = data.order(blocks, w.seed * 7919 + place.pass), place.pass
    end
    place.done = place.done + 1
    local first <const> = order[place.done] * size + 1
    local last <const> = math.min(first + size - 1, count)
    if rows then return rows:slice(first, last - first + 1), place.pass end
    return read_range(first_own + first - 1, first_own + last - 1), place.pass
  end
end

---Parts train, validate and test within each task of the part "train"; shares that add up to 1.
---@param o {train: number, validate?: number, test?: number, seed?: integer}
---@return tide.data.set
function set:split(o) return require("tide.data.tasks").split(data, self, o) end

---Data that a function of the script's own reads, when something of it is first asked for. It returns a table with
---`parts`, tensors with one example a row by name, and any other fields that workers read from `w.data`; or nil and an
---error. Parts are cut and shuffled as those of files: each worker reads all and keeps its own piece. nn.job takes
---parts "train.x", "train.y", "test.x", "test.y".
---@param reader fun(): table|nil, table? {parts = {train = tensor}, count =, note =}, or nil and an error
---@return tide.data.set
function data.lazy(reader)
  if type(reader) ~= "function" then error(package.error("T0113", "tide.data.lazy requires a function"), 2) end
  return setmetatable({reader = function()
    local loaded, err = reader()
    if loaded == nil then
      if err == nil then
        return nil, package.error("T0402", "the reader of tide.data.lazy has returned nothing",
          {help = "return {parts = {train = tensor}}, or nil and an error"})
      end
      return nil, err
    end
    if type(loaded) ~= "table" or type(loaded.parts) ~= "table" then
      return nil, package.error("T0402", "the reader of tide.data.lazy returns a table without `parts`",
        {help = "return {parts = {train = tensor}}"})
    end
    if loaded.count == nil then
      local _, part = next(loaded.parts)
      for name, each in pairs(loaded.parts) do part = name:find "^train" and each or part end
      loaded.count = part and part:rows() or 0
    end
    return loaded
  end}, set)
end

package.data_set(set)

---The words of a text, as tide.data.bow finds them.
---@param text string
---@param keep_case? boolean
---@return string[]
function data.words(text, keep_case) return formats.words(text, keep_case) end

---A byte-pair code, learnt from a text: tokens 0 to 255 are bytes, each further one joins the most frequent pair of
---tokens within words. `code:encode(text)` is a list of tokens of any text, `code:decode(tokens)` that text.
---@param text string
---@param size integer tokens of the code, 256 or more; fewer if no pair occurs twice
---@return tide.data.byte_pairs
function data.byte_pairs(text, size) return require("tide.data.byte_pairs").new(text, size) end

---A digest of several tensors, to check that others have the same.
---@param tensors table[]
---@return string
---@package
function data.digest(tensors)
  local list <const> = {}
  for i, t in ipairs(tensors) do list[i] = compute.digest(t) end
  return table.concat(list, " ")
end

data.triples = require "tide.data.triples" (data)
data.wordnet = require "tide.data.wordnet" (data)
data.forest = require "tide.data.forest" (data)
data.images = require "tide.data.images" (data)
data.matrix = require "tide.data.matrix" (data)
data.text = require "tide.data.text" (data)
data.libsvm = require "tide.data.libsvm" (data)
data.dense = require "tide.data.dense" (data)
data.bow = require "tide.data.bow" (data)
require("tide.data.arrays").extend(data)
data.rotation = require("tide.data.rotation").new
data.groups = require("tide.data.groups").new
---The same as tide.data.matrix, which recognises ratings by the first line.
---@param where string|table
---@param options? table
---@return tide.data.matrix_set
data.ratings = data.matrix

---Data of the script's own that is read piece by piece: `read(first, last)` gives examples first..last (1-based).
---w.data:examples() is a worker's piece at once, w.data:stream block by block.
---@param o {count: integer, read: fun(first: integer, last: integer): any}
function data.source(o)
  package.check_fields("T0115", "tide.data.source", o, {count = true, read = true, note = true})
  if math.type(o.count) ~= "integer" or o.count < 1 or type(o.read) ~= "function" then
    error(package.error("T0113", "tide.data.source requires `count`, a whole number from 1, and `read`, a function"), 2)
  end
  local source = data.lazy(function() return {parts = {}, count = o.count, note = o.note or ""} end)
  rawset(source, "read_range", o.read)
  rawset(source, "all", o.count)
  rawset(source, "size_of", function(rank, workers)
    local _, n = package.piece(o.count, rank, workers)
    return n
  end)
  rawset(source, "produce", function(cut)
    local first, n = package.piece(o.count, cut and cut.rank or 1, cut and cut.workers or 1)
    return o.read(first, first + n - 1)
  end)
  return source
end

---What the reader of a tide.data.source gives for this worker's examples.
---@return any
function set:examples()
  local produce = rawget(self, "produce")
  if not produce then error(package.error("T0401", "only tide.data.source has examples(); use part()"), 2) end
  return produce(rawget(self, "cut_by"))
end

return data
