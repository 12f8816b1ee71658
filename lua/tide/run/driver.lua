-- The driver: runs a script. Its process is the cluster's controller node (no parameters, no workers of its own); the
-- script's main function runs there on the control thread, and the node processes that it asks for are children.
local children = require "tide.provision.children"
local client = require "tide.cluster.client"
local core = require "tide.core"
local errors = require "tide.errors"
local flags = require "tide.run.flags"
local interrupts = require "tide.interrupts"
local output = require "tide.run.output"
local progress = require "tide.run.progress"
local report_of = require "tide.report"
local run_host = require "tide.run.host"
local run_log = require "tide.run.run_log"
local runs = require "tide.cluster.runs"
local script = require "tide.script"
local script_run = require "tide.run.script_run"
local stacks = require "tide.cluster.stacks"
local text = require "tide.text"
local units = require "tide.units"

local driver = {}

local write_file <const> = getmetatable(io.stderr).__index.write -- past output.capture
local MAIN <const> = [[return require("tide.run.driver").main(...)]]
local KILL_S <const> = 1      -- what --timeout, or SIGTERM without a run, leaves a script for ending by itself,
local KILL_TWICE_S <const> = 0.3 -- and a second Ctrl-C
local ENDING_S <const> = 8    -- what closing its clusters may take behind that
local HEED_S <const> = interrupts.HEED_S -- and SIGTERM one whose runs have ended
local GRACE_S <const> = 30    -- for workers to come to a report

---- before the node exists ----------------------------------------------------------------------------------------

local function complain(err, o)
  err = errors.from(err)
  if o.json then
    write_file(io.stderr, core.json_encode(errors.to_data(err)), "\n")
  else
    local terminal = core.terminal()
    local color = terminal.stderr and os.getenv("NO_COLOR") == nil and os.getenv("TERM") ~= "dumb"
    write_file(io.stderr, errors.format(err, {
      color = color, unicode = terminal.utf8,
      width = terminal.width, verbose = o.verbose}), "\n")
  end
  return errors.exit(err)
end

---@return tide.error|nil why the cluster that this process was attached to is no more: lost, or ended in order
local function cluster_gone()
  local node <const> = core.node()
  if not node or node.state ~= "dead" and node.state ~= "left" then return nil end
  return errors.new("T0509", {message = node.reason, state = "the cluster ended with it, and the run too",
    help = "start the cluster again, `tide up`; `tide node --controller --state DIR` keeps one that can come back"})
end

---@class tide.driver.options
---@field script string path
---@field args string[] the script's own
---@field nodes? integer of clusters for which the script names no number
---@field workers? integer
---@field keys? string directory of a credential, for a cluster on other machines
---@field silence? number seconds after which a silent node of this cluster is dead
---@field cluster? string run there instead of starting nodes
---@field json? boolean
---@field plain? boolean
---@field quiet? boolean
---@field verbose? boolean
---@field timeout_s? number
---@field grace_s? number after an interrupt: for workers to come to a report
---@field trace? string file for what the nodes did
---@field dashboard? boolean a page about the cluster beside the script
---@field resume? string directory of checkpoints that the first run continues from
---@field interactive? string|false the module of the console that follows the script, however that ended
---@field text? string the script itself, instead of the file at `script`
---@field host? string id of the run, given by `tide submit`
---@field slots? integer worker slots on a shared cluster
---@field memory? integer bytes that the tables of a run may take on each node, where neither it nor its job says
---@field keep? boolean tables of runs stay
---@field limits? tide.scheduler.limits of what a scheduling policy gives its runs
---@field no_wait? boolean fail where no slots are free
---@field given? table<string, boolean> names of options that the command line has, not a configuration
---@field dry_run? boolean only load the script, and say what would run

-- The page of options that a script was asked for.
local function show_page(page, o)
  local written, why = io.stdout:write(page, "\n")
  if written then written, why = io.stdout:flush() end
  if written then return 0 end
  return complain(errors.new("T0403", {message = "the output could not be written: " .. why}), o)
end

