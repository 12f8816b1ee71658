---@meta
-- Readers of arrays, which lua/packages/data/arrays.lua makes; docs/guides/data.md is the guide.

local data = {}

---NumPy's arrays as inputs by name: an array a file, one example a row; `tide.data.npy {x = "x.npy", y = "y.npy"}`. A single path is the input `x`.
---@param where string|table<string, string> path, packed by gzip or not, or paths by name
---@param o? {split?: {test: number, seed?: integer}, wide?: boolean} split: a share is held out; wide: numbers of 64 bits stay, else they become f32 and i32
---@return tide.data.set parts train.NAME and, with a split, test.NAME; dims by name
function data.npy(where, o) end

---The arrays of NumPy's .npz, stored or compressed, as inputs by name.
---@param where string
---@param o? {names?: table<string, string>, split?: {test: number, seed?: integer}, wide?: boolean} names: {x = "features"}, default all by their own names
---@return tide.data.set parts train.NAME and, with a split, test.NAME; dims by name
function data.npz(where, o) end

---The tensors of a safetensors file of any writer as inputs by name. f16 and bf16 become f32, i8 and i16 i32.
---@param where string
---@param o? {names?: table<string, string>, split?: {test: number, seed?: integer}, wide?: boolean} names: {x = "features"}, default all by their own names
---@return tide.data.set parts train.NAME and, with a split, test.NAME; dims by name
function data.safetensors(where, o) end

---A table of text, packed by gzip or not, read piece by piece: a line of names, then an example a line. A column is a number if its first row has one, else a class; `columns` says otherwise.
---@param path string
---@param o? {columns?: table<string, "number"|"integer"|"class"|"text"|"skip">, inputs?: table<string, string|string[]>, separator?: string, decimal?: "."|",", header?: boolean, missing?: number, split?: {test: number, seed?: integer}, wide?: boolean} inputs: {x = {"a", "b"}, y = "label"}, "*" for all other numbers; default each column by its own name; missing: what a cell without a value (empty, NA, null, nan) counts in a column of numbers; header: whether line 1 has names, which have to be texts if it is not said
---@return tide.data.set parts train.NAME and, with a split, test.NAME; classes and texts by the column's name
function data.csv(path, o) end

return data
