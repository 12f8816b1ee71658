-- The functions at the prompt; their rows are in tide.console.rows, which check arguments and options first.
local ask_all = require "tide.ask_all"
local cluster_view = require "tide.cluster.view"
local core = require "tide.core"
local collect = require "tide.cluster.collect"
local console_rows = require "tide.console.rows"
local curve = require "tide.console.curve"
local errors = require "tide.errors"
local events = require "tide.cluster.events"
local histogram = require "tide.console.histogram"
local node_status = require "tide.cluster.node_status"
local members = require "tide.cluster.members"
local names = require "tide.console.names"
local remote = require "tide.policy.remote"
local remote_run = require "tide.run.remote"
local render = require "tide.console.render"
local save = require "tide.console.save"
local share = require "tide.cluster.cpu_share"
local slowest = require "tide.show.slowest"
local stacks = require "tide.cluster.stacks"
local taps = require "tide.console.taps"
local targets = require "tide.console.targets"
local text = require "tide.text"
local units = require "tide.units"
local why = require "tide.show.why"

local calls = {}

local ASK_S <const> = 5
local WHY_S <const> = 2 -- between the two looks
local SPARK_MAX <const> = 30
local BENCH_ROUNDS <const> = 5
local PAGE_BYTES <const> = 64 << 10
local LEVELS <const> = {debug = 1, info = 2, warn = 3, error = 4}

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
  local rows <const> = ask_all(members.listed(), function(member)
    return member.state == "up" and ask(member) or {name = member.name, id = member.id, state = member.state}
  end)
  local collected, err = cluster_view.collect({core = core}, {gather = function() return rows end})
  if not collected then error(err, 3) end
  return collected
end

-- Records with the columns of the row of a call.
local function picked(name, rows)
  local out, fields = {}, nil
  for _, row in ipairs(console_rows.list) do fields = row.name == name and row.columns or fields end
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

function calls.nodes() return picked("nodes", view().nodes) end

