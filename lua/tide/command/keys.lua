-- `tide keys`: certificates with which nodes and people of several machines know each other.
local errors = require "tide.errors"
local keys = require "tide.cluster.keys"
local listing = require "tide.command.listing"

local COLUMNS <const> = {
  {key = "serial"}, {key = "role"}, {key = "name"}, {key = "ends"}, {key = "state"}, {key = "directory"},
}

local function init(context, o)
  local made, err = keys.init(o.cluster, o.dir)
  if not made then return nil, err end
  local d <const> = made.directory
  return context:tell(made, ("%s/node   goes to every machine that runs nodes (scp -r)\n"
    .. "%s/admin  is yours\n%s/ca     makes further keys: keep it here\n"
    .. "next: tide node --keys %s/node --listen tcp:ADDRESS:7700"):format(d, d, d, d))
end

local function issue(context, o)
  if not o.role or not o.name then
    return nil, errors.new("T0103", {message = "`tide keys issue` requires --role and --name",
      help = "tide keys issue --role read --name alice"})
  end
  local made, err = keys.issue {dir = o.dir, right = o.role, name = o.name, days = o.days}
  if not made then return nil, err end
  return context:tell(made, ("%s is for %s, of role %s, until %s (serial number %s)"):format(
    made.directory, made.name, made.right, os.date("!%Y-%m-%d", made.until_s), made.serial))
end

local function page(context, o)
  local made, err = keys.page {dir = o.dir, names = o.names, days = o.days}
  if not made then return nil, err end
  return context:tell(made, ("%s is for the page at %s, until %s\nnext: tide dashboard --tls %s --listen ADDRESS:7800"
    .. "\nbrowsers ask once whether they trust it: import %s/cert.pem there, or replace cert.pem and key.pem by those "
    .. "of a public authority"):format(made.directory, table.concat(made.names, ", "),
    os.date("!%Y-%m-%d", made.until_s), made.directory, made.directory))
end

local function token(context, o)
  if not o.role or not o.name then
    return nil, errors.new("T0103", {message = "`tide keys token` requires --role and --name"})
  end
  local made, err = keys.token {dir = o.dir, right = o.role, name = o.name, days = o.days}
  if not made then return nil, err end
  if not context.json then context:print("#token=" .. made.token) end
  return context:tell(made, ("that is the end of the page's address for %s, of role %s, until %s (serial number %s), "
    .. "shown only now"):format(made.name, made.right, os.date("!%Y-%m-%d", made.until_s), made.serial))
end

local function revoke(context, o)
  local done, err = keys.revoke(o.serial, o.dir)
  if not done then return nil, err end
  return context:tell(done, ("certificate %s of %s is revoked in:\n  %s\nnodes elsewhere take the file "
    .. "`revoked` within seconds of its copy"):format(o.serial, done.name, table.concat(done.directories, "\n  ")))
end

local function show(context, o)
  local list, err = keys.show(o.dir)
  if not list then return nil, err end
  return listing.print(context, list, COLUMNS)
end

return {
  name = "keys",
  brief = "keys for clusters on several machines",
  summary = "Makes the certificates of nodes and people for clusters on several machines.",
  examples = {
    {"tide keys init lab", "an authority, keys for nodes, keys for you: below keys/lab"},
    {"tide keys issue --role read --name alice", "keys with the right to read, for 30 days"},
    {"tide keys issue --role node --name n3", "keys that only the node n3 can use"},
    {"tide keys page lab.org 10.0.0.4", "a certificate for the page of `tide dashboard --tls`"},
    {"tide keys token --role read --name alice", "a token for that page, which grants the right `read`"},
    {"tide keys revoke 5f0c1d2e3a4b5968", "take them back"},
    {"tide keys show", "what was issued"},
  },
  verbs = {
    {name = "init", doc = "an authority, keys for nodes, keys for you", run = init,
     arguments = {{name = "cluster", doc = "name of the cluster"}}},
    {name = "issue", doc = "keys for a person or a node", run = issue},
    {name = "page", doc = "a certificate for the dashboard's page", run = page,
     arguments = {{name = "names", many = true, doc = "names and numeric addresses of its machine"}}},
    {name = "token", doc = "a token for a person at the dashboard's page", run = token},
    {name = "revoke", doc = "revokes keys", run = revoke,
     arguments = {{name = "serial", doc = "a serial number, as `show` has it"}}},
    {name = "show", doc = "the issued keys", run = show},
  },
  schema = "tide.keys/1",
  options = {
    {name = "dir", type = "string", value = "DIR", doc = "where the keys are (default: keys/CLUSTER)"},
    {name = "role", type = "string", choices = {"read", "operate", "admin", "node"}, value = "ROLE",
     of = "issue, token", doc = "the right of its holder"},
    {name = "name", type = "string", value = "NAME", of = "issue, token", doc = "of the person, or of the node"},
    {name = "days", type = "integer", min = 1, max = 3650,
     of = "issue, token, page", doc = "how long (default 30, at most 366; of nodes 3650; of a page 365, at most 398)"},
  },
}
