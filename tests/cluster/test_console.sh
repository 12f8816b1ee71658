#!/bin/bash
# The console: one line and scripts without a terminal, targets, exit codes; then a person at the prompt (console.py),
# with every kind of loop cancelled; then the programs around it.
. "$(dirname "$0")/harness.sh"
need_terminals
export XDG_STATE_HOME=$work/state
[ -n "${TIDE_SANITIZED:-}" ] && export CONSOLE_LIMIT_S=60

run 0 up --cluster con -n 2
person() {
    timeout -k 5 120 python3 "$root/tests/cluster/console.py" "$TIDE" con "$1" >person.txt 2>&1 \
        || { fail "console.py $1"; tail -40 person.txt; }
}

run 0 attach con -e '1+1'
says out.txt '^2$'
run 0 attach con @all -e 'node.name'
says out.txt '^n1: "n1"$'
says out.txt '^n2: "n2"$'
run 0 attach con '@n[1-9]' --json -e '6*7'
[ "$(grep -c '"schema":"tide.console/1".*"value":42' out.txt)" = 2 ] || fail "not two answers of 42: $(cat out.txt)"
run 1 attach con @all --json -e 'node.name == "n2" and error "boom" or 1'
says out.txt '"node":"n2".*"status":"error"'
says out.txt '"node":"n1".*"status":"ok"'
run 1 attach con -e 'error "boom"'
says err.txt 'boom'
run 2 attach con -e '?nodes'
says err.txt '-e evaluates Lua'
run 2 attach con @n7 -e 1
says err.txt 'T0105.*n7'
run 3 attach nowhere -e 1
says err.txt 'T0501'
run 124 attach con --timeout 1s -e 'while true do end'
says err.txt 'T0231'
printf 'for i = 1, 2 do\n  print("line " .. i)\nend\n' >script.lua
timeout 60 "$TIDE" attach con <script.lua >out.txt 2>err.txt || fail "a script on stdin"
says out.txt '^line 2$'
run 0 attach con -e 'on("@all", "#core.members()").n2'
says out.txt '^3$'
run 0 attach con -e 'why("n2/agent")[1].node'
says out.txt '^"n2"$'
run 1 attach con -e 'tables.nosuch'
says err.txt 'T0401.*no table'
run 1 attach con -e 'policy.list()'
says err.txt '\[T0303\]: no active run with policies' # of no node: who asked is a client
run 1 move nosuch 0-3 n1 --cluster con
says err.txt "T0401.*on n[12]: no table 'nosuch'"
says_not err.txt 'tide/[a-z]+\.lua'

# The person, first while nothing else happens, then while both workers compute.
for case in typing multi_line history completion cancel limits detach watch; do person $case; done
cat >busy.lua <<'LUA'
local tide = require "tide"
local job = tide.job {
  name = "busy", batch = 10,
  tables = {w = tide.table {keys = tide.dense(1000), width = 16}},
  worker = function(w)
    while not w:stopping() do
      for k = 0, 999 do w.tables.w:push({k}, {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}) end
      w:report {loss = 1, examples = w.batch}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  cluster:start(job):wait()
end)
LUA
begin run --cluster con busy.lua
wait_for 30 sh -c "timeout 20 '$TIDE' attach con -e '#policy.list()' 2>/dev/null | grep -q '^1$'"
person typing
run 0 attach con -e 'local t = tables.w return t'
says out.txt 'rows stored'
run 0 table show busy.w --cluster con --svg locality.svg
says out.txt '^ *key '
grep -q '<svg' locality.svg || fail "no chart of locality"
run 0 attach con -e 'tables.w:pull{1,2}'
says out.txt '^f32\[2 x 16\]  min '
run 0 attach con -e 'policy.swap("batching/lb-bsp").new'
says out.txt 'lb-bsp'
echo 'return {api = 1, kind = "batching", name = "own", version = 1, init = function() return {} end,
  decide = function() return {} end}' >own.lua
run 0 attach con -e 'policy.check("own.lua").ok'
says out.txt '^true$'
run 0 attach con -e 'policy.rollback("batching") return policy.list()[1].name'
says_not out.txt 'lb-bsp'
run 0 attach con -e 'policy.replay().identical'
says out.txt '^true$'
run 0 attach con -e 'local r = policy.replay("batching/boa", {last = "1h"}) return r.open_loop and r.decisions > 0'
says out.txt '^true$'
run 1 attach con -e 'policy.replay(nil, {last = "1h"})'
says err.txt 'the recorded ones can only be replayed from the start'
kill -INT "$driver"
wait "$driver"

run 0 stat --cluster con --count 2 --every 0.2s --json
[ "$(grep -c '"schema":"tide.stat/1"' out.txt)" = 2 ] || fail "stat printed $(cat out.txt)"
run 0 top --cluster con
says out.txt 'agent'
run 2 repl
says err.txt 'T0109'

# The session's node dies: the prompt finds another.
python3 - "$TIDE" <<PY || fail "another node after a death"
import os, signal, sys
sys.path.insert(0, "$root/tests/cluster")
from console import Prompt, PROMPT
tide = sys.argv[1]
p = Prompt(tide, "con")
p.expect(PROMPT)
p.line("node.name", r'^"n1"\n(.|\n)*> \$')
pids = open(os.environ["XDG_RUNTIME_DIR"] + "/tide/con/pids").read().split("\n")
os.kill(int(pids[1].split()[0]), signal.SIGKILL)
p.expect("lost n1")
p.line("node.name", r'globals of the session are lost(.|\n)*"n2"\n(.|\n)*> \$')
p.type("\x04")
sys.exit(p.end())
PY
run 0 down con -y
nothing_left
finish
