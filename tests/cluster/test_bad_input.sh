#!/bin/bash
# What a user gets wrong in options, data, keys and rows, and what a full disk does: each is said with its place and
# by the right exit code; nothing half-written and no process stays behind.
. "$(dirname "$0")/harness.sh"

# ---- options ----
run 2 run --bogus x.lua
says err.txt 'T0102.*`--bogus`'
TIDE_ISA=mmx run 2 version
says err.txt "TIDE_ISA is .mmx.: it takes plain, avx2 or avx512"
run 2 up --nodes x
says err.txt 'T0104.*not a whole number'
run 2 node --listen here
says err.txt 'T0113.*is no endpoint: write unix:/PATH or tcp:'
run 3 nodes --cluster "unix:$work/nobody"
says err.txt 'T0501.*nobody listens there'
says_not err.txt 'tide/[a-z]+\.lua|error :' # neither a place inside the program, nor the same thing twice
run 3 down nobody --dry-run # not asked about, nor said to be what would end
says err.txt 'T1003.*no cluster `nobody` runs'
run 0 keys init lab
run 2 keys issue --role admin --name ann --days 3650
says err.txt 'T0802.*keys of role admin hold for at most 366 days'
says err.txt 'help: tide keys issue --role admin --name ann --days 366'
run 0 keys issue --role node --name n3 --days 3650
run 0 keys show
[ "$(awk '$2 == "admin" { print $4 }' out.txt)" = "$(date -u -d "+366 days" +%F)" ] || says out.txt "$(date -u -d "+365 days" +%F)" # midnight
rm -r keys
cat >fields.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {rate = {"rate", default = false}}
tide.main(function()
  if opt.rate then tide.cluster {rate = {operation = 5}} end
  tide.cluster {sevrers = 1}
end)
LUA
echo 'require "tide".main(function() local c <close> = require "tide".cluster {nodes = 1} end)' >one.lua
run 0 run --nodes 2 --workers 2 one.lua
says err.txt 'warning: --nodes 2 has no effect: tide.cluster in the script says nodes 1'
says_not err.txt 'workers 2 has no effect'
echo 'return {nodes = 2}' >tide.lua
run 0 run one.lua
says_not err.txt 'has no effect'
rm tide.lua
run 2 run fields.lua
says err.txt 'T0115.*tide\.cluster has no field `sevrers`'
says err.txt 'fields\.lua:5$'
says err.txt 'did you mean `servers`\?'
run 2 run fields.lua --rate
says err.txt 'T0115.*`rate` of tide\.cluster has no field `operation`'

# ---- data ----
mkdir data && make_triples 1 data
kge() { run "$1" run "$root/examples/kge.lua" --data data --nodes 2 --epochs 1; }
printf 'a\tb\tc\nx y z\n' >data/test.txt
kge 1
says err.txt 'T0402.*expected 3 tab-separated fields, found'
says err.txt 'data/test\.txt:2'
printf 'a\tb\tc' | head -c 3 >data/test.txt # cut off in mid-line
kge 1
says err.txt 'T0402.*expected 3 tab-separated fields, found 2'
says err.txt 'data/test\.txt:1'
: >data/test.txt
kge 1
says err.txt 'T0402.*expected at least one triple'
says err.txt 'data/test\.txt'
rm data/test.txt
kge 1
says err.txt 'T0401.*data has no test\.txt'
nothing_left

