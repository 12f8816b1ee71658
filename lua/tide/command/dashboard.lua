-- `tide dashboard`: a page about a running cluster, for the user who started it.
local arguments = require "tide.cli.arguments"
local cluster_view = require "tide.cluster.view"
local errors = require "tide.errors"
local text = require "tide.text"

local EVERY_MIN_S <const> = 0.2

-- An address as a browser has it, in origin and path: "https://lab.org:8443" and "/tide/".
local function place_of(url)
  if not url then return nil end
  local origin <const>, path <const> = url:match "^(https?://[%w.:%[%]-]+)(/?[%w/._~-]*)$"
  if origin and #origin <= 255 and not path:find("//", 1, true) then
    return {origin = origin:lower(), path = path:find "/$" and path or path .. "/"}
  end
  return nil, errors.new("T0105", {message = ("`%s` is no address of a page"):format(text.clean(url)),
    help = "tide dashboard --port 7800 --served-as https://lab.org/tide/"})
end

-- "10.0.0.4:7800", "[::1]:7800".
local function listen_of(o)
  if not o.listen and not o.tls then return {} end
  if not (o.listen and o.tls) then
    return nil, errors.new("T0103", {message = o.listen and "an address of other machines is served over TLS alone: "
      .. "--tls is missing" or "--tls requires --listen ADDRESS:PORT", help = "tide keys page lab.org 10.0.0.4; "
      .. "tide dashboard --tls keys/lab/page --listen 10.0.0.4:7800"})
  end
  local address <const>, port <const> = o.listen:match "^%[?([%d.:a-fA-F]+)%]?:(%d+)$"
  local number <const> = math.tointeger(tonumber(port or ""))
  if not number or number < 1 or number > 65535 or o.port then
    return nil, errors.new("T0104", {message = o.port and "--port is of 127.0.0.1, and --listen has its own"
      or ("--listen %s is no numeric address with a port"):format(text.clean(o.listen)),
      help = "tide dashboard --tls keys/lab/page --listen 10.0.0.4:7800"})
  end
  return {address = address, port = number}
end

return {
  name = "dashboard",
  brief = "a page about a running cluster in your browser",
  summary = "Serves a page about a running cluster on this machine, to you alone, until Ctrl-C: bottlenecks of "
    .. "runs, nodes, tables, workers, learning curves, decisions of policies, events. With --tls and --listen it "
    .. "serves those who have a token or certificate, over TLS.",
  examples = {
    {"tide dashboard", "prints the address to open"},
    {"tide dashboard --cluster lab --port 7800", "always at the same port"},
    {"tide dashboard --port 7800 --served-as https://lab.org/tide/", "behind a web server that passes requests on"},
    {"tide dashboard --tls keys/lab/page --listen 10.0.0.4:7800", "for a group: each has a token with a right"},
    {"tide dashboard --cluster tcp:10.0.0.4:7700 --keys ~/.config/tide/lab", "of a cluster on other machines"},
  },
  options = {
    arguments.shared.cluster,
    {name = "port", type = "integer", min = 1, max = 65535, value = "N", doc = "of 127.0.0.1 (default: any free one)"},
    {name = "served-as", type = "string", value = "URL",
     doc = "the address at which a reverse proxy or `ssh -L` serves it: https://lab.org/tide/"},
    {name = "listen", type = "string", value = "ADDRESS:PORT",
     doc = "with --tls: serve at this address, for others too"},
    {name = "tls", type = "string", value = "DIR",
     doc = "certificate, key and tokens of the page, as `tide keys page` and `tide keys token` make them"},
    {name = "every", type = "duration", doc = "time between two samples (default 1s)"},
    {name = "file", type = "string", value = "FILE", doc = "write the address there too, readable by you alone"},
  },
  notes = {"The address ends in a token, which grants what you may do. It is new each time. Others get tokens of "
    .. "their own by `tide keys token`. The page changes nothing in the cluster."},
  stays = function() return true end,
  schema = "tide.dashboard/1",
  run = function(context)
    local o <const> = context.options
    local core <const> = context.core
    local served_as <const>, mistake = place_of(o.served_as)
    if mistake then return nil, mistake end
    local listen <const>, wrong = listen_of(o)
    if not listen then return nil, wrong end
    local deadline <const> = context.timeout_s and core.now() + context.timeout_s
    return cluster_view.attached(context, function()
      local page, err = require("tide.dashboard").open {
        port = listen.port or o.port, address = listen.address, tls = o.tls, served_as = served_as,
        every_s = o.every and math.max(o.every, EVERY_MIN_S)}
      if not page then
        if err.name == "EBUSY" then
          err = errors.new("T0107", {message = ("port %d is taken"):format(listen.port or o.port or 0),
            help = "name another one; without --port the command takes any free port"})
        end
        return nil, err
      end
      if o.file then
        local ok, problem = core.file_write(o.file, page:url() .. "\n", true)
        if not ok then
          page:close()
          return nil, errors.new("T0403", {message = "the address cannot be written: " .. problem.message,
            where = o.file})
        end
      end
      if context.json then
        context:record({url = page:url()})
      else
        context:print(page:url())
        context:say "open it in a browser; Ctrl-C ends it"
      end
      local ok, code, problem = pcall(page.run, page, deadline)
      page:close()
      if not ok then error(code, 0) end
      return code, problem
    end)
  end,
}
