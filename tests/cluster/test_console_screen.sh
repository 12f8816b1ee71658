#!/bin/bash
# The prompt as its screen shows it (console_screen.py), and what people watch: events, taps, histograms, roles, the
# nodes of jobs and actors as targets; then readers that go away and input that nobody should give.
. "$(dirname "$0")/harness.sh"
need_terminals
export XDG_STATE_HOME=$work/state
[ -n "${TIDE_SANITIZED:-}" ] && export CONSOLE_LIMIT_S=60

run 0 up --cluster scr -n 2
person() { # CLUSTER CASE
    timeout -k 5 120 /usr/bin/python3 "$root/tests/cluster/console_screen.py" "$TIDE" "$1" "$2" >person.txt 2>&1 \
        || { fail "console_screen.py $2"; tail -40 person.txt; }
}
for case in resize above wide plain hostile ends given_up top commands pager tap roles; do person scr $case; done

cat >busy.lua <<'LUA'
local tide = require "tide"
local job = tide.job {
  name = "busy", batch = 10,
  tables = {w = tide.table {keep = true, keys = tide.dense(1000), width = 16}},
  worker = function(w)
    local keys, rows = {}, {}
    for i = 1, 1000 do keys[i], rows[i] = i - 1, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1} end
    while not w:stopping() do
      for _ = 1, 10 do w.tables.w:push(keys, rows) w.tables.w:pull(keys) end
      w:report {loss = 1, examples = w.batch}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  cluster:start(job):wait()
end)
LUA
begin run --cluster scr busy.lua
wait_for 30 sh -c "timeout 20 '$TIDE' attach scr -e '#policy.list()' 2>/dev/null | grep -q '^1$'"
run 0 attach scr '@job:busy' -e 'node.name'
says out.txt '^n1: "n1"$'
says out.txt '^n2: "n2"$'
run 0 attach scr '@actor:n2/agent' -e 'node.name'
says out.txt '^n2: "n2"$'
run 0 attach scr -e '@job:busy #runs()'
says out.txt '^n1 n2: 1$'
run 2 attach scr '@job:bus' -e 1
says err.txt 'no job of this name.*'
says err.txt 'did you mean `busy`'
run 2 attach scr '@actor:nobody' -e 1
says err.txt 'T0105'
run 0 attach scr -e 'tap("n1/store", {count = 3, match = "find(text, \"PUSH\")"})'
[ "$(grep -c 'store .* PUSH \[2, ' out.txt)" = 3 ] || fail "no three pushes: $(cat out.txt)"
says out.txt 'n1/store: [0-9]+ messages'
run 0 tap n2/store --cluster scr --count 2 --json
[ "$(grep -c '"schema":"tide.message/1".*"text":"' out.txt)" = 2 ] || fail "no two messages: $(cat out.txt)"
says err.txt 'n2/store: [0-9]+ messages'
run 124 tap n2/store --cluster scr --timeout 1s --match 'bytes < 0'
run 2 tap n2/nobody --cluster scr
says err.txt 'T0105.*no actor'
run 1 attach scr -e 'tap("n1/store", {match = "bytes >"})'
says err.txt 'T0201.*match'
run 1 attach scr -e 'tap("n9/store")'
says err.txt 'T0105.*no actor'
run 0 attach scr -e 'hist(tables.w)'
says out.txt 'busy-1\.w, waits for pulls from other nodes: [1-9][0-9]* waits'
run 0 attach scr -e 'local u = tables.w:waits().pull local n = 0 for _, c in ipairs(u) do n = n + c end return n > 0, #u'
says out.txt '^true$'
says out.txt '^28$'

run 0 attach scr -e 'hist("n1/store", {of = "queue"})'
says out.txt 'n1/store, how long messages waited for it: [1-9][0-9]* messages  half < '
run 1 attach scr -e 'hist("n1/nobody", {of = "queue"})'
says err.txt 'T0105.*no actor'
run 0 attach scr -e 'metric("examples_per_s")'
says out.txt '^examples_per_s [0-9.e+]+'
run 0 attach scr -e 'local m = metric("step_s", {last = "1h"}) return #m.value == #m.at and #m.value > 1 and m.at[1] > m.at[#m.at]'
says out.txt '^true$'
run 1 attach scr -e 'metric("nosuch")'
says err.txt 'T0307.*measured are: examples_per_s, loss, step_s'
run 0 attach scr -e '@n2 core.log("warn", "the moon is low")'
run 0 attach scr -e 'core.log("debug", "unheard") core.log("error", "a\27[2Jb") return log{level = "warn", last = "1h"}'
says out.txt 'warn +n2 +the moon is low'
says out.txt 'error +n1 +a\?\[2Jb'
says_not out.txt 'unheard'
run 0 attach scr -e '#log{level = "error", node = "n1"}'
says out.txt '^1$'
run 1 attach scr -e 'log{level = "loud"}'
says err.txt 'T0105.*level.*not debug'
run 0 attach scr -e 'full(core.tensor("f32", 300, 2))'
[ "$(grep -c '^  0  0$' out.txt)" = 300 ] || fail "not all rows: $(tail -3 out.txt)"

# Credit in fractions of a byte, as rates give it, leaves room for what is printed next.
run 0 attach scr -e 'local s = require "tide.console.session" print(("x"):rep(5000)) s.allow(1000.5) print(("y"):rep(9)) return 7'
says out.txt '^y{9}$'
says out.txt '^7$'

# Roles: what is refused is refused by name, on all nodes, and exits with 4.
run 0 attach scr --role read -e 'tables.w:pull{1, 2}'
says out.txt '^f32\[2 x 16\]'
for code in 'policy.swap "batching/lb-bsp"' 'tables.w:push({1}, {{1}})' 'core.kill("1:1")' 'load "return 1"'; do
    run 4 attach scr --role read -e "$code"
    says err.txt 'T0801.*needs role (operate|admin)'
done
run 1 attach scr @all --role read --json -e 'core.node()'
[ "$(grep -c '"code":"T0801"' out.txt)" = 2 ] || fail "not refused by both nodes: $(cat out.txt)"
if [ -z "${TIDE_SANITIZED:-}" ]; then # a billion of them
    run 1 attach scr --role read -e 'while true do end'
    says err.txt 'T0231.*instructions'
fi
run 0 attach scr --role operate -e 'policy.swap("batching/lb-bsp").new'
says out.txt 'lb-bsp'
echo 'return {api = 1, kind = "batching", name = "own", version = 1, init = function() return {} end,
  decide = function() return {} end}' >own.lua
