-- tide.formats: native readers of files and generators of inputs, which data sets are made of. tide.data uses it; a
-- package with a data set of its own reads by these too, and registers its class by package.data_set. Readers return
-- nil and an error with file:line where they fail; formats.error makes the script's error of it. A source is a path
-- (packed by gzip or not) or {name =, text =}.
local array_files = require "tide.array_files"
local core = require "tide.core"
local csv = require "tide.csv"

local formats = {}

---The error of a reader as scripts see it: its place becomes `where`.
---@param err any
---@return tide.error
function formats.error(err) return array_files.reader_error(err) end

---- arrays ----------------------------------------------------------------------------------------------------------

---The arrays of a file of any writer. Arrays of objects and texts are left out; to index one of them is an error.
---@param path string
---@param format? "npy"|"npz"|"safetensors" default: by the path's ending
---@return table<string, tide.tensor>|nil tensors, table dims by name, or an error
---@return table<string, string>? left_out why, by name
---@return table<string, string>? about metadata of safetensors
function formats.arrays(path, format) return array_files.read(path, format) end

---Writes tensors, in the format of the path's ending: .npy, .npz, .csv or .safetensors.
---@param path string
---@param value tide.tensor|table<string, tide.tensor>
---@param about? table<string, string> metadata of safetensors
---@return true|nil, table? err
function formats.write_arrays(path, value, about) return array_files.write(path, value, about) end

---Writes tensors by name as safetensors, whole or not at all, whatever the path's ending.
---@param path string
---@param tensors table<string, tide.tensor>
---@param about? table<string, string> metadata
---@return true|nil, table? err
function formats.write_safetensors(path, tensors, about) return core.safetensors_write(path, tensors, about) end

---Images or labels in MNIST's format.
---@param path string
---@return tide.tensor|nil f32 of 0 .. 1, an example a row; of labels i32
---@return integer[] dims, or an error
function formats.idx(path) return core.idx(path) end

---The columns of a CSV file.
---@param path string
---@param options table columns, separator, decimal, header, missing, others
---@return table[]|nil columns {name=, type=, values=, classes=, absent=, not_finite=}
---@return table form {rows=, separator=, blank_lines=}, or an error
function formats.csv(path, options) return core.csv(path, options) end

---A line of CSV, with its end.
---@param count integer
---@param value_at fun(i: integer): any
---@return string
function formats.csv_line(count, value_at) return csv.line(count, value_at) end

---- rows and cells --------------------------------------------------------------------------------------------------

---Sparse rows of files in libsvm's form.
---@param sources table one or two: train, test
---@param options {labels?: "number"|"class", base?: integer, columns?: integer, tasks?: boolean}
---@return table|nil read {parts={{offsets=, indices=, values=, labels=}}, columns=, base=, queries=, classes=}
---@return table? err
function formats.libsvm(sources, options) return core.libsvm(sources, options) end

---Sparse rows in another order.
---@param rows table offsets, indices, values
---@param seed integer
---@return table rows {offsets=, indices=, values=, order=}: row i was row order[i] (from 0)
function formats.sparse_shuffle(rows, seed) return core.sparse_shuffle(rows, seed) end

---Sparse rows as a dense tensor.
---@param rows table
---@param columns integer
---@param first integer
---@param count integer
---@return tide.tensor f32
function formats.sparse_dense(rows, columns, first, count) return core.sparse_dense(rows, columns, first, count) end

---Cells of a matrix, from ratings or MatrixMarket's form.
---@param sources table one or two: train, test
---@param options? {format?: string, test?: number, seed?: integer, center?: boolean, names?: boolean}
---@return table|nil read {rows=, columns=, parts=, row_counts=, column_counts=, mean=, note=}
---@return table? err
function formats.matrix(sources, options) return core.matrix(sources, options) end

---Cells block after block of a grid.
---@param part table cells, values
---@param grid {rows: integer, columns: integer, blocks: integer, first: integer, count: integer}
---@return table part, tide.tensor offsets u64: one a block, and the end
function formats.matrix_blocks(part, grid) return core.matrix_blocks(part, grid) end

---Cells in a random order, and the columns of each group of them.
---@param part table cells, values
---@param o {size: integer, seed: integer}
---@return table part, tide.tensor columns, tide.tensor offsets
function formats.matrix_groups(part, o) return core.matrix_groups(part, o) end

---- words and graphs ------------------------------------------------------------------------------------------------

---Text as word numbers.
---@param sources table 1 to 16
---@param options {min_count?: integer}
---@return table|nil read {words=, counts=, tokens=, dropped_words=, dropped_tokens=}
---@return table? err
function formats.corpus(sources, options) return core.corpus(sources, options) end

---Documents as bags of words.
---@param sources table
---@param options table format, keep_case, skip, min_count, max_share, stop, vocabulary, test, test_last, seed
---@return table|nil read {train=, test=, names=, counts=, vocabulary=}
---@return table? err
function formats.bow(sources, options) return core.bow(sources, options) end

---The words of a text, as formats.bow finds them.
---@param text string
---@param keep_case? boolean
---@return string[]
function formats.words(text, keep_case) return core.words(text, keep_case) end

---The numbers (from 0) of the words that a file of word vectors has, and their vectors.
---@param path string
---@param words string[]
---@return tide.tensor|nil numbers u64
---@return tide.tensor vectors f32, or an error
function formats.word_vectors(path, words) return core.word_vectors(path, words) end

---WordNet's glosses, a line of lower-case words each.
---@param directory string
---@param whole? boolean a line a gloss, not one a part of it
---@return string|nil text, table? err
function formats.glosses(directory, whole) return core.glosses(directory, whole) end

---The WordNet database as triples.
---@param directory string
---@param options table
---@return table|nil read {entities=, relations=, parts=, note=}
---@return table? err
function formats.wordnet(directory, options) return core.wordnet(directory, options) end

---Triples of files of lines `head TAB relation TAB tail`.
---@param paths string[]
---@param options table
---@return table|nil read {entities=, relations=, parts=}
---@return table? err
function formats.triples(paths, options) return core.triples(paths, options) end

---Samples that are graphs: trees, chains, lattices.
---@param sources table
---@param options {format: string, classes?: integer}
---@return table|nil forest, table? err
function formats.forest(sources, options) return core.forest(sources, options) end

---A generated forest.
---@param o table name, samples, vocabulary, seed, max, leaves, skew
---@return table|nil forest, table? err
function formats.forest_generate(o) return core.forest_generate(o) end

---Texts of a generated input.
---@param kind "mf"|"kge"|"text"|"sparse"|"lda"
---@param sizes table
---@return string[]|nil texts, table? err
function formats.generate(kind, sizes) return core.generate(kind, sizes) end

return formats
