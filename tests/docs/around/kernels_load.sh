# docs/guides/kernels.md: local own = tide.kernel.load "saxpy.so"          -- relative to the script
cc -O3 -shared -fPIC -Iruntime/include examples/saxpy.c -o saxpy.so
{
    echo 'local tide = require "tide"'
    echo 'local x, y = tide.tensor.zeros("f32", 1, 8):fill(1), tide.tensor.zeros("f32", 1, 8):fill(3)'
    cat block.lua
    echo 'tide.main(function() print("sum", y:sum()) end)'
} >script.lua
tide run script.lua | tee said.txt
grep -q '^sum[[:space:]]*40' said.txt
