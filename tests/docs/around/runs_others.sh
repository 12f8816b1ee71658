# docs/guides/runs.md: for _, r in ipairs(cluster:runs {job = "mf"}) do print(r.name, r.state, r.slots, r.params.eps) end
tide up lab -n 2 --workers 2
tide submit --cluster lab --slots 2 mf.lua --steps 100000
until tide jobs --cluster lab --plain | grep -q running; do sleep 0.1; done
{
    printf 'local tide = require "tide"\ntide.main(function()\nlocal cluster <close> = tide.cluster {}\n'
    cat block.lua
    printf 's:cancel()\nprint("ended", s:wait())\nend)\n'
} >script.lua
tide run --cluster lab script.lua | tee said.txt
grep -q '^mf-1[[:space:]]running[[:space:]]2' said.txt
grep -Eq '^stopped|^done|^failed' said.txt
grep -q '^ended' said.txt
