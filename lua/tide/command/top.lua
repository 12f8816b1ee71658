-- `tide top`: the nodes and the busiest actors, redrawn in place; without a terminal once.
local arguments = require "tide.cli.arguments"
local cluster_view = require "tide.cluster.view"
local table_view = require "tide.show.table_view"
local text = require "tide.text"
local units = require "tide.units"

local EVERY_S <const> = 1
local EVERY_MIN_S <const> = 0.2
local HOME <const>, TO_LINE_END <const>, TO_SCREEN_END <const> = "\27[H", "\27[K", "\27[J"
-- The alternate screen, without cursor, and without wrapping: lines that do not fit are cut.
local ENTER <const>, LEAVE <const> = "\27[?1049h\27[?25l\27[?7l", "\27[?7h\27[?25h\27[?1049l"
local HEIGHT <const> = 24 -- lines, where there is no terminal
local HEADS <const> = 3 -- lines above the actors

local COLUMNS <const> = {
  {key = "address"}, {key = "node"}, {key = "name"}, {key = "type"},
  {key = "busy_share", title = "busy", format = "share"},
  {key = "messages_per_s", title = "messages/s", format = "count"},
  {key = "mailbox_messages", title = "mailbox", format = "count"},
  {key = "waits_for", title = "waits for"}, {key = "waits_s", title = "since", format = "duration"},
}

-- What each actor did since the view before; without one, since it started.
local function add_rates(view, before)
  local seconds <const> = before and view.at - before.at
  for _, actor in ipairs(view.actors) do
    local old = before and before.by_address[actor.address]
    if old and seconds > 0 then
      actor.busy_share = math.max((actor.handling_s or 0) - (old.handling_s or 0), 0) / seconds
      actor.messages_per_s = math.max((actor.messages_handled or 0) - (old.messages_handled or 0), 0) / seconds
    end
  end
  view.by_address = {}
  for _, actor in ipairs(view.actors) do view.by_address[actor.address] = actor end
end

local function busiest(view)
  local function weight(actor)
    return actor.messages_per_s or actor.messages_handled or 0
  end
  local rows = table.move(view.actors, 1, #view.actors, 1, {})
  table.sort(rows, function(a, b)
    if weight(a) ~= weight(b) then return weight(a) > weight(b) end
    return a.address < b.address
  end)
  return rows
end

-- The node that is nearest to its memory cap.
local function cap_of(node)
  return node and ("  %s: %s of %s, %s"):format(text.clean(node.name), units.format_size(node.memory_used_bytes),
    units.format_size(node.memory_cap_bytes), node.memory_tier) or ""
end

local function lines_of(context, view, limit)
  local up, rss, fullest = 0, 0, nil
  for _, node in ipairs(view.nodes) do
    up = up + (node.state == "up" and 1 or 0)
    rss = rss + (node.rss_bytes or 0)
    if node.memory_share and (not fullest or node.memory_share > fullest.memory_share) then fullest = node end
  end
  local rows = {}
  for i, actor in ipairs(busiest(view)) do
    if i > limit then break end
    rows[i] = actor
  end
  local lines = {("cluster %s  %d nodes up  %d actors  %d tables  %s"):format(text.clean(view.cluster or "?"), up,
    #view.actors, #view.tables, units.format_size(rss)) .. cap_of(fullest), ""}
  table.move(context:table_lines(rows, COLUMNS), 1, limit + 1, 3, lines)
  return lines
end

local function print_once(context, view)
  if context.json then
    context:record({cluster = view.cluster}, {actors = busiest(view),
      nodes = view.nodes})
  elseif context.plain then
    context:print(table.concat(table_view.plain_lines(busiest(view), COLUMNS), "\n"))
  else
    context:print(table.concat(lines_of(context, view, HEIGHT - HEADS - 1), "\n"))
  end
  return 0
end

local function is_left()
  local key <const> = require("tide.line").key()
  return key == "q" or key == "Q"
end

local function redraw(context, client)
  local core <const> = context.core
  local every <const> = math.max(context.options.every or EVERY_S, EVERY_MIN_S)
  local deadline <const> = context.timeout_s and core.now() + context.timeout_s
  local before
  while true do
    local view, err = cluster_view.collect(context, client)
    if not view then return nil, err end
    view.at = core.now()
    add_rates(view, before)
    local terminal <const> = core.terminal() -- it may have been resized
    context.terminal.width = terminal.width
    local lines <const> = lines_of(context, view, math.max(terminal.height - HEADS, 1))
    for i, line in ipairs(lines) do lines[i] = text.harmless(line) end
    context.write_out(HOME .. table.concat(lines, TO_LINE_END .. "\n") .. TO_LINE_END .. TO_SCREEN_END)
    before = view
    local exit <const> = cluster_view.pause(core, every, deadline, is_left)
    if exit then return exit == 124 and 124 or 0 end -- q and Ctrl-C are how one leaves it
  end
end

return {
  name = "top",
  brief = "nodes and the busiest actors, redrawn",
  summary = "Shows a running cluster's busiest actors, redrawn each second until q or Ctrl-C.",
  examples = {
    {"tide top", "the one cluster that runs"},
    {"tide top --cluster lab --every 5s", "every five seconds"},
    {"tide top --json", "once, as one JSON object"},
  },
  options = {
    arguments.shared.cluster,
    {name = "every", type = "duration", doc = "time between two drawings (default 1s)"},
  },
  schema = "tide.top/1",
  run = function(context)
    local drawn <const> = context.terminal.stdout and not context.json and not context.plain
      and context.getenv "TERM" ~= "dumb"
    return cluster_view.attached(context, function(client)
      if not drawn then
        local view, err = cluster_view.collect(context, client)
        if not view then return nil, err end
        return print_once(context, view)
      end
      local line <const> = require "tide.line" -- of the program alone
      context.write_out(ENTER)
      line.keys(context.terminal.stdin)
      local ok, code, err = pcall(redraw, context, client)
      line.keys(false)
      context.write_out(LEAVE)
      if not ok then error(code, 0) end
      return code, err
    end)
  end,
}
