-- The functions at the prompt. Their annotations are the prompt's help and completion.
local ask_all = require "tide.ask_all"
local cluster_view = require "tide.cluster.view"
local core = require "tide.core"
local curve = require "tide.console.curve"
local errors = require "tide.errors"
local events = require "tide.cluster.events"
local histogram = require "tide.console.histogram"
local node_status = require "tide.cluster.node_status"
local names = require "tide.console.names"
local options = require "tide.console.options"
local remote = require "tide.policy.remote"
local remote_run = require "tide.run.remote"
local render = require "tide.console.render"
local save = require "tide.console.save"
local share = require "tide.cluster.cpu_share"
local stacks = require "tide.cluster.stacks"
local taps = require "tide.console.taps"
local targets = require "tide.console.targets"
local text = require "tide.text"
local units = require "tide.units"
local why = require "tide.show.why"

local calls = {}

local ASK_S <const> = 5
local WATCH_MIN_S <const> = 0.2
local WHY_S <const> = 2 -- between the two looks
local SPARK_MAX <const> = 30
local BENCH_ROUNDS <const> = 5
local EVENTS_SHOWN <const>, LOG_SHOWN <const> = 40, 40
local PAGE_BYTES <const> = 64 << 10
local LEVELS <const> = {debug = 1, info = 2, warn = 3, error = 4}
local HIST_COUNT <const>, HIST_MAX <const>, HIST_EVERY_S <const> = 100, 100000, 0.01

local session ---@type table of tide.console.session

---@param own table the session these calls belong to
function calls._use(own) session = own end

---- what there is -------------------------------------------------------------------------------------------------

local function ask(member)
  local address, answer, err = (node_status.address(member, "status"))
  if not address and targets.serves(member) then address, err = core.whereis(member.name .. "/agent") end
  if address then answer, err = core.call(address, {op = "status"}, ASK_S) end
  return {name = member.name, id = member.id, state = member.state, answer = answer,
          error = err and errors.to_data(errors.from(err))}
end

-- Collects the answers of all agents, requested concurrently.
local function view()
  local rows <const> = ask_all(require("tide.cluster.members").listed(), function(member)
    return member.state == "up" and ask(member) or {name = member.name, id = member.id, state = member.state}
  end)
  local collected, err = cluster_view.collect({core = core}, {gather = function() return rows end})
  if not collected then error(err, 3) end
  return collected
end

local function picked(rows, fields)
  local out = {}
  for i, row in ipairs(rows) do
    local record = {}
    for _, field in ipairs(fields) do
      local value <const> = row[field]
      record[field] = math.type(value) == "float" and tonumber(("%.4g"):format(value)) or value
    end
    out[i] = record
  end
  return out
end

-- Numbers first, in falling order; records without the field are last.
local function sorted(rows, field)
  local RANK <const> = {number = 1, ["nil"] = 3}
  table.sort(rows, function(a, b)
    local x, y = a[field], b[field]
    local of_x, of_y = RANK[type(x)] or 2, RANK[type(y)] or 2
    if of_x ~= of_y then return of_x < of_y end
    if of_x == 1 then return x > y end
    return tostring(x) < tostring(y)
  end)
  return rows
end

---The nodes of the cluster and their load.
---@return table[] rows
function calls.nodes()
  return picked(view().nodes, {"name", "state", "workers", "store", "actors", "tables", "mailbox_messages",
                               "rss_bytes"})
end

