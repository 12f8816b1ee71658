#!/usr/bin/env bash
# Local steps between exchanges: rounds of one step are plain training, rounds of more send less, and workers that crash at
# a moment that the seed draws, or join, lose no example and leave replicas equal.
source "$(dirname "$0")/harness.sh"

cat >rounds.lua <<'LUA'
local tide, nn, sim = require "tide", require "tide.nn", require "tide.sim"
local core = require "tide.core"
local opt = tide.options {every = {"local steps", default = 0}, rate = {"outer", default = 1.0},
  mu = {"outer", default = 0.0}, fault = {"crash or join", default = ""}, rule = {"inner", default = "sgd"},
  epochs = {"", default = 4}, batch = {"", default = 12}, weigh = {"", default = "count"}, format = {"", default = ""}}
local NODES <const> = 3
local job = nn.job {
  name = "rounds", batch = opt.batch, epochs = opt.epochs,
  optimizer = nn[opt.rule] {lr = opt.rule == "sgd" and 0.2 or function(t) return 0.01 / t ^ 0.2 end},
  program = nn.sequential {input = {28, 28, 1}, loss = nn.xent(), nn.flatten(), nn.linear(12), nn.tanh(), nn.linear(10)},
  data = tide.data.images(nil, {count = 144, test = 1 / 6, seed = 2}), validate = "test",
  comm = opt.format == "" and "comm/always-ps" or nil, -- gradients of so few examples would travel as factors
  exchange = opt.every > 0 and {every = opt.every, weigh = opt.weigh, format = opt.format ~= "" and opt.format or nil,
    outer = opt.mu > 0 and nn.nesterov {lr = opt.rate, mu = opt.mu} or nn.sgd {lr = opt.rate}} or nil,
}
-- What schedules of the inner rule see, over the workers: of a joiner the same as of others.
job.evaluate.steps = function(w) return w.trainer.model.steps, 1 end
tide.main(function()
  local cluster <close> = tide.cluster {nodes = NODES, servers = 2}
  local run <const> = cluster:start(job)
  local first, last, bytes, workers = nil, nil, 0, 0
  for r in run:events "report" do
    assert(r.examples == 120, ("report %d has %d examples"):format(r.n, r.examples))
    assert((r.resyncs or 0) == 0, "the replicas differ")
    print(("%d %.9f %.9f"):format(r.n, r.loss / r.examples, r.valid_loss / r.valid_examples))
    first, last, bytes, workers = first or r.loss, r.loss, bytes + r.comm_bytes, #r.workers
    if r.n == 2 and opt.fault == "crash" then
      local at <const> = core.now() + 1.2 * sim.rng:uniform() * r.elapsed_s / 2
      sim.fault("crash", {node = "n" .. sim.rng:below(NODES) + 1, at = ("%dus"):format(at * 1e6 // 1)})
    elseif opt.fault == "join" and (r.n == 1 or r.n == 2) then
      run:set_workers(r.n + 1)
    end
  end
  assert(last < 0.9 * first, "it does not learn")
  local steps <const> = run:evaluate "steps"
  assert(opt.fault == "crash" or steps == 120 // opt.batch * opt.epochs and workers == NODES, ("%g steps of %d"):format(steps, workers))
  print(("BYTES %d"):format(bytes))
  print(("lost %d of %d"):format(run:wait().workers_lost, NODES))
end)
LUA
run 0 sim --seed 1 rounds.lua
cp out.txt plain.txt
plain=$(sed -n 's/^BYTES //p' out.txt)
run 0 sim --seed 1 rounds.lua --every 1
paste -d' ' <(grep '^[1-9] ' plain.txt) <(grep '^[1-9] ' out.txt) |
    awk '{ d = $2 - $5; e = $3 - $6; if (d * d > 4e-12 || e * e > 4e-12) exit 1; n++ } END { exit n != 4 }' ||
    fail "rounds of one step are not plain training: $(paste plain.txt out.txt)"
run 0 sim --seed 1 rounds.lua --every 5 --mu 0.5
bytes=$(sed -n 's/^BYTES //p' out.txt)
[ "$((bytes * 4))" -lt "$plain" ] || fail "rounds of 5 steps send $bytes bytes, steps $plain"
cmp -s <(grep '^4 ' plain.txt) <(grep '^4 ' out.txt) && fail "rounds of 5 steps do what steps do"
# The outer rule goes towards the workers, further with momentum.
awk '/^4 / { exit !($2 < 1.6) }' out.txt || fail "rounds of 5 steps learn little: $(cat out.txt)"
cp out.txt five.txt
run 0 sim --seed 1 rounds.lua --every 5 --mu 0.5 --format bf16
narrow=$(sed -n 's/^BYTES //p' out.txt)
[ "$((narrow * 10))" -lt "$((bytes * 6))" ] || fail "in 16 bits $narrow bytes are sent, in 32 $bytes"
paste -d' ' <(grep '^4 ' five.txt) <(grep '^4 ' out.txt) |
    awk '{ d = $2 - $5; exit !(d != 0 && d * d < 1e-2) }' || fail "rounded differences: $(paste five.txt out.txt)"
# Of 20 examples a step the third worker has 6: it counts as much as the others where all do.
for weigh in count equal; do
    run 0 sim --seed 1 rounds.lua --every 1 --batch 20 --weigh $weigh
    cp out.txt $weigh.txt
done
run 0 sim --seed 1 rounds.lua --batch 20
cmp -s <(grep '^4 ' count.txt) <(grep '^4 ' equal.txt) && fail "\`weigh\` changes nothing"
paste -d' ' <(grep '^4 ' out.txt) <(grep '^4 ' count.txt) <(grep '^4 ' equal.txt) |
    awk '{ d = $2 - $5; e = $2 - $8; exit !(d * d < 4e-12 && e * e > 4e-12 && e * e < 1e-2) }' ||
    fail "counted examples are the batch's mean, equal workers are not: $(grep '^4 ' out.txt count.txt equal.txt)"
for fault in crash join; do
    run 0 sim --seeds 1..12 --jobs 2 rounds.lua --every 3 --mu 0.5 --rule adam --fault $fault \
        --epochs $([ $fault = join ] && echo 20 || echo 5)
    says err.txt '12 seeds, 0 failed'
done
run 0 sim --seed 3 rounds.lua --every 3 --mu 0.5 --fault crash --epochs 5
says out.txt '^lost 1 of 3$'
for option in 'every = 0' 'every = 2, outer = 1' 'every = 2, weigh = "rows"' 'every = 2, format = "f16"' 'evry = 2'; do
    cat >wrong.lua <<LUA
local tide, nn = require "tide", require "tide.nn"
nn.job {name = "wrong", batch = 2, epochs = 1, optimizer = nn.sgd {lr = 1}, data = 10, exchange = {$option},
  program = nn.sequential {input = {3}, loss = nn.xent(), nn.linear(2)}}
LUA
    run 1 run wrong.lua
    says err.txt 'error.T0203.'
done
says err.txt 'did you mean `every`'
nothing_left

# The example: DiLoCo sends a 24th of the bytes at a loss within 2 %, and the other ways learn, too.
run 0 sim --seed 1 "$root/examples/local_steps.lua" --steps 500 --width 64 --nodes 2
[ "$(wc -l <"$root/examples/local_steps.lua")" -le 120 ] || fail "local_steps.lua has more than 120 lines"
awk '$1 == "sync" { loss = $2; mb = $4 } $1 == "diloco" { d = $2; e = $4; n++ } $1 ~ /^(local|gossip|delayed)$/ && $2 < 2.4 { n++ }
    END { exit !(n == 4 && d <= 1.02 * loss && 24 * e <= mb) }' out.txt || fail "the ways of the example: $(cat out.txt)"
run 0 sim --seed 1 "$root/examples/local_steps.lua" --steps 100 --width 16 --nodes 2 --every 5 --chart
says out.txt '>diloco</text>'
finish
