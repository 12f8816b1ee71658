-- Nodes as jobs of Slurm, one job a node: growing, shrinking and losing one touch no other. The node is a step of its
-- job, for Slurm signals steps first: a preempted node hears of it at once and has all of the partition's GraceTime.
local commands = require "tide.provision.commands"
local core = require "tide.core"
local errors = require "tide.errors"

local kind = {name = "slurm", poll_s = 1}

local RESERVE_S <const> = 2 -- of the grace that Slurm gives, for the end of the process
local GONE <const> = {
  CD = "completed", CA = "cancelled", TO = "its time limit is over", F = "failed", NF = "its machine failed",
  OOM = "out of memory", PR = "preempted", BF = "its machine did not boot", DL = "its deadline is over",
}

local function job_name(o) return "tide-" .. o.cluster end

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
  local argv <const> = {"sbatch", "--parsable", "--no-requeue", "-J", job_name(o), "--comment", name, "-N1", "-n1",
                        "--output=" .. kind.log(o, name)}
  local function add(...) table.move({...}, 1, select("#", ...), #argv + 1, argv) end
  if o.cpus then add("-c", tostring(o.cpus)) end
  if o.partition then add("-p", o.partition) end
  if o.gres then add("--gres=" .. o.gres) end
  if o.time then add("-t", o.time, "--signal=TERM@60") end
  add(("%s/%s.job"):format(o.directory, name))
  return argv
end

function kind.start(o, names)
  local ids = {}
  for _, name in ipairs(names) do
    local written, err = core.file_write(("%s/%s.job"):format(o.directory, name), kind.file(o, name))
    local output
    if written then output, err = commands.run(kind.command(o, name), o.directory) end
    local id <const> = output and output:match "^(%d+)"
    if not id then return ids, err end
    ids[name] = id
  end
  return ids
end

-- id -> {state, reason, eta, name} of all jobs of this cluster, one call for all.
local function ask(o)
  local output, err = commands.run({"squeue", "-h", "-t", "all", "-n", job_name(o), "-o", "%i|%t|%r|%S|%k"},
    o.directory)
  if not output then return nil, err end
  local jobs = {}
  for id, state, reason, eta, name in output:gmatch "(%d+)|(%u+)|([^|\n]*)|([^|\n]*)|([^\n]*)" do
    jobs[id] = {state = state, reason = reason, eta = eta ~= "N/A" and eta or nil, name = name}
  end
  return jobs
end

local function describe(job)
  if not job then return {state = "gone", reason = "Slurm does not know the job any more"} end
  if GONE[job.state] then return {state = "gone", reason = GONE[job.state]} end
  if job.state == "PD" then return {state = "queued", reason = job.reason, eta = job.eta} end
  if job.state == "CG" then return {state = "draining"} end
  return {state = "starting"}
end

---@return table<string, {state: string, reason?: string, eta?: string}>|nil nil: no news, the last one holds
function kind.list(o, tickets)
  local jobs <const>, err = ask(o)
  if not jobs then return nil, err end
  local seen = {}
  for name, ticket in pairs(tickets) do seen[name] = describe(jobs[ticket.id]) end
  return seen
end

---Jobs of this cluster that nobody here has a ticket of: of a launcher that ended.
---@return table<string, any> ids by name
function kind.adopt(o)
  local ids = {}
  for id, job in pairs(ask(o) or {}) do
    if not GONE[job.state] and job.name ~= "" then ids[job.name] = id end
  end
  return ids
end

local function cancel(o, tickets, ...)
  if not tickets[1] then return end
  local argv <const> = {"scancel", ...}
  for _, ticket in ipairs(tickets) do argv[#argv + 1] = ticket.id end
  return commands.run(argv, o.directory)
end

function kind.stop(o, tickets) return cancel(o, tickets) end

function kind.kill(o, tickets) return cancel(o, tickets, "-s", "KILL", "-f") end

function kind.id_text(id) return "job " .. id end

function kind.log(o, name) return ("%s/%s.log"):format(o.directory, name) end

return kind
