-- What placement and scaling policies of a run see and do: which nodes hold rows, what each of them serves, which slot
-- is where and how much it is asked for; slots that move, servers that come and go. Part of live.lua's driver.
--
-- A fiber asks the nodes that hold rows for their counters now and then; rates are differences of two answers. What a
-- worker does in place on its own node is not counted: only what is served to others is a server's load.
local core = require "tide.core"
local guard = require "tide.policy.guard"
local hot_keys = require "tide.show.hot_keys"

local servers = {}
servers.__index = servers

local HOT_KEYS <const> = 1024 -- of a table
local RANGE_KEYS <const> = 1 << 20
local SAMPLES_MAX <const> = 256 -- of what canaries compare

---@param controller table of tide.controller
---@param period_s number seconds between two samples
---@param started_at number the clock of the run's policies counts from here
---@param tell fun(text: string) a line for the run's log
function servers.new(controller, period_s, started_at, tell)
  local self = setmetatable({controller = controller, nodes = controller.a.nodes, tell = tell, period_s = period_s,
    started_at = started_at, metrics = {}, tables = {}, last = {}, load = {}, moving = {}, moves = 0}, servers)
  local names = {}
  for _, name in pairs(controller.a.tables) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    local handle = core.table_find(name)
    self.tables[i] = {id = i, name = name, handle = handle, spec = handle.spec, slots = servers.slots_of(handle.spec),
                      rates = {}}
    self.moving[i] = {}
  end
  self.fiber = core.fiber(function()
    while not self.closed do
      self:sample()
      core.sleep(period_s)
    end
  end)
  return self
end

