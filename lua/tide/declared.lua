-- The options of nodes, clusters, runs and jobs, one row each (tide.checks): scripts (`tide.cluster`, `cluster:start`,
-- `tide.job`), commands (`tide node`, `up`, `run`, `submit`) and the manual have them from here. A new option is a row
-- here and its use. Of a row that a command has, `short` and `value` are the letter and the placeholder there.
local checks = require "tide.checks"

local declared = {}

---- nodes and clusters ----------------------------------------------------------------------------------------------

local QUEUE_LIMIT <const> = {name = "queue_limit", type = "size",
  doc = "bound on a node's operations in flight (default: 4 MiB for each home)"}
local MEMORY <const> = {name = "memory", type = "size",
  doc = "memory cap of tables and queues on a node, at least 32MiB (default: none)"}
local SILENCE <const> = {name = "silence", type = "duration", above = 0, max = 3600,
  doc = "how long a node may give no sign of life before it is declared dead (default: 10s; of a process of this "
    .. "machine that is gone 0.8s)"}

-- What a node is started with, by a cluster of a script and on the command line of `tide node`.
---@type tide.declared[]
declared.node = {
  {name = "workers", short = "w", type = "integer", min = 0, max = 256, doc = "compute threads (default 1)"},
  {name = "no_store", type = "boolean", doc = "hold no parameter rows"},
  QUEUE_LIMIT, MEMORY,
  {name = "rate_operations", type = "integer", min = 1, value = "N",
   doc = "operations a second of a node on remote rows (default: unlimited)"},
  {name = "rate_bytes", type = "size",
   doc = "bytes of keys and rows a second of a node on remote rows (default: unlimited)"},
}

local CONTROLLERS <const> = {name = "controllers", type = "integer", choices = {3, 5}, value = "N",
  doc = "3 or 5 nodes keep the controller's decisions, and another one takes over if it ends (default: 1)"}

---@type tide.declared[]
declared.cluster = {
  {name = "nodes", short = "n", type = "integer", min = 1, config = "nodes", doc = "node processes (default 2)"},
  {name = "workers", short = "w", type = "integer", min = 1, config = "workers",
   doc = "workers of each node (default 1)"},
  {name = "servers", type = "integer", min = 0, default = 0, doc = "so many nodes of their own hold the rows (s1, s2, "
    .. "...), and the nodes of workers none: their loss then costs no rows"},
  QUEUE_LIMIT, MEMORY,
  {name = "rate", type = "table", said = "{operations?: integer, bytes?: string|integer}",
   doc = "what each node may ask of others in a second"},
  CONTROLLERS, SILENCE,
}

---@type tide.declared[]
declared.rate = {
  {name = "operations", type = "integer", min = 1, doc = "a second"},
  {name = "bytes", type = "size", doc = "of keys and rows a second"},
}

---- runs ------------------------------------------------------------------------------------------------------------

local SLOTS_MOST <const>, WEIGHT_MOST <const> = 1 << 16, 1e6
local RUN_MEMORY <const> = {name = "memory", type = "size", value = "SIZE", min = 1 << 20,
  doc = "memory cap of a run's tables on each node (at least 1MiB; default: the job's `memory`, else none)"}
local SLOTS <const> = {name = "slots", type = "integer", min = 1, value = "N",
  doc = "worker slots of a run on a shared cluster (default: the job's `workers`, else all that are free)"}

-- How many slots a run takes, as its owner gives them to a scheduling policy.
---@type tide.declared[]
declared.limits = {
  {name = "min", type = "integer", min = 1, max = SLOTS_MOST, value = "N",
   doc = "with a scheduling policy: slots that it needs at least"},
  {name = "max", type = "integer", min = 1, max = SLOTS_MOST, value = "N", doc = "slots that it takes at most"},
  {name = "sizes", type = "string|table", value = "SIZES", said = '"pow2"|integer[]',
   doc = "the only numbers of slots that it takes: pow2, or 1,2,6"},
  {name = "weight", type = "number", above = 0, max = WEIGHT_MOST, value = "X",
   doc = "how much its speed counts among others (default 1)"},
  {name = "preemptible", type = "boolean", doc = "false: it keeps its slots until it ends"},
}
local MIN <const>, MAX <const>, SIZES <const>, WEIGHT <const>, PREEMPTIBLE <const> = table.unpack(declared.limits)

