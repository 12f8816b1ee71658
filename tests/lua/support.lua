-- What the specs of the command line share: a fake core, a fake cluster, and a way to run one command line.

package.path = "lua/?.lua;lua/?/init.lua;tests/lua/?.lua;" .. package.path

local support = {}

support.core = require "fake_core"
package.loaded["tide.core"] = support.core

---What the fake cluster answers; tests replace functions.
support.cluster = {}
local collect <const>, driver <const> = {ask = function() return {nodes = {}, runs = {}} end}, {}

local function members()
  local list = {
    {id = 1, name = "controller", state = "up", workers = 0, store = false, pid = 100, endpoint = "unix:/run/c"},
    {id = 2, name = "n1", state = "up", workers = 1, store = true, pid = 101, endpoint = "unix:/run/n1"},
    {id = 3, name = "n2", state = "dead", workers = 1, store = true, pid = 102, endpoint = "unix:/run/n2"},
  }
  list.view = 7
  return list
end

local function status_of_n1()
  return {
    rss_bytes = 3 * 1024 * 1024, now = 12,
    events = {{number = 1, time = 1790000000, kind = "node", text = "node n2 died: silent for 2.3 s"}},
    actors = {
      {address = "2:1", name = "agent", type = "lua", waits_for = "receive", waits_s = 1.5, mailbox_messages = 0,
       mailbox_bytes = 0, messages_handled = 1200, handling_ns = 2000000},
      {address = "2:9", name = "", type = "worker", waits_for = "pull factors", waits_s = 0.02, mailbox_messages = 3,
       mailbox_bytes = 2048, messages_handled = 5, handling_ns = 10},
    },
    links = {{peer = 1, up = true, bytes_out = 1048576, bytes_in = 10, frames_out = 5, frames_in = 6, queue_bytes = 0,
              round_trip_ns = 250000}},
    tables = {factors = {name = "factors", width = 64, rows = 1682, memory_bytes = 430592, pulls_local = 990,
                         pulls_remote = 10, pushes_local = 0, pushes_remote = 0, bytes_out = 2560}},
  }
end

---Puts the fake world back to its start.
function support.reset()
  local core <const> = support.core
  core.interrupts, core.stopped, core.time = 0, 0, 0
  core.members_are = members()
  core.node_is = {id = 9, name = "client", cluster = "local"}
  core.terminal_is = {stdin = false, stdout = false, stderr = false, width = 100, utf8 = true}
  local cluster <const> = support.cluster -- commands have required it
  for name in pairs(cluster) do cluster[name] = nil end
  cluster.calls = {}
  local function remember(name, answer)
    return function(o)
      cluster.calls[#cluster.calls + 1] = {name, o}
      return answer
    end
  end
  cluster.attach = remember("attach", true)
  local gathered = remember("gather", {
    {name = "controller", id = 1, state = "up",
     answer = {rss_bytes = 1000, actors = {}, links = {}, tables = {}, events = {}}},
    {name = "n1", id = 2, state = "up", answer = status_of_n1()},
    {name = "n2", id = 3, state = "dead"},
  })
  cluster.run = function() return nil, {message = "there is no node"} end
  cluster.gather = function(what)
    if what ~= "hottest" then return gathered(what) end
    local function hot(total, ...)
      return {factors = {total = total, keys = {7, 9}, reads = {...}, writes = {64, 0}}}
    end
    return {{name = "n1", state = "up", answer = hot(1280, 192, 128)}, {name = "n2", state = "dead"},
            {name = "n3", state = "up", answer = hot(1280, 256, 0)}}
  end
  cluster.up = remember("up", {cluster = "local", endpoint = "unix:/run/c", pids = {100, 101}})
  cluster.started = function(name) return name or "local" end
  cluster.runs = function() return {} end
  cluster.down = remember("down", {cluster = "local", ended = 3, killed = 0})
  cluster.main = remember("node", 0)
  for _, module in ipairs {"client", "up_down", "node"} do package.loaded["tide.cluster." .. module] = cluster end
  package.loaded["tide.cluster.collect"] = collect
  package.loaded["tide.run.driver"] = driver
  driver.run = function(o)
    cluster.calls[#cluster.calls + 1] = {"run", o}
    return 0
  end
end

---Runs a command line.
---@param line string|string[] words, or one text split at blanks
---@param o? {env?: table<string, string>, answer?: string}
---@return {code: integer, out: string, err: string}
function support.tide(line, o)
  o = o or {}
  local words = line
  if type(line) == "string" then
    words = {}
    for word in line:gmatch("%S+") do words[#words + 1] = word end
  end
  local out, err = {}, {}
  local code <const> = require("tide.command").main(words, {
    core = support.core,
    getenv = function(name) return (o.env or {XDG_CONFIG_HOME = "/nonexistent"})[name] end,
    write_out = function(s) out[#out + 1] = s end,
    write_err = function(s) err[#err + 1] = s end,
    read_line = function() return o.answer end,
  })
  return {code = code, out = table.concat(out), err = table.concat(err)}
end

---Lines of a text.
---@param s string
---@return string[]
function support.lines(s)
  local list = {}
  for line in s:gmatch("([^\n]*)\n?") do list[#list + 1] = line end
  if list[#list] == "" then list[#list] = nil end
  return list
end

---A temporary file; the caller removes it.
---@param content string
---@param suffix? string
---@return string path
function support.temporary(content, suffix)
  local path <const> = os.tmpname()
  os.remove(path)
  local file <const> = assert(io.open(path .. (suffix or ""), "w"))
  file:write(content)
  file:close()
  return path .. (suffix or "")
end

support.reset()
return support
