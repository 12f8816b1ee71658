-- docs/guides/dynamic-networks.md: local out = nn.linear(5, {name = "out"})                  -- a layer made outside is shared by all kinds
local tide, nn = require "tide", require "tide.nn"
local H <const>, V <const> = 8, 20
@block@
print(parser.name)                                    --> parser
tide.main(function() end)
