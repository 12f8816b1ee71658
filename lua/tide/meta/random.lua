---@meta
-- Generators of random numbers, which C provides (lua/host/data/data.c).

---@class tide.generator Of `tide.random(seed)`, and `w.rng` of a worker. The same seed gives the same numbers.
local generator = {}

---The next 64 random bits.
---@return integer
function generator:next() end

---A number in [0, 1).
---@return number
function generator:uniform() end

---A whole number in 0 .. n - 1, all equally likely.
---@param n integer
---@return integer
function generator:below(n) end

---Where it stands, as text, for `restore`.
---@return string
function generator:state() end

---Goes on from a state.
---@param state string
function generator:restore(state) end

return generator
