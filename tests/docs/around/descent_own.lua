-- docs/guides/descent.md: local job = d.job {name = "mine", variables = J, set = 32, check = "rowsum",
local tide = require "tide"
local d <const>, J <const> = tide.descent, 64
local sums <const>, changes <const>, part <const> = {}, {}, 1
@block@
print(job.name)                                      --> mine
tide.main(function() end)
