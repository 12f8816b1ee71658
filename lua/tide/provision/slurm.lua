-- Nodes as jobs of Slurm, one job a node: growing, shrinking and losing one touch no other. The node is a step of its
-- job, for Slurm signals steps first: a preempted node is notified at once and has all of the partition's GraceTime.
--
-- A job's comment is its label, NODE/LAUNCHER: a launcher knows its jobs by it, and ends no others. So a job whose
-- number sbatch did not return, because it was late or Slurm's answer was lost, is found in the queue, and not
-- submitted twice.
local commands = require "tide.provision.commands"
local core = require "tide.core"
local errors = require "tide.errors"
local text = require "tide.text"

local kind = {name = "slurm", poll_s = 1}

local UNSEEN_S <const> = 60 -- so long a job that may have been submitted is looked for in the queue
local RESERVE_S <const> = 2 -- of the grace that Slurm gives, for the end of the process
local GONE <const> = {
  CD = "completed", CA = "cancelled", TO = "its time limit is over", F = "failed", NF = "its machine failed",
  OOM = "out of memory", PR = "preempted", BF = "its machine did not boot", DL = "its deadline is over",
}

local function job_name(o) return "tide-" .. o.cluster end

local function label_of(o, name) return name .. "/" .. o.launcher end

-- How long a node has between the signal and the kill.
local function grace_of(o, partition)
  local grace <const> = tonumber(partition:match "GraceTime=(%d+)") or 0
  if grace > 0 then return grace - RESERVE_S end
  local config <const> = commands.run({"scontrol", "show", "config"}, o.directory) or ""
  return (tonumber(config:match "KillWait%s*=%s*(%d+)") or 30) - RESERVE_S
end

