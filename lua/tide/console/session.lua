-- A console's session on one node: an actor with a Lua state of its own, in which lines are evaluated.
--
-- The main fiber only receives messages, so that a cancel always arrives; every evaluation runs on a fiber that can be
-- ended at any instruction (lua/host/actor/console.c), and a second fiber waits for it and tells the client. The
-- session that the client talks to also asks the sessions of other nodes when a line has targets, and merges their
-- answers.
local ask_all = require "tide.ask_all"
local blocks = require "tide.console.block"
local core = require "tide.core"
local environment = require "tide.console.environment"
local errors = require "tide.errors"
local names = require "tide.console.names"
local render = require "tide.console.render"
local requests = require "tide.requests"
local roles = require "tide.console.roles"
local service = require "tide.service"
local taps = require "tide.console.taps"
local targets = require "tide.console.targets"
local text = require "tide.text"
local verbs = require "tide.request_audit"

local session = {}

local STEP_S <const> = 0.1         -- how long printed text waits for more, at most
local EVALUATIONS_MAX <const> = 8
local COMPLETE_S <const> = 0.05
local FAN_OUT_MAX <const> = 64
local ANSWER_S <const> = 5         -- of another node, unless the evaluation has a limit of its own
local GRACE_S <const> = 5          -- for a cancelled evaluation to end
local RESULTS_MAX <const> = 20
local COLLECT_BYTES <const> = 4 << 20 -- an evaluation that used more leaves no garbage to the other sessions

local state = {
  records = {},                                -- by id: what runs, and what ran last
  by_evaluation = setmetatable({}, {__mode = "k"}),
  results = {},
  used_at = 0,
  clients = {},                                -- address of a prompt -> monitor
  peers = {},                                  -- node -> the session there that works for this one
  role = "admin",
  globals = _G, -- of what is typed
}

-- Taken before the state becomes a console's: nothing typed may take messages from the session.
local receive <const>, collect <const> = core.receive, collectgarbage

---- output --------------------------------------------------------------------------------------------------------

