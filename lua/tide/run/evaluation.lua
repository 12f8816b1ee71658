-- Evaluations of a run: each worker reports its part, the driver gets the sums.
local core = require "tide.core"
local extensions = require "tide.extensions"
local script = require "tide.script"
local service = require "tide.service"

local methods <const>, from_worker <const>, from_driver <const> = {}, {}, {}
local evaluation = {methods = methods, from_worker = from_worker, from_driver = from_driver}

-- Numbers of those that are not complete, oldest first.
local function open(self)
  local numbers = {}
  for number in pairs(self.evaluations) do numbers[#numbers + 1] = number end
  table.sort(numbers)
  return numbers
end

-- Asks all that have begun for their parts of an evaluation. Without workers it is made when there are some again.
local function begin_evaluation(self, e)
  self.next_evaluation = self.next_evaluation + 1
  local number <const> = self.next_evaluation
  self.evaluations[number] = {id = e.id or number, name = e.name, missing = {}, count = 0}
  local missing <const> = self.evaluations[number].missing
  local meets <const> = extensions.of(self.job, "meeting")
  for _, w in ipairs(self.workers) do
    local replaced <const> = meets and w.dropped and w.state == "done" -- others have its part
    if w.state ~= "lost" and w.state ~= "joining" and w.state ~= "waiting" and not replaced then
      missing[w.rank] = true
      self:send_worker(w, {op = "evaluate", id = number, name = e.name})
    end
  end
  return self.evaluations[number].id
end

---A worker is released that has not reported its parts of evaluations: they are made anew at the next report.
function methods:evaluate_anew(w)
  for _, number in ipairs(open(self)) do
    local e <const> = self.evaluations[number]
    if e.missing[w.rank] then
      self.next_evaluation = self.next_evaluation + 1
      self.evaluations[number] = nil
      self.evaluations[self.next_evaluation] = {id = e.id, name = e.name, missing = {}, count = 0}
    end
  end
end

---A worker is lost: its parts of evaluations will not come.
function methods:evaluate_without(w)
  for _, number in ipairs(open(self)) do self:evaluation_of(number, w) end
end

---A report of all is complete, or the run is over: evaluations that had no workers are made now, or never.
function methods:evaluate_late()
  for _, number in ipairs(open(self)) do
    local e <const> = self.evaluations[number]
    if not next(e.missing) then
      self.evaluations[number] = nil
      if self.life:is "finished" then
        local why <const> = ("`%s` was not evaluated: the run ended without workers"):format(e.name)
        self:emit {kind = "evaluated", id = e.id, error = script.error("T0513", why)}
      else
        begin_evaluation(self, e)
      end
    end
  end
end

---Counts a worker's part in an evaluation; without `m` it will not come.
function methods:evaluation_of(id, w, m)
  local e = self.evaluations[id]
  if not e or not e.missing[w.rank] then return end
  e.missing[w.rank] = nil
  m = m or {}
  if m.error then
    m.error.node = m.error.node or w.node.name
    e.error = e.error or script.error(m.error.code or "T0609", m.error.message, m.error)
  elseif type(m.sum) == "table" then
    e.sums = e.sums or {}
    for k, v in pairs(m.sum) do e.sums[k] = (e.sums[k] or 0) + v end
  else
    e.sum = (e.sum or 0) + (m.sum or 0)
  end
  e.count, e.counted = e.count + (m.count or 0), e.counted or m.count ~= nil
  if next(e.missing) then return end
  self.evaluations[id] = nil
  -- A mean of nothing is no number, which a script sees; without counts the sums are the answer.
  local per = (e.counted or e.count > 0) and e.count + 0.0 or 1
  local result = e.sum and e.sum / per
  if e.sums then
    result = {count = e.count}
    for k, v in pairs(e.sums) do
      if k ~= "count" then result[k] = v / per end
    end
  end
  self:emit {kind = "evaluated", id = e.id, result = result, error = e.error}
end

function from_worker.evaluated(self, w, m) self:evaluation_of(m.id, w, m) end

function from_driver.evaluate(self, request, message)
  core.answer(message, {id = begin_evaluation(self, {name = request.name})})
  if self.life:is "finished" then self:evaluate_late() end
  return service.LATER
end

return evaluation
