#!/bin/bash
# Sufficient-factor models: what is learned does not depend on how many workers share it nor on how it travels; bytes are
# those of the formulas; files; a run continues without a worker, dual variables or not.
. "$(dirname "$0")/harness.sh"

cat >same.lua <<'LUA'
local tide = require "tide"
local factors = tide.factors
local opt = tide.options {models = {"", default = "mlr,sdca,metric,coding"}, workers = {"", default = 1},
  ways = {"", default = "always-sfb f32"}, fanout = {"", default = 0}, epochs = {"", default = 4},
  lost = {"a worker is, in mid-run", default = false}}
local models = {
  mlr = factors.mlr {lr = function(step) return 8 / math.sqrt(step) end, l2 = 1e-3},
  sdca = factors.sdca {l2 = 1e-3},
  metric = factors.metric {width = 12, lr = 0.1, l2 = 1e-4, weight = 2},
  coding = factors.coding {atoms = 20, l1 = 0.05, lr = 1},
}
local data = tide.data.libsvm({generate = {train = 230, test = 30, columns = 220, nonzeros = 12, classes = 30, seed = 5}},
  {labels = "class"})
local jobs = {}
for way in opt.ways:gmatch "[^,]+" do
  local policy, format = way:match "(%S+) (%S+)"
  for model in opt.models:gmatch "[^,]+" do
    jobs[#jobs + 1] = {policy = policy, format = format, model = model, job = factors.job {
      name = ("same-%d"):format(#jobs + 1), model = models[model], data = data, batch = 48, epochs = opt.epochs,
      comm = {policy = "comm/" .. policy,
              params = {format = format, fanout = policy == "always-sfb" and opt.fanout or nil}}}}
  end
end

---Bytes are those of docs/guides/exchange.md, and 4 % for heads and the thirteen sums of a step. Lossy messages are so small
---here that their heads count: values alone then.
local function check_bytes(j, summary, rank, nonzeros)
  local t, P = factors.describe(models[j.model], data)[1], opt.workers
  local width = ({f32 = 4, bf16 = 2, onebit = 1 / 8 + 8 / 1024, topk = 8 / 100, sparse = 0})[j.format]
  local want = j.policy == "always-sfb" and width * (P - 1) * rank * t.row_values or width * 2 * t.values * (P - 1) / P
  if j.format == "sparse" then want = (P - 1) * (4 * nonzeros + rank * t.row_values / 8) end
  local got = width < 2 and (summary.comm_ps_bytes + summary.comm_factor_bytes) / summary.steps or summary.comm_bytes_step
  assert(math.abs(got / want - 1) < 0.04, ("%s: %.0f bytes of a step, formula %.0f"):format(j.policy, got, want))
end

local function train(cluster, j)
  local run = cluster:start(j.job)
  local used, nonzeros, steps, last = 0, 0, 0, nil
  for r in run:events "report" do
    assert(r.resyncs == 0 and r.examples > 0, "the replicas differ")
    local objective, gap = factors.objective(r)
    if j.model == "sdca" and not opt.lost then
      assert(gap > -1e-5 and (not last or gap < last + 1e-6), "the gap grows")
    end
    used, nonzeros, steps, last = used + r.factors, nonzeros + r.nonzeros, steps + r.steps, gap
    print(("%s %d %.7f"):format(j.model, r.n, objective))
    io.stdout:flush()
  end
  print(("%s test %.5f"):format(j.model, run:evaluate "test".loss))
  if j.format == "f32" or j.format == "sparse" then run:dump(("%s.%d.safetensors"):format(j.model, opt.workers), {"params"}) end
  local summary = run:wait()
  if opt.lost then print(("lost %d, gap %s"):format(summary.workers_lost, math.abs(last) < 1e-5)) end
  if opt.workers > 1 and j.policy ~= "hybrid" and not opt.lost then check_bytes(j, summary, used / steps, nonzeros / steps) end
end

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.workers}
  for _, j in ipairs(jobs) do train(cluster, j) end
end)
LUA
losses() { grep -E '^(mlr|sdca|metric|coding) ' out.txt; }
agree() { # TOLERANCE WHAT: many.txt with one.txt
    paste -d' ' one.txt many.txt |
        awk -v t="$1" '{ d = $3 / $6 - 1; if ($2 != $5 || d > t || d < -t) exit 1 }' ||
        fail "$2: $(paste -d' ' one.txt many.txt | tr '\n' ';')"
}

