-- `tide version`: what this build is made of.
local limits = require "tide.limits"
local text = require "tide.text"

-- Nested tables of core.build() as "cuda.available" and so on, sorted.
local function flatten(build, prefix, out)
  for _, key in ipairs(text.sorted_keys(build)) do
    local value <const> = build[key] == nil and build[math.tointeger(key)] or build[key]
    if type(value) == "table" and #value > 0 then
      local items = {}
      for i, item in ipairs(value) do items[i] = tostring(item) end
      out[#out + 1] = {prefix .. key, table.concat(items, " ")}
    elseif type(value) == "table" then
      flatten(value, prefix .. key .. ".", out)
    elseif value ~= "" then
      out[#out + 1] = {prefix .. key, tostring(value)}
    end
  end
  return out
end

return {
  name = "version",
  brief = "version and parts of this build",
  summary = "Prints the version; with -v or --json also what this build is made of, and its limits.",
  examples = {
    {"tide version", "the version"},
    {"tide version -v", "and compiler, libraries, devices"},
    {"tide version --json", "all of it as one JSON object"},
  },
  configured = false,
  schema = "tide.version/1",
  run = function(context)
    local core <const> = context.core
    local ok <const>, err <const> = limits.use(context)
    if not ok then return nil, err end
    local build <const> = core.build()
    if context.json then
      local object = {}
      for k, v in pairs(build) do object[k] = v end
      object.version = core.version
      object.limits = core.limits()
      context:record(object)
      return 0
    end
    if context.plain then
      context:print("version\t" .. core.version)
    else
      context:print("tide " .. core.version)
    end
    if context.verbose or context.plain then
      local rows <const> = flatten(build, "", {})
      for _, limit in ipairs(core.limits()) do
        rows[#rows + 1] = {"limit." .. limit.name, limits.format(limit, limit.value)}
      end
      local width = 0
      for _, row in ipairs(rows) do width = math.max(width, #row[1]) end
      for _, row in ipairs(rows) do
        local value <const> = text.clean(row[2])
        context:print(context.plain and row[1] .. "\t" .. value or text.pad(row[1], width) .. "  " .. value)
      end
    end
    return 0
  end,
}
