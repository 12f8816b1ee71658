-- Traces of a cluster: what threads ran and what fibers waited for on every node, as one file in the Chrome trace
-- format. Clocks of the nodes agree: they are processes of one machine, or simulated. A file may have several parts,
-- one for each cluster of a script: it is whole after each of them, and the next one replaces its end.
local core = require "tide.core"
local errors = require "tide.errors"

local trace = {}
trace.__index = trace

local CALL_S <const> = 30
local EVENTS_MIN <const>, EVENTS_MAX <const> = 1024, 65536
local HEAD <const>, FOOT <const> = '{"displayTimeUnit":"ms","traceEvents":[\n', "{}]}\n" -- an event behind the comma
local EVENTS_IN_ALL <const> = 4194304 -- 64 bytes each; simulated nodes share one process

local function ask(agent, request)
  local answer, err = core.call(agent, request, CALL_S)
  if not answer then return nil, errors.from(err) end
  return answer
end

local function open(path, agents, origin, former)
  local file, why = io.open(path, former and "r+" or "w")
  if not file then
    error(errors.new("T0403", {message = ("cannot write the trace `%s`: %s"):format(path, (why:gsub("^.*: ", "")))}), 0)
  end
  return setmetatable({path = path, file = file, agents = agents, origin = former and former.origin or origin,
    part = former and former.part + 1 or 1, lost = {}}, trace)
end

local function begin(agents, most)
  local nodes <const> = core.simulated() and #agents + 1 or 1
  local events <const> = math.max(EVENTS_MIN, math.min(most or EVENTS_MAX, EVENTS_IN_ALL // (4 * nodes)))
  local ok, err = core.trace_start(events)
  for _, node in ipairs(agents) do
    if not ok then break end
    ok, err = ask(node.agent, {op = "trace.start", events = events})
  end
  return ok, err
end

---Begins to record on this node and on those of `agents`; nodes that join later are not in it.
---@param path string of the file that `close` writes
---@param agents table[] {name, agent} of the other nodes
---@param former? table an earlier trace, closed, whose file gets another part
---@return table trace
function trace.start(path, agents, former)
  local self <const> = open(path, agents, core.trace_clock(), former)
  local ok, err = begin(agents)
  if not ok then
    self.file:close()
    error(errors.from(err), 0)
  end
  return self
end

function trace:write(...)
  local ok, why = self.file:write(...)
  if not ok then self.problem = self.problem or why end
end

local function write_node(self, name, read, shown)
  local cursor, first = 0, true
  repeat
    local text
    text, cursor = read(cursor)
    if not text then
      self.lost[#self.lost + 1] = name
      return
    end
    if first then
      self:write('{"ph":"M","pid":', math.tointeger(self.pids[name]), ',"name":"process_name","args":{"name":',
        core.json_encode(shown or name), "}},\n")
      first = false
    end
    self:write(text)
  until not cursor
end

---Ends the recording and writes the file. Says so of nodes that did not answer, which are not in it.
---@return string[] names of these nodes
function trace:close()
  if not self.file then return self.lost end
  core.trace_stop()
  for _, node in ipairs(self.agents) do core.call(node.agent, {op = "trace.stop"}, CALL_S) end
  self.pids = {}
  for _, member in ipairs(core.members()) do self.pids[member.name] = member.id end
  if self.part == 1 then self:write(HEAD) else self.file:seek("end", -#FOOT) end
  local own <const> = core.node().name
  if self.pids[own] then -- a client is no member, and of no interest
    write_node(self, own, function(cursor) return core.trace_read(cursor, self.origin) end)
  end
  for _, node in ipairs(self.agents) do
    write_node(self, node.name, function(cursor)
      local answer = ask(node.agent, {op = "trace.read", cursor = cursor, origin = self.origin})
      if answer then return answer.text, answer.cursor end
    end, self.part > 1 and ("%s, cluster %d"):format(node.name, self.part) or nil)
  end
  self:write(FOOT)
  local ok, why = self.file:close()
  self.file = nil
  if self.problem then ok, why = nil, self.problem end
  if not ok then
    error(errors.new("T0403", {message = ("cannot write the trace `%s`: %s"):format(self.path, why)}), 0)
  end
  for _, name in ipairs(self.lost) do
    core.log("warn", ("node %s is not in the trace %s: it did not answer"):format(name, self.path))
  end
  return self.lost
end

trace.__close = trace.close

local LOOK_S <const> = 0.05

local function agents_up()
  local agents = {}
  for _, member in ipairs(core.members()) do
    local address = member.state == "up" and core.whereis(member.name .. "/agent")
    if address then agents[#agents + 1] = {name = member.name, agent = address} end
  end
  return agents
end

---Without waiting for its end: begins to record the cluster that this process is attached to.
---@param o {events: integer} of a thread at most, the newest
---@return table|nil {agents =, origin =} for `finish`
---@return tide.error? err
function trace.begin(o)
  local agents <const>, origin <const> = agents_up(), core.trace_clock()
  local ok, err = begin(agents, o.events)
  if not ok then return nil, err end
  return {agents = agents, origin = origin}
end

---@param o {path: string, agents: table[], origin: integer}
---@return table|nil {silent = names}
---@return tide.error? err
function trace.finish(o)
  local ok, result = pcall(function() return open(o.path, o.agents, o.origin):close() end)
  if not ok then return nil, result end
  return {silent = result}
end

---Records the cluster that this process is attached to: {path=, seconds=, timeout_s=}; until Ctrl-C at most.
---@return table|nil {nodes = number, silent = names, exit = of the command}
---@return tide.error? err
function trace.record(o)
  local agents <const> = agents_up()
  local exit = 0
  local ok, result = pcall(function()
    local self <const> = trace.start(o.path, agents)
    local now = core.now()
    local over <const>, late <const> = now + o.seconds, now + (o.timeout_s or math.huge)
    while exit == 0 and now < over do
      core.sleep(math.min(LOOK_S, over - now))
      now = core.now()
      exit = core.interrupted() > 0 and 130 or now >= late and now < over and 124 or 0
    end
    return self:close()
  end)
  if not ok then return nil, result end
  return {nodes = #agents - #result, silent = result, exit = exit}
end

return trace
