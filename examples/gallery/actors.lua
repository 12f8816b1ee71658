-- Actors of one's own: a group that counts words, each member its share of them.
--   tide run examples/gallery/actors.lua
local tide = require "tide"

local opt = tide.options {nodes = {"nodes, with a counter each", default = 3}}

local Counter = tide.actor {
  name  = "counter",
  start = function(self) self.counts = {} end,
  add   = function(self, words)
    for _, word in ipairs(words) do self.counts[word] = (self.counts[word] or 0) + 1 end
  end,
  top   = function(self, n)
    local list = {}
    for word, count in pairs(self.counts) do list[#list + 1] = {word = word, count = count} end
    table.sort(list, function(a, b) return a.count > b.count or a.count == b.count and a.word < b.word end)
    return table.move(list, 1, n, 1, {})
  end,
}

local TEXT <const> = [[
what is in a name that which we call a rose by any other name would smell as sweet
a rose is a rose is a rose]]

-- Whose a word is: the same member each time.
local function owner(word, size)
  local h = 5381
  for i = 1, #word do h = (h * 33 + word:byte(i)) % 2^31 // 1 | 0 end
  return h % size + 1
end

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local counters <close> = cluster:group(Counter, {}, {on = "@all", each = 1, restart = 3})
  local shares = {}
  for word in TEXT:gmatch "%a+" do
    local rank <const> = owner(word, counters.size)
    shares[rank] = shares[rank] or {}
    table.insert(shares[rank], word)
  end
  for rank, words in pairs(shares) do counters:ranks {rank}:cast("add", words) end
  local all = {}
  for _, list, err in counters:each("top", 3) do -- behind the casts: messages of a sender arrive in order
    for _, each in ipairs(assert(list, err)) do all[#all + 1] = each end
  end
  table.sort(all, function(a, b) return a.count > b.count or a.count == b.count and a.word < b.word end)
  for i = 1, 3 do print(all[i].word, all[i].count) end
end)
