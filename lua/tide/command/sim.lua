-- `tide sim SCRIPT`: a script on simulated nodes, in one process and virtual time. `tide sim --profile NAME`: the
-- built-in workload under faults, in tide.swarm.
--
-- The simulation itself runs in the program `tide-sim` (lua/host/sim/fixed.h); `tide` becomes it. Ranges of seeds and
-- the check of determinism start one such process a run, so that no run can see what another has left behind.
local arguments = require "tide.cli.arguments"
local driver = require "tide.run.driver"
local errors = require "tide.errors"
local limits = require "tide.limits"
local sim_net = require "tide.sim.network"
local swarm = require "tide.sim.swarm"
local text = require "tide.text"

local open <const> = io.open -- scripts lose theirs

local SEEDS_MAX <const> = 1000000
local RANDOM_SEEDS <const> = 1000000
local LINES_SHOWN <const> = 12
local EXIT_INTERRUPTED <const> = 130
local SCRIPTS <const> = {runs = "tide.sim.profile_runs"} -- profiles that are scripts, by their names

---The words of one run of `seed`; `more` are further options.
local function words_of(context, seed, more)
  local o <const> = context.options
  local words = {"sim"}
  if seed then words[2], words[3] = "--seed", tostring(seed) end
  for _, name in ipairs {"nodes", "workers", "model", "latency", "nic", "net", "calibrate", "costs"} do
    if o[name] then words[#words + 1] = ("--%s=%s"):format(name, o[name]) end
  end
  if o.profile then words[#words + 1] = "--profile=" .. o.profile end
  if o.no_files then words[#words + 1] = "--no-files" end
  for _, setting in ipairs(o.set or {}) do words[#words + 1] = "--set=" .. setting end
  for _, limit in ipairs(o.limit or {}) do words[#words + 1] = "--limit=" .. limit end
  if o.draw_limits then words[#words + 1] = ("--draw-limits=%g"):format(o.draw_limits) end
  if context.timeout_s then words[#words + 1] = ("--timeout=%gs"):format(context.timeout_s) end
  for _, word in ipairs(more or {}) do words[#words + 1] = word end
  if o.script then words[#words + 1] = o.script end
  if #o.rest > 0 then words[#words + 1] = "--" end
  for _, word in ipairs(o.rest) do words[#words + 1] = word end
  return words
end

local function repeat_command(context, seed)
  local words = {"tide"}
  for _, word in ipairs(words_of(context, seed)) do words[#words + 1] = text.shell_word(word) end
  return table.concat(words, " ")
end

-- Those of our options that may stand behind the script as well; behind `--` all words are the script's.
local BEHIND <const> = {
  seed = "integer", seeds = "string", jobs = "integer", json = "flag", ["check-determinism"] = "flag",
}

---Takes our options out of the script's words.
---@return true|nil, tide.error? err
local function take_behind(o)
  local rest, at = {}, 1
  while o.rest[at] and o.rest[at] ~= "--" do
    local word = o.rest[at]
    local name, value = word:match("^%-%-([%a-]+)=?(.*)$")
    local kind = name and BEHIND[name]
    if not kind then
      rest[#rest + 1] = word
    elseif kind == "flag" then
      o[name:gsub("-", "_")] = true
    else
      if not word:find("=", 1, true) then
        at = at + 1
        value = o.rest[at] or ""
      end
      local number = math.tointeger(tonumber(value))
      if value == "" or kind == "integer" and (not number or number < 0) then
        return nil, errors.new("T0104", {message = ("--%s: `%s` is no %s"):format(name, value,
          kind == "integer" and "integer of 0 or more" or "range")})
      end
      o[name] = kind == "integer" and number or value
    end
    at = at + 1
  end
  o.rest = table.move(o.rest, at + 1, #o.rest, #rest + 1, rest)
  return true
end

---- one run, in tide-sim ------------------------------------------------------------------------------------------

---@return table world options of core.sim_open
---@return table net of core.sim_net
---@return string text
local function world_of(o)
  local net = {}
  if o.net then
    local problem
    net, problem = sim_net.read(o.net)
    if not net then error({message = "--net: " .. problem}, 0) end
  end
  local fixed = o.model == "fixed"
  local nic = not fixed and (o.nic and sim_net.bandwidth(o.nic, "--nic") or net.nic or 3.125e9) or 0
  local least, most = net.latency_min or 20e-6, net.latency_max or 20e-6
  if fixed and not net.latency_min then least, most = 10e-6, 200e-6 end
  if o.latency then least, most = o.latency, o.latency end
  local latency = least == most and ("%gus"):format(least * 1e6) or ("%gus to %gus"):format(least * 1e6, most * 1e6)
  return {seed = o.seed, latency_min = least, latency_max = most, nic = nic, flows = o.model == "flow",
          trace = o.trace_events, trace_first = o.trace_first, trace_last = o.trace_last}, net,
    ("seed %d, model %s, latency %s%s%s"):format(o.seed, o.model or "nic", latency,
      fixed and "" or (", NIC %gGbit"):format(nic * 8e-9), o.net and ", network " .. o.net or "")
end

---Writes what computing costs here, for sim.compute.
local function write_costs(context, path)
  local kernels, work = context.core.sim_calibrated()
  local names = require("tide.text").sorted_keys(kernels)
  if #names == 0 and not work then
    return nil, errors.new("T0219", {message = "--calibrate: no call of a kernel could be measured; run the script "
      .. "with --nodes 1 --workers 1, where no kernel waits for rows of other nodes"})
  end
  local file, problem = open(path, "w")
  if not file then return nil, errors.new("T0205", {message = "--calibrate: " .. problem}) end
  file:write(context.core.json_encode {schema = "tide.costs/1", kernels = kernels, work = work}, "\n")
  file:close()
  for _, name in ipairs(names) do
    local k <const> = kernels[name]
    context:say(("calibrate: %-16s %g us a call, %.4g us a row (%d calls, %d rows, %.3f s)"):format(name,
      k.call_s * 1e6, k.row_s * 1e6, k.calls, k.rows, k.seconds))
  end
  if work then
    context:say(("calibrate: %-16s %.4g ps a flop, %.4g ps a byte (%d operations, %.3f s)"):format("programs",
      work.flop_s * 1e12, work.byte_s * 1e12, work.calls, work.seconds))
  end
  return true
end

---Writes the script's files of the driver's simulated disk to the real one, except those of runs.
---@return true|nil, tide.error? err
local function leave_files(context)
  local files <const> = context.core.sim_files "driver"
  for _, path in ipairs(require("tide.text").sorted_keys(files)) do
    if not path:find "^%.tide/" then
      local directory <const> = path:match "^(.+)/[^/]*$"
      local ok, err = true, nil
      if directory then ok, err = context.core.mkdir(directory) end
      if ok then ok, err = context.core.file_write(path, files[path]) end
      if not ok then return nil, errors.from(err, "T0205") end
      context:say(("sim: %s, %d bytes"):format(path, #files[path]))
    end
  end
  return true
end

local function finish(context, exit)
  local report = context.core.sim_report()
  report.exit = exit
  if context.json then
    context:record(report)
  else
    if report.flows > 0 then
      context:say(("sim: %d flows, rates computed %d times, %s"):format(report.flows, report.flow_computations,
        report.flow_splits == 0 and "always max-min fair" or
        ("%d of them by equal split: more than 1,000 flows were connected"):format(report.flow_splits)))
    end
    context:say(("sim: seed %d, virtual %.6f s, %d events, %d faults, hash %s"):format(report.seed, report.virtual_s,
      report.events, report.faults, report.hash))
    if exit ~= 0 then context:say("sim: again: " .. repeat_command(context, report.seed)) end
  end
  context.core.sim_close()
  return exit
end

local function simulate(context)
  local o <const> = context.options
  local ok, world, net, said = pcall(world_of, o)
  if not ok then return nil, errors.new("T0104", {message = type(world) == "table" and world.message or world}) end
  if o.draw_limits then
    context.core.limits_draw(o.seed, o.draw_limits)
    limits.set(o.limit or {}, "--limit")
  end
  local changed <const> = table.concat(limits.changed(), " ")
  if changed ~= "" then said = said .. ", limits " .. changed end
  local opened, err = context.core.sim_open(world)
  if not opened then return nil, errors.from(err, "T1001") end
  context.core.sim_net(net)
  if o.calibrate then context.core.sim_calibrate() end
  if not context.json then context:say("sim: " .. said) end
  local own <const> = SCRIPTS[o.profile]
  local exit = driver.run {
    script = own and own:gsub("%.", "/") .. ".lua" or o.script, text = own and context.core.embedded(own),
    args = o.rest, nodes = o.nodes, workers = o.workers, json = context.json, plain = context.plain,
    quiet = context.quiet, verbose = context.verbose, timeout_s = context.timeout_s, simulated = true, seed = o.seed,
    trace = o.trace, costs = o.costs and {module = "tide.sim", file = o.costs},
    given = {nodes = o.nodes ~= nil or nil, workers = o.workers ~= nil or nil, trace = o.trace ~= nil or nil},
  }
  local written, problem = true, nil
  if not o.no_files then written, problem = leave_files(context) end
  if written and o.calibrate and exit == 0 then written, problem = write_costs(context, o.calibrate) end
  if not written then
    context.core.sim_close()
    return nil, problem
  end
  return finish(context, exit)
end

---- runs in processes of their own --------------------------------------------------------------------------------

---Starts a run; its output is read by `collect`.
local function start(context, seed, more)
  local program = context.core.sim_program()
  if not program then
    return nil, errors.new("T1001", {message = "the program tide-sim is not beside tide"})
  end
  local words = {"exec", "env", "LC_ALL=C", text.shell_word(program)}
  for _, word in ipairs(words_of(context, seed, more)) do words[#words + 1] = text.shell_word(word) end
  return {seed = seed, pipe = io.popen(table.concat(words, " ") .. " </dev/null 2>&1", "r")}
end

---@return table {seed, exit, report = the run's last record, lines = its output before that}
local function collect(run)
  local report
  local lines = {}
  for line in run.pipe:lines() do
    if line:find('"schema": *"tide.sim/1"') then
      report = require("tide.core").json_decode(line)
    else
      lines[#lines + 1] = line
    end
  end
  local _, why, number = run.pipe:close()
  return {seed = run.seed, exit = why == "signal" and 128 + number or number, report = report, lines = lines}
end

local function show_run(context, result)
  local report <const> = result.report or {seed = result.seed}
  if context.json then
    report.exit = result.exit
    context:record(report)
    return
  end
  context:print(("seed %d  %s  virtual %.3f s  %d events  hash %s"):format(result.seed,
    result.exit == 0 and "ok" or "FAILED with exit code " .. result.exit, report.virtual_s or 0, report.events or 0,
    report.hash or "?"))
end

---A line of a run's talk for people: runs say errors as JSON.
local function readable(context, line)
  local object <const> = line:find "^{" and context.core.json_decode(line)
  if type(object) ~= "table" or not (object.code and object.message) then return line end
  return (errors.format(errors.from(object), {}):gsub("\n", "\n  "))
end

---Several seeds, `jobs` at a time; results in order.
local function run_seeds(context, first, last)
  local running, failed = {}, {}
  local next_seed = first
  while next_seed <= last or #running > 0 do
    while next_seed <= last and #running < (context.options.jobs or 1) do
      local run, err = start(context, next_seed, {"--json", "--no-files"})
      if not run then return nil, err end
      running[#running + 1] = run
      next_seed = next_seed + 1
    end
    local result = collect(table.remove(running, 1))
    show_run(context, result)
    if result.exit == EXIT_INTERRUPTED or result.exit == 128 + 2 then return EXIT_INTERRUPTED end
    if result.exit ~= 0 then
      failed[#failed + 1] = result.seed
      for i = math.max(1, #result.lines - LINES_SHOWN + 1), #result.lines do
        context:say("  " .. (context.json and result.lines[i] or readable(context, result.lines[i])))
      end
      context:say("  again: " .. repeat_command(context, result.seed))
    end
  end
  context:say(("sim: %d seeds, %d failed"):format(last - first + 1, #failed))
  return #failed > 0 and 1 or 0
end

local function parse_range(word)
  local first, last = word:match("^(%d+)%.%.(%d+)$")
  first, last = math.tointeger(tonumber(first)), math.tointeger(tonumber(last))
  if not first or not last or first > last or last - first >= SEEDS_MAX then
    return nil, errors.new("T0104", {message = ("--seeds: `%s` is no range A..B of up to %d seeds"):format(word,
      SEEDS_MAX)})
  end
  return first, last
end

---- determinism ---------------------------------------------------------------------------------------------------

local function lines_of(path)
  local list = {}
  for line in io.lines(path) do list[#list + 1] = line end
  return list
end

---@return string|nil a, string|nil b the first lines that differ
local function first_difference(a, b)
  for i = 1, math.max(#a, #b) do
    if a[i] ~= b[i] then return a[i] or "(the run has ended)", b[i] or "(the run has ended)", i end
  end
end

---Runs the seed twice, keeping what `more` makes of the trace; returns both results and both traces.
local function run_twice(context, more)
  local results, traces = {}, {}
  for i = 1, 2 do
    local path = os.tmpname()
    local options = {"--json", "--no-files", "--trace-events=" .. path}
    for _, word in ipairs(more) do options[#options + 1] = word end
    local run, err = start(context, context.options.seed, options)
    if not run then return nil, err end
    results[i] = collect(run)
    traces[i] = lines_of(path)
    os.remove(path)
  end
  return results, traces
end

local function check_determinism(context)
  local results, traces = run_twice(context, {})
  if not results then return nil, traces end
  local a <const>, b <const> = results[1], results[2]
  show_run(context, a)
  show_run(context, b)
  if a.exit ~= 0 and not a.report then
    for _, line in ipairs(a.lines) do context:say("  " .. line) end
    return a.exit
  end
  if a.report and b.report and a.report.hash == b.report.hash and a.exit == b.exit then
    context:say "sim: both runs took the same course"
    return 0
  end
  -- The kept hashes are 4,096 events apart; a second pair of runs shows every event between two of them.
  local _, _, block = first_difference(traces[1], traces[2])
  local from = ((block or #traces[1] + 1) - 1) * 4096 + 1
  results, traces = run_twice(context, {"--trace-first=" .. from, "--trace-last=" .. from + 8192})
  if not results then return nil, traces end
  local one, two = first_difference(traces[1], traces[2])
  return nil, errors.new("T0219", {message = one and ("the runs of seed %d differ first at (event, hash, ns, node, "
    .. "kind, length, checksum)\n  %s\n  %s"):format(context.options.seed, one, two)
    or ("the runs of seed %d differ, but a second pair did not"):format(context.options.seed)})
end

---Scripts and profiles take different options.
local function check_kind(o)
  if o.profile and o.script then
    return nil, errors.new("T0107", {message = "--profile runs its own workload and takes no script"})
  end
  if not o.profile and not o.script then
    return nil, errors.new("T0103", {message = "`tide sim`: a script or --profile is missing",
      help = "`tide sim mf.lua`, or `tide sim --profile swarm --seeds 0..99`"})
  end
  for _, name in ipairs(o.profile and not SCRIPTS[o.profile] and {"nodes", "workers", "model", "latency", "nic"}
    or {"set", "shrink", "failures_max", "mutant"}) do
    if o[name] and (name ~= "set" or #o.set > 0) then
      return nil, errors.new("T0107", {message = o.profile and not SCRIPTS[o.profile]
        and ("--profile excludes --%s: pin an option of the profile by --set"):format(name)
        or ("--%s belongs to --profile, and not to all of them"):format((name:gsub("_", "-")))})
    end
  end
  if o.shrink and (o.seeds or o.check_determinism or not o.seed) then
    return nil, errors.new("T0107", {message = "--shrink requires one --seed",
      help = "tide sim --profile swarm --seed 4711 --shrink"})
  end
  return true
end

---Calls `run` if this process can simulate, else becomes the one that can.
local function become_or(context, run)
  local o <const> = context.options
  local _, can <const> = context.core.simulated()
  if can then return run() end
  local more = {}
  for _, name in ipairs {"json", "plain", "quiet", "verbose", "shrink"} do
    if context[name] or o[name] then more[#more + 1] = "--" .. name end
  end
  for _, name in ipairs {"trace", "trace-events", "trace-first", "trace-last", "jobs", "seeds", "failures-max",
                         "mutant"} do
    local value <const> = o[name:gsub("-", "_")]
    if value then more[#more + 1] = ("--%s=%s"):format(name, value) end
  end
  local _, err = context.core.sim_become(words_of(context, o.seed, more))
  return nil, errors.new("T1001", {message = err.message})
end

return {
  name = "sim",
  brief = "run a script on simulated nodes",
  summary = "Runs a script, or a built-in workload under faults, on simulated nodes, in one process and virtual time; "
    .. "the same seed gives the same run.",
  examples = {
    {"tide sim mf.lua --seed 7 --rank 32", "one run of seed 7, with an option of the script"},
    {"tide sim mf.lua -- --seed 7", "behind `--` all options are the script's"},
    {"tide sim --seeds 1..100 mf.lua", "a hundred runs"},
    {"tide sim --check-determinism mf.lua", "twice the same, or show where not"},
    {"tide sim --profile swarm --seeds 0..999 -j 2", "the built-in workload under faults"},
    {"tide sim jobs workload.csv --policy scheduling/tiresias", "a trace of jobs; `tide sim jobs --help`"},
  },
  arguments = {
    {name = "script", optional = true, doc = "a Lua file, as for `tide run`; not with --profile"},
    {name = "rest", rest = true, label = "options of the script", doc = "`tide run SCRIPT --help` lists them"},
  },
  options = {
    {name = "seed", type = "integer", min = 0, doc = "of the world: order, delays, faults; random if absent"},
    {name = "seeds", type = "string", value = "A..B", doc = "one run for each of these seeds"},
    {name = "jobs", short = "j", type = "integer", min = 1, max = 64, doc = "runs at a time with --seeds"},
    {name = "check-determinism", doc = "run twice and compare all events"},
    {name = "profile", type = "string", value = "NAME",
     doc = "the built-in workload: swarm, calm, overload, elastic, copies, shared, window, clocks, disk, journal; "
       .. "runs: hosts, runs and verbs on a shared cluster"},
    {name = "set", type = "string", value = "NAME=X", repeated = true, doc = "pin an option of the profile"},
    arguments.shared.limit,
    {name = "draw-limits", type = "number", min = 0, max = 1, value = "SHARE",
     doc = "draw this share of the limits for each seed (reference/limits.md)"},
    {name = "shrink", doc = "of a failing seed: pin options while it still fails"},
    {name = "mutant", type = "string", value = "NAME", doc = "with -DTIDE_MUTANTS=ON: make this mistake"},
    {name = "failures-max", type = "integer", min = 1, doc = "stop after so many failed seeds"},
    {name = "model", type = "string", choices = {"fixed", "nic", "flow"}, value = "M",
     doc = "network: fixed (a delay alone), nic (cards too; default), flow (bulk shares them evenly)"},
    {name = "latency", type = "duration", doc = "between any two nodes (20us)"},
    {name = "nic", type = "string", value = "B", doc = "bandwidth of each node, such as 25Gbit"},
    {name = "net", type = "string", value = "FILE", doc = "Lua file that returns the network, as for sim.net"},
    {name = "calibrate", type = "string", value = "FILE",
     doc = "measure the costs of this run and write them to FILE, for --costs and sim.compute"},
    {name = "costs", type = "string", value = "FILE", doc = "costs of computing, a file of --calibrate"},
    {name = "no-files", doc = "keep files of the script on the simulated disk, as with --seeds"},
    {name = "nodes", type = "integer", min = 1, max = 4095, doc = "nodes, if the script does not say"},
    {name = "workers", short = "w", type = "integer", min = 1, max = 256,
     doc = "workers of each node, if the script does not say"},
    {name = "trace", type = "string", value = "FILE",
     doc = "write a trace of nodes and fibers, in virtual time, to FILE, for ui.perfetto.dev"},
    {name = "trace-events", type = "string", value = "FILE", doc = "write every 4,096th event and hash there"},
    {name = "trace-first", type = "integer", min = 0, doc = "with --trace-events: all events from this one ..."},
    {name = "trace-last", type = "integer", min = 0, doc = "... to this one"},
  },
  takes_script = true,
  within = {jobs = "tide.command.sim_jobs"}, -- commands of their own behind this one's name
  schema = "tide.sim/1",
  run = function(context)
    local o <const> = context.options
    local ok, err = take_behind(o)
    if not ok then return nil, err end
    context.json = context.json or o.json or false
    ok, err = check_kind(o)
    if not ok then return nil, err end
    if o.trace and (o.seeds or o.profile or o.check_determinism) then
      return nil, errors.new("T0107", {message = "--trace requires one run of a script"})
    end
    if o.seeds then
      if o.seed or o.check_determinism then
        return nil, errors.new("T0107", {message = "--seeds excludes --seed and --check-determinism"})
      end
      local first, last = parse_range(o.seeds)
      if not first then return nil, last end
      if o.profile and not SCRIPTS[o.profile] then
        return become_or(context, function() return swarm.run(context, first, last) end)
      end
      return run_seeds(context, first, last)
    end
    if not o.seed then
      o.seed = context.core.random(math.floor(context.core.wall() * 1e6)):below(RANDOM_SEEDS)
    end
    if o.check_determinism then return check_determinism(context) end
    return become_or(context, function()
      if o.profile and not SCRIPTS[o.profile] then return swarm.run(context, o.seed, o.seed) end
      return simulate(context)
    end)
  end,
}
