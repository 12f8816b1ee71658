-- Word vectors by skip-gram with negative sampling, on the glosses of WordNet or a text of your own.
--   tide run word2vec.lua                                the glosses of Debian's WordNet, two node processes
--   tide run word2vec.lua --data corpus.txt --window 8   a sentence a line, words between blanks
--   tide run word2vec.lua --data generated               a text with 50 known topics: does it find them?
local tide = require "tide"

local opt = tide.options {
  data      = {"a text file; \"glosses\" of WordNet; \"generated\": text with known topics", default = "glosses"},
  dim       = {"values of a vector", default = 100, min = 1},
  epochs    = {"passes over the text; without it 10 with --data generated, else 5", type = "integer"},
  window    = {"most words on each side of a word", default = 5, min = 1},
  negatives = {"words drawn for each pair", default = 5},
  alpha     = {"step size at the start, falls to 0; without it 0.025 with --data generated, else 0.05",
               type = "number"},
  subsample = {"words more frequent than this share are thinned; without it 0.01 with --data generated, else 0.001",
               type = "number"},
  min_count = {"rarer words are left out; without it 1 with --data generated, else 5", type = "integer"},
  sampling  = {"how negatives are drawn (docs/guides/tables.md): independently, or so that their rows are near",
               default = "pool", choices = {"naive", "preloc", "pool", "postpone", "local"}},
  batch     = {"pairs whose rows are pulled and pushed together; without it 1024, fewer of long vectors",
               type = "integer"},
  nearest   = {"words whose neighbours are shown, with commas between", default = "dog,king,water,red,quickly,music"},
  technique = {"rows stay; words that are frequent have copies on all nodes; or words go where they are next used",
               default = "static", choices = {"static", "replicate", "intent"}},
  nodes     = {"node processes on this machine", default = 2, min = 1},
  workers   = {"workers of each node", default = 1, min = 1},
  seed      = {"of initial values and draws", default = 1},
  text      = {"file for the vectors, word2vec's text format", type = "string"},
  binary    = {"file for the vectors, word2vec's binary format", type = "string"},
  save      = {"file for the tables, safetensors", type = "string"},
  json      = {"one JSON object instead of text", default = false},
}

local generated <const> = opt.data == "generated"
local epochs <const> = opt.epochs or (generated and 10 or 5)
local alpha <const> = opt.alpha or (generated and 0.025 or 0.05)
local subsample <const> = opt.subsample or (generated and 1e-2 or 1e-3)
local PIECES <const> = 20                       -- reports of progress, and steps of alpha, an epoch
local ALPHA_LEAST <const> = 1e-4                -- of its start
local HOT <const> = 100                         -- a word so many times as frequent as the mean has copies (NuPS)
local AHEAD <const> = 2                         -- pieces whose words are intended

local data = tide.data.text(opt.data, {min_count = opt.min_count or (generated and 1 or 5)})

---Step size when a share of all the work is done.
local function alpha_at(done) return alpha * math.max(ALPHA_LEAST, 1 - done) end

---- evaluation ------------------------------------------------------------------------------------------------------

