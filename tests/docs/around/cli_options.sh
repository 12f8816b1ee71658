# docs/guides/cli.md: local tide = require "tide"
echo 'tide.main(function() print(opt.rank, opt.every, opt.mode, opt.ahead) end)' >>block.lua
tide run block.lua --data block.lua --no-ahead | tee said.txt
grep -Eq '^64[[:space:]]30(\.0)?[[:space:]]bsp[[:space:]]false' said.txt
tide run block.lua --help | grep -q 'latent dimensions'