---@type tide.declared[]
declared.start = {SLOTS, RUN_MEMORY, MIN, MAX, SIZES, WEIGHT, PREEMPTIBLE}

-- What a run is started with in a process of its own.
---@type tide.declared[]
declared.submit = {
  SLOTS, RUN_MEMORY, MIN, MAX, SIZES, WEIGHT,
  {name = "keep", type = "boolean", doc = "its tables stay when the run is closed; `tide table drop` removes them"},
  {name = "grace", type = "duration", value = "TIME", doc = "after Ctrl-C or SIGTERM: workers that have not come to a "
    .. "report then are ended (default 30s)"},
  {name = "resume", type = "string", value = "DIR",
   doc = "continue from the newest intact checkpoint in this directory"},
  {name = "time", type = "duration", above = 0, value = "TIME",
   doc = "stop it when it has had its slots for so long: 90m, 12h (default: any time)"},
  {name = "priority", type = "integer", value = "N",
   doc = "its place among the runs of its person that wait: higher ones first (default 0)"},
  {name = "args", type = "table", said = "string[]", doc = "options of the script"},
}

local STATES <const> = {"queued", "starting", "running", "paused", "suspended", "stopping", "done", "stopped", "failed",
  "lost"}

-- Which runs are listed.
---@type tide.declared[]
declared.runs = {
  {name = "job", type = "string", doc = "of this one"},
  {name = "state", type = "string", choices = STATES, doc = "in this state"},
  {name = "all", type = "boolean", doc = "ended ones too"},
}

local BATCH_MOST <const> = (1 << 40) - 1

---- jobs ------------------------------------------------------------------------------------------------------------

---@type tide.declared[]
declared.job = {
  {name = "name", type = "string", required = true, doc = "identifier"},
  {name = "worker", type = "function", required = true, said = "fun(w: tide.worker)",
   doc = "runs once on every worker"},
  {name = "data", type = "table|integer", min = 1, said = "tide.data.set|integer|any[]",
   doc = "a data set, how many examples there are, or a list of them"},
  {name = "chunks", type = "integer", min = 1,
   doc = "into how many chunks a pass over the data is cut for w:chunks() (8 a worker)"},
  {name = "on_worker_loss", type = "string", choices = {"replay", "stop"},
   doc = "what a lost worker means; default: replay if the data is cut into chunks"},
  {name = "on_loss", type = "string", choices = {"stop"}, doc = "what lost rows of a table mean"},
  {name = "tables", type = "table|function",
   said = "table<string, table>|fun(data: tide.data.set): table<string, table>", doc = "tables by their names"},
  {name = "params", type = "table", doc = "handed to the workers as w.params"},
  {name = "on_report", type = "function", said = "fun(run: table, sum: table): table|nil, string?",
   doc = "once per report of all workers; its answer changes params, a second one ends the run, as stopped for that "
     .. "reason"},
  {name = "evaluate", type = "table", said = "table<string, fun(w: tide.worker): number|table, number>",
   doc = "sum (or table of sums) and count"},
  {name = "stop", type = "table", said = "tide.job_stop", doc = "when the run ends"},
  {name = "checkpoint", type = "table", said = "tide.job_checkpoint", doc = "written now and then"},
  {name = "progress", type = "table", said = "{total?: integer, unit?: string}",
   doc = "what the progress line counts up to"},
  {name = "seed", type = "integer", doc = "of random numbers"},
  {name = "workers", type = "integer", doc = "slots that it takes where none are said"},
  {name = "memory", type = "size", min = 1 << 20,
   doc = "memory cap of a run's tables on each node: \"256MB\""},
  {name = "batch", type = "integer|table", min = 1, max = BATCH_MOST,
   said = "integer|{total: integer, min?: integer, max?: integer}",
   doc = "examples of a step over all workers, and of one"},
  {name = "prepare", type = "function", said = "fun(w: tide.worker)",
   doc = "what a worker does before it says that it is ready"},
  {name = "policies", type = "table", said = "table<string, string|table>",
   doc = 'the policy of each kind: {batching = "batching/boa"}'},
}

