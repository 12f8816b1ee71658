#!/bin/bash
# Topics within bounds, checked on the processes: `memory` of a job bounds what a worker takes, however long the corpus;
# blocks of words that go round are on one node at a time.
. "$(dirname "$0")/harness.sh"
command -v python3 >/dev/null || { echo "skipped: no python3 to write the corpora"; exit 77; }

python3 - <<'PY'
import random
random.seed(0)
def write(name, documents, words, times):
    with open(name, 'w') as f:
        for _ in range(documents):
            f.write('%d %s\n' % (words, ' '.join('%d:%d' % (w, times) for w in sorted(random.sample(range(20000), words)))))
write('long.ldac', 400, 1500, 10)
write('wide.ldac', 30, 2000, 2)
PY
cat >topics.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {nodes = {"nodes", default = 1}, corpus = {"file", default = "long.ldac"}, sampler = {"how", default = "warp"},
                          topics = {"how many", default = 300}, memory = {"limit", type = "string"}}
local job = tide.lda.job {name = "m", corpus = tide.data.bow(opt.corpus, {format = "ldac"}), topics = opt.topics, passes = 2,
                          eval_every = 2, keep = 1, sampler = opt.sampler, parts = opt.memory and 64 or nil, memory = opt.memory,
                          spill = opt.memory and "spill" or nil}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(job)
  for r in run:events "report" do
    if r.ll then print(("ll %.10g"):format(r.ll)) end
  end
  run:wait()
end)
LUA

# peak OPTIONS...: the largest peak of a node's memory in MiB is $peak
peak() {
    "$TIDE" run topics.lua "$@" >out.txt 2>err.txt </dev/null &
    local driver=$! node now
    started+=($driver)
    peak=0
    while kill -0 $driver 2>/dev/null; do
        for node in $(pgrep -P $driver) $driver; do
            now=$(awk '/VmHWM/ {print int($2 / 1024)}' "/proc/$node/status" 2>/dev/null)
            [ "${now:-0}" -le "$peak" ] || peak=$now
        done
        sleep 0.05
    done
    wait $driver || fail "$*: $(cat err.txt)"
}

# 6 M tokens: 24 MiB of words, and 12 MiB of topics in table `z`, which are beside the limit.
peak
whole=$(cat out.txt)
peak --memory 8MiB
[ "$(cat out.txt)" = "$whole" ] || fail "with a limit: $(cat out.txt); without: $whole"
[ "$peak" -le $((8 + 12 + 32)) ] || fail "8 MiB of memory are $peak MiB"
[ -z "$(ls -A spill)" ] || fail "left behind: $(ls -A spill)"

# n_kw has 160 MB: of four nodes none holds as much as one alone.
peak --corpus wide.ldac --sampler gibbs --topics 2000
alone=$peak
peak --corpus wide.ldac --sampler gibbs --topics 2000 --nodes 4
[ "$peak" -le $((alone * 9 / 10)) ] || fail "one node of four takes $peak MiB, one alone $alone MiB"
finish
