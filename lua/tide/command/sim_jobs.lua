-- `tide sim jobs WORKLOAD ..`: traces of jobs on simulated slots, under one or several scheduling policies.
local chart = require "tide.chart"
local errors = require "tide.errors"
local text = require "tide.text"

local command = {
  name = "sim jobs",
  brief = "run a trace of jobs under a scheduling policy",
  summary = "Simulates workloads of jobs under scheduling policies, and prints how long jobs "
    .. "take.",
  examples = {
    {"tide sim jobs workload-6.csv", "under scheduling/goodput, on 16 nodes of 4 slots"},
    {"tide sim jobs w1.csv w2.csv --policy scheduling/tiresias --policy mine.lua --chart out.svg", "compared"},
    {"tide sim jobs w.csv --every 15 --resize 30,2", "a start costs 30 s, a resize 2 s"},
  },
  arguments = {{name = "workload", many = true,
    doc = "CSV: name,time,application,num_replicas,batch_size[,user,priority,cancel]"}},
  options = {
    {name = "policy", type = "string", value = "P", repeated = true,
     doc = "shipped name or path (scheduling/goodput); several are compared"},
    {name = "set", type = "string", value = "NAME=X", repeated = true, doc = "parameter of the policies"},
    {name = "profiles", type = "string", value = "DIR",
     doc = "folder with a folder an application; default `profiles` beside or above the workload"},
    {name = "nodes", type = "integer", min = 1, max = 4096, doc = "16"},
    {name = "slots", type = "integer", min = 1, max = 4096, doc = "of each node; 4"},
    {name = "every", type = "integer", min = 1, max = 86400, doc = "seconds between decisions; 60"},
    {name = "resize", type = "string", value = "S|START,LIVE",
     doc = "seconds that a job loses when it starts, and when its slots change; 30"},
    {name = "interference", type = "number", min = 0, max = 0.99,
     doc = "share of its speed that a job of several nodes loses beside another one; 0"},
    {name = "events", doc = "decide when a job comes or goes too"},
    {name = "min-nodes", type = "integer", min = 1, max = 4096, doc = "autoscaling: at least"},
    {name = "max-nodes", type = "integer", min = 1, max = 4096, doc = "autoscaling: at most"},
    {name = "shares", type = "string", value = "FILE", doc = "weights and limits of persons (the column `user`)"},
    {name = "seed", type = "integer", min = 0, doc = "of policies that draw; 1"},
    {name = "each", doc = "with --json: completion time of each job too"},
    {name = "chart", type = "string", value = "FILE", doc = "write charts there, as SVG"},
  },
}

local function exists(path) return require("tide.core").file_list(path) ~= nil end

-- The folder `profiles` beside the workload or up to three folders above it.
local function find_profiles(path)
  local folder = path:match "^(.*)/[^/]*$" or "."
  for _ = 1, 4 do
    if exists(folder .. "/profiles") then return folder .. "/profiles" end
    folder = folder .. "/.."
  end
  return nil, errors.new("T0205", {message = ("there is no folder `profiles` beside %s or above it"):format(path),
    help = "--profiles DIR names one"})
end

local function resize_of(word)
  if not word then return nil end
  local start, live = word:match "^(%d+),(%d+)$"
  start, live = math.tointeger(tonumber(start or word)), math.tointeger(tonumber(live or word))
  if not start or not live then
    return nil, errors.new("T0104", {message = ("--resize: `%s` is no number of seconds, nor START,LIVE"):format(word)})
  end
  return {start = start, live = live}
end

local function params_of(settings)
  local params
  for _, setting in ipairs(settings or {}) do
    local name, value = setting:match "^([%w_]+)=(.+)$"
    if not name then
      return nil, errors.new("T0104", {message = ("--set: `%s` is no NAME=X"):format(setting)})
    end
    params = params or {}
    if value == "true" or value == "false" then params[name] = value == "true"
    else params[name] = tonumber(value) or value end
  end
  return params
end

