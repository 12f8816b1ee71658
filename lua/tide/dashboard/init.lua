-- `tide dashboard`: a client of a cluster that serves a page about it to its own user, on loopback.
--
-- Each second it takes a snapshot of the cluster and publishes a sample and a state (state.lua) to the server (the
-- plugin behind core.http_listen), which keeps ten minutes of samples and sends them to readers. Requests that
-- the server does not answer by itself are answered here, between two looks; an actor answers calls (calls.lua). It
-- never has more rights than its user and changes nothing.
local core = require "tide.core"
local calls = require "tide.dashboard.calls"
local client = require "tide.cluster.client"
local decisions = require "tide.dashboard.decisions"
local csv = require "tide.csv"
local errors = require "tide.errors"
local json = require "tide.json"
local history = require "tide.run.history"
local log_lines = require "tide.show.log_lines"
local log_query = require "tide.run.log_query"
local look = require "tide.dashboard.look"
local recording = require "tide.dashboard.recording"
local report_of = require "tide.run.report"
local run_log = require "tide.run.run_log"
local slowest = require "tide.show.slowest"
local state = require "tide.dashboard.state"
local texts = require "tide.text"

local dashboard = {}
dashboard.__index = dashboard

local EVERY_S <const> = 1
local HOT_EVERY <const> = 5 -- looks
local EVENTS_MAX <const> = 200
local WINDOW <const> = 10 -- looks that the slowest thing is judged over

local JSON <const>, TEXT <const> = "application/json", "text/plain; version=0.0.4; charset=utf-8"
local OPENMETRICS <const> = "application/openmetrics-text; version=1.0.0; charset=utf-8"

local PAGES <const> = {
  {"/", "index.html", "text/html; charset=utf-8"}, {"/app.js", "app.js", "text/javascript; charset=utf-8"},
  {"/style.css", "style.css", "text/css; charset=utf-8"}, {"/icon.svg", "icon.svg", "image/svg+xml"},
}

---@param o {port?: integer, every_s?: number, served_as?: {origin: string, path: string}} served_as: where a proxy
---  serves it, the path with a "/" at both ends
---@return table|nil dashboard
---@return tide.error? err
function dashboard.open(o)
  local server, err = core.http_listen {port = o.port or 0, served_as = (o.served_as or {}).origin}
  if not server then return nil, errors.from(err) end
  local self <const> = setmetatable({server = server, served_as = o.served_as, every_s = o.every_s or EVERY_S,
    events = {}, after = {}, snapshots = {}, looks = 0, attachments = client.attachments}, dashboard)
  for _, page in ipairs(PAGES) do
    local ok, problem = server:page(page[1], page[3], core.embedded("dashboard/" .. page[2]))
    if not ok then return nil, errors.from(problem) end
  end
  calls.ensure(server)
  return self
end

---@return string url with the token, which a browser keeps to itself
function dashboard:url()
  local at <const> = self.served_as and self.served_as.origin .. self.served_as.path
    or ("http://127.0.0.1:%d/"):format(self.server:port())
  return ("%s#token=%s"):format(at, self.server:token())
end

---- looking ----------------------------------------------------------------------------------------------------------

