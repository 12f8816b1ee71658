-- Where the topics and proposals of a part of the documents are between phases: in memory, or in a file.
--
-- A part's tokens lie in the order of (part of words, word, document); a block is those of one part of words. In a
-- file a part has the topics of all its blocks, then the proposals, then where its documents' tokens lie, then the
-- topics that are remembered. Every read is checked by the sum that its write gave; the file is scratch, and goes with
-- the worker.
local package = require "tide.package"
local tensor = require "tide.tensor"

---@class tide.lda.blocks
local blocks = {}
blocks.__index = blocks

---@param o {type: string, directory: string|nil, name: string}
---@return tide.lda.blocks
function blocks.new(o)
  return setmetatable({type = o.type, size = o.type == "u16" and 2 or 4, directory = o.directory, name = o.name,
                       parts = {}}, blocks)
end

local function raise(ok, err)
  if not ok then error(err, 0) end
  return ok
end

---Takes a part over.
---@param p integer
---@param starts table u32 tensor: where each word begins, and the end
---@param bounds integer[] first word of each block, in the order of parts of words, and the end
---@param places table u32 tensor
---@param z table topics, in the order of words
function blocks:add(p, starts, bounds, places, z)
  local count <const> = #z
  local part <const> = {starts = starts, count = count, at = {}, sums = {}}
  for q = 1, #bounds do part.at[q - 1] = starts[bounds[q] + 1] end
  self.parts[p] = part
  local proposals <const> = tensor.zeros(self.type, count)
  if not self.directory then
    part.z, part.proposals, part.places = z, proposals, places
    return
  end
  part.path = ("%s/%s-%d.blocks"):format(self.directory, self.name, p)
  part.file = package.scratch_file(part.path)
  self:put_part(p, z, proposals)
  part.places_sum = raise(part.file:write(places, 2 * count * self.size))
  part.rows = #places
end

---Forgets a part.
function blocks:remove(p)
  local part <const> = self.parts[p]
  if part and part.file then part.file:close() end
  self.parts[p] = nil
end

function blocks:close()
  for p in pairs(self.parts) do self:remove(p) end
end

---The range of a block in its part: first token, from 0, and how many.
function blocks:range(p, q)
  local at <const> = self.parts[p].at
  return at[q], at[q + 1] - at[q]
end

local function read(part, type, count, at, sum)
  local values <const> = tensor.zeros(type, count)
  raise(part.file:read(values, at, sum))
  return values
end

---Topics and proposals of a block; they may share storage with the part.
function blocks:block(p, q)
  local part <const> = self.parts[p]
  local first <const>, count <const> = self:range(p, q)
  if not part.file then return part.z:slice(first + 1, count), part.proposals:slice(first + 1, count) end
  return read(part, self.type, count, first * self.size, part.sums[q]),
         read(part, self.type, count, (part.count + first) * self.size, part.sums[-1 - q])
end

function blocks:put_block(p, q, z, proposals)
  local part <const> = self.parts[p]
  local first <const> = self:range(p, q)
  if not part.file then
    part.z:put(first + 1, z)
    part.proposals:put(first + 1, proposals)
    return
  end
  part.sums[q] = raise(part.file:write(z, first * self.size))
  part.sums[-1 - q] = raise(part.file:write(proposals, (part.count + first) * self.size))
end

---Topics, proposals and places of a whole part; they may share storage with it.
function blocks:part(p)
  local part <const> = self.parts[p]
  if not part.file then return part.z, part.proposals, part.places end
  local z <const>, proposals <const> = tensor.zeros(self.type, part.count), tensor.zeros(self.type, part.count)
  for q = 0, #part.at - 1 do
    local own <const>, offered <const> = self:block(p, q)
    z:put(part.at[q] + 1, own)
    proposals:put(part.at[q] + 1, offered)
  end
  return z, proposals, read(part, "u32", part.rows, 2 * part.count * self.size, part.places_sum)
end

function blocks:put_part(p, z, proposals)
  local part <const> = self.parts[p]
  if not part.file then
    part.z, part.proposals = z, proposals
    return
  end
  for q = 0, #part.at - 1 do
    local first <const>, count <const> = self:range(p, q)
    self:put_block(p, q, z:slice(first + 1, count), proposals:slice(first + 1, count))
  end
end

-- Where the remembered topics of a part begin in its file: behind topics, proposals and places.
local function former_at(self, part) return part.count * (2 * self.size + 4) end

---Keeps the topics that a part has now for blocks:restore.
function blocks:remember(p)
  local part <const> = self.parts[p]
  if not part.file then
    part.former = part.z:copy()
    return
  end
  part.former = {}
  for q = 0, #part.at - 1 do
    local first <const> = self:range(p, q)
    part.former[q] = raise(part.file:write((self:block(p, q)), former_at(self, part) + first * self.size))
  end
end

---The remembered topics are those of the part again.
function blocks:restore(p)
  local part <const> = self.parts[p]
  if not part.former then return end
  if not part.file then
    part.z = part.former
  else
    for q = 0, #part.at - 1 do
      local first <const>, count <const> = self:range(p, q)
      local z <const> = read(part, self.type, count, former_at(self, part) + first * self.size, part.former[q])
      part.sums[q] = raise(part.file:write(z, first * self.size))
    end
  end
  part.former = nil
end

function blocks:forget(p) self.parts[p].former = nil end

return blocks
