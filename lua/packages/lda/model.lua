-- What topics say: words of a topic, topics of documents, coherence; saved as safetensors and as text.
local base = require "tide.lda.base"
local kernels = require("tide.package").kernels
local package = require "tide.package"
local tensor = require "tide.tensor"
local tide = require "tide"

local TOP <const> = 10

---@class tide.lda.model
---@field topics integer
---@field vocabulary integer
---@field counts table f32 tensor: n_kw, a row a word, padded to 16
---@field totals table f64 tensor: n_k
---@field alpha table f32 tensor
---@field beta number
---@field names string[]|nil
local model = {}
model.__index = model

local function new(fields)
  fields.number = {}
  for i, name in ipairs(fields.names or {}) do fields.number[name] = i - 1 end
  return setmetatable(fields, model)
end

---The topics that a run's table `z` has, counted.
---@package
function model.of_run(run)
  local o <const> = package.job_of(run).lda
  if not o then error(package.error("T0113", "this is no run of a job of tide.lda"), 3) end
  local w <const> = {tables = run.tables, state = {pass = 1}, seed = 1}
  local b <const> = base.new(w, o)
  b:fetch_alpha()
  local part <const> = b:part(0, 1)
  b:begin(part)
  local counts <const>, totals <const> = b:rows(o.corpus.vocabulary), b:zeros()
  kernels.lda_count {offsets = part.offsets, words = part.words, topics = part.z, topic_count = o.topics,
                    counts = counts, totals = totals}
  return new {topics = o.topics, vocabulary = o.corpus.vocabulary, counts = counts, totals = totals, alpha = b.alpha,
              beta = o.beta, names = o.corpus.names, corpus = o.corpus, z = part.z, seed = w.seed, base = b}
end

---p(w | k) of all words: rows of words.
---@return table f32 tensor, padded to 16
function model:phi()
  if not self.made_phi then
    self.made_phi = self.counts:copy()
    kernels.lda_phi {counts = self.made_phi, totals = self.totals, topic_count = self.topics, beta = self.beta,
                    vocabulary = self.vocabulary}
  end
  return self.made_phi
end

---The word of a number.
function model:name(word) return self.names and self.names[word + 1] or tostring(word) end

---Numbers of the words of each topic, the most probable first: a u32 tensor topics x n.
function model:top(n)
  local out <const> = tensor.zeros("u32", self.topics, n)
  kernels.lda_top {counts = self.counts, topic_count = self.topics, out = out}
  return out
end

---The n most probable words of a topic.
---@param topic integer from 1
---@param n? integer default 10
---@return string[]
function model:top_words(topic, n)
  n = n or TOP
  if not (math.tointeger(topic) and topic >= 1 and topic <= self.topics) then
    error(package.error("T0113", ("topic %s is not one of 1 to %d"):format(tostring(topic), self.topics)), 2)
  end
  self.tops = self.tops or {}
  self.tops[n] = self.tops[n] or self:top(math.min(n, self.vocabulary))
  local list <const> = {}
  local row <const> = self.tops[n]:slice(topic, 1)
  for i = 1, #row do list[i] = self:name(row[i]) end
  return list
end

---Topics by how many tokens they have, the largest first.
---@return integer[] from 1
function model:by_size()
  local order <const> = {}
  for k = 1, self.topics do order[k] = k end
  table.sort(order, function(a, b)
    if self.totals[a] ~= self.totals[b] then return self.totals[a] > self.totals[b] end
    return a < b
  end)
  return order
end

