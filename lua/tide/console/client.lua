-- The client's end of a console: finds a node, opens a session there, sends lines, receives results.
--
-- Lives in an actor of the client process. A client looks for a lost session for 30 s by its id: a node that still has
-- the session resumes it, and no request is evaluated twice.
local core = require "tide.core"
local errors = require "tide.errors"
local requests = require "tide.requests"
local save = require "tide.console.save"
local service = require "tide.service"
local targets = require "tide.console.targets"

local client = {}
client.__index = client

local OPEN_S <const> = 5
local RECONNECT_S <const> = 30
local POLL_S <const> = 0.01 -- how late a Ctrl-C is noticed, at most
local FILE_MAX <const> = 1 << 20
local PAGE_MAX <const> = 16 << 20
client.TEXT_MAX = 1000000 -- bytes that are evaluated at once: they travel in one message

local function new_id()
  return core.sha256(("%s %s %s"):format(core.wall(), core.now(), tostring({}))):sub(1, 24)
end

-- Nodes that run consoles, the wanted one or the first by name first.
local function candidates(preferred)
  local list = {}
  for _, member in ipairs(core.members()) do
    if member.state == "up" and targets.serves(member) then list[#list + 1] = member end
  end
  table.sort(list, function(a, b)
    if (a.name == preferred) ~= (b.name == preferred) then return a.name == preferred end
    if #a.name ~= #b.name then return #a.name < #b.name end
    return a.name < b.name
  end)
  return list
end

---@param code string
---@return tide.error
function client.too_long(code)
  return errors.new("T0113", {message = ("%d bytes of code"):format(#code),
    help = ("at most %d are evaluated at once; run a longer script by `tide run`"):format(client.TEXT_MAX)})
end

---`print` returns whether the output still has a reader; without one the evaluation is cancelled. Values for the pager
---are printed like other output unless the creator of the client sets `page`.
---@param o {print: fun(text: string): any, live: fun(text: string?), say: fun(text: string), role: string}
---@return table client, not connected
function client.new(o)
  return setmetatable({id = new_id(), role = o.role, print = o.print, live = o.live, say = o.say, page = o.print,
                       next_id = 0, expected = {}, lines = {}, interrupts = core.interrupted(),
                       ended_by = function() return nil end}, client)
end

---Opens the session on a node of the cluster.
---@return true|nil, table? err
function client:connect()
  local problem
  for _, member in ipairs(candidates(self.node)) do
    local agent, err = core.whereis(member.name .. "/agent")
    local opened
    if agent then opened, err = core.call(agent, {op = "console.open", session = self.id, role = self.role}, OPEN_S) end
    if opened then
      self.address, self.node, self.version = opened.address, opened.node, opened.version
      self.resumed = opened.resumed
      if self.monitor then core.demonitor(self.monitor) end
      self.monitor = core.monitor(self.address)
      return true
    end
    problem = err
  end
  return nil, problem and errors.from(problem, "T0501")
    or errors.new("T0501", {message = "the cluster has no node that runs consoles"})
end

-- After the session's end: once more, for a while. Says what is left of it.
function client:reconnect()
  local deadline <const> = core.now() + RECONNECT_S
  local before <const> = self.node
  self.say(("lost %s; connecting again"):format(tostring(before)))
  while core.now() < deadline do
    local ok = self:connect()
    if ok then
      self.say(self.resumed and ("connected to %s again"):format(self.node)
        or ("connected to %s; the globals of the session are lost"):format(self.node))
      return true
    end
    if core.interrupted() > self.interrupts then break end
    core.sleep(0.5)
  end
  return nil, errors.new("T0501", {message = ("no node of the cluster answers any more (%d s)"):format(RECONNECT_S)})
end

---- messages ------------------------------------------------------------------------------------------------------

local function read_file(path)
  local file, why = io.open(path, "rb")
  if not file then return nil, errors.new("T0401", {message = ("`%s`: %s"):format(path, why)}) end
  local content = file:read(FILE_MAX + 1)
  file:close()
  if not content or #content > FILE_MAX then
    return nil, errors.new("T0402", {message = ("`%s` is empty or larger than 1 MiB"):format(path)})
  end
  return {text = content, path = path}
end

-- What a session sends: by name, as methods of the client.
local answers <const> = {}

-- Sends only a file that the line itself names: a node must not read others. The client keeps the line, because a line
-- from the node would be the node's choice of a file.
answers["console.file"] = function(self, request)
  if not save.names(self.text, request.path) then
    return nil, errors.new("T0505", "the line does not name this file")
  end
  return read_file(request.path)
end

answers["console.save"] = function(self, request) return save.piece(request, self.text) end

-- A piece of a value for the pager; it is shown when the line has ended.
answers["console.page"] = function(self, request)
  self.paged = self.paged or {bytes = 0}
  self.paged.bytes = self.paged.bytes + #request.text
  if self.paged.bytes > PAGE_MAX then
    return nil, errors.new("T0505", "more than 16 MiB are nothing for a pager: save() writes files")
  end
  self.paged[#self.paged + 1] = request.text
end

-- What was sent while the session was out of reach is gone. `to`: the number of the last piece, which has come or not.
local function count_pieces(self, to, came)
  if self.pieces and to - (came and 1 or 0) > self.pieces then
    self.say "a part of the output is lost: the session was out of reach"
  end
  self.pieces = to
end

answers["console.output"] = function(self, m)
  if m.id ~= self.awaited then return end
  self.live(nil)
  count_pieces(self, m.sequence, true)
  if not self.unread and not self.print(m.text) then
    self.unread = true
    core.send(self.address, {op = "console.cancel", id = m.id}, "system")
  end
end

answers["console.live"] = function(self, m)
  if m.id == self.awaited then self.live(m.text) end
end

function client:show_pages()
  local paged <const> = self.paged
  self.paged = nil
  if paged then self.page(table.concat(paged)) end
end

-- Returned when it is the one that is waited for.
answers["console.result"] = function(self, m)
  if m.id == self.awaited then
    self.live(nil)
    count_pieces(self, m.pieces or 0, false)
    self.lines[m.id] = nil
    if self.unread then m.status, m.error = "gone", nil end
    self:show_pages()
    return m
  elseif self.expected[m.id] then
    self.expected[m.id], self.lines[m.id] = nil, nil
    self.say(("evaluation %s has ended: %s"):format(tostring(m.id), m.status))
  end
end

-- Returns the result of `id` when the message was that.
function client:take(message, id)
  self.awaited = id
  self.service = self.service or service.new {
    name = "a prompt", rows = requests.prompt, answers = answers, invoke = function(f, m) return f(self, m) end,
  }
  return message.kind ~= "exit" and self.service:serve(message) or nil
end

---Waits for the result of an evaluation that runs. Ctrl-C cancels it; a second one leaves it to itself.
---@param id integer
---@param again fun()? sends the request once more, after a reconnection
---@return table|nil result {status = "ok"|"error"|"cancelled"|"detached", ...}; nil: the cluster is gone
---@return table? err
function client:wait(id, again)
  local seen = self.interrupts
  local presses = 0
  while true do
    local message = core.receive(POLL_S)
    if message and message.kind == "exit" and message.from == self.address then
      local ok, err = self:reconnect()
      if not ok then return nil, err end
      if not self.resumed then
        return {status = "error", seconds = 0, error = {code = "T0508",
          message = "the session's node is gone, and what was evaluated there with it"}}
      end
      if again then again() end
    elseif message then
      local result = self:take(message, id)
      if result then
        self.interrupts = core.interrupted()
        return result
      end
    end
    if self.ended_by() then -- the evaluation continues without this process
      return {status = "detached", seconds = 0}
    end
    local now <const> = core.interrupted()
    if now > seen then
      seen, presses = now, presses + 1
      if presses == 1 then
        core.send(self.address, {op = "console.cancel", id = id}, "system")
      else
        self.interrupts, self.expected[id] = now, true
        return {status = "detached", seconds = 0}
      end
    end
  end
end

---Takes messages while nothing is waited for: what left evaluations say, and the end of the session. Never returns.
function client:listen()
  while true do
    local message = core.receive()
    if message and message.kind == "exit" and message.from == self.address then
      self.lost = true
      self.say(("lost %s; the next line connects again"):format(tostring(self.node)))
    elseif message then
      self:take(message, nil)
    end
  end
end

---Evaluates a line.
---@param line string
---@param o {targets?: string, want?: "display"|"data", width?: integer, utf8?: boolean, seconds?: number}
---@return table|nil result, table? err
function client:eval(line, o)
  if #line > client.TEXT_MAX then
    return {status = "error", seconds = 0, error = errors.to_data(client.too_long(line))}
  end
  self.next_id = self.next_id + 1
  self.text, self.lines[self.next_id], self.pieces = line, line, 0
  local request <const> = {op = "console.eval", id = self.next_id, text = line, targets = o.targets,
    want = o.want or "display", width = o.width, utf8 = o.utf8, seconds = o.seconds}
  local function send() return core.send(self.address, request) end
  local sent = not self.lost and send()
  self.lost = false
  if not sent then
    local ok, err = self:reconnect()
    if ok then ok, err = send() end
    if not ok then return nil, errors.from(err, "T0501") end
  end
  return self:wait(self.next_id, send)
end

---Closes the session; evaluations that are still active continue.
function client:close()
  if self.address and not self.lost then core.send(self.address, {op = "console.close"}) end
end

---Waits for an evaluation that was left to itself.
---@param id integer
---@return table|nil result, table? err
function client:foreground(id)
  local ok, err = core.call(self.address, {op = "console.fg", id = id}, OPEN_S)
  if not ok then return nil, errors.from(err) end
  self.text, self.expected[id], self.pieces = self.lines[id], nil, nil -- what it printed before is not kept
  return self:wait(id)
end

---@param line string
---@param cursor integer
---@return table {start, candidates, hint}
function client:complete(line, cursor)
  return core.call(self.address, {op = "console.complete", text = line, cursor = cursor}, 1) or {candidates = {}}
end

---@param what string
---@param source? boolean
---@return string? text
function client:help(what, source)
  local answer = core.call(self.address, {op = "console.help", text = what, source = source}, OPEN_S)
  return answer and answer.text
end

---@return string[] names of the jobs that have workers on the session's node
function client:jobs()
  local agent <const> = core.whereis(self.node .. "/agent")
  local answer = agent and core.call(agent, {op = "jobs"}, 1)
  local names = {}
  for i, job in ipairs(answer and answer.jobs or {}) do names[i] = job.job end
  table.sort(names)
  return names
end

---What the cluster is called, and how many nodes are up.
---@return string name
---@return integer up
function client.cluster_of()
  local up = 0
  for _, member in ipairs(core.members()) do
    if member.state == "up" then up = up + 1 end
  end
  return (core.node() or {}).cluster or "?", up
end

return client
