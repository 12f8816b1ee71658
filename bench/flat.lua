-- Costs that must not grow with the past: run after run in one driver, memory, actors, threads and descriptors of
-- driver and nodes and the time of a clock; then what clocks cost beside tables that nobody uses.
--   tide run bench/flat.lua [--runs 100] [--idle 15] [--json]
local tide = require "tide"
local core = require "tide.core"

local opt = tide.options {
  runs = {"runs, one after the other", default = 100},
  idle = {"tables with clocks that nobody uses", default = 15},
  clocks = {"clocks of a run", default = 200},
  nodes = {"node processes", default = 2},
  json = {"one JSON object instead of text", default = false},
}

local function tables(count)
  local specs = {w = tide.table {keys = tide.dense(1000), width = 16, consistency = "bsp"}}
  for i = 1, count do specs["idle" .. i] = tide.table {keys = tide.dense(1000), width = 16, consistency = "bsp"} end
  return specs
end

local function work(w)
  local keys <const>, ones <const> = tide.range(0, 99), tide.tensor.zeros("f32", 100, 16):fill(1)
  local held <const> = tide.tensor.zeros("f32", 1 << 18, 4):fill(1) -- 4 MiB that must go with the run
  local began <const> = tide.now()
  for _ = 1, opt.clocks do
    w.tables.w:pull(keys)
    w.tables.w:push(keys, ones)
    w:clock()
  end
  w:report {examples = held[1], seconds = (tide.now() - began) / w.workers, rss = core.rss() / w.workers,
            actors = #core.actors() / w.workers}
end

local alone <const> = tide.job {name = "alone", tables = tables(0), worker = work}
local beside <const> = tide.job {name = "beside", tables = tables(opt.idle), worker = work}

local function one(cluster, job)
  local run <close> = cluster:start(job)
  local figures
  for report in run:events "report" do figures = report end
  local summary <const> = run:wait()
  return {seconds = figures.seconds, rss = figures.rss, actors = figures.actors, wire = summary.wire_bytes,
          driver = core.rss(), threads = #core.file_list "/proc/self/task", files = #core.file_list "/proc/self/fd"}
end

-- The median of some runs around one: a run of some hundredths of a second meets whatever else the machine does.
local function median(list, from, to, key)
  local values = {}
  for i = from, to do values[#values + 1] = list[i][key] end
  table.sort(values)
  return values[(#values + 1) // 2]
end

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local runs = {}
  for i = 1, opt.runs do runs[i] = one(cluster, alone) end
  local idle = {}
  for i = 1, 10 do idle[i] = one(cluster, beside) end
  local width <const> = math.min(10, opt.runs // 2)
  local function ends(key) return median(runs, 1, width, key), median(runs, opt.runs - width + 1, opt.runs, key) end
  local out = {schema = "tide.bench.flat/1", runs = opt.runs, clocks = opt.clocks, idle_tables = opt.idle}
  for _, key in ipairs {"seconds", "rss", "actors", "driver", "threads", "files", "wire"} do
    out[key .. "_first"], out[key .. "_last"] = ends(key)
  end
  out.seconds_idle, out.wire_idle = median(idle, 1, 10, "seconds"), median(idle, 1, 10, "wire")
  if opt.json then return print(core.json_encode(out)) end
  print(("%d runs of %d clocks, medians of the first and the last %d:"):format(opt.runs, opt.clocks, width))
  print(("  clocks of a run    %.3f s, %.3f s; beside %d idle tables %.3f s"):format(out.seconds_first,
    out.seconds_last, opt.idle, out.seconds_idle))
  print(("  bytes on the wire  %d, %d; beside idle tables %d"):format(out.wire_first, out.wire_last, out.wire_idle))
  print(("  memory of a node   %.1f MiB, %.1f MiB; of the driver %.1f MiB, %.1f MiB"):format(out.rss_first / 2^20,
    out.rss_last / 2^20, out.driver_first / 2^20, out.driver_last / 2^20))
  print(("  actors of a node   %g, %g; of the driver: threads %d, %d, descriptors %d, %d"):format(out.actors_first,
    out.actors_last, out.threads_first, out.threads_last, out.files_first, out.files_last))
end)
