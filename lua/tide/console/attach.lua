-- `tide attach` behind its options: the actor in the client's process, for one line, a script, or a person.
local client = require "tide.console.client"
local cluster_client = require "tide.cluster.client"
local core = require "tide.core"
local errors = require "tide.errors"
local taps = require "tide.console.taps"
local targets = require "tide.console.targets"
local text = require "tide.text"
local units = require "tide.units"

local attach = {}

local EPIPE <const> = 32
local EXIT <const> = {ok = 0, error = 1, cancelled = 130, detached = 130, gone = 141, late = 124}

-- The exit code for a result: a rejection is no failure of the script's code.
---@param limited? boolean --timeout was given
local function exit_of(result, limited)
  local code <const> = result.error and result.error.code
  if limited and code == "T0231" and result.error.message:find "^its time" then return EXIT.late end
  return code and code:find "^T08" and 4 or EXIT[result.status]
end

---Runs in the program's own state, attached to a cluster.
---@param body "inside"|"tap"
---@param o table plain data, see attach.inside and attach.tap
---@return integer|nil exit, table? err
function attach.run(body, o)
  if o.code and #o.code > client.TEXT_MAX then return nil, client.too_long(o.code) end
  return cluster_client.run("tide.console.attach." .. body, o)
end

---- results -------------------------------------------------------------------------------------------------------

-- Writes to stdout; nil: its reader has closed it.
local function put(chunk)
  local ok, why, number = io.stdout:write(chunk)
  if ok then ok, why, number = io.stdout:flush() end
  if not ok and number ~= EPIPE then
    error(errors.new("T0403", {message = "the output could not be written: " .. tostring(why)}), 0)
  end
  return ok
end

local function write_out(chunk) return put(text.harmless(chunk)) end

local function write_err(chunk)
  io.stderr:write(text.harmless(chunk))
  io.stderr:flush()
end

---A result as text for people; nil when there is nothing to show.
---@param result table
---@param o {color: boolean, utf8: boolean, width: integer}
---@return string? shown
---@return string? failure
function attach.shown(result, o)
  local display <const> = result.display and result.display ~= "" and result.display .. "\n" or nil
  local notes = {}
  if result.error then
    notes[1] = errors.format(errors.from(result.error), {color = o.color, unicode = o.utf8, width = o.width}) .. "\n"
  end
  if (result.truncated_bytes or 0) > 0 then
    notes[#notes + 1] = ("... %s more: more()\n"):format(units.format_size(result.truncated_bytes))
  end
  return display, #notes > 0 and table.concat(notes) or nil
end

local function json_line(answer)
  local decoded = answer.data and core.json_decode(answer.data)
  return core.json_encode {schema = "tide.console/1", node = answer.node, status = answer.status,
    value = decoded and decoded.value, output = answer.output, seconds = answer.seconds,
    error = answer.error} .. "\n"
end

-- One evaluation without a person.
local function once(own, code, o)
  local printed = {}
  if o.json then
    own.print = function(chunk)
      printed[#printed + 1] = chunk
      return true
    end
  end
  local result, err = own:eval(code, {targets = o.targets, want = o.json and "data" or "display", width = o.width,
                                      utf8 = o.utf8, seconds = o.seconds})
  if not result then return nil, err end
  if not o.json then
    local shown, failure = attach.shown(result, o)
    local read <const> = not shown or write_out(shown)
    if failure then write_err(failure) end
    if not read then return EXIT.gone end
    return result.failed and 1 or exit_of(result, o.limited)
  end
  if result.status == "gone" then return EXIT.gone end
  local answers, exit = result.nodes, 0
  if not answers then
    result.node, result.output, exit = own.node, table.concat(printed), exit_of(result, o.limited)
    answers = {result}
  end
  for _, answer in ipairs(answers) do
    if not put(text.harmless_json(json_line(answer))) then return EXIT.gone end
    if result.nodes and answer.status ~= "ok" then exit = 1 end
  end
  return exit
end

---Body of the client's actor.
---@param o {code?: string, targets?: string, json?: boolean, width: integer, utf8: boolean, color: boolean,
---  interactive?: boolean, seconds?: number, role: string}
---@return integer|nil exit, table? err
function attach.inside(o)
  core.interrupt_limit(nil) -- Ctrl-C ends an evaluation
  core.trap_exits(true)
  local drawn = false
  local own <const> = client.new {
    role = o.role,
    print = function(chunk) return write_out(chunk) end,
    say = function(line) write_err(text.clean(line) .. "\n") end,
    live = function(line)
      if not o.interactive then return end
      if line then
        put("\r\27[K" .. text.cut(text.clean(line), o.width - 1, o.utf8))
      elseif drawn then
        put "\r\27[K"
      end
      drawn = line ~= nil
    end,
  }
  local ok, err = own:connect()
  if not ok then return nil, err end
  if o.code then
    local where, code = targets.split(o.code)
    o.targets, o.code = where or o.targets, code
    local sign <const> = code and code:match "^%s*([?%%\\])"
    if sign then
      return nil, errors.new("T0113", {
        message = ("lines that begin with `%s` are the prompt's; -e evaluates Lua"):format(sign),
        help = "`tide attach` without -e opens the prompt"})
    end
  end
  if o.targets then
    local found, wrong = targets.resolve(o.targets, targets.cluster())
    if not found then return nil, wrong end
  end
  local exit, failure
  if o.code then
    exit, failure = once(own, o.code, o)
  else
    exit, failure = require("tide.console.prompt").run(own, o)
  end
  own:close()
  return exit, failure
end

---Body of the client's actor of `tide tap`.
---@param o {actor: string, address: string, node: string, rate?: integer, match?: string, count?: integer,
---  json?: boolean, quiet?: boolean, seconds?: number}
---@return integer|nil exit, table? err
function attach.tap(o)
  local own <const> = client.new {role = core.right() == "admin" and "admin" or "read"}
  own.node = o.node
  local ok, err = own:connect()
  if not ok then return nil, err end
  local unread, late, began = false, false, core.now()
  local host <const> = {
    beside = function() return own.address end,
    print = function(line) unread = not put((o.json and text.harmless_json or text.harmless)(line) .. "\n") end,
    live = function() end,
    sum = function(line) if not o.quiet then write_err(line .. "\n") end end,
    allow = function() end,
    load = function(source, name) return load(source, name, "t", {}) end,
    over = function()
      late = o.seconds ~= nil and core.now() - began > o.seconds
      return unread or late or core.interrupted() > 0
    end,
    line_of = o.json and function(sample)
      sample.schema, sample.text = "tide.message/1", text.clean(sample.text)
      return core.json_encode(sample)
    end or nil,
  }
  local done, failure = pcall(taps.watch, host, o.actor, o.address, o)
  own:close()
  if not done then return nil, failure end
  return unread and EXIT.gone or late and EXIT.late or core.interrupted() > 0 and EXIT.cancelled or 0
end

return attach
