-- What a request to an actor of the cluster looks like: one row a request, its fields with their types. An actor checks
-- the row before it serves the request, because every message comes from another process. What does not fit is answered
-- with T0113, which names request and field. Fields that have no row are ignored: a newer peer may send more.
--
-- A type is a word of CHECKS, with `?` where the field may be missing; or a row of its own, with `optional = true`.
local errors = require "tide.errors"
local text = require "tide.text"

local shapes = {}

local function is_list_of(value, fits)
  if type(value) ~= "table" then return false end
  local count = 0
  for _, v in next, value do
    count = count + 1
    if not fits(v) then return false end
  end
  return count == #value
end

local function is_map_of(value, fits)
  if type(value) ~= "table" then return false end
  for k, v in next, value do
    if type(k) ~= "string" or not fits(v) then return false end
  end
  return true
end

local function is_string(v) return type(v) == "string" end
local function is_integer(v) return type(v) == "number" and math.tointeger(v) ~= nil end
local function is_count(v) return is_integer(v) and v >= 0 end
local function is_number(v) return type(v) == "number" and v == v end
local function is_table(v) return type(v) == "table" end

local CHECKS <const> = {
  string = {is_string, "a string"},
  integer = {is_integer, "a whole number"},
  count = {is_count, "a whole number from 0 on"},
  number = {is_number, "a number"},
  seconds = {function(v) return is_number(v) and v >= 0 and v < math.huge end, "a number of seconds from 0 on"},
  boolean = {function(v) return type(v) == "boolean" end, "true or false"},
  table = {is_table, "a table"},
  any = {function() return true end, "a value"},
  id = {function(v) return is_string(v) or is_integer(v) end, "a name or a number"},
  text = {function(v) return is_string(v) or is_list_of(v, is_string) end, "a text"},
  keys = {function(v) return type(v) == "userdata" or is_list_of(v, is_integer) end, "a list of keys"},
  strings = {function(v) return is_list_of(v, is_string) end, "a list of strings"},
  integers = {function(v) return is_list_of(v, is_integer) end, "a list of whole numbers"},
  tables = {function(v) return is_list_of(v, is_table) end, "a list of tables"},
  names = {function(v) return is_map_of(v, is_string) end, "a table of strings by name"},
  counts = {function(v) return is_map_of(v, is_count) end, "a table of whole numbers by name"},
  sums = {function(v) return type(v) == "number" or is_map_of(v, function(n) return type(n) == "number" end) end,
    "a number, or a table of numbers by name"},
}

local ERROR <const> = {code = "string?", name = "string?", message = "string?", where = "string?", node = "string?",
                       help = "string?", trace = "string?"}
local SCRIPT <const> = {text = "string", sha = "string", path = "string", args = "strings", args_sha = "string",
                        modules = "table?"}

---@param shape table
---@return table the same row of a field that may be missing
local function optional(shape)
  local row = {optional = true}
  for k, v in pairs(shape) do row[k] = v end
  return row
end

local NODE <const> = {name = "string", id = "integer", agent = "string", workers = "count", store = "boolean?"}
local LEASE <const> = {optional = true, index = "integer", lease = "integer"}

local STATUS <const> = {status = {}, metrics = {}, events = {after = "integer?"}, log = {}}

