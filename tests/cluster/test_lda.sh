#!/bin/bash
# Topics on real processes (docs/topics.md): the example on WordNet's glosses finds topics that predict unseen words better
# than the words' shares do; the page's program runs; the same topics with one process and with three; models are saved
# and read again.
. "$(dirname "$0")/harness.sh"

run 0 run "$root/examples/lda.lua" --topics 30 --passes 12 --eval-every 12 --save model
says out.txt '^WordNet.s glosses, a document a synset: [0-9]+ documents'
perplexity=$(awk '$1 == 12 { print $4 }' out.txt)
unigram=$(sed -n 's/.*perplexity without topics \([0-9.]*\)$/\1/p' out.txt)
awk -v a="$perplexity" -v b="$unigram" 'BEGIN { exit !(a > 100 && a < 0.95 * b) }' ||
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
nothing_left
finish
