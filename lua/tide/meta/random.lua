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

---Draws an image into a row of `x`: a square picture, shifted, each pixel with a brightness of its own and noise.
---@param x tide.tensor f32, a row an image
---@param row integer from 1
---@param picture tide.tensor f64 1 x (size * size)
---@param dx integer columns to shift by
---@param dy integer rows to shift by
function generator:picture(x, row, picture, dx, dy) end

---Where it stands, as text, for `restore`.
---@return string
function generator:state() end

---Continues from a state.
---@param state string
function generator:restore(state) end

return generator