---The words with at least `least` occurrences of which `fits` says so, most frequent first: keys, names.
local function chosen_words(d, least, most, fits)
  local keys, names = {}, {}
  for i = 2, d.vocabulary do
    if d.counts[i] < least or #keys == most then break end
    if fits(i - 1, d.words[i]) then keys[#keys + 1], names[#names + 1] = i - 1, d.words[i] end
  end
  return tide.tensor.from("u64", keys), names
end

---Of the generated text: share of the ten nearest words that are of a word's own topic (words from w100 have one).
local function topic_purity(input, d)
  local keys, names = chosen_words(d, 20, math.maxinteger, function(_, name)
    return tonumber(name:match "^w(%d+)$" or 0) >= 100
  end)
  local nearest = tide.tensor.zeros("u32", #keys, 10)
  tide.kernel "cosine_nearest" {rows = input, keys = keys, out = nearest}
  local topic, same = {}, 0
  for i, name in ipairs(names) do topic[i] = (tonumber(name:sub(2)) - 100) % 50 end
  for i = 1, #keys do
    for j = 1, 10 do
      if topic[nearest[(i - 1) * 10 + j] + 1] == topic[i] then same = same + 1 end
    end
  end
  return same / (10 * #keys), #keys
end

---Synsets above the first noun sense of each word: {[synset] = steps}, over WordNet's hypernyms.
local function ancestors_of(names)
  local net = tide.data.wordnet()
  local number, hypernym, parents = {}, {}, {}
  for i, name in ipairs(net.entities) do number[name] = i - 1 end
  for i, name in ipairs(net.relations) do hypernym[i - 1] = name == "hypernym" or name == "instance_hypernym" end
  for _, part in ipairs {"train", "valid", "test"} do
    local triples = net:whole(part)
    for i = 1, #triples, 3 do
      if hypernym[triples[i + 1]] then
        local child = triples[i]
        parents[child] = parents[child] or {}
        table.insert(parents[child], triples[i + 2])
      end
    end
  end
  local all = {}
  for i, name in ipairs(names) do
    local steps, queue, at = {}, {number[name .. ".n.01"]}, 1
    if queue[1] and parents[queue[1]] then
      steps[queue[1]] = 0
      while queue[at] do
        for _, parent in ipairs(parents[queue[at]] or {}) do
          if not steps[parent] then
            steps[parent] = steps[queue[at]] + 1
            queue[#queue + 1] = parent
          end
        end
        at = at + 1
      end
      all[i] = steps
    end
  end
  return all
end

---Ranks from 1, equal values share the mean of theirs.
local function ranks(values)
  local order, rank = {}, {}
  for i = 1, #values do order[i] = i end
  table.sort(order, function(a, b) return values[a] < values[b] end)
  local i = 1
  while i <= #order do
    local j = i
    while j < #order and values[order[j + 1]] == values[order[i]] do j = j + 1 end
    for k = i, j do rank[order[k]] = (i + j) / 2 end
    i = j + 1
  end
  return rank
end

---Spearman's rank correlation.
local function spearman(x, y)
  local a, b = ranks(x), ranks(y)
  local mean, ab, aa, bb = (#a + 1) / 2, 0, 0, 0
  for i = 1, #a do
    ab, aa, bb = ab + (a[i] - mean) * (b[i] - mean), aa + (a[i] - mean) ^ 2, bb + (b[i] - mean) ^ 2
  end
  return ab / math.sqrt(aa * bb)
end

---How alike two synsets are: 2 depth(the nearest common one above) / (depth of both) (Wu and Palmer, ACL 1994), the
---root having depth 1; nil if none is above both.
local function similarity(a, b)
  local nearest, steps_a, steps_b
  for synset, steps in pairs(a) do
    local other = b[synset]
    if other and (not nearest or steps + other < steps_a + steps_b) then
      nearest, steps_a, steps_b = synset, steps, other
    end
  end
  if not nearest then return nil end
  local deepest = 0
  for synset, steps in pairs(a) do
    if b[synset] then deepest = math.max(deepest, steps - steps_a) end
  end
  local depth <const> = deepest + 1
  return 2 * depth / (2 * depth + steps_a + steps_b)
end

---Rank correlation of cosines with Wu and Palmer's similarity in WordNet, over pairs of the most frequent words that
---are first a noun.
local function wordnet_correlation(input, d)
  local keys, names = chosen_words(d, 20, 3000, function(_, name) return name:match "^%a%a%a+$" end)
  local above = ancestors_of(names)
  local random, positions, likeness = tide.random(opt.seed), {}, {}
  local nouns = {}
  for i = 1, #names do if above[i] then nouns[#nouns + 1] = i end end
  if #nouns < 10 then return nil end
  local bins = {}                              -- most pairs of words have little in common: as many of each likeness
  for _ = 1, 200000 do
    local i, j = nouns[random:below(#nouns) + 1], nouns[random:below(#nouns) + 1]
    local alike = i ~= j and similarity(above[i], above[j])
    local bin = alike and math.ceil(alike * 5)
    if bin and (bins[bin] or 0) < 1000 then
      bins[bin] = (bins[bin] or 0) + 1
      positions[#positions + 1], positions[#positions + 2] = i - 1, j - 1
      likeness[#likeness + 1] = alike
    end
  end
  local out = tide.tensor.zeros("f32", #likeness, 1)
  tide.kernel "cosine_pairs" {rows = input, keys = keys, pairs = tide.tensor.from("u32", positions), out = out}
  return spearman(out:totable(), likeness), #nouns
end

---The five nearest of each word that was asked for, among the 20,000 most frequent.
local function neighbours(input, d)
  local keys, names = chosen_words(d, 1, 20000, function() return true end)
  local count <const> = math.min(5, #keys - 1)
  local nearest, scores = tide.tensor.zeros("u32", #keys, count), tide.tensor.zeros("f32", #keys, count)
  tide.kernel "cosine_nearest" {rows = input, keys = keys, out = nearest, scores = scores}
  local position, list = {}, {}
  for i, name in ipairs(names) do position[name] = i end
  for word in opt.nearest:gmatch "[^,%s]+" do
    local at, near = position[word], {}
    for j = 1, at and count or 0 do
      local n = (at - 1) * count + j
      near[j] = {word = names[nearest[n] + 1], cosine = scores[n]}
    end
    if at then list[#list + 1] = {word = word, nearest = near} end
  end
  return list
end

---- files -----------------------------------------------------------------------------------------------------------

---Writes the vectors as word2vec does: "V d", then a word and d numbers a line.
local function write_vectors(path, input, d, row_text)
  local file <close> = assert(io.open(path, "wb"))
  assert(file:write(("%d %d\n"):format(d.vocabulary, opt.dim)))
  for first = 0, d.vocabulary - 1, 1024 do
    local keys = {}
    for key = first, math.min(first + 1024, d.vocabulary) - 1 do keys[#keys + 1] = key end
    local rows = input:pull(keys)
    for i, key in ipairs(keys) do assert(file:write(d.words[key + 1], " ", row_text(rows:slice(i, 1)), "\n")) end
  end
  assert(file:flush())
  return path
end

local function as_text(row)
  local numbers = row:totable()
  for i, x in ipairs(numbers) do numbers[i] = ("%.6g"):format(x) end
  return table.concat(numbers, " ")
end

---- where the rows are ----------------------------------------------------------------------------------------------

---Words come in the order of their counts: how many are frequent.
local function hot_words(d)
  local total, hot = 0, {}
  for i = 1, d.vocabulary do total = total + d.counts[i] end
  for i = 1, d.vocabulary do
    if d.counts[i] * d.vocabulary >= HOT * total then hot[#hot + 1] = i - 1 end
  end
  return hot
end

---Draws negatives as the kernel itself does, by counts^0.75 without the end of a line (word 0), by a scheme of its own.
local function negatives_of(w)
  if opt.sampling == "naive" then return nil end
  local weights = {}
  for i = 1, w.data.vocabulary do weights[i] = i > 1 and w.data.counts[i] ^ 0.75 or 0 end
  return w.tables.output:sampler {dist = weights, scheme = opt.sampling, seed = w.seed * 65537 + w.rank}
end

---This worker will use the words of a piece of its text in clock `clock`.
local function intend(w, clock, from, to)
  local seen, keys = {}, {}
  for i = from + 1, to do
    local word = w.data.tokens[i]
    if word < w.data.vocabulary and not seen[word] then seen[word], keys[#keys + 1] = true, word end
  end
  w:intent(w.tables.input, keys, clock)
  w:intent(w.tables.output, keys, clock)
end

---- the job ---------------------------------------------------------------------------------------------------------

local job = tide.job {
  name = "word2vec",
  data = data,
  seed = opt.seed,
  stop = {epochs = epochs},

  tables = function(d)                         -- the vector of word w, and its output vector, under key w
    local technique = opt.technique == "intent" and "intent" or "static"
    return {
      input  = tide.table {keys = tide.dense(d.vocabulary), width = opt.dim, update = "add", technique = technique,
                           init = tide.uniform {low = -0.5 / opt.dim, high = 0.5 / opt.dim}},
      output = tide.table {keys = tide.dense(d.vocabulary), width = opt.dim, update = "add", technique = technique},
    }
  end,

  worker = function(w)
    local train, d, sampler = tide.kernel "sgns_train", w.data, negatives_of(w)
    local function piece_of(n) return d.count * (n % PIECES) // PIECES, d.count * (n % PIECES + 1) // PIECES end
    if opt.technique == "replicate" and w.rank == 1 then
      assert(w.tables.input:manage(hot_words(d), "replicate"))
      assert(w.tables.output:manage(hot_words(d), "replicate"))
    end
    for n = 0, opt.technique == "intent" and AHEAD - 1 or -1 do intend(w, n, piece_of(n)) end
    for epoch = 1, epochs do
      local began <const> = tide.now()
      local sums = {loss = 0, pairs = 0, steps = 0}
      for piece = 1, PIECES do
        local n <const> = (epoch - 1) * PIECES + piece - 1
        local from, to = piece_of(n)
        if opt.technique == "intent" then intend(w, n + AHEAD, piece_of(n + AHEAD)) end
        local r = train {
          input = w.tables.input, output = w.tables.output, tokens = d.tokens, first = from, count = to - from,
          counts = d.counts, window = opt.window, negatives = opt.negatives, subsample = subsample, sampler = sampler,
          batch = opt.batch,
          alpha = alpha_at((epoch - 1 + from / d.count) / epochs),
          alpha_last = alpha_at((epoch - 1 + to / d.count) / epochs),
          seed = ((w.seed * 1000003 + w.rank) * 1009 + epoch) * PIECES + piece}
        for k in pairs(sums) do sums[k] = sums[k] + r[k] end
        if opt.technique == "intent" then w:clock() end
        w:report {loss = r.loss, examples = r.tokens, wait = false}                   -- moves the progress line
        if w:stopping() then break end
      end
      w:report {loss = sums.loss, pairs = sums.pairs, steps = sums.steps, examples = d.count,
                train_s = tide.now() - began}
      if w:stopping() then break end
    end
  end,
}

---Seconds of the slowest worker.
local function slowest(report)
  local most = 0
  for _, worker in ipairs(report.workers) do most = math.max(most, worker.train_s) end
  return most
end

tide.main(function()
  local quiet <const> = opt.json or tide.output.json
  local function say(...) if not quiet then print(string.format(...)) end end
  say("data: %s", data.note)
  say("negatives: sampling %s", opt.sampling)
  local cluster <close> = tide.cluster {nodes = opt.nodes, workers = opt.workers}
  local run = cluster:start(job)
  local list = {}
  for r in run:events "report" do
    local e = {epoch = r.n, loss = r.pairs > 0 and r.loss / r.pairs or nil, pairs = r.pairs, steps = r.steps,
               train_s = slowest(r)}
    list[#list + 1] = e
    say("epoch %2d  %s  %.3g steps  %7.3f s", e.epoch, e.loss and ("loss %.4f a pair"):format(e.loss)
      or "no pair of words to train on", e.steps, e.train_s)
  end
  local summary = run:wait()
  local input = run.tables.input

  local result, files = {schema = "tide.word2vec/1", data = data.note, epochs = list}, {}
  if generated then
    result.purity, result.purity_words = topic_purity(input, data)
    say("\ntopic purity@10 %.4f over %d words (chance 0.0185, ceiling 0.8825)", result.purity, result.purity_words)
  else
    if opt.data == "glosses" then
      result.correlation, result.correlation_words = wordnet_correlation(input, data)
      say("\nrank correlation with similarity in WordNet %.3f, over pairs of %d nouns", result.correlation,
        result.correlation_words)
    end
    result.nearest = neighbours(input, data)
    for _, entry in ipairs(result.nearest) do
      local words = {}
      for i, near in ipairs(entry.nearest) do words[i] = ("%s %.2f"):format(near.word, near.cosine) end
      say("%-10s %s", entry.word, table.concat(words, "  "))
    end
  end
  if opt.text then files[#files + 1] = write_vectors(opt.text, input, data, as_text) end
  if opt.binary then
    files[#files + 1] = write_vectors(opt.binary, input, data, function(row) return row:bytes() end)
  end
  if opt.save then for _, file in ipairs(run:dump(opt.save, {"input", "output"})) do files[#files + 1] = file end end
  result.files = files
  if quiet then
    for k, v in pairs(summary:to_data()) do if result[k] == nil then result[k] = v end end
    print(tide.json.encode(result))
    return
  end
  print()
  print(summary:table {"reports", "epoch_s", "accesses_local", "accesses_remote", "local_share", "wire_bytes",
                       "wire_messages"})
  for _, file in ipairs(files) do say("written: %s", file) end
end)
