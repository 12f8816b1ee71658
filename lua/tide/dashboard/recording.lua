-- A trace that the page asks for: recorded while the dashboard continues, then given as one text.
local client = require "tide.cluster.client"
local core = require "tide.core"
local errors = require "tide.errors"

local recording = {}
recording.__index = recording

local SECONDS_MAX <const> = 10
local EVENTS <const> = 262144 -- of all nodes' threads together, some 100 bytes each in the text

---@param seconds any a foreign value
---@param nodes integer
---@return table|nil recording
---@return tide.error? err T0801: it takes the right `operate`
function recording.begin(seconds, nodes)
  if type(seconds) ~= "number" or not (seconds > 0 and seconds <= SECONDS_MAX) then
    return nil, errors.new("T0105", {message = ("a trace takes more than 0 s, at most %d s"):format(SECONDS_MAX)})
  end
  local begun, err = client.run("tide.show.trace.begin", {events = EVENTS // (4 * math.max(nodes, 1))})
  if not begun then return nil, err end
  return setmetatable({agents = begun.agents, origin = begun.origin, over = core.now() + seconds}, recording)
end

---Whether its time is over.
---@return boolean
function recording:due() return core.now() >= self.over end

---@return string|nil json in the Chrome trace format
---@return tide.error? err
function recording:finish()
  local path <const> = os.tmpname()
  local done, err = client.run("tide.show.trace.finish", {path = path, agents = self.agents, origin = self.origin})
  local text <const> = done and core.file_read(path)
  os.remove(path)
  if not done then return nil, err end
  return text or nil, not text and errors.new("T0403", {message = "the trace could not be read back"}) or nil
end

return recording
