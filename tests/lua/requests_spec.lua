-- What the modules send is what the rows declare: every request that is written down as a table is looked at.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path
require "tests.lua.fresh"()
local requests = require "tide.requests"

-- The fields of a table constructor that begins at `at`, as far as they are named in it.
local function fields_of(source, at)
  local body <const> = source:match("^%b{}", at)
  local flat <const> = body:sub(2, -2):gsub("%b\"\"", "''"):gsub("%b()", "()"):gsub("%b{}", "{}")
  local list = {}
  for name in ("," .. flat):gmatch "[,\n]%s*([%a_][%w_]*)%s*=[^=]" do list[#list + 1] = name end
  return list
end

-- All rows of a request, of whatever actor: nil where none has it.
local function known_fields(name)
  local known
  for _, rows in pairs(requests) do
    if rows[name] then
      known = known or {op = true}
      for field in pairs(rows[name].fields.known) do known[field] = true end
    end
  end
  return known
end

describe("requests that modules send", function()
  it("have rows, and no field that the rows do not name", function()
    local seen, wrong = 0, {}
    local files <close> = io.popen "find lua/tide -name '*.lua'"
    for path in files:lines() do
      local file <close> = io.open(path)
      local source <const> = file:read "a":gsub("%-%-[^\n]*", "")
      for at, name in source:gmatch '(){op = "([%w_.]+)"' do
        local known <const> = known_fields(name)
        seen = seen + 1
        if not known then wrong[#wrong + 1] = ("%s: no row of `%s`"):format(path, name) end
        for _, field in ipairs(known and fields_of(source, at) or {}) do
          if not known[field] then wrong[#wrong + 1] = ("%s: `%s` has no field `%s`"):format(path, name, field) end
        end
      end
    end
    assert.same({}, wrong)
    assert.is_true(seen > 100)
  end)
end)
