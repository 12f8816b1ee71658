-- State machines: a table of states and events says what follows on what, and a machine follows it.
--
-- A row is `state = {event = next}` or `{event = {next, "action"}}`, where the action is the name of a method of the
-- machine's owner. An event moves the machine to the next state, and then the action runs. An event that the state does
-- not list is a mistake of the program: it raises an error with both names. Whoever may come at a wrong time, such as a
-- user's command, asks `may` first.
--
-- docs/internals/machine.md is the guide.
local text = require "tide.text"

local machine = {}
machine.__index = machine

---@class tide.machine
---@field state string

---@class tide.machine.definition
---@field name string "the life of a run", for errors
---@field first string state
---@field order string[] states in the order in which they are drawn
---@field rows table<string, table<string, string|{[1]: string, [2]: string?}>> by state and event
---@field groups? table<string, string[]> names for several states

---@param d tide.machine.definition
---@return tide.machine.definition d checked
function machine.define(d)
  local known <const> = {}
  for _, state in ipairs(d.order) do known[state] = true end
  for state, row in pairs(d.rows) do
    if not known[state] then error(("%s: state `%s` is not in the order"):format(d.name, state), 2) end
    for event, to in pairs(row) do
      row[event] = type(to) == "table" and to or {to}
      if not known[row[event][1]] then
        error(("%s: `%s` in `%s` leads to `%s`, which is no state"):format(d.name, event, state, row[event][1]), 2)
      end
    end
  end
  local sets = {}
  for _, state in ipairs(d.order) do
    if not d.rows[state] then error(("%s: state `%s` has no row"):format(d.name, state), 2) end
    sets[state] = {[state] = true}
  end
  for group, states in pairs(d.groups or {}) do
    sets[group] = {}
    for _, state in ipairs(states) do
      if not known[state] then error(("%s: `%s` of group `%s` is no state"):format(d.name, state, group), 2) end
      sets[group][state] = true
    end
  end
  d.sets = sets
  return d
end

---@param definition tide.machine.definition of machine.define
---@param owner table whose methods the actions are
---@return tide.machine
function machine.new(definition, owner)
  for _, row in pairs(definition.rows) do
    for event, to in pairs(row) do
      if to[2] and not owner[to[2]] then
        error(("%s: the action `%s` of `%s` is no method"):format(definition.name, to[2], event), 2)
      end
    end
  end
  return setmetatable({definition = definition, owner = owner, state = definition.first}, machine)
end

---@param event string
---@return boolean whether the state lists it
function machine:may(event) return self.definition.rows[self.state][event] ~= nil end

---@param name string of a state or a group
---@return boolean
function machine:is(name)
  local set <const> = self.definition.sets[name]
  if not set then error(("%s has no state `%s`"):format(self.definition.name, name), 2) end
  return set[self.state] or false
end

---Something has happened. What follows is what the action returns.
---@param event string
---@param ... any for the action
---@return any ...
function machine:fire(event, ...)
  local to <const> = self.definition.rows[self.state][event]
  if not to then
    error(("%s: state `%s` has no event `%s`"):format(self.definition.name, self.state, event), 2)
  end
  self.state = to[1]
  if to[2] then return self.owner[to[2]](self.owner, ...) end
end

---The table as a page has it: a line for each state and the events that lead to the same one.
---@param definition tide.machine.definition
---@return string markdown
function machine.drawn(definition)
  local lines <const> = {"| in state | on | it becomes |", "|---|---|---|"}
  for _, state in ipairs(definition.order) do
    local by_next = {}
    for event, to in pairs(definition.rows[state]) do
      by_next[to[1]] = by_next[to[1]] or {}
      table.insert(by_next[to[1]], "`" .. event .. "`")
    end
    for _, next_state in ipairs(definition.order) do
      if by_next[next_state] then
        table.sort(by_next[next_state])
        lines[#lines + 1] = ("| %s | %s | %s |"):format(state, table.concat(by_next[next_state], ", "), next_state)
      end
    end
    if not next(definition.rows[state]) then lines[#lines + 1] = ("| %s | | |"):format(state) end
  end
  return table.concat(lines, "\n") .. "\n"
end

---@param definition tide.machine.definition
---@return string[] all events, sorted
function machine.events(definition)
  local seen <const> = {}
  for _, row in pairs(definition.rows) do
    for event in pairs(row) do seen[event] = true end
  end
  return text.sorted_keys(seen)
end

return machine
