-- tide.data.text: running text as word numbers, cut over the workers at ends of lines. Read by the core.
local formats = require "tide.formats"
local package = require "tide.package"

local GLOSSES <const> = "/usr/share/wordnet" -- the place of Debian's package wordnet-base

---@class tide.data.text_set
---@field words string[] words[w + 1] is word w; word 0 is "</s>", the end of a line; the others by falling count
---@field counts table u64 tensor: how often each word occurs
---@field vocabulary integer number of words
---@field tokens table u32 tensor: the text (on a worker: its own part, from the start of a line to the end of one)
---@field count integer tokens (on a worker: of its own part)
---@field total integer tokens of the whole text
---@field note string where the text is from, for people
local set = {}

---The text whose words of one topic meet only each other and the common ones: what a model must find out is known.
local GENERATED <const> = {vocabulary = 10000, words = 100000, sentence = 20, seed = 3}

local function sources_of(where)
  if where == nil or where == "glosses" then
    local text, err = formats.glosses(GLOSSES)
    if not text then return nil, err end
    return {{name = "WordNet's glosses", text = text}}, "glosses of WordNet"
  elseif where == "generated" then
    local texts, err = formats.generate("text", GENERATED)
    if not texts then return nil, err end
    return {{name = "generated text", text = texts[1]}}, "generated text, 50 topics"
  end
  if type(where) == "table" and where.generate then
    package.check_fields("T0115", "tide.data.text's `generate`", where.generate, GENERATED)
    local sizes = {}
    for key, default in pairs(GENERATED) do sizes[key] = where.generate[key] or default end
    local texts, err = formats.generate("text", sizes)
    if not texts then return nil, err end
    return {{name = "generated text", text = texts[1]}}, "generated text, 50 topics"
  end
  local paths = type(where) == "table" and where or {where}
  return paths, table.concat(paths, ", ")
end

local function read_all(data, where, options)
  local sources, from = sources_of(where)
  if not sources then return nil, from end
  local piped <const> = data.check_pipes(sources)
  if piped then return nil, piped end
  local read, err = formats.corpus(sources, options)
  if not read then return nil, err end
  read.vocabulary, read.count, read.total = #read.words, #read.tokens, #read.tokens
  read.from = from
  read.note = ("%s: %d tokens, %d words%s"):format(from, read.count, read.vocabulary, read.dropped_words > 0
    and (" (%d rarer than %d left out)"):format(read.dropped_words, options.min_count) or "")
  return read
end

---The first token behind the end of a line at or after `at` (both from 0).
local function line_start(tokens, at)
  if at == 0 then return 0 end
  while at < #tokens and tokens[at] ~= 0 do at = at + 1 end -- token at - 1 stands at position `at` of the tensor
  return at
end

return function(data)
  package.data_set(set)

  function set:__index(key)
    return rawget(set, key) or set.read(self)[key]
  end

  set.read = data.read

  ---The text as seen by one of several workers: a run of whole lines.
  function set:cut(rank, workers)
    local whole <const> = self
    return setmetatable({reader = function()
      local all = set.read(whole)
      local first = line_start(all.tokens, all.count * (rank - 1) // workers)
      local last = rank == workers and all.count or line_start(all.tokens, all.count * rank // workers)
      local own = {}
      for k, v in pairs(all) do own[k] = v end
      if last <= first then
        local why <const> = "worker %d of %d has none of the text, which is cut at ends of lines: it has %d of them"
        return nil, package.error("T0402", why:format(rank, workers, all.counts[1]), {where = all.from,
          help = "break its lines, or take fewer workers"})
      end
      own.tokens, own.count = all.tokens:slice(first + 1, last - first), last - first
      return own
    end}, set)
  end

  ---Running text, a sentence a line, as numbers of words.
  ---@param where? string|string[]|{generate: table} files; "glosses" (default): those of WordNet; "generated": text
  ---  with known topics, or {generate = {vocabulary=, words=, sentence=, seed=}} of these sizes
  ---@param options? {min_count?: integer, format?: "text"} words that occur less often are left out; format: a file
  ---  that looks like another form (MatrixMarket, word:count, JSON) is text all the same
  ---@return tide.data.text_set
  return function(where, options)
    options = options or {}
    package.check_fields("T0115", "tide.data.text", options, {min_count = true, format = true})
    if options.format ~= nil and options.format ~= "text" then
      error(package.error("T0113", "tide.data.text: `format` is \"text\""), 2)
    end
    local least = options.min_count or 1
    if math.type(least) ~= "integer" or least < 1 then
      error(package.error("T0113", ("min_count = %s is not a whole number from 1"):format(tostring(least))), 2)
    end
    local o <const> = {min_count = least, format = options.format}
    return setmetatable({reader = function() return read_all(data, where, o) end}, set)
  end
end