# ---- keys and rows ----
cat >rows.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {what = {"what", default = "good"}, refuse = {"refuse_nan", default = false}}
local what = {
  pull = function(t) t:pull {1, 100} end,
  push = function(t) t:push({5, 12345}, {{1, 2}, {3, 4}}) end,
  async = function(t) t:push({777}, {{1, 2}}, {async = true}) end,
  negative = function(t) t:pull {-1} end,
  ragged = function(t) t:push({1, 2}, {{1, 2}, {3}}) end,
  nan = function(t) t:push({1, 2, 3}, {{0 / 0, 1}, {1, 1}, {math.huge, 1}}) end,
  exit = function() os.exit(3) end,
  deep = function() local function f(n) return 1 + f(n + 1) end return f(1) end,
  nothing = function() error(nil) end,
  raw = function() error "\27[31m\0\xff" end,
  kernel = function() tide.kernel "mf_sgd_blok" end,
  report = function(_, w) w:report(5) end,
  good = function() end,
}
local job = tide.job {
  name = "rows",
  tables = {t = tide.table {keys = tide.dense(100), width = 2, refuse_nan = opt.refuse}},
  worker = function(w)
    if w.rank == 2 then what[opt.what](w.tables.t, w) end
    w:report {examples = 1}
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local summary = cluster:start(job):wait()
  print(summary:table(), "not finite: " .. summary.not_finite)
end)
LUA
cat >calls.lua <<'LUA'
local tide = require "tide"
tide.main(function()
  local function refused(text, f, ...)
    local ok, err = pcall(f, ...)
    assert(not ok and err.code == "T0113" and err.message:find(text, 1, true), tostring(err))
  end
  refused("more than 100000000 numbers", tide.range, 0, 1000000000000)
  refused("where to end is the string \"x\", not a whole number", tide.range, 0, "x")
  refused("item 2 requires a function, not a number", tide.all, {print, 1})
  refused("requires a function, not a nil", tide.spawn)
  refused("tide.within requires a function", tide.within, "1s", 5)
  assert(#tide.range(5, 4) == 0 and #tide.range(-1, 1) == 3)
  print "REFUSED"
end)
LUA
{ printf '\xef\xbb\xbf#!/usr/bin/env tide\r\n'; sed 's/$/\r/' calls.lua; } >windows.lua # as some editors write it
run 0 sim --seed 1 windows.lua
says out.txt '^REFUSED$'
run 0 sim --seed 1 calls.lua
says out.txt '^REFUSED$'
for what in pull:100 push:12345 async:777; do
    run 1 run rows.lua --what "${what%:*}"
    says err.txt "T0602.*on n[12] \(worker rows/2\): key ${what#*:} is outside table 'rows(-[0-9]+)?\.t' \(0\.\.99\)"
    says err.txt 'rows\.lua:[4-6]$'
done
run 1 run rows.lua --what negative
says err.txt 'key 1 of the list is not an integer of 0 or more'
says err.txt 'rows\.lua:7$'
run 1 run rows.lua --what ragged
says err.txt 'row 2 is not an array of 2 numbers'
run 1 run rows.lua --what exit
says err.txt 'os\.exit would end the node'
run 1 run rows.lua --what deep
says err.txt 'stack overflow'
run 1 run rows.lua --what nothing
says err.txt 'T0609.*worker rows/2'
run 1 run rows.lua --what raw
says err.txt '\\x1b\[31m\\x00\\xff' # nothing of it reaches the terminal as it is
run 1 run rows.lua --what kernel
says err.txt 'T0901.*no kernel is named `mf_sgd_blok`'
says err.txt 'rows\.lua:14$'
says err.txt 'did you mean `mf_sgd_block`\?'
run 1 run rows.lua --what report
says err.txt 'T0113.*w:report: a report is a table of numbers'
says err.txt 'rows\.lua:15$'
run 0 run rows.lua --what nan
says out.txt 'not finite: 2'
says out.txt '^ *not_finite '
says err.txt 'warning: 2 pushed rows held a NaN or an infinity'
run 1 run rows.lua --what nan --refuse
says err.txt "T0604.*the row pushed to key 1 of table 'rows(-[0-9]+)?\.t' has a NaN or infinity"
run 0 run rows.lua --refuse
says out.txt 'not finite: 0'
says_not err.txt 'NaN'
nothing_left

# ---- a full disk ----
cat >save.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {path = {"path", required = true, type = "string"}}
local job = tide.job {
  name = "save", tables = {t = tide.table {keys = tide.dense(20000), width = 16, init = tide.normal {std = 1}}},
  worker = function(w)
    local keys, row = {}, {}
    for i = 1, 20000 do keys[i] = i - 1 end
    for i = 1, 20000 * 16 do row[i] = i end
    w.tables.t:push(keys, row) -- rows that nobody pushed to are not stored
    w:report {examples = 1}
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  local run = cluster:start(job)
  run:wait()
  print(table.concat(run:dump(opt.path, {"t"})))
end)
LUA
full_disk() { # EXPECTED PATH: what the disk says, and what is left on it
    says err.txt "T0404.*no space left for '$1'"
    says err.txt 'save\.lua:17'
    [ "$(ls -A disk)" = "$2" ] || fail "on the full disk lies: $(ls -A disk)"
}
mkdir disk
if unshare -m true 2>/dev/null; then
    TIDE=$TIDE unshare -m bash -c '
        mount -t tmpfs -o size=256k tmpfs disk || exit 77
        echo precious >disk/old.safetensors
        "$TIDE" run save.lua --path disk/new.safetensors >out.txt 2>err.txt; echo $? >code1
        ls -A disk >left1; cp err.txt err1.txt
        "$TIDE" run save.lua --path disk/old.safetensors >out.txt 2>err2.txt; echo $? >code2
        ls -A disk >left2; cat disk/old.safetensors >old.txt' </dev/null
    mounted=$?
else
    mounted=77
fi
if [ "$mounted" != 77 ]; then
    for i in 1 2; do
        [ "$(cat code$i)" = 1 ] || fail "with a full disk exit code $(cat code$i), not 1"
        says err$i.txt "T0404.*no space left for 'disk/(new|old)\.safetensors'"
        [ "$(cat left$i)" = old.safetensors ] || fail "on the full disk lies: $(cat left$i)"
    done
    [ "$(cat old.txt)" = precious ] || fail "the older file of that name was harmed"
else
    echo "note: no private mount here; a limit on the size of files stands in for the full disk"
fi
echo precious >disk/old.safetensors
(
    ulimit -f 128
    run 1 run save.lua --path disk/new.safetensors
    full_disk disk/new.safetensors old.safetensors
    run 1 run save.lua --path disk/old.safetensors
    full_disk disk/old.safetensors old.safetensors
    exit "$failures"
)
failures=$((failures + $?))
[ "$(cat disk/old.safetensors)" = precious ] || fail "the older file of that name was harmed"
run 0 run save.lua --path disk/old.safetensors
[ "$(stat -c %s disk/old.safetensors)" -gt 1280000 ] || fail "with room the table is not written whole"
run 1 run save.lua --path nowhere/x.safetensors
says err.txt "cannot be written to 'nowhere/x\.safetensors': there is no such directory"
nothing_left

# ---- places that cannot be written, and readers that go away ----
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    mkdir -m 0755 locked && cp rows.lua locked && chmod 0755 "$work"
    mkdir -m 0700 nobody && chown 65534 nobody
    (cd locked && XDG_RUNTIME_DIR=$work/nobody timeout 60 setpriv --reuid=65534 --clear-groups "$TIDE" run rows.lua) \
        >out.txt 2>err.txt </dev/null
    code=$?
    [ "$code" = 1 ] || fail "in a read-only directory exit code $code, not 1"
    says err.txt "T0403.*run's log cannot be kept here"
fi
"$TIDE" version >/dev/full 2>err.txt
[ $? = 1 ] || fail "output to a full device goes unnoticed"
says err.txt 'the output could not be written'
"$TIDE" version >&- 2>err.txt || fail "with stdout closed it ends with an error"
[ -s err.txt ] && fail "with stdout closed it says: $(cat err.txt)"
(sleep 0.2; exec "$TIDE" help errors 2>err.txt) | true
[ "${PIPESTATUS[0]}" = 141 ] || fail "a closed pipe does not give 141"
[ -s err.txt ] && fail "to a closed pipe it says: $(cat err.txt)"
[ -z "$(ls "$XDG_RUNTIME_DIR/tide")" ] || fail "runs leave directories: $(ls "$XDG_RUNTIME_DIR/tide")"
nothing_left
finish
