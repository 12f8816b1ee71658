#!/bin/bash
# Checkpoints with real processes: a cut by clocks is exact, kill -9 at random moments leaves the newest generation that
# counts, resuming continues from it, flipped bits and cut files are named. ROUNDS rounds of killing (default 12).
. "$(dirname "$0")/harness.sh"

cat >count.lua <<'LUA'
-- Every worker adds 1 to its own coordinate of every key once a clock, and to its state.
local tide = require "tide"
local opt = tide.options {
  clocks = {"clocks to run", default = 1000000}, every = {"time between checkpoints", default = "30ms"},
  nodes = {"nodes", default = 2}, workers = {"a node", default = 2}, width = {"values a key", default = 4},
  look = {"only look at what is there", default = false}, report = {"report each clock", default = false},
}
local KEYS <const> = 200
local keys, row = {}, {}
for k = 1, KEYS do keys[k] = k - 1 end
local job = tide.job {
  name = "count",
  tables = {t = tide.table {keys = tide.dense(KEYS), width = opt.width, technique = "relocate"}},
  checkpoint = {dir = "ckpt", every = opt.every, keep = 3, cut = "clock"},
  worker = function(w)
    for i = 1, KEYS * opt.width do row[i] = (i - 1) % opt.width == w.rank - 1 and 1 or 0 end
    w.state.clocks = w.state.clocks or 0
    local look = w.tables.t:pull(keys)
    print(("look %d at clock %d: %s"):format(w.rank, w.clocks, table.concat({
      look[w.rank], look[(KEYS - 1) * opt.width + w.rank],
      w.state.clocks, opt.look and w.rng:below(1000000) or 0}, " ")))
    if opt.look then return end
    w:barrier "looked"
    for _ = w.clocks + 1, opt.clocks do
      w.tables.t:localize {(w.rank * 7 + w.clocks) % KEYS}
      w.tables.t:push(keys, row)
      w.state.clocks = w.state.clocks + 1
      w.rng:below(1000000)
      if opt.report then w:report {examples = 1} end
      w:clock()
      if w:stopping() then break end
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes, workers = opt.workers}
  cluster:start(job):wait()
end)
LUA

# what_is_there NODES WORKERS: resumes only to look; every worker must see what its clock says.
what_is_there() {
    run 0 run --resume ckpt count.lua --look --nodes "$1" --workers "$2"
    says err.txt 'resumed from generation [0-9]+ of ckpt'
    says_not err.txt 'warning'
    awk '/look [0-9]+ at clock/ {
        sub(/^.*look/, "look"); n++; c = $5 + 0
        if ($6 + 0 != c || $7 + 0 != c || $8 + 0 != c) { print "differs: " $0; bad = 1 }
    } END { if (n != 4) { print n " workers looked"; bad = 1 } exit bad }' err.txt >look.txt ||
        fail "$(cat look.txt)"
}

# ---- a run to its end, and resumed beyond
run 0 run count.lua --clocks 60 --report
what_is_there 2 2
says err.txt 'at clock 60: 60(\.0)? 60'
run 0 run --resume ckpt count.lua --clocks 90
what_is_there 1 4 # another number of nodes
says err.txt 'at clock 90: 90(\.0)? 90'
run 1 run --resume ckpt count.lua --look --nodes 1 --workers 3
says err.txt 'T0705.*4 workers, the run has 3'
run 1 run --resume ckpt count.lua --look --width 5
says err.txt "T0705.*table 'count-[0-9]+.t' exists with other options"
run 1 run --resume nowhere count.lua --look
says err.txt 'T0702'

# ---- the generator continues where it was: the same numbers as an unbroken run
numbers() { grep -o 'look [0-9]* at clock 40: .*' err.txt | sort; }
rm -rf ckpt .tide
run 0 run count.lua --clocks 40 --report
run 0 run --resume ckpt count.lua --look
numbers >whole.txt
rm -rf ckpt
run 0 run count.lua --clocks 25
run 0 run --resume ckpt count.lua --clocks 40
run 0 run --resume ckpt count.lua --look
numbers >parts.txt
cmp -s whole.txt parts.txt || fail "resumed generators differ: $(paste whole.txt parts.txt | head -2)"