local function send_output(record, chunk)
  record.sequence = record.sequence + 1
  if record.client then
    core.send(record.client, {op = "console.output", id = record.id, sequence = record.sequence, text = chunk})
  else
    record.collected[#record.collected + 1] = chunk
  end
end

local function flush(record)
  if record.buffered == 0 then return end
  local all <const> = table.concat(record.buffer)
  record.buffer, record.buffered, record.flushed_at = {}, 0, core.now()
  local most <const> = core.limit "console_chunk_bytes"
  for at = 1, #all, most do send_output(record, all:sub(at, at + most - 1)) end
end

-- Within the credit text goes out; beyond it a part is kept, and the rest counted.
local function write(record, chunk)
  local room <const> = core.limit "console_output_bytes" - record.written
  if room > 0 then
    local now = chunk:sub(1, room)
    record.written = record.written + #now
    record.buffer[#record.buffer + 1], record.buffered = now, record.buffered + #now
    chunk = chunk:sub(#now + 1)
    local due <const> = core.now() - record.flushed_at > STEP_S
    if due or record.buffered >= core.limit "console_chunk_bytes" then flush(record) end
  end
  if #chunk > 0 then
    if record.beyond == 0 then record.buffer[#record.buffer + 1], record.buffered = "\n", record.buffered + 1 end
    record.beyond = record.beyond + #chunk
    local kept <const> = chunk:sub(1, core.limit "console_kept_bytes" - record.kept_bytes)
    record.kept[#record.kept + 1] = kept ~= "" and kept or nil
    record.kept_bytes = record.kept_bytes + #kept
  end
end

---The print of the prompt: to the client of the evaluation that calls it.
function session.print(...)
  local record <const> = state.by_evaluation[core.evaluating()]
  if not record then return end
  local parts = table.pack(...)
  for i = 1, parts.n do parts[i] = tostring(parts[i]) end
  write(record, table.concat(parts, "\t") .. "\n")
end

---What the last evaluation wrote beyond its credit: whole lines.
---@return string|nil text
---@return integer bytes that are left after it
---@return integer bytes that were not kept, after the last of them
function session.more()
  local kept <const> = state.kept
  if not kept or #kept == 0 then return nil, 0, 0 end
  local most <const> = core.limit "console_output_bytes" - core.limit "console_chunk_bytes"
  local text_now = kept:sub(1, most)
  if #kept > most then text_now = text_now:match "^.*\n" or text_now end
  state.kept = kept:sub(#text_now + 1)
  return text_now:gsub("\n$", ""), #state.kept, state.lost
end

---Raises the output limit of the calling evaluation: a long one is bounded by its rate.
---@param bytes number seconds times a rate: need not be whole
function session.allow(bytes)
  local record <const> = state.by_evaluation[core.evaluating()]
  if record then record.written = math.max(0, record.written - math.floor(bytes)) end
end

---@return boolean whether what the evaluation that calls it prints may be more than ASCII
function session.utf8()
  local record <const> = state.by_evaluation[core.evaluating()]
  return record and record.utf8 or false
end

---A line that the client draws over its former self: watch and top.
---@param line string
function session.live(line)
  local record <const> = state.by_evaluation[core.evaluating()]
  if record and record.client then
    core.send(record.client, {op = "console.live", id = record.id, text = line})
  end
end

---Asks the user at the prompt: the client's answer to a question, or to a file's name.
---@param request table {op = "console.file", path=}
---@return table? answer
---@return table? err
function session.ask_client(request)
  local record <const> = state.by_evaluation[core.evaluating()]
  if not record or not record.asks then
    return nil, errors.new("T0117", "the evaluation has no terminal: files are read and written by a prompt alone")
  end
  local answer, err = core.call(record.asks, request, 30)
  if answer then return answer end
  err = errors.from(err)
  err.node = "the client"
  return nil, err
end

---- evaluations ---------------------------------------------------------------------------------------------------

local function new_record(request, client, asks)
  return {id = request.id, text = request.text, client = client, asks = asks, started_at = core.now(), sequence = 0,
          buffer = {}, buffered = 0, flushed_at = 0, written = 0, beyond = 0, kept = {}, kept_bytes = 0,
          collected = {}, width = request.width or 100, utf8 = request.utf8 or false, peers = {}}
end

---Compiles text that is evaluated under the names of the session's role.
---@param source string
---@param name string of the chunk
---@return function? chunk
---@return string? problem
function session.load(source, name) return load(source, name, "t", state.globals) end

---@return string role of this session
function session.role() return state.role end

local function remember(values)
  if values.n == 0 or values[1] == nil then return end
  table.insert(state.results, 1, values[1])
  state.results[RESULTS_MAX + 1] = nil
  rawset(state.globals, "_", values[1])
  for i, value in ipairs(state.results) do rawset(state.globals, "_" .. i, value) end
end

-- Body of an evaluation: everything that a value's own code could do happens here, under its limits; so does compiling,
-- which a long line can make last.
local function evaluate(request)
  local chunk <const>, why = blocks.compile(request.text, state.globals)
  if not chunk then return {unreadable = why} end
  local values = table.pack(chunk())
  remember(values)
  if request.want == "data" then
    local json, cut = render.data(values)
    return {data = json, cut = cut}
  end
  return {display = values.n > 0 and not (values.n == 1 and values[1] == nil) and render.text(values, {
    width = request.width or 100, utf8 = request.utf8, describe = environment.describe}) or nil}
end

local OVER <const> = {
  cancelled = {"T0230", "cancelled after %.1f s"},
  time = {"T0231", "its time is over: %.1f s"},
  instructions = {"T0231", "its instructions are used up, after %.1f s"},
  memory = {"T0231", "the session's memory (256 MiB) is used up, after %.1f s"},
  shared_memory = {"T0231", "the memory of this node's sessions below admin (64 MiB together) is used up, after %.1f s",
    "end a session that holds much, or ask for less: tables.NAME:pull(keys) with fewer keys"},
}

local function ended_early(figures)
  local shared <const> = figures.over == "memory" and state.role ~= "admin"
  local code, form, help = table.unpack(OVER[shared and "shared_memory" or figures.over])
  return {code = code, message = form:format(figures.seconds), help = help}
end

-- Waits for the evaluation's fiber, sends what it printed meanwhile, and enforces its time.
local function outcome(record, fiber, evaluation, seconds)
  local deadline = seconds and core.now() + seconds
  local told, given_up, ended
  while true do
    local results = table.pack(core.fiber_wait(fiber, STEP_S))
    flush(record)
    if results[1] then return results[2] end
    local err <const> = results[2]
    local waited <const> = type(err) == "table" and err.name == "ETIMEDOUT"
    local runs <const> = core.evaluation(evaluation).fibers > 0
    -- It may have ended just now; then the next look has its result.
    if not waited or not runs and ended then return nil, err end
    ended = not runs
    if deadline and core.now() >= deadline and not told then
      told, given_up = true, core.now() + GRACE_S
      core.evaluation_cancel(evaluation, "time")
    elseif given_up and core.now() > given_up then
      return nil, err
    end
  end
end

local function keep_output(record)
  if record.beyond == 0 then return end
  state.kept, state.lost = table.concat(record.kept), record.beyond - record.kept_bytes
end

---Runs `body` as an evaluation and returns its result as a message's fields.
local function run(record, request, body, ...)
  local fiber, evaluation = core.evaluate({instructions = state.instructions}, body, ...)
  if not fiber then return {status = "error", error = render.failure(evaluation)} end
  record.evaluation = evaluation
  state.by_evaluation[evaluation] = record
  if record.cancelled then core.evaluation_cancel(evaluation) end
  local answer, err = outcome(record, fiber, evaluation, request.seconds)
  local figures <const> = core.evaluation(evaluation)
  core.evaluation_cancel(evaluation) -- what it started and left behind ends with it
  flush(record)
  keep_output(record)
  local result = answer or {}
  result.status = answer and "ok" or "error"
  if figures.over and not answer then
    result.status, result.error = figures.over == "cancelled" and "cancelled" or "error", ended_early(figures)
  elseif not answer then
    result.error = render.failure(err)
  end
  result.seconds, result.instructions = core.now() - record.started_at, figures.instructions
  result.memory_peak_bytes, result.truncated_bytes = figures.memory_peak_bytes, record.beyond
  return result
end

local function run_here(record, request)
  local result <const> = run(record, request, evaluate, request)
  if result.unreadable then
    return {status = "error", error = render.failure(errors.new("T0201", {
      message = (result.unreadable:gsub("^prompt:(%d+): ", "line %1: "))})), seconds = 0}
  end
  return result
end

---- other nodes ---------------------------------------------------------------------------------------------------

local function peer_session(member)
  local agent, err = core.whereis(member.name .. "/agent")
  if not agent then return nil, err end
  local opened, problem = core.call(agent, {op = "console.open", session = state.id, role = state.role}, ANSWER_S)
  if not opened then return nil, problem end
  if opened.address ~= core.self() then state.peers[member.name] = opened.address end
  return opened.address
end

---The session of this one's id and role on the node that an address is of.
---@param address string
---@return string? session
---@return table? err
function session.beside(address)
  local id <const> = math.tointeger(tonumber(address:match "^%d+"))
  for _, member in ipairs(core.members()) do
    if member.id == id then return peer_session(member) end
  end
  return nil, errors.new("T0501", ("no node has the address %s"):format(address))
end

local function ask_peer(record, request, member)
  local limit <const> = request.seconds or ANSWER_S
  local address, err = peer_session(member)
  local id <const> = state.id .. "/" .. request.id
  local answer
  if address then
    record.peers[#record.peers + 1] = {address = address, id = id}
    answer, err = core.call(address, {op = "console.eval", id = id, text = request.text, want = request.want,
      width = request.width, utf8 = request.utf8, seconds = limit}, limit + 1)
  end
  if answer then
    answer.node = member.name
    return answer
  end
  if err and err.name == "ETIMEDOUT" then
    err = errors.new("T0507", {message = ("no answer in %.1f s"):format(limit)})
  end
  return {node = member.name, status = "error", error = render.failure(err)}
end

---Evaluates a line on the nodes of a target. Inside an evaluation.
---@param request table {id, text, targets, want, seconds}
---@param record table
---@return table[] answers in the order of the nodes
local function fan_out(record, request)
  local found, err = targets.resolve(request.targets, targets.cluster())
  if not found then error(err, 0) end
  local list = {}
  for _, member in ipairs(found) do
    if targets.serves(member) then list[#list + 1] = member end
  end
  if #list == 0 then
    error(errors.new("T0501", {message = "the target has no node with a console", help = "nodes() lists them"}), 0)
  end
  return (ask_all(list, function(member) return ask_peer(record, request, member) end, {at_once = FAN_OUT_MAX}))
end

local function answer_text(answer)
  local parts = {}
  if answer.output and answer.output ~= "" then parts[1] = (answer.output:gsub("\n$", "")) end
  if answer.status == "ok" then
    parts[#parts + 1] = answer.display
  else
    parts[#parts + 1] = ("error[%s]: %s"):format(answer.error.code, text.clean(answer.error.message or "failed"))
  end
  return table.concat(parts, "\n")
end

local function evaluate_everywhere(record, request)
  local answers <const> = fan_out(record, request)
  if request.want == "data" then return {nodes = answers} end
  local rows, failed = {}, false
  for i, answer in ipairs(answers) do
    rows[i] = {node = answer.node, status = answer.status, text = answer_text(answer)}
    failed = failed or answer.status ~= "ok"
  end
  return {display = targets.merge(rows), failed = failed}
end

---What `on(targets, code)` gives: node -> value.
---@param where string
---@param code string
---@return table
function session.on(where, code)
  local record <const> = state.by_evaluation[core.evaluating()]
  state.on_count = (state.on_count or 0) + 1
  local request <const> = {id = "on" .. state.on_count, text = code, targets = where, want = "data"}
  local out = {}
  for _, answer in ipairs(fan_out(record, request)) do
    local decoded = answer.data and core.json_decode(answer.data)
    if answer.status == "ok" then
      out[answer.node] = decoded and decoded.value
    else
      out[answer.node] = errors.from(answer.error)
    end
  end
  return out
end

---- requests ------------------------------------------------------------------------------------------------------

local ops = {}

local function node_of(address) return address:match "^%d+" end

local function running()
  local list = {}
  for _, record in pairs(state.records) do
    if not record.result then list[#list + 1] = record end
  end
  table.sort(list, function(a, b) return a.started_at < b.started_at end)
  return list
end

local function finish(record, result)
  record.result = result
  result.op, result.id, result.pieces = "console.result", record.id, record.sequence
  if record.client then core.send(record.client, result) end
end

-- Drops delivered results except the newest ones, which a reconnected client may request.
local function trim()
  local done = {}
  for _, record in pairs(state.records) do
    if record.result then done[#done + 1] = record end
  end
  table.sort(done, function(a, b) return a.started_at > b.started_at end)
  for i = EVALUATIONS_MAX + 1, #done do state.records[done[i].id] = nil end
end

local function begin(request, client, asks)
  local record <const> = new_record(request, client, asks)
  if #running() >= EVALUATIONS_MAX then
    return record, {status = "error", seconds = 0, error = {code = "T0603",
      message = ("%d evaluations of this session run already: jobs() lists them"):format(EVALUATIONS_MAX)}}
  end
  state.records[record.id] = record
  if state.early == record.id then record.cancelled, state.early = true, nil end
  trim()
  return record
end

ops["console.eval"] = function(request, message)
  local called <const> = message.kind == "call"
  if not called and not state.clients[message.from] then state.clients[message.from] = core.monitor(message.from) end
  if state.records[request.id] then -- a reconnected client resends: no request is evaluated twice
    local record <const> = state.records[request.id]
    record.client, record.asks = message.from, message.from
    if record.result then core.send(record.client, record.result) end
    return service.LATER
  end
  local record, refused = begin(request, not called and message.from or nil, not called and message.from or nil)
  local noted <const>, unnoted = verbs.note("console.eval", request, message, "allowed as " .. state.role)
  if not noted then refused = {status = "error", seconds = 0, error = render.failure(unnoted)} end
  core.fiber(function()
    local ok, result = pcall(function()
      if refused then return refused end
      if request.targets then return run(record, request, evaluate_everywhere, record, request) end
      return run_here(record, request)
    end)
    if not ok then result = {status = "error", error = render.failure(result), seconds = 0} end
    if state.role ~= "admin" and (result.memory_peak_bytes or 0) > COLLECT_BYTES then collect() end
    result.output = called and table.concat(record.collected) or nil
    if called then
      record.result = result
      core.answer(message, result)
    else
      finish(record, result)
    end
  end)
  return service.LATER
end

local function cancel(record)
  record.cancelled = true
  if record.result or not record.evaluation then return end
  for _, peer in ipairs(record.peers) do
    core.send(peer.address, {op = "console.cancel", id = peer.id}, "system")
  end
  core.evaluation_cancel(record.evaluation)
end

ops["console.cancel"] = function(request)
  local record <const> = state.records[request.id]
  if record then
    cancel(record)
  else
    state.early = request.id -- the cancel overtook its evaluation
  end
end

ops["console.fg"] = function(request, message)
  local record <const> = state.records[request.id]
  if not record then
    return nil, errors.new("T0105", {message = ("this session has no evaluation %s"):format(tostring(request.id)),
      help = "jobs() lists them"})
  end
  record.client, record.asks = message.from, message.from
  core.answer(message, {text = record.text}) -- before the result
  if record.result then core.send(record.client, record.result) end
  return service.LATER
end

ops["console.complete"] = function(request)
  local fiber <const>, evaluation <const> = core.evaluate({}, names.complete, request.text, request.cursor, {
    budget_s = COMPLETE_S, members = core.members()})
  local ok <const>, found = core.fiber_wait(fiber, 1)
  core.evaluation_cancel(evaluation)
  return ok and found or {candidates = {}}
end

ops["console.help"] = function(request)
  local fiber <const>, evaluation <const> = core.evaluate({}, names.help, request.text, request.source)
  local ok <const>, found = core.fiber_wait(fiber, 5)
  core.evaluation_cancel(evaluation)
  return {text = ok and found or nil}
end

ops["console.tap"] = function(request) return taps.serve(request, state.role) end

---Evaluations of this session, newest last.
---@return table[] {id, state, seconds, text}
function session.jobs()
  local rows = {}
  for _, record in pairs(state.records) do
    if record.evaluation ~= core.evaluating() then
      rows[#rows + 1] = {id = record.id, state = record.result and record.result.status or "runs",
        seconds = (record.result and record.result.seconds) or core.now() - record.started_at,
        text = text.cut(text.clean(record.text), 60, true), started_at = record.started_at}
    end
  end
  table.sort(rows, function(a, b) return a.started_at < b.started_at end)
  for _, row in ipairs(rows) do row.started_at = nil end
  return rows
end

---Ends an evaluation of this session.
---@param id integer
---@return boolean whether there was one
function session.kill(id)
  local record <const> = state.records[id]
  if not record or record.result then return false end
  cancel(record)
  return true
end

-- From the agent: another client has presented the id of this session.
ops["console.owner"] = function(request, message)
  if node_of(message.from) == node_of(core.self()) then
    state.owners[node_of(request.from)] = true
  end
end

ops["console.close"] = function()
  if #running() == 0 then state.closed = true end
end

-- Returns whether the session may still be used. Evaluations for another session have a time limit; those for a prompt
-- that has disappeared may be endless.
local function is_wanted()
  if state.closed then return false end
  if next(state.clients) or core.now() - state.used_at < core.limit "console_idle" then return true end
  for _, record in ipairs(running()) do
    if not record.client then return true end
  end
  return false
end

local served <const> = service.new {
  name = "a console", rows = requests.session, answers = ops,
  from = function(_, message) -- of clients a session obeys its owner alone
    state.used_at = core.now()
    if message.right == "node" or state.owners[node_of(message.from)] then return message end
    return nil, errors.new("T0801", "the session belongs to another client")
  end,
  exited = function(message)
    if state.clients[message.from] then state.clients[message.from], state.used_at = nil, core.now() end
  end,
}

---Body of the actor. Ends after `close` when no evaluation is active, or after ten minutes without a client.
---@param a {session: string, role: string, owner: string} owner: an actor of the opener
function session.main(a)
  state.id, state.role = a.session, a.role
  state.owners = {[node_of(a.owner)] = true}
  environment.install(_G, session)
  local shares <const> = state.role ~= "admin"
  assert(core.console(shares and roles.SHARED_BYTES or roles.MEMORY_BYTES, shares))
  if state.role ~= "admin" then
    state.globals, state.instructions = roles.globals(_G, state.role, environment.describe), roles.INSTRUCTIONS
  end
  names.load(state.globals)
  core.receive = function() error("the session's messages are its own: use core.call", 2) end
  core.trap_exits(true)
  state.used_at = core.now()
  local stopped <const> = not served:run {
    receive = receive, wait_s = function() return taps.sweep() and 1 or core.limit "console_idle_look" end,
    turn = function() return not is_wanted() end,
  }
  if stopped then return end
  for _, peer in pairs(state.peers) do core.send(peer, {op = "console.close"}) end
end

return session
