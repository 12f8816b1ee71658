-- What may be asked of a cluster's actors, and by whom: one row a request. What is not listed is denied to everybody
-- but the cluster's own nodes, and an actor that serves a request without a row does not start. What fields a request
-- has is in shapes.lua; a malformed one is refused here, whoever sends it.
--
-- The right of a sender comes with its message (`message.right`): "read", "operate" or "admin" of a client, by its keys
-- or as it asked for on its own machine; "node" of everything that runs on the cluster's nodes.
local core = require "tide.core"
local errors = require "tide.errors"
local shapes = require "tide.cluster.shapes"

local verbs = {}

local RANK <const> = {read = 1, operate = 2, admin = 3, node = 4}

-- actor -> request -> least right
---@type table<string, table<string, "read"|"operate"|"admin"|"node">>
verbs.needs = {
  agent = {
    -- looks
    status = "read", served = "read", hottest = "read", staleness = "read", waits = "read", events = "read",
    log = "read", jobs = "read", metrics = "read", ["trace.read"] = "read", ["run.memory"] = "read", stack = "read",
    -- a session has a role of its own, at most its opener's right; to end another's takes admin
    ["console.open"] = "read", ["console.drop"] = "read",
    -- acts on what is there
    ["trace.start"] = "operate", ["trace.stop"] = "operate", move = "operate", checkpoint = "operate",
    consistency = "operate", drain = "operate",
    -- runs code, ends things, writes over rows
    ends = "admin", load = "admin", start = "admin", stop = "admin", end_worker = "admin",
    ["member.start"] = "admin", ["member.stop"] = "admin", restore = "admin", quit = "admin",
    ["cpu.share"] = "admin", serve_cost = "admin", event = "admin",
    -- among nodes
    localize = "node", vacated = "node",
  },
  control = {quit = "admin", status = "read", metrics = "read", events = "read", log = "read"},
  -- a run's controller; its policies are asked by requests of their own, below
  run = {metrics = "read", log = "read"},
  runs = {
    list = "read", get = "read", held = "read", situation = "read",
    -- verbs on a run: pause, resume, set, workers, stop, cancel
    verb = "operate", ["table.set"] = "operate",
    ["table.drop"] = "admin", -- rows that may be all that is left of a run
    -- of the scheduling seat: `policy` looks at the verb's own row below
    policy = "read", schedule = "admin",
    -- of hosts, which run a script's code on the nodes
    open = "admin", grant = "admin", ["slots.more"] = "admin", ["slots.less"] = "admin", tell = "admin",
    close = "admin", tables = "admin",
  },
  policies = {
    list = "read", report = "read", history = "read", why = "read", metric = "read",
    views = "operate", shadow = "operate", swap = "operate", set = "operate", rollback = "operate",
    journal = "operate",
  },
}

---@param held string of who asks
---@param needed string
---@return boolean
function verbs.at_least(held, needed) return (RANK[held] or 0) >= RANK[needed] end

---May who has this right ask for it?
---@param actor "agent"|"control"|"run"|"runs"|"policies"
---@param request any its name, a foreign value
---@param right string of the message
---@return true|nil, table? err
function verbs.allows(actor, request, right)
  local needed <const> = type(request) == "string" and verbs.needs[actor][request] or "node"
  if verbs.at_least(right, needed) then return true end
  if right == "read" or needed == "node" then
    return nil, errors.new("T0801", ("this takes more than the right `%s`"):format(tostring(right)))
  end
  return nil, errors.new("T0801", {message = ("%s takes the right `%s`, and this is `%s`"):format(request, needed,
    tostring(right)), help = "ask for keys of that role: tide keys issue --role " .. needed})
end

-- What a request is about, for people who read the audit log.
local function subject_of(request)
  local about <const> = request.table or request.policy or request.node or request.session or request.id or request.run
    or request.dir or request.n
  return (type(about) == "string" or type(about) == "number") and tostring(about) or nil
end

-- The text of a request: what was typed, or a script, or all of it.
local function text_of(request)
  if type(request.text) == "string" then return request.text end
  if type(request.script) == "table" and type(request.script.text) == "string" then return request.script.text end
  local ok <const>, text = pcall(core.json_encode, request)
  return ok and text or nil
end

---Notes in the audit log what somebody who is no node asked for.
---@param verb string "agent.move"
---@param request table
---@param message table it came by
---@param result string "allowed", or why not
---@param durable? boolean on the disk before it is done
---@return true|nil, table? err then it must not be done
function verbs.note(verb, request, message, result, durable)
  local ok, err = core.audit {verb = verb, right = message.right, subject = subject_of(request), result = result,
    text = text_of(request), peer = math.tointeger(tonumber(message.from:match "^%d+")), durable = durable}
  if ok then return true end
  return nil, errors.new("T0803", {message = ("%s is refused: the audit log cannot be written: %s"):format(verb,
    err.message)})
end

---May the sender of a message have this request, and is it well-formed? What takes more than `read`, and what is
---refused, is noted in the audit log first.
---@param actor "agent"|"control"|"runs"|"policies"
---@param name any of the request, a foreign value
---@param request table
---@param message table
---@return true|nil, table? err
function verbs.admit(actor, name, request, message)
  local allowed, refusal = verbs.allows(actor, name, message.right)
  if allowed then allowed, refusal = shapes.check(actor, name, request) end
  local needed <const> = verbs.needs[actor][name]
  if message.right == "node" or allowed and needed == "read" and name ~= "console.open" then return allowed, refusal end
  local noted <const>, err = verbs.note(("%s.%s"):format(actor, tostring(name)), request, message,
    allowed and "allowed" or refusal.message, needed == "admin")
  if allowed and not noted then return nil, err end
  return allowed, refusal
end

---Every request that an actor serves has a row, or it does not start.
---@param actor string
---@param served table<string, any>
function verbs.check(actor, served)
  for name in pairs(served) do
    if not verbs.needs[actor][name] or not shapes[actor][name] then
      error(("lua/tide/cluster/verbs.lua or shapes.lua has no row for %s %s"):format(actor, name), 2)
    end
  end
end

return verbs
