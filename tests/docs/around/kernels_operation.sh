# docs/guides/kernels.md: local own = tide.kernel.load "huber.so"
cc -O3 -shared -fPIC -Iruntime/include examples/huber.c -o huber.so
{
    echo 'local tide, nn = require "tide", require "tide.nn"'
    sed -n '1p' block.lua
    echo 'local net = nn.program("n", function(p)'
    echo '  local z, y = p:input("z", 2), p:input("y", 2)'
    sed -n '2,$p' block.lua
    echo 'end)'
    echo 'tide.main(function()'
    echo '  local z, y = tide.tensor.zeros("f32", 1, 2):fill(3), tide.tensor.zeros("f32", 1, 2):fill(1)'
    echo '  print("loss", net:compile {}:evaluate({z = z, y = y}).loss)'
    echo 'end)'
} >script.lua
tide run script.lua | tee said.txt
grep -q '^loss[[:space:]]*1.75' said.txt
