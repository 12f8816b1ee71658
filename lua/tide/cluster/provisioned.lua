-- Clusters whose nodes come from a launcher while a script runs: `cluster:provision {kind = "slurm", max = 8}`. The
-- pool keeps as many nodes there as are wanted: what is lost is replaced, and policies that scale ask it for more.
-- Methods of tide.cluster, which gives what they need of it.
local checks = require "tide.checks"
local commands = require "tide.provision.commands"
local core = require "tide.core"
local errors = require "tide.errors"
local units = require "tide.units"

local cluster <const> = {} -- methods of tide.cluster
local provisioned = {methods = cluster}

local STEP_S <const> = 0.1
local LEAVE_S <const> = 35 -- for the nodes of a cluster that stays
local END_S <const> = 3    -- of one that ends
local FIELDS <const> = {
  kind = true, min = true, max = true, prefix = true, workers = true, store = true, keys = true, program = true,
  grace = true, partition = true, gres = true, cpus = true, time = true, hosts = true, ssh_config = true,
  simulate = true,
}

local function endpoint_of()
  for _, member in ipairs(core.members()) do
    if member.id == core.node().controller and member.endpoint ~= "" then return member.endpoint end
  end
  return core.node().endpoint
end

local function options_of(self, o)
  checks.known("T0115", "cluster:provision", o, FIELDS)
  local max <const> = checks.whole("cluster:provision", "`max`", o.max, 1)
  local min <const> = checks.whole("cluster:provision", "`min`", o.min or 1, 0)
  if min > max then checks.fail(("cluster:provision: min is %d, and max %d"):format(min, max)) end
  local grace_s, why = o.grace, nil
  if type(grace_s) == "string" then grace_s, why = units.parse_duration(grace_s) end
  if why then checks.fail("cluster:provision: grace: " .. why) end
  local context <const> = self.context
  return {
    kind = o.kind, cluster = core.node().cluster, endpoint = endpoint_of(), directory = context.directory or ".",
    prefix = o.prefix, workers = checks.whole("cluster:provision", "`workers`", o.workers or 1, 0),
    no_store = o.store == false, keys = o.keys,
    program = o.program or o.kind == "ssh" and "tide" or commands.program(),
    grace_s = grace_s, partition = o.partition, gres = o.gres, cpus = o.cpus, time = o.time, hosts = o.hosts,
    ssh_config = o.ssh_config, simulate = o.simulate, min = min, max = max,
    say = function(line) context.progress:say("tide: " .. line) end,
    event = function(event)
      if event.state == "joined" then
        self:adopt(event.name)
      elseif event.state == "gone" and not event.leaving or event.state == "stuck" then
        context.progress:say(("tide: node %s is %s%s"):format(event.name, event.state == "gone" and "gone"
          or "stuck in the queue", event.reason and ": " .. event.reason or ""))
      end
    end,
  }
end

-- The pool has stopped: its waiters end.
local function given_up(self, err)
  self.context.progress:say("tide: no more nodes are asked for: " .. errors.from(err).message)
  for _, run in ipairs(self.own_runs) do core.send(run.controller, {op = "not_joined", count = 1 << 30}) end
end

local function tend(self)
  local told = false
  while self.pool and not self.closed do
    local done <const>, ok, err = pcall(self.pool.step, self.pool)
    local failure <const> = not done and ok or not ok and err or nil
    if failure and not told then given_up(self, failure) end
    told = failure ~= nil
    core.sleep(STEP_S)
  end
end

---Nodes of this cluster from a launcher, as `tide launch` starts them: {kind = "slurm", min = 1, max = 8, ...}, one
---pool a cluster. Waits until `min` have joined. What is lost is replaced; policies that scale ask for more.
---@param o {kind: string, max: integer, min?: integer, workers?: integer, store?: boolean, prefix?: string,
---  keys?: string, program?: string, grace?: string|number, partition?: string, gres?: string, cpus?: integer,
---  time?: string, hosts?: string, ssh_config?: string, simulate?: table}
function cluster:provision(o)
  if type(o) ~= "table" then checks.fail "cluster:provision requires {kind =, max =}" end
  if self.pool then checks.fail "cluster:provision: this cluster has a pool already" end
  local pool <const>, err = require("tide.provision").new(options_of(self, o))
  if not pool then error(errors.from(err), 2) end
  self.pool = pool
  pool:want(pool.o.min)
  core.fiber(tend, self)
  while pool:count "joined" < pool.wanted do
    if pool.stopped then error(errors.from(pool.stopped), 2) end
    if core.interrupted() > self.context.interrupts then return end
    core.sleep(STEP_S)
  end
end

---Nodes of this cluster; with {want = N} the pool is to have so many.
---@param o? {want: integer}
---@return table[] members
function cluster:nodes(o)
  if o ~= nil then
    checks.known("T0115", "cluster:nodes", o, {want = true})
    if not self.pool then
      checks.fail("cluster:nodes {want =}: there is no pool", "cluster:provision {...} makes one")
    end
    local ok, err = self.pool:want(checks.whole("cluster:nodes", "`want`", o.want, 0))
    if not ok then error(errors.from(err), 2) end
  end
  local list = {}
  for _, member in ipairs(core.members()) do list[#list + 1] = member end
  return list
end

---Does the pool start nodes of this kind: with workers, or without?
---@package
---@param works boolean
function cluster:provisions(works)
  return self.pool ~= nil and not self.pool.stopped and works == (self.pool.o.workers > 0)
end

---So many nodes more, at once: they are reported when they have joined. Raises where the pool has not so many.
---@package
---@param count integer
function cluster:want_more(count)
  local ok, err = self.pool:want(self.pool.wanted + count)
  if not ok then error(errors.from(err), 0) end
end

---@package
---@return boolean whether the node was the pool's, and leaves
function cluster:release(name) return self.pool ~= nil and self.pool:release(name) end

---@package
function cluster:close_pool()
  local pool <const> = self.pool
  if not pool then return end
  self.pool = nil
  if self.context.attached then return pool:close(LEAVE_S) end
  local ids = {}
  for _, ticket in ipairs(pool:list()) do
    ticket.leaving = true
    for _, member in ipairs(core.members()) do
      if member.name == ticket.name and member.state == "up" then ids[#ids + 1] = member.id end
    end
  end
  if ids[1] then core.ends(ids) end
  for _, ticket in ipairs(pool:list()) do
    local agent <const> = core.whereis(ticket.name .. "/agent")
    if agent then core.send(agent, {op = "quit", leave = false}) end
  end
  pool:close(END_S)
end

return provisioned
