-- Matrix factorisation one rank after the other (CCD++, Yu et al., ICDM 2012): R is near W H, squares weighted by l2.
-- A row of W and the cells of its row are one worker's; H is on all. For each rank the best numbers of W are found
-- here, those of H from sums over all; nothing needs a step size and the objective never rises.
--
-- When workers come or go, rows are divided anew. A worker has no use for rows of W that it lost: they are the best
-- ones for H as it is, so the objective does not rise. A run that is resumed begins with H of its table in the same
-- way.
local kernels = require("tide.package").kernels
local package = require "tide.package"
local tensor = require "tide.tensor"
local tide = require "tide"

local sums_of <const>, rank_of <const> = kernels.ccd_sums, kernels.ccd_rank
local dot <const> = kernels.vector_dot

local PASSES <const>, ENOUGH <const> = 20, 1e-9 -- over the ranks of W alone, at most; a gain that ends them

---@class tide.descent.ccd: tide.team.part
local ccd = {}
ccd.__index = ccd

---@param o table data (tide.data.matrix), rank, l2, weighted, passes, inner, seed, tolerance
function ccd.new(w, team, o)
  local data <const> = o.data
  local self <const> = setmetatable({w = w, team = team, o = o, rows = data.rows, columns = data.cols, round = 0,
                                     pass = 0, H = tensor.zeros("f64", o.rank, data.cols)}, ccd)
  local random <const> = tide.random(o.seed or 1)
  for i = 1, #self.H do self.H[i] = (random:uniform() - 0.5) / math.sqrt(o.rank) end
  return self
end

function ccd:state()
  return {H = self.H, round = self.round, pass = self.pass, due = self.due or false, last = self.last or false}
end

function ccd:adopt(s)
  self.H:put(1, s.H)
  self.round, self.pass, self.due, self.last = s.round, s.pass, s.due or nil, s.last or nil
end

function ccd:kept() return {round = self.round, pass = self.pass, last = self.last or false} end

---The state of a checkpoint, whose H is in a table.
function ccd:fetch(s)
  self.round, self.pass, self.last = s.round, s.pass, s.last or nil
  local h <const>, rank <const> = self.w.tables.h:pull(tensor.zeros("u64", self.columns):fill(0, 1)), self.o.rank
  for j = 1, self.columns do
    for k = 1, rank do self.H[(k - 1) * self.columns + j] = h[(j - 1) * rank + k] end
  end
end

---What a resumed run makes anew, so that both continue with the same bits: H as its table has it, and W of it.
function ccd:refresh()
  self.H:put(1, self.H:convert "f32":convert "f64")
  self:best_factor()
end

function ccd:digest()
  local part <const> = self.o.data:part "train"
  return require "tide.data".digest {part.cells, part.values}
end

