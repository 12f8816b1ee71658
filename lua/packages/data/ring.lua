-- tide.data.ring: a plan by which blocks of columns go round the workers' parts: every part meets every block once a
-- turn, and no two parts have a block at one time.
--
-- P parts, 3 P blocks (one part: one block). In round r part p works on block 3 p + r modulo 3 P, which moves to part
-- p - 1 for round r + 3: so it travels while two others are worked on, and at the end of a turn it is where it began.

---@class tide.data.ring
---@field parts integer
---@field blocks integer also the rounds of a turn
local ring = {LAG = 3}
ring.__index = ring

---@param parts integer
---@return tide.data.ring
function ring.new(parts)
  return setmetatable({parts = parts, blocks = parts == 1 and 1 or ring.LAG * parts}, ring)
end

---The block, from 0, that part p (from 0) works on in round r (from 0).
function ring:block(p, r) return (ring.LAG * p + r) % self.blocks end

---The next owner of the block of part p, three rounds later.
function ring:next(p) return (p - 1) % self.parts end

---@return integer[] blocks that are part p's before the first round of a turn, and after the last
function ring:home(p)
  if self.parts == 1 then return {0} end
  return {ring.LAG * p, ring.LAG * p + 1, ring.LAG * p + 2}
end

return ring
