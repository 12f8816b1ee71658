-- tide.data.bow: documents as bags of words, for topic models. Read by the core: UCI's bag of words, LDA-C, LightLDA
-- and LibSVM, text with a document a line; gzip or not.
local formats = require "tide.formats"
local package = require "tide.package"

local GLOSSES <const> = "/usr/share/wordnet" -- the place of Debian's package wordnet-base
local KNOWN <const> = {format = "string", vocabulary = "string", stop = "string", keep_case = "boolean",
                       skip = "number", min_count = "number", max_share = "number", test = "number",
                       test_last = "number", seed = "number", base = "number"}
local FORMATS <const> = {"auto", "uci", "ldac", "pairs", "text", "counts", "matrixmarket"}
local NAMES <const> = {uci = "UCI's bag of words", ldac = "LDA-C, words from 0", text = "text", counts = "word:count",
                       matrixmarket = "MatrixMarket, a row a document"}

-- Corpora A and B, by which samplers are compared (docs/guides/topics.md).
local GENERATED <const> = {
  ["generated A"] = {vocabulary = 10000, topics = 100, documents = 2000, words_mass = 500, topics_mass = 10,
                     length = 1000, seed = 1},
  ["generated B"] = {vocabulary = 5000, topics = 20, documents = 10000, words_mass = 200, topics_mass = 2, length = 100,
                     seed = 1},
}

---@class tide.data.documents
---@field offsets table u64 tensor, documents + 1: where each begins in words
---@field words table u32 tensor: word of each token, from 0, rising in a document; or a file of them (set:spooled)
---@field counts table|nil u64 tensor: how often each word occurs in the documents to train on

---@class tide.data.bow_set
---@field train tide.data.documents
---@field test tide.data.documents documents kept apart; may have none
---@field vocabulary integer words of the dictionary
---@field counts table u64 tensor: how often each word occurs in all documents
---@field names string[]|nil names[w + 1] is word w; nil: the data has numbers alone
---@field documents integer to train on
---@field tokens integer to train on
---@field note string where the data is from, for people
local set = {}

local function read_all(data, where, options, spool)
  local sources, from
  if where == nil or where == "glosses" then
    local glosses, err = formats.glosses(GLOSSES, true)
    if not glosses then return nil, err end
    sources, from = {{name = "WordNet's glosses", text = glosses}}, "WordNet's glosses, a document a synset"
  elseif GENERATED[where] then
    local texts, err = formats.generate("lda", GENERATED[where])
    if not texts then return nil, err end
    sources, from = {{name = where, text = texts[1]}}, where
  else
    sources = type(where) == "table" and where or {where}
    local piped <const> = data.check_pipes(sources)
    if piped then return nil, piped end
    from = table.concat(sources, ", ")
  end
  local o = {}
  for key, value in pairs(options) do o[key] = value end
  o.spool = spool
  if o.stop == "english" then o.stop = {name = "english stop words", text = require "tide.data.stop"} end
  local read, err = formats.bow(sources, o)
  if not read then return nil, err end
  read.documents, read.tokens = #read.train.offsets - 1, #read.train.words
  local left = read.dropped_words > 0 and ("; %d words (%d tokens) left out"):format(read.dropped_words,
                                                                                    read.dropped_tokens) or ""
  read.note = ("%s: %d documents, %d tokens, %d words%s%s; read as %s%s"):format(from, read.documents, read.tokens,
    read.vocabulary, #read.test.words > 0 and ("; %d documents for tests"):format(#read.test.offsets - 1) or "", left,
    NAMES[read.format] or "label word:count, words from " .. read.base,
    data.oddities {{read.empty, "documents have no word"}})
  return read
end

---The same data with the words to train on in a file, which goes with it: `train.words` has #, and slice(first, count)
---that reads. Reading takes memory by documents and words of the dictionary, not by tokens. What has been read stays.
---@param path fun(): string of the file, but for its ending, when it is read; its directory is there then
---@return tide.data.bow_set
function set:spooled(path)
  local read <const> = rawget(self, "read")
  if rawget(self, "loaded") then return self end
  return setmetatable({reader = function() return read(path()) end, read = read}, set)
end

---The word of a number.
---@param word integer from 0
---@return string
function set:name(word) return self.names and self.names[word + 1] or tostring(word) end

---Perplexity of the test documents under the words' shares in the training documents alone: what a topic model has to
---beat.
---@param beta? number added to each count; default 0.01
function set:unigram(beta)
  beta = beta or 0.01
  local count <const>, test <const> = self.train.counts, self.test.words
  local sum, all = 0.0, self.tokens + beta * self.vocabulary
  for _, w in pairs(test) do sum = sum + math.log((count[w + 1] + beta) / all) end
  return #test > 0 and math.exp(-sum / #test) or nil
end

local function check(options)
  for key, value in pairs(options) do
    local want <const> = KNOWN[key]
    if not want then
      error(package.error("T0115", ("tide.data.bow has no option `%s`"):format(tostring(key)),
        {help = package.did_you_mean(tostring(key), KNOWN)}), 3)
    elseif type(value) ~= want then
      error(package.error("T0113",
        ("option `%s` of tide.data.bow is a %s, not a %s"):format(key, type(value), want)), 3)
    end
  end
  local known = options.format == nil
  for _, format in ipairs(FORMATS) do known = known or options.format == format end
  if not known then
    error(package.error("T0105", ("format `%s` of tide.data.bow is none of %s"):format(options.format,
      table.concat(FORMATS, ", "))), 3)
  end
  for _, key in ipairs {"test", "max_share"} do
    local v <const> = options[key]
    if v and not (v >= 0 and v < 1 or key == "max_share" and v == 1) then
      error(package.error("T0113", ("%s = %s is no share of the documents, 0 to 1"):format(key, v)), 3)
    end
  end
  for _, key in ipairs {"skip", "min_count", "test_last", "seed", "base"} do
    local v <const> = options[key]
    if v and not (math.tointeger(v) and v >= 0) then
      error(package.error("T0113", ("%s = %s is not a whole number from 0"):format(key, v)), 3)
    end
  end
end

return function(data)
  function set:__index(key) return rawget(set, key) or data.read(self)[key] end

  ---Documents for a topic model. Read when first used.
  ---@param where? string|string[] files; "glosses" (default): those of WordNet; "generated A", "generated B"
  ---@param options? {format?: "auto"|"uci"|"ldac"|"pairs"|"text"|"counts"|"matrixmarket", base?: 0|1,
  ---  vocabulary?: string, stop?: string, keep_case?: boolean, skip?: integer, min_count?: integer, max_share?: number,
  ---  test?: number, test_last?: integer, seed?: integer}
  ---  vocabulary: a file with a word a line, or lines `id word`, for formats of numbers; base: the number of the first
  ---  word of "pairs", else 0 if a 0 occurs and 1 if none does. Of text: stop: a file of words that are left out,
  ---  or "english"; skip: fields of a line before its words; min_count, max_share: rarer words, and words of a larger
  ---  share of the documents, are left out. test: share of the documents that is kept apart, drawn by seed; test_last:
  ---  as many of the last ones instead
  ---@return tide.data.bow_set
  return function(where, options)
    options = options or {}
    check(options)
    local function read(spool) return read_all(data, where, options, spool) end
    return setmetatable({reader = read, read = read}, set)
  end
end
