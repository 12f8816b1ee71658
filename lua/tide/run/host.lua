-- What the host of runs, the process with tide.main, does for each of them beside training: the directory, the record
-- in the cluster (runs.lua), the wait for slots, the end. And the start of hosts that stay: `tide submit`.
local checks = require "tide.checks"
local children = require "tide.provision.children"
local core = require "tide.core"
local declared = require "tide.declared"
local detached = require "tide.cluster.detached"
local errors = require "tide.errors"
local grants = require "tide.run.grants"
local history = require "tide.run.history"
local keeper = require "tide.keeper"
local report_of = require "tide.report"
local run_log = require "tide.run.run_log"
local run_params = require "tide.run.params"
local runs = require "tide.cluster.runs"
local slot_limits = require "tide.scheduler.limits"
local starting = require "tide.run.starting"
local text = require "tide.text"

local run_host = {}

local RUNS <const> = history.ROOT
local SUBMIT_S <const> = 20
local GRANT_S <const> = 7 * 24 * 3600
local SAY_S <const> = 0.5
local ENDS <const> = {T0210 = "stopped", T0507 = "stopped"} -- by the code of the error that ended the script

---- directories ----------------------------------------------------------------------------------------------------

---Makes .tide/runs/<id>/; a run leaves nothing elsewhere.
---@param id string
---@return string path
function run_host.make_directory(id)
  local path = RUNS .. "/" .. id
  local ok, err = core.mkdir(path)
  if not ok then
    error(errors.new("T0403", {message = ("the run's log cannot be kept here: %s"):format(err.message),
      where = path, state = "nothing was started", help = "run it in a directory that you may write to"}), 0)
  end
  return path
end

---Where a relative path is for others of this machine; as it is when that is unknown.
---@param path string
---@return string
function run_host.absolute(path)
  local here <const> = os.getenv "PWD"
  if path:sub(1, 1) == "/" or not here or core.simulated() then return path end
  local whole <const> = here .. "/" .. path
  return core.file_read(whole .. "/options.json") == core.file_read(path .. "/options.json") and whole or path
end

---Starts a run that has ended again, from its newest checkpoint: a host of its own, of the same script with the same
---options, slots and memory. Params come back with the checkpoint.
---@param row table of the keeper of runs
---@param cluster string name or endpoint
---@return table|nil run of tide.remote_run, table? err
function run_host.restart(row, cluster)
  local name <const> = text.clean(row.name)
  local function refuse(why, help)
    return nil, errors.new("T0513", {message = ("run %s cannot be resumed: %s"):format(name, why), help = help})
  end
  if row.state == "done" then return refuse "it is done" end
  if not row.checkpoint then
    return refuse("it wrote no checkpoints", "give its job a field `checkpoint` (docs/guides/checkpoints.md)")
  end
  if not row.uid:find "^%d+%-%d+%-%x+$" then
    return refuse("only the first run of a script can be resumed by name",
      "tide submit --resume " .. text.clean(row.checkpoint) .. ", with a script whose first run it is")
  end
  local directory <const> = (row.host or {}).directory or "?"
  local record <const> = core.json_decode(core.file_read(directory .. "/run.json") or "null")
  if type(record) ~= "table" then
    return refuse(("its directory, %s, is on machine %s"):format(directory, (row.host or {}).machine or "?"),
      ("on that machine, in its directory: tide job resume %s"):format(name))
  end
  if run_host.absolute(RUNS .. "/" .. row.uid) ~= directory then
    return refuse("its paths are relative to another directory", "cd " .. directory:gsub("/%.tide/runs/[^/]*$", ""))
  end
  local now <const> = core.file_read(record.script)
  if not now or core.sha256(now) ~= record.sha256 then
    return refuse(("its script, %s, has changed since it was submitted"):format(record.script),
      ("tide submit --resume %s %s"):format(text.clean(row.checkpoint), text.clean(record.script)))
  end
  local l <const> = row.limits or {}
  return run_host.submit(cluster, record.script, {args = record.args, slots = row.wanted, memory = row.memory,
    keep = row.keep, resume = row.checkpoint, min = l.min, max = l.max, sizes = l.sizes, weight = l.weight})
end

---Writes what is known of a run into its directory: run.json, replaced as a whole.
---@param run table of tide.run, or tide.script_run
---@param more? table
function run_host.record(run, more)
  local context <const> = run.cluster.context
  if context.simulated then return end
  context.process = context.process or history.process()
  local record = {
    id = run.id, name = run.name, job = run.job.name, cluster = core.node().cluster,
    script = context.script.path, sha256 = context.script.sha, args = context.script.args, seed = run.seed,
    params = run.params_known or run.params, started_at = run.started_wall,
  }
  for k, v in pairs(context.process) do record[k] = v end
  for k, v in pairs(more or {}) do record[k] = v end
  local ok, err = history.write(run.directory, record)
  if not ok and not context.history_told then -- the run continues, what is kept of it is not whole
    context.history_told = true
    context.warn(("%s/run.json could not be written: %s"):format(run.directory, err.message))
  end
