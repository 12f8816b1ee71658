-- docs/guides/tensors.md: local T = tide.tensor
local tide = require "tide"
tide.main(function()
  @block@
  print(#b, b:column_sums():columns())               --> 16000 16
end)
