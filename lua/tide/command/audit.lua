-- `tide audit`: the records of requests to a cluster's nodes on this machine, and their verification.
local arguments = require "tide.cli.arguments"
local audit = require "tide.cluster.audit"
local directory = require "tide.directory"
local errors = require "tide.errors"
local listing = require "tide.command.listing"
local text = require "tide.text"

local COLUMNS <const> = {
  {key = "n"}, {key = "time"}, {key = "node"}, {key = "right"}, {key = "verb"}, {key = "subject"}, {key = "result"},
  {key = "credential"}, {key = "address"}, {key = "text"},
}
local TEXT_SHOWN <const> = 60

local function name_of(path) return path:match "audit%-([^/]+)%.log$" or path end

-- The named file, or all logs of the cluster in this machine's run directory, or of --dir.
local function logs(o)
  if o.file then return {o.file} end
  local where = o.dir
  if not where then
    local name <const> = o.cluster and not o.cluster:find(":", 1, true) and o.cluster or directory.only() or "local"
    where = directory.of(name)
  end
  local found <const> = audit.logs(where)
  if found[1] then return found end
  return nil, errors.new("T0110", {message = ("no audit log is in %s"):format(where),
    help = "a node starts one at the first connection; tide node --audit DIR names another directory"})
end

local function show(context, paths)
  local rows = {}
  for _, path in ipairs(paths) do
    local records <const>, err = audit.read(path)
    if not records then return nil, err end
    for _, r in ipairs(records) do
      r.node = name_of(path)
      r.result = r.damaged and "this line is no record" or r.result
      r.line, r.file, r.text_line, r.damaged = nil, nil, nil, nil
      if not context.json and r.text then r.text = text.cut(text.clean(r.text), TEXT_SHOWN, true) end
      rows[#rows + 1] = r
    end
  end
  table.sort(rows, function(a, b)
    local s, t = tostring(a.time or ""), tostring(b.time or "")
    if s ~= t then return s < t end
    return a.node < b.node or a.node == b.node and (a.n or 0) < (b.n or 0)
  end)
  return listing.print(context, rows, COLUMNS, context.options.last)
end

local function verify(context, paths)
  local failure
  for _, path in ipairs(paths) do
    local found <const>, err = audit.verify(path)
    if found then
      context:tell(found, ("%s: %d record%s, whole; the last one's sum is %s"):format(path,
        found.records, found.records == 1 and "" or "s", found.head or "none"))
    elseif failure then
      context:complain(err)
    else
      failure = err
    end
  end
  if failure then return nil, failure end
  return 0
end

local FILE <const> = {name = "file", optional = true, doc = "one log (default: all of the cluster here)"}

local function of_logs(f)
  return function(context, o)
    local paths <const>, err = logs(o)
    if not paths then return nil, err end
    return f(context, paths)
  end
end

return {
  name = "audit",
  brief = "requests to the nodes of this machine",
  summary = "Shows the audit logs of a cluster's nodes on this machine, or verifies them: connections and "
    .. "rejected ones, requests that require more than `read`, and evaluations.",
  examples = {
    {"tide audit show", "the logs of the cluster here, in order of time"},
    {"tide audit show --last 20 --json", "the last ones, whole"},
    {"tide audit verify", "whether a line was changed, or is missing"},
    {"tide audit verify audit-n1.log", "of one log, here its copy"},
  },
  verbs = {
    {name = "show", doc = "prints the logs in order of time", arguments = {FILE}, run = of_logs(show)},
    {name = "verify", doc = "checks whether a line was changed, or is missing", arguments = {FILE},
     run = of_logs(verify)},
  },
  schema = "tide.audit/1",
  options = {
    {name = "dir", type = "string", value = "DIR", doc = "where the logs are, if nodes have --audit DIR"},
    {name = "last", type = "integer", min = 1, max = 1000000, value = "N", of = "show",
     doc = "only the last N records"},
    arguments.shared.cluster,
  },
}
