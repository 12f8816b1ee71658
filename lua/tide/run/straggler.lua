-- A straggler on purpose, for experiments on what it costs: how many times as long a worker takes for a clock. All
-- workers agree on it, since it depends on the seed and the clock alone. `tide.straggler` in scripts.
local core = require "tide.core"
local errors = require "tide.errors"

local KINDS <const> = {moves = true, stays = true, none = true}

local function whole(n, most) return math.type(n) == "integer" and n >= 1 and n <= most end

---"stays": worker 1 is slow from beginning to end. "moves": at any clock one worker is slow, drawn anew every `clocks`
---clocks (the slow worker may be drawn again). Each worker counts by its own clocks, so one that is behind is still
---slow in a clock which the others have left.
---@param o {workers: integer, kind?: "moves"|"stays"|"none", factor?: number, clocks?: integer, seed?: integer}
---@return fun(rank: integer, clock: integer): number factor of the worker in its clock; 1: not slow
local function straggler(o)
  local kind <const>, factor <const>, clocks <const> = o.kind or "moves", o.factor or 4, o.clocks or 1
  if not (whole(o.workers, 1 << 16) and KINDS[kind] and whole(clocks, 1 << 30) and type(factor) == "number" and
          factor >= 1 and factor <= 1000) then
    error(errors.new("T0113", "tide.straggler requires workers, kind = \"moves\", \"stays\" or \"none\", a factor of 1 "
      .. "to 1000 and clocks of 1 or more"), 2)
  end
  local function slow_one(clock)
    if kind == "stays" then return 1 end
    return core.random((o.seed or 1) * 1000003 + clock // clocks):below(o.workers) + 1
  end
  return function(rank, clock) return kind ~= "none" and slow_one(clock) == rank and factor or 1 end
end

return straggler
