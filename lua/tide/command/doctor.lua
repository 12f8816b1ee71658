-- `tide doctor`: is this machine fit for Tide?
local cluster_view = require "tide.cluster.view"
local collect = require "tide.cluster.collect"
local doctor = require "tide.cluster.doctor"
local errors = require "tide.errors"
local text = require "tide.text"

local MARKS <const> = {ok = "ok", warn = "warn", fail = "FAIL"}
local COLOURS <const> = {ok = "\27[32m", warn = "\27[33m", fail = "\27[31m"}

local function print_row(context, row)
  if context.json then
    context:record(row)
  elseif context.plain then
    context:print(table.concat({row.status, row.check, text.clean(row.value), text.clean(row.remedy or "")}, "\t"))
  else
    local mark = text.pad(MARKS[row.status], 4)
    if context:colored "stdout" then mark = COLOURS[row.status] .. mark .. "\27[0m" end
    context:print(("%s  %s  %s"):format(mark, text.pad(row.check, 14), text.clean(row.value)))
    if row.remedy and row.status ~= "ok" then context:print("      " .. text.clean(row.remedy)) end
  end
end

return {
  name = "doctor",
  brief = "is this machine fit for Tide?",
  summary = "Checks what matters to Tide on this machine: limits, memory, shared memory, directories, clock, BLAS, "
    .. "GPU; with --listen whether an address is free, with --cluster also the nodes of that cluster. Each line is ok, "
    .. "warn or FAIL with what to do; one FAIL makes exit code 1.",
  examples = {
    {"tide doctor", "this machine"},
    {"tide doctor --listen tcp:127.0.0.1:7000", "and whether a node may listen there"},
    {"tide doctor --cluster lab", "and clocks and round trips of the nodes of lab"},
    {"tide doctor --json", "a JSON object a check"},
  },
  options = {
    {name = "cluster", type = "string", value = "C", doc = "name or endpoint of a cluster whose nodes are looked at"},
    {name = "listen", type = "string", value = "ADDRESS", doc = "an address that a node is to listen on"},
  },
  schema = "tide.check/1",
  run = function(context)
    local o <const> = context.options
    if o.cluster and o.listen then
      return nil, errors.new("T0107", {message = "--listen and --cluster exclude each other",
        help = "tide doctor --listen ADDRESS, then: tide doctor --cluster C"})
    end
    local snapshot
    if o.cluster then
      local err
      snapshot, err = cluster_view.attached(context, function()
        return collect.ask()
      end)
      if not snapshot then return nil, err end
    end
    local failed = false
    for _, row in ipairs(doctor.look {listen = o.listen, keys = context.keys, snapshot = snapshot}) do
      print_row(context, row)
      failed = failed or row.status == "fail"
    end
    return failed and 1 or 0
  end,
}
