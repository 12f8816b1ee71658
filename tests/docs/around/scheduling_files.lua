-- docs/guides/scheduling.md: local sim = require("tide.sim").jobs {profiles = "profiles/", nodes = 16, slots = 4, every = 60, resize = 30}
-- by tide run
local tide = require "tide"
tide.main(function()
  @block@
end)
