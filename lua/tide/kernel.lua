-- tide.kernel: native inner loops. `tide.kernel "name"` is one of this build (`tide help kernels`),
-- `tide.kernel.load` has those of a shared object of your own (docs/guides/kernels.md).
local checks = require "tide.checks"
local core = require "tide.core"
local errors = require "tide.errors"
local script = require "tide.script"
local text = require "tide.text"

local kernel = {}

---@alias tide.kernel_function fun(arguments: table): table<string, number>

-- An operation of a shared object is applied by the class of its first operand, which has that as `__operation`.
local function applied(name, own, numbers)
  return function(first, ...)
    local class <const> = getmetatable(first)
    if type(class) ~= "table" or not class.__operation then
      error(script.error("T0903", ("operation %s is applied to a %s, not to a value"):format(name, type(first))), 2)
    end
    return class.__operation(name, own, numbers, first, ...)
  end
end

---Loads the kernels, the operations of programs and the update rules of tables of a shared object. At the top of a
---script it runs on every node, and all have to have the same file. A rebuilt file is loaded again;
---active runs keep the old functions.
---@param path string relative to the script
---@return table<string, tide.kernel_function> module kernels and operations by name; `version` is what the module says
function kernel.load(path)
  if type(path) ~= "string" then
    error(script.error("T0113", "tide.kernel.load requires the path of a shared object"), 2)
  end
  local directory <const> = (script.path or ""):match("^(.*)/[^/]*$")
  local full <const> = path:sub(1, 1) ~= "/" and directory and directory .. "/" .. path or path
  local bytes, problem = core.file_read(full)
  if not bytes then
    error(script.error("T0909", ("%s: %s"):format(full, errors.from(problem).message)), 2)
  end
  local module, why = core.kernel_module(bytes, full)
  if not module then error(script.error("T0909", ("%s: %s"):format(full, why)), 2) end
  script.modules["kernels " .. path] = {path = full, sha = module.sha}
  for name, numbers in pairs(module.rules) do
    local other <const> = script.rules[name]
    if other and other.path ~= full then
      error(script.error("T0909", ("%s: the update rule `%s` is in %s too: a script has one of a name"):format(full,
        name, other.path)), 2)
    end
    script.rules[name] = {numbers = numbers, version = module.sha, path = full}
  end
  local known <const> = module.kernels
  if not known.version then known.version = module.version end
  for name, operation in pairs(module.operations) do
    known[name] = applied(name, operation.own, operation.numbers)
  end
  return setmetatable(known, {__index = function(_, name)
    error(checks.unknown("T0901", full .. " has no kernel `%s`", name, known), 2)
  end})
end

return setmetatable(kernel, {
  ---A native inner loop of this build: a function of named arguments that returns named numbers.
  ---@param name string
  ---@return tide.kernel_function
  __call = function(_, name)
    local found, one = pcall(core.kernel, name)
    if found then return one end
    local names = {}
    for i, known in ipairs(core.kernels()) do names[i] = known.name end
    error(script.error("T0901", errors.from(one).message, {help = text.did_you_mean(name, names)}), 2)
  end,
})