---@type tide.declared[]
declared.batch = {
  {name = "total", type = "integer", min = 1, max = BATCH_MOST, required = true, doc = "of all workers"},
  {name = "min", type = "integer", min = 1, max = BATCH_MOST, doc = "of one"},
  {name = "max", type = "integer", min = 1, max = BATCH_MOST, doc = "of one"},
}

---@type tide.declared[]
declared.stop = {
  {name = "epochs", type = "integer", min = 1, doc = "after so many reports"},
  {name = "loss", type = "number", doc = "when the loss is at most this"},
  {name = "time", type = "duration", doc = "after so much time"},
  {name = "metric", type = "string",
   doc = "a number of the reports: after `patience` reports in which it got no better"},
  {name = "per", type = "string", doc = "divided by this number of the reports (examples)"},
  {name = "patience", type = "integer", min = 1, doc = "reports without a better one"},
  {name = "better", type = "string", choices = {"less", "more"}, doc = "which way is better (less)"},
  {name = "by", type = "number", doc = "the least that counts as better"},
}

---@type tide.declared[]
declared.checkpoint = {
  {name = "dir", type = "string", required = true, doc = "the directory"},
  {name = "every", type = "duration", above = 0, default = 60, doc = "time between two (60s)"},
  {name = "keep", type = "integer", min = 2, max = 1000, default = 3, doc = "generations that stay (3)"},
  {name = "cut", type = "string", choices = {"clock", "fuzzy"}, doc = "what tables with clocks are cut by"},
}

---- command lines ---------------------------------------------------------------------------------------------------

local function flag_of(row)
  local flag <const> = {}
  for key, value in pairs(row) do flag[key] = value end
  flag.name = row.name:gsub("_", "-")
  flag.type = row.type ~= "boolean" and row.type:match "^%a+" or nil
  return flag
end

---Rows as options of a command.
---@param rows tide.declared[]
---@param names string[] of those that it has, in this order
---@param more? table<string, table> fields that differ there, by the name of the row
---@return tide.option[]
function declared.flags(rows, names, more)
  local list = {}
  for i, name in ipairs(names) do
    for _, row in ipairs(rows) do
      if row.name == name then list[i] = flag_of(row) end
    end
    for key, value in pairs(more and more[name] or {}) do list[i][key] = value end
  end
  return list
end

---Options in order, with those of the lists among them.
---@param list (tide.option|tide.option[])[]
---@return tide.option[]
function declared.joined(list)
  local flat = {}
  for _, each in ipairs(list) do
    if each.name then flat[#flat + 1] = each else table.move(each, 1, #each, #flat + 1, flat) end
  end
  return flat
end

---The words of a command line that say these values.
---@param rows tide.declared[]
---@param values table<string, any>
---@param but? table<string, boolean> names of rows that are none of its options
---@return string[]
function declared.words(rows, values, but)
  local words = {}
  for _, row in ipairs(rows) do
    local value <const> = values[row.name]
    if value and not (but and but[row.name]) then
      words[#words + 1] = "--" .. row.name:gsub("_", "-")
      if value ~= true then
        words[#words + 1] = type(value) == "table" and table.concat(value, ",") or tostring(value)
      end
    end
  end
  return words
end

---The values of these rows alone.
---@param rows tide.declared[]
---@param values table<string, any>
---@param into? table to which they are added
---@return table
function declared.picked(rows, values, into)
  into = into or {}
  for _, row in ipairs(rows) do into[row.name] = values[row.name] end
  return into
end

---The annotation of a class: what the manual reads.
---@param source {class: string, rows: string}
---@return string
function declared.annotation(source) return checks.annotation(source.class, declared[source.rows]) end

return declared
