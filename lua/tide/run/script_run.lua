-- The run of a script without jobs, such as one of actors, on a cluster that stays: a record by which it is listed,
-- followed and stopped like other runs. It has no slots, workers or reports.
--
-- An actor beside tide.main tells the keeper of runs (cluster/runs.lua) that the script goes on, and takes the verbs:
-- `stop` and `cancel` end the script. tide.main waits for that order in a fiber.
local core = require "tide.core"
local errors = require "tide.errors"
local run_host = require "tide.run.host"
local run_log = require "tide.run.run_log"
local runs = require "tide.cluster.runs"
local shapes = require "tide.cluster.shapes"
local verbs = require "tide.cluster.verbs"

local script_run = {}

local ACTOR <const> = [[return require("tide.run.script_run").main(...)]]
local TELL_S <const> = 1
local NAME_MAX <const> = 40

-- "Ring_2.lua" is run as ring_2-1.
local function name_of(path)
  local base <const> = path:match "([^/]*)$":gsub("%.lua$", ""):lower():gsub("[^%w_-]", "-"):gsub("^[^%w]+", "")
  return base ~= "" and base:sub(1, NAME_MAX) or "script"
end

---- on the driver ---------------------------------------------------------------------------------------------------

---@class tide.script_run
local handle = {}
handle.__index = handle

---Begins the record of the script that this process runs.
---@param context table of the driver
---@param on_stop fun(why: string) called in a fiber when the script is to end
---@return tide.script_run
function script_run.open(context, on_stop)
  local name <const> = name_of(context.script.path)
  local answer, err = runs.ask {op = "open", job = name, uid = context.run, user = os.getenv "USER",
    node = core.node().name, pid = (core.member() or {}).pid, machine = core.machine().id,
    directory = run_host.absolute(context.directory), private = true, script = true}
  if not answer then error(err, 0) end
  local self <const> = setmetatable({id = context.run, name = answer.name, number = answer.n, job = {name = name},
    seed = require("tide").seed, directory = context.directory, cluster = {context = context},
    started_wall = core.wall()}, handle)
  self.actor, err = core.spawn {source = ACTOR, chunk = "@tide/run/script_run.lua", role = "control",
    argument = {n = answer.n, name = answer.name, uid = context.run, directory = context.directory,
                owner = core.self()}}
  if not self.actor then error(errors.from(err), 0) end
  run_host.record(self, {state = "running"})
  core.fiber(function()
    local order <const> = core.call(self.actor, {op = "order"}, math.huge)
    if order then on_stop(order.why) end
  end)
  return self
end

---The script has ended.
---@param raised? any the error that it ended with
---@param stopped? string why it was stopped from outside
function handle:close(raised, stopped)
  local failure <const> = not stopped and raised ~= nil and errors.from(raised) or nil
  local state, why = "done", nil
  if stopped then
    state, why = "stopped", stopped
  elseif failure then
    state, why = run_host.state_of(failure)
  end
  run_host.tell_end {op = "close", n = self.number, uid = self.id, state = state, why = why}
  core.send(self.actor, {op = "close"})
  run_host.record(self, {state = state, why = why, ended_at = core.wall(), error = run_host.error_of(failure)})
end

---- the actor -------------------------------------------------------------------------------------------------------

local ops = {}

function ops.order(self, _, message) self.waiter = message end

local function stop(self, request, message)
  self.state, self.why = "stopping", request.why or request.reason or "asked"
  if self.waiter then core.answer(self.waiter, {why = self.why}) end
  self.waiter = nil
  core.answer(message, {state = self.state})
end

ops["verb.stop"], ops["verb.cancel"] = stop, stop

function ops.log(self, request, message)
  local text <const>, size <const>, next_at <const> = run_log.read(self.directory, request.after)
  core.answer(message, {text = text or "", size = size or 0, next = next_at or 0})
end

local function serve(self, message)
  local request <const> = type(message.value) == "table" and message.value or {}
  if message.right ~= "node" then
    local allowed <const>, refusal = verbs.allows("run", request.op, message.right)
    if not allowed then return core.answer_error(message, refusal) end
  end
  if ops[request.op] then
    local fits <const>, mistake = shapes.check("run", request.op, request)
    if not fits then return core.answer_error(message, mistake) end
    return ops[request.op](self, request, message)
  end
  core.answer_error(message, errors.new("T0513", {
    message = ("run %s is a script without a job: `stop` and `cancel` are its only verbs"):format(self.name)}))
end

-- The keeper, which may be another one by now, learns of the run by this.
local function tell(self)
  local keeper <const> = runs.find()
  if not keeper then return end
  core.send(keeper, {op = "tell", n = self.n, uid = self.uid, state = self.state, why = self.why, workers = 0,
    progress = {report = 0}})
end

---Body of the actor.
---@param self {n: integer, name: string, uid: string, directory: string, owner: string}
function script_run.main(self)
  core.trap_exits(true)
  core.open "read"
  core.monitor(self.owner)
  self.state = "running"
  while true do
    tell(self)
    local message <const> = core.receive(TELL_S)
    if message and (message.kind == "exit" or message.kind == "stop") then return end
    if message and message.kind == "call" then serve(self, message) end
    local told <const> = message and message.kind == "cast" and type(message.value) == "table" and message.value.op
    if told == "close" then return end
    if told == "disowned" then
      if self.waiter then core.answer(self.waiter, {why = "the cluster holds this run for lost"}) end
      return
    end
  end
end

return script_run
