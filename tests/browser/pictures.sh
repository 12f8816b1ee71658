#!/bin/bash
# pictures.sh DIRECTORY: the pictures of docs/images, from a real cluster: the dashboard in Chromium, light and dark, and the
# prompt as its screen shows it. `./dev pictures` calls it; look at what it made before you commit it.
out=$(realpath "$1")
. "$(dirname "$0")/../cluster/harness.sh"
export LC_ALL=C.UTF-8 XDG_STATE_HOME=$work/state
run 0 up --cluster lab -n 3
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/lab/pids"); do started+=("$pid"); done
cat >mf.lua <<'LUA'
local tide = require "tide"
local job = tide.job {
  name = "mf", batch = {total = 90, min = 5}, policies = {batching = "batching/equal"},
  tables = {rows = tide.table {keys = tide.dense(2000), width = 16}, columns = tide.table {keys = tide.dense(800), width = 16}},
  worker = function(w)
    local n = 0
    while not w:stopping() do
      n = n + 1
      local began <const> = tide.now()
      local keys <const> = {}
      for i = 1, w.batch do keys[i] = w.rng:below(w.rng:below(800) + 1) end
      w.tables.columns:pull(keys)
      local row <const> = {w.rng:below(2000)}
      w.tables.rows:push(row, w.tables.rows:pull(row))
      tide.sleep(0.001 * w.batch * ({1, 1.3, 2.6})[w.rank])
      w:report {loss = w.batch * (0.4 + 3 / n ^ 0.7), examples = w.batch, compute_s = tide.now() - began}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {}
  cluster:start(job):wait()
end)
LUA
"$TIDE" run --cluster lab mf.lua >job.txt 2>&1 </dev/null &
started+=("$!")
"$TIDE" dashboard --cluster lab --file url >dashboard.txt 2>&1 </dev/null &
started+=("$!")
wait_for 20 test -s url
sleep 10
run 0 policy swap batching/boa --cluster lab
kill -0 "${started[-2]}" || { cat job.txt; fail "the job is over"; }
sleep 12
/usr/bin/python3 "$root/tests/browser/pictures.py" url "$TIDE" lab "$out" || fail "the pictures"
"$TIDE" down lab -y >/dev/null 2>&1 </dev/null
finish