end

---The workers of a run are there.
---@param run table of tide.run
function run_host.started(run) run_host.record(run, {state = "running"}) end

---Params were set from outside of the job.
---@param run table of tide.run
---@param params table all of them
function run_host.params_set(run, params)
  run.params_known = params
  run_host.started(run)
end

---- life ------------------------------------------------------------------------------------------------------------

-- The limits among the options of cluster:start.
local function limits_of(o)
  local limits
  for k, v in pairs(o or {}) do
    if k ~= "slots" and k ~= "memory" then
      limits = limits or {}
      limits[k] = v
    end
  end
  return limits
end

---Begins the record of a run.
---@param cluster table
---@param job tide.job
---@param params table
---@param o? {slots?: integer, min?: integer, max?: integer, sizes?: string|integer[], weight?: number,
---  memory?: string|integer}
---@return {id: string, name: string, number: integer, memory: integer?, directory: string, log: tide.run_log,
---  waits: boolean}
function run_host.open(cluster, job, params, o)
  local context <const> = cluster.context
  -- What is said where the run is started counts, else the command, else the job.
  local memory <const> = context.flags:value("memory", o and o.memory) or job.memory
  for _, name in ipairs {"keep", "no_wait"} do context.flags:used(name) end
  if not context.attached then runs.keep() end
  context.run_count = (context.run_count or 0) + 1 -- over all clusters of the script: they share its directories
  local id <const> = context.run_count == 1 and cluster.run_id or ("%s-%d"):format(cluster.run_id, context.run_count)
  local directory, log = context.directory, context.log
  if context.run_count > 1 and not context.simulated then
    directory, log = run_host.make_directory(id), run_log.new()
    local opened, why = log:open(directory)
    if not opened then context.unsaved("the run's log", {message = why.message, where = directory .. "/run.log"}) end
  end
  local ok, problem = run_params.check(params)
  if not ok then error(problem, 0) end
  local machine <const> = core.machine()
  local waits <const> = cluster:is_shared() or o ~= nil and o.slots ~= nil -- with slots it shares even its own cluster
  local answer, err = keeper.ask {
    op = "open", job = job.name, uid = id, user = core.person(),
    node = core.node().name, pid = (core.member() or {}).pid, machine = machine.id, params = params,
    directory = run_host.absolute(directory), private = not waits or nil,
    limits = context.flags:value("limits", limits_of(o)), bound = grants.bound(job),
    slots = context.flags:value("slots", o and o.slots) or math.tointeger(job.workers), memory = memory,
    checkpoint = context.attached and job.checkpoint and run_host.absolute(job.checkpoint.dir) or nil,
    keep = context.keep,
  }
  if not answer then error(err, 0) end
  return {id = id, name = answer.name, number = answer.n, memory = memory, directory = directory, log = log,
          waits = waits}
end