---Actors of all nodes, those that worked most first.
---@param o? {sort?: string, node?: string, limit?: integer} sort: a field of the rows
---@return table[] rows
function calls.top(o)
  o = options.checked(o, {"sort", "node", "limit"}, "top")
  local rows = picked(view().actors, {"node", "address", "type", "name", "waits_for", "waits_s", "mailbox_messages",
                                      "messages_handled", "handling_s"})
  if o.node then
    local own = {}
    for _, row in ipairs(rows) do
      if row.node == o.node then own[#own + 1] = row end
    end
    rows = own
  end
  local field = o.sort == "mailbox" and "mailbox_messages" or o.sort or "handling_s"
  sorted(rows, field)
  local limit <const> = o.limit or 20
  for i = #rows, limit + 1, -1 do rows[i] = nil end
  return rows
end

---The connections between nodes.
---@param o? {sort?: string}
---@return table[] rows
function calls.links(o)
  o = options.checked(o, {"sort"}, "links")
  local rows = picked(view().links, {"node", "peer_name", "up", "bytes_out", "bytes_in", "frames_out", "queue_bytes",
                                     "round_trip_s"})
  return o.sort and sorted(rows, o.sort) or rows
end

---What an actor waits for, since when, and what the actors do that it waits for.
---@param actor? string "n1/agent", an address "2:17", or a name on this node; without one: the bottleneck of each run
---@return table[] rows from the actor to the last one known; of runs one each
function calls.why(actor)
  if actor == nil then
    local collect <const> = require "tide.cluster.collect"
    local before <const> = collect.here()
    core.sleep(WHY_S)
    local rows <const> = require("tide.show.slowest").of(before, collect.here {hot = true})
    stacks.add_lines(rows, stacks.gather {})
    for i, f in ipairs(rows) do
      rows[i] = {run = f.run, cause = f.cause, share = f.share, sentence = f.sentence,
                 evidence = table.concat(f.evidence, "; "), try = f.remedy or "-"}
    end
    return rows
  end
  local rows, err = why.chain(view().actors, actor, (core.node() or {}).name)
  if not rows then error(err, 2) end
  return rows
end

---What an actor, or each worker of a run, does at this moment: the stacks of its fibers, innermost first.
---@param name string a run "mf-1", one of its workers "mf-1/2", "n1/agent", an address "2:17", or a name on this node
---@return table[] rows
function calls.stack(name)
  local list <const>, err = stacks.of(view().actors, name, (core.node() or {}).name)
  if not list then error(err, 2) end
  for _, each in ipairs(list) do session.print(table.concat(stacks.lines(each), "\n") .. "\n") end
end

---The runs of this cluster; `@job:NAME` is the nodes of a job.
---@param o? {all?: boolean, job?: string, state?: string} all: those that have ended too
---@return table[] rows name, state, slots, nodes, progress
function calls.runs(o)
  local rows = {}
  for i, r in ipairs(remote_run.list(options.checked(o, {"all", "job", "state"}, "runs"))) do
    rows[i] = {name = r.name, state = r.state, slots = r.slots, nodes = table.concat(r.nodes, " "),
               progress = remote_run.progress(r)}
  end
  return rows
end

---One run of this cluster: its fields, and `:pause() :resume() :set{eps = 0.05} :set_workers(4) :stop() :cancel()
---:wait() :log() :refresh()`. docs/guides/runs.md has them.
---@param name string|integer "mf-1", 1, or the job if one run of it is active
---@return table run
function calls.run(name)
  local found, err = remote_run.find(name)
  if not found then error(err, 2) end
  return found
end

---What happened: nodes, controllers, slots that moved, runs, policies, checkpoints; oldest first.
---@param o? {last?: string|number, kind?: string, limit?: integer} last: at most so long ago; kind: "node", "policy"
---@return table[] rows at, kind, node (its first observer), text
function calls.events(o)
  o = options.checked(o, {"last", "kind", "limit"}, "events")
  local since <const> = o.last and core.wall() - options.seconds(o.last, "events") or 0
  local answers = {}
  for node, answer in pairs(targets.ask_all {op = "events"}) do
    answers[#answers + 1] = {node = node, events = answer.events}
  end
  local rows = {}
  for _, e in ipairs(events.merge(answers)) do
    if e.time >= since and (not o.kind or e.kind == o.kind) then
      rows[#rows + 1] = {at = os.date("%F %T", e.time // 1 | 0), kind = e.kind, node = e.node, text = e.text}
    end
  end
  return table.move(rows, math.max(1, #rows - (o.limit or EVENTS_SHOWN) + 1), #rows, 1, {})
end

---Lines of the nodes' logs, oldest first. Each node keeps its newest 256.
---@param o? {level?: string, node?: string, last?: string|number, limit?: integer} level: the least ("debug", "info",
---  "warn", "error"; default info); node: of one; last: at most so long ago; limit: default 40
---@return table[] rows at, node, level, text
function calls.log(o)
  o = options.checked(o, {"level", "node", "last", "limit"}, "log")
  local least <const> = LEVELS[o.level or "info"]
  if not least then
    error(errors.new("T0105", {message = ("log: there is no level `%s`"):format(text.clean(tostring(o.level))),
      help = "debug, info, warn or error"}), 2)
  end
  local since <const> = o.last and core.wall() - options.seconds(o.last, "log") or 0
  local lines = {}
  for node, answer in pairs(targets.ask_all {op = "log"}) do
    for _, line in ipairs((not o.node or o.node == node) and answer.lines or {}) do
      if line.time >= since and LEVELS[line.level] >= least then
        lines[#lines + 1] = {node = node, line = line}
      end
    end
  end
  table.sort(lines, function(a, b)
    if a.line.time ~= b.line.time then return a.line.time < b.line.time end
    if a.node ~= b.node then return a.node < b.node end
    return a.line.number < b.line.number
  end)
  local rows = {}
  for i = math.max(1, #lines - (o.limit or LOG_SHOWN) + 1), #lines do
    local line <const> = lines[i].line
    rows[#rows + 1] = {at = os.date("%F %T", line.time // 1 | 0), node = lines[i].node, level = line.level,
                       text = line.text}
  end
  return rows
end

---A metric of the active run, drawn over time: its newest, least and greatest value, and a curve.
---@param name string "examples_per_s", "step_s", "loss"
---@param o? {last?: string|number, job?: string, rows?: integer} last: at most so long ago (10 min); rows: of the curve
---@return table metric name, at (seconds before now), value
function calls.metric(name, o)
  o = options.checked(o, {"last", "job", "rows"}, "metric")
  local address, err = remote.find(o.job)
  local found
  if address then
    found, err = remote.new(address).metric(name, {last = options.seconds(o.last or "10m", "metric")})
  end
  if not found then error(errors.from(err), 2) end
  return curve.of(name, found.at, found.value, o.rows)
end

---- other nodes and evaluations ---------------------------------------------------------------------------------------

---Evaluates code on nodes.
---@param where string "@all", "@role:worker", "@n1,@n2"
---@param code string
---@return table values node -> value
function calls.on(where, code)
  if type(where) ~= "string" or type(code) ~= "string" then
    error(errors.new("T0113", {message = "on requires targets and code, both strings",
      help = [[on("@all", "#core.actors()")]]}), 2)
  end
  return session.on(where, code)
end

---The evaluations of this session that run or ran last.
---@return table[] rows id, state, seconds, text
function calls.jobs() return session.jobs() end

---Ends an evaluation of this session.
---@param id integer of jobs()
---@return boolean whether it ran
function calls.kill(id) return session.kill(id) end

---Prints what the last evaluation wrote beyond the 64 KiB that it may.
function calls.more()
  local chunk, left, lost = session.more()
  if not chunk then
    session.print "nothing is left"
    return
  end
  session.print(chunk)
  if left > 0 then
    session.print(("... %s more: more()"):format(units.format_size(left)))
  elseif lost > 0 then
    session.print(("... %s more were not kept: save() writes files"):format(units.format_size(lost)))
  end
end

-- The address of an actor, by its name or type on a node.
local function address_of(actor)
  local found, err = why.find(view().actors, actor, (core.node() or {}).name)
  if not found then error(err, 3) end
  return found.address
end

---- live views -------------------------------------------------------------------------------------------------------

local function compiled(what, call)
  if type(what) == "function" then return {what}, {"value"} end
  if type(what) ~= "string" then error(errors.new("T0113", call .. " requires an expression or a function"), 3) end
  local whole = session.load("return " .. what, "=" .. call)
  if not whole then error(errors.new("T0201", ("%s: `%s` is no expression"):format(call, text.clean(what))), 3) end
  return {whole}, {what}
end

local function number_text(value)
  if type(value) ~= "number" then return text.clean(tostring(value)) end
  return math.type(value) == "integer" and tostring(value) or ("%.6g"):format(value)
end

---Evaluates an expression again and again and draws its numbers as a line, until Ctrl-C.
---@param what string|function
---@param o? {every?: string|number, count?: integer} every: at least 0.2 s, default 1 s; count: how often
function calls.watch(what, o)
  o = options.checked(o, {"every", "count"}, "watch")
  local every <const> = math.max(WATCH_MIN_S, options.seconds(o.every or 1, "watch"))
  local functions, titles = compiled(what, "watch")
  local series, last = {}, nil
  for _ = 1, o.count or math.maxinteger do
    local values = table.pack(functions[1]())
    local parts = {}
    for i = 1, values.n do
      series[i] = series[i] or {}
      local own <const> = series[i]
      if type(values[i]) == "number" then
        own[#own + 1] = values[i]
        if #own > SPARK_MAX then table.remove(own, 1) end
      end
      parts[#parts + 1] = number_text(values[i]) .. (#own > 1 and " " .. render.spark(own, session.utf8()) or "")
    end
    last = text.clean(titles[1]) .. "  " .. table.concat(parts, "   ")
    session.live(last)
    core.sleep(every)
  end
  session.print(last)
end

---A histogram, drawn as bars. Of a table: how long workers waited for pulls or pushes of other nodes, or how stale
---what they read was; of an actor, with of = "queue": how long messages wait for it; of a list: its numbers; of an
---expression or a function: what it gives, again and again.
---@param what table|number[]|string|function a table's handle, numbers, or what gives a number; an actor ("n1/store")
---@param o? {of?: string, bins?: integer, count?: integer, every?: string|number} of: "pull" (default), "push",
---  "staleness", "queue"; bins: default 12; count: how often (100), every: in what time (10 ms); both together: how
---  long an actor is looked at
---@return table histogram title, unit, count, buckets
function calls.hist(what, o)
  o = options.checked(o, {"of", "bins", "count", "every"}, "hist")
  local bins <const> = math.max(1, math.min(math.tointeger(o.bins or 12) or 12, 100))
  if o.of == "queue" then
    local seconds <const> = (o.count or HIST_COUNT) * options.seconds(o.every or HIST_EVERY_S, "hist")
    return histogram.of_counts(what, "queue", "messages", taps.queued(session, address_of(what), seconds))
  end
  if type(what) == "string" or type(what) == "function" then
    local f <const>, numbers = compiled(what, "hist")[1], {}
    for i = 1, math.min(o.count or HIST_COUNT, HIST_MAX) do
      numbers[i] = f()
      core.sleep(options.seconds(o.every or HIST_EVERY_S, "hist"))
    end
    return histogram.of_numbers(numbers, bins)
  end
  local ok, name = pcall(function() return what.pull and what.name end)
  if ok and type(name) == "string" then return histogram.of_table(name, o.of or "pull") end
  if type(what) ~= "table" then
    error(errors.new("T0113", ("hist requires a table, numbers or what gives them, not a %s"):format(type(what))), 2)
  end
  return histogram.of_numbers(what, bins)
end

---Shows messages that come to an actor, a few of them a second, until Ctrl-C. Each line: when, from whom, kind, lane,
---size, and the message. Answers to the actor's own calls are not shown. A tap delays no component.
---@param actor string "n1/agent", "n1/store", an address "2:17"
---@param o? {rate?: integer, match?: string, count?: integer} rate: lines a second, at most 100, default 10; match: an
---  expression over from, kind, lane, bytes, text: "bytes > 1000"; count: end after so many lines
function calls.tap(actor, o)
  o = options.checked(o, {"rate", "match", "count"}, "tap")
  taps.watch({beside = session.beside, print = session.print, live = session.live, sum = session.print,
    allow = session.allow, load = session.load}, actor, address_of(actor), o)
end

---Evaluates a function and measures its time.
---@param f function
---@return any ... what the function gives
function calls.time(f)
  local began <const> = core.now()
  local values = table.pack(f())
  session.print(("%.6f s"):format(core.now() - began))
  return table.unpack(values, 1, values.n)
end

---Evaluates a function several times.
---@param f function
---@param rounds? integer default 5
---@return table figures median_s, least_s, greatest_s, rounds
function calls.bench(f, rounds)
  local took = {}
  for i = 1, math.max(rounds or BENCH_ROUNDS, 1) do
    local began <const> = core.now()
    f()
    took[i] = core.now() - began
  end
  table.sort(took)
  return {median_s = took[(#took + 1) // 2], least_s = took[1], greatest_s = took[#took], rounds = #took}
end

---- test aids ---------------------------------------------------------------------------------------------------

---Makes a node slow, to see what that does to a run; without options it is as fast as before.
---@param node string its name
---@param o? {cpu?: number|string, serve?: number|string} cpu: the share of one core that its process gets, 0.3 or
---  "30%"; serve: a delay of each key that it serves to other nodes, "100us"
function calls.slow(node, o)
  o = options.checked(o, {"cpu", "serve"}, "slow")
  local member
  for _, m in ipairs(core.members()) do
    if m.name == node and m.state == "up" and targets.serves(m) then member = {name = m.name} end
  end
  if not member then
    error(errors.new("T0105", {message = ("no node `%s` is up"):format(text.clean(tostring(node)))}), 2)
  end
  local serve_s <const> = options.seconds(o.serve or 0, "slow")
  if serve_s < 0 or serve_s > 1 then error(errors.new("T0113", "slow: serve is 0 to 1 s"), 2) end
  local ok, err
  member.agent, err = core.whereis(node .. "/agent")
  if member.agent then ok, err = share.set(member, o.cpu or 1) end
  if ok then ok, err = core.call(member.agent, {op = "serve_cost", seconds = serve_s}, ASK_S) end
  if not ok then error(errors.from(err), 2) end
end

---- values ------------------------------------------------------------------------------------------------------

---Numbers as a line of bars.
---@param values number[]
---@return string
function calls.spark(values) return render.spark(values, session.utf8()) end

---A value with all that is in it, in your pager ($PAGER, else less): 100,000 items a table, 10,000 rows a tensor,
---8 MiB.
---@param value any
function calls.full(value)
  local shown <const> = render.full(value, session.utf8()) .. "\n"
  for at = 1, #shown, PAGE_BYTES do
    local ok, err = session.ask_client {op = "console.page", text = shown:sub(at, at + PAGE_BYTES - 1)}
    if not ok then error(errors.from(err), 2) end
  end
end

---A value as JSON.
---@param value any
---@return string
function calls.json(value)
  local json = render.data(table.pack(value))
  return json and json:match "^{\"value\":(.*)}$" or "null"
end

---Writes a value to a file on your disk, which must not exist: records, rows or a tensor as CSV, anything as JSON.
---@param value any
---@param path string ends in .csv or .json
---@return integer bytes
function calls.save(value, path)
  if type(path) ~= "string" then error(errors.new("T0113", "save requires a value and a file's name"), 2) end
  return save.to_client(session, value, path)
end

---Help on a name or an error's code; without one, the ten things to do first.
---@param what? string
function calls.help(what) session.print(names.help(what or "")) end

return calls