function kind.check(o)
  local found, err = commands.run({"sinfo", "-h", "-o", "%R"}, o.directory)
  if not found then return nil, err end
  if o.partition then
    local known = false
    for name in found:gmatch "[^\n]+" do known = known or name == o.partition end
    if not known then
      return nil, errors.new("T0105", {message = ("Slurm has no partition `%s`"):format(o.partition),
        help = "there are " .. found:gsub("%s+$", ""):gsub("\n", ", ")})
    end
  end
  local argv <const> = {"scontrol", "show", "partition"}
  if o.partition then argv[#argv + 1] = o.partition end
  local partition
  partition, err = commands.run(argv, o.directory)
  if not partition then return nil, err end
  o.grace_s = o.grace_s or math.max(grace_of(o, partition), 1)
  return true
end

---The file of a job.
---@return string
function kind.file(o, name)
  local step <const> = {"exec", "srun", "-n1"}
  if o.cpus then table.move({"-c", tostring(o.cpus)}, 1, 2, #step + 1, step) end
  return ("#!/bin/sh\n%s %s\n"):format(table.concat(step, " "), commands.quoted(commands.node(o, name)))
end

---@return string[]
function kind.command(o, name)
  local argv <const> = {"sbatch", "--parsable", "--no-requeue", "-J", job_name(o), "--comment",
                        label_of(o, name), "-N1", "-n1", "--output=" .. kind.log(o, name)}
  local function add(...) table.move({...}, 1, select("#", ...), #argv + 1, argv) end
  if o.cpus then add("-c", tostring(o.cpus)) end
  if o.partition then add("-p", o.partition) end
  if o.gres then add("--gres=" .. o.gres) end
  if o.time then add("-t", o.time, "--signal=TERM@60") end
  add(("%s/%s.job"):format(o.directory, name))
  return argv
end

-- id -> {id, state, reason, eta, name, launcher} of all jobs of this cluster, one call for all; and by label.
local function ask(o)
  local output, err = commands.run({"squeue", "-h", "-t", "all", "-n", job_name(o), "-o", "%i|%t|%r|%S|%k"},
    o.directory)
  if not output then return nil, err end
  local jobs, by_label = {}, {}
  for id, state, reason, eta, label in output:gmatch "(%d+)|(%u+)|([^|\n]*)|([^|\n]*)|([^\n]*)" do
    local name <const>, launcher = label:match "^([^/]+)/(.+)$"
    local job <const> = {id = id, state = state, reason = reason, eta = eta ~= "N/A" and eta or nil, name = name,
                         launcher = launcher}
    jobs[#jobs + 1], by_label[label] = job, job
  end
  return jobs, by_label
end

-- The number of a job that sbatch was to submit. Nothing: it was not, or, with err.unknown, that is unknown.
local function submit(o, name)
  local output, err = commands.run(kind.command(o, name), o.directory)
  local id = output and ("\n" .. output):match ".*\n(%d+)[;%d%w_.-]*%s*$"
  if id then return id end
  local jobs <const>, by_label = ask(o)
  local job <const> = jobs and by_label[label_of(o, name)]
  if job then return job.id end
  err = err or errors.new("T1005", {unknown = true, message = ("sbatch told no number of a job: %s"):format(
    text.clean((output or ""):sub(1, 200)))})
  err.unknown = err.unknown or not jobs or nil
  return nil, err
end

---@return table<string, {job?: string}> ids by name; a job without a number is looked for in the queue
function kind.start(o, names)
  local ids = {}
  for _, name in ipairs(names) do
    local written, err = core.file_write(("%s/%s.job"):format(o.directory, name), kind.file(o, name))
    local job
    if written then job, err = submit(o, name) end
    if not job and not err.unknown then return ids, err end
    ids[name] = {job = job, since = core.now(), why = err and err.message}
  end
  return ids
end

local function describe(id, job)
  if not job and not id.job then
    if core.now() - id.since < UNSEEN_S then return {state = "asked"} end
    return {state = "gone", reason = id.why}
  end
  if not job then return {state = "gone", reason = "Slurm does not know the job any more"} end
  if GONE[job.state] then return {state = "gone", reason = GONE[job.state]} end
  if job.state == "PD" then return {state = "queued", reason = job.reason, eta = job.eta} end
  if job.state == "CG" then return {state = "draining"} end
  return {state = "starting"}
end

---@return table<string, {state: string, reason?: string, eta?: string}>|nil nil: no change, the last one holds
function kind.list(o, tickets)
  local jobs <const>, by_label = ask(o)
  if not jobs then return nil, by_label end
  local seen = {}
  for name, ticket in pairs(tickets) do
    local job <const> = by_label[label_of(o, name)] or ticket.id.adopted and by_label[ticket.id.adopted]
    ticket.id.job = ticket.id.job or job and job.id
    seen[name] = describe(ticket.id, job)
  end
  return seen
end

---Jobs of this cluster that other launchers have started.
---@return table[] {id, name, launcher}
function kind.others(o)
  local list = {}
  for _, job in ipairs(ask(o) or {}) do
    if not GONE[job.state] and job.name and job.launcher ~= o.launcher then list[#list + 1] = job end
  end
  return list
end

function kind.adopted(job) return {job = job.id, adopted = job.name .. "/" .. job.launcher} end

local function cancel(o, ids, ...)
  if not ids[1] then return end
  local argv <const> = {"scancel", ...}
  return commands.run(table.move(ids, 1, #ids, #argv + 1, argv), o.directory)
end

local function ids_of(tickets)
  local ids = {}
  for _, ticket in ipairs(tickets) do ids[#ids + 1] = ticket.id.job end
  return ids
end

function kind.stop(o, tickets) return cancel(o, ids_of(tickets)) end

function kind.kill(o, tickets) return cancel(o, ids_of(tickets), "-s", "KILL", "-f") end

---Cancels what this launcher has in the queue beside its tickets: jobs without a number from sbatch.
function kind.close(o)
  local ids = {}
  for _, job in ipairs(ask(o) or {}) do
    if not GONE[job.state] and job.state ~= "CG" and job.launcher == o.launcher then ids[#ids + 1] = job.id end
  end
  return cancel(o, ids)
end

function kind.id_text(id) return id.job and "job " .. id.job or "job not seen yet" end

function kind.log(o, name) return ("%s/%s.log"):format(o.directory, name) end

return kind
