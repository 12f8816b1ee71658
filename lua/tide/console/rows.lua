-- The calls at the prompt, one row each: who may make it, its arguments and options with their types, bounds and
-- defaults, what it gives and what it is for. The checks of a call, its right (tide.console.roles), its help and
-- completion (tide.console.names) and its entry in docs/reference/console.md follow from the row; the functions are in
-- tide.console.calls and tide.console.policy.
local checks = require "tide.checks"
local declared = require "tide.declared"

---@class tide.console.row
---@field name string as it is typed
---@field right "read"|"operate"|"admin" the least that makes it
---@field doc string
---@field arguments tide.declared[]
---@field options? tide.declared[] the last argument is a table of them
---@field gives? string its type, and what it is
---@field columns? string[] fields of the records that it gives, which --json prints

local POLICY <const> = {name = "ref", type = "string", doc = "a shipped name or a file"}
local KIND <const> = {name = "kind", type = "string", doc = "of policies: \"batching\", \"sync\""}
local SCOPE <const> = {name = "scope", type = "string", doc = "the run or the table that the seat is of"}
local PARAMS <const> = {name = "params", type = "table", doc = "of the policy"}
local LAST <const> = {name = "last", type = "duration", doc = "at most so long ago"}
local EVERY <const> = {name = "every", type = "duration", min = 0.2, default = 1, doc = "time between two (1s)"}

