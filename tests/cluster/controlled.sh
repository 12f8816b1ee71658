# What the tests of lost controllers share: a cluster called lab, a run that writes a line a report into `progress`, and
# table.lua, which makes a table.

cat >table.lua <<'LUA'
local tide = require "tide"
local job = tide.job {
  name = "made", tables = {t = tide.table {keys = tide.dense(10), width = 1}},
  worker = function(w) w.tables.t:push({3}, {{1}}) end,
}
tide.main(function()
  local cluster <close> = tide.cluster {}
  cluster:start(job):wait()
  print "made"
end)
LUA

member_is() { "$TIDE" nodes --cluster lab --timeout 3s --plain 2>/dev/null | grep -Eq "^$1\s[0-9]+\s$2"; }
# pids_of PATTERN: processes of the members of lab with such names
pids_of() { "$TIDE" nodes --cluster lab --json | grep -E "\"name\":\"$1\"" | sed 's/.*"pid":\([0-9]*\).*/\1/'; }
progress() { if [ -e progress ]; then wc -l <progress; else echo 0; fi; }
goes_on() { # REPORTS: by so many from here
    local from limit=$1
    from=$(progress)
    further() { [ "$(progress)" -gt $((from + limit)) ]; }
    wait_for 20 further
}
