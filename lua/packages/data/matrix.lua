-- tide.data.matrix, tide.data.ratings: sparse matrices, cut into P x P blocks for parameter blocking. A worker keeps
-- the cells of its row blocks only; which block it works on when is data:rotation, or data:groups without blocks.
local formats = require "tide.formats"
local package = require "tide.package"
local schedule = require "tide.data.schedule"
local tensor = require "tide.tensor"
local tide = require "tide"

local PARTS <const> = {"train", "test"}
local CACHE_BYTES <const> = 2 << 20  -- rows of a block, of both tables
local CELLS_LEAST <const> = 4        -- of a row in a block: with fewer, visits to rows cost more than caches save
local BLOCKS_MOST <const> = 64
local ENDINGS <const> = {".mtx", ".mmc", ".data", ".dat", ".tsv", ".csv", ".txt"}

---@class tide.data.generated sizes of a generated matrix
local generated = {}
generated.__index = generated

-- The inputs on which figures are compared; `small` can be recovered from its cells, the others test speed.
local SIZES <const> = {
  small  = {rows = 2000, columns = 1500, train = 200000, test = 20000, rank = 8, seed = 1},
  mf100k = {rows = 10000, columns = 10000, train = 100000, test = 10000, rank = 100, seed = 1},
  mf1m   = {rows = 10000, columns = 10000, train = 1000000, test = 100000, rank = 100, seed = 1},
}

---@class tide.data.matrix_set
---@field rows integer
---@field cols integer
---@field row_limit integer a table key that no row has: where columns may begin
---@field count integer cells to train on (on a worker: in its own blocks)
---@field blocks integer P
---@field mean number what was subtracted from all values, else 0
---@field row_counts table u32 tensor: training cells of every row; column_counts of every column
---@field note string where the data is from, for people
local set = {}

---@class tide.data.block
---@field row integer row block, from 0; column: column block
---@field cells table u32 tensor n x 2: row and column, from 0
---@field values table f32 tensor
---@field row_first integer; row_count, col_first, col_count
---@field col_keys table u64 tensor: the columns of the block; row_keys: its rows
---@field seed integer for the order of its cells
local block = {}

local function range_tensor(first, count)
  return tensor.zeros("u64", count, 1):fill(first, 1)
end

function block:__index(key)
  if key == "col_keys" then return range_tensor(self.col_first, self.col_count) end
  if key == "row_keys" then return range_tensor(self.row_first, self.row_count) end
  return nil
end

---- reading ---------------------------------------------------------------------------------------------------------

local function exists(path)
  local file <close> = io.open(path, "rb")
  return file ~= nil
end

local function find_part(directory, part)
  for _, ending in ipairs(ENDINGS) do
    local path = directory .. "/" .. part .. ending
    if exists(path) then return path end
  end
  return nil
end

---@return table|nil sources of formats.matrix, table? err
local function sources_of(where)
  if getmetatable(where) == generated then
    local texts, err = formats.generate("mf", where)
    if not texts then return nil, err end
    local sources = {}
    for i, part in ipairs(PARTS) do sources[i] = {name = "generated " .. part, text = texts[i]} end
    if where.test == 0 then sources[2] = nil end
    return sources
  end
  if type(where) == "table" then return {where.train or where[1], where.test or where[2]} end
  if not package.list_files(where) then return {where} end
  local train = find_part(where, "train")
  if not train then
    return nil, package.error("T0401", ("%s has no train.mtx"):format(where), {
      where = where, help = "a directory holds train.mtx and test.mtx (or " .. table.concat(ENDINGS, ", ", 2) .. ")"})
  end
  return {train, find_part(where, "test")}
end

local function describe(where, read, drawn, odd)
  local from = getmetatable(where) == generated and ("generated, rank %d"):format(where.rank)
    or type(where) == "table" and tostring(where.train or where[1]) or where
  return ("%s (%s): %d x %d, %d cells to train on, %d held out%s%s"):format(from, read.note, read.rows, read.columns,
    read.parts.train.values:rows(), read.parts.test.values:rows(), drawn and " of them by chance" or "",
    read.mean ~= 0 and (", mean %.4f subtracted"):format(read.mean) or "") .. odd
end

