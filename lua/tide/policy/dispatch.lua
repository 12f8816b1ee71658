-- The dispatch seat of a job whose data is cut into chunks: what its policy sees of them and of the workers' speeds,
-- and what becomes of its queues. The chunks themselves are the controller's (chunks.lua); nothing of a policy runs
-- when one is handed out.
local core = require "tide.core"

local dispatch = {}
dispatch.__index = dispatch

---@param controller table of tide.controller
---@param samples_max integer
---@param started_at number the clock of the run's policies counts from here
function dispatch.new(controller, samples_max, started_at)
  local self = setmetatable({controller = controller, samples_max = samples_max, started_at = started_at, speeds = {}},
    dispatch)
  for rank = 1, #controller.workers do self:expect(rank) end
  return self
end

---A worker that is there or is to come.
function dispatch:expect(rank) self.speeds[rank] = {examples = {}, seconds = {}} end

---@param view table gets chunks and queues; its workers get the times of their chunks
---@param want table<string, boolean> signals
function dispatch:fill(view, want)
  local set <const> = self.controller.chunks
  view.chunks, view.queue, view.job.pass = set:list(), {}, set.pass
  view.job.examples, view.job.chunk_examples = set.count, set:size_wanted()
  for _, chunk in ipairs(view.chunks) do chunk.since = chunk.since and chunk.since - self.started_at end
  for _, w in ipairs(view.workers) do
    local waits = self.controller.workers[w.id].waits
    view.queue[w.id] = table.move(set:queue_of(w.id), 1, #set:queue_of(w.id), 1, {})
    w.idle = waits ~= nil and waits.kind == "chunk"
    if want["chunk.times"] then
      local s = self.speeds[w.id]
      w.chunk = {examples = table.move(s.examples, 1, #s.examples, 1, {}),
                 seconds = table.move(s.seconds, 1, #s.seconds, 1, {})}
    end
  end
end

---@return true|nil, string? why
function dispatch:apply(action)
  if action.field == "backup" then return nil, "what two workers push of one chunk would count twice" end
  if action.field == "chunk_examples" then
    self.controller.chunks:resize(action.value)
    return true
  end
  if action.field ~= "queue" then return nil, ("a job cannot carry out `%s` here"):format(action.field) end
  local w = self.controller.workers[action.id]
  if w.state == "running" and (not w.waits or w.waits.kind == "chunk") then -- else it takes none now
    self.controller.chunks:assign(action.id, action.value)
    self.changed = true
  end
  return true
end

---A worker has completed a chunk.
---@return number seconds it took
function dispatch:completed(rank, examples, since)
  local s, seconds = self.speeds[rank], core.now() - since
  s.examples[#s.examples + 1], s.seconds[#s.seconds + 1] = examples, seconds
  if #s.examples > self.samples_max then
    table.remove(s.examples, 1)
    table.remove(s.seconds, 1)
  end
  return seconds
end

return dispatch