---actor -> request -> its fields
---@type table<string, table<string, table>>
local ROWS <const> = {
  agent = {
    served = {tables = "strings", slots = "boolean?", homes = "integers?"},
    hottest = {tables = "strings", count = "count?"}, staleness = {tables = "strings"}, waits = {table = "string"},
    jobs = {}, ["run.memory"] = {n = "integer"},
    stack = {address = "string?", run = "string?"},
    ["trace.read"] = {cursor = "any", origin = "integer?"}, ["trace.start"] = {events = "count?"},
    ["trace.stop"] = {},
    ["console.open"] = {session = "string", role = "string"}, ["console.drop"] = {session = "string"},
    move = {table = "string", slots = "integers", node = "integer"},
    checkpoint = {dir = "string", keep = "count?"}, restore = {dir = "string", generation = "count?"},
    consistency = {table = "string", value = "string"}, drain = {grace_s = "seconds?"},
    ends = {ids = "integers"}, load = {run = "string", script = SCRIPT},
    start = {run = "string", job = "string", ranks = "integers", lives = "integers", streams = "integers",
             workers = "count", crowded = "boolean?", seed = "integer?", params = "table?", tables = "names?",
             domain = "integer?", resume = "tables?", keeps = "boolean?"},
    stop = {run = "string"}, end_worker = {run = "string", address = "string"},
    ["member.start"] = {argument = "table", threads = "boolean?"}, ["member.stop"] = {address = "string"},
    quit = {leave = "boolean?", grace_s = "seconds?"},
    ["cpu.share"] = {share = "number"}, serve_cost = {seconds = "seconds"},
    event = {kind = "string", text = "string"},
    localize = {table = "string", keys = "keys"}, vacated = {run = "string"},
  },
  control = {quit = {leave = "boolean?"}},
  -- a run's controller: what its driver, the agents of its nodes, the keeper of runs and clients ask
  run = {
    metrics = {}, next = {hold = "boolean?", continue = "boolean?"}, continue = {hold = "boolean?"},
    joined = {node = NODE}, not_joined = {count = "count"}, workers = {count = "count"},
    slow = {rank = "integer", factor = "number"}, leaving = {node = "integer"}, drop = {ranks = "integers"},
    stop = {reason = "string?", within_s = "seconds?"}, late = {}, counters = {},
    policy = {verb = "string", arguments = "string"}, state = {},
    log = {after = "count?"}, order = {}, close = {}, checkpoint = {dir = "string?", cut = "string?"},
    evaluate = {name = "string"}, disowned = {},
    ["verb.pause"] = {release = "boolean?"}, ["verb.resume"] = {}, ["verb.set"] = {params = "any", new = "boolean?"},
    ["verb.workers"] = {count = "integer"}, ["verb.stop"] = {within_s = "seconds?", reason = "string?"},
    ["verb.cancel"] = {why = "string?"},
    ["verb.grant"] = {order = "integer", nodes = "counts", force = "boolean?", why = "string?"},
  },
  -- what the workers of a run send to its controller
  worker = {
    ready = {}, exchanged = {fields = "table"}, log = {text = "string"}, done = {record = "table?"},
    report = {id = "integer", fields = "table", alike = "table?", record = "table?", elapsed_s = "number?",
              wait_s = "number?", peers = {optional = true, bytes = "number", wait_s = "number"}},
    progress = {fields = "table"}, failed = {error = ERROR},
    barrier = {id = "integer", name = "string", value = "any", encoded = "boolean?", async = "boolean?"},
    chunk = {id = "integer?", pass = "integer", back = LEASE,
             done = {optional = true, index = "integer", lease = "integer", count = "integer?", fields = "table"}},
    evaluated = {id = "integer", sum = "sums?", count = "number?", error = optional(ERROR)},
    cut = {record = {clock = "integer"}},
  },
  runs = {
    list = {all = "boolean?", job = "string?", state = "string?"}, get = {name = "id", memory = "boolean?"},
    held = {}, situation = {},
    verb = {name = "id", verb = "string", arguments = "table?", timeout_s = "seconds?"},
    ["table.drop"] = {name = "string", force = "boolean?"},
    ["table.set"] = {name = "string", rate = "number?", consistency = "string?"},
    policy = {verb = "string", arguments = "string"},
    schedule = {policy = "any", params = "table?", guard = "table?", nodes = "table?", force = "boolean?"},
    open = {job = "string", uid = "string", user = "string?", node = "string?", pid = "integer?", machine = "string?",
            params = "table?", directory = "string?", private = "boolean?", limits = "table?", bound = "string?",
            slots = "any", memory = "count?", checkpoint = "string?", keep = "boolean?", keeps = "strings?",
            script = "boolean?"},
    grant = {n = "id", no_wait = "boolean?"}, ["slots.more"] = {n = "id", slots = "integer"},
    ["slots.less"] = {n = "id", grant = "counts?"},
    tell = {n = "integer", uid = "string", state = "string", why = "string?", workers = "count?", params = "table?",
            progress = {optional = true, report = "count?", loss = "any", examples = "any", rate = "any",
                        total = "number?"},
            held = "counts?", order = "integer?", cost = "number?", parked = "boolean?", fixed = "string?",
            model = "table?"},
    close = {n = "id", uid = "string", state = "string?", why = "string?", exit = "integer?", tables = "boolean?"},
    tables = {n = "id", keeps = "strings", named = "strings"},
  },
  policies = {
    list = {}, report = {kind = "string?", scope = "string?"}, history = {kind = "string?", scope = "string?"},
    why = {what = "string?"}, metric = {name = "string", last = "seconds?"},
    views = {kind = "string", scope = "string?"}, shadow = {policy = "table"},
    swap = {policy = "table"}, set = {kind = "string?", params = "table?"},
    rollback = {kind = "string?"}, journal = {},
  },
  -- the keeper of a group of actors (tide.run.actors)
  group = {
    started = {rank = "integer", life = "integer"},
    call = {method = "string", arguments = "any", count = "count?", ranks = "integers?", timeout_s = "seconds?",
            stream = "boolean?"},
    cast = {method = "string", arguments = "any", count = "count?", ranks = "integers?"},
    next = {stream = "integer"}, drop = {stream = "integer"}, changes = {after = "count?"}, members = {},
  },
}

