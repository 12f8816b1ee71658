-- The audit log of requests: what clients ask of a cluster's actors is noted before it is done, unless it only looks.
local core = require "tide.core"
local errors = require "tide.errors"

local verbs = {}

---@param message table a request
---@return string " by alice", or nothing if no person is known behind the sender
function verbs.by(message)
  local person <const> = core.person(message.from)
  return person and " by " .. person or ""
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

---Notes in the audit log what a client asked for.
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

---How a service notes what it is asked for: what takes more than `read`, and what is refused.
---@param actor string
---@return fun(name: string, request: table, message: table, row: tide.request, refusal?: table): true?, table?
function verbs.audit(actor)
  return function(name, request, message, row, refusal)
    if message.right == "node" or not refusal and row.right == "read" and name ~= "console.open" then return true end
    return verbs.note(("%s.%s"):format(actor, name), request, message, refusal and refusal.message or "allowed",
      row.right == "admin")
  end
end

return verbs