---Slots of a table that can hold a key; a dense table of few keys has few.
---@return integer[] ascending
function servers.slots_of(spec)
  local count = 4096
  local keys = spec.keys[1] == "dense" and spec.keys[2] or math.huge
  local list = {}
  if keys >= count then
    for s = 0, count - 1 do list[#list + 1] = s end
  else
    for k = 0, keys - 1 do list[#list + 1] = spec.slots == "range" and k * count // keys or k end
  end
  return list
end

---- measuring -----------------------------------------------------------------------------------------------------

local function rates_of(now, before, seconds, slots, out)
  for _, s in ipairs(slots) do
    local keys = now[s + 1] - (before and before[s + 1] or 0)
    if keys > 0 then out[s] = (out[s] or 0) + keys / seconds end
  end
end

---The keys that workers access most, of each table.
function servers:sample_heat()
  local names, answers = {}, {}
  for i, t in ipairs(self.tables) do names[i], answers[i] = t.name, {} end
  for _, node in ipairs(self.nodes) do
    local answer = not node.lost and core.call(node.agent, {op = "hottest", tables = names, count = HOT_KEYS},
      core.limit "policy_ask_timeout")
    for i, t in ipairs(self.tables) do
      if answer and answer[t.name] then answers[i][node.id] = answer[t.name] end
    end
  end
  for i, t in ipairs(self.tables) do t.hot, t.accesses = hot_keys.merge(answers[i], HOT_KEYS) end
  self.heat_at = core.now()
end

-- The seconds of each second that the node which waited longest for a store had operations in flight to it.
local function note_waits(steps, homes, answer, before)
  local seconds <const> = before and answer.now - before.now or 0
  for i, id in ipairs(homes) do
    local was <const> = before and before.waited[id]
    if was and seconds > 0 then steps[id] = math.max(steps[id] or 0, (answer.waited[i] - was) / seconds) end
  end
  local by_id = {}
  for i, id in ipairs(homes) do by_id[id] = answer.waited[i] end
  answer.waited = by_id
end

function servers:sample()
  if self.wants_heat then self:sample_heat() end
  local names, rates, whole, homes, steps = {}, {}, true, {}, {}
  for i, t in ipairs(self.tables) do names[i], rates[i] = t.name, {} end
  for _, node in ipairs(self.nodes) do
    if node.store and not node.lost then homes[#homes + 1] = node.id end
  end
  for _, node in ipairs(self.nodes) do
    local answer = not node.lost and core.call(node.agent, {op = "served", tables = node.store and names or {},
      slots = true, homes = homes}, core.limit "policy_ask_timeout")
    local before = self.last[node.id]
    if answer then note_waits(steps, homes, answer, before) end
    if not node.store then -- rows are elsewhere: it only asks
      self.last[node.id] = answer or before
    elseif answer and before and answer.now > before.now then
      local seconds = answer.now - before.now
      self.load[node.id] = {ops_per_s = (answer.keys - before.keys) / seconds, bytes = answer.bytes,
        cpu_s = (answer.busy_s - before.busy_s) / seconds, queue = answer.queue}
      self.metrics[node.id] = self.metrics[node.id] or {}
      for _, name in ipairs {"ops_per_s", "cpu_s"} do
        guard.sample(self.metrics[node.id], name, core.now() - self.started_at, self.load[node.id][name], SAMPLES_MAX)
      end
      for i, t in ipairs(self.tables) do
        local served, was = answer.served[t.name], before.served[t.name]
        if served then rates_of(served, was, seconds, t.slots, rates[i]) end
      end
    elseif answer then
      whole = false
    end
    self.last[node.id] = answer or self.last[node.id]
  end
  for id, load in pairs(self.load) do load.step_s = steps[id] end
  if whole then
    for i, t in ipairs(self.tables) do t.rates = rates[i] end
    self.measured_at = core.now()
  end
end

---- the view ------------------------------------------------------------------------------------------------------

local function state_of(node, states)
  if node.lost then return "down" end
  local state = states[node.id]
  if state == "up" then return "up" end
  return state == "leaving" and "draining" or "down"
end

---Adds servers, tables and, for placement, slots.
---@param view table
---@param kind string
---@param want table<string, boolean> signals
function servers:fill(view, kind, want)
  local states = {}
  for _, m in ipairs(core.members()) do states[m.id] = m.state end
  view.nodes, view.servers, view.tables = {}, {}, {}
  for _, node in ipairs(self.nodes) do
    if node.store then
      local load = want["server.load"] and self.load[node.id] or {}
      local bytes
      for _, b in pairs(load.bytes or {}) do bytes = (bytes or 0) + b end
      local state = state_of(node, states)
      view.nodes[#view.nodes + 1] = {id = node.id, name = node.name, state = state, slots = node.workers}
      if state ~= "down" then
        view.servers[#view.servers + 1] = {id = node.id, node = node.id, state = state, bytes = bytes,
          ops_per_s = load.ops_per_s, cpu_s = load.cpu_s, step_s = load.step_s, queue = load.queue}
      end
    end
  end
  view.servers_max = self.controller.a.servers_max
  for i, t in ipairs(self.tables) do
    view.tables[i] = {id = i, name = t.name, width = t.spec.width, replicas = t.spec.replicas,
      technique = t.spec.technique, keys = t.spec.keys[1] == "dense" and t.spec.keys[2] or nil}
  end
  if kind == "placement" then self:fill_slots(view, want["slot.rates"]) end
  if want["key.hot"] then self:fill_hot(view) end
  for _, name in ipairs {"server.load", "slot.rates"} do
    if want[name] and self.measured_at then view.age[name] = core.now() - self.measured_at end
  end
end

-- Measured from when a policy asks for it. Accesses are estimates, of which older ones count less.
function servers:fill_hot(view)
  self.wants_heat = true
  view.hot = {}
  if not self.heat_at then return end
  view.age["key.hot"] = core.now() - self.heat_at
  for i, t in ipairs(self.tables) do
    view.tables[i].accesses = t.accesses
    for _, k in ipairs(t.hot) do
      local by_node = {}
      for node, n in pairs(k.nodes) do by_node[node] = n.reads + n.writes end
      view.hot[#view.hot + 1] = {table = i, key = k.key, owner = t.handle:where(k.key), reads = k.reads,
        writes = k.writes, share = k.share, by_node = by_node, technique = (t.handle:technique(k.key))}
    end
  end
  table.sort(view.hot, function(a, b) -- the driver cuts from the end
    if a.share ~= b.share then return a.share > b.share end
    return a.table < b.table or a.table == b.table and a.key < b.key
  end)
end

-- A slot's bytes are its share of what the table takes at its home.
function servers:fill_slots(view, with_rates)
  view.table_slots = {}
  local known = with_rates and self.measured_at
  for i, t in ipairs(self.tables) do
    local homes, count = t.handle:slot_homes(), {}
    for _, s in ipairs(t.slots) do count[homes[s + 1]] = (count[homes[s + 1]] or 0) + 1 end
    for _, s in ipairs(t.slots) do
      local home = homes[s + 1]
      local load = self.load[home]
      local bytes = load and load.bytes[t.name]
      view.table_slots[#view.table_slots + 1] = {id = s, table = i, home = home, moving = self.moving[i][s],
        bytes = bytes and bytes // count[home], ops_per_s = known and (t.rates[s] or 0) or nil}
    end
  end
end

---- doing ---------------------------------------------------------------------------------------------------------

-- Keys that a policy places at a node are localized there, by its agent.
function servers:move_keys(moves)
  local groups, order = {}, {}
  for _, m in ipairs(moves) do
    local name = m.table .. "/" .. m.to
    if m.key and not groups[name] then
      groups[name] = {table = self.tables[m.table].name, to = m.to, keys = {}}
      order[#order + 1] = groups[name]
    end
    if m.key then table.insert(groups[name].keys, m.key) end
  end
  for _, g in ipairs(order) do
    for _, node in ipairs(self.nodes) do
      if node.id == g.to and not node.lost then
        core.send(node.agent, {op = "localize", table = g.table, keys = g.keys}, "answer")
      end
    end
  end
end

---Techniques of keys, one request for each entry of the plan.
---@param list table[] {table, keys | range, use, nodes}
function servers:manage(list)
  for _, t in ipairs(list) do
    if t.range and t.range[2] - t.range[1] >= RANGE_KEYS then
      return nil, ("a range of %d keys: techniques are for at most %d at a time"):format(t.range[2] - t.range[1] + 1,
        RANGE_KEYS)
    end
  end
  for _, t in ipairs(list) do
    local keys, own = t.keys, self.tables[t.table]
    for key = t.range and t.range[1] or 1, t.range and t.range[2] or 0 do
      keys = keys or {}
      keys[#keys + 1] = key
    end
    core.fiber(function()
      local ok, err = pcall(own.handle.manage, own.handle, keys, t.use, {nodes = t.nodes})
      if not ok then
        self.tell(("%d keys of `%s` are not under technique %s: %s"):format(#keys, own.name, t.use, err.message))
      end
    end)
  end
  return true
end

---One request for each table and new home; what moves already is left alone.
---@param moves table[] {table, slot or key, to}
function servers:move(moves)
  local groups, order = {}, {}
  self:move_keys(moves)
  for _, m in ipairs(moves) do
    if m.slot and not self.moving[m.table][m.slot] then
      local key = m.table .. "/" .. m.to
      if not groups[key] then
        groups[key] = {table = m.table, to = m.to, slots = {}}
        order[#order + 1] = groups[key]
      end
      self.moving[m.table][m.slot] = true
      table.insert(groups[key].slots, m.slot)
    end
  end
  for _, g in ipairs(order) do
    core.fiber(function()
      local handle <const> = self.tables[g.table].handle
      local ok, err = pcall(handle.move, handle, g.slots, g.to)
      for _, s in ipairs(g.slots) do self.moving[g.table][s] = nil end
      if ok then
        self.moves = self.moves + #g.slots
      else
        self.tell(("%d slots of `%s` did not move to node %d: %s"):format(#g.slots, self.tables[g.table].name, g.to,
          err.message))
      end
    end)
  end
  return true
end

---The driver starts and drains nodes.
function servers:scale(count)
  self.controller:emit {kind = "scale", servers = count}
  return true
end

function servers:close() self.closed = true end

return servers
