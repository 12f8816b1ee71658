-- `tide dashboard`: a client of a cluster that serves a page about it to its own user, on loopback, or over TLS to
-- those who have a token or a certificate.
--
-- Each second it takes a snapshot of the cluster and publishes a sample and a state (state.lua) to the server (the
-- plugin behind core.http_listen), which keeps ten minutes of samples and sends them to readers. Requests that
-- the server does not answer by itself are answered here, between two looks; an actor answers calls (calls.lua). It
-- never has more rights than its user and changes nothing; a person at the page has the right of the token besides.
local core = require "tide.core"
local calls = require "tide.dashboard.calls"
local client = require "tide.cluster.client"
local decisions = require "tide.dashboard.decisions"
local errors = require "tide.errors"
local keys = require "tide.cluster.keys"
local json = require "tide.json"
local log_lines = require "tide.show.log_lines"
local inside = require "tide.dashboard.inside"
local look = require "tide.dashboard.look"
local recording = require "tide.dashboard.recording"
local saved = require "tide.dashboard.saved"
local slowest = require "tide.show.slowest"
local state = require "tide.dashboard.state"

local dashboard = {}
dashboard.__index = dashboard

local EVERY_S <const> = 1
local HOT_EVERY <const>, PEOPLE_EVERY <const> = 5, 3 -- looks
local EVENTS_MAX <const> = 200
local WINDOW <const> = 10 -- looks that the slowest thing is judged over

local JSON <const>, TEXT <const> = "application/json", "text/plain; version=0.0.4; charset=utf-8"
local OPENMETRICS <const> = "application/openmetrics-text; version=1.0.0; charset=utf-8"

local PAGES <const> = {
  {"/", "index.html", "text/html; charset=utf-8"}, {"/app.js", "app.js", "text/javascript; charset=utf-8"},
  {"/style.css", "style.css", "text/css; charset=utf-8"}, {"/icon.svg", "icon.svg", "image/svg+xml"},
}

local RIGHTS <const> = {none = 0, read = 1, operate = 2, admin = 3}

-- Tokens that were added and revoked meanwhile count from now on.
local function let_people_in(self)
  if not self.tls then return true end
  local tokens <const>, revoked = keys.tokens(self.tls)
  if not tokens then return nil, revoked end
  return self.server:people(tokens, revoked)
end

---@param o {port?: integer, every_s?: number, served_as?: {origin: string, path: string}, address?: string,
---  tls?: string} served_as: where a proxy serves it, the path with a "/" at both ends; tls: directory of the page's
---  keys, with which it is served at `address`
---@return table|nil dashboard
---@return tide.error? err
function dashboard.open(o)
  local server, err = core.http_listen {port = o.port or 0, served_as = (o.served_as or {}).origin, keys = o.tls,
    address = o.address, cluster = (core.node() or {}).cluster}
  if not server then return nil, errors.from(err) end
  local self <const> = setmetatable({server = server, served_as = o.served_as, tls = o.tls, address = o.address,
    every_s = o.every_s or EVERY_S,
    events = {}, after = {}, snapshots = {}, looks = 0, attachments = client.attachments}, dashboard)
  for _, page in ipairs(PAGES) do
    local ok, problem = server:page(page[1], page[3], core.embedded("dashboard/" .. page[2]))
    if not ok then return nil, errors.from(problem) end
  end
  local known <const>, unread = let_people_in(self)
  if not known then
    server:close()
    return nil, errors.from(unread, "T0802")
  end
  calls.ensure(server)
  return self
end

---@return string url with the token, which a browser keeps to itself
function dashboard:url()
  local at <const> = self.served_as and self.served_as.origin .. self.served_as.path
    or ("%s://%s:%d/"):format(self.tls and "https" or "http", (self.address or "127.0.0.1"):gsub("^.*:.*$", "[%0]"),
      self.server:port())
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
  if self.looks % PEOPLE_EVERY == 0 then
    local ok <const>, problem = let_people_in(self)
    if not ok then core.log("warn", "tokens of the page stay as they were: " .. tostring(problem.message)) end
  end
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

local failed <const> = saved.failed

local routes = {}
local requires <const> = { -- the right of a request; any other one requires `read`
  ["POST /api/replay"] = "operate", ["POST /api/trace"] = "operate",
}

-- What the session and the token allow together.
local function right_of(request)
  local own <const>, given <const> = core.right() or "none", request.right or "admin"
  return (RIGHTS[own] or 0) < RIGHTS[given] and own or given
end

routes["GET /api/me"] = function(_, _, _, request)
  return 200, JSON, core.json_encode {schema = "tide.me/1", person = request.person ~= "" and request.person or nil,
    right = right_of(request)}
end

