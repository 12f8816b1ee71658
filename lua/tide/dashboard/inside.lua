-- Looking inside, for the page: all actors of the cluster, the stacks of some, the hottest keys of a table. The page
-- asks the same requests as the console's `actors()`, `stack(NAME)` and `t:hottest(N)`; each requires the right `read`.
local client = require "tide.cluster.client"
local core = require "tide.core"
local errors = require "tide.errors"
local heat = require "tide.show.hot_keys"
local json = require "tide.json"
local saved = require "tide.dashboard.saved"
local stacks = require "tide.cluster.stacks"
local state = require "tide.dashboard.state"
local units = require "tide.units"

local inside = {}

local JSON <const> = "application/json"
local ACTORS_MAX <const> = 5000
local LINES_MAX <const> = 4000 -- of all stacks together
local KEYS <const>, KEYS_MAX <const> = 20, 100

-- Of all nodes that answer: what core.actors() has, with the node.
local function actors()
  local rows <const>, err = client.gather "status"
  if not rows then return nil, errors.from(err) end
  local list = {}
  for _, row in ipairs(rows) do
    for _, actor in ipairs(row.answer and row.answer.actors or {}) do
      actor.node = row.name
      list[#list + 1] = actor
    end
  end
  return list
end

---`GET /api/actors`: by node and address.
function inside.actors()
  local list <const>, err = actors()
  if not list then return saved.failed(err) end
  local rows = {}
  for i = 1, math.min(#list, ACTORS_MAX) do
    local a <const> = list[i]
    rows[i] = {address = state.text(a.address), node = state.text(a.node), type = state.text(a.type or ""),
      name = a.name and state.text(a.name), mail = a.mailbox_messages, mail_bytes = a.mailbox_bytes,
      messages = a.messages_handled, busy_s = a.handling_s,
      waits_for = a.waits_for and state.text(a.waits_for), waits_s = a.waits_s}
  end
  return 200, JSON, json.object({schema = "tide.actors/1", all = #list}, {actors = rows})
end

---`GET /api/stack?of=NAME`: an actor, a run or one of its workers, as `tide stack` names them.
function inside.stack(_, query)
  local name <const> = saved.fields_of(query).of
  if not name or name == "" then
    return saved.failed(errors.new("T0105", {message = "a stack is of an actor, or of a run's workers",
      help = "/api/stack?of=mf-1/2"}))
  end
  local all <const>, lost = actors()
  if not all then return saved.failed(lost) end
  local list <const>, err = stacks.ask(name, all)
  if not list then return saved.failed(errors.from(err)) end
  local found, lines = {}, 0
  for _, each in ipairs(list) do
    local text <const> = stacks.lines(each)
    lines = lines + #text
    if lines <= LINES_MAX then
      found[#found + 1] = {title = text[1], text = table.concat(text, "\n", 2), line = stacks.line(each.fibers)}
    end
  end
  return 200, JSON, json.object({schema = "tide.stacks/1", of = state.text(name), at = core.wall(), all = #list},
    {stacks = state.clean(found)})
end

---`GET /api/hottest?table=NAME&count=N`: over all nodes, hottest first.
function inside.hottest(_, query)
  local fields <const> = saved.fields_of(query)
  local name <const> = fields.table or ""
  local count <const> = math.min(math.tointeger(tonumber(fields.count or "")) or KEYS, KEYS_MAX)
  local rows <const>, err = client.gather("hottest", {tables = {name}, count = math.max(count, 1)})
  if not rows then return saved.failed(errors.from(err)) end
  local answers, none = {}, nil
  for _, row in ipairs(rows) do
    local of_table <const> = row.answer and row.answer[name]
    if of_table then answers[row.name] = of_table else none = none or row.error and row.error.message end
  end
  if not next(answers) then
    return saved.failed(errors.new("T0401", {message = none or ("there is no table `%s`"):format(state.text(name)),
      help = "`tide tables` lists them"}))
  end
  local list <const>, total = heat.merge(answers, count)
  local keys = {}
  for i, k in ipairs(list) do
    local users = {}
    for node, each in pairs(k.nodes) do
      users[#users + 1] = {node = state.text(node), reads = each.reads, writes = each.writes}
    end
    table.sort(users, function(a, b) return a.reads + a.writes > b.reads + b.writes end)
    keys[i] = {key = units.format_unsigned(k.key), share = k.share, reads = k.reads, writes = k.writes, users = users}
  end
  return 200, JSON, json.object({schema = "tide.hottest/1", table = state.text(name), accesses = total}, {keys = keys})
end

return inside
