#!/bin/bash
# Topics (docs/guides/topics.md): the same ones for a seed however workers, parts and files cut the work, whoever dies or joins;
# every token is counted once after every pass; topics that are known are found; a faulty disk gives an error or the right
# topics, never others.
. "$(dirname "$0")/harness.sh"

awk 'BEGIN {
    srand(3)
    for (d = 0; d < 240; d++) {
        for (i = 0; i < 30; i++) {
            t = rand() < 0.9 ? d % 4 : int(4 * rand())
            printf "%s%d ", substr("abcd", t + 1, 1), int(12 * rand() * rand())
        }
        print ""
    }
}' >corpus.txt
cat >lda.lua <<'LUA'
local tide = require "tide"
local sim = require "tide.sim"
local core = require "tide.core"
local opt = tide.options {
  sampler = {"how", default = "gibbs"}, mode = {"where", default = "auto"}, parts = {"of documents", type = "integer"},
  nodes = {"nodes", default = 1}, memory = {"limit", type = "string"}, crash = {"when n2 dies", default = ""},
  grow = {"workers come and go", default = false}, disk = {"chance of an error of the disk", default = 0.0},
  passes = {"passes", default = 12}, optimize = {"the prior", type = "string"},
  keep = {"passes between writes of topics", default = 1}, stop = {"the run, behind that report", default = 0},
}
local corpus = tide.data.bow "corpus.txt"
local job = tide.lda.job {name = "lda", corpus = corpus, topics = 4, passes = opt.passes, alpha = 0.1, beta = 0.05,
                          sampler = opt.sampler, mode = opt.mode, parts = opt.parts, memory = opt.memory, eval_every = 1,
                          keep = opt.keep, check = true, spill = opt.memory and "spill" or nil, optimize = opt.optimize}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes, servers = 1}
  if opt.crash ~= "" then sim.fault("crash", {node = "n2", at = opt.crash}) end
  if opt.disk > 0 then sim.fault("disk", {node = "n1", error = opt.disk}) end
  local run = cluster:start(job)
  local ll
  for r in run:events "report" do
    ll = r.ll
    assert(r.examples == corpus.tokens, "a pass lacks tokens")
    if r.n == opt.stop then run:stop() end
    if opt.grow and r.n == 3 then run:set_workers(opt.nodes + 2) end
    if opt.grow and r.n == 7 then run:drop_worker(1) end
  end
  local s = run:wait()
  local model = tide.lda.model(run)
  local pure = 0
  for k = 1, 4 do
    local letters = {}
    for _, word in ipairs(model:top_words(k, 5)) do letters[word:sub(1, 1)] = true end
    local _, more = next(letters), next(letters, (next(letters)))
    if not more then pure = pure + 1 end
  end
  print(("lost %d pure %d ll %.9g z %s"):format(s.workers_lost, pure, ll, core.digest(model.z)))
end)
LUA
# topics ARGUMENTS...: z in $z
topics() {
    run 0 sim --seed 5 lda.lua -- "$@"
    z=$(sed -n 's/^lost .* z //p' out.txt)
    [ -n "$z" ] || fail "no topics of $*"
}
alike() { [ "$z" = "$1" ] || fail "other topics with $2"; }

for sampler in gibbs xy; do # blocks of words go round
    topics --sampler $sampler --parts 4
    says out.txt '^lost 0 pure 4 '
    one=$z
    for nodes in 2 4; do
        topics --sampler $sampler --parts 4 --nodes $nodes
        alike "$one" "$sampler on $nodes nodes"
    done
done
topics --sampler warp --passes 40 # tokens travel
says out.txt '^lost 0 pure 4 '
topics --sampler warp
one=$z
topics --sampler warp --nodes 3 --parts 5
alike "$one" "three nodes and five parts"
topics --sampler warp --nodes 2 --memory 1KiB
alike "$one" "files"
for at in 60ms 90ms 130ms 170ms; do
    topics --sampler warp --nodes 4 --crash $at
    says out.txt '^lost 1 '
    alike "$one" "a death at $at"
done
topics --sampler warp --nodes 2 --grow --keep 100
alike "$one" "workers that come and go"
for sampler in gibbs warp light; do # all leave at the same pass, with their topics kept
    topics --sampler $sampler --nodes 2 --passes 1000 --keep 1000 --stop 5
done
for sampler in gibbs warp; do # a prior for each topic, fitted behind passes 60 and 80
    topics --sampler $sampler --parts 4 --passes 62 --optimize alpha
    fitted=$z
    topics --sampler $sampler --parts 4 --passes 62 --optimize alpha --nodes 2
    alike "$fitted" "a fitted prior on two nodes"
    topics --sampler $sampler --parts 4 --passes 62
    [ "$z" != "$fitted" ] || fail "the prior of $sampler is not fitted"
done
topics --sampler light --nodes 2 --passes 25 # rows of words in a table with clocks
says out.txt '^lost 0 pure 4 '

# Rows of frequent words and lists of rare ones: they hold what there is, and take memory by tokens, not by topics.
cat >lists.lua <<'LUA'
local tide = require "tide"
local core = require "tide.core"
local opt = tide.options {topics = {"how many", default = 600}, memory = {"limit", type = "string"}, nodes = {"nodes", default = 2},
                          consistency = {"of the tables", default = "bsp"}}