---Word numbers of a text or of a list of words; how many were unknown.
function model:words_of(value)
  local list, unknown = {}, 0
  local function add(word)
    local number <const> = math.type(word) == "integer" and word < self.vocabulary and word or self.number[word]
    if number then list[#list + 1] = number else unknown = unknown + 1 end
  end
  if type(value) == "string" then
    local small <const> = tide.data.words(value)
    for i, word in ipairs(tide.data.words(value, true)) do add(self.number[word] and word or small[i]) end
  else
    for _, word in ipairs(value) do add(word) end
  end
  table.sort(list)
  return list, unknown
end

---Topics of new documents: a text, or a list of words or word numbers, or an array of these.
---@param documents string|table
---@param o? {steps?: integer}
---@return table theta f32 tensor, documents x topics
---@return integer unknown words, which were left out
function model:theta(documents, o)
  local single <const> = type(documents) == "string" or type(documents[1]) ~= "table" and
                         not (type(documents[1]) == "string" and documents[1]:find " ")
  local list <const> = single and {documents} or documents
  local words, offsets, unknown = {}, {0}, 0
  for i, document in ipairs(list) do
    local own, left <const> = self:words_of(document)
    table.move(own, 1, #own, #words + 1, words)
    offsets[i + 1], unknown = #words, unknown + left
  end
  return self:theta_of({offsets = tensor.from("u64", offsets), words = tensor.from("u32", words)}, o), unknown
end

---The same of documents as tide.data.bow has them.
function model:theta_of(documents, o)
  local theta <const> = tensor.zeros("f32", #documents.offsets - 1, self.topics)
  kernels.lda_infer {offsets = documents.offsets, words = documents.words, phi = self:phi(), alpha = self.alpha,
                    theta = theta, steps = o and o.steps}
  return theta
end

---How well the top words of topics stand together in the training documents.
---@param n? integer words of a topic, 10
---@return {umass: number[], npmi: number[], umass_mean: number, npmi_mean: number}
function model:coherence(n)
  n = math.min(n or TOP, self.vocabulary)
  local train <const>, pairs_of <const> = self.corpus.train, tensor.zeros("i64", self.topics, n * n)
  kernels.lda_together {offsets = train.offsets, words = train.words:slice(1, #train.words), top = self:top(n),
                       pairs = pairs_of}
  local documents <const> = #train.offsets - 1
  local result <const> = {umass = {}, npmi = {}, umass_mean = 0, npmi_mean = 0}
  for k = 1, self.topics do
    local function together(i, j) return pairs_of[(k - 1) * n * n + (i - 1) * n + j] end
    local umass, npmi, count = 0, 0, 0
    for i = 2, n do
      for j = 1, i - 1 do
        local both <const>, a <const>, b <const> = together(i, j), together(i, i), together(j, j)
        if a > 0 and b > 0 then
          umass = umass + math.log((both + 1) / b)
          local p <const> = both / documents
          npmi = npmi + (both == 0 and -1 or p >= 1 and 1 or
                         math.log(p * documents * documents / (a * b)) / -math.log(p))
          count = count + 1
        end
      end
    end
    result.umass[k], result.npmi[k] = umass / math.max(count, 1), npmi / math.max(count, 1)
    result.umass_mean = result.umass_mean + result.umass[k] / self.topics
    result.npmi_mean = result.npmi_mean + result.npmi[k] / self.topics
  end
  return result
end

---- files ---------------------------------------------------------------------------------------------------------

local function raise(ok, err)
  if not ok then error(type(err) == "table" and err or package.error("T0401", tostring(err)), 0) end
  return ok
end

---Writes the model to a directory: model.safetensors (counts, totals, alpha), vocabulary.txt, topics.txt.
---@param path string
function model:save(path)
  package.make_directory(path)
  local about <const> = {format = "tide.lda", version = "1", topics = tostring(self.topics),
                         vocabulary = tostring(self.vocabulary), beta = ("%.17g"):format(self.beta)}
  tensor.save(path .. "/model.safetensors", {counts = self.counts, totals = self.totals, alpha = self.alpha}, about)
  local names <const> = {}
  for w = 0, self.vocabulary - 1 do names[w + 1] = self:name(w) end
  package.write_file(path .. "/vocabulary.txt", table.concat(names, "\n") .. "\n")
  package.write_file(path .. "/topics.txt", self:topics_text())
end

---Topics as text, the largest first: number, prior, tokens, words.
---@param n? integer
function model:topics_text(n)
  local lines <const> = {}
  for i, k in ipairs(self:by_size()) do
    lines[i] = ("%d\t%.5g\t%d\t%s"):format(k, self.alpha[k], self.totals[k] // 1,
      table.concat(self:top_words(k, n), " "))
  end
  return table.concat(lines, "\n") .. "\n"
end

---Each training document's topics as MALLET writes them: number, name, shares of all topics. Written document by
---document, so that a corpus of any size fits.
---@param path string
function model:save_documents(path)
  local train <const>, a = self.corpus.train, 0
  for k = 1, self.topics do a = a + self.alpha[k] end
  local file <const> = raise(io.open(path, "w"))
  for d = 1, #train.offsets - 1 do
    local count <const>, line <const> = {}, {d - 1, "doc" .. d - 1}
    local from <const>, to <const> = train.offsets[d], train.offsets[d + 1]
    for i = from + 1, to do count[self.z[i]] = (count[self.z[i]] or 0) + 1 end
    for k = 1, self.topics do
      line[k + 2] = ("%.6g"):format(((count[k - 1] or 0) + self.alpha[k]) / (to - from + a))
    end
    assert(file:write(table.concat(line, "\t") .. "\n"))
  end
  assert(file:close())
end

---The state of all tokens as MALLET writes it: document, source, position, type index, type, topic.
---@param path string
function model:save_state(path)
  local train <const> = self.corpus.train
  local file <const> = raise(io.open(path, "w"))
  local priors <const> = {}
  for k = 1, self.topics do priors[k] = ("%.6g"):format(self.alpha[k]) end
  assert(file:write(("#doc source pos typeindex type topic\n#alpha : %s\n#beta : %.6g\n"):format(
    table.concat(priors, " "), self.beta)))
  for d = 1, #train.offsets - 1 do
    local lines <const>, begin <const> = {}, train.offsets[d]
    local words <const> = train.words:slice(begin + 1, train.offsets[d + 1] - begin)
    for i = begin + 1, train.offsets[d + 1] do
      local w <const> = words[i - begin]
      lines[#lines + 1] = ("%d NA %d %d %s %d\n"):format(d - 1, i - begin - 1, w, self:name(w), self.z[i])
    end
    assert(file:write(table.concat(lines)))
  end
  assert(file:close())
end

---@param path string a directory that model:save has written
---@package
function model.load(path)
  local read <const>, about <const> = tensor.load(path .. "/model.safetensors")
  if about.format ~= "tide.lda" or about.version ~= "1" then
    error(package.error("T0402", ("%s/model.safetensors is no model of tide.lda, version 1"):format(path)), 0)
  end
  local names <const>, listed <const> = package.read_file(path .. "/vocabulary.txt"), {}
  for name in names:gmatch "([^\n]*)\n" do listed[#listed + 1] = name end
  if #listed ~= tonumber(about.vocabulary) or read.counts:rows() ~= #listed then
    error(package.error("T0402", ("%s/vocabulary.txt has %d words, the model %s"):format(path, #listed,
      about.vocabulary)), 0)
  end
  return new {topics = math.tointeger(tonumber(about.topics)), vocabulary = #listed, counts = read.counts,
              totals = read.totals, alpha = read.alpha, beta = tonumber(about.beta), names = listed}
end

return model
