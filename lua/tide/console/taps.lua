-- Taps at the prompt: the messages that come to an actor, a few of them a second, as lines of text.
--
-- A session on the actor's node holds the tap (core.tap) and answers requests with the captured messages; the watching
-- evaluation sends one four times a second. So only requested messages travel, and a tap without requests ends after
-- five seconds.
local core = require "tide.core"
local errors = require "tide.errors"
local text = require "tide.text"

local taps = {}

local LEASE_S <const> = 5
local POLL_S <const> = 0.25
local ASK_S <const> = 5
local RATE_DEFAULT <const> = 10
local RATE_MAX <const> = 100
local HIDDEN <const> = "(contents: role admin)"
local MATCHED_MAX <const> = 500 -- looked at in a second, when an expression chooses among them
local BYTES_PER_S <const> = 16 << 10

---- at the actor ---------------------------------------------------------------------------------------------------

local held = {} -- by id: {tap=, used_at=}

local function close(id)
  held[id].tap:close()
  held[id] = nil
end

---Ends the taps without recent requests.
---@return boolean whether some are left
function taps.sweep()
  for _, id in ipairs(text.sorted_keys(held)) do
    if core.now() - held[id].used_at > LEASE_S then close(id) end
  end
  return next(held) ~= nil
end

---A request of the evaluation that watches. What is in the messages, such as the lines that people type at a prompt, is
---for the role admin.
---@param request table {tap: string, address: string, rate: integer, over: boolean}
---@param role string of the session that serves it
---@return table answer of tap:read, with `hidden` where the contents are left out; or {error=}
function taps.serve(request, role)
  local id <const> = request.tap
  if request.over then
    if held[id] then close(id) end
    return {}
  end
  if not held[id] then
    local tap, err = core.tap(request.address, request.rate)
    if not tap then return {error = errors.to_data(errors.from(err))} end
    held[id] = {tap = tap}
  end
  held[id].used_at = core.now()
  local answer <const> = held[id].tap:read()
  if answer.ended then close(id) end
  if role ~= "admin" then
    answer.hidden = true
    for _, sample in ipairs(answer.samples) do sample.text = HIDDEN end
  end
  return answer
end

---- at the prompt ---------------------------------------------------------------------------------------------------

local function line_of(sample)
  return text.clean(("%10.3f  %-7s %-7s %-7s %6d B  %s"):format(sample.at % 1e6, sample.from, sample.kind, sample.lane,
    sample.bytes, sample.text))
end

-- Which of the samples an expression over their fields chooses.
local function chooser(host, expression)
  if expression == nil then return function() return true end end
  local chunk, why = host.load("local at, from, kind, lane, bytes, text, find, match = ... return " .. expression,
    "=match")
  if not chunk then
    error(errors.new("T0201", ("tap: match = `%s`: %s"):format(text.clean(expression),
      (why:gsub("^match:%d+: ", "")))), 0)
  end
  return function(s)
    return chunk(s.at, s.from, s.kind, s.lane, s.bytes, s.text, string.find, string.match)
  end
end

local function show(host, answer, view)
  for _, sample in ipairs(answer.samples) do
    local line <const> = (host.line_of or line_of)(sample)
    if view.room <= 0 or view.shown >= view.limit then break end
    if view.chosen(sample) then
      if view.bytes < #line then break end
      view.room, view.bytes, view.shown = view.room - 1, view.bytes - #line, view.shown + 1
      host.print(line)
    end
  end
end

local function counts(name, answer, view, seconds)
  return ("%s: %d messages, %.0f a second; %d shown, %d not looked at"):format(text.clean(name), answer.seen,
    seconds > 0 and (answer.seen - view.seen) / seconds or 0, view.shown, answer.passed_over + answer.dropped)
end

-- A tap of its own for an evaluation, closed when `over` goes out of scope: one that is cancelled leaves it to the
-- lease.
local function opened(beside, address, rate)
  local request <const> = {op = "console.tap", tap = ("%s %s"):format(core.self(), core.now()), address = address,
                           rate = rate}
  local over <const> = setmetatable({}, {__close = function()
    request.over = true
    core.send(beside, request)
  end})
  return over, function()
    local answer, problem = core.call(beside, request, ASK_S)
    if not answer then error(problem, 0) end
    if answer.error then error(errors.from(answer.error), 0) end
    return answer
  end
end

---Samples how long messages wait in an actor's mailbox.
---@param host table beside(address) -> the session on the actor's node
---@param address string
---@param seconds number
---@return integer[] counts of messages that waited below 1, 2, 4, ... us
function taps.queued(host, address, seconds)
  local beside, err = host.beside(address)
  if not beside then error(err, 0) end
  local _ <close>, ask = opened(beside, address, 1)
  local answer
  local ends <const> = core.now() + seconds
  repeat
    answer = ask()
    core.sleep(math.max(0, math.min(POLL_S, ends - core.now())))
  until core.now() >= ends or answer.ended
  answer = answer.ended and answer or ask()
  return answer.queued
end

---Watches until Ctrl-C, the actor's end, or `count` lines.
---@param host table where it is shown: beside(address) -> the session on the actor's node, print(line), live(line),
---  sum(line), allow(bytes) to be printed, load(source, name); over() -> whether to end; line_of(sample) if not as text
---@param name string as it was typed
---@param address string
---@param o {rate?: integer, match?: string, count?: integer}
function taps.watch(host, name, address, o)
  local beside, err = host.beside(address)
  if not beside then error(err, 0) end
  local rate <const> = math.max(1, math.min(o.rate or RATE_DEFAULT, RATE_MAX))
  local view = {shown = 0, limit = o.count or math.maxinteger, room = rate, bytes = BYTES_PER_S, seen = 0,
                chosen = chooser(host, o.match)}
  local _ <close>, ask = opened(beside, address, o.match and MATCHED_MAX or rate)
  local at = core.now()
  while not (host.over and host.over()) do
    local answer <const> = ask()
    if answer.hidden and o.match and o.match:find "%f[%w_]text%f[^%w_]" then
      error(errors.new("T0801", {message = "`text` of a tap needs role admin",
        help = "match `from`, `kind`, `lane` or `bytes`, or use keys of that role: tide keys issue --role admin"}), 0)
    end
    local now <const> = core.now()
    local passed <const> = now - at
    host.allow(BYTES_PER_S * passed)
    view.room = math.min(rate, view.room + rate * passed)
    view.bytes = math.min(BYTES_PER_S, view.bytes + BYTES_PER_S * passed)
    show(host, answer, view)
    local line <const> = counts(name, answer, view, passed)
    at, view.seen = now, answer.seen
    if answer.ended or view.shown >= view.limit then
      host.sum(line .. (answer.ended and "; it has ended" or ""))
      return
    end
    host.live(line)
    core.sleep(POLL_S)
  end
end

return taps
