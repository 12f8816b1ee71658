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

return {
  name = "dashboard",
  brief = "a page about a running cluster in your browser",
  summary = "Serves a page about a running cluster on this machine, to you alone, until Ctrl-C: bottlenecks of "
    .. "runs, nodes, tables, workers, learning curves, decisions of policies, events.",
  examples = {
    {"tide dashboard", "prints the address to open"},
    {"tide dashboard --cluster lab --port 7800", "always at the same port"},
    {"tide dashboard --port 7800 --served-as https://lab.org/tide/", "behind a web server that passes requests on"},
    {"tide dashboard --cluster tcp:10.0.0.4:7700 --keys ~/.config/tide/lab", "of a cluster on other machines"},
  },
  options = {
    arguments.shared.cluster,
    {name = "port", type = "integer", min = 1, max = 65535, value = "N", doc = "of 127.0.0.1 (default: any free one)"},
    {name = "served-as", type = "string", value = "URL",
     doc = "the address at which a reverse proxy or `ssh -L` serves it: https://lab.org/tide/"},
    {name = "every", type = "duration", doc = "time between two samples (default 1s)"},
    {name = "file", type = "string", value = "FILE", doc = "write the address there too, readable by you alone"},
  },
  notes = {"The address ends in a token, which grants read access. It is new each "
    .. "time. The page changes nothing in the cluster."},
  stays = function() return true end,
  schema = "tide.dashboard/1",
  run = function(context)
    local o <const> = context.options
    local core <const> = context.core
    local served_as <const>, mistake = place_of(o.served_as)
    if mistake then return nil, mistake end
    local deadline <const> = context.timeout_s and core.now() + context.timeout_s
    return cluster_view.attached(context, function()
      local page, err = require("tide.dashboard").open {
        port = o.port, served_as = served_as, every_s = o.every and math.max(o.every, EVERY_MIN_S)}
      if not page then
        if err.name == "EBUSY" then
          err = errors.new("T0107", {message = ("port %d is taken"):format(o.port),
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