# ---- kill -9
rm -rf ckpt
committed() { ls -d ckpt/*/MANIFEST.json 2>/dev/null | wc -l; }
at_least() { [ "$(committed)" -ge "$1" ]; }
cut_short=0 # rounds in which a generation was being written
for ((round = 1; round <= ${ROUNDS:-12}; round++)); do
    if [ "$round" = 1 ]; then begin run count.lua; else begin run --resume ckpt count.lua; fi
    newest=$(ls ckpt 2>/dev/null | sort | tail -1)
    fresh() { [ "$(ls -d ckpt/*/MANIFEST.json 2>/dev/null | sort | tail -1)" \> "ckpt/$newest/x" ]; }
    wait_for 20 fresh
    sleep "0.0$((RANDOM % 90 + 10))"
    if [ $((round % 2)) = 0 ]; then
        victim=$(node_pids | grep -v "^$driver\$" | shuf -n 1)
        kill -KILL "${victim:-$driver}" 2>/dev/null
        sleep "0.0$((RANDOM % 9))"
    fi
    acknowledged=$(ls -d ckpt/*/MANIFEST.json | sort | tail -1)
    kill -KILL "$driver" 2>/dev/null
    wait "$driver" 2>/dev/null
    nothing_left
    newest=$(ls ckpt | sort | tail -1)
    [ -e "ckpt/$newest/MANIFEST.json" ] || cut_short=$((cut_short + 1))
    what_is_there $((round % 3 == 0 ? 4 : round % 3)) $((round % 3 == 0 ? 1 : round % 3 == 1 ? 4 : 2))
    found=$(sed -n 's/.*resumed from generation \([0-9]*\) .*/\1/p' err.txt)
    [ "$found" -ge "$((10#$(basename "$(dirname "$acknowledged")")))" ] ||
        fail "round $round: restored generation $found, $acknowledged was there"
    [ "$failures" -gt 0 ] && break
done
echo "kill -9 in $((round - 1)) rounds, $cut_short times while a generation was written: $failures failures"

# ---- data in chunks: a resumed run continues in the pass it was in; what was done since the checkpoint is done again
cat >pass.lua <<'LUA'
local tide = require "tide"
local PASSES <const>, COUNT <const> = 4, 120
local job = tide.job {
  name = "pass", data = COUNT, chunks = 24,
  tables = {seen = tide.table {keys = tide.dense(COUNT + 1), width = PASSES}},
  checkpoint = {dir = "chunked", every = "100ms"},
  worker = function(w)
    for pass = w.passes + 1, PASSES do
      for chunk in w:chunks() do
        for i = chunk.first, chunk.last do
          local row = {0, 0, 0, 0}
          row[pass] = 1
          w.tables.seen:push({i}, {row})
        end
        tide.sleep(0.02)
        chunk:report {examples = chunk.count}
      end
      w:report {pass = pass / w.workers}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  for r in run:events "report" do assert(r.examples == COUNT, r.examples) end
  local twice, keys = 0, {}
  for i = 1, COUNT do keys[i] = i end
  local rows = run.tables.seen:pull(keys)
  for i = 1, COUNT * PASSES do
    assert(rows[i] >= 1, "an example was left out")
    twice = twice + rows[i] - 1
  end
  print(("done, %d twice"):format(twice))
end)
LUA
# Whenever one is taken, each example that counts as done was reported or will be with the rest of its pass.
sed 's/every = "100ms"/every = "10ms", keep = 1000/; s/"chunked"/"often"/' pass.lua >often.lua
run 0 run often.lua
python3 - often <<'PY' || fail "a generation keeps other examples than were done"
import glob, json, sys
manifests = glob.glob(sys.argv[1] + "/*/MANIFEST.json")
for name in manifests:
    job = json.load(open(name))["manifest"]["job"]
    chunks = job["chunks"]
    told = chunks["sums"]["examples"] if chunks["sums"] else 0
    done = len(chunks["done"]) * chunks["count"] // chunks["pieces"]
    if job["examples"] + told != (chunks["pass"] - 1) * chunks["count"] + done or (told and chunks["reported"] >= chunks["pass"]):
        sys.exit("%s: %d reported, %d told, %d done in pass %d" % (name, job["examples"], told, done, chunks["pass"]))
sys.exit(None if len(manifests) >= 4 else "%d generations alone" % len(manifests))
PY

begin run pass.lua
two() { [ "$(ls -d chunked/*/MANIFEST.json 2>/dev/null | wc -l)" -ge 2 ]; }
wait_for 20 two
kill -KILL "$driver" 2>/dev/null
wait "$driver" 2>/dev/null
nothing_left
run 0 run --resume chunked pass.lua
says err.txt 'resumed from generation [0-9]+ of chunked'
says out.txt 'done, [0-9]+ twice'

# ---- damage, of a generation that has rows
last=$(sed -n 's/.*at clock \([0-9]*\):.*/\1/p' err.txt | sort -n | tail -1)
run 0 run --resume ckpt count.lua --clocks $((last + 20)) --every 1000s
run 0 checkpoint list ckpt --json
says out.txt '"schema":"tide.checkpoint/1"'
run 0 checkpoint verify ckpt
newest=$(ls -d ckpt/*/MANIFEST.json | sort | tail -1)
newest=${newest%/MANIFEST.json}
for file in "$newest"/*; do
    cp "$file" saved
    for _ in 1 2 3; do
        python3 - "$file" <<'PY'
import random, sys
data = bytearray(open(sys.argv[1], "rb").read())
bit = random.randrange(len(data) * 8)
data[bit // 8] ^= 1 << bit % 8
open(sys.argv[1], "wb").write(data)
PY
        run 1 checkpoint verify ckpt
        says err.txt "T0703.*$(basename "${file%.crc}")"
        cp saved "$file"
    done
done
run 0 checkpoint verify ckpt
file=$(ls "$newest"/*.safetensors | head -1)
truncate -s -1 "$file"
run 1 checkpoint verify ckpt -g "$((10#$(basename "$newest")))"
says err.txt 'block 1 is cut'
run 0 run --resume ckpt count.lua --look
says err.txt "warning: generation $((10#$(basename "$newest"))) is skipped: .*block 1 is cut"
rm -rf "$newest"

# ---- numpy reads it
/usr/bin/python3 - ckpt <<'PY' || fail "numpy reads something else"
import glob, json, os, sys
try:
    import numpy as np
except ImportError:
    sys.exit(0)
manifests = sorted(glob.glob(sys.argv[1] + "/*/MANIFEST.json"))
top = json.load(open(manifests[-1]))["manifest"]
rows = {}
for generation in top["chain"]:
    where = os.path.join(sys.argv[1], "%06d" % generation)
    for table in json.load(open(where + "/MANIFEST.json"))["manifest"]["tables"]:
        for file in table["files"]:
            data = open(os.path.join(where, file["name"]), "rb").read()
            n = int.from_bytes(data[:8], "little")
            head, body = json.loads(data[8:8 + n]), data[8 + n:]
            def get(name, dtype):
                begin, end = head[name]["data_offsets"]
                return np.frombuffer(body[begin:end], dtype).reshape(head[name]["shape"])
            for key, row in zip(get("keys", "<u8"), get("values", "<f4")):
                rows[int(key)] = row
clocks = [top["job"]["ranks"][r]["clock"] for r in range(4)]
assert len(rows) == 200, len(rows)
for row in rows.values():
    assert list(row) == clocks, (row, clocks)
PY

# ---- a cluster that stays: save, restore onto other rows
cat >fill.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {add = {"to each row", default = 1}}
local job = tide.job {
  name = "fill", tables = {t = tide.table {name = "fill.t", shared = true, keys = tide.hashed {}, width = 2}},
  worker = function(w)
    for k = 1, 50 do w.tables.t:push({k}, {opt.add, opt.add}) end
    w:barrier "pushed"
    local row = w.tables.t:pull {7}
    print(("row %g %g"):format(row[1], row[2]))
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {}
  cluster:start(job):wait()
end)
LUA
run 0 up --cluster lab -n 2
run 0 --cluster lab run fill.lua --add 3
run 0 checkpoint save kept --cluster lab
says err.txt 'generation 1: 50 rows, .*, full'
run 0 --cluster lab run fill.lua --add 4
says err.txt 'row 14 14' # two workers
run 0 checkpoint save kept --cluster lab
says err.txt 'generation 2: 50 rows, .*, changes only'
run 2 checkpoint restore kept --cluster lab
run 1 checkpoint save "" --cluster lab
says err.txt 'directory of the checkpoints is empty'
run 1 checkpoint restore "" -y --cluster lab
says err.txt 'directory of the checkpoints is empty'
PWD=/nonexistent run 0 checkpoint restore kept --cluster lab -y # a parent that changed directory without it
says err.txt 'restored generation 2: 100 rows read' # of both generations
run 0 checkpoint restore kept --cluster lab -y -g 1
says err.txt 'restored generation 1: 50 rows read'
run 0 --cluster lab run fill.lua --add 0
says err.txt 'row 6 6'
run 0 down lab -y
nothing_left

# ---- policies: a resumed run begins with the script's, and says what the checkpoint was written under
cat >swapped.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {swap = {"to this policy after the first report", type = "string"}}
local job = tide.job {
  name = "swapped", batch = 64, checkpoint = {dir = "policies", every = "1000s"},
  tables = {t = tide.table {keys = tide.dense(10), width = 1}},
  worker = function(w)
    for _ = 1, 3 do
      w.tables.t:push({w.rank}, {{1}})
      w:report {examples = w.batch}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run <const> = cluster:start(job)
  for r in run:events "report" do
    if r.n == 1 and opt.swap then assert(run.policy.swap(opt.swap)) end
  end
  run:wait()
end)
LUA
run 0 run swapped.lua --swap batching/boa
run 0 run --resume policies swapped.lua
says err.txt '^batching@swapped: the checkpoint was written under boa [0-9]+ \(SHA-256 [0-9a-f]{12}\); this run begins with equal$'
run 0 run --resume policies swapped.lua
says_not err.txt 'was written under'
nothing_left

finish
