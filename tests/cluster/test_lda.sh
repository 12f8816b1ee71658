#!/bin/bash
# Topics on real processes (docs/guides/topics.md): the example on WordNet's glosses finds topics that predict unseen words better
# than the words' shares do; the page's program runs; the same topics with one process and with three; models are saved
# and read again.
. "$(dirname "$0")/harness.sh"

run 0 run "$root/examples/lda.lua" --topics 30 --passes 8 --eval-every 8 --save model
says out.txt '^WordNet.s glosses, a document a synset: [0-9]+ documents'
perplexity=$(awk '$1 == 8 { print $4 }' out.txt)
unigram=$(sed -n 's/.*perplexity without topics \([0-9.]*\)$/\1/p' out.txt)
awk -v a="$perplexity" -v b="$unigram" 'BEGIN { exit !(a > 100 && a < 0.98 * b) }' ||
    fail "perplexity $perplexity is not below $unigram"
says out.txt '^saved.model$'
[ "$(wc -l <model/topics.txt)" = 30 ] || fail "not 30 topics in model/topics.txt"
nothing_left

cat >load.lua <<'LUA'
local tide = require "tide"
tide.main(function()
  local model = tide.lda.load "model"
  local theta, unknown = model:theta {"a plant with yellow flowers and large leaves", "qwertz", ""}
  local sum = 0
  for k = 1, 30 do sum = sum + theta[k] end
  print(("theta %.4f even %.4f unknown %d"):format(sum, theta[31] - theta[60], unknown))
end)
LUA
run 0 run load.lua
says out.txt '^theta 1.0000 even 0.0000 unknown [1-9]'
echo damaged >model/vocabulary.txt
run 1 run load.lua
says err.txt 'vocabulary.txt has 1 words, the model'

awk '/^```lua$/ { n++; inside = n == 1; next } /^```$/ { inside = 0 } inside' "$root/docs/guides/topics.md" >page.lua
run 0 run page.lua
says out.txt '^4.0?'

cat >same.lua <<'LUA'
local tide = require "tide"
local core = require "tide.core"
local opt = tide.options {nodes = {"nodes", default = 1}, sampler = {"how", default = "gibbs"}}
local corpus = tide.data.bow("glosses", {stop = "english", min_count = 50})
local job = tide.lda.job {name = "same", corpus = corpus, topics = 20, passes = 2, sampler = opt.sampler,
                          parts = opt.sampler == "gibbs" and 3 or nil, eval_every = 2}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(job)
  run:wait()
  print("z", core.digest(tide.lda.model(run).z))
end)
LUA
for sampler in gibbs warp; do
    run 0 run same.lua --sampler $sampler
    one=$(cat out.txt)
    run 0 run same.lua --sampler $sampler --nodes 3
    [ "$(cat out.txt)" = "$one" ] || fail "$sampler on three nodes draws other topics"
done

# MALLET's files, read back by their rules: a line a token behind three of names and priors; a line a document, shares of
# all topics, which are those of the tokens.
awk 'BEGIN { srand(3); for (d = 0; d < 200; d++) { for (i = 0; i < 30; i++) printf "w%d ", d % 8 * 9 + int(40 * rand() * rand()); print "" } }' \
    >corpus.txt
cat >mallet.lua <<'LUA'
local tide = require "tide"
local corpus = tide.data.bow("corpus.txt")
local job = tide.lda.job {name = "mallet", corpus = corpus, topics = 5, passes = 5, alpha = {0.1, 0.2, 0.3, 0.4, 0.5}}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  local run = cluster:start(job)
  run:wait()
  local model = tide.lda.model(run)
  model:save_documents("documents.txt")
  model:save_state("state.txt")
  for k = 1, 5 do print("topic", k - 1, model.totals[k] // 1 | 0) end
end)
LUA
run 0 run mallet.lua
awk -v named="#doc source pos typeindex type topic" '
    function wrong(what) { print FILENAME ":" FNR ": " what; bad = 1 }
    FILENAME == "state.txt" && FNR == 1 { if ($0 != named) wrong("no names") ; next }
    FILENAME == "state.txt" && FNR == 2 {
        if ($1 != "#alpha" || $2 != ":" || NF != 7) wrong("no priors of topics")
        for (k = 0; k < 5; k++) { alpha[k] = $(k + 3); sum += alpha[k] }
        next
    }
    FILENAME == "state.txt" && FNR == 3 { if ($1 != "#beta" || $2 != ":" || $3 != 0.01 || NF != 3) wrong("no beta"); next }
    FILENAME == "state.txt" {
        if (NF != 6 || $6 !~ /^[0-4]$/) wrong("no token")
        if ($3 != length_of[$1]++) wrong("a position is left out")
        if (($4 in type) && type[$4] != $5 || ($5 in number) && number[$5] != $4) wrong("a type has two numbers")
        type[$4] = $5; number[$5] = $4
        count[$1, $6]++; topic[$6]++; text[$1] = text[$1] " " $5
        next
    }
    FILENAME == "documents.txt" {
        if (NF != 7 || $1 != FNR - 1) wrong("no document")
        for (k = 0; k < 5; k++) {
            p = (count[$1, k] + alpha[k]) / (length_of[$1] + sum)
            if ($(k + 3) - p > 1e-5 || p - $(k + 3) > 1e-5) wrong("topic " k " has " $(k + 3) ", of the tokens " p)
        }
        documents++
        next
    }
    FILENAME == "corpus.txt" {
        n = split($0, of_text, " "); m = split(text[FNR - 1], of_state, " ")
        if (n != m) wrong("other tokens")
        split("", had)
        for (i = 1; i <= n; i++) { had[of_text[i]]++; had[of_state[i]]-- }
        for (w in had) if (had[w] != 0) wrong("other words")
        next
    }
    { if (topic[$2] != $3) wrong("topic " $2 " has " topic[$2] " tokens") }
    END { if (documents != 200) wrong("documents are left out"); exit bad }
' state.txt documents.txt corpus.txt out.txt >wrong.txt || fail "$(head -3 wrong.txt)"

# A run that continues from a checkpoint draws what one without a stop draws; counts of the table are made anew.
cat >resume.lua <<'LUA'
local tide = require "tide"
local core = require "tide.core"
local opt = tide.options {sampler = {"how", default = "gibbs"}, passes = {"passes", default = 4}, dir = {"of checkpoints",
  default = "ckpt"}}
local corpus = tide.data.bow("corpus.txt")
local job = tide.lda.job {name = "lda", corpus = corpus, topics = 8, passes = opt.passes, sampler = opt.sampler, parts =
  opt.sampler == "gibbs" and 4 or nil, eval_every = 2, keep = 2, check = true,
  checkpoint = {dir = opt.dir, every = "1000s"}}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  run:wait()
  print("z", core.digest(tide.lda.model(run).z))
end)
LUA
for sampler in gibbs warp light; do
    run 0 run resume.lua --sampler $sampler --passes 8 --dir whole-$sampler
    one=$(cat out.txt)
    run 0 run resume.lua --sampler $sampler --dir $sampler
    run 0 run --resume $sampler resume.lua --sampler $sampler --passes 8 --dir $sampler
    [ $sampler = light ] || [ "$(cat out.txt)" = "$one" ] || fail "a resumed run of $sampler draws other topics"
done
nothing_left
finish