---The cells of rows first .. first + count - 1 (from 0).
local function cells_of(part, first, count)
  local cells <const>, values <const> = part.cells, part.values
  local list, kept = {}, {}
  for i = 1, values:rows() do
    local row <const> = cells[2 * i - 1]
    if row >= first and row < first + count then
      list[#list + 1], list[#list + 2] = row - first, cells[2 * i]
      kept[#kept + 1] = values[i]
    end
  end
  return tensor.from("u32", list, 2), tensor.from("f64", kept)
end

---Rows of about as many cells each, or as the shares say.
local function bounds(counts, size, shares)
  local total, at, list = 0, 0, {0}
  for _, n in pairs(counts) do total = total + n end
  local all, ends = 0, {} -- share of the pieces up to each
  for i = 1, size do
    all = all + (shares and shares[i] or 1)
    ends[i] = all
  end
  for row, n in pairs(counts) do
    at = at + n
    while #list < size and at * all >= total * ends[#list] do list[#list + 1] = row end
  end
  while #list < size + 1 do list[#list + 1] = #counts end
  list[size + 1] = #counts
  return list
end

local function rank_row(matrix, t) return matrix:slice(t, 1):view(1, matrix:columns(), 1) end

local function penalty(matrix, counts)
  if not counts then return dot({x = matrix, y = matrix}).sum end
  local sum = 0
  for k = 1, matrix:rows() do
    local row <const> = rank_row(matrix, k)
    sum = sum + dot({x = row, y = row, weights = counts}).sum
  end
  return sum
end

function ccd:divide()
  local data <const>, t <const> = self.o.data, self.team
  local limits <const> = bounds(data.row_counts, t.size, t.shares)
  self.first, self.count = limits[t.index], limits[t.index + 1] - limits[t.index]
  self.cells, self.values = cells_of(data:part "train", self.first, self.count)
  local test <const> = data.parts.test
  self.test_cells, self.test_values = nil, nil
  if test and test.values:rows() > 0 then
    self.test_cells, self.test_values = cells_of(test, self.first, self.count)
  end
  self.residual = self.values:copy()
  self.W = tensor.zeros("f64", self.o.rank, math.max(self.count, 0))
  self.row_weights = self.o.weighted and tensor.zeros("f64", self.count) or nil
  self.column_weights = self.o.weighted and tensor.zeros("f64", self.columns) or nil
  if self.o.weighted then
    for i = 1, self.count do self.row_weights[i] = data.row_counts[self.first + i] end
    for j = 1, self.columns do self.column_weights[j] = data.column_counts[j] end
  end
  self.num_w, self.den_w = tensor.zeros("f64", self.count), tensor.zeros("f64", self.count)
  local both <const> = tensor.zeros("f64", 2 * self.columns)
  self.both, self.num_h, self.den_h = both, both:slice(1, self.columns), both:slice(self.columns + 1, self.columns)
  if self.round > 0 then self:best_factor() end
end

---W as it is best for H, from nothing: what lost workers had needs not be known.
function ccd:best_factor()
  self.residual:put(1, self.values)
  self.W:fill(0.0)
  local before = math.huge
  for _ = 1, PASSES do
    local squares = 0
    for k = 1, self.o.rank do
      local w <const>, h <const> = rank_row(self.W, k), rank_row(self.H, k)
      sums_of {cells = self.cells, residual = self.residual, w = w, h = h, side = "add"}
      self:best_rows(w, h)
      squares = sums_of({cells = self.cells, residual = self.residual, w = w, h = h, side = "take"}).squares
    end
    local now <const> = squares + self.o.l2 * penalty(self.W, self.row_weights)
    if before - now <= ENOUGH * now then break end
    before = now
  end
end

---The best numbers of W for one rank of H; the residual is without this rank.
function ccd:best_rows(w, h)
  sums_of {cells = self.cells, residual = self.residual, w = w, h = h, side = "rows", num = self.num_w,
           den = self.den_w}
  rank_of {num = self.num_w, den = self.den_w, l2 = self.o.l2, counts = self.row_weights, to = w}
end

local function rank_step(self, k)
  local w <const>, h <const> = rank_row(self.W, k), rank_row(self.H, k)
  local new <const> = h:copy()
  local began = tide.now()
  sums_of {cells = self.cells, residual = self.residual, w = w, h = h, side = "add"}
  for _ = 1, self.o.inner do
    self:best_rows(w, new)
    sums_of {cells = self.cells, residual = self.residual, w = w, h = new, side = "columns", num = self.num_h,
             den = self.den_h}
    self.busy = self.busy + tide.now() - began
    local sum <const> = self.team:sum("columns", self.both)
    began = tide.now()
    rank_of {num = sum:slice(1, self.columns), den = sum:slice(self.columns + 1, self.columns), l2 = self.o.l2,
             counts = self.column_weights, to = new}
  end
  h:put(1, new)
  self.squares = sums_of({cells = self.cells, residual = self.residual, w = w, h = h, side = "take"}).squares
end

---Sums over this worker's cells: squared error on held-out ones and their number.
local function test_error(self)
  if not self.test_cells then return 0, 0 end
  local left <const> = self.test_values:copy()
  local squares = 0
  for k = 1, self.o.rank do
    squares = sums_of({cells = self.test_cells, residual = left, w = rank_row(self.W, k), h = rank_row(self.H, k),
                       side = "take"}).squares
  end
  return squares, #left
end

---One pass over the ranks.
function ccd:advance()
  local before <const>, began <const> = self.H:copy(), tide.now()
  local ok, err = pcall(function()
    for k = 1, self.o.rank do
      self.busy = 0
      rank_step(self, k)
      self.team:took(self.busy, #self.values)
    end
    local test, count = test_error(self)
    local own <const> = {self.squares, penalty(self.W, self.row_weights), test, count, #self.values}
    self.sums = self.team:sum("figures", tensor.from("f64", own))
  end)
  if not ok then
    self.H:put(1, before) -- as all have it: ranks that are done again cost a pass at most
    error(err, 0)
  end
  local s <const>, l2 <const> = self.sums, self.o.l2
  local objective <const> = s[1] + l2 * (s[2] + penalty(self.H, self.column_weights))
  self.pass, self.round = self.pass + 1, self.round + 1
  local fields <const> = {pass = self.pass, objective = objective, train_rmse = math.sqrt(s[1] / math.max(1, s[5]))}
  if s[4] > 0 then fields.test_rmse, fields.test = math.sqrt(s[3] / s[4]), s[4] end
  local was <const> = self.last
  self.last = objective
  local still <const> = was and self.o.tolerance > 0 and was - objective < self.o.tolerance * objective
  if self.o.tolerance > 0 and not still and self.pass >= self.o.passes and self.team.index == 1 then
    self.w:log(("warning: tolerance %.3g is not reached: pass %d, the last of `passes`, gained %.3g of the objective")
      :format(self.o.tolerance, self.pass, was and (was - objective) / objective or 1))
  end
  self.due = {alike = fields, fields = {pass_s = tide.now() - began},
              last = still or self.pass >= self.o.passes}
end

---Writes W and H to tables: this worker's rows, its range of columns.
function ccd:store(team)
  local tables <const>, rank <const> = self.w.tables, self.o.rank
  local function rows_of(matrix, first, count)
    local out <const> = tensor.zeros("f32", count, rank)
    for i = 1, count do
      for k = 1, rank do out[(i - 1) * rank + k] = matrix[(k - 1) * matrix:columns() + first + i] end
    end
    return out
  end
  if self.count > 0 then
    tables.w:push(tensor.zeros("u64", self.count):fill(self.first, 1), rows_of(self.W, 0, self.count))
  end
  local first, count = team:piece(self.columns)
  if count > 0 then
    tables.h:push(tensor.zeros("u64", count):fill(first - 1, 1), rows_of(self.H, first - 1, count))
  end
end

---@param o table fields of tide.descent.ccd
function ccd.check(o, what)
  if math.type(o.rank) ~= "integer" or o.rank < 1 then
    error(package.error("T0203", what .. " requires `rank`, a whole number from 1 on"), 0)
  end
end

return ccd