function calls.top(o)
  local rows = {}
  for _, row in ipairs(picked("top", view().actors)) do
    if not o.node or row.node == o.node then rows[#rows + 1] = row end
  end
  sorted(rows, o.sort == "mailbox" and "mailbox_messages" or o.sort)
  return table.move(rows, 1, o.limit, 1, {})
end

function calls.links(o)
  local rows = picked("links", view().links)
  return o.sort and sorted(rows, o.sort) or rows
end

function calls.why(actor)
  if actor == nil then
    local before <const> = collect.here()
    core.sleep(WHY_S)
    local rows <const> = slowest.of(before, collect.here {hot = true})
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

function calls.stack(name)
  local list <const>, err = stacks.of(view().actors, name, (core.node() or {}).name)
  if not list then error(err, 2) end
  for _, each in ipairs(list) do session.print(table.concat(stacks.lines(each), "\n") .. "\n") end
end

function calls.runs(o)
  local rows = {}
  for i, r in ipairs(remote_run.list(o)) do
    rows[i] = {name = r.name, state = r.state, slots = r.slots, nodes = table.concat(r.nodes, " "),
               progress = remote_run.progress(r)}
  end
  return rows
end

function calls.run(name)
  local found, err = remote_run.find(name)
  if not found then error(err, 2) end
  return found
end

function calls.events(o)
  local since <const> = o.last and core.wall() - o.last or 0
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
  return table.move(rows, math.max(1, #rows - o.limit + 1), #rows, 1, {})
end

function calls.log(o)
  local least <const> = LEVELS[o.level]
  local since <const> = o.last and core.wall() - o.last or 0
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
  for i = math.max(1, #lines - o.limit + 1), #lines do
    local line <const> = lines[i].line
    rows[#rows + 1] = {at = os.date("%F %T", line.time // 1 | 0), node = lines[i].node, level = line.level,
                       text = line.text}
  end
  return rows
end

function calls.metric(name, o)
  local address, err = remote.find(o.job)
  local found
  if address then found, err = remote.new(address).metric(name, {last = o.last}) end
  if not found then error(errors.from(err), 2) end
  return curve.of(name, found.at, found.value, o.rows)
end

---- other nodes and evaluations ---------------------------------------------------------------------------------------

function calls.on(where, code) return session.on(where, code) end

function calls.jobs() return session.jobs() end

function calls.kill(id) return session.kill(id) end

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
  local whole = session.load("return " .. what, "=" .. call)
  if not whole then error(errors.new("T0201", ("%s: `%s` is no expression"):format(call, text.clean(what))), 3) end
  return {whole}, {what}
end

local function number_text(value)
  if type(value) ~= "number" then return text.clean(tostring(value)) end
  return math.type(value) == "integer" and tostring(value) or ("%.6g"):format(value)
end

function calls.watch(what, o)
  local functions, titles = compiled(what, "watch")
  local series, last = {}, nil
  for _ = 1, o.count do
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
    core.sleep(o.every)
  end
  session.print(last)
end

function calls.hist(what, o)
  if o.of == "queue" then
    return histogram.of_counts(what, "queue", "messages", taps.queued(session, address_of(what), o.count * o.every))
  end
  if type(what) == "string" or type(what) == "function" then
    local f <const>, numbers = compiled(what, "hist")[1], {}
    for i = 1, o.count do
      numbers[i] = f()
      core.sleep(o.every)
    end
    return histogram.of_numbers(numbers, o.bins)
  end
  local ok, name = pcall(function() return what.pull and what.name end)
  if ok and type(name) == "string" then return histogram.of_table(name, o.of or "pull") end
  if type(what) ~= "table" then
    error(errors.new("T0113", ("hist requires a table, numbers or what gives them, not a %s"):format(type(what))), 2)
  end
  return histogram.of_numbers(what, o.bins)
end

function calls.tap(actor, o)
  taps.watch({beside = session.beside, print = session.print, live = session.live, sum = session.print,
    allow = session.allow, load = session.load}, actor, address_of(actor), o)
end

function calls.time(f)
  local began <const> = core.now()
  local values = table.pack(f())
  session.print(("%.6f s"):format(core.now() - began))
  return table.unpack(values, 1, values.n)
end

function calls.bench(f, rounds)
  local took = {}
  for i = 1, rounds or BENCH_ROUNDS do
    local began <const> = core.now()
    f()
    took[i] = core.now() - began
  end
  table.sort(took)
  return {median_s = took[(#took + 1) // 2], least_s = took[1], greatest_s = took[#took], rounds = #took}
end

---- test aids ---------------------------------------------------------------------------------------------------

function calls.slow(node, o)
  local member
  for _, m in ipairs(core.members()) do
    if m.name == node and m.state == "up" and targets.serves(m) then member = {name = m.name} end
  end
  if not member then
    error(errors.new("T0105", {message = ("no node `%s` is up"):format(text.clean(tostring(node)))}), 2)
  end
  local ok, err
  member.agent, err = core.whereis(node .. "/agent")
  if member.agent then ok, err = share.set(member, o.cpu) end
  if ok then ok, err = core.call(member.agent, {op = "serve_cost", seconds = o.serve}, ASK_S) end
  if not ok then error(errors.from(err), 2) end
end

---- values ------------------------------------------------------------------------------------------------------

function calls.spark(values) return render.spark(values, session.utf8()) end

function calls.full(value)
  local shown <const> = render.full(value, session.utf8()) .. "\n"
  for at = 1, #shown, PAGE_BYTES do
    local ok, err = session.ask_client {op = "console.page", text = shown:sub(at, at + PAGE_BYTES - 1)}
    if not ok then error(errors.from(err), 2) end
  end
end

function calls.json(value)
  local json = render.data(table.pack(value))
  return json and json:match "^{\"value\":(.*)}$" or "null"
end

function calls.save(value, path) return save.to_client(session, value, path) end

function calls.help(what) session.print(names.help(what or "")) end

return calls
