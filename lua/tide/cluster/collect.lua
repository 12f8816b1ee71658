-- A cluster as one snapshot, and snapshots as curves: what metrics, `tide why` and pages are made of.
--
-- A snapshot has the counters of every node and every active run at one moment (docs/guides/metrics.md). A client or a
-- script requests it; nodes count at all times. A node that does not answer within a second appears with its membership
-- alone and `up = false`.
--
-- A collector keeps rings of curves, of bounded size. It has no clock and no socket of its own, so it runs under
-- `tide sim` and over saved runs.
local ask_all = require "tide.ask_all"
local client = require "tide.cluster.client"
local core = require "tide.core"
local hot_keys = require "tide.show.hot_keys"
local members = require "tide.cluster.members"
local node_status = require "tide.cluster.node_status"
local keeper = require "tide.keeper"
local pieces = require "tide.pieces"

local collect = {}

local ANSWER_S <const> = 1
local HOT_KEYS <const> = 20

---@class tide.snapshot
---@field schema "tide.snapshot/1"
---@field time number seconds since 1970
---@field now number monotonic seconds of the requester
---@field cluster string
---@field view integer version of the membership
---@field nodes tide.snapshot.node[] by id
---@field runs tide.run_figures[] of active runs, oldest first
---@field hot? table<string, tide.hot_key[]> by table, if it was asked for

---@class tide.snapshot.node: tide.node_figures
---@field name string
---@field id integer
---@field state string of the member
---@field up boolean whether it answered
---@field trip_s? number from the question to the answer
---@field asked_wall? number of the requester, in the middle between them
---@field has_store boolean
---@field workers integer

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
      asked[#asked + 1], asked_of[#asked_of + 1] = address, node
    elseif member.state == "up" then
      node.up = true -- nothing there is counted
    end
  end
  local answers <const> = ask_all(asked, function(address, i, timeout_s)
    local node <const>, since <const>, wall <const> = asked_of[i], core.now(), core.wall()
    local answer <const>, err <const> = core.call(address, {op = "metrics"}, timeout_s)
    node.trip_s = core.now() - since
    node.asked_wall = wall + node.trip_s / 2
    return answer, err
  end, {timeout_s = ANSWER_S})
  for i, node in ipairs(asked_of) do
    local figures <const> = decoded(answers[i])
    for k, v in pairs(figures or {}) do node[k] = v end
    node.up = figures ~= nil
  end
  table.sort(nodes, function(a, b) return a.id < b.id end)
  return nodes
end

local function of_runs()
  local address <const> = keeper.find()
  local listed <const> = address and core.call(address, {op = "list"}, ANSWER_S)
  local rows <const>, list = listed and listed.runs or {}, {}
  local answers <const> = ask_all(rows, function(row, _, timeout_s)
    local known <const>, err <const> = core.call(address, {op = "get", name = tostring(row.n)}, timeout_s)
    if not known or not known.controller then return nil, err end
    return core.call(known.controller, {op = "metrics"}, timeout_s)
  end, {timeout_s = ANSWER_S})
  for i, row in ipairs(rows) do
    local p <const> = row.progress or {}
    local figures <const> = decoded(answers[i])
    list[i] = figures or {name = row.name, job = row.job, run = row.uid, script = row.script, state = row.state,
               why = row.why, elapsed_s = 0, reports = p.report or 0, examples = p.examples or 0, loss = p.loss,
               on_report_s = 0, policies_s = 0, tables = {}, workers = {}, policies = {}}
    list[i].submitted_at = figures and row.submitted_at
    list[i].directory = figures and (row.host or {}).directory
  end
  return list
end

local function hottest(nodes)
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
      asked[#asked + 1] = address
      asked_of[#asked_of + 1] = node
    end
  end
  local request <const> = {op = "hottest", tables = names, count = HOT_KEYS}
  for i, answer in pairs((ask_all(asked, request, {timeout_s = ANSWER_S}))) do
    for name, hot in pairs(type(answer) == "table" and answer or {}) do seen[name][asked_of[i].name] = hot end
  end
  local out = {}
  for name, answers in pairs(seen) do
    local keys <const> = hot_keys.merge(answers, HOT_KEYS)
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
  if o and o.hot then snapshot.hot = hottest(snapshot.nodes) end
  return snapshot
end

---The same for an attached client that is no actor: commands.
---@param o? {hot?: boolean}
---@return tide.snapshot|nil, tide.error? err
function collect.ask(o)
  return client.look("tide.cluster.collect.here", {hot = o and o.hot or nil})
end

return collect
