-- tide.package: what the modules of a package need besides what scripts see: errors of the catalogue, checked fields,
-- kernels by name, files. docs/guides/own-packages.md is the guide.
local checks = require "tide.checks"
local core = require "tide.core"
local data_sets = require "tide.run.data_sets"
local errors = require "tide.errors"
local extensions = require "tide.extensions"
local kernel = require "tide.kernel"
local script = require "tide.script"
local text = require "tide.text"

local package = {}

---Kernels by name, those of the package's plugin included; each is found when it is first asked for.
---@type table<string, tide.kernel_function>
package.kernels = setmetatable({}, {__index = function(self, name)
  local found <const> = kernel(name)
  rawset(self, name, found)
  return found
end})

---An error of the catalogue, to be raised or returned: `tide help errors` lists the codes.
---@param code string "T0113" for a wrong argument
---@param message string one sentence
---@param fields? {where?: string, help?: string} where: "file:line"; help: what to do, in place of the catalogue's
---@return tide.error
function package.error(code, message, fields) return script.error(code, message, fields) end

---What was raised or returned, as an error of the catalogue.
---@param value any
---@return tide.error
function package.error_from(value) return errors.from(value) end

---Raises a wrong argument (T0113); its place is the line of the script.
---@param message string
---@param help? string what to do
function package.fail(message, help) error(script.error("T0113", message, {help = help}), 0) end

---Raises unless `given` is a table that has known fields alone; names the nearest known field.
---@param code string of the catalogue
---@param what string what was called with it: "tide.lda.job"
---@param given any
---@param known table<string, any> by name
function package.check_fields(code, what, given, known) checks.known(code, what, given, known) end

---What a help says of a word that is not known: "did you mean `x`?", or the known ones.
---@param word string
---@param known table<string, any> by name
---@return string
function package.did_you_mean(word, known) return text.did_you_mean(word, known) end

---The names in a table, in order.
---@param t table<string, any>
---@return string[]
function package.sorted_keys(t) return text.sorted_keys(t) end

---Says how the workers of a job work together, at the core's extension points: `communication`, `adaptation`,
---`meeting`, `batch`. Call it where the job is made, on all processes. docs/guides/own-packages.md has the points.
---@param job tide.job
---@param points {communication?: tide.extension.communication, adaptation?: tide.extension.adaptation,
---  meeting?: tide.extension.meeting, batch?: tide.extension.batch}
---@return tide.job
function package.extend(job, points)
  if type(job) ~= "table" or script.jobs[job.name] ~= job then package.fail "package.extend requires a job" end
  if type(points) ~= "table" then package.fail "package.extend requires a table of extension points" end
  extensions.register(job, points)
  return job
end

---Makes a class of data sets known: its objects have `count`, the examples to train on, and `cut(self, rank, workers,
---seed)`, which returns the set as that worker sees it. A job takes such an object as `data`.
---@param class table metatable of the objects
function package.data_set(class) data_sets.register(class) end

---Whether a value is a data set, of any package.
---@param value any
---@return boolean
function package.is_data_set(value) return data_sets.is_set(value) end

---First row (from 1) and number of rows of one of `workers` contiguous pieces, whose sizes differ by at most one.
---@param count integer
---@param rank integer 1..workers
---@param workers integer
---@return integer first, integer size
function package.piece(count, rank, workers) return data_sets.piece(count, rank, workers) end

---What this Lua state is: "driver", "controller", "worker" or "actor".
---@return string
function package.role() return script.role end

---How many copies of its rows a table may have in this cluster, so that what was learnt outlives a node.
---@return integer replicas 0 where one node alone has a store
function package.copies()
  local stores = 0
  for _, member in ipairs(core.members()) do stores = stores + (member.store and member.state == "up" and 1 or 0) end
  return stores > 1 and 1 or 0
end

---The job that a run is of, with the fields that the package has given it.
---@param run tide.run
---@return tide.job
function package.job_of(run) return run.job or script.jobs[run.name] or script.newest end

---The name of this node.
---@return string
function package.node() return core.node().name end

---A name that no other actor of the cluster has: of a scratch file, say.
---@return string
function package.own_name() return (core.self():gsub("[^%w]", "-")) end

local function checked(value, err)
  if value == nil then error(errors.from(err), 3) end
  return value
end

---Makes a directory, and those above it; one that is there is fine.
---@param path string
function package.make_directory(path) checked(core.mkdir(path)) end

---Reads a file.
---@param path string
---@return string bytes; raises what went wrong
function package.read_file(path) return checked(core.file_read(path)) end

---The names of the files in a directory; nil where it is none.
---@param path string
---@return string[]|nil
function package.list_files(path) return (core.file_list(path)) end

---Writes a file, whole or not at all.
---@param path string
---@param bytes string
function package.write_file(path, bytes) checked(core.file_write(path, bytes)) end

---A scratch file of tensors at offsets: `f:write(tensor, at)` gives a sum, `f:read(tensor, at, sum)` fills the tensor
---and checks it. Both let other fibers run meanwhile; `f:close()` removes the file.
---@param path string
---@return table file; write and read return nil and an error where the disk failed
function package.scratch_file(path) return checked(core.block_file(path)) end

return package
