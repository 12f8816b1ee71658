#!/bin/bash
# Real processes: a program whose table is mostly on its disk is killed (-9) while it freezes rows and empties segments.
# What it said a generation has is there after each restart, no row has more than was pushed, and files of earlier lives
# are gone. ROUNDS=n for more rounds.
. "$(dirname "$0")/harness.sh"
rounds=${ROUNDS:-4}

# Each sweep adds 3 to every row. `saved n`: a generation has at least n in every row. `begins n`: pushes of a sweep
# begin, after which no row has more than n. A restart continues from the newest generation.
cat >words.lua <<'END'
local tide = require "tide"
local opt = tide.options {disk = {"of the rows", default = ""}}
local N <const>, AT_ONCE <const> = 4000, 100
local done = 0
local job = tide.job {
  name = "words", checkpoint = {dir = "ckpt", every = "1h", keep = 2},
  tables = {rows = tide.table {keys = tide.dense(N), width = 16, memory = "96KiB", disk = opt.disk}},
  worker = function(w)
    local t <const>, keys <const> = w.tables.rows, {}
    local ones <const> = tide.tensor.zeros("f32", AT_ONCE, 16):fill(1)
    local least, most = math.huge, 0
    local function each(from, apart, f) -- a hundred keys at a time
      for first = from, N - 1, apart * AT_ONCE do
        for i = 1, AT_ONCE do keys[i] = first + apart * (i - 1) end
        f(keys)
      end
    end
    each(0, 1, function(k)
      local rows <const> = t:pull(k)
      for i = 1, AT_ONCE do
        local value <const> = rows[(i - 1) * 16 + 1]
        for j = 2, 16 do assert(rows[(i - 1) * 16 + j] == value, "a row is of two versions") end
        least, most = math.min(least, value), math.max(most, value)
      end
    end)
    print(("restored %d %d"):format(least, most))
    while not w:stopping() do
      most = most + 3
      print(("begins %d"):format(most))
      local function push(k) t:push(k, ones) end
      each(0, 1, push)
      for part = 0, 3 do -- the keys whose turn comes last are a quarter of each file, which is emptied
        for _ = 1, 2 do each(part, 4, push) end
      end
      least = least + 3
      local s <const> = t:stats()
      w:report {examples = N, least = least, compacted = s.compacted, frozen = s.frozen}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  local run = cluster:start(job)
  tide.spawn(function()
    while true do
      local least <const> = done
      local ok <const> = run:checkpoint()
      if ok and least > 0 then print(("saved %d"):format(least)) end
      tide.sleep(0.01)
    end
  end)
  for r in run:events "report" do
    done = r.least
    print(("moved %d of %d"):format(r.compacted, r.frozen))
  end
end)
END
export TIDE_LIMITS=store_tier_segment_bytes=16384,store_tier_block_bytes=4096
mkdir disk
promised=0 most=0 moved=0
for ((round = 1; round <= rounds; round++)); do
    resume=()
    [ "$round" = 1 ] || resume=(--resume ckpt)
    rm -f out.txt
    stdbuf -oL "$TIDE" run "${resume[@]}" words.lua --disk "$PWD/disk" >out.txt 2>err.txt </dev/null &
    driver=$!
    started+=("$driver")
    wait_for 60 grep -qs '^saved' out.txt && wait_for 60 grep -qs '^moved [1-9]' out.txt || {
        tail -n 20 out.txt err.txt
        break
    }
    # killed at another moment in each round
    sleep "0.$(printf '%03d' $((round * 137 % 400)))"
    node_pids | xargs -r kill -KILL # the driver and its node
    wait "$driver" 2>/dev/null
    read -r least highest < <(sed -n 's/.*restored \([0-9]*\) \([0-9]*\)$/\1 \2/p' err.txt)
    if [ "$least" -lt "$promised" ] || [ "$highest" -gt "$most" ]; then
        fail "round $round: rows have $least to $highest, promised were $promised, and $most were pushed"
        break
    fi
    promised=$(sed -n 's/^saved //p' out.txt | tail -1)
    most=$(($(sed -n 's/.*begins //p' err.txt | tail -1) + 3)) # the last line may not have come
    moved=$((moved + $(sed -n 's/^moved \([0-9]*\) of .*/\1/p' out.txt | tail -1)))
done
[ "$moved" -gt 0 ] || fail "no segment was emptied"
echo "$((round - 1)) rounds, $moved rows moved between segments"
files=$(find disk -name '*.seg' | wc -l)
[ "$files" -gt 0 ] || fail "the killed program left no files: it never froze"
finish
