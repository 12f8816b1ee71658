#!/bin/bash
# Metrics of a real cluster: read by Prometheus' own parsers, declared as they are served and documented, and what holds
# up a run.
. "$(dirname "$0")/harness.sh"

cat >work.lua <<'LUA'
local tide = require "tide"
local job = tide.job {
  name = "work", batch = 20, tables = {t = tide.table {keys = tide.dense(400), width = 2, update = "add"}},
  worker = function(w)
    while not w:stopping() do
      w.tables.t:pull(tide.range(0, 399))
      tide.sleep "2ms"
      w:report {examples = 10, loss = 5}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  cluster:start(job):wait()
end)
LUA

# check.py FILE FORMAT: parses, and prints what the test looks at.
cat >check.py <<'PY'
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus
text = open(sys.argv[1]).read()
families = {f.name: f for f in (openmetrics if sys.argv[2] == "openmetrics" else prometheus)(text)}
def value(name, **labels):
    family = families[name]
    return sum(s.value for s in family.samples if all(s.labels.get(k) == v for k, v in labels.items())
               and not s.name.endswith(("_bucket", "_sum", "_created")))
assert value("tide_node_up", node="n1") == 1 and value("tide_node_up", node="n2") == 1
assert value("tide_resident_memory_bytes", node="c0") > 1e6
assert families["tide_pulled_keys"].type == "counter", families["tide_pulled_keys"].type
assert value("tide_pulled_keys", table="work-1.t") > 0
assert value("tide_run_reports", run="work-1") > 0
assert abs(value("tide_run_loss", run="work-1") - 0.5) < 1e-9
assert value("tide_run_info", run="work-1", state="running") == 1
assert families["tide_table_wait_seconds"].type == "histogram"
assert value("tide_policy_decisions", run="work-1", seat="batching of work") >= 0
assert len([s for s in families["tide_worker_reports"].samples]) == 2
for family in families.values():
    assert family.documentation, family.name
print(len(families), "families")
for name in sorted(families):
    print("family", name)
PY

run 0 up --cluster lab -n 2
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/lab/pids"); do started+=("$pid"); done
begin run --cluster lab work.lua
driver_pid=$driver
reports() { "$TIDE" jobs --cluster lab 2>/dev/null | grep -q 'report [1-9]'; }
wait_for 20 reports

"$TIDE" metrics --cluster lab >prometheus.txt || fail "no metrics"
"$TIDE" metrics --cluster lab --format openmetrics >openmetrics.txt || fail "no OpenMetrics"
says openmetrics.txt '^# EOF$'
says openmetrics.txt '^# UNIT tide_resident_memory_bytes bytes$'
says_not prometheus.txt '^# EOF'
if /usr/bin/python3 -c 'import prometheus_client' 2>/dev/null; then
    for format in prometheus openmetrics; do
        /usr/bin/python3 check.py $format.txt $format >families-$format.txt || fail "the text of $format is not read right"
    done
    # What is served is documented.
    sed -n 's/^family //p' families-prometheus.txt | while read -r name; do
        grep -Eq "^\| \`$name(_total)?\` \|" "$root/docs/guides/metrics.md" || echo "$name"
    done >undocumented.txt
    [ -s undocumented.txt ] && fail "docs/guides/metrics.md has no $(tr '\n' ' ' <undocumented.txt)"
else
    echo "python3-prometheus-client is missing: the text was not parsed"
fi
run 0 metrics --cluster lab --json
says out.txt '"schema":"tide.metrics/1"'
run 0 metrics --cluster lab --format snapshot
says out.txt '"schema":"tide.snapshot/1"'
run 0 metrics --cluster lab --file lab.prom
says lab.prom '^tide_node_up\{node="n1"\} 1$'
run 1 metrics --cluster lab --file /no/such/place
says err.txt 'cannot be written'
run 2 metrics --cluster lab --format xml

# The sentence: for the run in status, for two looks in why, and at the console.
run 0 status --cluster lab
says out.txt '^work-1: '
run 0 why --cluster lab --for 500ms
says out.txt '^work-1: '
says out.txt "workers' time: "
run 0 why --cluster lab --for 300ms --json
says out.txt '"schema":"tide.finding/1"'
run 0 attach lab -e 'why()'
says out.txt 'work-1'
run 2 why --cluster lab --for 1s n1/agent

# A node that is gone is down, and its series with it.
kill_node n2
down() { "$TIDE" metrics --cluster lab 2>/dev/null >gone.txt; ! grep -q 'tide_resident_memory_bytes{node="n2"}' gone.txt; }
wait_for 20 down
says_not gone.txt 'tide_node_up\{node="n2"\} 1'
wait "$driver_pid"
"$TIDE" down lab -y >/dev/null 2>&1

# What is made of the list of metrics is up to date.
if command -v lua5.4 >/dev/null; then
    lua5.4 "$root/scripts/monitoring/generate.lua" --check || fail "run lua5.4 scripts/monitoring/generate.lua"
fi
finish
