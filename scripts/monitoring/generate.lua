-- Writes what the list of metrics (lua/tide/show/metrics.lua) determines: the table of docs/guides/metrics.md, the
-- dashboard for Grafana and the alert rules. `lua5.4 scripts/monitoring/generate.lua` writes them, `... --check` names
-- those that are out of date and exits with 1.
local root <const> = (arg and arg[0] or ""):match "^(.*)/scripts/monitoring/[^/]*$" or "."
package.path = root .. "/lua/?.lua;" .. package.path
local metrics = require "tide.show.metrics"
local known <const> = {}

local function read(path)
  local file <const> = assert(io.open(root .. "/" .. path, "rb"))
  local text <const> = file:read "a"
  file:close()
  return text
end

---- the page ---------------------------------------------------------------------------------------------------------

local function table_of_families()
  local lines = {"| metric | kind | labels | what it says |", "|---|---|---|---|"}
  for _, family in ipairs(metrics.families) do
    local name <const> = family.kind == "counter" and family.name .. "_total" or family.name
    known[name] = true
    lines[#lines + 1] = ("| `%s` | %s | %s | %s |"):format(name, family.kind,
      #family.labels > 0 and "`" .. table.concat(family.labels, "` `") .. "`" or "", family.help)
  end
  return table.concat(lines, "\n")
end

local function page()
  local text <const> = read "docs/guides/metrics.md"
  local head <const>, tail <const> = text:match "^(.-%-%-%>\n)", text:match "\n(<!%-%- end %-%->.*)$"
  return head .. "\n" .. table_of_families() .. "\n\n" .. tail
end

---- JSON, with the order of fields as written ------------------------------------------------------------------------

local function encode(value, indent)
  local inner <const> = indent .. "  "
  if type(value) == "string" then
    return '"' .. value:gsub('[\\"]', "\\%0"):gsub("\n", "\\n") .. '"'
  elseif type(value) ~= "table" then
    return tostring(value)
  end
  local parts = {}
  if value[1] and type(value[1]) == "table" and value[1].key then
    for i, pair in ipairs(value) do parts[i] = inner .. encode(pair.key, "") .. ": " .. encode(pair.value, inner) end
    return "{\n" .. table.concat(parts, ",\n") .. "\n" .. indent .. "}"
  end
  for i, item in ipairs(value) do parts[i] = inner .. encode(item, inner) end
  return #parts == 0 and "[]" or "[\n" .. table.concat(parts, ",\n") .. "\n" .. indent .. "]"
end

-- object("a", 1, "b", 2): fields in this order.
local function object(...)
  local words <const>, fields = table.pack(...), {}
  for i = 1, words.n, 2 do fields[#fields + 1] = {key = words[i], value = words[i + 1]} end
  return fields
end

-- Every metric that a formula names is one that there is.
local function checked(formula)
  for name in formula:gmatch "tide_[%w_]+" do
    local family <const> = name:gsub("_bucket$", ""):gsub("_count$", ""):gsub("_sum$", "")
    assert(known[name] or known[family], "no such metric: " .. name)
  end
  return formula
end

local PANELS <const> = {
  {"Examples a second", "none", {"tide_run_examples_per_second", "{{run}}"}},
  {"Loss", "none", {"tide_run_loss", "{{run}}"}},
  {"Share of keys that are local", "percentunit",
   {'sum by (table) (rate(tide_pulled_keys_total{where="local"}[1m]))'
    .. " / sum by (table) (rate(tide_pulled_keys_total[1m]))", "{{table}}"}},
  {"Where workers wait", "percentunit",
   {"sum by (run, reason) (rate(tide_worker_wait_seconds_total[1m]))"
    .. " / on (run) group_left sum by (run) (tide_run_workers)", "{{run}}: {{reason}}"}},
  {"Waiting for tables, p99", "s",
   {"histogram_quantile(0.99, sum by (table, operation, le) (rate(tide_table_wait_seconds_bucket[1m])))",
    "{{table}} {{operation}}"}},
  {"Stores: busy", "percentunit", {"rate(tide_store_busy_seconds_total[1m])", "{{node}}"}},
  {"Waiting for homes", "percentunit", {"sum by (home) (rate(tide_home_wait_seconds_total[1m]))", "{{home}}"}},
  {"Bytes sent", "Bps", {"sum by (node) (rate(tide_link_sent_bytes_total[1m]))", "{{node}}"}},
  {"Round trips", "s", {"tide_link_round_trip_seconds", "{{node}} to {{peer}}"}},
  {"Memory", "bytes", {"tide_resident_memory_bytes", "{{node}}"}},
  {"Processor time", "percentunit", {"rate(tide_process_cpu_seconds_total[1m])", "{{node}}"}},
  {"Mail that waits", "none", {"sum by (node) (tide_mailbox_messages)", "{{node}}"}},
  {"Decisions of policies", "none", {"rate(tide_policy_decisions_total[1m])", "{{run}}: {{seat}}"}},
  {"Nodes up", "none", {"sum(tide_node_up)", "up"}},
}

local function dashboard()
  local source <const> = object("type", "prometheus", "uid", "${datasource}")
  local panels = {}
  for i, p in ipairs(PANELS) do
    local row <const>, column <const> = (i - 1) // 2, (i - 1) % 2
    panels[i] = object("id", i, "type", "timeseries", "title", p[1], "datasource", source,
      "gridPos", object("h", 8, "w", 12, "x", 12 * column, "y", 8 * row),
      "fieldConfig", object("defaults", object("unit", p[2])),
      "targets", {object("refId", "A", "expr", checked(p[3][1]), "legendFormat", p[3][2])})
  end
  return encode(object("title", "Tide", "uid", "tide", "schemaVersion", 36, "refresh", "10s",
    "time", object("from", "now-30m", "to", "now"), "tags", {"tide"},
    "templating", object("list", {object("name", "datasource", "type", "datasource", "query", "prometheus")}),
    "panels", panels), "") .. "\n"
end

---- alerts -----------------------------------------------------------------------------------------------------------

local ALERTS <const> = {
  {"TideNodeDown", "tide_node_up == 0", "30s", "critical", "Node {{ $labels.node }} does not answer"},
  {"TideMemoryNearCap", "tide_memory_used_bytes / tide_memory_cap_bytes > 0.9", "2m", "warning",
   "Node {{ $labels.node }} has used {{ $value | humanizePercentage }} of its memory cap"},
  {"TideRunStalls", 'increase(tide_run_reports_total[10m]) == 0 and on (run) tide_run_info{state="running"}', "5m",
   "warning", "Run {{ $labels.run }} has reported nothing for ten minutes"},
  {"TideLossNotFinite", "tide_run_loss != tide_run_loss", "0m", "critical",
   "The loss of run {{ $labels.run }} is no number"},
  {"TideStoreBusy", "rate(tide_store_busy_seconds_total[5m]) > 0.9", "5m", "warning",
   "The store of {{ $labels.node }} is busy all the time: workers wait for it"},
  {"TidePolicyFaults", "increase(tide_policy_faults_total[5m]) > 0", "0m", "warning",
   "The policy of seat {{ $labels.seat }} of run {{ $labels.run }} fails"},
  {"TideUpdatesLost", "tide_lost_updates_total > 0", "0m", "critical",
   "Writes of table {{ $labels.table }} went with a lost node"},
}

local function alerts()
  local lines = {"# Made by scripts/monitoring/generate.lua.", "groups:", "  - name: tide", "    rules:"}
  for _, a in ipairs(ALERTS) do
    local rule <const> = "      - alert: %s\n        expr: '%s'\n        for: %s\n"
      .. "        labels:\n          severity: %s"
    lines[#lines + 1] = rule:format(a[1], checked(a[2]):gsub("'", "''"), a[3], a[4])
    lines[#lines + 1] = ("        annotations:\n          summary: '%s'"):format((a[5]:gsub("'", "''")))
  end
  return table.concat(lines, "\n") .. "\n"
end

---- main -------------------------------------------------------------------------------------------------------------

local MADE <const> = {
  {"docs/guides/metrics.md", page}, {"scripts/monitoring/grafana.json", dashboard},
  {"scripts/monitoring/alerts.yml", alerts},
}

local check <const> = arg and arg[1] == "--check"
local stale = false
for _, each in ipairs(MADE) do
  local text <const> = each[2]()
  if check then
    if read(each[1]) ~= text then
      stale = true
      io.stderr:write(each[1], " is out of date: lua5.4 scripts/monitoring/generate.lua\n")
    end
  else
    local file <const> = assert(io.open(root .. "/" .. each[1], "wb"))
    file:write(text)
    file:close()
  end
end
os.exit(not stale)
