-- `tide keys`: certificates with which nodes and people of several machines know each other.
local errors = require "tide.errors"
local keys = require "tide.cluster.keys"
local listing = require "tide.show.listing"

local COLUMNS <const> = {
  {key = "serial"}, {key = "role"}, {key = "name"}, {key = "ends"}, {key = "state"}, {key = "directory"},
}

local actions = {}

function actions.init(context, cluster)
  local made, err = keys.init(cluster, context.options.dir)
  if not made then return nil, err end
  local d <const> = made.directory
  return context:tell("tide.keys/1", made, ("%s/node   goes to every machine that runs nodes (scp -r)\n"
    .. "%s/admin  is yours\n%s/ca     makes further keys: keep it here\n"
    .. "next: tide node --keys %s/node --listen tcp:ADDRESS:7700"):format(d, d, d, d))
end

function actions.issue(context)
  local o <const> = context.options
  if not o.role or not o.name then
    return nil, errors.new("T0103", {message = "`tide keys issue` requires --role and --name"})
  end
  local made, err = keys.issue {dir = o.dir, right = o.role, name = o.name, days = o.days}
  if not made then return nil, err end
  return context:tell("tide.keys/1", made, ("%s is for %s, of role %s, until %s (serial number %s)"):format(
    made.directory, made.name, made.right, os.date("!%Y-%m-%d", made.until_s), made.serial))
end

function actions.revoke(context, serial)
  local done, err = keys.revoke(serial, context.options.dir)
  if not done then return nil, err end
  return context:tell("tide.keys/1", done, ("certificate %s of %s is revoked in:\n  %s\nnodes elsewhere take the file "
    .. "`revoked` within seconds of its copy"):format(serial, done.name, table.concat(done.directories, "\n  ")))
end

function actions.show(context)
  local list, err = keys.show(context.options.dir)
  if not list then return nil, err end
  listing.print(context, list, COLUMNS, "tide.keys/1")
  return 0
end

local WANTS <const> = {init = "CLUSTER", revoke = "SERIAL"}

return {
  name = "keys",
  brief = "keys for clusters on several machines",
  summary = "Makes the certificates by which nodes and people of several machines know each other.",
  examples = {
    {"tide keys init lab", "an authority, keys for nodes, keys for you: below keys/lab"},
    {"tide keys issue --role read --name alice", "keys for a person who may look, for 30 days"},
    {"tide keys issue --role node --name n3", "keys that only the node n3 can use"},
    {"tide keys revoke 5f0c1d2e3a4b5968", "take them back"},
    {"tide keys show", "what was issued"},
  },
  arguments = {
    {name = "action", doc = "init, issue, revoke or show"},
    {name = "what", optional = true, doc = "init: the cluster; revoke: a serial number"},
  },
  options = {
    {name = "dir", type = "string", value = "DIR", doc = "where the keys are (default: keys/CLUSTER)"},
    {name = "role", type = "string", choices = {"read", "operate", "admin", "node"}, value = "ROLE",
     doc = "issue: what its holder may do"},
    {name = "name", type = "string", value = "NAME", doc = "issue: of the person, or of the node"},
    {name = "days", type = "integer", min = 1, max = 3650,
     doc = "issue: how long (default 30, at most 366; of nodes 3650)"},
  },
  run = function(context)
    local o <const> = context.options
    local action <const> = actions[o.action]
    if not action then
      return nil, errors.new("T0105", {message = ("`%s` is none of init, issue, revoke, show"):format(o.action)})
    end
    if WANTS[o.action] and not o.what then
      return nil, errors.new("T0103", {message = ("`tide keys %s` requires a %s"):format(o.action, WANTS[o.action])})
    end
    return action(context, o.what)
  end,
}
