-- The specs' fakes do what the core does: the cases of core_cases.lua.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;tests/lua/?.lua;" .. package.path

local FAKES <const> = {
  ["of the command line"] = function() return require("support").core end,
  ["of running jobs"] = function() return require("tests.lua.fake_train")().core end,
}

for name, make in pairs(FAKES) do
  describe("the fake core " .. name, function()
    local kept <const> = package.loaded["tide.core"]
    local core <const> = make()
    package.loaded["tide.core"] = core
    local cases <const> = dofile "tests/lua/core_cases.lua"
    package.loaded["tide.core"] = kept
    for _, each in ipairs(cases) do
      local complete = true
      for _, used in ipairs(each[3]) do complete = complete and core[used] ~= nil end
      if complete then it(each[1], each[2]) end
    end
  end)
end