-- Why the driver's actor ended without a result.
local function why_killed(o, err, gone, before, began)
  if gone then return gone end
  if core.interrupted() - before >= 2 then return interrupts.error "interrupted twice: killed" end
  if core.interrupted() > before and (err.name == "ECANCELED" or err.name == "EKILLED") then
    return interrupts.error(("%s: the script did not end by itself: killed"):format(select(2, core.interrupted())))
  elseif o.timeout_s and (err.name == "ECANCELED" or core.now() - began >= o.timeout_s) then
    return errors.new("T0507", {message = "the script took longer than --timeout: killed", exit = 124})
  elseif o.cluster and err.name == "ECANCELED" then
    return errors.new("T0210", {message = "the script was stopped by `tide job stop` or `cancel`", exit = 1})
  end
  return err
end

---Runs a script and returns the command's exit code.
---@param o tide.driver.options
---@return integer
function driver.run(o)
  local source, err = o.text, nil
  if not source then source, err = script.read(o.script) end
  if not source then return complain(err, o) end
  local id = o.simulated and "sim-" .. o.seed or o.host or run_host.new_id()
  core.log_level(o.verbose and "info" or "warn")
  local before <const> = core.interrupted() -- before any is watched for: of an earlier run of this process
  local started
  if o.cluster then
    started, err = client.enter(o.cluster, {
      seed = o.seed, name = "driver-" .. id:sub(-11), silence = o.silence, keys = o.keys, workers = 0, no_store = true})
  else
    started, err = core.node_start {
      cluster = "run-" .. id, seed = o.seed, name = "driver", silence = o.silence, workers = 0, no_store = true}
  end
  if not started then return complain(errors.from(err, "T1001"), o) end
  local args = o.args or {}
  local began = core.now()
  local directory <const> = not (o.cluster or o.simulated) and require "tide.directory" or nil
  local own <const> = directory and core.node()
  if directory then directory.sweep() end
  if directory then directory.publish(own.cluster, own.endpoint, {directory.own_pid()}, "run " .. id) end
  interrupts.limit {before = before, count = 2}
  local result
  result, err = core.node_run(MAIN, "@tide/driver.lua", {
    program = arg and arg[0], run = id, host = o.host ~= nil, interrupts = before,
    nodes = o.nodes, workers = o.workers, attached = o.cluster ~= nil, cluster_name = o.cluster, json = o.json,
    plain = o.plain, quiet = o.quiet, verbose = o.verbose, timeout_s = o.timeout_s, grace_s = o.grace_s,
    dry_run = o.dry_run,
    resume = o.resume, slots = o.slots, memory = o.memory, keep = o.keep, limits = o.limits, no_wait = o.no_wait,
    silence = o.silence, simulated = o.simulated, interactive = o.interactive, trace = o.trace,
    given = o.given, costs = o.costs, dashboard = o.dashboard and {} or nil,
    script = {text = source, path = o.script, sha = core.sha256(source), args = args, args_sha = script.args_sha(args)},
  })
  local gone <const> = not result and o.cluster and cluster_gone()
  core.node_stop(o.cluster and 5 or 0)
  if directory then
    directory.retire(own.cluster, ".tide/runs/" .. id)
  end
  if not result then
    err = why_killed(o, err, gone, before, began)
    local log <const> = run_log.new() -- its actor is gone, and cannot add it
    if not o.simulated and log:open(".tide/runs/" .. id) then log:error(errors.from(err)) end
    log:close()
    return complain(err, o)
  end
  if result.page then return show_page(result.page, o) end
  if result.error then return complain(result.error, o) end
  return result.exit or 0
end

---- on the control thread -----------------------------------------------------------------------------------------

local function talk(context, format, ...)
  if not context.quiet and not context.json then context.progress:say(format:format(...)) end
end

---The directory of the script's first run, with the script and its options; further runs have their own.
local function make_run_directory(context)
  local path <const> = run_host.make_directory(context.run)
  context.directory = path
  context.log_path = path .. "/run.log"
  local function keep(ok, err)
    if ok then return ok end
    local why <const> = type(err) == "table" and err or {message = tostring(err)}
    error(errors.new(why.name == "ENOSPC" and "T0404" or "T0403", {
      message = ("the run's script, options and log cannot be kept: %s"):format(why.message), where = path,
      state = "nothing was started", help = "free space, or run it in a directory that has some"}), 0)
  end
  if not context.simulated then keep(context.log:open(path)) end
  keep(core.file_write(path .. "/script.lua", context.script.text))
  local modules
  for name, module in pairs(not context.simulated and script.modules or {}) do -- that the script required
    local content <const> = core.file_read(module.path)
    if content and core.sha256(content) == module.sha then
      if not modules then keep(core.mkdir(path .. "/modules")) end
      modules = modules or {}
      modules[name] = {path = module.path, sha256 = module.sha}
      keep(core.file_write(("%s/modules/%s.lua"):format(path, module.sha), content))
    end
  end
  keep(core.file_write(path .. "/options.json", core.json_encode {schema = "tide.options/1", modules = modules,
    script = context.script.path, sha256 = context.script.sha, args = context.script.args}))
