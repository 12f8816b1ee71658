-- tide.package: what the modules of a package need besides what scripts see: errors of the catalogue, checked fields,
-- kernels by name, files. docs/guides/own-packages.md is the guide.
local core = require "tide.core"
local errors = require "tide.errors"
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

---Raises a wrong argument (T0113); its place is the line of the script.
---@param message string
---@param help? string what to do
function package.fail(message, help) error(script.error("T0113", message, {help = help}), 0) end

---Raises unless `given` is a table that has known fields alone; names the nearest known field.
---@param code string of the catalogue
---@param what string what was called with it: "tide.lda.job"
---@param given any
---@param known table<string, any> by name
function package.check_fields(code, what, given, known) script.check_fields(code, what, given, known) end

---What a help says of a word that is not known: "did you mean `x`?", or the known ones.
---@param word string
---@param known table<string, any> by name
---@return string
function package.did_you_mean(word, known) return text.did_you_mean(word, text.sorted_keys(known)) end

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
