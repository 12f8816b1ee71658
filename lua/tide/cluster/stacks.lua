-- What actors do at this moment: the stacks of their fibers, from the nodes that they run on, also of actors that
-- compute without looking at anything. `tide stack`, stack() at the prompt, and the line that reports and errors name.
local ask_all = require "tide.ask_all"
local client = require "tide.cluster.client"
local core = require "tide.core"
local errors = require "tide.errors"
local keeper = require "tide.keeper"
local pieces = require "tide.pieces"
local text = require "tide.text"
local why = require "tide.show.why"

local stacks = {}

local ANSWER_S <const> = 3

---@class tide.stack.frame
---@field kind "lua"|"native"|"kernel"
---@field where? string "train.lua:31"; native code has none
---@field name? string of the function

---@class tide.stack.fiber innermost frame first
---@field waits_for? string nil: it runs
---@field frames tide.stack.frame[]

---@class tide.stack of an actor
---@field address string
---@field node string
---@field run? string of a worker: its run,
---@field rank? integer and its rank
---@field fibers? tide.stack.fiber[]
---@field problem? string instead of fibers

---- on the node ------------------------------------------------------------------------------------------------------

---Looks at actors of this node, all at one time. Blocks for half a second at most.
---@param list tide.stack[] gets fibers or problem
---@return tide.stack[] list
function stacks.look(list)
  ask_all(list, function(each)
    local found <const>, err = core.stack(each.address)
    each.fibers, each.problem = found, err and err.message
    return found, err
  end)
  return list
end

---- from other nodes -------------------------------------------------------------------------------------------------

---Asks nodes for the stacks of their actors. Inside an actor.
---@param request {node?: string, address?: string, run?: string} an actor, or the workers of a run (its uid), or all
---workers; node: only there
---@return tide.stack[] by run, rank and address
function stacks.gather(request)
  local names, agents, found = {}, {}, {}
  for _, member in ipairs(core.members()) do
    local wanted <const> = member.state == "up" and (not request.node or request.node == member.name)
    local agent <const> = wanted and core.whereis(member.name .. "/agent")
    if agent then names[#names + 1], agents[#agents + 1] = member.name, agent end
  end
  local asked <const> = {op = "stack", address = request.address, run = request.run}
  for i, answer in pairs((ask_all(agents, asked, {timeout_s = ANSWER_S}))) do
    for _, each in ipairs(core.decode(pieces.whole(answer.data))) do
      each.node = names[i]
      found[#found + 1] = each
    end
  end
  table.sort(found, function(a, b)
    if a.run ~= b.run then return (a.run or "") < (b.run or "") end
    if a.rank ~= b.rank then return (a.rank or 0) < (b.rank or 0) end
    return a.address < b.address
  end)
  return found
end

---The stacks of an actor, or of a run's workers. Inside an actor.
---@param actors table[] of a cluster view
---@param name string "n1/agent", an address, a run "mf-1", or one of its workers "mf-1/2"
---@param here? string node of names without one
---@return tide.stack[]|nil, tide.error? err
function stacks.of(actors, name, here)
  local actor <const>, err = why.find(actors, name, here)
  if actor then return stacks.gather {node = actor.node, address = actor.address} end
  if type(name) ~= "string" then return nil, err end
  local run, rank = name:match "^(.+)/(%d+)$"
  local row <const> = keeper.ask {op = "get", name = run or name}
  if not row then
    return nil, errors.new("T0105", {message = ("no actor and no run `%s`"):format(text.clean(name)),
      help = "`tide actors` and `tide jobs` list them"})
  end
  local list = {}
  for _, each in ipairs(stacks.gather {run = row.uid}) do
    each.run = row.name
    if not rank or each.rank == math.tointeger(tonumber(rank)) then list[#list + 1] = each end
  end
  if #list > 0 then return list end
  return nil, errors.new("T0105", {message = ("run %s has no worker%s now"):format(row.name,
    rank and " " .. rank or ""), help = "`tide jobs` tells how many it has"})
end

---In the client's actor.
function stacks.inside(request)
  if request.name then return stacks.of(request.actors, request.name) end
  return stacks.gather {}
end

---The same for an attached client that is no actor.
---@param name? string see stacks.of; nil: all workers
---@param actors? table[]
---@return tide.stack[]|nil, tide.error? err
function stacks.ask(name, actors)
  return client.run("tide.cluster.stacks.inside", {name = name, actors = actors})
end

---- as text ----------------------------------------------------------------------------------------------------------

-- Is it the script's, not one of Tide's own modules?
local function is_own(frame)
  return frame.where and not ("/" .. frame.where):find "/tide/" and not frame.where:find "^tide%.lua:"
end

---The innermost line of the script, and in what operation it is: "train.lua:31", "train.lua:31 in matmul".
---@param fibers? tide.stack.fiber[]
---@return string|nil
function stacks.line(fibers)
  for _, fiber in ipairs(fibers or {}) do
    local operation
    for i, frame in ipairs(fiber.frames) do
      if is_own(frame) then return frame.where .. (operation and " in " .. operation or "") end
      if i == 1 and frame.kind ~= "lua" then operation = frame.name end
    end
  end
  return nil
end

---The lines of the script that actors are at.
---@param list tide.stack[]
---@return table<string, string> by address
function stacks.by_address(list)
  local lines = {}
  for _, each in ipairs(list) do lines[each.address] = stacks.line(each.fibers) end
  return lines
end

local NAMED_MAX <const> = 3

---Adds to findings where their runs' workers compute: the one that is the cause, else the first few.
---@param findings tide.finding[]
---@param list tide.stack[] of all workers
function stacks.add_lines(findings, list)
  for _, finding in ipairs(findings) do
    local count = 0
    for _, each in ipairs(list) do
      local line <const> = each.run == finding.uid and (not finding.rank or each.rank == finding.rank)
        and each.fibers and not (each.fibers[1] or {}).waits_for and stacks.line(each.fibers)
      if line and count < NAMED_MAX then
        count = count + 1
        table.insert(finding.evidence, ("worker %d is at %s"):format(each.rank, line))
      end
    end
  end
end

---@param each tide.stack
---@return string[] lines for people
function stacks.lines(each)
  local lines = {("%s%s on %s"):format(each.rank and ("worker %d of %s, "):format(each.rank, each.run) or "",
    each.address, each.node)}
  if each.problem then lines[2] = "  " .. each.problem end
  for i, fiber in ipairs(each.fibers or {}) do
    lines[#lines + 1] = ("  fiber %d %s"):format(i, fiber.waits_for and "waits: " .. fiber.waits_for or "runs")
    for _, frame in ipairs(fiber.frames) do
      lines[#lines + 1] = ("    %-28s %s"):format(frame.where or "[" .. frame.kind .. "]", frame.name or "?")
    end
  end
  return lines
end

return stacks
