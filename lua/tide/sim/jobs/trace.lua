-- Workloads: submissions with their times. `name,time,application,num_replicas,batch_size`, checked against the
-- profiles. A column `user` names the person of each job, `priority` its place among the jobs of that person, `cancel`
-- after how many seconds from its submission the person stops it; an empty cell of the last: never.
local csv = require "tide.sim.jobs.csv"

local trace = {}

local COLUMNS <const> = {
  {name = "name", text = true}, {name = "time"}, {name = "application", text = true}, {name = "num_replicas"},
  {name = "batch_size"}, {name = "user", text = true, optional = true},
  {name = "priority", optional = true}, {name = "cancel", optional = true, empty = true},
}

local function check(path, line, r, app, slots)
  local function fail(...) csv.fail(path, line, (...)) end
  if r.time < 0 then fail "`time` is negative" end
  if not app then fail(("no profile is called `%s`"):format(r.application)) end
  if not math.tointeger(r.num_replicas) or r.num_replicas < 1 then fail "`num_replicas` must be 1 or more slots" end
  if not math.tointeger(r.batch_size) or r.batch_size < app.start then
    fail(("`batch_size` must be %d or more, the smallest that %s was trained with"):format(app.start, app.name))
  end
  if r.batch_size > app.max then
    fail(("`batch_size` is %d, %s was trained with %d at most"):format(r.batch_size, app.name, app.max))
  end
  if r.num_replicas > slots then
    fail(("the job requires %d slots and can never run: there are %d"):format(r.num_replicas, slots))
  end
  if not math.tointeger(r.priority) or math.abs(r.priority) > 1000 then
    fail "`priority` must be a whole number from -1000 to 1000"
  end
  if r.cancel and r.cancel < 0 then fail "`cancel` is negative" end
  local m = app:split(r.batch_size, r.num_replicas)
  if m < app.low or m > app.high then
    fail(("%d slots would take %d examples each, the profile has %d to %d"):format(r.num_replicas, m, app.low,
      app.high))
  end
end

---@class tide.sim.jobs.request
---@field name string
---@field time integer
---@field app table
---@field slots integer
---@field batch integer
---@field person string
---@field priority integer
---@field cancel? number

---@param path string
---@param profiles table of tide.sim.jobs.profiles
---@param slots integer of the cluster
---@return tide.sim.jobs.request[] in file order; raises what is wrong, with file and line
function trace.read(path, profiles, slots)
  local t = csv.read(path, COLUMNS)
  local list, seen = {}, {}
  for i, line in ipairs(t.line) do
    local r = {name = t.name[i], time = t.time[i], application = t.application[i], num_replicas = t.num_replicas[i],
               batch_size = t.batch_size[i], priority = t.priority and t.priority[i] or 0,
               cancel = t.cancel and t.cancel[i] or nil}
    local app = profiles:app(r.application)
    check(path, line, r, app, slots)
    if seen[r.name] then csv.fail(path, line, ("a second job is called `%s`"):format(r.name)) end
    seen[r.name] = true
    list[i] = {name = r.name, time = r.time, app = app, slots = math.tointeger(r.num_replicas),
               batch = math.tointeger(r.batch_size), priority = math.tointeger(r.priority),
               cancel = r.cancel, person = t.user and t.user[i] or "user"}
  end
  return list
end

return trace
