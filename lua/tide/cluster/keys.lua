-- The keys of a cluster as files. A directory holds all that its owner has made:
--
--   keys/lab/ca/       ca.pem, key.pem of the authority; issued, revoked: what it did, a line each. Stays where it is.
--   keys/lab/node/     ca.pem, cert.pem, key.pem, revoked: for every machine that runs nodes
--   keys/lab/page/     for `tide dashboard --tls`: cert.pem and key.pem that browsers take; tokens, one a line
--   keys/lab/admin/    the same for its owner; keys/lab/NAME/ for each person or node that keys were issued to
--
-- A node reads its directory again when its files change (tls.c), so a list of revoked certificates that is copied
-- there takes effect within seconds.
local core = require "tide.core"
local errors = require "tide.errors"

local keys = {}

local PRIVATE <const> = 448 -- 0700
local NODE_DAYS <const>, PERSON_DAYS <const>, PERSON_DAYS_MAX <const> = 3650, 30, 366
local RIGHTS <const> = {read = true, operate = true, admin = true, node = true}

local function fail(message, help, where)
  return nil, errors.new("T0802", {message = message, help = help, where = where})
end

local function exists(path)
  local file <close> = io.open(path, "rb")
  return file ~= nil
end

local function write(path, data)
  local ok, err = core.file_write(path, data, true) -- for its owner's eyes alone
  if not ok then errors.raise("T0802", ("%s: %s"):format(path, err.message)) end
end

local function append(path, line)
  write(path, (exists(path) and core.file_read(path) or "") .. line .. "\n")
end

local function make(path)
  local ok, err = core.mkdir(path, PRIVATE)
  if not ok then errors.raise("T0802", ("%s: %s"):format(path, err.message)) end
end

