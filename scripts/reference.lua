-- Writes the reference manual and the definitions for editors: `./dev reference`.
local tide = require "tide"
local core = require "tide.core"
local limits = require "tide.limits"
local manual = require "tide.manual"

local opt = tide.options {out = {"directory", default = "docs/reference"}}

tide.main(function()
  assert(core.mkdir(opt.out))
  local texts = manual.definitions()
  texts["README.md"] = manual.contents()
  texts["limits.md"] = limits.markdown()
  for _, page in ipairs(manual.pages()) do texts[page.name .. ".md"] = manual.markdown(page) end
  for name, text in pairs(texts) do assert(core.file_write(opt.out .. "/" .. name, text)) end
  local untold = manual.untold()
  if #untold > 0 then error("no text tells of " .. table.concat(untold, ", ")) end
end)
