-- A day of three persons on four slots, by the simulator of jobs: `tide run bench/day.lua`. Ann is greedy and submits
-- four times what she may have, Bob stops every fourth of his runs after half an hour, Cay has a high weight and one
-- urgent run an hour. Prints the table of docs/guides/shares.md. Slot hours are those in which all three wanted more.
local tide = require "tide"
local HERE <const> = arg[0]:match "^(.*)/bench/" or "."
local small = dofile(HERE .. "/tests/policy/small_trace.lua")

local HOURS <const>, SLOTS <const> = 24, 4
local PERSONS <const> = { -- runs an hour, what they are
  {name = "ann", weight = 1, runs = 16, app = "wide"},
  {name = "bob", weight = 2, runs = 26, app = "narrow", cancels = 4},
  {name = "cay", weight = 5, runs = 26, app = "wide", urgent = true},
}

local function write_workload(path)
  local rng <const>, lines, count = tide.random(7), {}, {}
  for hour = 0, HOURS - 1 do
    for _, p in ipairs(PERSONS) do
      for i = 1, p.runs do
        local id <const> = ("%s-%d-%d"):format(p.name, hour, i)
        local cancel <const> = p.cancels and i % p.cancels == 0 and 1800 or ""
        lines[#lines + 1] = {hour * 3600 + (hour == 0 and i or rng:below(3600)), ("%s,%%d,%s,1,%d,%s,%d,%s"):format(id,
          p.app, small.apps[p.app].start, p.name, p.urgent and i == 1 and 10 or 0, cancel)}
        count[p.name] = (count[p.name] or 0) + 1
      end
    end
  end
  table.sort(lines, function(a, b) return a[1] < b[1] or a[1] == b[1] and a[2] < b[2] end)
  for i, line in ipairs(lines) do lines[i] = line[2]:format(line[1]) end
  small.write(path, "name,time,application,num_replicas,batch_size,user,priority,cancel\n"
    .. table.concat(lines, "\n") .. "\n")
  return count
end

tide.main(function()
  local folder <const> = small.make(0)
  local submitted <const> = write_workload(folder .. "/day.csv")
  small.write(folder .. "/shares.lua",
    "return {half_life = '2h', persons = {ann = {weight = 1}, bob = {weight = 2}, cay = {weight = 5}}}")
  local r <const> = require("tide.sim.jobs").new {profiles = folder .. "/profiles", nodes = 1, slots = SLOTS,
    every = 60, resize = 5, shares = folder .. "/shares.lua"}:run {
    workload = folder .. "/day.csv", policy = "scheduling/fair"}
  small.remove(folder)

  local all, weights, of = 0, 0, {}
  for _, p in ipairs(PERSONS) do
    all, weights, of[p.name] = all + r.contended[p.name], weights + p.weight, {waits = 0, runs = 0, cancelled = 0}
  end
  for _, job in ipairs(r.jobs) do
    local p <const> = of[job.person]
    p.runs, p.waits, p.cancelled = p.runs + 1, p.waits + job.wait, p.cancelled + (job.cancelled and 1 or 0)
  end
  print(("%.0f slot hours while all wanted more, over %.0f half-lives; a decision takes %.1f ms"):format(all,
    all / SLOTS / 2, r.decision_ms))
  print "| person | weight | runs | stopped by her | mean wait (min) | slot hours | share | of weights | ratio |"
  print "|---|---|---|---|---|---|---|---|---|"
  for _, p in ipairs(PERSONS) do
    local share <const>, due <const>, own <const> = r.contended[p.name] / all, p.weight / weights, of[p.name]
    print(("| %s | %d | %d | %d | %.0f | %.0f | %.3f | %.3f | %.3f |"):format(p.name, p.weight, submitted[p.name],
      own.cancelled, own.waits / own.runs / 60, r.contended[p.name], share, due, share / due))
  end
end)
