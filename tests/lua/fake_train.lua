-- The fake of tide.core under specs of running jobs: no node, a clock that stands, messages kept.

local KERNELS = ""
for _, path in ipairs {"kernels/kernels.h", "kernels/packages/lda/kernels.def", "kernels/packages/descent/kernels.def",
                       "kernels/packages/multitask/kernels.def"} do
  local list <close> = assert(io.open(path))
  KERNELS = KERNELS .. list:read("a"):gsub("TIDE_KERNEL%(([%w_]+)%)", "tide_kernel_%1;")
end

local function copied(value)
  if type(value) ~= "table" then return value end
  local copy = {}
  for k, v in pairs(value) do copy[k] = copied(v) end
  return copy
end

---A core that keeps what is sent, for specs of running jobs.
---@return table fake {core, sent, answers, time, ...}
return function()
  local f = {time = 0, sent = {}, inbox = {}, answers = {}, errors = {}, members_list = {}, monitors = 0, called = {}}
  f.core = {
    person = function() end,
    mutant = function(name) return name == os.getenv "TIDE_MUTANT" end, -- planted, for tests/mutants.sh
    version = "0", now = function() return f.time end, sleep = function(s) f.time = f.time + s end,
    send = function(to, value)
      local copy = {}
      for k, v in pairs(value) do copy[k] = v end
      f.sent[#f.sent + 1] = {to = to, value = copy}
      return true
    end,
    call = function(to, value)
      f.called[#f.called + 1] = {to = to, value = value}
      return f.reply(to, value)
    end,
    receive = function() return table.remove(f.inbox, 1) end,
    answer = function(message, value)
      f.answers[#f.answers + 1] = {message = message, value = value}
      return true
    end,
    refused = function() f.refused = (f.refused or 0) + 1 end,
    answer_error = function(message, err)
      f.errors[#f.errors + 1] = {message = message, err = err}
      return true
    end,
    monitor = function(address)
      f.monitors = f.monitors + 1
      f.monitored = f.monitored or {}
      f.monitored[address] = f.monitors
      return f.monitors
    end,
    demonitor = function() end,
    members = function() return f.members_list end,
    sha256 = function(text)
      local h = 17
      for i = 1, #text do h = (h * 31 + text:byte(i)) % 4294967291 end
      return ("%016x"):format(h):rep(4)
    end,
    random = function(seed)
      local state = seed
      return {
        below = function(_, n)
          state = (state * 6364136223846793005 + 1442695040888963407)
          return (state >> 33) % n
        end,
        state = function() return tostring(state) end,
        restore = function(_, kept) f.restored, state = kept, math.tointeger(tonumber(kept)) or 0 end,
      }
    end,
    cut_clock = function() return f.cut_clock end,
    fiber = function(body, ...) body(...) end,
    title = function() end,
    span = function(_, part, ...) return part(...) end,
    worker_begin = function(number, clock)
      f.worker, f.clock = number, clock
      return true
    end,
    worker_end = function() f.worker = nil end,
    worker_clock = function() return f.clock end,
    settle = function() return true end,
    clock = function()
      f.clock = f.clock + 1
      return f.clock
    end,
    json_encode = function() return "{}" end,
    encode = function(value)
      f.encoded = f.encoded or {}
      f.encoded[#f.encoded + 1] = copied(value)
      return "encoded " .. #f.encoded
    end,
    decode = function(text) return copied(f.encoded[tonumber(text:match "%d+")]) end,
    table_find = function(name)
      return {name = name, spec = {technique = f.technique}, homes = function() return f.homes or {} end}
    end,
    file_read = function() return nil end,
    interrupted = function() return 0 end, simulated = function() return false end,
    kernel = function(name) -- those that there are, and none computes
      if not KERNELS:find(("tide_kernel_%s;"):format(name), 1, true) then
        error {name = "ENOENT", code = "T0901", message = ("no kernel is named `%s`"):format(name)}
      end
      return function() error(("the fake core does not compute `%s`"):format(name)) end
    end,
  }
  f.reply = function(agent, value)
    if value.op == "load" then return {tables = {}, links = {}, machine = f.machines and f.machines[agent]} end
    if value.op == "start" then
      local addresses = {}
      for i, rank in ipairs(value.ranks) do addresses[i] = "w:" .. rank end
      return {addresses = addresses}
    end
    return {}
  end

  ---A script as the driver sends it.
  function f.script_of(text, path)
    return {text = text, path = path or "x.lua", sha = f.core.sha256(text), args = {}, modules = {},
            args_sha = require("tide.script").args_sha({})}
  end
  dofile "tests/lua/fake_limits.lua" (f.core)
  dofile "tests/lua/fake_options.lua" (f.core)
  return f
end
