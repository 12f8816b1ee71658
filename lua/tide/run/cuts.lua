-- Checkpoints of a run: what its workers and its controller say of a cut, and the writing of a generation.
local core = require "tide.core"
local extensions = require "tide.extensions"
local script = require "tide.script"
local service = require "tide.service"

local methods <const>, from_worker <const>, from_driver <const> = {}, {}, {}
local cuts = {methods = methods, from_worker = from_worker, from_driver = from_driver}

local ATTEMPTS <const>, RETRY_S <const> = 10, 0.2 -- of the last checkpoint while nodes join or leave

local function copy(value)
  if type(value) ~= "table" then return value end
  local out = {}
  for k, v in pairs(value) do out[k] = copy(v) end
  return out
end

function methods:counts_clocks()
  for _, record in pairs(self.records) do
    if (record.clock or 0) > 0 then return true end
  end
  for _, name in pairs(self.a.tables) do
    local handle <const> = core.table_find(name)
    if handle and (handle.spec.consistency or "sequential") ~= "sequential" then return true end
  end
  return false
end

---What goes with a worker's record, as of now.
function methods:own_record()
  return {params = self.params, state = copy(self.state), reports = self.clock, examples = self.done_examples}
end

---@return table[] what holds each seat of the run: {seat, name, version, sha}
function methods:holders() return self.policies and self.policies:holders() or {} end

---A resumed run begins with the policies of its script; says which others the checkpoint was written under.
function methods:compare_policies()
  local now = {}
  for _, holder in ipairs(self:holders()) do now[holder.seat] = holder end
  for _, former in ipairs((self.a.resume or {}).policies or {}) do
    local holder <const> = now[former.seat]
    if not holder or holder.sha ~= former.sha then
      local text_of <const> = "%s: the checkpoint was written under %s %s (SHA-256 %s); this run begins with %s"
      self:emit {kind = "log", text = text_of:format(former.seat, former.name, former.version, former.sha:sub(1, 12),
                                                     holder and holder.name or "none")}
    end
  end
end

---The records of all workers as of the cut; those that have returned, as of their end. What they say of a cut may
---come a little later than its parts are written.
function methods:records_of(info)
  local cut = info.clock and self.cuts and self.cuts[info.clock]
  local deadline = core.now() + core.limit "actor_call_timeout"
  while info.clock and core.now() < deadline do
    cut = self.cuts and self.cuts[info.clock]
    local all = true
    for _, w in ipairs(self.workers) do
      all = all and (w.state == "done" or w.state == "lost" or (cut and cut.ranks[w.rank]) ~= nil)
    end
    if all then break end
    core.sleep(0.005)
  end
  local ranks, there = {}, nil
  for _, w in ipairs(self.workers) do
    ranks[w.rank] = cut and cut.ranks[w.rank] or self.records[w.rank] or {}
    if w.state ~= "lost" then there = ranks[w.rank] end
  end
  local alike <const> = there and extensions.of(self.job, "meeting") -- they all stand at the same step
  for _, w in ipairs(alike and self.workers or {}) do
    if w.state == "lost" then ranks[w.rank] = there end
  end
  return ranks, cut and cut.own
end

---@param o {dir: string, keep?: integer, cut?: string} gets `run`
---@return table? info
---@return table? err
function methods:write_checkpoint(o)
  if self.writing then return nil, script.error("T0706", "another checkpoint of this run is being written") end
  self.writing = true
  local position, reported -- of one moment: a resumed run reports the rest of a pass with the numbers of its chunks
  if self.chunks then position, reported = self.chunks:record(), self:own_record() end
  o.run = self.a.domain
  local info, err = require("tide.run.checkpoint").save(o, function(info)
    local ranks, at_cut = self:records_of(info)
    local own = reported or at_cut or self:own_record()
    return {
      name = self.a.job, run = self.a.run, seed = self.a.seed, script = self.a.script.sha, workers = #self.workers,
      params = own.params, state = own.state, reports = own.reports, examples = own.examples, ranks = ranks,
      chunks = position, policies = self:holders(),
    }
  end)
  self.writing, self.cuts = false, nil
  self.checkpoint_at = core.now()
  if info then
    self:emit {kind = "checkpoint", generation = info.generation, clock = info.clock, cut = info.cut,
               full = info.full, rows = info.rows, bytes = info.bytes, took_s = info.took_s}
  end
  return info, err
end

---One that the job asked for; its failure does not end the run.
function methods:job_checkpoint()
  local o = self.job.checkpoint
  local _, err = self:write_checkpoint {dir = o.dir, keep = o.keep, cut = o.cut}
  if err then self:emit {kind = "log", text = ("no checkpoint: %s (%s)"):format(err.message, err.code)} end
end

---All workers have returned: what they leave is saved, whatever cut the job wanted.
function methods:last_checkpoint()
  while self.writing do core.sleep(0.01) end
  local o <const>, err = self.job.checkpoint, nil
  for _ = 1, ATTEMPTS do
    err = select(2, self:write_checkpoint {dir = o.dir, keep = o.keep})
    if not (err and err.code == "T0706") then break end
    core.sleep(RETRY_S)
  end
  if err then self:emit {kind = "unsaved", what = "the last checkpoint", error = err} end
end

---A worker is at the cut. No report can have been answered since the first of them was: it requires all of them.
function from_worker.cut(self, w, m)
  self.cuts = self.cuts or {}
  local cut = self.cuts[m.record.clock]
  if not cut then
    cut = {ranks = {}, own = self:own_record()}
    self.cuts[m.record.clock] = cut
  end
  cut.ranks[w.rank] = m.record
end

---Writes a generation now: {dir=, cut=}; by default as the job's field says.
function from_driver.checkpoint(self, request, message)
  local o = self.job.checkpoint or {}
  local dir = request.dir or o.dir
  if not dir then
    return nil, script.error("T0708", ("job `%s` names no directory for checkpoints"):format(self.a.job))
  end
  local cut <const> = request.cut or o.cut
  local settings <const>, problem = require("tide.run.checkpoint").settings {dir = dir, cut = cut}
  if not settings then return nil, problem end
  local by_clock <const> = cut == "clock" or cut == nil and self:counts_clocks()
  if self.held and by_clock and not self.held.stop then
    return nil, script.error("T0706", "a checkpoint by clock cannot be written in the body of "
      .. "a loop over reports: the workers are held in their report and reach no next clock",
      {state = "nothing was written", help = "run:checkpoint {cut = \"fuzzy\"}, a call after the loop, or the job's "
      .. "field `checkpoint`"})
  end
  return service.later(message, self.write_checkpoint, self, {dir = dir, keep = o.keep, cut = cut})
end

return cuts