for _, actor in ipairs {"agent", "control"} do
  for request, row in pairs(STATUS) do ROWS[actor][request] = row end
end

-- Rows as lists of fields, in the order in which faults are found.
local function compiled(row)
  local fields = {}
  for i, name in ipairs(text.sorted_keys(row)) do
    local kind <const> = row[name]
    if name == "optional" then goto next end
    if type(kind) == "table" then
      fields[#fields + 1] = {name = name, optional = kind.optional, row = compiled(kind)}
    else
      local check <const> = CHECKS[kind:match "^%a+"] or error(("no type `%s` (%d)"):format(kind, i))
      fields[#fields + 1] = {name = name, optional = kind:sub(-1) == "?" or kind == "any", fits = check[1],
                             what = check[2]}
    end
    ::next::
  end
  return fields
end

for actor, requests in pairs(ROWS) do
  shapes[actor] = {}
  for name, row in pairs(requests) do shapes[actor][name] = compiled(row) end
end

local function fault_of(fields, value, path)
  if type(value) ~= "table" then return ("`%s` is a %s, not a table"):format(path, type(value)) end
  for _, field in ipairs(fields) do
    local v <const> = value[field.name]
    local name <const> = path == "" and field.name or path .. "." .. field.name
    if v == nil then
      if not field.optional then return ("`%s` is missing"):format(name) end
    elseif field.row then
      local fault <const> = fault_of(field.row, v, name)
      if fault then return fault end
    elseif not field.fits(v) then
      return ("`%s` is %s, not %s"):format(name, type(v) == "table" and "another table"
        or (type(v) == "number" or type(v) == "boolean") and tostring(v) or "a " .. type(v), field.what)
    end
  end
  return nil
end

---Whether a request is one that the actor can serve.
---@param actor "agent"|"control"|"run"|"worker"|"runs"|"policies"|"group"
---@param name string of the request
---@param request any
---@return true|nil, tide.error? err
function shapes.check(actor, name, request)
  local row <const> = shapes[actor][name]
  if not row then return nil, errors.new("T0113", ("the request `%s` is not known"):format(text.clean(name))) end
  local fault <const> = fault_of(row, request, "")
  if not fault then return true end
  return nil, errors.new("T0113", {message = ("the request `%s` is malformed: %s"):format(name, fault),
    state = "nothing was done"})
end

return shapes
