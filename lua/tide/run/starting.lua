-- A run whose nodes die while it starts begins anew. Methods of tide.controller.
--
-- Nothing has been done yet: the workers of the attempt are ended and others start, with ranks from 1. So it is for
-- every job, also one that is bound to ranks. A lost node that had no workers of the run leaves it its slots. For one
-- that had some, a run on a shared cluster gives all its slots back and waits for others, as at the beginning; a run on
-- its script's own cluster starts on the nodes that are left, if its job survives the loss of workers. Rows that died
-- with a node end the run in any case (losses.lua).
local core = require "tide.core"
local errors = require "tide.errors"
local keeper = require "tide.keeper"
local losses = require "tide.run.losses"
local script = require "tide.script"
local text = require "tide.text"

local methods <const> = {}
local starting = {methods = methods}

local GRANT_S <const> = 7 * 24 * 3600

---A node of which a run was granted slots. Where none of that name is up any more it is `gone`: a reason to wait for
---other slots.
---@param name string
---@return table node {name, id, agent, workers = 0, store, gone}
function starting.node_named(name)
  for _, member in ipairs(core.members()) do
    local agent <const> = member.name == name and member.state == "up" and core.whereis(name .. "/agent")
    if agent then return {name = name, id = member.id, agent = agent, workers = 0, store = member.store} end
  end
  return {name = name, id = 0, workers = 0, gone = "it was gone before the run started"}
end

---@return boolean whether its workers have not begun
function methods:is_starting() return self.ready < (self.worker_count or 1) end

---A node of the run as `begin` has them, of a member that is up.
---@param name string
---@return table|nil node
function methods.node_of(_, name)
  local node <const> = starting.node_named(name)
  if node.gone then return nil end
  node.ranks, node.late = {}, true
  return node
end

---A worker of this attempt has an address.
function methods:has_started(rank, address)
  local w <const> = self.workers[rank]
  w.address = address
  self:watch(w, {worker = w})
  self.live = self.live + 1
end

---Before an attempt: nodes that are gone by now. Raises what begins another attempt.
function methods:leave_out_gone()
  for i = #self.a.nodes, 1, -1 do
    local node <const> = self.a.nodes[i]
    local reason <const> = node.gone or losses.gone(node)
    if reason and node.workers > 0 then
      error(errors.new("T0509", {message = ("node %s: %s"):format(node.name, reason), node = node.name}), 0)
    elseif reason then
      self:lose_node(node, reason)
      if self.failed then error(self.failed, 0) end
      table.remove(self.a.nodes, i)
    end
  end
end

-- Ends the workers of this attempt.
local function give_up(self, why)
  for _, w in ipairs(self.workers) do
    if w.address and not w.node.lost then
      self:end_worker(w.node, w.address)
    end
    self:retire(w)
  end
  self.workers, self.streams, self.live, self.ready, self.suspect, self.chunks = {}, 0, 0, 0, nil, nil
  self.waits_to_start = why
end

-- Deals with the nodes of this attempt that are known to be lost by now.
---@return boolean whether there are any
---@return boolean whether one of them had workers
local function look_for_lost(self)
  local any, with_workers = false, false
  local node, reason = self:find_lost()
  while node do
    self:lose_node(node, reason)
    node, reason = self:find_lost()
  end
  for _, each in ipairs(self.a.nodes) do
    any, with_workers = any or each.lost == true, with_workers or each.lost == true and each.workers > 0
  end
  return any, with_workers
end

-- The slots of this attempt.
local function same_slots(self)
  local grant = {}
  for _, node in ipairs(self.a.nodes) do grant[node.name] = not node.lost and node.workers or nil end
  return {grant = grant}
end

---Abandons this attempt and begins another one: on other slots when a node with workers is lost, else on the same.
---@param why string
---@param err? table the error, where it is not known yet whether a node is lost
function methods:start_anew(why, err)
  give_up(self, why)
  local function say(what) self:emit {kind = "log", text = why .. ": it " .. what} end
  core.fiber(function()
    local deadline <const> = core.now() + core.limit "run_loss_patience"
    while err and not look_for_lost(self) and core.now() < deadline do core.sleep(0.05) end
    if self.failed then return end
    local any <const>, with_workers <const> = look_for_lost(self)
    if self.failed then return end
    if not any then return self:fail(err) end
    if not (with_workers and self.a.shared) then
      say "starts anew"
      self.granted = same_slots(self)
      return
    end
    say "waits for other slots"
    keeper.ask {op = "slots.less", n = self.a.number}
    self:tell_runs(true)
    local answer, problem = keeper.ask({op = "grant", n = self.a.number}, GRANT_S)
    if self.life:is "over" or self.closed then return end
    if not answer then return self:fail(problem) end
    self.granted = answer
  end)
end

-- Is there where to start without this node?
local function has_others(self, node)
  if self.a.shared then return true end
  for _, each in ipairs(self.job:survives_workers() and self.a.nodes or {}) do
    if each ~= node and not each.lost and each.workers > 0 then return true end
  end
  return false
end

---A node with workers is lost before they began.
---@return boolean whether the run starts elsewhere
function methods:starts_elsewhere(node, reason)
  if not self.life:is "starting" or node.workers == 0 then return false end
  if not has_others(self, node) or #self:tables_on(node) > 0 then return false end
  if not self.waits_to_start then
    self:start_anew(("node %s was lost while the run started (%s)"):format(node.name, reason))
  end
  return true
end

---Starts the workers; called where nothing else is waited for.
function methods:try_to_start()
  local ok, err = xpcall(self.start, script.failure, self)
  if ok or self.failed then return end
  if type(err) == "table" and losses.may_be(err) then
    return self:start_anew(("a node was lost while the run started (%s)"):format(err.message), err)
  end
  self:fail(err)
end

---Starts on the slots that were granted, if there are any.
function methods:look_for_slots()
  local answer <const> = self.granted
  if not answer then return end
  self.granted, self.waits_to_start, self.order = nil, nil, answer.order or self.order
  local nodes, known = {}, {}
  for _, node in ipairs(self.a.nodes) do
    if not node.lost then
      node.workers, known[node.name] = answer.grant[node.name] or 0, true
      nodes[#nodes + 1] = node
    end
  end
  for _, name in ipairs(text.sorted_keys(answer.grant)) do
    if not known[name] then
      local node <const> = starting.node_named(name)
      node.workers = answer.grant[name]
      nodes[#nodes + 1] = node
    end
  end
  self.a.nodes = nodes
  self:try_to_start()
end

return starting
