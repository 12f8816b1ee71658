-- `tide policy VERB`: policies of an active run, of its journal, and of files.
local arguments = require "tide.cli.arguments"
local cluster_view = require "tide.cluster.view"
local contract = require "tide.policy.contract"
local errors = require "tide.errors"
local listing = require "tide.command.listing"
local remote = require "tide.policy.remote"
local source = require "tide.policy.source"
local text = require "tide.text"
local units = require "tide.units"


local SKELETON <const> = [[
-- What this policy does, in a sentence.
local policy = {
  api = 1, kind = "%s", name = "my-%s", version = 1,
  params = {},                     -- named defaults: numbers, strings, booleans, flat lists
  needs = {},                      -- required signals: docs/guides/policy-contract.md
  every = %g,                      -- seconds between decisions
  on = {%s},  -- events that trigger a decision: docs/guides/policy-contract.md
}

-- The state. `saved` is what the policy before this one exported, or nil: keep what is still useful.
function policy.init(params, saved)
  return {params = params, decisions = saved and saved.decisions or 0}
end

-- A pure function from a view to a plan. An empty plan changes nothing. k has the numeric tools.
function policy.decide(st, view, k)
  st.decisions = st.decisions + 1
  return {}                        -- %s
end

-- What a successor, a restart or a replay shall know: plain data.
function policy.export(st) return {decisions = st.decisions} end

return policy
]]

local SENT <const> = {submit = true, finish = true, join = true, leave = true, fit = true, idle = true}

local FIELDS <const> = {
  scheduling = "{alloc = {[job] = {slots = n}}, order = ids, nodes = {want = n}}",
  scaling = "{workers = n, servers = n, drop = ids}",
  placement = "{moves = {{table =, slot =, to = node}}, replicas = {[table] = n}}",
  batching = "{batch = {[worker] = n}, accum = n, why = text}",
  comm = "{path = {[tensor] = \"ps\"}, format = {[tensor] = \"bf16\"}}",
  sync = "{consistency = \"ssp:3\", backup = n}",
  dispatch = "{queue = {[worker] = chunks}, backup = {{chunk =, worker =}}}",
}

local function print_data(context, verb, data)
  if context.json then
    local object = type(data) == "table" and data[1] == nil and data or {items = data}
    object.verb = verb
    context:record(object)
    return 0
  end
  local function lines(value, indent)
    for _, key in ipairs(text.sorted_keys(value)) do
      local v = value[key]
      if type(v) == "table" and next(v) then
        context:print(("%s%s:"):format(indent, tostring(key)))
        lines(v, indent .. "  ")
      elseif type(v) ~= "table" then
        local shown = math.type(v) == "float" and ("%.6g"):format(v) or text.clean(tostring(v))
        context:print(("%s%-14s %s"):format(indent, tostring(key), shown))
      end
    end
  end
  if data[1] ~= nil and type(data[1]) == "table" then
    for i, item in ipairs(data) do
      if i > 1 then context:print "" end
      lines(item, "")
    end
  else
    lines(data, "")
  end
  return 0
end

---- verbs without a run ------------------------------------------------------------------------------------------

