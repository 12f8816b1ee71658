---@meta
-- Methods of tensors, which C provides (lua/host/data/tensor.c, tensor_math.c, tensor_map.c). docs/guides/tensors.md is the
-- guide. Positions in scripts count from 1; numbers of rows that lie in tensors count from 0.

---@class tide.tensor A flat typed array of rows and columns, row after row. `t[i]` and `#t` count elements; `t[i]` costs as much as a hundred elements of a method, so it is for debugging. `a + b`, `a - b`, `a * b`, `a / b` make new tensors.
local tensor = {}

---How many rows it has.
---@return integer
function tensor:rows() end

---How many numbers a row has.
---@return integer
function tensor:columns() end

---The type of its elements.
---@return "f32"|"f64"|"i32"|"i64"|"u64"|"u8"|"u32"|"u16"
function tensor:type() end

---Some of its rows, in the same memory.
---@param first integer from 1
---@param count integer
---@return tide.tensor
function tensor:slice(first, count) end

---Some of its elements, across rows, in another shape and the same memory.
---@param first integer element, from 1
---@param rows integer
---@param columns integer
---@return tide.tensor
function tensor:view(first, rows, columns) end

---A tensor with memory of its own.
---@return tide.tensor
function tensor:copy() end

---Sets every element; with a step, to v, v + step, v + 2 step, ...
---@param v number
---@param step? number
---@return tide.tensor self
function tensor:fill(v, step) end

---Copies the rows of another tensor to those from `first` on.
---@param first integer from 1
---@param source tide.tensor
function tensor:put(first, source) end

---Row i becomes the row of `source` that the i-th number names.
---@param source tide.tensor
---@param numbers tide.tensor u32, from 0
function tensor:pick(source, numbers) end

---Sum of all elements, in double precision.
---@return number
function tensor:sum() end

---Mean of all elements, in double precision.
---@return number
function tensor:mean() end

---The least element.
---@return number
function tensor:min() end

---The greatest element.
---@return number
function tensor:max() end

---Puts the rows into a random order; the same seed gives the same.
---@param seed integer
---@return tide.tensor self
function tensor:shuffle(seed) end

---Its memory as a string.
---@return string
function tensor:bytes() end

---Its elements as a flat array, row after row.
---@return number[]
function tensor:totable() end

---A tensor of another type. Whole numbers stay what they are and fractions are rounded; what does not fit is an error.
---@param type "f32"|"f64"|"i32"|"i64"|"u64"|"u8"|"u32"|"u16"
---@return tide.tensor
function tensor:convert(type) end

---An element as text that reads as the same number again, as CSV files have it.
---@param i integer from 1
---@return string
function tensor:text(i) end

---An f64 tensor as three f32 numbers an element, whose sum it is exactly: so f64 numbers can lie in tables. tide.tensor.joined puts them together.
---@return tide.tensor
function tensor:split() end

---Adds a number, a tensor of this shape, a row to every row, or a column to every column.
---@param x number|tide.tensor
---@return tide.tensor self
function tensor:add(x) end

---Subtracts, as add.
---@param x number|tide.tensor
---@return tide.tensor self
function tensor:sub(x) end

---Multiplies element by element, as add.
---@param x number|tide.tensor
---@return tide.tensor self
function tensor:mul(x) end

---Divides element by element, as add.
---@param x number|tide.tensor
---@return tide.tensor self
function tensor:div(x) end

---Adds a times x: `w:axpy(-rate, gradient)`.
---@param a number
---@param x tide.tensor of this shape, a row, or a column
---@return tide.tensor self
function tensor:axpy(a, x) end

---Sum of products with another tensor of as many elements, in double precision.
---@param x tide.tensor
---@return number
function tensor:dot(x) end

---Square root of the sum of squares.
---@return number
function tensor:norm() end

---Sum of each row.
---@return tide.tensor column
function tensor:row_sums() end

---Sum of each column.
---@return tide.tensor row
function tensor:column_sums() end

---Product of each row with the row of x, or with x's only row.
---@param x tide.tensor
---@return tide.tensor column
function tensor:row_dots(x) end

---Greatest element of each row.
---@return tide.tensor column
function tensor:row_max() end

---Least element of each row.
---@return tide.tensor column
function tensor:row_min() end

---In which column each row's greatest element is, from 0; the first of equal ones.
---@return tide.tensor u32 column
function tensor:argmax() end

---In which column each row's least element is, from 0; the first of equal ones.
---@return tide.tensor u32 column
function tensor:argmin() end

---The rows that the numbers name.
---@param numbers tide.tensor of whole numbers, from 0
---@return tide.tensor
function tensor:gather(numbers) end

---Row numbers[i] grows by row i of x, or by a number. Numbers may repeat.
---@param numbers tide.tensor of whole numbers, from 0
---@param x tide.tensor|number
---@return tide.tensor self
function tensor:scatter_add(numbers, x) end

---Becomes `scale` a b + `keep` times itself; f32, by OpenBLAS.
---@param a tide.tensor
---@param b tide.tensor
---@param o? {transpose_a?: boolean, transpose_b?: boolean, scale?: number, keep?: number}
---@return tide.tensor self
function tensor:matmul(a, b, o) end

---Rows become columns.
---@return tide.tensor
function tensor:transpose() end

---Draws every element from [low, high); the same seed gives the same numbers.
---@param seed integer
---@param low? number default 0
---@param high? number default 1
---@return tide.tensor self
function tensor:uniform(seed, low, high) end

---Draws every element from a normal distribution; the same seed gives the same numbers.
---@param seed integer
---@param mean? number default 0
---@param std? number default 1
---@return tide.tensor self
function tensor:normal(seed, mean, std) end

---Computes every element anew, in one pass: `t:map("max(x, 0) / (1 + s)", {s = sums})`. `x` is the element, other names are values. There are + - * / ^, comparisons (1 or 0), exp log sqrt abs tanh sigmoid relu floor sign min max.
---@param expression string
---@param values? table<string, number|tide.tensor> tensors of this shape, rows or columns
---@return tide.tensor self
function tensor:map(expression, values) end

return tensor
