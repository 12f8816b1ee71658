# docs/guides/kernels.md: tide.kernel.load "lion.so"                          -- before the table that names its rule
cc -O3 -shared -fPIC -Iruntime/include examples/lion.c -o lion.so
{
    echo 'local tide = require "tide"'
    cat block.lua
    cat <<'LUA'
local job = tide.job {name = "rows", tables = {rows = rows}, worker = function(w)
  w.tables.rows:push({3}, {1, 1, 1, 1, -1, -1, -1, -1})
  print("first", w.tables.rows:pull({3})[1])
end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  cluster:start(job):wait()
end)
LUA
} >script.lua
tide run script.lua 2>&1 | tee said.txt
grep -q 'first[[:space:]]*-0.001' said.txt
