-- rounds: sums in rounds, by workers that come and go. The package has a data set of its own, and registers at the
-- extension point `meeting`: its workers meet before each round and divide the numbers among those that are there.
local package = require "tide.package"
local tensor = require "tide.tensor"
local tide = require "tide"

local rounds = {}

---- a data set: the numbers 1 .. count --------------------------------------------------------------------------------

local numbers = {}
numbers.__index = numbers
package.data_set(numbers)

function numbers:cut() return self end -- all workers see all numbers: they divide them when they meet

---- the job ---------------------------------------------------------------------------------------------------------

-- The workers that are to take part in the next round, and the newest round that is over.
local function agree(w, round, leaves)
  local values <const> = w:barrier("epoch", {round = round, leaves = leaves})
  local ranks, newest = {}, 0
  for rank, v in pairs(values) do
    newest = math.max(newest, v.round)
    if not v.leaves then ranks[#ranks + 1] = rank end
  end
  table.sort(ranks)
  return ranks, newest
end

local function work(w, o)
  local round = 0
  while true do
    local leaves <const> = w:stopping()
    local ranks <const>, newest <const> = agree(w, round, leaves)
    if leaves or newest == o.rounds then return end
    for i, rank in ipairs(ranks) do
      if rank == w.rank then
        local first <const>, count <const> = package.piece(o.count, i, #ranks)
        local sum = 0
        for n = first, first + count - 1 do sum = sum + n end
        w.tables.sum:push({0}, tensor.from("f32", {sum}))
        round = newest + 1
        w:report {examples = count}
      end
    end
  end
end

---A job that adds up 1 .. count, `rounds` times.
---@param o {name: string, count: integer, rounds: integer}
---@return tide.job
function rounds.job(o)
  package.check_fields("T0203", "rounds.job", o, {name = true, count = true, rounds = true})
  local job <const> = tide.job {
    name = o.name, data = setmetatable({count = o.count}, numbers), on_worker_loss = "replay",
    tables = {sum = tide.table {keys = tide.dense(1), width = 1, update = "add"}},
    worker = function(w) work(w, o) end,
  }
  return package.extend(job, {meeting = {}})
end

---@param run tide.run
---@return number
function rounds.sum(run) return run.tables.sum:pull({0})[1] end

return rounds
