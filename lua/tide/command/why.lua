-- `tide why`: the bottleneck of each run, or what an actor waits for.
local arguments = require "tide.cli.arguments"
local cluster_view = require "tide.cluster.view"
local collect = require "tide.cluster.collect"
local errors = require "tide.errors"
local listing = require "tide.command.listing"
local slowest = require "tide.show.slowest"
local stacks = require "tide.cluster.stacks"
local text = require "tide.text"
local why = require "tide.show.why"

local LOOK_S <const>, LOOK_MIN_S <const> = 2, 0.1

-- Takes two samples and names the bottleneck of each run between them.
local function runs(context)
  local before, err = collect.ask()
  if not before then return nil, err end
  local deadline <const> = context.timeout_s and context.core.now() + context.timeout_s
  local exit <const> = cluster_view.pause(context.core, math.max(context.options["for"] or LOOK_S, LOOK_MIN_S),
    deadline)
  if exit then return exit end
  local after
  after, err = collect.ask {hot = true}
  if not after then return nil, err end
  local findings <const> = slowest.of(before, after)
  stacks.add_lines(findings, stacks.ask() or {})
  for _, finding in ipairs(findings) do
    if context.json then
      context:record(finding)
    elseif context.plain then
      context:print(table.concat({finding.run, finding.cause, ("%.3f"):format(finding.share),
        text.clean(finding.sentence)}, "\t"))
    else
      for _, line in ipairs(slowest.lines(finding)) do context:print(text.clean(line)) end
    end
  end
  if #findings == 0 then context:say "no active runs" end
  return 0
end

return {
  name = "why",
  brief = "the bottleneck of each run, or what an actor waits for",
  summary = "Names the bottleneck of each active run, what to try, and the evidence. With an "
    .. "actor it follows what that one waits for, from actor to actor, as far as it is known.",
  examples = {
    {"tide why", "the bottleneck of each run, by a sample of two seconds"},
    {"tide why --for 20s", "the same by what happens in twenty"},
    {"tide why n1/agent", "an actor by its node and name"},
    {"tide why 2:17", "by its address, as `tide actors` shows it"},
  },
  arguments = {{name = "actor", optional = true, doc = "NODE/NAME, NODE/TYPE or an address"}},
  options = {
    arguments.shared.cluster,
    {name = "for", type = "duration", doc = "time between the two samples (default 2s)"},
  },
  schema = "tide.finding/1",
  run = function(context)
    if context.options.actor and context.options["for"] then
      return nil, errors.new("T0105", {message = "--for applies to runs and not to an actor"})
    end
    return cluster_view.attached(context, function(client)
      if not context.options.actor then return runs(context) end
      local view, err = cluster_view.collect(context, client)
      if not view then return nil, err end
      local rows, problem = why.chain(view.actors, context.options.actor)
      if not rows then return nil, problem end
      context.schema = "tide.why/1" -- of steps, not of findings
      return listing.print(context, rows, why.COLUMNS)
    end)
  end,
}
