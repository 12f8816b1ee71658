-- A run on a shared cluster whose nodes die while it starts begins anew on other slots. Methods of tide.controller.
--
-- Nothing has been done yet: the workers of the attempt are ended, its slots go back, others are waited for, as at the
-- beginning, and the run starts on those with ranks from 1. So it is for every job, also one that is bound to ranks.
local core = require "tide.core"
local losses = require "tide.run.losses"
local runs = require "tide.cluster.runs"
local script = require "tide.script"

local starting = {}

local GRANT_S <const> = 7 * 24 * 3600
local NEWS_S <const> = 2 -- within which it is known that a node is lost that did not answer

---@param controller table class of tide.controller
function starting.extend(controller)
  ---@return boolean whether its workers have not begun
  function controller:is_starting() return self.ready < (self.worker_count or 1) end

  ---A node of the run as `begin` has them, of a member that is up.
  ---@param name string
  ---@return table|nil node
  function controller.node_of(_, name)
    for _, member in ipairs(core.members()) do
      local agent <const> = member.name == name and member.state == "up" and core.whereis(name .. "/agent")
      if agent then
        return {name = name, id = member.id, agent = agent, workers = 0, store = member.store, ranks = {}, late = true}
      end
    end
    return nil
  end

  -- Ends the workers of this attempt, and gives its slots back.
  local function give_up(self, why)
    for _, w in ipairs(self.workers) do
      if w.address and not w.node.lost then
        core.send(w.node.agent, {op = "end_worker", run = self.a.run, address = w.address})
      end
      w.state = "lost"
    end
    self.workers, self.live, self.ready, self.suspect, self.chunks = {}, 0, 0, nil, nil
    self.waits_to_start = why
    self:emit {kind = "log", text = why}
  end

  -- Is a node with workers of this attempt known to be lost? Nodes that turn out to be are dealt with.
  local function has_lost(self)
    local node, reason = self:find_lost()
    while node do
      self:lose_node(node, reason)
      node, reason = self:find_lost()
    end
    for _, each in ipairs(self.a.nodes) do
      if each.lost and each.workers > 0 then return true end
    end
    return false
  end

  ---Waits for other slots than those of this attempt.
  ---@param why string
  ---@param err? table the error, where it is not known yet whether a node is lost
  function controller:start_elsewhere(why, err)
    give_up(self, why)
    core.fiber(function()
      local deadline <const> = core.now() + NEWS_S
      while err and not has_lost(self) and core.now() < deadline do core.sleep(0.05) end
      if self.failed then return end
      if not has_lost(self) then return self:fail(err) end
      runs.ask {op = "slots.less", n = self.a.number}
      self:tell_runs(true)
      local answer, problem = runs.ask({op = "grant", n = self.a.number}, GRANT_S)
      if self.failed or self.finished or self.closed then return end
      if not answer then return self:fail(problem) end
      self.granted = answer
    end)
  end

  ---A node with workers is lost before they began.
  ---@return boolean whether the run starts elsewhere
  function controller:starts_elsewhere(node, reason)
    if not self.a.shared or not self:is_starting() or self.stopping or node.workers == 0 then return false end
    if #self:tables_on(node) > 0 then return false end
    if self.waits_to_start then return true end
    self:start_elsewhere(("node %s was lost while the run started (%s): it waits for other slots"):format(node.name,
      reason))
    return true
  end

  ---Starts the workers; called where nothing else is waited for.
  function controller:try_to_start()
    local ok, err = xpcall(self.start, script.failure, self)
    if ok or self.failed then return end
    if self.a.shared and type(err) == "table" and losses.NAMES[err.name or ""] then
      return self:start_elsewhere(("a node was lost while the run started (%s): it waits for other slots"):format(
        err.message), err)
    end
    self:fail_or_suspect(err)
  end

  ---Starts on the slots that were granted, if there are any.
  function controller:look_for_slots()
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
    for _, name in ipairs(require("tide.text").sorted_keys(answer.grant)) do
      local node <const> = not known[name] and self:node_of(name)
      if node then
        node.workers, node.late = answer.grant[name], nil
        nodes[#nodes + 1] = node
      end
    end
    self.a.nodes = nodes
    self:try_to_start()
  end
end

return starting
