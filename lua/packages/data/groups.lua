-- tide.data.groups: a worker goes through all its cells in a random order, in groups, and says ahead which columns the
-- next groups use, so that these come while it works. Other workers use them too, at any time. With fetch = "intent" a
-- group is a clock of the worker.
--
-- Orders: "columnwise", columns in random order and in each its cells (as NuPS, SIGMOD 2022, and AdaPM, 2022, train);
-- "plain", any cell after any other.
local formats = require "tide.formats"
local package = require "tide.package"
local tide = require "tide"

---@class tide.data.groups
local groups = {}
groups.__index = groups

local ORDERS <const> = {columnwise = true, plain = true}
local FETCHES <const> = {localize = true, intent = true}

---@class tide.data.group
---@field cells table u32 tensor n x 2: row and column, from 0
---@field values table f32 tensor
---@field col_keys table u64 tensor: the columns of its cells

---@param w tide.worker
---@param o {part: {cells: table, values: table}, rows: integer, cols: integer, order: "columnwise"|"plain",
---  size?: integer, columns?: table, fetch?: "localize"|"intent", ahead?: integer}
---  size: cells of a group (1000). columns: the table of columns, if they are to come; fetch: by which call; ahead: how
---  many groups before they are used (4)
---@return tide.data.groups
---@package
function groups.new(w, o)
  local size <const>, ahead <const> = o.size or 1000, o.ahead or 4
  if not ORDERS[o.order] then
    error(package.error("T0105", ("`%s` is none of the orders columnwise, plain"):format(tostring(o.order))), 3)
  end
  if o.fetch and not FETCHES[o.fetch] then
    error(package.error("T0105", ("`%s` is none of the ways to fetch localize, intent"):format(tostring(o.fetch))), 3)
  end
  if math.type(size) ~= "integer" or size < 1 or math.type(ahead) ~= "integer" or ahead < 0 then
    error(package.error("T0113", "a group has 1 cell or more, and is asked for 0 groups ahead or more"), 3)
  end
  return setmetatable({w = w, part = o.part, rows = o.rows, cols = o.cols, order = o.order, size = size,
                       columns = o.fetch and o.columns, fetch = o.fetch, ahead = ahead}, groups)
end

---Columns that are used in the worker's clock `clock`: a ticket, or nothing that could be waited for.
local function ask(self, keys, clock)
  if self.fetch == "localize" then return self.columns:localize(keys, {async = true}) end
  self.w:intent(self.columns, keys, clock)
  return nil
end

---The groups of one epoch: `for group in groups:epoch(n) do ... end`. Each epoch has an order of its own. At the end
---others may still be at work: w:barrier() waits for all.
---@param epoch integer from 1
---@return fun(): tide.data.group|nil
function groups:epoch(epoch)
  local w <const> = self.w
  local cells <const>, columns <const>, offsets <const> = formats.matrix_groups(self.part, {
    rows = self.rows, columns = self.cols, size = self.size, by_columns = self.order == "columnwise",
    seed = tide.random((w.seed * 1000003 + epoch) * 65537 + w.rank):below(1 << 53)})
  if not cells then error(columns, 0) end
  local count <const>, all <const>, began <const>, coming <const> = #offsets - 1, #cells.values, w.clocks, {}
  local at, asked = -1, 0
  local function keys_of(n) return columns:slice(offsets[n + 1] + 1, offsets[n + 2] - offsets[n + 1]) end
  return function()
    if self.fetch == "intent" and at >= 0 then w:clock() end
    at = at + 1
    while self.columns and asked < math.min(at + self.ahead + 1, count) do
      coming[asked] = ask(self, keys_of(asked), began + asked)
      asked = asked + 1
    end
    if at == count then return nil end
    if coming[at] then
      local ok, err = coming[at]:wait()
      if not ok then error(err, 0) end
      coming[at] = nil
    end
    local first <const> = at * self.size
    local length <const> = math.min(self.size, all - first)
    return {cells = cells.cells:slice(first + 1, length), values = cells.values:slice(first + 1, length),
            col_keys = keys_of(at)}
  end
end

return groups