# Factors: the same bits, whoever passes them on; dense sums: the same up to rounding.
run 0 run same.lua
losses >one.txt
[ "$(wc -l <one.txt)" = 20 ] || fail "no twenty lines"
for way in "3 0 f32" "4 1 sparse"; do
    read -r workers fanout format <<<"$way"
    run 0 run same.lua --workers "$workers" --fanout "$fanout" --ways "always-sfb $format"
    for model in mlr sdca metric coding; do
        cmp $model.1.safetensors "$model.$workers.safetensors" || fail "$model: other parameters with $way"
    done
done
run 0 run same.lua --workers 3 --ways "always-ps f32"
losses >many.txt
agree 1e-4 "servers"
nothing_left

# Hybrid chooses; fewer bytes end near the same objective: what lossy forms lose comes later.
run 0 run same.lua --models mlr --epochs 12
losses | tail -2 >one.txt
run 0 run same.lua --models mlr --epochs 12 --workers 3 \
    --ways "hybrid f32,always-sfb bf16,always-ps onebit,always-ps topk"
losses | grep -E ' (12|test) ' >all.txt
for tolerance in 1e-4 1e-2 5e-2 5e-2; do
    head -2 all.txt >many.txt
    sed -i 1,2d all.txt
    agree $tolerance "way with $tolerance"
done
nothing_left

# The example, small, on a file; a picture.
awk 'BEGIN { srand(2); for (i = 0; i < 150; i++) { c = int(rand() * 40); printf "%d", c
             for (k = 1; k <= 120; k++) if (rand() < 0.05 || k == c + 1) printf " %d:%.3f", k, 1 + rand()
             printf "\n" } }' | gzip >made.svm.gz
run 0 run "$root/examples/sfb.lua" --data made.svm.gz --epochs 2 --nodes 3 --models mlr \
    --methods single,partial --chart sfb.svg
says out.txt '^mlr: made.svm.gz: 150 examples to train on, 0 held out, 120 columns, .*, [0-9]+ classes'
says out.txt '^partial +[0-9]+ +[0-9]+ +[0-2]\.[0-9]+ %'
says sfb.svg '<svg'
run 0 run "$root/examples/sfb.lua" --epochs 2 --nodes 2 --train 200 --models sdca,coding --methods full --json
[ "$(grep -c '"schema":"tide.sfb/1"' out.txt)" = 2 ] || fail "no two rows"
run 1 run "$root/examples/sfb.lua" --models svm
says err.txt 'svm is none of the models'
nothing_left

# Numbers that no model trains with, where they are written.
cat >numbers.lua <<'LUA'
local tide = require "tide"
local factors <const> = tide.factors
local function refused(text, f, ...)
  local ok, err = pcall(f, ...)
  assert(not ok and tostring(err):find(text, 1, true), tostring(err))
end
local nan <const> = 0 / 0
refused("factors.mlr: `lr` is -1, not a finite number of 0 or more", factors.mlr, {lr = -1})
refused("factors.mlr: `l2` is " .. tostring(nan), factors.mlr, {l2 = nan})
refused("factors.sdca: `l2` is 0, not a finite number above 0", factors.sdca, {l2 = 0})
refused("factors.metric: `width` is 1.5, not a whole number of 1 or more", factors.metric, {width = 1.5})
refused("factors.coding: `l1` is -1", factors.coding, {l1 = -1})
local function job(o)
  return factors.job {name = o.name, model = o.model or factors.mlr {}, batch = o.batch, epochs = o.epochs or 1,
    data = tide.data.libsvm({generate = {train = o.train or 20, test = 5, columns = 9, nonzeros = 2, classes = 2}},
      {labels = "class"})}
end
refused("factors.job: `batch` is 0, not a whole number of 1 or more", job, {name = "a", batch = 0})
refused("factors.job: `epochs` is 0, not a whole number of 1 or more", job, {name = "b", batch = 1, epochs = 0})
local rate <const> = job {name = "rate", batch = 5, model = factors.mlr {lr = function() end}}
local single <const> = job {name = "single", batch = 1, model = factors.metric {}, train = 1}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  local function ended(made) cluster:start(made):wait() end
  refused("`lr` returned a nil for step 1", ended, rate)
  refused("the data has no pair of examples", ended, single)
end)
LUA
run 0 run numbers.lua

# Dual variables are their worker's alone: without one the others begin its part anew.
begin run same.lua --models sdca --workers 3 --fanout 1 --epochs 400 --lost
under_way() { grep -q "^sdca 2 " out.txt 2>/dev/null; }
wait_for 20 under_way
kill_node n2
wait "$driver"
code=$?
[ "$code" = 0 ] || fail "exit code $code"
says out.txt '^lost 1, gap true'
nothing_left
finish
