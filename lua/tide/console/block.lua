-- What is typed or pasted at the prompt as a chunk of Lua: a block whose last line is an expression gives its value,
-- as a line of its own would.
local block = {}

local TAILS_MAX <const> = 64 -- lines at the end of a block that its last expression may have

-- The statements before the last expression of a block, and that. Where Lua would read both as one statement, because
-- the last line could be arguments of the line before, it is left one.
local function split(source, whole)
  local at = #source
  for _ = 1, TAILS_MAX do
    while at > 0 and source:byte(at) ~= 10 do at = at - 1 end
    if at == 0 then return nil end
    local head <const>, tail <const> = source:sub(1, at), source:sub(at + 1)
    if tail:find(whole and "^%s*[%a_]" or "%S") and load("return " .. tail, "=prompt", "t")
      and load(head, "=prompt", "t") then
      return head, tail
    end
    at = at - 1
  end
  return nil
end

---@param source string
---@param globals? table that it sees
---@return function? chunk
---@return string? why not
---@return string? why it is no expression either
function block.compile(source, globals)
  local name <const> = "=prompt"
  globals = globals or _G
  local chunk <const>, as_value = load("return " .. source, name, "t", globals)
  if chunk then return chunk end
  local whole <const>, why = load(source, name, "t", globals)
  if source:find("\n", 1, true) then
    local head <const>, tail = split(source, whole ~= nil)
    if head then return load(head .. "return " .. tail, name, "t", globals) end
  end
  return whole, why, as_value
end

return block