---Waits until the run has its slots.
---@param cluster table
---@param run table of tide.run
---@return table[] nodes as cluster:agents() has them, each with as many workers as it has slots of the run
function run_host.slots(cluster, run)
  local context <const> = cluster.context
  run.started_wall = core.wall()
  run_host.record(run, {state = "queued"})
  local nodes <const> = cluster:agents()
  if not run.waits_for_slots then return nodes end
  local answer, err
  local fiber <const> = core.fiber(function()
    answer, err = keeper.ask({op = "grant", n = run.number, no_wait = context.no_wait or nil}, GRANT_S)
    if not answer and err.name == "EDIED" then -- another controller has taken over: it is asked anew
      core.sleep(1)
      answer, err = keeper.ask({op = "grant", n = run.number}, GRANT_S)
    end
  end)
  local since <const> = core.now()
  local said
  while not core.fiber_wait(fiber, 0.1) do
    run:look_for_interrupts()
    if context.interrupted then
      keeper.ask {op = "close", n = run.number, uid = run.id, state = "stopped", why = "interrupted"}
      error(errors.new("T0210", {message = ("interrupted while run %s waited for slots"):format(run.name)}), 0)
    end
    local row <const> = not said and core.now() - since > SAY_S and keeper.ask {op = "get", name = tostring(run.number)}
    if row and row.why then
      said = true
      context.progress:say(("tide: run %s %s"):format(run.name, row.why))
    end
  end
  if not answer then error(err, 0) end
  run.order = answer.order
  local known = {}
  for _, node in ipairs(nodes) do known[node.name], node.workers = true, answer.grant[node.name] or 0 end
  for _, name in ipairs(text.sorted_keys(answer.grant)) do -- nodes that have come while it waited, or are gone again
    if not known[name] then
      local node <const> = starting.node_named(name)
      node.workers = answer.grant[name]
      nodes[#nodes + 1] = node
    end
  end
  return nodes
end

---The state of a run whose script ended with an error, and why.
---@param failure tide.error
---@return string state
---@return string why
function run_host.state_of(failure)
  local asked <const> = ENDS[failure.code]
  return asked or "failed", asked and failure.message or errors.line(failure)
end

---What run.json says of an error.
---@param failure? tide.error
---@return table|nil
function run_host.error_of(failure)
  return failure and {code = failure.code, message = failure.message, where = failure.where, node = failure.node,
    actor = failure.actor} or nil
end

-- The state that a run ends in: as its controller says, else as the script ended.
local function end_of(run, answer, failure)
  if keeper.ENDED[answer.state or ""] then return answer.state, answer.why end
  if not failure then return run.finished and "done" or "stopped", answer.why end
  return run_host.state_of(failure)
end

---Notifies the keeper of runs how a run has ended, unless the cluster ended before.
---@param request table
function run_host.tell_end(request)
  local state <const> = core.node().state
  if state ~= "dead" and state ~= "left" then keeper.ask(request, 10) end
end

---The run is over for its host.
---@param run table of tide.run
---@param answer {state?: string, why?: string, params?: table} of its controller
---@param raised? any the error that ended the script while the run was open
function run_host.close(run, answer, raised)
  local context <const> = run.cluster.context
  local failure <const> = run.failed or raised ~= nil and errors.from(raised, "T0202") or nil
  local state <const>, why <const> = end_of(run, answer, failure)
  if failure then run.log:error(failure) end
  for i, each in ipairs(run.cluster.own_runs) do
    if each == run then table.remove(run.cluster.own_runs, i) end
  end
  -- With a cluster that ends the rows go anyway.
  local stays <const> = context.attached or not run.cluster.closed
  run_host.tell_end {op = "close", n = run.number, uid = run.id, state = state, why = why, tables = stays}
  run.params_known = answer.params or run.params -- also those set since the last report
  local last <const> = run.history[#run.history]
  run_host.record(run, {state = state, why = why, ended_at = core.wall(), reports = run.report_count,
    loss = last and report_of.value(last, "loss"),
    examples_per_s = last and last.elapsed_s > 0 and run.examples_done / last.elapsed_s or nil,
    error = run_host.error_of(failure)})
  if run.log ~= context.log then run.log:close() end
  run.tables = setmetatable({}, {__index = function(_, key)
    error(errors.new("T0510", {message = ("run %s is closed: its table `%s` is gone"):format(run.name, tostring(key)),
      help = "read it before the run is closed, or keep it: tide.table {keep = true}"}), 2)
  end})
  collectgarbage() -- handles keep a dropped table's memory
end

---- hosts that stay -------------------------------------------------------------------------------------------------

---@return string YYYYMMDD-hhmmss-xxxx
function run_host.new_id()
  local salt = core.sha256(("%s %s %s"):format(os.time(), core.now(), tostring({})))
  return os.date("!%Y%m%d-%H%M%S-") .. salt:sub(1, 4)
end

---Starts a host of its own for a script, which stays when this process ends, and waits until the cluster knows the run.
---@param cluster string name or endpoint
---@param path string of the script
---@param given? tide.submit_options
---@return table|nil run of tide.remote_run, table? err
function run_host.submit(cluster, path, given)
  local o <const> = checks.options("submit", declared.submit, given)
  local fits <const>, mistake = slot_limits.check(declared.picked(declared.limits, o), "submit")
  if not fits then return nil, mistake end
  local file, why = io.open(path, "rb")
  if not file then return nil, errors.new("T0205", {message = ("cannot read `%s`: %s"):format(path, why)}) end
  file:close()
  local id <const> = run_host.new_id()
  local log <const> = run_host.make_directory(id) .. "/out.log"
  local words = {"run", "--cluster", cluster, "--host", id}
  local keys <const> = core.node().keys
  if keys then table.move({"--keys", keys}, 1, 2, #words + 1, words) end
  local more <const> = declared.words(declared.submit, o, {args = true, priority = true, time = true})
  table.move(more, 1, #more, #words + 1, words)
  words[#words + 1] = path
  for _, word in ipairs(o.args or {}) do words[#words + 1] = word end
  if not detached.start(log, table.unpack(words)) then
    return nil, errors.new("T1001", {message = "the host of the run could not be started", where = log})
  end
  local deadline <const> = core.now() + SUBMIT_S
  while core.now() < deadline do
    local found <const> = require("tide.run.remote").find(id)
    for op, field in pairs(found and {priority = "priority", time = "seconds"} or {}) do
      local ok, err = true, nil
      if o[op] then ok, err = keeper.ask {op = op, name = found.name, [field] = o[op]} end
      if not ok then return nil, err end
    end
    if found then return found end
    local code <const> = detached.exit_code(log)
    if code then
      local last <const> = children.last_lines(log, 12):gsub("\n?ended %d+$", "")
      local exit <const> = math.tointeger(tonumber(code)) or 1
      return nil, errors.new("T0513", {where = log, exit = exit ~= 0 and exit or 1, state = "no run was begun",
        message = ("the script ended with exit code %s before its run began:\n%s"):format(code, last)})
    end
    core.sleep(0.05)
  end
  return nil, errors.new("T0507", {message = ("no run of `%s` has started after %g s; its host continues"):format(path,
    SUBMIT_S), where = log})
end

return run_host