local function new(context, o)
  local kind <const> = o.what
  local k = contract.kinds[kind]
  if not k then
    return nil, errors.new("T0105", ("`%s` is no kind of policy; there are %s"):format(text.clean(kind),
      table.concat(contract.kind_names, ", ")))
  end
  local events = {}
  for _, name in ipairs(k.on) do
    if SENT[name] then events[#events + 1] = ("%q"):format(name) end
  end
  local skeleton = SKELETON:format(kind, kind, k.every, table.concat(events, ", "), FIELDS[kind])
  if context.json then return print_data(context, "new", {kind = kind, source = skeleton}) end
  context.write_out(skeleton)
  return 0
end

local function shipped(context)
  local names = source.shipped()
  if context.json then return print_data(context, "shipped", {names = names}) end
  for _, name in ipairs(names) do context:print(name) end
  return 0
end

local function show(context, o)
  local found, err = source.find(o.what)
  if not found then return nil, err end
  if context.json then return print_data(context, "show", {path = found.path, sha = found.sha, source = found.text}) end
  context.write_out(found.text)
  return 0
end

-- Without plans: they are by id, which JSON cannot key. The figures of a canary's groups are by name.
local function presentable(report)
  local out = {}
  for k, v in pairs(report) do
    if type(v) ~= "table" or k == "groups" then out[k] = v end
  end
  local d = report.first_difference
  if type(d) == "table" then out.first_difference_tick = d.tick end
  return out
end

local function replay(context, o)
  if not o.journal then return nil, errors.new("T0103", {message = "--journal is missing: a file of a run's directory",
    help = "tide policy replay --journal .tide/runs/ID/policies-JOB.journal"}) end
  local report, err = require("tide.policy").replay(o.journal, {policy = o.what})
  if not report then return nil, err end
  local shown = presentable(report)
  shown.torn = report.torn or nil
  print_data(context, "replay", shown)
  return report.identical == false and 1 or 0
end

-- Journals of a run that the directory keeps.
local function journals_of(context)
  local o <const> = context.options
  if o.journal and o.run then return nil, errors.new("T0107", "--run and --journal exclude each other") end
  if o.journal then return {o.journal} end
  local run, err = require("tide.run.history").find(o.run or "last")
  if not run then return nil, err end
  local list = {}
  for _, name in ipairs(context.core.file_list(run.directory) or {}) do
    if name:find "^policies%-[%w_.-]+%.journal$" then list[#list + 1] = run.directory .. "/" .. name end
  end
  if #list == 0 then
    return nil, errors.new("T0303", {message = ("run %s has no policies and no journal"):format(run.id),
      help = "tide runs list"})
  end
  table.sort(list)
  return list
end

local TIMELINE <const> = {
  {key = "at", format = "duration"}, {key = "seat"}, {key = "policy"}, {key = "what"},
  {key = "saw", title = "observed"}, {key = "wanted", title = "proposed"}, {key = "got", title = "applied"},
  {key = "why", title = "reason"},
}

-- Of each decision: what it observed, proposed and applied, and the reason; titles are those of the columns.
local LINES <const> = {{"saw", "observed"}, {"wanted", "proposed"}, {"why", "reason"}, {"would", "other"}}

local function print_decision(context, row)
  context:print(("%10s  %s  %s%s: %s"):format(units.format_duration(row.at), text.clean(row.seat),
    text.clean(row.policy), row.canary and " (canary)" or "", row.what == "decision" and row.got or row.what))
  for _, line in ipairs(LINES) do
    local field <const> = line[1]
    if row[field] and (row.what == "decision" or field == "why") then
      context:print(("%12s%-8s %s"):format("", line[2], text.clean(row[field])))
    end
  end
end

local function timeline(context, o)
  local paths, err = journals_of(context)
  if not paths then return nil, err end
  local rows = {}
  for _, path in ipairs(paths) do
    local more, problem, torn = require("tide.policy.timeline").read(path, {policy = o.what, scope = o.scope,
      whole = context.json, last = o.last})
    if not more then return nil, problem end
    if torn then context:say(("%s is cut off; the records before that are shown"):format(text.clean(path))) end
    table.move(more, 1, #more, #rows + 1, rows)
  end
  if not context.json and not context.plain then
    for _, row in ipairs(rows) do print_decision(context, row) end
    return 0
  end
  local columns = table.move(TIMELINE, 1, #TIMELINE, 1, {})
  if o.what then columns[#columns + 1] = {key = "would", title = "would propose"} end
  return listing.print(context, rows, columns)
end

local function check(context, ref)
  local found, err = source.find(ref)
  if not found then return nil, err end
  local loaded
  loaded, err = source.load(found, {timed = true})
  if not loaded then return nil, err end
  local usage, p = loaded.sandbox:usage(), loaded.policy
  loaded.sandbox:close()
  local needs = p.needs
  if not context.json then needs = #needs > 0 and table.concat(needs, ", ") or "nothing" end
  return print_data(context, "check", {kind = p.kind, name = p.name, version = p.version, ok = true,
    load_s = usage.seconds, memory_bytes = usage.memory_bytes, needs = needs})
end

---- verbs on a run ------------------------------------------------------------------------------------------------

-- Arguments of a remote verb from the words of the command.
local function remote_words(o)
  local words = {scope = o.scope, force = o.force, latest = o.latest, for_ = o["for"]}
  for _, word in ipairs(o.set or {}) do
    local name <const>, value <const> = word:match "^([%w_]+)=(.+)$"
    if not name then
      return nil, errors.new("T0104", {message = ("--set %s: give NAME=VALUE"):format(text.clean(word))})
    end
    words.params = words.params or {}
    words.params[name] = value == "true" or (value ~= "false" and (tonumber(value) or value))
  end
  if o.canary then
    local by, value = o.canary:match "^(%l+)=(.+)$"
    words.canary = {[by or o.canary] = by == "fraction" and tonumber(value) or value or true}
  end
  if o.guard then words.guard = {metric = o.guard, drop = o.drop, rise = o.rise, within = o.within or 60} end
  return words
end

-- In the client's actor.
local function ask_at(request, kind)
  local address, err = remote.find(request.job, kind)
  if not address then return nil, err end
  local policies = remote.new(address)
  local o <const> = request.words
  local verb, ref = request.verb, request.ref
  if verb == "check" or verb == "swap" or verb == "shadow" then
    local found = {text = request.text, path = request.path, params = o.params}
    if verb == "check" then return policies.check(found) end
    return policies[verb](found, o)
  end
  if verb == "list" then return policies.list() end
  if verb == "why" then return policies.why(ref or "") end
  return policies[verb](ref, o)
end

-- What both the cluster's seat and those of its run say.
local function ask_both(request)
  local out <const>, problem = ask_at(request, "scheduling")
  local of_run <const>, why <const> = ask_at(request)
  if not of_run and not (out and out[1]) then return nil, why or problem end
  local list = out and table.move(out, 1, #out, 1, {}) or {}
  return table.move(of_run or {}, 1, #(of_run or {}), #list + 1, list)
end

local function ask(request)
  local verb <const> = request.verb
  if (verb == "list" or verb == "why") and not request.job then return ask_both(request) end
  local kind = request.ref
  if request.text then
    kind = remote.kind_of {text = request.text, path = request.path}
  end
  return ask_at(request, kind)
end

local function live(context, o)
  local verb <const>, ref <const> = o.verb, o.what
  local words <const>, mistake = remote_words(o)
  if not words then return nil, mistake end
  local request = {verb = verb, ref = ref, job = o.job, words = words}
  if verb == "check" or verb == "swap" or verb == "shadow" then
    local found, err = source.find(ref)
    if not found then return nil, err end
    request.text, request.path = found.text, found.path
  end
  return cluster_view.attached(context, function(client)
    local bytes, err = client.run("tide.command.policy.ask", request)
    if not bytes then return nil, err end
    local answer = context.core.plain_decode(bytes)
    if verb == "check" or verb == "report" then answer = presentable(answer) end
    if verb == "why" and #answer == 0 then
      return nil, errors.new("T0401", {message = ref and ("no plan with a reason has changed `%s`"):format(
        text.clean(ref)) or "no plan has given a reason yet", help = "tide policy why"})
    end
    print_data(context, verb, answer)
    return answer.ok == false and 1 or 0
  end)
end

local POLICY <const> = {name = "what", label = "POLICY", doc = "a policy: a shipped name or a path"}
local KIND <const> = {name = "what", label = "KIND", doc = "a kind of policies"}
local function any(label, doc) return {name = "what", label = label, optional = true, doc = doc} end

return {
  name = "policy",
  brief = "list, check, swap and replay policies",
  summary = "Works with policies: files (new, shipped, show, check), the seats of an active run (list, swap, "
    .. "shadow, report, rollback, history, why), and the journal of one (replay, timeline).",
  examples = {
    {"tide policy new batching > mine.lua", "a skeleton with comments"},
    {"tide policy swap scheduling/goodput --set p=-2", "a scheduling policy of the cluster, with a parameter"},
    {"tide policy check mine.lua", "does it load and keep the contract?"},
    {"tide policy swap mine.lua --guard examples_per_s --drop 0.1", "into the active run, with a guard"},
    {"tide policy swap mine.lua --canary nodes=n1 --guard compute_s --rise 0.1", "first where it does little harm"},
    {"tide policy replay --journal .tide/runs/ID/policies-mf.journal", "decides everything again"},
    {"tide policy timeline --run last", "each decision: observed, proposed, applied, reason"},
    {"tide policy timeline mine.lua --run last", "and what mine.lua would have proposed"},
  },
  verbs = {
    {name = "new", doc = "a skeleton with comments", arguments = {KIND}, run = new},
    {name = "shipped", doc = "the policies that ship with Tide", run = shipped},
    {name = "show", doc = "the source of a policy", arguments = {POLICY}, run = show},
    {name = "check", doc = "loads a policy and checks the contract", arguments = {POLICY}, run = function(context, o)
      if o.live then return live(context, o) end
      return check(context, o.what)
    end},
    {name = "replay", doc = "repeats the decisions of a journal", run = replay,
     arguments = {any("POLICY", "another one to decide with")}},
    {name = "timeline", doc = "each decision: observed, proposed, applied, reason", schema = "tide.decision/1",
     arguments = {any("POLICY", "what would it have proposed?")}, run = timeline},
    {name = "list", doc = "the seats of an active run",
     arguments = {any("KIND", "of these policies alone")}, run = live},
    {name = "swap", doc = "puts a policy into its seat", arguments = {POLICY}, run = live},
    {name = "shadow", doc = "runs it beside the live policy, without effect", arguments = {POLICY}, run = live},
    {name = "report", doc = "results of a shadow, a canary or a guard", arguments = {KIND}, run = live},
    {name = "rollback", doc = "returns to the previous policy", arguments = {KIND}, run = live},
    {name = "history", doc = "former policies of a seat", arguments = {KIND}, run = live},
    {name = "why", doc = "reasons of the last plans",
     arguments = {any("THING", "what is to be explained")}, run = live},
  },
  schema = "tide.policy/1",
  options = {
    arguments.shared.cluster,
    {name = "job", type = "string", value = "NAME", doc = "the run's job, if the driver runs several"},
    {name = "scope", type = "string", value = "NAME", doc = "the seat's job or table, if there are several"},
    {name = "set", type = "string", value = "NAME=X", repeated = true, of = "swap, shadow",
     doc = "a parameter of the policy"},
    {name = "live", of = "check", doc = "check on the recorded views of the active run"},
    {name = "force", of = "swap", doc = "also a policy that was rolled back"},
    {name = "latest", of = "rollback", doc = "with the state exported last instead of the one at the swap"},
    {name = "for", of = "shadow", type = "duration", doc = "how long it runs (default 10m)"},
    {name = "canary", of = "swap", type = "string", value = "PART",
     doc = "in a part first: nodes=n1,n2, workers=1,2, tables=w, jobs=mf or fraction=0.2; requires a guard"},
    {name = "guard", of = "swap", type = "string", value = "METRIC", doc = "metric that triggers a rollback"},
    {name = "drop", of = "swap", type = "number", value = "SHARE", doc = "it may drop by this share of what it was"},
    {name = "rise", of = "swap", type = "number", value = "SHARE", doc = "it may rise by this share of what it was"},
    {name = "within", of = "swap", type = "duration", doc = "the guard's window (default 60s)"},
    {name = "journal", of = "replay, timeline", type = "string", value = "FILE", doc = "of the run"},
    {name = "run", type = "string", value = "RUN", of = "timeline",
     doc = "a run that the directory keeps (default last)"},
    {name = "last", type = "integer", min = 1, value = "N", of = "timeline", doc = "the newest N of each journal"},
  },
  ask = function(request)
    local answer, err = ask(request)
    if answer == nil then return nil, err end
    return (require("tide.core").plain_encode(answer))
  end,
}
