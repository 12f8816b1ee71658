-- squares: a sum by a kernel of its own. Put what the package is for in its place.
local package = require "tide.package"
local tensor = require "tide.tensor"
local tide = require "tide"

local kernels <const> = tide.kernel.load "squares/squares.so"

local squares = {}

---A job that adds up i * i for i = 1 .. count.
---@param o {name: string, count: integer}
---@return tide.job
function squares.job(o)
  package.check_fields("T0203", "squares.job", o, {name = true, count = true})
  if math.type(o.count) ~= "integer" or o.count < 1 then
    package.fail "squares.job: `count` is a whole number from 1"
  end
  return tide.job {
    name = o.name,
    tables = {sum = tide.table {keys = tide.dense(1), width = 1, update = "add"}},
    worker = function(w)
      local own = {}
      for i = w.rank, o.count, w.workers do own[#own + 1] = i end
      local found <const> = kernels.squares_sum {values = tensor.from("f32", own)}
      w.tables.sum:push({0}, tensor.from("f32", {found.sum}))
      w:barrier "all have pushed"
      w:report {examples = #own}
    end,
  }
end

---The sum that a run found.
---@param run tide.run
---@return number
function squares.sum(run) return run.tables.sum:pull({0})[1] end

return squares
