-- A text as tokens that are frequent runs of bytes. Sennrich et al., arXiv 1508.07909, on bytes as GPT-2 has them:
-- tokens 0 to 255 are the bytes, and each further token joins the most frequent pair of tokens. Pairs lie within words:
-- runs of letters, of digits or of other signs, each with the blank before it, and runs of blanks.
local package = require "tide.package"

local BYTES <const> = 256
local LONGEST <const> = 64 -- bytes of a word, as joining takes the square of them
local KINDS <const> = {"^ ?[%a\x80-\xff]+", "^ ?%d+", "^%s+", "^ ?[^%s%w\x80-\xff]+"}

---@class tide.data.byte_pairs
---@field size integer tokens of the code, numbered from 0
---@field texts table<integer, string> the bytes of each token
local code = {}
code.__index = code

local function words(text)
  local at = 1
  return function()
    local window <const> = text:sub(at, at + LONGEST - 1)
    for _, kind in ipairs(KINDS) do
      local word <const> = window:match(kind)
      if word then
        at = at + #word
        return word
      end
    end
  end
end

local function key(a, b) return a << 24 | b end

---The tokens with each a before b, from the left, replaced by `by`.
local function joined(tokens, a, b, by)
  local made, i = {}, 1
  while i <= #tokens do
    local both <const> = tokens[i] == a and tokens[i + 1] == b
    made[#made + 1] = both and by or tokens[i]
    i = i + (both and 2 or 1)
  end
  return made
end

-- Occurrences of pairs, and the words in which each has been.
local pairs_of = {}
pairs_of.__index = pairs_of

function pairs_of:count(word, times)
  for i = 1, #word.tokens - 1 do
    local pair <const> = key(word.tokens[i], word.tokens[i + 1])
    local sum <const> = (self.sums[pair] or 0) + times
    self.sums[pair] = sum ~= 0 and sum or nil
    self.words[pair] = self.words[pair] or {}
    self.words[pair][word] = true
  end
end

---The most frequent pair, the lowest of equals; nil: none occurs twice.
function pairs_of:best()
  local best, most = nil, 1
  for pair, sum in pairs(self.sums) do
    if sum > most or sum == most and best and pair < best then best, most = pair, sum end
  end
  return best
end

---@param text string
---@param size integer
---@return tide.data.byte_pairs
function code.new(text, size)
  if type(text) ~= "string" then
    error(package.error("T0113", ("tide.data.byte_pairs requires a text, not a %s"):format(type(text))), 3)
  end
  if math.type(size) ~= "integer" or size < BYTES or size > 1 << 20 then
    error(package.error("T0113", ("tide.data.byte_pairs: the size is %s, not a number of tokens from %d, one for each "
      .. "byte, to %d"):format(tostring(size), BYTES, 1 << 20)), 3)
  end
  local self <const> = setmetatable({size = BYTES, texts = {}, ids = {}, known = {}}, code)
  for byte = 0, BYTES - 1 do self.texts[byte] = string.char(byte) end
  local times <const>, seen <const> = {}, setmetatable({sums = {}, words = {}}, pairs_of)
  for word in words(text) do times[word] = (times[word] or 0) + 1 end
  for word, n in pairs(times) do seen:count({tokens = {word:byte(1, -1)}, times = n}, n) end
  while self.size < size do
    local pair <const> = seen:best()
    if not pair then break end
    local a <const>, b <const> = pair >> 24, pair & (1 << 24) - 1
    self.texts[self.size], self.ids[pair] = self.texts[a] .. self.texts[b], self.size
    for word in pairs(seen.words[pair]) do
      seen:count(word, -word.times)
      word.tokens = joined(word.tokens, a, b, self.size)
      seen:count(word, word.times)
    end
    seen.words[pair] = nil
    self.size = self.size + 1
  end
  return self
end

-- Joins the pairs of a word in the order in which they were found.
local function tokens_of(self, word)
  local tokens = {word:byte(1, -1)}
  while true do
    local first, a, b
    for i = 1, #tokens - 1 do
      local id <const> = self.ids[key(tokens[i], tokens[i + 1])]
      if id and (not first or id < first) then first, a, b = id, tokens[i], tokens[i + 1] end
    end
    if not first then return tokens end
    tokens = joined(tokens, a, b, first)
  end
end

---The tokens of any text: `tide.tensor.from("i32", code:encode(text))`.
---@param text string
---@return integer[]
function code:encode(text)
  local all, n = {}, 0
  for word in words(text) do
    local tokens <const> = self.known[word] or tokens_of(self, word)
    self.known[word] = tokens
    for i, token in ipairs(tokens) do all[n + i] = token end
    n = n + #tokens
  end
  return all
end

---The text of tokens.
---@param tokens integer[]|table a list or a tensor
---@return string
function code:decode(tokens)
  local all <const> = {}
  for i = 1, #tokens do
    all[i] = self.texts[tokens[i]]
    if not all[i] then
      error(package.error("T0113", ("token %d is %s; the code has tokens 0 to %d"):format(i, tostring(tokens[i]),
        self.size - 1)), 2)
    end
  end
  return table.concat(all)
end

return code