routes["GET /metrics"] = function(self, query)
  if not self.snapshot then return 503, JSON, '{"error":"nothing was collected yet"}' end
  local open <const> = query == "format=openmetrics"
  return 200, open and OPENMETRICS or TEXT, state.metrics(self.snapshot, open and "openmetrics" or "prometheus")
end

routes["GET /api/schema"] = function()
  return 200, JSON, core.json_encode {schemas = {
    ["tide.state/1"] = "GET /api/state and `event: state`: everything now; rates are per second since the look before",
    ["tide.sample/1"] = "`event: sample` of GET /api/stream?after=N: t, up, nodes, rate, pulls, pushes, near, wire, "
      .. "rss, memory, p99, owners = [[name, bytes]], cpu = [[node, share]], runs = [[name, loss, rate, reports]]",
    ["tide.me/1"] = "GET /api/me: the person of this token or certificate, and the right",
    ["tide.log/1"] = "GET /api/log: the newest lines of the nodes' logs",
    ["tide.runs/1"] = "GET /api/runs: the newest runs in .tide/runs of the directory that the dashboard runs in, "
      .. "?filter=WORDS: those that have each word in a text, and each condition (loss<0.9, tag=best); "
      .. "&sort=FIELD&descending=1",
    ["tide.run/1"] = "GET /api/run/ID: one of them, with its error, curves, events and the newest lines of its log",
    ["text"] = "GET /api/run/ID/log?rank=N&search=TEXT&stderr=1: its log, or lines of it, as text",
    ["tide.curve/1"] = "GET /api/curve?runs=ID,ID&field=NAME&x=n|elapsed_s|examples[&format=csv]: a field of runs",
    ["tide.scatter/1"] = "GET /api/scatter?x=FIELD&y=FIELD&colour=FIELD: a point a run that &filter=WORDS keeps, or a "
      .. "report of &runs=ID,ID: [x, y, colour, run]",
    ["tide.histogram/1"] = "GET /api/histogram?runs=ID&field=NAME: shares of bins over reports: [[n, [share, ..]], ..]",
    ["tide.actors/1"] = "GET /api/actors: all actors, as `tide actors`",
    ["tide.stacks/1"] = "GET /api/stack?of=NAME: stacks of an actor, a run or one of its workers, as `tide stack`",
    ["tide.hottest/1"] = "GET /api/hottest?table=NAME&count=N: the keys that are accessed most, as t:hottest(N)",
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
routes["POST /api/trace"] = function(self, _, body, request)
  if self.recording then return 409, JSON, '{"error":"a trace is being recorded"}' end
  local o <const> = core.json_decode(body)
  local begun, err = recording.begin(type(o) == "table" and o.seconds, self.snapshot and #self.snapshot.nodes or 1)
  if not begun then return failed(err) end
  begun.request = request.id
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

routes["GET /api/runs"] = saved.runs
routes["GET /api/curve"] = saved.curve
routes["GET /api/scatter"] = saved.scatter
routes["GET /api/histogram"] = saved.histogram
routes["GET /api/actors"] = inside.actors
routes["GET /api/stack"] = inside.stack
routes["GET /api/hottest"] = inside.hottest

local function of_policy(self, name)
  local run, err = run_of(self, name)
  if not run then return failed(err) end
  local answer, problem = decisions.of(run)
  if not answer then return failed(problem) end
  return 200, JSON, answer
end

---What a request is answered: also of HEAD, which the server cuts.
---@param request {id: any, method: string, target: string, body: string, person?: string, right?: string}
---@return integer|nil status nil: it is answered later
---@return string|nil type
---@return string|nil text
function dashboard:respond(request)
  local method <const> = request.method == "HEAD" and "GET" or request.method
  local path <const>, query <const> = request.target:match "^([^?]*)%??(.*)$"
  local route <const> = method .. " " .. path
  local f <const>, right <const> = routes[route], right_of(request)
  if RIGHTS[right] < RIGHTS[requires[route] or "read"] then
    return failed(errors.new("T0801", {message = ("%s requires the right `%s`, and %s has `%s`"):format(route,
      requires[route] or "read", request.person ~= "" and request.person or "this session", right),
      help = "the owner of the keys issues it: tide keys token --role operate --name NAME"}))
  end
  if f then return f(self, query, request.body, request) end
  local name <const> = method == "GET" and path:match "^/api/policy/([%w_.-]+)$"
  if name then return of_policy(self, name) end
  local logged <const> = method == "GET" and path:match "^/api/run/(%w[%w_.-]*)/log$"
  if logged then return saved.log(logged, query) end
  local id <const> = method == "GET" and path:match "^/api/run/(%w[%w_.-]*)$"
  if id then return saved.run(id) end
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
