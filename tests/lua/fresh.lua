-- What specs of running jobs begin with: no module of Tide is loaded, and its core is a new fake.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path

---@return table fake of fake_train.lua
return function()
  for name in pairs(package.loaded) do
    if name == "tide" or name:find("^tide%.") then package.loaded[name] = nil end
  end
  local fake <const> = require "tests.lua.fake_train"()
  package.loaded["tide.core"] = fake.core
  return fake
end
