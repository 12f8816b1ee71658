-- Clusters that a script started grow and shrink during runs: nodes that hold rows join and leave in order.
-- Methods of tide.cluster, which gives what they need of it.
local checks = require "tide.checks"
local children = require "tide.provision.children"
local core = require "tide.core"
local errors = require "tide.errors"
local job = require "tide.run.job"
local units = require "tide.units"

local cluster <const> = {} -- methods of tide.cluster
local elastic = {methods = cluster}

local DRAIN_S <const> = 60        -- how long the caller waits for a node to leave
local DRAIN_GRACE_S <const> = 3600 -- how long the node itself tries: its rows are nowhere else
local THREADS_MAX <const> = 200 -- compute threads of a node
local COST_MAX_S <const> = 10

-- The member of that name, once it is up.
local function member_named(name)
  for _, member in ipairs(core.members()) do
    if member.name == name and member.state == "up" then return member end
  end
  return nil
end

-- How many members hold rows beside this one.
local function holders(self, name)
  local count = 0
  for _, member in ipairs(self.members) do
    if member.store and member.name ~= name and member_named(member.name) then count = count + 1 end
  end
  return count
end

---Starts one more node. Without workers it holds rows; slots go there when they are moved (table:move,
---placement policies). With workers it holds none, and they join the active runs at the next report of all.
---@param name? string default: s1, s2, ... or, with workers, n1, n2, ... whichever is free first
---@param workers? integer
---@return string name
function cluster:add_node(name, workers)
  workers = checks.whole("cluster:add_node", "the number of workers", workers or 0, 0, THREADS_MAX)
  if self.context.attached then
    error(errors.new("T0117", {
      message = "cluster:add_node: the script did not start this cluster, so it cannot add nodes",
      help = "start one by `tide node --join`, or let cluster:provision do so"}), 2)
  end
  local taken = {}
  for _, child in ipairs(self.children) do taken[child.name] = true end
  local number = 1
  local letter <const> = workers > 0 and "n" or "s"
  while not name and taken[letter .. number] do number = number + 1 end
  name = name or letter .. number
  if taken[name] or not job.is_identifier(name) then
    error(errors.new("T0113", {message = (taken[name] and "there is a node `%s` already"
      or "`%s` is no name of a node: small letters, digits, `.`, `_`, `-`"):format(tostring(name))}), 2)
  end
  if #self.children >= self.nodes_max then
    checks.fail(("cluster:add_node: a cluster of a script has %d nodes at most"):format(self.nodes_max))
  end
  local node = core.node()
  local child = children.start {endpoint = node.endpoint, cluster = node.cluster, name = name, workers = workers,
                             no_store = workers > 0, log = ("%s/node-%s.log"):format(self.context.directory, name)}
  self.children[#self.children + 1] = child
  children.wait_up {child}
  self:adopt(name)
  return name
end

---Lets a node of this cluster that has no workers leave in order: its rows go to the others.
---@param name string
function cluster:drain(name)
  checks.text("cluster:drain", "the name of a node", name)
  if self:release(name) then return end
  local index
  for i, child in ipairs(self.children) do
    if child.name == name then index = i end
  end
  local member = index and member_named(name)
  if not member or (member.workers or 0) > 0 then
    error(errors.new("T0117", {message = member and ("node %s has workers, whose work would be lost"):format(name)
      or ("no node `%s` was started here"):format(tostring(name))}), 2)
  end
  if member.store and holders(self, name) == 0 then
    error(errors.new("T0117", {message = ("node %s alone holds rows, which would be lost"):format(name),
      help = "start another one first: cluster:add_node()"}), 2)
  end
  self:let_leave(name, index)
end

---Asks a node to leave and waits until it has.
---@param name string
---@param index integer of its entry in self.children
---@package
function cluster:let_leave(name, index)
  local child <const> = self.children[index]
  local leaver
  for i, each in ipairs(self.members) do
    if each.name == name then
      leaver = table.remove(self.members, i)
      core.send(leaver.agent, {op = "quit", leave = true, grace_s = DRAIN_GRACE_S})
      break
    end
  end
  if #children.wait_ended({child}, DRAIN_S) > 0 then
    error(errors.new("T0507", {
      message = ("node %s has not moved all its rows to others within %g s"):format(name, DRAIN_S), node = name,
      state = "it continues to do so", help = "see `tide nodes` and the node's log"}), 0)
  end
  for i, each in ipairs(self.children) do
    if each == child then table.remove(self.children, i) end
  end
  local ended
  for _, each in ipairs(core.members()) do ended = leaver and each.id == leaver.id and each or ended end
  if ended and ended.store and ended.state ~= "left" then
    error(errors.new("T0509", {
      message = ("node %s ended before all its rows had moved to others"):format(name), node = name,
      state = "rows without a copy are lost"}), 0)
  end
end

---A node whose workers have all left the run that they joined ends.
---@param name string
---@package
function cluster:vacate(name)
  if self:release(name) then return end
  for index, child in ipairs(self.children) do
    if child.name == name then return self:let_leave(name, index) end
  end
end

---Adds or drains nodes without workers until `count` hold rows for the others. One has to hold them.
---@param count integer
function cluster:set_servers(count)
  count = checks.whole("cluster:set_servers", "the number of servers", count, 0)
  local servers, others = {}, 0
  for _, member in ipairs(self.members) do
    if member.store and (member.workers or 0) == 0 then servers[#servers + 1] = member.name
    elseif member.store then others = others + 1 end
  end
  if self:provisions(false) then
    if count > #servers then self:want_more(count - #servers) end
    for i = #servers, count + 1, -1 do self:drain(servers[i]) end
    return
  end
  if count == 0 and others == 0 and #servers > 0 then
    checks.fail("cluster:set_servers(0): the servers alone hold rows, which would be lost", "1 is the fewest here")
  end
  if #self.children + count - #servers > self.nodes_max then
    checks.fail(("cluster:set_servers(%d): a cluster of a script has %d nodes at most, and this one has %d"):format(
      count, self.nodes_max, #self.children))
  end
  if self.context.attached and count ~= #servers then
    checks.fail("cluster:set_servers: the script did not start this cluster, so it cannot add or end nodes",
      "start one by `tide node --join`, end one by `tide drain`")
  end
  for _ = #servers + 1, count do self:add_node() end
  for i = #servers, count + 1, -1 do self:drain(servers[i]) end
end

-- The node of that name among those that are up.
local function node_named(self, name)
  for _, member in ipairs(self.members) do
    if member.name == name then return member end
  end
  error(errors.new("T0401", {message = ("no node is called `%s`"):format(tostring(name))}), 3)
end

---A test aid, to see what slow machines do to a run: from now on the process of a node gets at most this share of one
---core, workers and store together. It is stopped while it has had more. Simulated: its turns and kernels take so
---much longer.
---@param name string of a node
---@param share number|string 0.3 or "30%"; 1: all there is
function cluster:cpu_share(name, share)
  local ok, err = require("tide.cluster.cpu_share").set(node_named(self, name), share)
  if not ok then error(err, 2) end
end

---A test aid, to see what slow servers do to a run: from now on each key that a node serves to another takes it so
---much longer, and it does nothing else meanwhile.
---@param name string of a node
---@param time number|string seconds, or "50us"; 0: no longer
function cluster:serve_cost(name, time)
  local seconds = type(time) == "string" and units.parse_duration(time) or time
  checks.number("cluster:serve_cost", "the time in seconds, or as \"50us\",", seconds, 0, COST_MAX_S)
  local ok, err = core.call(node_named(self, name).agent, {op = "serve_cost", seconds = seconds}, 10)
  if not ok then error(errors.from(err), 2) end
end

return elastic