local function add_events(self, answers)
  local events <const> = require "tide.cluster.events"
  local told = {}
  for _, answer in ipairs(answers) do
    local numbers = {}
    for _, e in ipairs(answer.events) do
      if e.number > (self.after[answer.node] or 0) then numbers[#numbers + 1] = e end
    end
    for _, e in ipairs(numbers) do self.after[answer.node] = math.max(self.after[answer.node] or 0, e.number) end
    if #numbers > 0 then told[#told + 1] = {node = answer.node, events = numbers} end
  end
  -- Reports of two nodes in different seconds are the same event.
  self.raw = self.raw or {}
  for _, answer in ipairs(told) do
    local kept = self.raw[answer.node] or {node = answer.node, events = {}}
    self.raw[answer.node] = kept
    table.move(answer.events, 1, #answer.events, #kept.events + 1, kept.events)
    while #kept.events > EVENTS_MAX do table.remove(kept.events, 1) end
  end
  if #told == 0 then return end
  local all = {}
  for _, kept in pairs(self.raw) do all[#all + 1] = kept end
  local rows <const> = events.merge(all)
  self.events = {}
  for i = math.max(1, #rows - EVENTS_MAX + 1), #rows do
    local e <const> = rows[i]
    self.events[#self.events + 1] = {time = e.time, kind = state.text(e.kind), node = state.text(e.node),
                                     text = state.text(e.text)}
  end
end

local function anybody_up(snapshot)
  for _, node in ipairs(snapshot.nodes) do
    if node.up then return true end
  end
  return false
end

-- What was collected is of another cluster.
local function begin_anew(self)
  self.attachments = client.attachments
  self.after, self.raw, self.snapshots = {}, {}, {}
end

local function nothing(self, problem)
  local last <const> = self.last_state or {nodes = {}, runs = {}, tables = {}, cluster = "?"}
  return {schema = "tide.snapshot/1", time = core.wall(), now = core.now(), cluster = last.cluster, view = last.view,
          nodes = {}, runs = {}}, problem
end

---One look at the cluster, published.
function dashboard:look()
  self.looks = self.looks + 1
  local answer, err = look.ask {after = self.after, hot = self.looks % HOT_EVERY == 1}
  if client.attachments ~= self.attachments then begin_anew(self) end
  local snapshot, problem
  if answer then
    calls.ensure(self.server)
    snapshot = answer.snapshot
    add_events(self, answer.events)
    self.hot = snapshot.hot or self.hot
    if not anybody_up(snapshot) then problem = "no node of the cluster answers" end
  else
    snapshot, problem = nothing(self, state.text(errors.from(err).message))
  end
  local before <const> = self.snapshots[#self.snapshots]
  local findings
  if before and #snapshot.runs > 0 then findings = state.clean(slowest.of(self.snapshots[1], snapshot)) end
  local sample, now <const> = state.of(snapshot, before, {window = self.snapshots[1], hot = self.hot,
    events = self.events, problem = problem, slowest = findings})
  self.snapshots[#self.snapshots + 1] = snapshot
  if #self.snapshots > WINDOW then table.remove(self.snapshots, 1) end
  self.last_state, self.snapshot = now, snapshot
  local ok, refused = self.server:publish(core.json_encode(sample), core.json_encode(now))
  if not ok then core.log("warn", "the state could not be published: " .. tostring(refused.message)) end
end

---- answering --------------------------------------------------------------------------------------------------------

local function run_of(self, name)
  for _, run in ipairs(self.last_state and self.last_state.runs or {}) do
    if run.name == name then return run end
  end
  return nil, errors.new("T0401", {message = ("no active run `%s`"):format(state.text(name))})
end

local function failed(err)
  local status <const> = err.code == "T0401" and 404 or err.code == "T0303" and 404 or 400
  return status, JSON, core.json_encode {error = state.text(err.message), help = err.help and state.text(err.help)}
end

local routes = {}

routes["GET /metrics"] = function(self, query)
  if not self.snapshot then return 503, JSON, '{"error":"nothing was collected yet"}' end
  local open <const> = query == "format=openmetrics"
  return 200, open and OPENMETRICS or TEXT, state.metrics(self.snapshot, open and "openmetrics" or "prometheus")
end

routes["GET /api/schema"] = function()
  return 200, JSON, core.json_encode {schemas = {
    ["tide.state/1"] = "GET /api/state and `event: state`: everything now; rates are per second since the look before",
    ["tide.sample/1"] = "`event: sample` of GET /api/stream?after=N: t, up, nodes, rate, pulls, pushes, near, wire, "
      .. "rss, memory, p99, cpu = [[node, share]], runs = [[name, loss, examples/s, reports]]",
    ["tide.log/1"] = "GET /api/log: the newest lines of the nodes' logs",
    ["tide.runs/1"] = "GET /api/runs: the newest runs in .tide/runs of the directory that the dashboard runs in, "
      .. "?filter=WORDS: those that have each word in name, state, person, tags, params, note, script or reason",
    ["tide.run/1"] = "GET /api/run/ID: one of them, with its error, curves, events and the newest lines of its log",
    ["text"] = "GET /api/run/ID/log?rank=N&search=TEXT&stderr=1: its log, or lines of it, as text",
    ["tide.curve/1"] = "GET /api/curve?runs=ID,ID&field=NAME&x=n|elapsed_s|examples[&format=csv]: a field of runs",
    ["tide.decisions/1"] = "GET /api/policy/RUN: decisions of the run's policies from its journal",
    ["tide.policy/1"] = "POST /api/replay {run, policy | text}: what another policy would have decided, and where",
    ["value"] = "POST /api/call/NAME {method, arguments, timeout_s}: the answer of a published actor, or `error`",
    ["traceEvents"] = "POST /api/trace {seconds}: what threads ran and fibers waited for, in the Chrome trace format",
  }}
end

routes["POST /api/replay"] = function(self, _, body)
  local o <const> = core.json_decode(body)
  if type(o) ~= "table" or type(o.run) ~= "string" or (o.policy and type(o.policy) ~= "string")
    or (o.text and type(o.text) ~= "string") then
    return 400, JSON, '{"error":"a replay requires {run, policy or text}"}'
  end
  local run, err = run_of(self, o.run)
  if not run then return failed(err) end
  local answer, problem = decisions.replay(run, o)
  if not answer then return failed(problem) end
  return 200, JSON, answer
end

-- Answered by `run` when it is over: meanwhile others are served.
routes["POST /api/trace"] = function(self, _, body, id)
  if self.recording then return 409, JSON, '{"error":"a trace is being recorded"}' end
  local o <const> = core.json_decode(body)
  local begun, err = recording.begin(type(o) == "table" and o.seconds, self.snapshot and #self.snapshot.nodes or 1)
  if not begun then return failed(err) end
  begun.request = id
  self.recording = begun
  return nil
end

local function end_recording(self)
  local done <const> = self.recording
  self.recording = nil
  local text, err = done:finish()
  if text then return self.server:answer(done.request, 200, JSON, text) end
  return self.server:answer(done.request, failed(err))
end

local LOG_MAX <const> = 300 -- the newest lines of all nodes

routes["GET /api/log"] = function()
  local rows, err = client.gather "log"
  if not rows then return failed(errors.from(err)) end
  local lists = {}
  for i, row in ipairs(rows) do
    lists[i] = {}
    for k, line in ipairs(row.answer and row.answer.lines or {}) do
      lists[i][k] = {time = line.time, level = line.level, node = row.name, text = line.text}
    end
  end
  local all <const> = log_lines.merge(lists)
  return 200, JSON, json.object({schema = "tide.log/1"}, {lines = state.clean(table.move(all,
    math.max(1, #all - LOG_MAX + 1), #all, 1, {}))})
end

routes["GET /api/policies"] = function()
  return 200, JSON, json.object({schema = "tide.policies/1"}, {shipped = require("tide.policy.source").shipped()})
end

local RUNS_MAX <const> = 200 -- saved ones, the newest that fit
local CURVES_MAX <const>, POINTS_MAX <const> = 16, 600
local COMPARED_MAX <const> = 32 -- runs of a curve
local LOG_BYTES <const> = 4 << 20 -- of a log that is downloaded, the newest

-- The fields of a query: "search=a%20b&rank=2".
local function fields_of(query)
  local fields = {}
  for name, value in query:gmatch "([%w_]+)=([^&]*)" do
    fields[name] = value:gsub("+", " "):gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end)
  end
  return fields
end

-- "eps=0.1 rank=64"
local function params_of(run)
  local parts = {}
  for _, key in ipairs(texts.sorted_keys(type(run.params) == "table" and run.params or {})) do
    if type(run.params[key]) ~= "table" then parts[#parts + 1] = ("%s=%s"):format(key, tostring(run.params[key])) end
  end
  return table.concat(parts, " ")
end

-- Whether each word of a filter is in one of a run's texts.
local function fits(run, params, words)
  local found <const> = table.concat({run.id, run.name or "", run.job or "", run.state or "", run.user or "",
    table.concat(run.tags or {}, " "), params, run.note or "", run.script or "", run.why or ""}, "\0"):lower()
  for _, word in ipairs(words) do
    if not found:find(word, 1, true) then return false end
  end
  return true
end

local known <const> = {} -- runs that are over

routes["GET /api/runs"] = function(_, query)
  local all <const>, rows, words, fit = history.list(nil, known), {}, {}, 0
  for word in (fields_of(query).filter or ""):lower():gmatch "%S+" do words[#words + 1] = word end
  for i = #all, 1, -1 do
    local run <const> = all[i]
    local params <const> = params_of(run)
    if fits(run, params, words) then
      fit = fit + 1
      if #rows < RUNS_MAX then
        rows[#rows + 1] = state.clean {id = run.id, name = run.name, job = run.job, state = run.state, why = run.why,
          started_at = run.started_at, took_s = run.took_s, reports = run.reports, loss = run.loss, user = run.user,
          tags = run.tags and table.concat(run.tags, " "), note = run.note, params = params ~= "" and params or nil,
          rate = run.examples_per_s, args = run.args and table.concat(run.args, " ") or nil, script = run.script}
      end
    end
  end
  for i = 1, #rows // 2 do rows[i], rows[#rows + 1 - i] = rows[#rows + 1 - i], rows[i] end -- oldest first
  return 200, JSON, json.object({schema = "tide.runs/1", directory = history.ROOT, all = #all, fit = fit},
    {runs = rows})
end

local AXES <const> = {n = true, elapsed_s = true, examples = true}
local MARKS_MAX <const> = 100 -- of a run

-- Changes of the active run: swaps of policies, params, workers that joined or left. Its place on the axis is
-- that of the newest report before it.
local function marks_of(run, reports, x)
  local marks, at, examples = {}, 1, 0
  for _, event in ipairs(history.events(run)) do
    local said <const> = type(event.text) == "string" and event.text or ""
    if event.kind == "policy" or said:find " set$" or said:find "workers" and not said:find " started: " then
      while reports[at] and (reports[at].time or 0) <= (event.time or 0) do
        examples, at = examples + (tonumber(reports[at].examples) or 0), at + 1
      end
      local last <const> = reports[at - 1]
      local place <const> = x == "examples" and examples or last and last[x] or 0
      if #marks < MARKS_MAX then marks[#marks + 1] = {x = place, text = state.text(said)} end
    end
  end
  return marks
end

-- The runs that a query names, in order.
local function runs_of(fields)
  local list = {}
  for id in (fields.runs or ""):gmatch "[^,]+" do
    local run <const>, err = history.find(id)
    if not run or run.id ~= id then
      return nil, err or errors.new("T0401", {message = ("there is no run `%s`"):format(state.text(id))})
    end
    list[#list + 1] = run
  end
  if #list >= 1 and #list <= COMPARED_MAX then return list end
  return nil, errors.new("T0105", {message = ("a curve is of 1 to %d runs: runs=ID,ID"):format(COMPARED_MAX)})
end

-- One field of several runs, thinned here: as JSON, or all points as CSV.
routes["GET /api/curve"] = function(_, query)
  local fields <const> = fields_of(query)
  local x <const>, field <const> = fields.x or "n", fields.field or "loss"
  local list <const>, err = runs_of(fields)
  if not list then return failed(err) end
  if not AXES[x] then return failed(errors.new("T0105", {message = "x is n, elapsed_s or examples"})) end
  local curves, names, mean = {}, {}, nil
  local lines = {"run,name," .. x .. "," .. csv.cell(field)}
  for i, run in ipairs(list) do
    local reports <const> = history.reports(run)
    for _, name in ipairs(history.names(reports)) do names[name] = true end
    local newest <const> = reports[#reports]
    mean = mean or newest and newest[field] and report_of.count_of(newest, field) and true
    local all <const> = fields.format == "csv"
    local points <const> = history.curve(reports, field, x, all and math.huge or POINTS_MAX)
    curves[i] = {id = run.id, name = state.text(run.name or run.job or ""), params = state.text(params_of(run)),
      points = points, marks = marks_of(run, reports, x)}
    for _, p in ipairs(all and points or {}) do
      lines[#lines + 1] = table.concat({run.id, csv.cell(run.name), csv.cell(p[1]), csv.cell(p[2])}, ",")
    end
  end
  if fields.format == "csv" then return 200, "text/csv; charset=utf-8", table.concat(lines, "\r\n") .. "\r\n" end
  return 200, JSON, json.object({schema = "tide.curve/1", field = state.text(field), x = x,
    mean = mean}, {curves = curves,
    fields = state.clean(texts.sorted_keys(names))})
end

-- The log of a saved run as text: what a query of lines keeps of its newest bytes.
local function of_past_log(id, query)
  local run <const>, err = history.find(id)
  if not run or run.id ~= id then
    return failed(err or errors.new("T0401", {message = ("there is no run `%s`"):format(state.text(id))}))
  end
  local fields <const> = fields_of(query)
  local keep <const> = log_query.filter {rank = math.tointeger(tonumber(fields.rank or "")),
    search = fields.search ~= "" and fields.search or nil, err = fields.stderr == "1" or nil}
  local _, size <const> = run_log.read(run.directory)
  local after, parts = math.max((size or 0) - LOG_BYTES, 0), {}
  while size and after < size do
    local some <const>, _, next_at <const> = run_log.read(run.directory, after)
    if not some or next_at == after then break end
    parts[#parts + 1], after = some, next_at
  end
  local log = table.concat(parts)
  if log ~= "" and log:sub(-1) ~= "\n" then log = log .. "\n" end
  return 200, "text/plain; charset=utf-8", state.text(texts.harmless(keep(log):gsub("\27%[[%d;]*m", "")))
end

-- A saved run with its curves. The id is one of those in the directory, or there is none.
local function of_past_run(id)
  local run, err = history.find(id)
  if not run or run.id ~= id then
    return failed(err or errors.new("T0401", {message = ("there is no run `%s`"):format(state.text(id))}))
  end
  local reports <const>, curves = history.reports(run), {}
  for i, name in ipairs(history.names(reports)) do
    if i > CURVES_MAX then break end
    curves[i] = {name = state.text(name), points = history.curve(reports, name, "n", POINTS_MAX),
                 over_time = history.curve(reports, name, "elapsed_s", POINTS_MAX)}
  end
  local events <const>, log <const> = state.clean(history.events(run)), {}
  for line in (run_log.read(run.directory) or ""):gsub("\27%[[%d;]*m", ""):gmatch "[^\n]+" do
    log[#log + 1] = require("tide.text").clean_lines(line)
  end
  run.directory = nil
  return 200, JSON, json.object({schema = "tide.run/1", run = state.clean(run)}, {curves = curves,
    events = events, log = log})
end

local function of_policy(self, name)
  local run, err = run_of(self, name)
  if not run then return failed(err) end
  local answer, problem = decisions.of(run)
  if not answer then return failed(problem) end
  return 200, JSON, answer
end

---What a request is answered: also of HEAD, which the server cuts.
---@param request {id: any, method: string, target: string, body: string}
---@return integer|nil status nil: it is answered later
---@return string|nil type
---@return string|nil text
function dashboard:respond(request)
  local method <const> = request.method == "HEAD" and "GET" or request.method
  local path <const>, query <const> = request.target:match "^([^?]*)%??(.*)$"
  local f <const> = routes[method .. " " .. path]
  if f then return f(self, query, request.body, request.id) end
  local name <const> = method == "GET" and path:match "^/api/policy/([%w_.-]+)$"
  if name then return of_policy(self, name) end
  local logged <const> = method == "GET" and path:match "^/api/run/(%w[%w_.-]*)/log$"
  if logged then return of_past_log(logged, query) end
  local id <const> = method == "GET" and path:match "^/api/run/(%w[%w_.-]*)$"
  if id then return of_past_run(id) end
  for key in pairs(routes) do
    if key:match " (.*)$" == path then return 405, JSON, '{"error":"another method"}' end
  end
  return 404, JSON, '{"error":"there is no such page"}'
end

local function serve(self, request)
  local ok, status, kind, text = xpcall(self.respond, debug.traceback, self, request)
  if not ok then
    core.log("error", "a request failed: " .. tostring(status))
    status, kind, text = 500, JSON, '{"error":"the dashboard failed; its log says why"}'
  end
  if status then self.server:answer(request.id, status, kind, text) end -- the requester may be gone
end

---- until it ends ----------------------------------------------------------------------------------------------------

local WAIT_S <const> = 0.1 -- how late an interrupt is seen

---Looks and serves until a signal or the deadline.
---@param deadline? number
---@return integer exit code
function dashboard:run(deadline)
  local next_look = core.now()
  while true do
    if core.interrupted() > 0 then return 0 end -- Ctrl-C is how one leaves it
    local now <const> = core.now()
    if deadline and now >= deadline then return 124 end
    if now >= next_look then
      self:look()
      next_look = math.max(next_look + self.every_s, core.now())
    end
    if self.recording and self.recording:due() then end_recording(self) end
    local request <const> = self.server:next(math.max(0, math.min(WAIT_S, next_look - core.now())))
    if request then serve(self, request) end
  end
end

function dashboard:close() self.server:close() end

return dashboard
