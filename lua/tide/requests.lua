-- Requests to a cluster's actors, with the right they require and their fields: one row a request. A row has the least
-- right of its sender ("node" where none is said), "waits" where its answer takes long, and its fields with their types
-- (tide.fields). A request without a row is refused, and an actor that serves one does not start.
--
-- The right of a sender comes with its message (`message.right`): "read", "operate" or "admin" of a client, by its keys
-- or as it asked for on its own machine; "node" of everything that runs on the cluster's nodes.
local fields = require "tide.fields"
local service = require "tide.service"

local ERROR <const> = {code = "string?", name = "string?", message = "string?", where = "string?", node = "string?",
                       help = "string?", trace = "string?"}
local SCRIPT <const> = {text = "string", sha = "string", path = "string", args = "strings", args_sha = "string",
                        modules = "table?"}

local NODE <const> = {name = "string", id = "integer", agent = "string", workers = "count", store = "boolean?"}
local LEASE <const> = {optional = true, index = "integer", lease = "integer"}

local SEAT <const> = {kind = "string?", scope = "string?", params = "table?", guard = "table?", canary = "table?",
                      force = "boolean?", latest = "boolean?", for_ = "number?", why = "string?"}

-- A request about a seat, with the options that scripts and the command line pass on.
local function seat(row)
  for name, kind in pairs(SEAT) do row[name] = row[name] or kind end
  return row
end

local PEER <const> = {v = "integer", r = "integer", t = "any", k = "any", w = "any", c = "any", d = "any", e = "any",
                      s = "any", m = "any"} -- short: see tide.run.mail

local STATUS <const> = {status = {"read"}, metrics = {"read"}, events = {"read", after = "integer?"}, log = {"read"}}

