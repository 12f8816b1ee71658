-- Decisions of a run's policies, from its journal: what each saw, wanted, got and why; and what another policy would
-- have decided, in a process of its own that ends with its budget.
local children = require "tide.provision.children"
local client = require "tide.cluster.client"
local core = require "tide.core"
local errors = require "tide.errors"
local json = require "tide.json"
local show = require "tide.show"
local state = require "tide.dashboard.state"
local timeline = require "tide.policy.timeline"

local decisions = {}

local JOURNAL_MAX <const> = 64 << 20
local LAST <const> = 200 -- decisions that are shown
local VIEW_MAX <const> = 6000 -- characters
local REPLAY_S <const> = 20
local LOOK_S <const> = 0.05

-- A cluster names its runs' directories; what is read there is a journal or nothing.
---@param run table of a state
---@return string|nil path
---@return tide.error? err
local function path_of(run)
  local directory <const>, job <const> = run.directory, run.job
  if not directory or directory:sub(1, 1) ~= "/" or directory:find("/../", 1, true) or not job:find "^[%w_.-]+$" then
    return nil, errors.new("T0303", {message = ("run %s has no directory here"):format(run.name)})
  end
  local path <const> = ("%s/policies-%s.journal"):format(directory, job)
  local file <const> = io.open(path, "rb")
  local size <const> = file and file:seek "end"
  if file then file:close() end
  if not size then
    return nil, errors.new("T0303", {message = ("run %s has no policies, or its journal is on another machine"):format(
      run.name)})
  end
  if size > JOURNAL_MAX then
    return nil, errors.new("T0302", {message = ("the journal of run %s is longer than 64 MiB"):format(run.name),
      help = "tide policy replay --journal " .. path})
  end
  return path
end

local function printed(value)
  if value == nil then return nil end
  local text <const> = state.text(show.value(value, {width = 76}))
  return #text > VIEW_MAX and text:sub(1, VIEW_MAX):gsub("[\x80-\xff]+$", "") .. "..." or text
end

---@param run table of a state
---@return string|nil json
---@return tide.error? err
function decisions.of(run)
  local path, err = path_of(run)
  if not path then return nil, err end
  local list, problem, torn = timeline.read(path, {whole = true, last = LAST})
  if not list then return nil, problem end
  for _, entry in ipairs(list) do entry.view, entry.plan = printed(entry.view), printed(entry.plan) end
  return json.object({schema = "tide.decisions/1", run = run.name, journal = state.text(path), torn = torn or false},
    {decisions = state.clean(list)})
end

---In the client's actor: runs `tide` with these words and returns its output.
function decisions.inside(request)
  local words <const> = table.move(request.words, 1, #request.words, 2, {children.program})
  local process, err = core.process(words, {output = request.output})
  if not process then return nil, errors.from(err, "T0302") end
  local over <const> = core.now() + REPLAY_S
  while not process:ended() do
    if core.now() > over or core.interrupted() > 0 then
      process:signal(9)
      return nil, errors.new("T0302", {message = ("the replay took more than %d s and was ended"):format(REPLAY_S)})
    end
    core.sleep(LOOK_S)
  end
  return process:ended().status
end

-- What `tide` printed, called with these words.
local function told_by(words)
  local output <const> = os.tmpname()
  local answer <const>, problem = client.run("tide.dashboard.decisions.inside", {words = words, output = output})
  local text <const> = core.file_read(output) or ""
  os.remove(output)
  if not answer then return nil, problem end
  return text
end

-- Objects of lines; what is no object is talk.
local function objects_in(text)
  local list = {}
  for line in text:gmatch "[^\n]+" do
    local ok, object = pcall(core.json_decode, line)
    if ok and type(object) == "table" then list[#list + 1] = object end
  end
  return list
end

-- Where the other policy of `words` would have decided otherwise.
local function differences(path, ref)
  local text, err = told_by {"policy", "timeline", ref, "--journal", path, "--last", tostring(LAST), "--json"}
  if not text then return nil, err end
  local list = {}
  for _, entry in ipairs(objects_in(text)) do
    if entry.differs then
      list[#list + 1] = {at = entry.at, seat = entry.seat, would = entry.would, would_plan = printed(entry.would_plan)}
    end
  end
  return list
end

---What another policy would have decided: {run =, policy = shipped name, or text = of one}.
---@param run table of a state
---@param o {policy?: string, text?: string}
---@return string|nil json
---@return tide.error? err
function decisions.replay(run, o)
  local path, err = path_of(run)
  if not path then return nil, err end
  local ref = o.policy ~= "" and o.policy or nil
  if ref and not o.text and not ref:find "^[%w_]+/[%w_-]+$" then
    return nil, errors.new("T0105", {message = "a shipped policy is named KIND/NAME"})
  end
  local source
  if o.text then
    source = os.tmpname()
    core.file_write(source, o.text, true)
    ref = source
  end
  local words = {"policy", "replay", "--journal", path, "--json", ref}
  local text, problem = told_by(words)
  local object <const> = text and objects_in(text)[1]
  local marks
  if object and ref then marks, problem = differences(path, ref) end
  if source then os.remove(source) end
  if not text or (ref and object and not marks) then return nil, problem end
  if not object then
    return nil, errors.new("T0302", {message = "the replay said nothing: " .. state.text(text:sub(1, 200))})
  end
  return json.object(state.clean(object), {differences = state.clean(marks or {})})
end

return decisions
