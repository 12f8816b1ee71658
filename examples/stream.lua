-- A recommender whose users never stop coming: rows of users and items in one bounded table, which a reader serves
-- from the checkpoints while training continues, and after it has ended.
--
--   tide run examples/stream.lua --seconds 60
--
-- A click is likely if user and item are of the same of four tastes. The rows learn it; users that come once have none.
local tide = require "tide"
local opt = tide.options {
  seconds = {"to train", default = 10.0},
  limit = {"of rows on each node", default = 20000},
  nodes = {"of a worker each", default = 2},
}
local WIDTH <const>, ITEMS <const>, BATCH <const>, RATE <const> = 8, 500, 200, 0.1
local ITEM <const> = 1 << 40 -- keys of items lie above those of users

local function taste(id) return (id * 2654435761 >> 13) % 4 end
local function clicked(user, item, rng)
  return rng:uniform() < (taste(user) == taste(item) and 0.9 or 0.1) and 1 or 0
end

-- Users and items of a batch, as keys; popular ones come often, and new ones with every call.
local function draw(rng, now)
  local keys <const>, clicks = tide.tensor.zeros("u64", 2 * BATCH), {}
  for i = 1, BATCH do
    local user <const> = math.floor(1e6 ^ rng:uniform()) + (rng:uniform() < 0.1 and math.floor(now * 1e6) or 0)
    local item <const> = math.floor(ITEMS ^ rng:uniform())
    keys[i], keys[BATCH + i] = user, ITEM + item
    clicks[i] = clicked(user, item, rng)
  end
  return keys, clicks
end

local function probability(rows, i)
  local sum = 0
  for j = 1, WIDTH do sum = sum + rows[(i - 1) * WIDTH + j] * rows[(BATCH + i - 1) * WIDTH + j] end
  return 1 / (1 + math.exp(-sum))
end

local job = tide.job {
  name = "stream",
  checkpoint = {dir = "stream-ckpt", every = "2s", keep = 3},
  tables = {rows = tide.table {
    keys = tide.hashed {limit = opt.limit, admit = {after = 2}, expire = {unused = "1h"}, evict = "lfu"},
    width = WIDTH, init = tide.normal {std = 0.3}, update = {"adagrad", lr = RATE},
  }},
  worker = function(w)
    local begin <const>, gradient = tide.now(), tide.tensor.zeros("f32", 2 * BATCH, WIDTH)
    local total, count = 0, 0
    while tide.now() - begin < opt.seconds do
      local keys <const>, clicks <const> = draw(w.rng, tide.now() - begin)
      local rows <const>, loss = w.tables.rows:pull(keys), 0
      for i = 1, BATCH do
        local p <const> = probability(rows, i)
        for j = 1, WIDTH do
          local user <const>, item <const> = (i - 1) * WIDTH + j, (BATCH + i - 1) * WIDTH + j
          gradient[user], gradient[item] = (p - clicks[i]) * rows[item], (p - clicks[i]) * rows[user]
        end
        loss = loss - math.log(clicks[i] == 1 and p or 1 - p)
      end
      w.tables.rows:push(keys, gradient)
      total, count = total + loss, count + BATCH
      if count == 20 * BATCH then
        w:report {examples = count, loss = total}
        total, count = 0, 0
      end
    end
  end,
}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(job)
  local reader
  repeat -- until there is a generation
    tide.sleep(0.2)
    local ok <const>, value = pcall(tide.reader, {dir = "stream-ckpt", table = "rows", every = "500ms"})
    reader = ok and value or nil
  until reader or run:state() ~= "running"
  local begin <const>, rng = tide.now(), tide.random(7)
  while reader and run:state() == "running" do
    tide.sleep(1)
    local keys <const>, clicks <const> = draw(rng, tide.now() - begin)
    local rows <const>, right = reader:pull(keys), 0
    for i = 1, BATCH do right = right + ((probability(rows, i) > 0.5) == (clicks[i] == 1) and 1 or 0) end
    local info <const> = reader:info()
    print(("served generation %d, %.1f s behind: %d rows, %.0f %% of clicks predicted"):format(info.generation,
      reader:behind(), info.rows, 100 * right / BATCH))
  end
  run:wait()
  run.tables.rows:show()
  if reader then reader:close() end
end)