---actor -> request -> its row
---@type table<string, table<string, table>>
local ROWS <const> = {
  agent = {
    served = {"read", tables = "strings", slots = "boolean?", homes = "integers?"},
    hottest = {"read", tables = "strings", count = "count?"},
    staleness = {"read", tables = "strings"},
    waits = {"read", table = "string"},
    jobs = {"read"}, ["run.memory"] = {"read", n = "integer"},
    stack = {"read", "waits", address = "string?", run = "string?"},
    ["trace.read"] = {"read", cursor = "any", origin = "integer?"}, ["trace.start"] = {"operate", events = "count?"},
    ["trace.stop"] = {"operate"},
    ["console.open"] = {"read", session = "string", role = "string"}, ["console.drop"] = {"read", session = "string"},
    move = {"operate", "waits", table = "string", slots = "integers", node = "integer"},
    checkpoint = {"operate", "waits", dir = "string", keep = "count?"},
    restore = {"admin", "waits", dir = "string", generation = "count?"},
    consistency = {"operate", table = "string", value = "string"}, drain = {"operate", grace_s = "seconds?"},
    ends = {"admin", "waits", ids = "integers"}, load = {"admin", run = "string", script = SCRIPT},
    start = {"admin", run = "string", job = "string", ranks = "integers", lives = "integers", streams = "integers",
             workers = "count", crowded = "boolean?", seed = "integer?", params = "table?", tables = "names?",
             domain = "integer?", resume = "tables?", keeps = "boolean?"},
    stop = {"admin", run = "string"}, end_worker = {"admin", run = "string", address = "string"},
    ["member.start"] = {"admin", argument = "table", threads = "boolean?"},
    ["member.stop"] = {"admin", address = "string"},
    quit = {"admin", leave = "boolean?", grace_s = "seconds?"},
    ["cpu.share"] = {"admin", "waits", share = "number"}, serve_cost = {"admin", seconds = "seconds"},
    bytes = {"admin"},
    event = {"admin", kind = "string", text = "string"},
    localize = {table = "string", keys = "keys"}, vacated = {run = "string"},
  },
  control = {quit = {"admin", leave = "boolean?"}},
  -- a run's controller: what its driver, the agents of its nodes, the keeper of runs and clients ask
  run = {
    metrics = {"read"}, next = {hold = "boolean?", continue = "boolean?", after = "count?"},
    continue = {hold = "boolean?"},
    joined = {node = NODE}, not_joined = {count = "count"}, workers = {"waits", count = "count"},
    slow = {rank = "integer", factor = "number"}, leaving = {node = "integer"}, drop = {ranks = "integers"},
    stop = {reason = "string?", within_s = "seconds?"}, late = {"waits"}, counters = {"waits"},
    policy = {"read", verb = "string", arguments = "string"}, state = {},
    log = {"read", after = "count?"}, close = {}, checkpoint = {dir = "string?", cut = "string?"},
    ["artifact.begin"] = {name = "string", bytes = "count", sha256 = "string", rank = "integer", node = "string"},
    ["artifact.add"] = {id = "integer", text = "string"}, ["artifact.end"] = {id = "integer"},
    artifacts = {"read"}, ["artifact.part"] = {"read", name = "string", at = "count"},
    published = {"read", table = "string"}, ["published.files"] = {"read", table = "string", generation = "count"},
    ["published.part"] = {"read", table = "string", generation = "count", file = "string", at = "count"},
    evaluate = {name = "string"}, disowned = {}, noted = {note = "string?", tags = "strings"},
    ["verb.pause"] = {release = "boolean?"}, ["verb.resume"] = {}, ["verb.set"] = {params = "any", new = "boolean?"},
    ["verb.workers"] = {"waits", count = "integer"}, ["verb.stop"] = {within_s = "seconds?", reason = "string?"},
    ["verb.cancel"] = {"waits", why = "string?"},
    ["verb.grant"] = {order = "integer", nodes = "counts", force = "boolean?", why = "string?"},
  },
  -- what the workers of a run send to its controller
  worker = {
    ready = {}, exchanged = {fields = "table"}, log = {text = "string", err = "boolean?"}, done = {record = "table?"},
    report = {id = "integer", fields = "table", alike = "table?", record = "table?", elapsed_s = "number?",
              wait_s = "number?", peers = {optional = true, bytes = "number", wait_s = "number"}},
    progress = {fields = "table"}, failed = {error = ERROR},
    barrier = {id = "integer", name = "string", value = "any", encoded = "boolean?", async = "boolean?"},
    chunk = {id = "integer?", pass = "integer", back = LEASE,
             done = {optional = true, index = "integer", lease = "integer", count = "integer?", fields = "table"}},
    evaluated = {id = "integer", sum = "sums?", count = "number?", error = fields.optional(ERROR)},
    cut = {record = {clock = "integer", rng = "any", state = "any", params = "any"}},
  },
  -- what the controller and the other workers of a run send to a worker
  order = {
    go = {id = "integer", params = "table?", passes = "count?", batch = "count?", work = "table?", meet = "count?",
          comm = "table?", reports = "count?", state = "table?"},
    answer = {id = "integer", params = "table", stop = "boolean", suspends = "boolean?", batch = "count?"},
    chunk = {id = "integer", index = "integer?", lease = "integer?", first = "integer?", count = "integer?"},
    values = {id = "integer", values = "table"}, pass = {id = "integer", values = "table?"},
    evaluate = {id = "integer", name = "string"}, stop = {suspends = "boolean?"}, leave = {},
    slow = {factor = "number"}, comm = {plan = "table"}, work = {work = "table"}, meet = {count = "count"},
    peer = PEER, peer_over = PEER, peer_ack = {v = "integer", r = "integer", n = "integer", b = "integer"},
  },
  runs = {
    list = {"read", all = "boolean?", job = "string?", state = "string?"},
    get = {"read", name = "id", memory = "boolean?"},
    held = {"read"}, situation = {"read"}, bytes = {"admin"}, shares = {"read"}, accounts = {"read"},
    ["shares.set"] = {"admin", shares = "table?"},
    priority = {"operate", name = "id", priority = "integer"}, time = {"operate", name = "id", seconds = "seconds?"},
    note = {"operate", name = "id", note = "string?", tags = "strings?"},
    verb = {"operate", name = "id", verb = "string", arguments = "table?", timeout_s = "seconds?"},
    ["table.drop"] = {"admin", name = "string", force = "boolean?"},
    ["table.set"] = {"operate", name = "string", rate = "number?", consistency = "string?"},
    policy = {"read", verb = "string", arguments = "string"},
    schedule = {"admin", policy = "any", params = "table?", guard = "table?", nodes = "table?", force = "boolean?"},
    open = {"admin", job = "string", uid = "string", user = "string?", node = "string?", pid = "integer?",
            machine = "string?", params = "table?", directory = "string?", private = "boolean?",
            limits = "table?", bound = "string?", slots = "any", memory = "count?",
            checkpoint = "string?", keep = "boolean?", keeps = "strings?", script = "boolean?"},
    grant = {"admin", n = "id", no_wait = "boolean?"}, ["slots.more"] = {"admin", n = "id", slots = "integer"},
    ["slots.less"] = {"admin", n = "id", grant = "counts?"},
    tell = {"admin", n = "integer", uid = "string", state = "string", why = "string?", workers = "count?",
            params = "table?", progress = {optional = true, report = "count?", loss = "any", examples = "any",
                                           rate = "any", total = "number?"},
            held = "counts?", order = "integer?", cost = "number?", parked = "boolean?", fixed = "string?",
            model = "table?"},
    close = {"admin", n = "id", uid = "string", state = "string?", why = "string?", exit = "integer?",
             tables = "boolean?"},
    tables = {"admin", n = "id", keeps = "strings", named = "strings"},
  },
  policies = {
    list = {"read"}, why = {"read", what = "string?"}, metric = {"read", name = "string", last = "seconds?"},
    report = seat {"read"}, history = seat {"read"},
    views = {"operate", kind = "string", scope = "string?"},
    shadow = seat {"operate", policy = "table"}, swap = seat {"operate", policy = "table"},
    set = seat {"operate"},
    rollback = seat {"operate"}, journal = {"operate"},
  },
  -- the keeper of a group of actors (tide.run.actors)
  group = {
    started = {rank = "integer", life = "integer"},
    call = {method = "string", arguments = "any", count = "count?", ranks = "integers?", timeout_s = "seconds?",
            stream = "boolean?"},
    cast = {method = "string", arguments = "any", count = "count?", ranks = "integers?", timeout_s = "seconds?"},
    ask = {"read", method = "string", arguments = "any", count = "count?", timeout_s = "seconds?",
           as_right = "string?"},
    publish = {"waits", name = "string"},
    next = {stream = "integer", after = "count?"}, drop = {stream = "integer"}, changes = {after = "count?"},
    members = {},
    close = {},
  },
  member = {run = {method = "string", arguments = "any", count = "count?"}, ["end"] = {}},
  -- a session of a console: what prompts and the sessions of other nodes ask
  session = {
    ["console.eval"] = {"read", id = "id", text = "string", targets = "string?", want = "string?", width = "integer?",
                        utf8 = "boolean?", seconds = "number?"},
    ["console.cancel"] = {"read", id = "id"}, ["console.fg"] = {"read", id = "id"},
    ["console.complete"] = {"read", "waits", text = "string", cursor = "integer?"},
    ["console.help"] = {"read", "waits", text = "string?", source = "boolean?"},
    ["console.tap"] = {"read", tap = "string", address = "string", rate = "number?", over = "boolean?"},
    ["console.close"] = {"read"}, ["console.owner"] = {from = "string"},
  },
  -- a prompt: what its session sends, and asks the person
  prompt = {
    ["console.output"] = {"read", id = "id", sequence = "integer", text = "string"},
    ["console.live"] = {"read", id = "id", text = "string"},
    ["console.result"] = {"read", id = "id", status = "string", display = "string?", data = "string?", cut = "any",
                          error = "table?", seconds = "number?", instructions = "number?", output = "string?",
                          memory_peak_bytes = "number?", truncated_bytes = "number?", failed = "boolean?",
                          nodes = "table?", unreadable = "string?", pieces = "integer?"},
    ["console.file"] = {"read", path = "string"}, ["console.page"] = {"read", text = "string"},
    ["console.save"] = {"read", path = "string", text = "string", first = "boolean", last = "boolean"},
  },
}

for _, actor in ipairs {"agent", "control"} do
  for request, row in pairs(STATUS) do ROWS[actor][request] = row end
end

ROWS.script = {order = {}} -- a run without a job
for _, request in ipairs {"log", "close", "disowned", "noted", "verb.stop", "verb.cancel"} do
  ROWS.script[request] = ROWS.run[request]
end

local requests = {}
for actor, rows in pairs(ROWS) do requests[actor] = service.rows(rows) end

return requests
