-- Serves the dashboard's page with the state of a cluster that does not exist: 64 nodes, 100 runs, 20 tables. Prints
-- the address and stays until it is ended. For bench/dashboard.py --paint.
local core = require "tide.core"
local tide = require "tide"

local NODES <const>, RUNS <const>, TABLES <const>, SAMPLES <const> = 64, 100, 20, 120
local PAGES <const> = {{"/", "index.html", "text/html; charset=utf-8"},
  {"/app.js", "app.js", "text/javascript; charset=utf-8"},
  {"/style.css", "style.css", "text/css; charset=utf-8"}, {"/icon.svg", "icon.svg", "image/svg+xml"}}

local function node(i)
  local links = {}
  for k = 1, NODES do
    if k ~= i then
      links[#links + 1] = {peer = "n" .. k, up = true, sent = i * k * 1e3, queue = 0, round_trip_s = 1e-4 * k}
    end
  end
  return {name = "n" .. i, id = i, state = "up", up = true, workers = 4, rss = 1e9, processors = 8, mail = 3,
      cpu = i / 64,
    handled = 1e4, store_busy = 0.3, links = links, owners = {5e8, 1e6, 1e5, 4e8}, busiest = "store", busy = 0.2}
end

local function state_of()
  local s <const> = {schema = "tide.state/1", time = 1e9, cluster = "large", view = 64, nodes = {}, runs = {},
      tables = {},
    events = {{time = 1e9, kind = "node", node = "n1", text = "node n1 joined"}}}
  for i = 1, NODES do s.nodes[i] = node(i) end
  for i = 1, RUNS do
    s.runs[i] = {name = "mf-" .. i, job = "mf", state = "running", loss = 1 / i, rate = 1e4, reports = i,
      elapsed = 60 * i,
      workers = {{rank = 1, node = "n1", state = "running", reports = i, work = 0.7, rest = 0.1,
                  waits = {barrier = 0.1, chunk = 0, driver = 0, report = 0.1}}}, policies = {}}
  end
  for i = 1, TABLES do
    local parts = {}
    for k = 1, NODES do parts[k] = {node = "n" .. k, rows = k * 100, near = k, far = 64 - k} end
    s.tables[i] = {name = "mf/w" .. i, width = 64, parts = parts, hot = {}, rows = 1e6, bytes = 1e8,
      pulls_local = 1e4,
      pulls_remote = 1e3, pushes_local = 1e4, pushes_remote = 1e3, wire = 1e6, moves = 10, not_finite = 0}
  end
  return s
end

local function sample(t)
  local s <const> = {t = 1e9 - SAMPLES + t, up = NODES, nodes = NODES, rate = 1e6, pulls = 1e5, pushes = 1e5,
      near = 0.9,
    wire = 1e8, rss = 6e10, p99 = 1e-3, owners = {{"table w", 3e10}, {"mail", 1e8}, {"processes", 3e10}}, cpu = {},
      runs = {}}
  for i = 1, NODES do s.cpu[i] = {"n" .. i, i / 64} end
  for i = 1, RUNS do s.runs[i] = {"mf-" .. i, 1 / (i + t), 1e4, t} end
  return s
end

tide.main(function()
  local server <const> = assert(core.http_listen {port = 0})
  for _, page in ipairs(PAGES) do assert(server:page(page[1], page[3], core.embedded("dashboard/" .. page[2]))) end
  local state <const> = core.json_encode(state_of())
  for t = 1, SAMPLES do assert(server:publish(core.json_encode(sample(t)), state)) end
  io.write(("http://127.0.0.1:%d/#token=%s\n"):format(server:port(), server:token()))
  io.stdout:flush()
  while core.interrupted() == 0 do
    local request <const> = server:next(0.2)
    if request then server:answer(request.id, 200, "application/json", "{}") end
  end
  server:close()
end)
