-- The comm seat of a job: what its policy sees of tensors, links and times, and what becomes of its plans. One line of
-- the plan a tensor; the first worker is notified, and notifies the others with the sums of its step.
local comm = {}
comm.__index = comm

local FORGET <const> = 0.3 -- weight of a new measurement

---@param sent tide.extension.communication
function comm.new(sent)
  local self = setmetatable({tensors = {}, number = 0, batch = sent.batch}, comm)
  for i, t in ipairs(sent.tensors()) do
    self.tensors[i] = {id = t.id, name = t.name, rows = t.rows, cols = t.cols, values = t.values, rest = t.rest,
      row_values = t.row_values, positions = t.positions, bytes = t.bytes, path = "ps",
      format = "f32", fanout = 0, seconds = {}}
  end
  return self
end

---@param view table
---@param want table<string, boolean> signals
function comm:fill(view, want)
  view.tensors = {}
  for i, t in ipairs(self.tensors) do
    local copy = {}
    for k, v in pairs(t) do copy[k] = v end
    local examples <const> = (self.batch + #view.workers - 1) // math.max(#view.workers, 1)
    copy.seconds, copy.rank, copy.positions = {}, math.ceil(examples * t.positions), nil
    if want["worker.times"] then
      for path, s in pairs(t.seconds) do copy.seconds[path] = s end
    else
      copy.window_s = nil
    end
    view.tensors[i] = copy
  end
  if want["net.rate"] and self.bytes_per_s then
    view.net = {bytes_per_s = self.bytes_per_s, flops_per_s = self.flops_per_s}
  end
  if want["worker.times"] then view.job.step_s, view.job.compute_s = self.step_s, self.compute_s end
end

---@return boolean whether this is a field of comm plans that can be carried out
function comm:apply(action)
  local t <const> = self.tensors[action.id]
  if action.field == "path" then
    t.path = action.value
  elseif action.field == "format" then
    t.format = action.value
  elseif action.field == "fanout" then
    t.fanout = action.value
  else
    return false
  end
  self.changed = true
  return true
end

---@return table as workers get it; every one has a number of its own
function comm:plan()
  self.number, self.changed = self.number + 1, false
  local plan = {epoch = self.number, paths = {}, formats = {}, fanouts = {}}
  for i, t in ipairs(self.tensors) do plan.paths[i], plan.formats[i], plan.fanouts[i] = t.path, t.format, t.fanout end
  return plan
end

local function forget(old, new) return old and old + FORGET * (new - old) or new end

---What the first worker measured. The rate is what went out while something was in flight: a lower bound of the link's.
function comm:measured(m)
  for i, t in ipairs(self.tensors) do
    local path <const> = m.paths[i]
    if path and m.seconds[i] and m.seconds[i] > 0 then t.seconds[path] = forget(t.seconds[path], m.seconds[i]) end
    t.window_s = forget(t.window_s, m.windows[i])
    t.positions = forget(t.positions, m.positions[i])
  end
  if m.busy_s > 0 then self.bytes_per_s = math.max(self.bytes_per_s or 0, m.bytes / m.busy_s) end
  if m.products_s > 0 then self.flops_per_s = forget(self.flops_per_s, m.flops / m.products_s) end
  self.step_s = forget(self.step_s, m.step_s)
  self.compute_s = forget(self.compute_s, m.step_s - (m.waited_s or 0))
end

return comm