run 4 attach scr --role operate -e 'policy.check "own.lua"'
says err.txt 'T0801.*does not ship'
run 2 attach scr --role root -e 1
says err.txt 'T0105'

# Events: who came, what ran, what was swapped; with the reason of a death.
kill -INT "$driver"
wait "$driver"
run 0 attach scr -e 'events{kind = "run"}'
says out.txt 'job busy started: 2 workers on 2 nodes'
run 0 attach scr -e 'events{kind = "policy"}'
says out.txt 'batching@busy: equal v1 -> lb-bsp v1 by swap'
run 0 attach scr -e 'events{kind = "node", last = "10m"}'
says out.txt 'node n[12] joined'
run 0 attach scr -e '#events{last = 0}'
says out.txt '^0$'

run 0 move busy.w 0-99 n1 --cluster scr
run 0 move busy.w 0-99 n2 --cluster scr
run 0 attach scr -e 'events{kind = "slots"}'
says out.txt '[0-9]+ slots of table busy-1\.w came from n1 to n2: they were moved'
run 0 checkpoint save ckpt --cluster scr
run 0 attach scr -e 'events{kind = "checkpoint"}'
says out.txt 'generation 1 in .*ckpt, as asked'
run 0 events --cluster scr --where 'kind == "run"'
says out.txt 'job busy started'
run 0 events --cluster scr --json
says out.txt '"schema":"tide.event/1".*"text":"node n[12] joined"'
run 0 why n2/store --cluster scr
says out.txt '^n2 .* store '
run 2 why n2/nobody --cluster scr
says err.txt 'T0105.*no actor'

# Values as files: new ones only, and only those that the line names.
run 0 attach scr -e 'save({{name = "a,b", n = 1}, {name = "c\"d"}}, "records.csv")'
printf 'n,name\n1,"a,b"\n,"c""d"\n' | cmp - records.csv || fail "records as CSV: $(cat records.csv)"
run 0 attach scr -e 'save(core.tensor("f32", 30000, 3), "tensor.csv")'
[ "$(sort tensor.csv | uniq -c | tr -s ' ')" = " 30000 0,0,0" ] || fail "a tensor as CSV"
run 0 attach scr --role read -e 'save({a = {1, 2}}, "value.json")'
[ "$(cat value.json)" = '{"a":[1,2]}' ] || fail "a value as JSON: $(cat value.json)"
run 1 attach scr -e 'save({{1}}, "records.csv")'
says err.txt 'T0403.*exists'
run 1 attach scr -e 'save({{1}}, "oth" .. "er.csv")'
says err.txt 'T0505.*does not name'
[ -e other.csv ] && fail "a file that the line does not name"
run 1 attach scr -e 'save({1}, "x.txt")'
says err.txt 'T0105'

# A reader that goes away ends what runs for it; so does one who sends nonsense, with an error.
for code in 'for i = 1, 1e9 do print(i) end' 'tap("n1/agent", {rate = 100}) core.sleep(1000)'; do
    { timeout 60 "$TIDE" attach scr -e "$code"; echo $? >code.txt; } 2>/dev/null | head -1 >/dev/null &
    reader=$!
    for _ in $(seq 20); do
        kill -0 $reader 2>/dev/null || break
        run 0 attach scr -e 'core.call(core.whereis "n1/agent", {op = "jobs"}) return 1'
    done
    wait $reader
    [ "$(cat code.txt)" = 141 ] || fail "without a reader '$code' ended with $(cat code.txt)"
done
head -c 2000000 /dev/zero | tr '\0' ' ' >blank.lua
timeout 60 "$TIDE" attach scr <blank.lua >out.txt 2>err.txt
[ $? = 2 ] || [ $? = 1 ] || fail "two megabytes of blanks"
says err.txt 'T0113.*2000000 bytes of code'
printf 'return "\xff\xfe\x1b[2J"' | timeout 60 "$TIDE" attach scr >out.txt 2>err.txt || fail "bytes that are no text"
says out.txt '^"\\xff\\xfe\\x1b\[2J"$'
printf '\0 = 1' | timeout 60 "$TIDE" attach scr >out.txt 2>err.txt && fail "a zero byte is code"
says err.txt 'T0201'

# Many short sessions leave nothing behind: a node has room for 32 at a time.
for _ in $(seq 40); do timeout 20 "$TIDE" attach scr -e 'assert(node.name == "n1")' >/dev/null 2>err.txt || fail "$(cat err.txt)"; done
run 0 down scr -y
run 0 up --cluster still -n 2
person still stopped
kill -KILL "$(sed -n 3p "$XDG_RUNTIME_DIR/tide/still/pids" | cut -d' ' -f1)" 2>/dev/null # n2, if it lives
wait_for 30 sh -c "timeout 20 '$TIDE' events --cluster still 2>/dev/null | grep -q 'node n2 died: '"
run 0 down still -y
nothing_left
finish
