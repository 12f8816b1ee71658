-- Targets of an evaluation: "@all", "@role:worker", "@n3", "@n[2-5]", several with commas between them.
local errors = require "tide.errors"
local text = require "tide.text"

local targets = {}

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
  local target, rest = line:match "^%s*(@[%w_.:,%[%]@-]+)%s*(.*)$"
  if not target then return nil, line end
  return target, rest
end

local function matches(word)
  local role <const> = word:match "^role:(%w+)$"
  if word == "all" then return function() return true end end
  if role then
    if not ROLES[role] then
      return nil, ("`@%s`: there is no role `%s`; there are server, worker, controller"):format(word, role)
    end
    return ROLES[role]
  end
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
---@param controller? integer id of the controller
---@return table[]? members that are up, in the order of their names
---@return tide.error? err
function targets.resolve(expression, members, controller)
  local chosen = {}
  for word in expression:gmatch "[^,]+" do
    word = word:gsub("^@", "")
    local match, why = matches(word)
    if not match then return nil, errors.new("T0105", {message = why, help = "@all, @role:worker, @n3, @n[2-5]"}) end
    local any, names = false, {}
    for _, member in ipairs(members) do
      names[#names + 1] = member.name
      if member.state == "up" and match(member, controller) then
        chosen[member.name], any = member, true
      end
    end
    if not any then
      return nil, errors.new("T0105", {message = ("`@%s`: no node that is up"):format(text.clean(word)),
        help = text.did_you_mean(word, names)})
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
