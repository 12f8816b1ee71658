-- The network of a simulation as scripts and files describe it: checks the description and turns it into numbers, in
-- seconds and bytes per second. Knows no simulator.
local text = require "tide.text"
local units = require "tide.units"

local sim_net = {}

local PREFIX <const> = {[""] = 1, k = 1e3, M = 1e6, G = 1e9}
local FIELDS <const> = {
  latency = true, nic = true, core = true, window = true, racks = true, nodes_per_rack = true, pairs = true,
  send = true, receive = true, byte = true,
}
local NODES_MAX <const> = 4096

---@return number seconds of "3s", "20us" or a number of seconds
function sim_net.seconds(value, what)
  if type(value) == "number" and value >= 0 then return value end
  local seconds = type(value) == "string" and units.parse_duration(value)
  if not seconds then error({message = ("%s: `%s` is no time such as \"3s\""):format(what, tostring(value))}, 0) end
  return seconds
end

---@return number bytes per second of "25Gbit", "100MB" or a number of bytes
function sim_net.bandwidth(value, what)
  if type(value) == "number" and value > 0 then return value end
  local number, prefix, unit = tostring(value):match("^([%d.]+)%s*([kMG]?)(%a+)$")
  local factor = number and PREFIX[prefix] and ({bit = 1 / 8, B = 1})[unit]
  local bytes = factor and tonumber(number) and tonumber(number) * PREFIX[prefix] * factor
  if not bytes or bytes < 1 then
    error({message = ("%s: `%s` is no bandwidth such as \"25Gbit\" or \"100MB\" a second"):format(what or "nic",
      tostring(value))}, 0)
  end
  return bytes
end

local function racks_of(o)
  local racks, each = math.tointeger(o.racks), math.tointeger(o.nodes_per_rack)
  if not racks or not each or racks < 1 or each < 1 or racks * each > NODES_MAX then
    error({message = ("racks = %s, nodes_per_rack = %s: both are wanted, of 1 or more, up to %d nodes"):format(
      tostring(o.racks), tostring(o.nodes_per_rack), NODES_MAX)}, 0)
  end
  local map = {driver = 0}
  for i = 0, racks * each - 1 do map["n" .. i + 1] = i // each end
  return map
end

local function pairs_of(list)
  local out = {}
  for i, pair in ipairs(type(list) == "table" and list or {{}}) do
    if type(pair) ~= "table" or type(pair[1]) ~= "string" or type(pair[2]) ~= "string" or pair[1] == pair[2] then
      error({message = "pairs requires a list such as {{\"n1\", \"n2\", \"5ms\"}}"}, 0)
    end
    out[i] = {pair[1], pair[2], sim_net.seconds(pair[3], ("pairs[%d]"):format(i))}
  end
  return out
end

---@param o table as of sim.net
---@return table fields of core.sim_net, and latency_min, latency_max, nic where they are given; raises {message=}
function sim_net.parse(o)
  if type(o) ~= "table" then error({message = "a network is a table such as {nic = \"10Gbit\"}"}, 0) end
  for key in pairs(o) do
    if not FIELDS[key] then
      error({message = ("net field `%s` is not known: %s"):format(tostring(key),
        table.concat(text.sorted_keys(FIELDS), ", "))}, 0)
    end
  end
  local net = {}
  if o.latency then
    local range = type(o.latency) == "table" and o.latency or {o.latency, o.latency}
    net.latency_min, net.latency_max = sim_net.seconds(range[1], "latency"), sim_net.seconds(range[2], "latency")
    if net.latency_min > net.latency_max then error({message = "latency: the least is above the most"}, 0) end
  end
  net.nic = o.nic and sim_net.bandwidth(o.nic, "nic")
  net.core = o.core and sim_net.bandwidth(o.core, "core")
  if o.window then
    net.window = type(o.window) == "number" and o.window or units.parse_size(tostring(o.window))
    if not net.window or net.window < 1 then
      error({message = ("window: `%s` is no size such as \"4MiB\""):format(tostring(o.window))}, 0)
    end
  end
  if o.racks or o.nodes_per_rack then net.racks = racks_of(o) end
  if o.pairs then net.pairs = pairs_of(o.pairs) end
  if o.send or o.receive or o.byte then
    net.send, net.receive = sim_net.seconds(o.send or 0, "send"), sim_net.seconds(o.receive or 0, "receive")
    net.byte = sim_net.seconds(o.byte or 0, "byte")
  end
  return net
end

---Reads a file that returns such a table; it sees no libraries.
---@return table|nil net, string? problem
function sim_net.read(path)
  local chunk, problem = loadfile(path, "t", {})
  if not chunk then return nil, problem end
  local ok, value = pcall(chunk)
  if not ok then return nil, tostring(value) end
  local fine, net = pcall(sim_net.parse, value)
  if not fine then return nil, path .. ": " .. (type(net) == "table" and net.message or tostring(net)) end
  return net
end

return sim_net
