-- A cluster as one snapshot, and snapshots as curves: what metrics, `tide why` and pages are made of.
--
-- A snapshot is what every node and every run that goes on count at one moment (docs/metrics.md describes it). It is
-- asked for by a client or by a script; nodes count whether somebody looks or not. Whoever does not answer within a
-- second is there with its membership alone and `up = false`.
--
-- A collector keeps rings of curves, of bounded size. It has no clock and no socket of its own, so it runs under
-- `tide sim` and over saved runs.
local core = require "tide.core"
local errors = require "tide.errors"
local heat = require "tide.show.hot_keys"
local members = require "tide.cluster.members"
local node_status = require "tide.cluster.node_status"
local pieces = require "tide.run.pieces"

local collect = {}

local ANSWER_S <const> = 1
local HOT_KEYS <const> = 20

---@class tide.snapshot
---@field schema "tide.snapshot/1"
---@field time number seconds since 1970
---@field now number monotonic seconds of who asked
---@field cluster string
---@field view integer version of the membership
---@field nodes tide.snapshot.node[] by id
---@field runs tide.run_figures[] that go on, oldest first
---@field hot? table<string, tide.hot_key[]> by table, if it was asked for

---@class tide.snapshot.node: tide.node_figures
---@field name string
---@field id integer
---@field state string of the member
---@field up boolean whether it answered
---@field trip_s? number from the question to the answer
---@field asked_wall? number of who asked, in the middle between them
---@field has_store boolean
---@field workers integer

-- Calls all at once: {address, request} each; answers in order, nil for whoever does not answer, and how long each took
-- from which moment on, {s, wall}.
local function ask_all(list)
  local answers, fibers, trips = {}, {}, {}
  for i, each in ipairs(list) do
    fibers[i] = core.fiber(function()
      local since <const>, wall <const> = core.now(), core.wall()
      answers[i] = core.call(each[1], each[2], ANSWER_S)
      trips[i] = {s = core.now() - since, wall = wall}
    end)
  end
  for _, fiber in ipairs(fibers) do core.fiber_wait(fiber, ANSWER_S + 1) end
  return answers, trips
end

local function decoded(answer)
  if type(answer) ~= "table" or answer.data == nil then return nil end
  local ok, value = pcall(function() return core.decode(pieces.whole(answer.data)) end)
  return ok and type(value) == "table" and value or nil
end

local function of_nodes()
  local nodes, asked, asked_of = {}, {}, {}
  for _, member in ipairs(members.listed()) do
    local node <const> = {name = member.name, id = member.id, state = member.state, up = false,
                          has_store = member.store or false, workers = member.workers or 0}
    nodes[#nodes + 1] = node
    local address <const>, agent = node_status.address(member, "metrics")
    node.bare = member.state == "up" and not agent or nil -- a controller or a driver: no rows, no workers
    if address then
      asked[#asked + 1], asked_of[#asked_of + 1] = {address, {op = "metrics"}}, node
    elseif member.state == "up" then
      node.up = true -- nothing there is counted
    end
  end
  local answers <const>, trips <const> = ask_all(asked)
  for i, node in ipairs(asked_of) do
    if trips[i] then node.trip_s, node.asked_wall = trips[i].s, trips[i].wall + trips[i].s / 2 end
    local figures <const> = decoded(answers[i])
    for k, v in pairs(figures or {}) do node[k] = v end
    node.up = figures ~= nil
  end
  table.sort(nodes, function(a, b) return a.id < b.id end)
  return nodes
end

local function of_runs()
  local runs <const> = require "tide.cluster.runs"
  local keeper <const> = runs.find()
  local listed <const> = keeper and core.call(keeper, {op = "list"}, ANSWER_S)
  local asked, rows = {}, {}
  for _, row in ipairs(listed and listed.runs or {}) do
    local known <const> = core.call(keeper, {op = "get", name = tostring(row.n)}, ANSWER_S)
    rows[#rows + 1] = row
    asked[#asked + 1] = {known and known.controller or "0:0", {op = "metrics"}}
  end
  local wanted, at = {}, {}
  for i, each in ipairs(asked) do
    if each[1] ~= "0:0" then wanted[#wanted + 1], at[#at + 1] = each, i end
  end
  local answers <const>, list = ask_all(wanted), {}
  for i, row in ipairs(rows) do
    local p <const> = row.progress or {}
    list[i] = {name = row.name, job = row.job, run = row.uid, script = row.script, state = row.state, why = row.why,
               elapsed_s = 0, reports = p.report or 0, examples = p.examples or 0, loss = p.loss,
               on_report_s = 0, policies_s = 0, tables = {}, workers = {}, policies = {}}
  end
  for k, i in ipairs(at) do
    list[i] = decoded(answers[k]) or list[i]
    list[i].submitted_at, list[i].directory = rows[i].submitted_at, (rows[i].host or {}).directory
  end
  return list
end

local function hot_keys(nodes)
  local names, seen = {}, {}
  for _, node in ipairs(nodes) do
    for _, t in ipairs(node.tables or {}) do
      if not seen[t.name] then seen[t.name], names[#names + 1] = {}, t.name end
    end
  end
  local asked, asked_of = {}, {}
  for _, node in ipairs(nodes) do
    local address <const> = node.up and not node.bare and core.whereis(node.name .. "/agent")
    if address then
      asked[#asked + 1] = {address, {op = "hottest", tables = names, count = HOT_KEYS}}
      asked_of[#asked_of + 1] = node
    end
  end
  for i, answer in pairs(ask_all(asked)) do
    for name, hot in pairs(type(answer) == "table" and answer or {}) do seen[name][asked_of[i].name] = hot end
  end
  local out = {}
  for name, answers in pairs(seen) do
    local keys <const> = heat.merge(answers, HOT_KEYS)
    out[name] = keys
  end
  return out
end

---Inside an actor of a member or client of the cluster.
---@param o? {hot?: boolean} hot: the hottest keys of all tables too
---@return tide.snapshot
function collect.here(o)
  local node <const> = core.node() or {}
  local snapshot <const> = {schema = "tide.snapshot/1", time = core.wall(), now = core.now(), cluster = node.cluster,
                            view = core.members().view, nodes = of_nodes(), runs = of_runs()}
  if o and o.hot then snapshot.hot = hot_keys(snapshot.nodes) end
  return snapshot
end

---The same for who is attached as a client and is no actor: commands.
---@param o? {hot?: boolean}
---@return tide.snapshot|nil, tide.error? err
function collect.ask(o)
  local answer, err = core.node_run([[return require("tide.cluster.collect").travelling(...)]], "@tide/collect.lua",
    {hot = o and o.hot or nil})
  if not answer then return nil, errors.from(err) end
  return (core.decode(pieces.whole(answer.data)))
end

function collect.travelling(o) return {data = pieces.of(core.encode(collect.here(o)))} end

return collect
