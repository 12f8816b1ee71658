-- What a script can call is in the reference manual: methods of what C provides, and functions of tide's modules.
local tide = require "tide"
local manual = require "tide.manual"

local NONE <const> = {["tide.data.rotation"] = true, ["tide.data.groups"] = true} -- made by methods of data sets
local checked = 0

local function told(name)
  checked = checked + 1
  return manual.entries()[name] ~= nil
end

local function methods_of(value, prefix)
  local index = debug.getmetatable(value).__index
  if type(index) == "function" then _, index = debug.getupvalue(index, 1) end
  for name in pairs(index) do
    if not told(prefix .. name) then print("untold", prefix .. name) end
  end
end

local function functions_of(module, prefix, hidden)
  for name, value in pairs(module) do
    local full <const> = prefix .. name
    if type(value) == "function" and not (hidden and hidden[name]) and not NONE[full] and not told(full) then
      print("untold", full)
    end
  end
end

-- Functions of a module that its annotations keep from scripts.
local function hidden_of(module)
  local hidden = {}
  local annotations, core = require "tide.annotations", require "tide.core"
  for _, own in ipairs {"data", "descent", "factors", "tensor", "multitask", "lda", "policy", "sim", "table_spec"} do
    for _, entry in ipairs(annotations.parse(core.embedded(module), own, "")) do
      if entry.hidden then hidden[entry.name] = true end
    end
  end
  return hidden
end

local job = tide.job {
  name = "reference", tables = {t = tide.table {keys = tide.dense(10), width = 1}}, worker = function(w) w:report {} end,
}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  local run = cluster:start(job)
  methods_of(run.tables.t, "table:")
  methods_of(run.tables.t:pull({1}, {async = true}), "ticket:")
  methods_of(run.tables.t:sampler {count = 10}, "sampler:")
  methods_of(tide.tensor.zeros("f32", 1), "tensor:")
  methods_of(tide.random(1), "generator:")
  functions_of(tide, "tide.")
  functions_of(tide.k, "tide.k.")
  for _, name in ipairs {"tensor", "data", "json", "units", "show", "chart", "factors", "lda", "descent", "multitask",
                         "policy", "kernel"} do
    functions_of(tide[name], ("tide.%s."):format(name),
      hidden_of(({factors = "tide.nn.factors"})[name] or "tide." .. name))
  end
  functions_of(require "tide.nn", "nn.")
  run:wait()
  print(checked > 150 and "all looked at" or "too few looked at: " .. checked)
end)
