-- docs/guides/exchange.md: local tide, nn = require "tide", require "tide.nn"
@block@
tide.main(function() print(job.name) end)                 --> diloco