local corpus = tide.data.bow("corpus.txt", {test = opt.topics < 1000 and 0.1 or 0})
local job = tide.lda.job {name = "lda", corpus = corpus, topics = opt.topics, passes = 6, sampler = "light", eval_every = 3,
                          check = true, memory = opt.memory, keep = 6, consistency = opt.consistency}
-- Words and topics of the tables that do not have as many tokens as table `z` says.
local function differences(run)
  local model <const>, nkw <const>, lists <const> = tide.lda.model(run), run.tables.nkw, run.tables.lists
  local width <const>, wrong, row, place, rows = (opt.topics + 15) // 16 * 16, 0, 0, 0, 0
  local trained = {}
  for _, word in pairs(corpus.train.words) do trained[word] = (trained[word] or 0) + 1 end
  for word = 0, corpus.vocabulary - 1 do
    local counted = {}
    if 4 * corpus.counts[word + 1] >= width then
      local numbers <const> = nkw:pull {row}
      for k = 1, opt.topics do counted[k] = numbers[k] end
      row, rows = row + 1, rows + 1
    else
      for _ = 1, trained[word] or 0 do
        local k <const> = lists:pull {place // 256}[place % 256 + 1] // 1 | 0
        counted[k + 1], place = (counted[k + 1] or 0) + 1, place + 1
      end
    end
    for k = 1, opt.topics do
      if (counted[k] or 0) ~= model.counts[word * width + k] then wrong = wrong + 1 end
    end
  end
  local totals <const>, told = run.tables.nk:pull(core.tensor("u64", 64, 1):fill(0, 1)), 0
  for k = 1, opt.topics do
    for each = 0, 63 do told = told + totals[each * width + k] end
    if told ~= model.totals[k] then wrong = wrong + 1 end
    told = 0
  end
  return wrong, rows
end
tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(job)
  local ll, perplexity
  for r in run:events "report" do ll, perplexity = r.ll or ll, tide.lda.perplexity(r) or perplexity end
  run:wait()
  local bytes = 0
  for _, node in ipairs(cluster:snapshot().nodes) do
    for _, t in ipairs(node.tables or {}) do bytes = bytes + t.memory_bytes end
  end
  local wrong, rows = 0, 0
  if opt.topics < 1000 then wrong, rows = differences(run) end
  print(("wrong %d rows %d of %d ll %.9g perplexity %.6g MiB %d"):format(wrong, rows, corpus.vocabulary, ll, perplexity or 0,
    bytes >> 20))
end)
LUA
lists() { run 0 sim --seed 5 lists.lua -- "$@"; }
lists
says out.txt '^wrong 0 rows [1-9][0-9]? of 48 '
lists --memory 40KiB # slices
says out.txt '^wrong 0 rows [1-9][0-9]? of 48 '
lists --consistency essp:1
says out.txt '^wrong 0 rows [1-9][0-9]? of 48 '
lists --nodes 3
says out.txt '^wrong 0 rows [1-9][0-9]? of 48 '
lists --topics 1048576
says out.txt '^wrong 0 .* MiB [0-9]{1,2}$' # rows would take 192
for seed in 1 2 3; do
    "$TIDE" sim --seed $seed lda.lua -- --sampler warp --memory 1KiB --disk 0.002 >out.txt 2>err.txt
    if [ $? = 0 ]; then
        says out.txt "z $one\$"
    else
        says err.txt 'error\['
    fi
done

# wrong OPTIONS PATTERN
wrong() {
    cat >wrong.lua <<LUA
local tide = require "tide"
local corpus = tide.data.bow "corpus.txt"
local fields = {name = "lda", corpus = corpus, topics = 4, passes = 1}
for k, v in pairs {$1} do fields[k] = v end
local job = tide.lda.job(fields)
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  cluster:start(job):wait()
end)
LUA
    "$TIDE" sim --seed 1 wrong.lua >out.txt 2>err.txt && fail "$1 passes"
    says err.txt "$2"
}
wrong 'topic = 3' 'no option .topic.'
wrong 'topics = 0' 'topics = 0 .* is not a whole number from 1'
wrong 'topics = 100000, sampler = "light", mode = "rotate"' 'topics = 100000 in mode .rotate.'
wrong 'topics = 2000000' 'topics = 2000000 .* is not a whole number from 1 to 1048576'
wrong 'beta = 0' 'beta = 0 .* is not above 0'
wrong 'alpha = {1, 2}' 'alpha of tide.lda.job has 2 numbers for 4 topics'
wrong 'sampler = "warp", mode = "rotate"' 'sampler .warp. runs in mode exchange, not in .rotate.'
wrong 'sampler = "magic"' 'sampler .magic. is none of'
wrong 'optimize = "beta"' 'optimize = .beta.: only alpha is fitted'
wrong 'memory = "much"' '.much. is not a size'
wrong 'parts = 3' 'parts = 3 of job .lda. is no multiple of the 2 workers'
wrong 'corpus = tide.data.bow("corpus.txt", {minimum = 3})' 'no option .minimum.'
wrong 'corpus = tide.data.bow("none.txt")' 'none.txt'
finish
