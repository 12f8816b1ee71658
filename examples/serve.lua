-- Online prediction while training continues: workers factorise ratings, and a published group of actors scores pairs
-- of users and items from the tables that they train.
--   tide up; tide submit examples/serve.lua
--   examples/serve.py, examples/client.c and curl ask it (docs/guides/clients.md)
local tide = require "tide"

local opt <const> = tide.options {
  users = {"users", default = 200}, items = {"items", default = 100}, rank = {"numbers of a row", default = 8},
  seconds = {"how long it trains and serves", default = 60.0}, lr = {"learning rate", default = 0.05},
}

local job = tide.job {
  name = "serve",
  tables = {
    users = tide.table {keys = tide.dense(opt.users), width = opt.rank, update = "add", init = tide.normal {std = 0.3}},
    items = tide.table {keys = tide.dense(opt.items), width = opt.rank, update = "add", init = tide.normal {std = 0.3}},
  },
  worker = function(w)
    local ends <const> = tide.now() + opt.seconds
    while tide.now() < ends and not w:stopping() do
      local loss = 0
      for _ = 1, 50 do
        local user <const>, item <const> = w.rng:below(opt.users), w.rng:below(opt.items)
        local p <const>, q <const> = w.tables.users:pull {user}, w.tables.items:pull {item}
        local rating <const> = 1 + (user * 7 + item * 3) % 5 -- what is to be learned
        local e <const> = rating - (p * q):sum()
        w.tables.users:push({user}, q * (opt.lr * e))
        w.tables.items:push({item}, p * (opt.lr * e))
        loss = loss + e * e
      end
      w:report {examples = 50, loss = loss / 50}
    end
  end,
}

local Predict = tide.actor {
  name = "predict", opens = "read",
  start = function(self, a) self.users, self.items = tide.open(a.users), tide.open(a.items) end,
  score = function(self, user, items)
    local p <const> = self.users:pull {user}
    local scores = {}
    for i, item in ipairs(items) do scores[i] = (p * self.items:pull {item}):sum() end
    return scores
  end,
}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  local names <const> = {users = run.name .. ".users", items = run.name .. ".items"}
  local _ <close> = cluster:group(Predict, names, {publish = "predict"})
  run:wait()
end)