local function words(list)
  local found = {}
  for word in list:gmatch "%S+" do found[#found + 1] = word end
  return found
end

---@type tide.console.row[]
local ROWS <const> = {
  {name = "nodes", right = "read", doc = "The nodes of the cluster and their load.", gives = "table[] rows",
   columns = words "name state workers store actors tables mailbox_messages rss_bytes"},
  {name = "top", right = "read", doc = "Actors of all nodes, those that worked most first.", gives = "table[] rows",
   columns = words [[node address type name waits_for waits_s mailbox_messages messages_handled handling_s]],
   options = {{name = "sort", type = "string", default = "handling_s", doc = "a field of the rows"},
     {name = "node", type = "string", doc = "of one"},
     {name = "limit", type = "integer", min = 0, default = 20, doc = "so many rows (20)"}}},
  {name = "links", right = "read", doc = "The connections between nodes.", gives = "table[] rows",
   columns = words "node peer_name up bytes_out bytes_in frames_out queue_bytes round_trip_s",
   options = {{name = "sort", type = "string", doc = "a field of the rows"}}},
  {name = "why", right = "read", gives = "table[] rows from the actor to the last one known; of runs one each",
   doc = "What an actor waits for, since when, and what the actors do that it waits for.",
   arguments = {{name = "actor", type = "string", optional = true,
     doc = '"n1/agent", an address "2:17", or a name on this node; without one: the bottleneck of each run'}}},
  {name = "stack", right = "read", doc = "Prints what an actor, or each worker of a run, does at this moment: the "
     .. "stacks of its fibers, innermost first.",
   arguments = {{name = "name", type = "string", doc = 'a run "mf-1", one of its workers "mf-1/2", "n1/agent", an '
     .. 'address "2:17", or a name on this node'}}},
  {name = "runs", right = "read", doc = "The runs of this cluster; `@job:NAME` is the nodes of a job.",
   options = declared.runs, gives = "table[] rows", columns = words "name state slots nodes progress"},
  {name = "run", right = "read", gives = "table run",
   doc = "One run of this cluster: its fields, and `:pause() :resume() :set{eps = 0.05} :set_workers(4) :stop() "
     .. ":cancel() :wait() :log() :refresh()`. docs/guides/runs.md has them.",
   arguments = {{name = "name", type = "string|integer", doc = '"mf-1", 1, or the job if one run of it is active'}}},
  {name = "events", right = "read", gives = "table[] rows", columns = words "at kind node text",
   doc = "What happened: nodes, controllers, slots that moved, runs, policies, checkpoints; oldest first. `node` "
     .. "is its first observer.",
   options = {LAST, {name = "kind", type = "string", doc = '"node", "policy", ..'},
     {name = "limit", type = "integer", min = 0, default = 40, doc = "the newest so many (40)"}}},
  {name = "log", right = "read", gives = "table[] rows", columns = words "at node level text",
   doc = "Lines of the nodes' logs, oldest first. Each node keeps its newest 256.",
   options = {{name = "level", type = "string", choices = {"debug", "info", "warn", "error"}, default = "info",
       doc = "the least (info)"}, {name = "node", type = "string", doc = "of one"}, LAST,
     {name = "limit", type = "integer", min = 0, default = 40, doc = "the newest so many (40)"}}},
  {name = "metric", right = "read", gives = "table metric name, at (seconds before now), value",
   doc = "A metric of the active run, drawn over time: its newest, least and greatest value, and a curve.",
   arguments = {{name = "name", type = "string", doc = '"examples_per_s", "step_s", "loss"'}},
   options = {{name = "last", type = "duration", default = 600, doc = "at most so long ago (10m)"},
     {name = "job", type = "string", doc = "of several runs that of this one"},
     {name = "rows", type = "integer", min = 2, max = 40, default = 6, doc = "of the curve (6)"}}},
  {name = "on", right = "read", doc = "Evaluates code on nodes.", gives = "table values node -> value",
   arguments = {{name = "where", type = "string", doc = '"@all", "@role:worker", "@n1,@n2"'},
     {name = "code", type = "string", doc = "an expression or statements"}}},
  {name = "jobs", right = "read", doc = "The evaluations of this session that run or ran last.", gives = "table[] rows",
   columns = words "id state seconds text"},
  {name = "kill", right = "read", doc = "Ends an evaluation of this session.", gives = "boolean whether it ran",
   arguments = {{name = "id", type = "integer|string", doc = "of jobs()"}}},
  {name = "more", right = "read", doc = "Prints what the last evaluation wrote beyond the 64 KiB that it may."},
  {name = "watch", right = "read",
   doc = "Evaluates an expression again and again and draws its numbers as a line, until Ctrl-C.",
   arguments = {{name = "what", type = "string|function", doc = "an expression or a function"}},
   options = {EVERY, {name = "count", type = "integer", min = 1, default = math.maxinteger, doc = "how often"}}},
  {name = "hist", right = "read", gives = "table histogram title, unit, count, buckets",
   doc = "A histogram, drawn as bars. Of a table: how long workers waited for pulls or pushes of other nodes, or how "
     .. 'stale what they read was; of an actor, with of = "queue": how long messages wait for it; of a list: its '
     .. "numbers; of an expression or a function: what it gives, again and again.",
   arguments = {{name = "what", type = "any",
     doc = 'a table\'s handle, numbers, or what gives a number; an actor ("n1/store")'}},
   options = {{name = "of", type = "string", doc = '"pull" (default), "push", "staleness", "queue"'},
     {name = "bins", type = "integer", min = 1, max = 100, default = 12, doc = "of numbers (12)"},
     {name = "count", type = "integer", min = 1, max = 100000, default = 100, doc = "how often (100)"},
     {name = "every", type = "duration", default = 0.01,
      doc = "in what time (10ms); both together: how long an actor is looked at"}}},
  {name = "tap", right = "read",
   doc = "Shows messages that come to an actor, a few of them a second, until Ctrl-C. Each line: when, from whom, "
     .. "kind, lane, size, and the message. Answers to the actor's own calls are not shown. A tap delays no component.",
   arguments = {{name = "actor", type = "string", doc = '"n1/agent", "n1/store", an address "2:17"'}},
   options = {{name = "rate", type = "integer", min = 1, max = 100, default = 10, doc = "lines a second (10)"},
     {name = "match", type = "string", doc = 'an expression over from, kind, lane, bytes, text: "bytes > 1000"'},
     {name = "count", type = "integer", min = 1, doc = "end after so many lines"}}},
  {name = "time", right = "read", doc = "Evaluates a function and measures its time.",
   arguments = {{name = "f", type = "function", doc = "what is measured"}}, gives = "any ... what the function gives"},
  {name = "bench", right = "read", doc = "Evaluates a function several times.",
   arguments = {{name = "f", type = "function", doc = "what is measured"},
     {name = "rounds", type = "integer", min = 1, optional = true, doc = "default 5"}},
   gives = "table figures", columns = words "median_s least_s greatest_s rounds"},
  {name = "slow", right = "admin",
   doc = "Makes a node slow, to see what that does to a run; without options it is as fast as before.",
   arguments = {{name = "node", type = "string", doc = "its name"}},
   options = {{name = "cpu", type = "number|string", default = 1,
       doc = 'the share of one core that its process gets, 0.3 or "30%"'},
     {name = "serve", type = "duration", max = 1, default = 0,
      doc = 'a delay of each key that it serves to other nodes, "100us"'}}},
  {name = "spark", right = "read", doc = "Numbers as a line of bars.", gives = "string",
   arguments = {{name = "values", type = "table", doc = "numbers"}}},
  {name = "full", right = "read", doc = "A value with all that is in it, in your pager ($PAGER, else less): 100,000 "
     .. "items a table, 10,000 rows a tensor, 8 MiB.",
   arguments = {{name = "value", type = "any", optional = true, doc = "what is shown"}}},
  {name = "json", right = "read", doc = "A value as JSON.", gives = "string",
   arguments = {{name = "value", type = "any", optional = true, doc = "what is written"}}},
  {name = "save", right = "read", gives = "integer bytes", doc = "Writes a value to a file on your disk, which must "
     .. "not exist: records, rows or a tensor as CSV, anything as JSON.",
   arguments = {{name = "value", type = "any", optional = true, doc = "what is written"},
     {name = "path", type = "string", doc = "ends in .csv or .json"}}},
  {name = "help", right = "read", doc = "Help on a name or an error's code; without one, the ten things to do first.",
   arguments = {{name = "what", type = "string", optional = true, doc = "a name"}}},

  {name = "policy.list", right = "read", gives = "table[] rows",
   doc = "The seats of the run: which policy decides what, since when, with how many errors.",
   options = {{name = "job", type = "string", doc = "of several runs that of this one"}}},
  {name = "policy.check", right = "operate", arguments = {POLICY, {name = "params", type = "table", optional = true,
     doc = "of the policy"}}, gives = "table report",
   doc = "Loads a policy, validates it, and replays the seat's recorded views. Nothing in the cluster changes."},
  {name = "policy.shadow", right = "operate", arguments = {POLICY}, gives = "table answer",
   doc = "Runs a policy beside the live one on the same views; its plans are validated and never carried out.",
   options = {{name = "for_", type = "duration", doc = "until it ends by itself"}, PARAMS, SCOPE}},
  {name = "policy.report", right = "read", arguments = {KIND}, options = {SCOPE}, gives = "table report",
   doc = "What a shadow would have done differently, or what both groups of a canary do."},
  {name = "policy.swap", right = "operate", arguments = {POLICY}, gives = "table answer old, new, epoch",
   doc = "Puts a policy in the place of the live one of its kind, checked on the newest view first; with `canary` at "
     .. "first for a part of the nodes, workers or tables only, which the guard then makes all or none.",
   options = {PARAMS, {name = "guard", type = "table", doc = "{metric =, drop = \"10%\", within = \"60s\"}"},
     {name = "canary", type = "table", doc = "which nodes, workers or tables first"}, SCOPE,
     {name = "force", type = "boolean", doc = "also where the check fails"}}},
  {name = "policy.set", right = "operate", doc = "Changes params of a live policy.", gives = "table answer",
   arguments = {KIND, {name = "params", type = "table", doc = "new values by name"}}},
  {name = "policy.rollback", right = "operate", arguments = {KIND}, gives = "table answer",
   doc = "Brings the policy before this one back, with its state.",
   options = {{name = "latest", type = "boolean", doc = "the one before, though it failed"}, SCOPE}},
  {name = "policy.history", right = "read", arguments = {KIND}, options = {SCOPE}, gives = "table[] rows",
   doc = "Which policies were swapped in, when, and what came of it."},
  {name = "policy.why", right = "read", doc = "The last plan that touched a thing.", gives = "table answer",
   arguments = {{name = "what", type = "string", doc = '"table w", "alloc 3"'}}},
  {name = "policy.replay", right = "admin", gives = "table report decisions, same, ..",
   doc = "Decides the journal of the run again: with the policies that it had (identical, or the first difference), "
     .. "or, open loop, with another one, which tells where that would have decided otherwise. The journal is read "
     .. "on the machine of the driver only.",
   arguments = {{name = "ref", type = "string", optional = true, doc = POLICY.doc}},
   options = {{name = "last", type = "string", doc = '"10m" before now, with another policy'}, PARAMS,
     {name = "kind", type = "string", doc = KIND.doc}, SCOPE}},
}

local rows = {list = ROWS}
for _, row in ipairs(ROWS) do row.arguments = row.arguments or {} end

local function checked(row, f)
  local count <const>, options <const> = #row.arguments, row.options
  return function(...)
    local given = {...}
    for i, argument in ipairs(row.arguments) do
      if given[i] ~= nil or not argument.optional then
        given[i] = checks.argument(row.name, ("`%s`"):format(argument.name), given[i], argument)
      end
    end
    if options then given[count + 1] = checks.options(row.name, options, given[count + 1]) end
    return f(table.unpack(given, 1, options and count + 1 or count))
  end
end

---The functions of a group of rows, each with the checks of its row.
---@param prefix string "" or "policy."
---@param functions table<string, function>
---@return table<string, function>
function rows.bound(prefix, functions)
  local bound = {}
  for _, row in ipairs(ROWS) do
    local name <const> = row.name:match("^" .. prefix:gsub("%.", "%%.") .. "(%w+)$")
    if name then bound[name] = checked(row, assert(functions[name], row.name)) end
  end
  return bound
end

-- Options as an annotation has them, and what each is.
local function of_options(options)
  local fields, docs = {}, {}
  for i, option in ipairs(options) do
    fields[i] = ("%s%s: %s"):format(option.name, option.required and "" or "?", checks.type_of(option))
    docs[i] = ("%s: %s"):format(option.name, option.doc)
  end
  return ("---@param o? {%s} %s"):format(table.concat(fields, ", "), table.concat(docs, "; "))
end

---The rows as annotated functions of `console`: what help, completion and the manual read.
---@param source {own: string} "console", or "policy" for those of policies
---@return string
function rows.annotation(source)
  local lines = {}
  for _, row in ipairs(ROWS) do
    local names, group <const> = {}, row.name:match "^(%w+)%." or "console"
    if group ~= source.own then goto next_row end
    lines[#lines + 1] = "---" .. row.doc .. (row.right == "read" and "" or (" Role %s."):format(row.right))
    for i, argument in ipairs(row.arguments) do
      names[i] = argument.name
      lines[#lines + 1] = ("---@param %s%s %s %s"):format(argument.name, argument.optional and "?" or "",
        checks.type_of(argument), argument.doc)
    end
    if row.options then
      names[#names + 1] = "o"
      lines[#lines + 1] = of_options(row.options)
    end
    if row.gives then
      lines[#lines + 1] = ("---@return %s%s"):format(row.gives, row.columns and ": " .. table.concat(row.columns, ", ")
        or "")
    end
    lines[#lines + 1] = ("function %s.%s(%s) end"):format(group, row.name:match "%w+$", table.concat(names, ", "))
    ::next_row::
  end
  return table.concat(lines, "\n") .. "\n"
end

return rows
