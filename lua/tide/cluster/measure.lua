-- What a node counts, read in one go for metrics: every number stands there already, nothing is counted for this.
local core = require "tide.core"

local measure = {}

local TABLES_MAX <const>, LINKS_MAX <const> = 200, 256
local OPERATIONS <const> = {pull = true, push = true}

---@class tide.node_figures
---@field now number monotonic seconds of this node
---@field wall number its clock, seconds since 1970
---@field rss_bytes integer
---@field cpu_s? number processor time of the process; nil where there is none to read (simulated)
---@field threads_ready? integer threads of the machine that run or could
---@field processors integer that the process may use; 0: unknown
---@field memory? table of core.memory
---@field queue? table of core.queue
---@field store {messages: integer, keys: integer, busy_s: number, queue: integer} done for other nodes; mail that waits
---@field links table[] of core.links
---@field actors {type: string, count: integer, mailbox_messages: integer, mailbox_bytes: integer,
---  messages: integer, refused: integer, handling_s: number}[] by type
---@field tables table[] counters of core.tables with `waits` = {pull = counts, push = counts} and `open` = {pull =
---  seconds, push = seconds}, which workers wait at this moment
---@field waited table<string, number> seconds that something was in flight to the store of a member, by its id
---@field left_out? {tables: integer, links: integer}

local function file_text(path)
  local file <const> = io.open(path)
  if not file then return "" end
  local text <const> = file:read "a" or ""
  file:close()
  return text
end

local TICKS <const> = 100 -- a second, in /proc on Linux
local MACHINE_S <const> = 10 -- how long it is believed: limits of control groups are a walk through many files
local machine, machine_at

-- Of Linux; elsewhere, and in the simulator, there is nothing to read.
local function add_machine(out)
  if not machine or out.now - machine_at > MACHINE_S then machine, machine_at = core.machine(), out.now end
  out.processors = machine.processors or 0
  if core.simulated() then return end
  local fields = {} -- behind the name of the process and its state
  for word in (file_text("/proc/self/stat"):match "^%d+ %(.*%) %S+ (.*)$" or ""):gmatch "%S+" do
    fields[#fields + 1] = word
  end
  local user <const>, system <const> = tonumber(fields[11]), tonumber(fields[12])
  out.cpu_s = user and system and (user + system) / TICKS or nil
  out.threads_ready = math.tointeger(tonumber((file_text("/proc/loadavg"):match "^%S+ %S+ %S+ (%d+)/")))
end

-- Actors by type, and how long workers wait for tables by now: {[table] = {pull = seconds, push = seconds}}.
local function of_actors()
  local list, by_type, open = {}, {}, {}
  for _, actor in ipairs(core.actors()) do
    local kind <const> = actor.type ~= "" and actor.type or "actor"
    local sum = by_type[kind]
    if not sum then
      sum = {type = kind, count = 0, mailbox_messages = 0, mailbox_bytes = 0, messages = 0, refused = 0,
             handling_s = 0}
      by_type[kind], list[#list + 1] = sum, sum
    end
    sum.count, sum.messages = sum.count + 1, sum.messages + (actor.messages_handled or 0)
    sum.refused = sum.refused + (actor.messages_refused or 0)
    sum.mailbox_messages = sum.mailbox_messages + (actor.mailbox_messages or 0)
    sum.mailbox_bytes, sum.handling_s = sum.mailbox_bytes + (actor.mailbox_bytes or 0),
      sum.handling_s + (actor.handling_s or 0)
    local what, name = (actor.waits_for or ""):match "^(%l+) ([^, ]+)"
    if OPERATIONS[what] and actor.waits_s then
      open[name] = open[name] or {}
      open[name][what] = (open[name][what] or 0) + actor.waits_s
    end
  end
  table.sort(list, function(a, b) return a.type < b.type end)
  return list, open, by_type
end

---@return tide.node_figures
function measure.node()
  local out = {now = core.now(), wall = core.wall(), rss_bytes = core.rss(), memory = core.memory(),
               queue = core.queue(), tables = {}, links = core.links(), waited = {}, slow = core.slow()}
  add_machine(out)
  local open, by_type
  out.actors, open, by_type = of_actors()
  local load <const> = core.load()
  out.store = {messages = load.messages, keys = load.keys, busy_s = load.busy_s,
               queue = by_type.store and by_type.store.mailbox_messages or 0}
  local tables <const> = core.tables(true) or {}
  table.sort(tables, function(a, b) return a.name < b.name end)
  if #tables > TABLES_MAX or #out.links > LINKS_MAX then
    out.left_out = {tables = math.max(#tables - TABLES_MAX, 0), links = math.max(#out.links - LINKS_MAX, 0)}
    for i = #out.links, LINKS_MAX + 1, -1 do out.links[i] = nil end
  end
  for i = 1, math.min(#tables, TABLES_MAX) do
    local stats <const> = tables[i]
    stats.open = open[stats.name]
    out.tables[#out.tables + 1] = stats
  end
  for _, member in ipairs(core.members()) do
    local seconds <const> = member.store and core.waited(member.id) or 0
    if seconds > 0 then out.waited[tostring(member.id)] = seconds end
  end
  return out
end

return measure
