-- docs/guides/dynamic-networks.md: local tide, nn = require "tide", require "tide.nn"
local H <const>, V <const> = 8, 20
@block@
print(tree_lstm.name)                                 --> tree_lstm
tide.main(function() end)
