-- What happened in a cluster, for people: nodes, controllers and slots by the runtime, runs by their controllers.
--
-- Every node keeps the newest events that it saw (core.events). A run's controller lives in the driver's process, which
-- may end at any time, so it notifies the agents of up to three nodes of the run; a reader takes what several nodes
-- say of the same thing as one.
local core = require "tide.core"
local errors = require "tide.errors"
local units = require "tide.units"

local events = {}

local WITNESSES <const> = 3
local SAME_S <const> = 10 -- the same text within this time, from another node, is the same event

local TEXTS <const> = {
  started = function(_, c)
    return "run", ("job %s started: %d workers on %d nodes"):format(c.a.job, #c.workers, #c.a.nodes)
  end,
  finished = function(_, c) return "run", ("job %s finished"):format(c.a.job) end,
  failed = function(e, c)
    return "run", ("job %s failed: %s"):format(c.a.job, errors.line(errors.from(e.error)))
  end,
  lost = function(e, c)
    return "run", ("job %s continues without %d workers of %s: %s"):format(c.a.job, e.workers, e.node, e.reason)
  end,
  checkpoint = function(e, c)
    return "checkpoint", ("job %s: generation %d, clock %s, %s in %.2f s"):format(c.a.job, e.generation,
      tostring(e.clock or "-"), units.format_size(e.bytes or 0), e.took_s or 0)
  end,
  params = function(e, c)
    local parts = {}
    for _, name in ipairs(require("tide.text").sorted_keys(e.changes)) do
      parts[#parts + 1] = ("%s = %s"):format(name, tostring(e.changes[name]))
    end
    return "run", ("job %s: %s set"):format(c.a.job, table.concat(parts, ", "))
  end,
  scale = function(e, c) return "run", ("job %s: %s servers requested"):format(c.a.job, tostring(e.servers)) end,
  policy = function(e)
    return "policy", ("%s: %s: %s%s"):format(e.seat, e.policy, e.reason or e.what, e.now and "; now " .. e.now or "")
  end,
}

local VERBS <const> = {swap = true, rollback = true, set = true}

local function tell(controller, kind, text)
  controller:record_event(kind, text)
  local told = 0
  for _, node in ipairs(controller.a.nodes) do
    if not node.lost and told < WITNESSES then
      core.send(node.agent, {op = "event", kind = kind, text = text}, "answer")
      told = told + 1
    end
  end
end

---An event of a run, as its controller sends it to the driver.
---@param controller table of tide.controller
---@param event table
function events.of_run(controller, event)
  local f <const> = TEXTS[event.kind]
  if f then tell(controller, f(event, controller)) end
end

---A policy verb that was carried out.
---@param controller table of tide.controller
---@param verb string
---@param answer table of the policy host
function events.of_policy(controller, verb, answer)
  if VERBS[verb] then
    tell(controller, "policy", ("%s: %s -> %s by %s"):format(answer.seat, answer.old, answer.new, verb))
  end
end

---The number of a run's workers is changed; an order that comes again changes nothing.
---@param controller table of tide.controller
---@param before integer
---@param now integer
---@param why string its requester
function events.of_resize(controller, before, now, why)
  if before ~= now and controller.size_told ~= now then
    controller.size_told = now
    tell(controller, "run", ("job %s: %d -> %d workers: %s"):format(controller.a.job, before, now, why))
  end
end

---One list of the events of several nodes, oldest first.
---@param answers table[] {node=, events={{number=, time=, kind=, text=}, ..}}
---@return table[] rows {time=, kind=, node=, text=}: the node that saw it first
function events.merge(answers)
  local all, last = {}, {}
  for _, answer in ipairs(answers) do
    for _, e in ipairs(answer.events) do
      all[#all + 1] = {time = e.time, kind = e.kind, node = answer.node, text = e.text, number = e.number}
    end
  end
  table.sort(all, function(a, b)
    if a.time ~= b.time then return a.time < b.time end
    if a.node ~= b.node then return a.node < b.node end
    return a.number < b.number
  end)
  local rows = {}
  for _, e in ipairs(all) do
    local key <const> = e.kind .. "\0" .. e.text
    local before <const> = last[key]
    if not before or before.nodes[e.node] or e.time - before.time > SAME_S then
      rows[#rows + 1] = {time = e.time, kind = e.kind, node = e.node, text = e.text}
      last[key] = {time = e.time, nodes = {[e.node] = true}}
    else
      before.nodes[e.node] = true
    end
  end
  return rows
end

return events
