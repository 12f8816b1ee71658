-- Small profiles and a workload for tests of the job simulator, made from known numbers: two applications on up to four
-- nodes of four slots.
local small = {}

-- Seconds of a pass, and of a step with it, of `slots` on `machines`.
local function seconds(app, machines, slots, m)
  local pass = app.ag + app.bg * m
  local sync = slots == 1 and 1e-8 or machines == 1 and app.al or app.an + app.bn * (slots - 2)
  return pass, (pass ^ app.g + sync ^ app.g) ^ (1 / app.g)
end

small.apps = {
  wide = {ag = 0.05, bg = 0.002, al = 0.01, an = 0.05, bn = 0.002, g = 2, start = 64, high = 128, epochs = 4,
          steps = 600, sqr = 0.2, var = 4},
  narrow = {ag = 0.2, bg = 0.01, al = 0.1, an = 0.6, bn = 0.02, g = 1.5, start = 16, high = 32, epochs = 3, steps = 200,
            sqr = 1, var = 0.5},
}
local BATCHES <const> = 4 -- of a profile: start times 1, 2, 4, 8

local function write(path, text)
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
end
small.write = write

-- Every way to spread slots over up to four machines of four.
local function placements()
  local out, seen = {}, {}
  local function add(counts)
    local name = require("tide.sim.jobs.profiles").placement(counts)
    if not seen[name] then
      seen[name], out[#out + 1] = true, {name = name, counts = table.move(counts, 1, #counts, 1, {})}
    end
    if #counts == 4 then return end
    for n = 1, 4 do
      counts[#counts + 1] = n
      add(counts)
      counts[#counts] = nil
    end
  end
  for n = 1, 4 do add {n} end
  return out
end

local function write_app(folder, app)
  local lines = {"placement,local_bsz,step_time,sync_time"}
  for _, p in ipairs(placements()) do
    local slots = 0
    for _, n in ipairs(p.counts) do slots = slots + n end
    for _, m in ipairs {4, app.high // 2, app.high} do
      local pass, step = seconds(app, #p.counts, slots, m)
      lines[#lines + 1] = ("%s,%d,%.17g,%.17g"):format(p.name, m, step, step - pass)
    end
  end
  write(folder .. "/placements.csv", table.concat(lines, "\n") .. "\n")
  write(folder .. "/interpolated.csv", "num_nodes,num_replicas,local_bsz,step_time,sync_time\n5,5,4,1,0.1\n")
  for b = 0, BATCHES - 1 do
    local batch, rows = app.start << b, {"progress,iteration,metric,grad_sqr,grad_var"}
    local scale = 1 << b
    local gain = (app.var + app.sqr) / (app.var / scale + app.sqr)
    for e = 1, app.epochs do
      rows[#rows + 1] = ("%.17g,%d,0,%.17g,%.17g"):format(app.steps * e + b * 0.25, app.steps * e // gain, app.sqr, app.var)
    end
    write(("%s/validation-%d.csv"):format(folder, batch), table.concat(rows, "\n") .. "\n")
  end
end

---Writes profiles and `workload.csv` of `count` jobs into a new folder.
---@return string folder
function small.make(count)
  local core = require "tide.core"
  local folder = os.tmpname()
  os.remove(folder)
  for _, name in ipairs {"", "/profiles", "/profiles/wide", "/profiles/narrow"} do assert(core.mkdir(folder .. name)) end
  for name, app in pairs(small.apps) do write_app(folder .. "/profiles/" .. name, app) end
  local rng = core.random(5)
  local lines, at = {"name,time,application,num_replicas,batch_size"}, 0
  for i = 1, count do
    local name = rng:uniform() < 0.5 and "wide" or "narrow"
    local app, slots = small.apps[name], 1 << math.tointeger(rng:below(3))
    at = at + math.tointeger(rng:below(120))
    lines[#lines + 1] = ("%s-%d,%d,%s,%d,%d"):format(name, i, at, name, slots, app.start * slots)
  end
  write(folder .. "/workload.csv", table.concat(lines, "\n") .. "\n")
  return folder
end

function small.remove(folder)
  if folder:find "^/tmp/" then os.execute("rm -r '" .. folder .. "'") end
end

return small
