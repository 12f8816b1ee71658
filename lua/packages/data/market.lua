-- tide.data.market: sparse examples in MatrixMarket's coordinate form, one example a row, with a file of labels: a
-- number a line, or MatrixMarket's array form.
local arrays = require "tide.data.arrays"
local formats = require "tide.formats"
local package = require "tide.package"
local tensor = require "tide.tensor"

---Numbers of a file, with the line that each is on.
local function numbers_of(path)
  local ok <const>, text <const> = pcall(package.read_file, path)
  if not ok then return nil, text end
  local list, line, sizes = {}, 0, nil
  local rows <const> = text:gsub("[%s]+$", "") -- an empty line may be at the end
  local market <const> = text:find "^%%%%MatrixMarket" ~= nil
  if market and not text:find "^%%%%MatrixMarket%s+matrix%s+array%s+%a+%s+general" then
    return nil, package.error("T0402", "a file of labels in MatrixMarket's form is `matrix array real general`",
      {where = path .. ":1"})
  end
  for row in (rows .. "\n"):gmatch "([^\n]*)\n" do
    line = line + 1
    local word <const> = row:match "^%s*(.-)%s*$"
    if word == "" then
      return nil, package.error("T0402", "expected a label, found an empty line: it moves the labels behind it",
        {where = ("%s:%d"):format(path, line)})
    end
    if word:find "^%%" then goto continue end
    if market and not sizes then
      local n <const>, columns <const> = word:match "^(%d+)%s+(%d+)$"
      if columns ~= "1" then
        return nil, package.error("T0402", ("labels are one column, not `%s`"):format(word),
          {where = ("%s:%d"):format(path, line)})
      end
      sizes = math.tointeger(tonumber(n))
      goto continue
    end
    local v <const> = not word:find "^[+-]?0[xX]" and tonumber(word)
    if not v or v ~= v or v == math.huge or v == -math.huge then
      return nil, package.error("T0402", ("`%s` is no finite number"):format(word:sub(1, 40)),
        {where = ("%s:%d"):format(path, line)})
    end
    list[#list + 1] = v
    ::continue::
  end
  if sizes and sizes ~= #list then
    return nil, package.error("T0402", ("there are %d labels, the head says %d"):format(#list, sizes), {where = path})
  end
  return list
end

---Cells in any order by row, columns rising: two stable sorts by counting.
local function rows_of(part, rows, columns, path)
  local n <const> = part.values:rows()
  local flat <const> = part.cells:view(1, 2 * n, 1)
  local function side(first) return tensor.zeros("u32", n, 1):pick(flat, tensor.zeros("u32", n, 1):fill(first, 2)) end
  local row <const>, column <const> = side(0), side(1)
  local each <const> = tensor.zeros("u64", n + 1, 1):fill(0, 1) -- a cell is a row of one entry
  local function sort(keys, count, values)
    local offsets <const>, order <const> = tensor.zeros("u64", count + 1, 1), tensor.zeros("u32", n, 1)
    local sorted <const> = tensor.zeros("f32", n, 1)
    package.kernels.sparse_columns {offsets = each, indices = keys, values = values, columns = count,
                                  to_offsets = offsets, to_rows = order, to_values = sorted}
    return order, sorted, offsets
  end
  local order, values = sort(column, columns, part.values)
  local column_next <const> = tensor.zeros("u32", n, 1):pick(column, order)
  local offsets
  order, values, offsets = sort(tensor.zeros("u32", n, 1):pick(row, order), rows, values)
  local indices <const> = tensor.zeros("u32", n, 1):pick(column_next, order)
  for i = 1, rows do
    for at = offsets[i] + 2, offsets[i + 1] do
      if indices[at] == indices[at - 1] then
        return nil, package.error("T0402", ("row %d, column %d is there twice"):format(i, indices[at] + 1),
          {where = path})
      end
    end
  end
  return offsets, indices, values
end

---@return table|nil labels, table|nil f32 tensor of classes, or an error
local function labels_of(list, class, path)
  local written <const>, err = arrays.converted(tensor.from("f64", list), "f32", path, "labels")
  if not written then return nil, err end
  if not class then return written end
  local seen, classes = {}, {}
  for _, v in ipairs(list) do
    if not seen[v] then
      seen[v] = true
      classes[#classes + 1] = v
    end
  end
  table.sort(classes)
  for i, v in ipairs(classes) do seen[v] = i - 1 end
  local labels <const> = tensor.zeros("i32", #list, 1)
  for i, v in ipairs(list) do labels[i] = seen[v] end
  return labels, tensor.from("f32", classes)
end

local function read(path, labels, options, sparse_rows)
  local matrix, err = formats.matrix({path}, {format = "matrixmarket", test = 0, seed = 1})
  if not matrix then return nil, err end
  local function column_file(file, what)
    local list, problem = numbers_of(file)
    if list and #list ~= matrix.rows then
      list, problem = nil, package.error("T0402", ("%d %s of %d rows of %s"):format(#list, what, matrix.rows, path),
        {where = file})
    end
    return list, problem
  end
  local list
  list, err = column_file(labels, "labels")
  if not list then return nil, err end
  local offsets, indices, values = rows_of(matrix.parts.train, matrix.rows, matrix.columns, path)
  if not offsets then return nil, indices end
  local y <const>, classes = labels_of(list, options.labels == "class", labels)
  if not y then return nil, classes end
  local part <const> = setmetatable({offsets = offsets, indices = indices, values = values, labels = y,
                                     columns = matrix.columns}, sparse_rows)
  if options.tasks then
    list, err = column_file(options.tasks, "tasks")
    if not list then return nil, err end
    part.tasks = tensor.zeros("u32", #list, 1)
    for i, v in ipairs(list) do
      if not math.tointeger(v) or v < 0 or v > 0xffffffff then
        return nil, package.error("T0402", ("task %g of row %d is no whole number from 0 on"):format(v, i),
          {where = options.tasks})
      end
      part.tasks[i] = math.tointeger(v)
    end
  end
  return {parts = {train = part}, columns = matrix.columns, classes = classes, count = matrix.rows,
          note = ("%s: %d examples, %d columns, %d entries%s"):format(path, matrix.rows, matrix.columns, #values,
            classes and (", %d classes"):format(#classes) or "")}
end

return function(data, sparse_rows)
  ---Sparse examples of a MatrixMarket file, one a row, with a file of labels: a number a line, or `matrix array`.
  ---@param path string `%%MatrixMarket matrix coordinate`
  ---@param labels string a file with a label for each row
  ---@param options? {labels?: "number"|"class", tasks?: string} labels "class": the distinct labels, rising, become 0,
  ---1, ..; tasks: a file with the number of each row's task
  ---@return tide.data.set columns, classes, part train
  return function(path, labels, options)
    options = options or {}
    package.check_fields("T0115", "tide.data.market", options, {labels = true, tasks = true})
    if type(path) ~= "string" or type(labels) ~= "string" then
      error(package.error("T0113", "tide.data.market needs the path of a matrix and of its labels"), 2)
    end
    if options.labels ~= nil and options.labels ~= "number" and options.labels ~= "class" then
      error(package.error("T0105", ("tide.data.market: labels `%s` is none of number, class"):format(
        tostring(options.labels))), 2)
    end
    return data.lazy(function() return read(path, labels, options, sparse_rows) end)
  end
end