local function reader_of(data, where, options)
  return function()
    local sources, err = sources_of(where)
    if not sources then return nil, err end
    err = data.check_pipes(sources)
    if err then return nil, err end
    local split = options.split
    if split == nil and #sources == 1 then split = {test = 0.1, seed = 1} end
    local read
    read, err = formats.matrix(sources, {
      format = options.format, test = #sources == 1 and split and split.test or 0, seed = split and split.seed or 1,
      center = options.center, names = options.names})
    if not read then return nil, err end
    local drawn <const> = #sources == 1 and read.parts.test.values:rows() > 0
    local note <const> = describe(where, read, drawn, data.oddities {
      {read.repeated, "training cells are there more than once"},
      {read.leaked, "test cells are training cells too"},
      {read.unseen_rows, "rows of the test are never in train"},
      {read.unseen_columns, "columns of the test are never in train"}})
    return {
      rows = read.rows, cols = read.columns, row_limit = read.rows, mean = read.mean, parts = read.parts,
      row_counts = read.row_counts, column_counts = read.column_counts, row_names = read.row_names,
      col_names = read.column_names, count = read.parts.train.values:rows(), note = note,
    }
  end
end

---- blocks ----------------------------------------------------------------------------------------------------------

---First index and number of the `n`-th (from 0) of `blocks` pieces of equal length; the last ones are shorter.
local function side(size, blocks, n)
  local length = (size + blocks - 1) // blocks
  local first = math.min(n * length, size)
  return first, math.min(length, size - first)
end

---Keeps of all parts the cells of this worker's row blocks.
local function cut_parts(self, loaded)
  local cut <const> = rawget(self, "cut_by")
  local blocks <const> = rawget(self, "blocks")
  local own = {}
  for k, v in pairs(loaded) do own[k] = v end
  own.parts, own.offsets = {}, {}
  for _, name in ipairs(PARTS) do
    local part, offsets = formats.matrix_blocks(loaded.parts[name], {
      rows = loaded.rows, columns = loaded.cols, blocks = blocks, first = cut.first, count = cut.count})
    if not part then return nil, offsets end
    own.parts[name], own.offsets[name] = part, offsets
  end
  own.count = own.parts.train.values:rows()
  return own
end

local data ---@type table tide.data, to which this file adds

function set:__index(key)
  local method = rawget(set, key)
  if method then return method end
  return set.read(self)[key]
end

---Reads the data once; raises the reader's error with its file:line.
function set.read(self)
  local loaded, err = rawget(self, "loaded"), nil
  if loaded then return loaded end
  local whole = rawget(self, "whole")
  if whole then
    local all = whole.loaded
    if not all then all, err = whole.reader() end
    if all then loaded, err = cut_parts(self, all) end
    whole.loaded = nil
  else
    loaded, err = rawget(self, "reader")()
    if loaded then data.check_filled(loaded, true) end
  end
  if not loaded then error(formats.error(err), 0) end
  rawset(self, "loaded", loaded)
  return loaded
end

