-- `tide sim --profile NAME`: the built-in workload (tests/swarm) under faults, for one seed or many. Runs in the
-- program `tide-sim`; each seed in a process of its own.
local errors = require "tide.errors"
local limits = require "tide.limits"
local text = require "tide.text"

local swarm = {}

local SHRINK_RUNS <const> = 200

---The same program, seed, profile and settings again.
local function repeat_command(o, seed, set)
  local words = {"tide sim", "--profile", o.profile, "--seed", tostring(seed)}
  if o.mutant then words[#words + 1] = "--mutant " .. o.mutant end
  for _, setting in ipairs(set) do words[#words + 1] = "--set " .. setting end
  return table.concat(words, " ")
end

local function indented(lines)
  return (lines:gsub("\n+$", ""):gsub("[^\n]+", "  %0"))
end

local function show_failure(context, report, set)
  context:say(("seed %d FAILED: %s"):format(report.seed, report.checker))
  if report.what ~= "" then context:say(indented(report.what)) end
  if report.checker == "crash" or report.checker == "hang" then context:say(indented(report.said)) end
  if report.happened ~= "" then context:say("  faults:\n" .. indented(indented(report.happened))) end
  context:say("  options: " .. context.core.swarm_options({profile = context.options.profile, set = set}, report.seed))
  context:say("  again: " .. repeat_command(context.options, report.seed, set))
end

local function show(context, report, set)
  if context.json then
    report.schema, report.exit = "tide.sim/1", report.failed and 1 or 0
    context:print(context.core.json_encode(report))
  elseif context.verbose or not context.options.seeds then
    context:print(("seed %d  %s  virtual %.3f s  %d events  %d operations  %d messages  %d faults  hash %s"):format(
      report.seed, report.failed and "FAILED" or "ok", report.virtual_s, report.events, report.operations,
      report.messages, report.faults, report.hash))
  end
  if report.failed and not context.json then show_failure(context, report, set) end
end

---- making a failing run smaller ------------------------------------------------------------------------------------

---What could be pinned to make the run of these options smaller, the most promising first.
local function candidates(values, drawn)
  local list = {}
  if values.limits > 0 then list[1] = {"limits", 0} end
  for _, name in ipairs(text.sorted_keys(drawn)) do list[#list + 1] = {name, drawn[name]} end
  for name, value in pairs(values) do
    if value > 0 and name:find("_s$") and name ~= "chaos_s" and name ~= "heal_s" or name == "buggify" and value > 0 then
      list[#list + 1] = {name, 0}
    end
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  local function towards(name, least)
    local value = values[name]
    if value > least then
      list[#list + 1] = {name, least}
      if value // 2 > least then list[#list + 1] = {name, value // 2} end
    end
  end
  towards("tables", 1)
  towards("chaos_s", 3)
  towards("nodes", 3)
  towards("threads", 1)
  towards("fibers", 1)
  towards("keys", 1)
  towards("batch", 1)
  towards("depth", 1)
  towards("burst", 4)
  if values.messages > 0 then list[#list + 1] = {"messages", 0} end
  return list
end

---Pins options while the same checker still fails; returns the settings and the last failing report.
local function shrink(context, seed, set)
  local o <const>, core <const> = context.options, context.core
  local runs = 0
  local function run(settings)
    local result
    runs = runs + 1
    assert(core.swarm {profile = o.profile, first = seed, last = seed, set = settings,
                       done = function(report) result = report end})
    return result
  end
  local best = run(set)
  if not best.failed then return nil, nil, best end
  local settings, progress = set, true
  while progress and runs < SHRINK_RUNS do
    progress = false
    local _, values <const>, _, drawn <const> = core.swarm_options({profile = o.profile, set = settings}, seed)
    for _, candidate in ipairs(candidates(values, drawn)) do
      local trial = table.move(settings, 1, #settings, 1, {})
      trial[#trial + 1] = ("%s=%.15g"):format(candidate[1], candidate[2])
      local report <const> = run(trial)
      if report.failed and report.checker == best.checker then
        context:say(("shrink: still fails with %s"):format(trial[#trial]))
        settings, best, progress = trial, report, true
        break
      end
    end
  end
  return settings, best
end

-- The last setting of a name counts; the others are noise in the command that repeats the run.
local function last_of_each(settings)
  local at, list = {}, {}
  for i, setting in ipairs(settings) do at[setting:match("^[^=]*")] = i end
  for i, setting in ipairs(settings) do
    if at[setting:match("^[^=]*")] == i then list[#list + 1] = setting end
  end
  return list
end

local function run_shrink(context, seed, set)
  local settings, report, passed = shrink(context, seed, set)
  if passed then
    show(context, passed, set)
    return nil, errors.new("T0107", {message = "--shrink requires a run that fails; this one passes"})
  end
  show(context, report, last_of_each(settings))
  return 1
end

---- rare branches ----------------------------------------------------------------------------------------------------

local CAMPAIGN <const> = 200 -- seeds from which on every branch that the profile expects must have been reached

---Counts of one run to those of all: how often, and in how many seeds.
local function add_reached(sum, reached)
  for name, count in pairs(reached) do
    local one = sum[name] or {count = 0, seeds = 0}
    sum[name] = {count = one.count + count, seeds = one.seeds + (count > 0 and 1 or 0)}
  end
end

---Prints the list; a campaign that has not reached a branch that its profile expects has failed.
---@return boolean complete
local function show_reached(context, sum, seeds, expected)
  local names, never = text.sorted_keys(sum), {}
  for i, name in ipairs(names) do names[i] = ("%s %d (%d)"):format(name, sum[name].count, sum[name].seeds) end
  context:say("sim: rare branches, how often (in how many seeds): " .. table.concat(names, ", "))
  for name in expected:gmatch "%S+" do
    if not sum[name] or sum[name].count == 0 then never[#never + 1] = name end
  end
  if seeds < CAMPAIGN or #never == 0 then return true end
  context:say(("sim: profile %s never reached %s; its list is in tests/swarm/options.c"):format(
    context.options.profile, table.concat(never, ", ")))
  return false
end

---- runs ------------------------------------------------------------------------------------------------------------

---@param context table of the command
---@param first integer
---@param last integer
---@return integer? exit
---@return tide.error? err
function swarm.run(context, first, last)
  local o <const>, core <const> = context.options, context.core
  local set <const> = limits.settings(o.limit or {})
  if o.draw_limits then table.insert(set, 1, ("limits=%g"):format(o.draw_limits)) end
  table.move(o.set or {}, 1, #(o.set or {}), #set + 1, set)
  local drawn, err, profiles, _, expected = core.swarm_options({profile = o.profile, set = set}, first)
  if not drawn then return nil, errors.new("T0104", {message = err.message}) end
  if not context.json then
    context:say(first == last and ("sim: profile %s, seed %d, %s"):format(o.profile, first, drawn)
      or ("sim: profile %s (of %s), seeds %d..%d%s"):format(o.profile, profiles, first, last,
        #set > 0 and ", set " .. table.concat(set, " ") or ""))
  end
  if o.shrink then return run_shrink(context, first, set) end
  local done, failed, events, operations, faults, crashes, virtual = 0, 0, 0, 0, 0, 0, 0.0
  local reached <const>, began <const> = {}, core.wall()
  local spoke = began
  local ok
  ok, err = core.swarm {
    profile = o.profile, first = first, last = last, jobs = o.jobs or 1, set = set,
    mutant = o.mutant, trace = o.trace_events,
    trace_first = o.trace_first, trace_last = o.trace_last,
    done = function(report)
      done, failed = done + 1, failed + (report.failed and 1 or 0)
      events, operations = events + report.events, operations + report.operations
      faults, crashes = faults + report.faults, crashes + report.nodes_lost + report.disk_crashes
      virtual = virtual + report.virtual_s
      add_reached(reached, report.reached)
      show(context, report, set)
      if core.wall() - spoke >= 60 and not context.json then
        spoke = core.wall()
        context:say(("sim: %d of %d seeds, %d failed, %.0f s"):format(done, last - first + 1, failed, spoke - began))
      end
      return o.failures_max and failed >= o.failures_max
    end,
  }
  if not ok then return nil, errors.from(err, "T1001") end
  if first ~= last and not context.json then
    context:say(("sim: %d seeds, %d failed, %.1f virtual hours, %d events, %d operations, %d faults, %d crashes, %.1f s"
      ):format(done, failed, virtual / 3600, events, operations, faults, crashes, core.wall() - began))
    if not show_reached(context, reached, done, #set == 0 and not o.mutant and expected or "") then return 1 end
  end
  return failed > 0 and 1 or 0
end

return swarm
