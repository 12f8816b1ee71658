-- The run of a script without jobs, such as one of actors, on a cluster that stays: a record by which it is listed,
-- followed and stopped like other runs. It has no slots, workers or reports.
--
-- An actor beside tide.main reports to the keeper of runs (cluster/runs.lua) that the script is active, and takes the
-- verbs: `stop` and `cancel` end the script. tide.main waits for that order in a fiber.
local core = require "tide.core"
local errors = require "tide.errors"
local keeper = require "tide.keeper"
local notes = require "tide.run.notes"
local requests = require "tide.requests"
local run_host = require "tide.run.host"
local run_log = require "tide.run.run_log"
local script = require "tide.script"
local service = require "tide.service"

local script_run = {}

local ACTOR <const> = [[return require("tide.run.script_run").main(...)]]
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
  local answer, err = keeper.ask {op = "open", job = name, uid = context.run, user = core.person(),
    node = core.node().name, pid = (core.member() or {}).pid, machine = core.machine().id,
    directory = run_host.absolute(context.directory), private = true, script = true}
  if not answer then error(err, 0) end
  local self <const> = setmetatable({id = context.run, name = answer.name, number = answer.n, job = {name = name},
    seed = script.api.seed, directory = context.directory, cluster = {context = context},
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

local answers = {}

local self ---@type {n: integer, name: string, uid: string, directory: string, owner: string} of this actor

function answers.order(_, message)
  self.waiter = message
  return service.LATER
end

local function order(why)
  if self.waiter then core.answer(self.waiter, {why = why}) end
  self.waiter = nil
end

local function stop(request)
  self.state, self.why = "stopping", request.why or request.reason or "on request"
  order(self.why)
  return {state = self.state}
end

answers["verb.stop"], answers["verb.cancel"] = stop, stop

function answers.noted(request) return notes.write(self.directory, request) end

function answers.log(request) return run_log.answer(self.directory, request.after) end

function answers.close() self.over = true end

function answers.disowned()
  order "the cluster holds this run for lost"
  self.over = true
end

local requested <const> = service.new {
  name = "a script", rows = requests.script, answers = answers,
  unknown = function()
    return errors.new("T0513", {
      message = ("run %s is a script without a job: `stop` and `cancel` are its only verbs"):format(self.name)})
  end,
  exited = function() self.over = true end,
}

-- The keeper, which may be another one by now, learns of the run by this.
local function tell()
  local address <const> = keeper.find()
  if not address then return end
  core.send(address, {op = "tell", n = self.n, uid = self.uid, state = self.state, why = self.why, workers = 0,
    progress = {report = 0}}, "answer")
end

---Body of the actor.
---@param a {n: integer, name: string, uid: string, directory: string, owner: string}
function script_run.main(a)
  self = a
  core.trap_exits(true)
  core.open "read"
  core.monitor(self.owner)
  self.state = "running"
  tell()
  requested:run {wait_s = core.limit "run_tell_every", turn = function()
    if not self.over then tell() end
    return self.over
  end}
end

return script_run
