-- Targets of an evaluation: "@all", "@role:worker", "@n3", "@n[2-5]", "@job:mf", "@actor:agent", several with commas
-- between them.
local ask_all = require "tide.ask_all"
local checks = require "tide.checks"
local core = require "tide.core"
local errors = require "tide.errors"
local node_status = require "tide.cluster.node_status"
local text = require "tide.text"

local targets = {}

local ASK_S <const> = 5

local ROLES <const> = {
  worker = function(member) return (member.workers or 0) > 0 end,
  server = function(member) return member.store or false end,
  controller = function(member, controller) return member.id == controller end,
}

---Is the word a target?
---@param word string
---@return boolean
function targets.is(word) return word:sub(1, 1) == "@" end

---Takes the target off the front of a line: "@all x" is "x" on all nodes, "@all" alone is what the prompt talks to
---from then on.
---@param line string
---@return string? target
---@return string rest
function targets.split(line)
  local target, rest = line:match "^%s*(@[%w_.:,%[%]@/-]+)%s*(.*)$"
  if not target then return nil, line end
  return target, rest
end

---Does a member run consoles? The process that drives a run, and a controller alone, have no agent.
---@param member table of core.members()
---@return boolean
function targets.serves(member) return (member.workers or 0) > 0 or member.store or false end

---Requests all agents concurrently, and a controller in a process of its own.
---@param request table
---@return table answers node name -> answer
function targets.ask_all(request)
  local names, addresses, answers = {}, {}, {}
  for _, member in ipairs(core.members()) do
    local address <const> = node_status.address(member, request.op)
    if address then names[#names + 1], addresses[#addresses + 1] = member.name, address end
  end
  for i, answer in pairs((ask_all(addresses, request, {timeout_s = ASK_S}))) do answers[names[i]] = answer end
  return answers
end

---What targets are chosen from.
---@return table[] members
---@return {controller: integer?, jobs: fun(): table, has_actor: fun(node: string, name: string): boolean} cluster jobs:
---  name -> set of the names of its workers' nodes
function targets.cluster()
  return core.members(), {
    controller = (core.node() or {}).controller,
    jobs = function()
      local nodes = {}
      for node, answer in pairs(targets.ask_all {op = "jobs"}) do
        for _, job in ipairs(answer.jobs or {}) do
          nodes[job.job] = nodes[job.job] or {}
          nodes[job.job][node] = true
        end
      end
      return nodes
    end,
    has_actor = function(node, name) return core.whereis(node .. "/" .. name) ~= nil end,
  }
end

local function of_job(name, cluster)
  local jobs <const> = cluster.jobs()
  if not jobs[name] then
    local known <const> = text.sorted_keys(jobs)
    return nil, ("`@job:%s`: no job of this name has workers here"):format(text.clean(name)),
      text.did_you_mean(name, known) or #known > 0 and "there are " .. text.clean(table.concat(known, ", ")) or nil
  end
  return function(member) return jobs[name][member.name] or false end
end

local function of_actor(name, cluster)
  local node, own = name:match "^([^/]+)/(.+)$"
  return function(member)
    return targets.serves(member) and (not node or node == member.name) and cluster.has_actor(member.name, own or name)
  end
end

local function matches(word, cluster)
  local role <const> = word:match "^role:(%w+)$"
  if word == "all" then return function() return true end end
  if role then
    if not ROLES[role] then
      return nil, ("`@%s`: there is no role `%s`; there are server, worker, controller"):format(word, role)
    end
    return ROLES[role]
  end
  local kind, name = word:match "^(%l+):([%w_./-]+)$"
  if kind == "job" then return of_job(name, cluster) end
  if kind == "actor" then return of_actor(name, cluster) end
  local stem, first, last = word:match "^([%w_.-]*)%[(%d+)%-(%d+)%]$"
  if stem then
    first, last = math.tointeger(first), math.tointeger(last)
    return function(member)
      local number <const> = member.name:sub(1, #stem) == stem and math.tointeger(member.name:sub(#stem + 1))
      return number and number >= first and number <= last
    end
  end
  if not word:find "^[%w][%w_.-]*$" then return nil, ("`@%s` is no target"):format(word) end
  return function(member) return member.name == word end
end

---@param expression string "@all", "@n1,@n2"
---@param members table[] of core.members()
---@param cluster table of targets.cluster()
---@return table[]? members that are up, in the order of their names
---@return tide.error? err
function targets.resolve(expression, members, cluster)
  local chosen = {}
  for word in expression:gmatch "[^,]+" do
    word = word:gsub("^@", "")
    local match, why, near = matches(word, cluster)
    if not match then
      return nil, errors.new("T0105", {message = why, help = near
        or "@all, @role:worker, @n3, @n[2-5], @job:NAME, @actor:NAME"})
    end
    local any, names = false, {}
    for _, member in ipairs(members) do
      names[#names + 1] = member.name
      if member.state == "up" and match(member, cluster.controller) then
        chosen[member.name], any = member, true
      end
    end
    if not any then
      return nil, checks.unknown("T0105", "`@%s`: no node that is up", word, names)
    end
  end
  local list = {}
  for _, member in pairs(chosen) do list[#list + 1] = member end
  table.sort(list, function(a, b)
    if #a.name ~= #b.name then return #a.name < #b.name end
    return a.name < b.name
  end)
  return list
end

---Answers of several nodes as text: equal ones together, the largest group first, each with its nodes named.
---@param answers table[] {node=, status=, text=}
---@return string
function targets.merge(answers)
  local groups, by_text = {}, {}
  for i, answer in ipairs(answers) do
    local key <const> = answer.status .. "\0" .. answer.text
    local group = by_text[key]
    if not group then
      group = {text = answer.text, nodes = {}, place = i}
      groups[#groups + 1], by_text[key] = group, group
    end
    group.nodes[#group.nodes + 1] = answer.node
  end
  table.sort(groups, function(a, b)
    if #a.nodes ~= #b.nodes then return #a.nodes > #b.nodes end
    return a.place < b.place
  end)
  local lines = {}
  for _, group in ipairs(groups) do
    local names = #group.nodes <= 8 and table.concat(group.nodes, " ")
      or ("%d nodes (%s ... %s)"):format(#group.nodes, group.nodes[1], group.nodes[#group.nodes])
    names = text.clean(names)
    local several <const> = group.text:find("\n", 1, true) ~= nil
    lines[#lines + 1] = names .. ":" .. (several and "\n" or group.text == "" and "" or " ") .. group.text
  end
  return table.concat(lines, "\n")
end

return targets
