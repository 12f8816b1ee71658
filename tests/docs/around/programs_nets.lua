-- docs/guides/programs.md: local tide, nn = require "tide", require "tide.nn"
@block@
for _, program in ipairs {net, res, mlr} do
  program:compile {optimizer = nn.sgd {lr = 0.1}}
end
tide.main(function() print "compiled" end)            --> compiled