end

---@return string the command that repeats this run
local function repeat_command(context)
  local words = {"tide run"}
  if context.cluster_name then words[#words + 1] = "--cluster " .. text.shell_word(context.cluster_name) end
  if context.nodes then words[#words + 1] = "--nodes " .. context.nodes end
  if context.workers then words[#words + 1] = "--workers " .. context.workers end
  if context.trace then words[#words + 1] = "--trace " .. text.shell_word(context.trace) end
  words[#words + 1] = text.shell_word(context.script.path)
  for _, argument in ipairs(context.script.args) do words[#words + 1] = text.shell_word(argument) end
  return table.concat(words, " ")
end

---What a script without tide.main does: its newest job, with progress and a summary.
local function default_main()
  local cluster <close> = script.api.cluster {}
  local run = cluster:start(script.newest)
  for report in run:events "report" do
    local loss <const> = report_of.value(report, "loss")
    print(("report %3d  %s%8.2f s"):format(report.n, loss and ("loss %.5f  "):format(loss) or "", report.elapsed_s))
  end
  print(run:wait():table())
end

local PAGE_S <const> = 10 -- until a dashboard has reported its address

-- A dashboard of the cluster in a process of its own, which ends with this one. Its log, which is ours alone, has the
-- address.
local function begin_dashboard(context)
  local log <const> = context.directory .. "/dashboard.log"
  local words = {children.program, "dashboard", "--cluster", context.cluster_name or core.node().endpoint}
  local keys <const> = core.node().keys
  if keys then table.move({"--keys", keys}, 1, 2, #words + 1, words) end
  local process, err = core.process(words, {output = log})
  if not process then error(errors.from(err), 0) end
  context.dashboard.process = process
  core.fiber(function()
    local until_s <const> = core.now() + PAGE_S
    local url
    while not url and not process:ended() and core.now() < until_s do
      core.sleep(0.05)
      url = (core.file_read(log) or ""):match "(http://%S+)\n"
    end
    if url then return talk(context, "tide: dashboard %s", url) end
    context.warn(("there is no dashboard: %s"):format(
      ((core.file_read(log) or ""):match "[^\n]+" or "it told no address")))
  end)
end

local function new_context(a)
  local terminal = core.terminal()
  local context = a
  context.clusters, context.grace_s = {}, a.grace_s or GRACE_S
  context.started_at, context.log = core.now(), run_log.new()
  if a.timeout_s then context.deadline = core.now() + a.timeout_s end
  context.progress = progress.new {
    write = function(line)
      write_file(io.stderr, line)
      io.stderr:flush()
    end,
    now = core.now, terminal = terminal.stderr, unicode = terminal.utf8, width = terminal.width,
    quiet = a.quiet or a.json or false,
  }
  ---Something that the user should know: on the terminal, and in the run's log.
  context.warn = function(what)
    context.progress:say("tide: warning: " .. what)
    context.log:write("tide: warning: " .. what)
  end
  context.flags = flags.new({nodes = a.nodes, workers = a.workers, slots = a.slots, memory = a.memory,
    limits = a.limits, keep = a.keep, no_wait = a.no_wait, resume = a.resume, trace = a.trace,
    dashboard = a.dashboard, silence = a.silence}, a.given or {}, context.warn)
  ---Something that the user counts on could not be written: it is reported at once, and the command does not end with
  ---0.
  context.unsaved = function(what, err)
    local known <const> = context.not_saved
    local problem <const> = errors.from(err, "T0403")
    if not known or known.what ~= what then
      context.warn(("%s could not be written: %s"):format(what, problem.message))
    end
    if context.simulated then return end -- each node has a disk of its own there, which goes with it
    context.not_saved = known or {what = what, error = errors.new(problem.code, {
      message = ("%s could not be written: %s"):format(what, problem.message), where = problem.where, exit = 1,
      state = "the run itself is complete"})}
  end
  context.announce = function(cluster)
    local names = {}
    for i, member in ipairs(cluster.members) do names[i] = member.name end
    talk(context, "tide: cluster %s, %d nodes (%s), run %s%s", core.node().cluster, #names,
      text.names(names), context.run, context.simulated and "" or ", log " .. context.log_path)
    if context.dashboard and not context.dashboard.process then begin_dashboard(context) end
  end
  return context
end

---The console after the script, on the nodes it started. Its failure is reported, and hides nothing.
local function console(context, err)
  context.progress:hide()
  if err then complain(err, context) end
  local terminal = core.terminal()
  local ok, answer, problem = pcall(require(context.interactive).inside, {
    width = terminal.width, utf8 = terminal.utf8, interactive = true, quiet = context.quiet,
    role = "admin",
    color = terminal.stdout and os.getenv("NO_COLOR") == nil and os.getenv("TERM") ~= "dumb"})
  if not ok then problem = errors.from(answer) end
  if problem then complain(problem, context) end
end

---Ends what the script left open; in an error's way out nothing of this may hide the error.
local function close_clusters(context, raised)
  context.stays = false
  for _, cluster in ipairs(context.clusters) do pcall(cluster.close_by, cluster, raised) end
  context.progress:close()
end

local function dry_run(context)
  local names = {}
  for name in pairs(script.jobs) do names[#names + 1] = name end
  table.sort(names)
  talk(context, "tide: %s loads; jobs: %s; %s", context.script.path, #names > 0 and table.concat(names, ", ") or "none",
    script.main and "would run its main function" or "would run its newest job")
end

local EPIPE <const> = 32
local PIPE_EXIT <const> = 141 -- what the shell says of a program that a closed pipe ended

---What the script prints does not write into the progress line, and goes to the run's log too. What cannot be written
---is not lost in silence: the run ends as failed.
local function own_print(context)
  local function checked(ok, why, number)
    if not ok and not context.unwritten then context.unwritten = {why = why, pipe = number == EPIPE} end
    return ok, why, number
  end
  output.capture(function(chunk, err)
    context.progress:hide()
    context.log:print(chunk, err)
    if err then return write_file(io.stderr, chunk) end
    local ok <const>, why <const>, number <const> = checked(write_file(io.stdout, chunk))
    if ok and chunk:sub(-1) == "\n" then return checked(io.stdout:flush()) end
    return ok, why, number
  end)
  context.flush_output = function() checked(io.stdout:flush()) end
end

local function travelling(err)
  local data = {}
  for _, key in ipairs {"code", "name", "message", "where", "where_note", "node", "actor", "state", "help", "exit",
                        "retry_after_s", "trace"} do
    if err[key] ~= nil then data[key] = err[key] end
  end
  if err.cause then data.cause = travelling(errors.from(err.cause)) end
  return data
end

-- The script's runs that have not ended are stopped. SIGINT waits for the script, which the user can end by
-- another one; senders of SIGTERM or SIGHUP send it once, so a script without runs has little time.
---@return number|nil seconds that the script is left
local function heed_interrupt(context, signal)
  local going = false
  for _, cluster in ipairs(context.clusters) do
    for _, run in ipairs(cluster.own_runs) do going = run:heed_interrupt(signal) or going end
  end
  if not context.interrupted then
    context.interrupted = true
    context.progress:say(signal == "SIGINT" and "tide: interrupted; Ctrl-C again kills now"
      or ("tide: %s: the script has %g s to end"):format(signal, KILL_S))
  end
  context.stopped_runs = context.stopped_runs or going
  core.heed(HEED_S) -- until the next look
  if signal == "SIGINT" or going then return nil end
  return context.stopped_runs and HEED_S or KILL_S
end

---Runs beside the script's main. A run handles Ctrl-C and --timeout where the script waits for it; a script that does
---something else meanwhile, or for ever, is ended here, with all children. driver.run finds out why.
local function watch(context)
  local due, ends
  while true do
    core.sleep(0.1)
    if context.host then require "tide.cluster.own_log"() end -- its output is a file
    local cluster <const> = context.clusters[#context.clusters]
    if cluster and #cluster.controllers > 0 then -- this node may be the next to command
      runs.keep()
    end
    local count <const>, signal = core.interrupted()
    local seen <const> = count - context.interrupts
    local late <const> = context.deadline and core.now() >= context.deadline
    local left = seen >= 1 and heed_interrupt(context, signal)
    context.gone = context.gone or context.attached and cluster_gone()
    if late or context.gone then left = context.ends and ENDING_S or KILL_S end
    if context.ends ~= ends then ends, due = context.ends, nil end
    if seen >= 2 then left = KILL_TWICE_S end
    if context.stopped then left = 0 end
    if not due and late then core.alarm(KILL_S + ENDING_S) end
    due = left and math.min(due or math.huge, core.now() + left)
    if due and core.now() >= due then
      core.heed(ENDING_S)
      local line <const> = not context.gone and stacks.line((core.stack(core.self())))
      if line then context.progress:say("tide: the script was at " .. line) end
      if not context.gone then close_clusters(context) end -- else there is no cluster to notify
      if context.stopped then context.script_run:close(nil, context.stopped) end
      core.kill(core.self())
      return
    end
  end
end

-- What a script that ended by itself leaves to be said.
local function outcome(context)
  context.flush_output()
  local unwritten <const> = context.unwritten
  if unwritten and unwritten.pipe then return {exit = PIPE_EXIT} end
  if unwritten then
    return {error = travelling(errors.new("T0403", {message = "the output could not be written: " .. unwritten.why}))}
  end
  if context.not_saved then return {error = travelling(context.not_saved.error)} end
  if context.simulated then return {exit = 0} end
  if context.traced then
    talk(context, "tide: trace of %d cluster%s in %s; ui.perfetto.dev draws it", context.traced.part,
      context.traced.part == 1 and "" or "s", context.trace)
  end
  talk(context, "tide: run %s took %s; its log is %s", context.run,
    units.format_duration(core.now() - context.started_at), context.log_path)
  talk(context, "tide: again: %s", repeat_command(context))
  return {exit = context.interrupted and 130 or 0}
end

---Body of the driver's actor: loads the script and runs its main function.
---@return table {exit=} | {error=} | {page=}
function driver.main(a)
  local context = new_context(a)
  for _, name in ipairs {"json", "plain", "quiet"} do script.output[name] = a[name] or false end
  require("tide.cluster").context = context
  children.program, children.interrupts = context.program or children.program, context.interrupts
  own_print(context)
  if a.costs then -- of `tide sim`
    local ok, problem = pcall(require(a.costs.module).compute, {file = a.costs.file})
    if not ok then return {error = travelling(errors.from(problem))} end
  end
  local loaded, err = script.load {text = a.script.text, path = a.script.path, args = a.script.args, role = "driver"}
  if not loaded then
    if err.page then return {page = err.page} end
    return {error = travelling(errors.from(err))}
  end
  local main = script.main or (script.newest and default_main)
  if not main then
    return {error = travelling(errors.new("T0208", {where = a.script.path}))}
  end
  if a.dry_run then
    dry_run(context)
    return {exit = 0}
  end
  local watcher <const> = core.fiber(watch, context) -- nil: no memory, of which the script will hear
  context.stays = a.interactive
  local ok
  ok, err = xpcall(function()
    make_run_directory(context)
    script.in_main = true
    for _, name in ipairs(a.attached and {"nodes", "workers"} or {}) do
      context.flags:refuse(name, "the cluster has its own nodes")
    end
    if a.attached and not script.newest then
      context.script_run = script_run.open(context, function(why) context.stopped = why end)
    end
    main()
  end, script.failure)
  if watcher then core.fiber_cancel(watcher) end
  if a.interactive then
    console(context, not ok and err or nil)
  end
  close_clusters(context, not ok and err or nil)
  if not ok and core.interrupted() - context.interrupts >= 2 then -- whatever else broke on the way out
    err = interrupts.error("interrupted twice: killed", "the tables were not written")
  end
  if not ok then err = context.gone or err end -- which is why
  if context.check_failed then ok, err = false, context.check_failed end -- sim.check: what broke later follows from it
  if ok then context.flags:warn_unused() else context.log:error(errors.from(err)) end
  if context.script_run then context.script_run:close(not ok and err or nil) end
  context.log:close()
  if not ok and a.interactive then return {exit = errors.exit(errors.from(err))} end -- reported before the console
  if not ok then return {error = travelling(errors.from(err))} end
  return outcome(context)
end

return driver
