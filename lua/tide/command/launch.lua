-- `tide launch`: requests nodes of a launcher for a cluster, and replaces lost ones until the command ends.
local arguments = require "tide.cli.arguments"
local cluster_view = require "tide.cluster.view"
local commands = require "tide.provision.commands"
local errors = require "tide.errors"
local mpi = require "tide.provision.mpi"
local provision = require "tide.provision"
local text = require "tide.text"

local STEP_S <const> = 0.1
local LEAVE_S <const> = 35

local function line_of(event)
  local parts = {("%s  %s"):format(event.name, event.state)}
  if event.id and (event.state == "asked" or event.state == "adopted") then
    parts[#parts + 1] = "(" .. event.id .. ")"
  end
  if event.reason and event.reason ~= "" then parts[#parts + 1] = "- " .. text.clean(event.reason) end
  if event.eta then parts[#parts + 1] = "expected " .. event.eta end
  return table.concat(parts, " ")
end

-- By this client's session, which is made anew after a stall: "joining" meanwhile, when nothing is to be judged.
local function cluster_is_there(core)
  local state <const> = core.node().state
  return state == "up" or state == "joining"
end

local function joined(pool)
  local count = 0
  for _, ticket in ipairs(pool:list()) do count = count + (ticket.state == "joined" and 1 or 0) end
  return count
end

local launch = {}

-- On the control thread, as a client of the cluster.
function launch.inside(a)
  local core <const> = require "tide.core"
  local o <const> = a.pool
  o.cluster = core.node().cluster
  o.event = function(event)
    if a.json then
      event.schema = "tide.launch/1"
      io.stdout:write(text.harmless_json(core.json_encode(event)), "\n")
      io.stdout:flush()
    elseif not a.quiet then
      io.stderr:write(text.harmless(line_of(event)), "\n")
    end
  end
  o.say = function(line) io.stderr:write(text.harmless(line), "\n") end
  local made, problem = require("tide.directory").make("launch-" .. o.cluster)
  if not made then return nil, problem end
  o.directory = require("tide.directory").of("launch-" .. o.cluster)
  local pool, err = provision.new(o)
  if pool then
    local ok
    ok, err = pool:want(a.count)
    if not ok then pool = nil end
  end
  if not pool then return nil, err end
  if pool.left then
    o.say(("%d node%s of launchers that have ended %s here; --adopt takes them over"):format(pool.left,
      pool.left == 1 and "" or "s", pool.left == 1 and "is" or "are"))
  end
  local began <const>, failure, all = core.now(), nil, nil
  while core.interrupted() == 0 do
    local ok, given_up = true, nil
    if core.node().state == "up" then ok, given_up = pool:step() end
    if not ok and not failure then
      failure = given_up
      if pool:list()[1] then
        o.say(("asks for no more nodes and keeps those that are there: %s"):format(errors.from(failure).message))
      end
    end
    if failure and not pool:list()[1] or not cluster_is_there(core) then break end
    if not all and joined(pool) == a.count then
      all = core.now() - began
      o.say(("%d node%s of `%s` %s up after %.1f s%s"):format(a.count, a.count == 1 and "" or "s", o.cluster,
        a.count == 1 and "is" or "are", all, a.once and "" or "; Ctrl-C lets them leave"))
      if a.once then return {nodes = a.count, seconds = all} end
    end
    core.sleep(STEP_S)
  end
  pool:close(cluster_is_there(core) and LEAVE_S or 0)
  if failure then return nil, failure end
  return {nodes = 0, seconds = all}
end

-- The command of the first node, as it would be started.
local function dry_run(context, o, kind)
  local pool <const> = o.pool
  pool.cluster, pool.directory, pool.launcher = pool.cluster or "CLUSTER", "DIR", "LAUNCHER"
  if kind.file then context:print(kind.file(pool, (pool.prefix or pool.kind) .. "-1")) end
  context:print(commands.quoted(kind.command(pool, (pool.prefix or pool.kind) .. "-1")))
  return 0
end

local function launch_mpi(context, o)
  if not o.listen then
    return nil, errors.new("T0103", {
      message = "`tide launch mpi` requires --listen: the address of the first node",
      help = "tide launch mpi -n 4 --listen tcp:10.0.0.4:7700"})
  end
  local argv <const> = mpi.command {
    count = o.count or 1, address = o.listen, cluster = o.cluster and not o.cluster:find(":", 1, true) and o.cluster
      or "local", keys = context.keys, workers = o.workers, program = o.program, root = o.allow_root,
    silence = o.silence}
  if o.dry_run then
    context:print(commands.quoted(argv))
    return 0
  end
  local _, _, code = os.execute("exec " .. commands.quoted(commands.clean(argv, "PMIX_|PMI_|OMPI_")))
  if code == 127 then
    return nil, errors.new("T1005", {message = "mpirun is not installed, or not in $PATH",
      help = "apt install openmpi-bin"})
  elseif code ~= 0 then
    return nil, errors.new("T1005", {message = ("mpirun ended with exit code %s"):format(tostring(code)),
      help = "as root it requires --allow-root; its own messages are above"})
  end
  return 0
end

return {
  name = "launch",
  brief = "start nodes by Slurm, ssh or mpirun",
  summary = "Starts nodes of a running cluster by a launcher, and replaces lost ones. Ctrl-C, or the end of the "
    .. "cluster, lets them leave. `mpi` starts a whole cluster instead.",
  examples = {
    {"tide launch slurm -n 4 --partition main", "four jobs of Slurm, a node each"},
    {"tide launch slurm -n 4 --gres gpu:1 --dry-run", "what would be submitted"},
    {"tide launch ssh -n 3 --hosts hosts.txt", "one by ssh on each machine of the list"},
    {"tide launch local -n 2", "processes of this machine"},
    {"tide launch mpi -n 4 --listen tcp:10.0.0.4:7700", "a cluster of one mpirun"},
    {"tide launch none -n 1", "prints the command line to start it by hand"},
  },
  arguments = {{name = "kind", doc = "slurm, ssh, local, mpi or none"}},
  options = {
    {name = "count", short = "n", type = "integer", min = 1, max = 4096, doc = "nodes (default 1)"},
    {name = "node-workers", short = "w", type = "integer", min = 0, max = 256, doc = "workers of each (default 1)"},
    {name = "node-keys", type = "string", value = "DIR", doc = "keys of nodes, as they see the directory"},
    {name = "program", type = "string", value = "PATH",
     doc = "tide, as the nodes' machines have it (default: this one; by ssh `tide`)"},
    {name = "prefix", type = "string", value = "NAME", doc = "names are NAME-1, NAME-2, .. (default: the kind)"},
    {name = "grace", type = "duration", doc = "time a node has for leaving (default: what the site grants, else 25s)"},
    arguments.shared.silence,
    {name = "once", doc = "end when all have joined, and leave them there (slurm)"},
    {name = "adopt", doc = "take over the nodes of launchers that have ended (slurm)"},
    {name = "partition", short = "p", type = "string", value = "P", doc = "slurm"},
    {name = "gres", type = "string", value = "GRES", doc = "slurm: gpu:1"},
    {name = "cpus", short = "c", type = "integer", min = 1, max = 4096, doc = "slurm: processors of each node"},
    {name = "time", short = "t", type = "string", value = "TIME", doc = "slurm: limit, as sbatch reads it"},
    {name = "hosts", type = "string", value = "FILE", doc = "ssh: HOST or HOST:NODES a line"},
    {name = "ssh-config", type = "string", value = "FILE", doc = "ssh: its configuration (default: the user's)"},
    {name = "listen", type = "string", value = "ADDRESS", doc = "mpi: where the first process leads the cluster"},
    {name = "allow-root", doc = "mpi: as root, which Open MPI refuses otherwise"},
    {name = "dry-run", doc = "print what would be submitted or started, and do nothing"},
    arguments.shared.cluster,
  },
  inside = launch.inside,
  run = function(context)
    local o <const> = context.options
    if o.kind == "mpi" then
      o.workers = o.node_workers
      return launch_mpi(context, o)
    end
    local kind <const>, err = provision.kind(o.kind)
    if not kind then return nil, err end
    if o.once and o.kind ~= "slurm" then
      return nil, errors.new("T0107", {message = "--once requires slurm: nodes of other launchers end with it",
        help = "tide launch slurm --once -n 4"})
    end
    local endpoint <const>, problem, name = require("tide.cluster.client").resolve(o.cluster)
    if not endpoint and not o.dry_run then return nil, problem end
    local pool <const> = {
      kind = o.kind, endpoint = endpoint or "ENDPOINT", cluster = name, workers = o.node_workers or 1,
      keys = o.node_keys,
      program = o.program or o.kind == "ssh" and "tide" or commands.program(),
      prefix = o.prefix, adopt = o.adopt or nil, silence = o.silence, grace_s = o.grace, partition = o.partition,
      gres = o.gres, cpus = o.cpus, time = o.time, hosts = o.hosts, ssh_config = o.ssh_config,
    }
    if o.dry_run then return dry_run(context, {pool = pool}, kind) end
    if endpoint:find "^tcp:" and not endpoint:find "^tcp:127%." and not o.node_keys then
      return nil, errors.new("T0802", {message = "nodes of a cluster on several machines require keys of their own: "
        .. "--node-keys DIR, a directory on their machines", help = "scp -r keys/CLUSTER/node HOST:"})
    end
    local result, refused = cluster_view.attached(context, function(client)
      return client.run("tide.command.launch.inside", {pool = pool, count = o.count or 1, json = context.json,
        quiet = context.quiet, once = o.once})
    end)
    if not result then return nil, refused end
    return 0
  end,
}
