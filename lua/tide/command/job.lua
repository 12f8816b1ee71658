-- `tide job VERB NAME`: one run of a cluster.
local arguments = require "tide.cli.arguments"
local artifacts = require "tide.run.artifacts"
local children = require "tide.provision.children"
local client = require "tide.cluster.client"
local errors = require "tide.errors"
local forecasts = require "tide.scheduler.forecast"
local list_of = require "tide.command.artifacts"
local keeper = require "tide.keeper"
local log_query = require "tide.run.log_query"
local remote = require "tide.policy.remote"
local remote_run = require "tide.run.remote"
local run_host = require "tide.run.host"
local run_logs = require "tide.command.run_logs"
local run_params = require "tide.run.params"
local text = require "tide.text"
local units = require "tide.units"

local POLL_S <const> = 0.2
local CLOSING_S <const> = 10 -- so long `wait` and `attach` wait for a script that keeps its ended run open
local EXITS <const> = {done = 0, stopped = 1, failed = 1, lost = 5}

local job = {}

---In the client's actor: a request to the keeper of runs, or a verb.
function job.inside(request)
  local answer, err
  if request.why then
    local address
    address, err = remote.find(nil, "scheduling")
    local list
    if address then list, err = remote.new(address).why("alloc " .. request.n) end
    if list then
      answer = {why = {}}
      for _, each in ipairs(list) do
        if each.what == "alloc " .. request.n then answer.why[#answer.why + 1] = each end
      end
    end
  elseif request.forecast then
    local row
    row, err = keeper.ask {op = "get", name = request.name}
    local situation
    if row then situation, err = keeper.ask {op = "situation"} end
    if situation then
      answer, err = forecasts.run(situation, {name = row.name, slots = request.slots})
    end
    if answer then answer = {name = row.name, state = row.state, runs = answer} end
  elseif request.restart then
    children.program = request.program or children.program
    local run
    run, err = run_host.restart(request.restart, request.cluster)
    answer = run and {name = run.name, state = run.state, uid = run.uid}
  elseif request.method then
    local run
    run, err = remote_run.find(request.name)
    if run and request.method == "set" then
      local given <const> = request.arguments[1]
      for name, word in pairs(given) do
        given[name] = run_params.read(word, (run.params or {})[name])
      end
    end
    if run then
      local ok, more, next_at = run[request.method](run, table.unpack(request.arguments or {}, 1, request.count or 1))
      if ok then
        answer = {ok = ok == true or ok, more = more, next = next_at, name = run.name, state = run.state,
          script = run.script}
      else
        err = more
      end
    end
  else
    answer, err = keeper.ask(request)
  end
  return answer, err
end

local INSIDE <const> = "tide.command.job.inside"

-- What changes something.
local function ask(request) return client.run(INSIDE, request) end

-- A request that changes nothing, and is repeated after a lost session.
local function look(request) return client.look(INSIDE, request) end

-- "eps=0.05" as words by name.
local function words_of(words)
  local params = {}
  for _, word in ipairs(words) do
    local key, value = word:match "^([%w_]+)=(.*)$"
    if not key then
      return nil, errors.new("T0105", {message = ("`%s` is no NAME=VALUE"):format(text.clean(word)),
        help = "tide job set mf-1 eps=0.05"})
    end
    params[key] = value
  end
  return params
end

local function print_row(context, row)
  if context.json then
    row.schema, row.controller = context.schema, nil
    context:print(context.core.json_encode(row))
    return 0
  end
  local p <const> = row.progress or {}
  context:field("run", ("%s (%s)"):format(row.name, row.uid))
  if row.state == "failed" then context:field("error", row.why) end
  context:field("state", row.state .. (row.why and row.state ~= "failed" and ", " .. row.why or ""))
  context:field("person", row.user)
  context:field("tags", table.concat(row.tags or {}, " "))
  context:field("note", row.note)
  context:field("priority", row.priority)
  context:field("time", row.time_s and ("%s at most"):format(units.format_duration(row.time_s)))
  context:field("slots", row.wanted and ("%d of %d"):format(row.slots, row.wanted) or row.slots)
  local parts = {}
  for _, node in ipairs(row.nodes) do parts[#parts + 1] = ("%s %d"):format(node, row.grant[node]) end
  context:field("nodes", table.concat(parts, ", "))
  context:field("report", p.report)
  context:field("loss", p.loss and ("%.6g"):format(p.loss))
  if row.memory then
    local size <const> = units.format_size
    parts = {}
    for _, node in ipairs(text.sorted_keys(row.memory_used or {})) do
      local m <const> = row.memory_used[node]
      parts[#parts + 1] = ("%s %s%s"):format(node, size(m.used), m.refused > 0 and ", refused "
        .. m.refused or "")
    end
    context:field("memory", ("%s on each node%s"):format(size(row.memory),
      #parts > 0 and ": " .. table.concat(parts, "; ") or ""))
  end
  context:field("params", text.assignments(row.params))
  local host <const> = row.host
  context:field("host", ("%s, pid %s, machine %s"):format(host.node or "?", host.pid or "?", host.machine or "?"))
  context:field("directory", row.host.directory)
  return 0
end

local function say_end(context, row)
  context:say(("%s: %s%s"):format(row.name, row.state, row.why and ", " .. row.why or ""))
  return math.tointeger(row.exit) or EXITS[row.state]
end

local IDLE <const> = {queued = true, paused = true, suspended = true}

-- Why nothing happens, when that has changed. Returns what was said.
local function say_idle(context, row, said)
  local now <const> = IDLE[row.state] and ("%s is %s%s"):format(row.name, row.state, row.why and ", " .. row.why or "")
  if now and now ~= said then context:say(text.clean(now)) end
  return now
end

-- Whether the script is done with the run too, which may print and write results when the workers have ended.
local function is_over(context, row)
  if not EXITS[row.state] then return false end
  return row.closed or row.state == "lost" or context.core.wall() - (row.ended_at or 0) > CLOSING_S
end

-- Prints the log; with `follow` until the run has ended, whose exit code this then has.
local function logs(context, o, follow, from)
  local row, said
  local exit <const>, problem = run_logs.output(context, function(after)
    local got, err
    row, err = look {op = "get", name = o.name}
    if not row then return nil, err end
    said = follow and say_idle(context, row, said)
    got, err = look {method = "log", name = o.name, arguments = {{after = after}}}
    if not got then return nil, err end
    return {text = got.ok, size = got.more, next = got.next, is_last = not follow or is_over(context, row)}
  end, from)
  return exit == 0 and follow and say_end(context, row) or exit, problem
end

local function wait(context, o)
  local deadline <const> = context.timeout_s and context.core.now() + context.timeout_s
  local said
  while true do
    local row, err = look {op = "get", name = o.name}
    if not row then return nil, err end
    said = say_idle(context, row, said)
    if is_over(context, row) then return say_end(context, row) end
    if context.core.interrupted() > 0 then return 130 end
    if deadline and context.core.now() >= deadline then return 124 end
    context.core.sleep(POLL_S)
  end
end

local function show(context, o)
  local row, err = look {op = "get", name = o.name, memory = true}
  if not row then return nil, err end
  return print_row(context, row)
end

local function forecast(context, o)
  local function of(slots)
    local answer <const>, err = look {forecast = true, name = o.name, slots = slots}
    if not answer then return nil, err end
    for _, run in ipairs(answer.runs) do
      if run.name == answer.name then return run, answer end
    end
    return nil, errors.new("T0513", {message = ("run %s is %s: the scheduling policy does not decide about it"):format(
      text.clean(answer.name), answer.state), help = ("tide job show %s"):format(text.clean(answer.name))})
  end
  local now <const>, answer = of()
  if not now then return nil, answer end
  local other, err
  if o.slots then
    other, err = of(o.slots)
    if not other then return nil, err end
  end
  if context.json then
    context:record({name = now.name, begins_s = now.begins_s, ends_s = now.ends_s,
      guessed = now.guessed, slots = o.slots, with_slots_ends_s = other and other.ends_s, runs = answer.runs})
    return 0
  end
  local duration <const> = units.format_duration
  local function line(what, run)
    local begins <const> = run.begins_s and ("begins in %s, "):format(duration(run.begins_s)) or ""
    context:print(("%-24s %sends in %s%s"):format(what, begins, duration(run.ends_s),
      run.guessed and ", if it is half done now: it does not say how much it is to do" or ""))
  end
  line(text.clean(now.name), now)
  if other then line(("%s with %d slot%s"):format(text.clean(now.name), o.slots, o.slots == 1 and "" or "s"), other) end
  for _, run in ipairs(answer.runs) do
    if run.name ~= now.name then line(text.clean(run.name), run) end
  end
  return 0
end

-- The reason of the last scheduling decision.
local function why(context, o)
  local row, err = look {op = "get", name = o.name}
  if not row then return nil, err end
  local list
  list, err = look {why = true, n = row.n}
  if not list then return nil, err end
  local lines = {}
  for _, each in ipairs(list.why) do lines[#lines + 1] = ("%s: %s"):format(each.policy, each.why) end
  local said <const> = text.clean(table.concat(lines, "; "))
  if #lines == 0 then
    return nil, errors.new("T0401", {message = ("no policy has decided about run %s yet"):format(
      text.clean(row.name)), help = ("tide job show %s"):format(text.clean(row.name))})
  end
  return context:tell({name = row.name, why = said}, ("%s: %s"):format(text.clean(row.name), said))
end

-- A method of the run, and the message of its success.
local function verb(context, o, said, method, ...)
  local answer, err = ask {method = method, name = o.name, arguments = {...}, count = select("#", ...)}
  if not answer then return nil, err end
  return context:tell({name = answer.name, state = answer.state},
    ("%s %s"):format(text.clean(answer.name), answer.script and "ends now" or said))
end

local function resume(context, o)
  local row, err = look {op = "get", name = o.name}
  if not row then return nil, err end
  if not EXITS[row.state] then return verb(context, o, "resumes", "resume", {timeout = context.timeout_s}) end
  local endpoint
  endpoint, err = client.resolve(o.cluster)
  if not endpoint then return nil, err end
  local run
  run, err = ask {restart = row, cluster = o.cluster or endpoint, program = arg and arg[0]}
  if not run then return nil, err end
  return context:tell({name = run.name, state = run.state, uid = run.uid},
    ("%s resumes as %s from %s"):format(text.clean(row.name), text.clean(run.name), text.clean(row.checkpoint)))
end

local function cancel(context, o)
  local ok, err = context:confirm(("End run `%s` now?"):format(text.clean(o.name)))
  if not ok then return nil, err end
  return verb(context, o, "is cancelled", "cancel")
end

local function set(context, o)
  local params, err = words_of(o.params)
  if not params then return nil, err end
  return verb(context, o, "has new params from its next report on", "set", params, {new = o.new or nil})
end

-- What people note about a run, also about one that has ended. The process of a run keeps it in the run's directory.
local function noted(context, o)
  local answer, err = ask {op = "note", name = o.name, note = o.text and table.concat(o.text, " "), tags = o.tags}
  if not answer then return nil, err end
  local tags <const> = #answer.tags > 0 and "has the tags " .. table.concat(answer.tags, " ") or "has no tags"
  return context:tell({name = answer.name, state = answer.state, note = answer.note, tags = answer.tags},
    ("%s %s"):format(text.clean(answer.name), o.tags and tags or answer.note and "has a note" or "has no note"))
end

-- Files that the run keeps.
local function list_artifacts(context, o)
  local answer <const>, err = look {method = "artifacts", name = o.name}
  if not answer then return nil, err end
  return list_of(context, answer.ok, o.name)
end

-- Copies a file of the run, atomically.
local function fetch(context, o)
  local list <const>, err = look {method = "artifacts", name = o.name}
  if not list then return nil, err end
  local entry
  for _, each in ipairs(list.ok) do entry = each.name == o.artifact and each or entry end
  local to <const> = o.to or o.artifact
  if not entry then
    return nil, errors.new("T0401", {message = ("run %s has no artifact `%s`"):format(text.clean(o.name),
      text.clean(o.artifact)), help = ("tide job artifacts %s lists them"):format(text.clean(o.name))})
  end
  local ok <const>, problem = artifacts.fetch(entry, to, function(at)
    local part <const>, refused = look {method = "artifact_part", name = o.name, count = 2,
      arguments = {entry.name, at}}
    return part and part.ok, refused
  end)
  if not ok then return nil, problem end
  return context:tell({name = entry.name, path = to, bytes = entry.bytes, sha256 = entry.sha256},
    ("%s: %s, sha256 %s"):format(text.clean(to), units.format_size(entry.bytes), entry.sha256))
end

local function prioritize(context, o)
  local answer, err = ask {op = "priority", name = o.name, priority = o.priority}
  if not answer then return nil, err end
  return context:tell({name = answer.name, state = answer.state, priority = o.priority},
    ("%s has the priority %d among the runs of its person"):format(text.clean(answer.name), o.priority))
end

local function set_time(context, o)
  local seconds <const> = o.time ~= "none" and units.parse_duration(o.time) or nil
  if (seconds or 0) <= 0 and o.time ~= "none" then -- 0 is no limit elsewhere: here it would stop the run at once
    return nil, errors.new("T0104", {message = ("`%s` is no time"):format(text.clean(o.time)),
      help = ("tide job time %s 12h, or none"):format(text.clean(o.name))})
  end
  local answer, err = ask {op = "time", name = o.name, seconds = seconds}
  if not answer then return nil, err end
  return context:tell({name = answer.name, state = answer.state, time_s = seconds}, ("%s may take %s"):format(
    text.clean(answer.name), seconds and units.format_duration(seconds) .. " from the moment it has its slots"
    or "any time"))
end

local NAME <const> = {name = "name", doc = "the run: `mf-1`, its number, or its job where one run of that is active"}

local VERBS <const> = {
  {name = "show", doc = "state, slots, params", arguments = {NAME}, run = show},
  {name = "logs", doc = "its whole log, or lines of it", arguments = {NAME},
   run = function(context, o) return logs(context, o, o.follow, 0) end},
  {name = "attach", doc = "the newest part of its log and what follows until it ends, with its exit code",
   arguments = {NAME},
   run = function(context, o) return logs(context, o, true) end},
  {name = "wait", doc = "until it has ended, with its exit code", arguments = {NAME}, run = wait},
  {name = "pause", doc = "its workers pause at their next report", arguments = {NAME}, run = function(context, o)
    return verb(context, o, "is paused", "pause", {release = o.release or nil, timeout = context.timeout_s})
  end},
  {name = "resume", doc = "continues a paused one; of one that has ended a new run from its newest checkpoint",
   arguments = {NAME}, run = resume},
  {name = "set", doc = "params from its next report on",
   arguments = {NAME, {name = "params", many = 1, doc = "NAME=VALUE"}}, run = set},
  {name = "workers", doc = "another number of workers",
   arguments = {NAME, {name = "count", type = "integer", min = 1, doc = "how many"}},
   run = function(context, o) return verb(context, o, "gets other workers", "set_workers", o.count) end},
  {name = "priority", doc = "its rank among the queued runs of its person",
   arguments = {NAME, {name = "priority", type = "integer", doc = "higher ones first; 0 is that of other runs"}},
   run = prioritize},
  {name = "time", doc = "how long it may take from the moment it has its slots",
   arguments = {NAME, {name = "time", doc = "90m, 12h; none: any time"}}, run = set_time},
  {name = "artifacts", doc = "the files that it keeps", arguments = {NAME}, schema = "tide.artifact/1",
   run = list_artifacts},
  {name = "fetch", doc = "copies a file that it keeps", schema = "tide.artifact/1",
   arguments = {NAME, {name = "artifact", doc = "the name of the file"}}, run = fetch},
  {name = "stop", doc = "ends it at its next report", arguments = {NAME}, run = function(context, o)
    return verb(context, o, "stops at its next report", "stop", {within = o.within})
  end},
  {name = "cancel", doc = "ends it now", arguments = {NAME}, run = cancel},
  {name = "note", doc = "a text about it; an empty one removes it",
   arguments = {NAME, {name = "text", many = 1, doc = "the text"}}, run = noted},
  {name = "tag", doc = "adds tags; `draft-` removes one",
   arguments = {NAME, {name = "tags", many = 1, doc = "such as baseline, lr=low, draft-"}}, run = noted},
  {name = "forecast", doc = "when it will end", arguments = {NAME}, schema = "tide.forecast/1", run = forecast},
  {name = "why", doc = "the reason of the last scheduling decision", arguments = {NAME}, run = why},
}

local row <const> = {
  name = "job",
  brief = "one run of a cluster: show, logs, pause, resume, set, stop",
  summary = "Shows or controls one run of a cluster.",
  examples = {
    {"tide job show mf-1", "state, slots, params"},
    {"tide job set mf-1 eps=0.05", "from the next report on"},
    {"tide job pause mf-1 --release", "other runs get its slots until `resume`"},
    {"tide job resume mf-1", "of one that has failed or was stopped: a new run from its newest checkpoint"},
    {"tide job stop mf-1 --within 30s", "at its next report, by force if that does not come"},
    {"tide job workers mf-1 4", "four workers from now on"},
    {"tide job forecast mf-1 --slots 4", "when it will end, and when with four slots"},
    {"tide job tag mf-1 baseline draft-", "adds a tag, removes one; `note` takes a text"},
    {"tide job attach mf-1", "follow its log; Ctrl-C leaves it running"},
    {"tide job fetch mf-1 model.npy --to m.npy", "a file that the run keeps; `artifacts` lists them"},
    {"tide job logs mf-1 --rank 2 --since 10m --search 'loss'", "only those lines; rank 0 is the script itself"},
  },
  verbs = VERBS,
  attached = true,
  schema = "tide.job/1",
  options = {
    arguments.shared.cluster, arguments.shared.yes,
    {name = "release", of = "pause", doc = "the workers leave, their slots are free"},
    {name = "within", of = "stop", type = "duration", doc = "cancel the run after this time"},
    {name = "new", of = "set", doc = "add a param that the job does not declare"},
    {name = "slots", of = "forecast", type = "integer", min = 1, value = "N",
     doc = "forecast the end with N slots, too"},
    {name = "last", type = "integer", min = 1, value = "N", of = "logs", doc = "only the last N lines, to begin with"},
    {name = "follow", short = "f", of = "logs", doc = "follow new lines until the run ends"},
    {name = "to", of = "fetch", type = "string", value = "PATH", doc = "where the file goes (default: its name, here)"},
    {name = "raw", of = "logs, attach", doc = "with the escape sequences of the script; default: only its colors"},
    table.unpack(log_query.OPTIONS),
  },
}
for key, value in pairs(row) do job[key] = value end

return job