local function record_of(context, workload, r)
  local record = {schema = "tide.sim-jobs/1", workload = workload, policy = r.policy, jobs = #r.jct,
    jct_s = r.jct:mean(),
    p50_s = r.jct:quantile(0.5), p90_s = r.jct:quantile(0.9), p99_s = r.jct:quantile(0.99), makespan_s = r.makespan,
    last_s = r.last, resizes = r.resizes, wait_s = r.wait:mean(), rho_mean = r.rho:mean(), rho_max = r.rho:max(),
    held_slot_hours = r.held_slot_hours, used_slot_hours = r.used_slot_hours, node_hours = r.node_hours,
    decisions = r.decisions, decision_ms = r.decision_ms, faults = r.faults, persons = r.persons,
    contended = r.contended, cancelled = r.cancelled, by_app = {}}
  for name, list in pairs(r.by_app) do record.by_app[name] = list:mean() end
  record.each = context.options.each and r.jobs or nil
  return record
end

local COLUMNS <const> = {
  {"workload", "%s"}, {"policy", "%s"}, {"jobs", "%d"}, {"jct_s", "%.1f"}, {"p50_s", "%.0f"}, {"p99_s", "%.0f"},
  {"makespan_s", "%.0f"}, {"resizes", "%.1f"}, {"rho_max", "%.2f"}, {"node_hours", "%.1f"}, {"decision_ms", "%.2f"},
}

local function show(context, records)
  local rows = {{}}
  for c, column in ipairs(COLUMNS) do rows[1][c] = column[1]:upper():gsub("_", " ") end
  for _, record in ipairs(records) do
    local row = {}
    for c, column in ipairs(COLUMNS) do row[c] = column[2]:format(record[column[1]]) end
    rows[#rows + 1] = row
  end
  if context.plain then
    for i = 2, #rows do context:print(table.concat(rows[i], "\t")) end
    return
  end
  local widths = {}
  for _, row in ipairs(rows) do
    for c, word in ipairs(row) do widths[c] = math.max(widths[c] or 0, #word) end
  end
  for _, row in ipairs(rows) do
    local cells = {}
    for c, word in ipairs(row) do cells[c] = text.pad(word, widths[c], c > 2) end
    context:print((table.concat(cells, "  "):gsub("%s+$", "")))
  end
end

local function name_of(path) return path:match "[^/]*$" end

function command.run(context)
  local o <const> = context.options
  if #o.workload == 0 then
    return nil, errors.new("T0103", {message = "`tide sim jobs`: a workload is missing",
      help = "tide sim jobs workload.csv --profiles DIR"})
  end
  local folder, resize, params, err = o.profiles, nil, nil, nil
  if not folder then folder, err = find_profiles(o.workload[1]) end
  if not err then resize, err = resize_of(o.resize) end
  if not err then params, err = params_of(o.set) end
  if err then return nil, err end
  local policies <const> = o.policy and #o.policy > 0 and o.policy or {"scheduling/goodput"}
  local records, charted = {}, {}
  local sim = require("tide.sim.jobs").new {profiles = folder, nodes = o.nodes, slots = o.slots, every = o.every,
    resize = resize, interference = o.interference, events = o.events, nodes_min = o.min_nodes or
    (o.max_nodes and 1), nodes_max = o.max_nodes, shares = o.shares}
  for _, policy in ipairs(policies) do
    for _, workload in ipairs(o.workload) do
      local r = sim:run {workload = workload, policy = policy, params = params, seed = o.seed}
      records[#records + 1] = record_of(context, name_of(workload), r)
      if context.json then context:print(context.core.json_encode(records[#records])) end
      if workload == o.workload[1] then charted[#charted + 1] = r end
      if r.faults > 0 then
        context:say(("warning: %d decisions of %s failed: %s"):format(r.faults, policy, r.fault))
      end
    end
  end
  if not context.json then show(context, records) end
  if o.chart then
    local ok, why = chart.write(o.chart, require("tide.sim.jobs").charts(charted))
    if not ok then return nil, errors.from(why) end
    context:say("charts of " .. name_of(o.workload[1]) .. " in " .. text.clean(o.chart))
  end
  return 0
end

return command
