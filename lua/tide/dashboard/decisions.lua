-- Decisions of a run's policies, from its journal: what each saw, wanted, got and why; and what another policy would
-- have decided, in a process of its own that ends with its budget.
local children = require "tide.cluster.children"
local core = require "tide.core"
local errors = require "tide.errors"
local journal = require "tide.policy.journal"
local json = require "tide.json"
local show = require "tide.show"
local state = require "tide.dashboard.state"

local decisions = {}

local JOURNAL_MAX <const> = 64 << 20
local LAST <const> = 200 -- decisions that are told
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

local function printed(bytes)
  if not bytes then return nil end
  local ok, value = pcall(core.plain_decode, bytes)
  if not ok then return nil end
  local text <const> = state.text(show.value(value, {width = 76}))
  return #text > VIEW_MAX and text:sub(1, VIEW_MAX):gsub("[\x80-\xff]+$", "") .. "..." or text, value
end

local function seat_of(r) return r.scope and r.scope ~= "" and r.kind .. "@" .. r.scope or r.kind end

---@param records table[] of journal.read
---@return table[] rows, oldest first: {at =, seat =, what =, policy =, ...}
function decisions.rows(records)
  local rows, holder, began = {}, {}, records[1] and records[1].at or 0
  for _, r in ipairs(records) do
    local seat <const> = state.text(seat_of(r))
    if r.text then holder[seat] = ("%s %s"):format(state.text(r.name), tostring(r.version)) end
    local row = {at = (r.at or began) - began, seat = seat, what = state.text(r.what), policy = holder[seat],
                 epoch = r.epoch, canary = r.canary}
    if r.what == "decision" then
      local text <const>, value <const> = printed(r.plan)
      row.tick, row.verdict, row.actions = r.tick, r.verdict and state.text(r.verdict), r.actions
      row.refused = (r.refused or r.fault) and state.text(r.refused or r.fault) or nil
      row.plan, row.view = text, r.view
      if type(value) == "table" and value.why then
        row.why = type(value.why) == "string" and state.text(value.why) or state.text(show.value(value.why))
      end
    else
      row.why = r.why and state.text(r.why) or nil
    end
    rows[#rows + 1] = row
  end
  -- Views are long: only of those that are told.
  local told = table.move(rows, math.max(1, #rows - LAST + 1), #rows, 1, {})
  for _, row in ipairs(told) do row.view = printed(row.view) end
  return told
end

---@param run table of a state
---@return string|nil json
---@return tide.error? err
function decisions.of(run)
  local path, err = path_of(run)
  if not path then return nil, err end
  local records, why, torn = journal.read(path)
  if not records then return nil, errors.new("T0302", {message = why}) end
  return json.object({schema = "tide.decisions/1", run = run.name, journal = state.text(path), torn = torn or false},
    {decisions = decisions.rows(records)})
end

---In the client's actor: runs `tide` with these words and tells what it printed.
function decisions.inside(request)
  local words <const> = table.move(request.words, 1, #request.words, 2, {children.program})
  local process, err = core.process(words, {output = request.output})
  if not process then return {error = err.message} end
  local over <const> = core.now() + REPLAY_S
  while not process:ended() do
    if core.now() > over or core.interrupted() > 0 then
      process:signal(9)
      return {error = ("the replay took more than %d s and was ended"):format(REPLAY_S)}
    end
    core.sleep(LOOK_S)
  end
  return {status = process:ended().status}
end

---What another policy would have decided: {run =, policy = shipped name, or text = of one}.
---@param run table of a state
---@param o {policy?: string, text?: string}
---@return string|nil json
---@return tide.error? err
function decisions.replay(run, o)
  local path, err = path_of(run)
  if not path then return nil, err end
  local output <const>, source <const> = os.tmpname(), os.tmpname()
  local words = {"policy", "replay", "--journal", path, "--json"}
  if o.text then
    core.file_write(source, o.text, true)
    words[#words + 1] = source
  elseif o.policy and o.policy ~= "" then
    if not o.policy:find "^[%w_]+/[%w_]+$" then
      return nil, errors.new("T0105", {message = "a shipped policy is named KIND/NAME"})
    end
    words[#words + 1] = o.policy
  end
  local answer, problem = core.node_run([[return require("tide.dashboard.decisions").inside(...)]],
    "@tide/dashboard/decisions.lua", {words = words, output = output})
  local printed_text <const> = core.file_read(output) or ""
  os.remove(output)
  os.remove(source)
  if not answer then return nil, errors.from(problem) end
  if answer.error then return nil, errors.new("T0302", {message = answer.error}) end
  local line <const> = printed_text:match "(%b{})%s*$"
  local object <const> = line and core.json_decode(line)
  if type(object) ~= "table" then
    return nil, errors.new("T0302", {message = "the replay said nothing: " .. state.text(printed_text:sub(1, 200))})
  end
  return core.json_encode(object)
end

return decisions