---P: as the options say; else the fewest blocks, for each worker a power of two, whose rows of both tables (row_bytes
---each) fit a core's cache, or fewer if the matrix is too sparse for them.
local function blocks_for(self, workers)
  local given <const>, row_bytes <const> = rawget(self, "blocks"), rawget(self, "row_bytes")
  if given or not row_bytes then return given or workers end
  local bytes, own = (self.rows + self.cols) * row_bytes, 1
  local most <const> = math.min(BLOCKS_MOST, self.count // (CELLS_LEAST * math.max(self.rows, self.cols)))
  while workers * own * CACHE_BYTES < bytes and 2 * own * workers <= most do own = 2 * own end
  return workers * own
end

---The data as seen by one of several workers: an equal run of row blocks each.
function set:cut(rank, workers)
  local blocks <const> = blocks_for(self, workers)
  if blocks % workers ~= 0 then
    error(package.error("T0113", ("%d blocks cannot be shared by %d workers"):format(blocks, workers),
      {help = "blocks must be a multiple of the workers, so that all meet at the same barriers"}), 0)
  end
  local whole <const> = {loaded = rawget(self, "loaded"), reader = rawget(self, "reader")}
  if package.role() == "worker" then rawset(self, "loaded", nil) end -- it keeps its own part only
  return setmetatable({whole = whole, blocks = blocks, cut_by = {
    first = (rank - 1) * (blocks // workers), count = blocks // workers}}, set)
end

---The cells of a part.
---@param name "train"|"test"
---@return {cells: table, values: table} on a worker: of its own row blocks
function set:part(name)
  local part = set.read(self).parts[name]
  if not part then error(package.error("T0401", ("the data has no part `%s`"):format(tostring(name))), 2) end
  return part
end

local function need_cut(self)
  local cut = rawget(self, "cut_by")
  if not cut then error(package.error("T0113", "only a worker's data (w.data) has blocks"), 3) end
  return cut
end

local function new_block(self, name, row, first_column, last_column)
  local loaded <const>, cut <const>, blocks <const> = set.read(self), rawget(self, "cut_by"), rawget(self, "blocks")
  local part, offsets = loaded.parts[name], loaded.offsets[name]
  local at = (row - cut.first) * blocks
  local from, to = offsets[at + first_column + 1], offsets[at + last_column + 2]
  local made = {row = row, cells = part.cells:slice(from + 1, to - from),
                values = part.values:slice(from + 1, to - from)}
  made.row_first, made.row_count = side(loaded.rows, blocks, row)
  return setmetatable(made, block), loaded
end

---The blocks of this worker's rows, whole width: for evaluation. A block's columns are its share of all columns.
---@param name "train"|"test"
---@return fun(): tide.data.block|nil
function set:strips(name)
  local cut <const>, blocks <const> = need_cut(self), rawget(self, "blocks")
  local row = cut.first - 1
  return function()
    row = row + 1
    if row >= cut.first + cut.count then return nil end
    local strip, loaded = new_block(self, name, row, 0, blocks - 1)
    strip.col_first, strip.col_count = side(loaded.cols, blocks, row)
    return strip
  end
end

---Keys of all rows of this worker.
---@return table u64 tensor
function set:row_keys()
  local cut <const>, blocks <const> = need_cut(self), rawget(self, "blocks")
  local first = side(self.rows, blocks, cut.first)
  local last, count = side(self.rows, blocks, cut.first + cut.count - 1)
  return range_tensor(first, last + count - first)
end

---This worker's blocks in the order of DSGD: `for block in w.data:rotation(w):epoch(n) do ... end`, with all waiting
---that this takes; see rotation.lua.
---@param w tide.worker
---@param o? {epochs?: integer, columns?: table} columns: the table of columns, if they move to their users
---@return tide.data.rotation
function set:rotation(w, o)
  local cut <const>, blocks <const> = need_cut(self), rawget(self, "blocks")
  return data.rotation(w, {
    plan = schedule.plan(blocks, cut.count, w.seed), epochs = o and o.epochs, columns = o and o.columns,
    keys = function(columns)
      local ranges = {}
      for i, column in ipairs(columns) do ranges[i] = range_tensor(side(self.cols, blocks, column)) end
      return tensor.join(ranges)
    end,
    block = function(epoch, visits)
      local row <const>, column <const> = visits[1].row, visits[1].column
      local made <const>, loaded <const> = new_block(self, "train", row, column, column)
      made.column = column
      made.col_first, made.col_count = side(loaded.cols, blocks, column)
      made.seed = tide.random(((w.seed * 1000003 + epoch) * 65537 + row) * 65537 + column):below(1 << 53)
      return made
    end})
end

---All cells of this worker in a random order, in groups: `for group in w.data:groups(w, o):epoch(n) do ... end`; see
---groups.lua.
---@param w tide.worker
---@param o {order: "columnwise"|"plain", size?: integer, columns?: table, fetch?: "localize"|"intent",
---  ahead?: integer}
---@return tide.data.groups
function set:groups(w, o)
  need_cut(self)
  return data.groups(w, {part = set.part(self, "train"), rows = self.rows, cols = self.cols, order = o.order,
                         size = o.size, columns = o.columns, fetch = o.fetch, ahead = o.ahead})
end

return function(given)
  data = given
  package.data_set(set)

  ---Sizes of a generated matrix, for tide.data.matrix: nothing is made before it is asked for.
  ---@param sizes string|{rows: integer, columns: integer, train: integer, test: integer, rank: integer, seed: integer}
  ---@return tide.data.generated
  function data.generate(sizes)
    local known = type(sizes) == "string" and SIZES[sizes] or sizes
    if type(known) ~= "table" then
      error(package.error("T0105", ("`%s` is none of the generated matrices small, mf100k, mf1m"):format(
        tostring(sizes))), 2)
    end
    local copy = {}
    for k, v in pairs(known) do copy[k] = v end
    return setmetatable(copy, generated)
  end

  ---Ratings (user, item, rating) or a MatrixMarket coordinate file. `tide.data.ratings` is the same.
  ---@param where string|table a file, a directory with train.* and test.*, {train=, test=}, or tide.data.generate(...)
  ---blocks: P, a multiple of all workers. row_bytes instead: of a table's row; then P is chosen by the caches. Neither:
  ---P = workers.
  ---@param options? {split?: {test: number, seed?: integer}, blocks?: integer, center?: boolean, names?: boolean,
  ---  partition?: "rows", row_bytes?: integer, format?: "auto"|"ratings"|"matrixmarket"}
  ---@return tide.data.matrix_set
  return function(where, options)
    options = options or {}
    if options.partition and options.partition ~= "rows" then
      error(package.error("T0113", "this version partitions matrices by rows"), 2)
    end
    if options.blocks and (math.type(options.blocks) ~= "integer" or options.blocks < 1) then
      error(package.error("T0113", ("matrix: blocks = %s is no whole number of 1 or more"):format(options.blocks)), 2)
    end
    return setmetatable({
      reader = reader_of(data, where, options), blocks = options.blocks, row_bytes = options.row_bytes}, set)
  end
end
