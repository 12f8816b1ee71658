#!/bin/bash
# Topics on real processes (docs/topics.md): the example on WordNet's glosses finds topics that predict unseen words better
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

awk '/^```lua$/ { n++; inside = n == 1; next } /^```$/ { inside = 0 } inside' "$root/docs/topics.md" >page.lua
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

# A run that goes on from a checkpoint draws what one without a stop draws; counts of the table are made anew.
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
awk 'BEGIN { srand(3); for (d = 0; d < 200; d++) { for (i = 0; i < 30; i++) printf "w%d ", d % 8 * 9 + int(40 * rand() * rand()); print "" } }' \
    >corpus.txt
for sampler in gibbs warp light; do
    run 0 run resume.lua --sampler $sampler --passes 8 --dir whole-$sampler
    one=$(cat out.txt)
    run 0 run resume.lua --sampler $sampler --dir $sampler
    run 0 run --resume $sampler resume.lua --sampler $sampler --passes 8 --dir $sampler
    [ $sampler = light ] || [ "$(cat out.txt)" = "$one" ] || fail "a resumed run of $sampler draws other topics"
done
nothing_left
finish
