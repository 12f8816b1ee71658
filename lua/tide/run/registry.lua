-- The workers of a run by rank. Methods of tide.controller.
--
-- A rank is a slot of this list. The rank of a worker that is gone is given to another one, so an elastic run has as
-- many ranks as it had workers at one time, whatever joins and leaves. The *life* of a worker distinguishes those of
-- one rank apart: a worker says it with each message, and what a former one still says is dropped. Its random numbers
-- are a stream of its own, which no other worker of the run has had.
--
-- Workers of one rank are never taken for one another by their peers, which know each other by rank: a rank is free
-- when two reports of all were complete without its worker, or when no worker is left that knew it.
local core = require "tide.core"

local methods <const> = {}
local registry = {methods = methods}

local REPORTS <const> = 2
local IS_THERE <const> = {starting = true, ready = true, running = true, joining = true, waiting = true}

-- The lowest unused rank.
local function free_rank(self)
  local knows = false
  for _, w in ipairs(self.workers) do knows = knows or w.state ~= "lost" end
  for rank, w in ipairs(self.workers) do
    if w.state == "lost" and (not knows or self.clock >= w.gone_at + REPORTS) then return rank end
  end
  return #self.workers + 1
end

---A worker that is to start on a node.
---@param node table
---@param state "starting"|"joining"
---@return table worker {rank, life, stream, node, state}
function methods:new_worker(node, state)
  local rank <const> = free_rank(self)
  self.lives, self.streams = (self.lives or 0) + 1, (self.streams or 0) + 1
  local w <const> = {rank = rank, life = self.lives, stream = self.streams, node = node, state = state}
  self.workers[rank], self.records[rank] = w, nil
  node.ranks[#node.ranks + 1] = rank
  return w
end

---What an agent is asked to start workers.
---@param list table[] workers of one node
---@param count integer workers of the run
---@param resume? table[] where each continues
function methods:start_request(list, count, resume)
  local request <const> = {op = "start", run = self.a.run, job = self.a.job, ranks = {}, lives = {}, streams = {},
    workers = count, crowded = self.crowded, seed = self.a.seed, params = self.params, tables = self.a.tables,
    domain = self.a.domain, resume = resume, keeps = self.job.checkpoint ~= nil}
  for i, w in ipairs(list) do
    request.ranks[i], request.lives[i], request.streams[i] = w.rank, w.life, w.stream
  end
  return request
end

---Learns of the end of a node's agent, or of a worker.
---@param actor table of nodes or workers
---@param what {node?: table, worker?: table} what has ended then
function methods:watch(actor, what)
  actor.monitor = actor.monitor or core.monitor(actor.agent or actor.address)
  if actor.monitor then self.monitors[actor.monitor] = what end
end

function methods:unwatch(actor)
  if not actor.monitor then return end
  core.demonitor(actor.monitor)
  self.monitors[actor.monitor], actor.monitor = nil, nil
end

---Sends a worker what it waits for, or an order. This never blocks: a worker that blocks as it sends to the controller
---would never read what the controller blocks on. The protocol bounds how many there are.
---@param w table
---@param message table
function methods.send_worker(_, w, message) core.send(w.address, message, "answer") end

---Ends a worker that is not needed any more.
---@param node table
---@param address string
function methods:end_worker(node, address)
  core.send(node.agent, {op = "end_worker", run = self.a.run, address = address}, "answer")
end

---A worker is gone: nothing is expected of it, and its rank is another one's soon.
function methods:retire(w)
  if w.state == "lost" then return end
  w.state, w.waits, w.later, w.gone_at, self.has_retired = "lost", nil, nil, self.clock, true
  self:unwatch(w)
  for i, rank in ipairs(w.node.ranks) do
    if rank == w.rank then table.remove(w.node.ranks, i) end
  end
end

---@return table[] workers that are there to stay, the newest first
function methods:staying()
  local list = {}
  for _, w in ipairs(self.workers) do
    if IS_THERE[w.state] and not w.dropped and not w.node.lost then list[#list + 1] = w end
  end
  table.sort(list, function(a, b) return a.life > b.life end)
  return list
end

---Nodes that joined the run and are gone are forgotten.
function methods:forget_nodes()
  for i = #self.a.nodes, 1, -1 do
    local node <const> = self.a.nodes[i]
    if node.lost and node.late and not node.leaver then
      self:unwatch(node)
      table.remove(self.a.nodes, i) -- in place: policies have the same list
    end
  end
end

return registry