---The directory of the keys that is meant: the named one, or the only one below ./keys.
---@param wanted? string
---@return string|nil directory, table? err
function keys.directory(wanted)
  if wanted then
    if exists(wanted .. "/ca/ca.pem") then return wanted end
    return fail(("`%s` holds no authority"):format(wanted), "tide keys init CLUSTER makes one")
  end
  local found = {}
  for _, name in ipairs(core.file_list("keys") or {}) do
    if exists(("keys/%s/ca/ca.pem"):format(name)) then found[#found + 1] = "keys/" .. name end
  end
  table.sort(found)
  if #found == 1 then return found[1] end
  return fail(#found == 0 and "there are no keys here" or "there are keys of several clusters: "
    .. table.concat(found, ", "), #found == 0 and "tide keys init CLUSTER makes some" or "name one by --dir")
end

local function read_authority(directory)
  local certificate, err = core.file_read(directory .. "/ca/ca.pem")
  local key
  if certificate then key, err = core.file_read(directory .. "/ca/key.pem") end
  if not key then
    errors.raise("T0802", ("the authority's key cannot be read: %s"):format(err.message))
  end
  return certificate, key
end

-- A credential below the directory; its name there is `as`.
local function issue(directory, as, who)
  local authority <const>, authority_key = read_authority(directory)
  local certificate, key, identity = core.keys_issue(authority, authority_key, who)
  if not certificate then errors.raise("T0802", key.message) end
  local path <const> = directory .. "/" .. as
  make(path)
  write(path .. "/ca.pem", authority)
  write(path .. "/cert.pem", certificate)
  write(path .. "/key.pem", key)
  write(path .. "/revoked", exists(directory .. "/ca/revoked") and core.file_read(directory .. "/ca/revoked") or "")
  append(directory .. "/ca/issued", ("%s %s %s %d %s"):format(identity.serial, identity.right, identity.name,
    identity.until_s, as))
  identity.directory = path
  return identity
end

local function guarded(f, ...)
  local ok, result = pcall(f, ...)
  if ok then return result end
  return nil, errors.from(result, "T0802")
end

---An authority for a cluster, keys for its nodes and for its owner.
---@param cluster string
---@param directory? string default keys/CLUSTER
---@return table|nil {directory=, cluster=, node=, admin=} identities
---@return table? err
function keys.init(cluster, directory)
  directory = directory or "keys/" .. cluster
  if exists(directory .. "/ca/ca.pem") then
    return fail(("`%s` holds an authority already"):format(directory),
      "a new authority would lock out nodes with keys of this one; to replace it, remove that directory first")
  end
  return guarded(function()
    local certificate, key = core.keys_authority(cluster)
    if not certificate then errors.raise("T0802", key.message) end
    make(directory .. "/ca")
    write(directory .. "/ca/key.pem", key)
    write(directory .. "/ca/ca.pem", certificate)
    return {
      directory = directory, cluster = cluster,
      node = issue(directory, "node", {cluster = cluster, right = "node", name = "*", days = NODE_DAYS}),
      admin = issue(directory, "admin", {cluster = cluster, right = "admin", name = "admin", days = PERSON_DAYS_MAX}),
    }
  end)
end

local function cluster_of(directory)
  local text <const> = core.file_read(directory .. "/node/cert.pem")
  local who <const> = text and core.keys_read(text)
  if not who then errors.raise("T0802", directory .. "/node/cert.pem cannot be read") end
  return who.cluster
end

---Keys for a person, or for one node by name.
---@param o {dir?: string, right: string, name: string, days?: integer}
---@return table|nil identity with its directory
---@return table? err
function keys.issue(o)
  local directory <const>, err = keys.directory(o.dir)
  if not directory then return nil, err end
  if not RIGHTS[o.right] then return fail(("`%s` is no role"):format(o.right), "read, operate, admin or node") end
  if not o.name:find("^[a-z0-9][a-z0-9._-]*$") or #o.name > 63 then
    return fail(("`%s` is no name"):format(o.name), "lower-case letters, digits and . _ -, at most 63")
  end
  local most <const> = o.right == "node" and NODE_DAYS or PERSON_DAYS_MAX
  if o.days and o.days > most then
    return fail(("keys of role %s hold for at most %d days, and %d were asked for"):format(o.right, most, o.days),
      ("tide keys issue --role %s --name %s --days %d"):format(o.right, o.name, most))
  end
  local as <const> = o.right == "node" and "node-" .. o.name or o.name
  if as == "ca" or as == "node" or as == "page" or exists(("%s/%s/cert.pem"):format(directory, as)) then
    return fail(("`%s/%s` is there already"):format(directory, as), "revoke those keys and remove the directory first")
  end
  return guarded(function()
    return issue(directory, as, {
      cluster = cluster_of(directory), right = o.right, name = o.name,
      days = o.days or (o.right == "node" and NODE_DAYS or PERSON_DAYS)})
  end)
end

---- the page ---------------------------------------------------------------------------------------------------------

local PAGE_DAYS <const>, PAGE_DAYS_MAX <const> = 365, 398 -- browsers take no longer ones
local SAN_MAX <const> = 16

-- "DNS:lab.org,IP:10.0.0.4"; nil: a word that is neither name nor numeric address.
local function names_of(words)
  local list = {}
  for i, word in ipairs(words) do
    local numeric <const> = word:find "^%d+%.%d+%.%d+%.%d+$" or word:find "^[%x:]*:[%x:]*$"
    if not numeric and not (word:find "^[%w][%w.-]*$" and #word <= 253) then return nil, word end
    list[i] = (numeric and "IP:" or "DNS:") .. word
  end
  return table.concat(list, ",")
end

-- The directory of the page's keys; it has what checks persons' certificates.
local function page_of(directory)
  local path <const> = directory .. "/page"
  make(path)
  write(path .. "/ca.pem", (read_authority(directory)))
  write(path .. "/revoked", exists(directory .. "/ca/revoked") and core.file_read(directory .. "/ca/revoked") or "")
  return path
end

---A certificate for the page at these names and numeric addresses; a former one is replaced, tokens stay.
---@param o {dir?: string, names: string[], days?: integer}
---@return table|nil {directory=, names=, until_s=}
---@return table? err
function keys.page(o)
  local directory <const>, err = keys.directory(o.dir)
  if not directory then return nil, err end
  local names <const>, wrong = names_of(o.names)
  if not names then return fail(("`%s` is no name or numeric address of a machine"):format(wrong)) end
  if #o.names == 0 or #o.names > SAN_MAX then
    return fail("a certificate of a page has 1 to 16 names", "tide keys page lab.org 10.0.0.4")
  end
  local days <const> = o.days or PAGE_DAYS
  if days > PAGE_DAYS_MAX then
    return fail(("certificates of pages hold for at most %d days, and %d were asked for"):format(PAGE_DAYS_MAX, days))
  end
  return guarded(function()
    local certificate <const>, key = core.keys_page(names, days)
    if not certificate then errors.raise("T0802", key.message) end
    local path <const> = page_of(directory)
    write(path .. "/cert.pem", certificate)
    write(path .. "/key.pem", key)
    return {directory = path, names = o.names, until_s = os.time() + days * 86400}
  end)
end

---A token for a person, for the page alone.
---@param o {dir?: string, right: string, name: string, days?: integer}
---@return table|nil {directory=, token=, serial=, right=, name=, until_s=}
---@return table? err
function keys.token(o)
  local directory <const>, err = keys.directory(o.dir)
  if not directory then return nil, err end
  local days <const> = o.days or PERSON_DAYS
  if not RIGHTS[o.right] or o.right == "node" then
    return fail(("`%s` is no role of a person"):format(o.right), "read, operate or admin")
  elseif not o.name:find "^[a-z0-9][a-z0-9._-]*$" or #o.name > 63 then
    return fail(("`%s` is no name"):format(o.name), "lower-case letters, digits and . _ -, at most 63")
  elseif days > PERSON_DAYS_MAX then
    return fail(("tokens hold for at most %d days, and %d were asked for"):format(PERSON_DAYS_MAX, days))
  end
  return guarded(function()
    local path <const>, token <const> = page_of(directory), core.keys_token()
    local made <const> = {directory = path, token = token, serial = core.keys_token():sub(1, 16), right = o.right,
      name = o.name, until_s = os.time() + days * 86400}
    append(path .. "/tokens", ("%s %s %s %d %s"):format(made.serial, made.right, made.name, made.until_s, token))
    append(directory .. "/ca/issued", ("%s %s %s %d page/tokens"):format(made.serial, made.right, made.name,
      made.until_s))
    return made
  end)
end

---The tokens in a page's directory, without those that are revoked.
---@param directory string
---@return table[]|nil {token=, name=, right=, until_s=}; nil: see err
---@return string|tide.error revoked the list of revoked serial numbers, or what is wrong
function keys.tokens(directory)
  local text <const>, err = core.keys_secret(directory, "tokens")
  if not text and errors.from(err).name ~= "ENOENT" then return nil, errors.from(err, "T0802") end
  local revoked <const>, list, gone = core.file_read(directory .. "/revoked") or "", {}, {}
  for serial in (revoked .. "\n"):gmatch "(%x+)[^\n]*\n" do gone[serial] = true end
  for line in (text or ""):gmatch "[^\n]+" do
    local serial <const>, right <const>, name <const>, until_s <const>, token <const> =
      line:match "^(%x+) (%l+) (%S+) (%d+) (%x+)$"
    if not serial or #token ~= 64 or #name > 63 or not RIGHTS[right] or right == "node" then
      return fail("a line of the page's tokens is none", "tide keys token adds lines", directory .. "/tokens")
    end
    if not gone[serial] then
      list[#list + 1] = {token = token, name = name, right = right, until_s = math.tointeger(tonumber(until_s))}
    end
  end
  return list, revoked
end

---- what was issued ---------------------------------------------------------------------------------------------------

---All that was issued, with what became of it.
---@param wanted? string directory
---@return table[]|nil array of {serial=, right=, name=, until_s=, directory=, state=}
---@return table? err
---@return string? directory
function keys.show(wanted)
  local directory <const>, err = keys.directory(wanted)
  if not directory then return nil, err end
  local revoked, list = {}, {}
  for serial in ((core.file_read(directory .. "/ca/revoked") or "") .. "\n"):gmatch("(%x+)[^\n]*\n") do
    revoked[serial] = true
  end
  local now <const> = os.time()
  for line in (core.file_read(directory .. "/ca/issued") or ""):gmatch("[^\n]+") do
    local serial, right, name, until_s, as = line:match("^(%x+) (%S+) (%S+) (%d+) (%S+)$")
    if serial then
      until_s = math.tointeger(tonumber(until_s))
      list[#list + 1] = {
        serial = serial, role = right, name = name, until_s = until_s, directory = directory .. "/" .. as,
        ends = os.date("!%Y-%m-%d", until_s),
        state = revoked[serial] and "revoked" or until_s < now and "expired" or "valid",
      }
    end
  end
  return list, nil, directory
end

---Takes a certificate back: its serial number goes into the list of the authority and of all directories here.
---@param serial string
---@param wanted? string directory
---@return table|nil {serial=, directories=}
---@return table? err
function keys.revoke(serial, wanted)
  local list <const>, err, directory = keys.show(wanted)
  if not list then return nil, err end
  local found
  for _, row in ipairs(list) do found = found or row.serial == serial and row or nil end
  if not found then
    return fail(("no certificate has the serial number %s"):format(serial), "tide keys show lists them")
  end
  if found.state == "revoked" then return fail(("certificate %s is revoked already"):format(serial)) end
  return guarded(function()
    local line <const> = ("%s %s %s"):format(serial, found.role, found.name)
    append(directory .. "/ca/revoked", line)
    local written = {}
    for _, name in ipairs(core.file_list(directory) or {}) do
      local path = ("%s/%s"):format(directory, name)
      if name ~= "ca" and (exists(path .. "/cert.pem") or exists(path .. "/tokens")) then
        write(path .. "/revoked", core.file_read(directory .. "/ca/revoked"))
        written[#written + 1] = path
      end
    end
    table.sort(written)
    return {serial = serial, role = found.role, name = found.name, directories = written}
  end)
end

return keys
