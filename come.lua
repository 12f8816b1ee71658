local tide = require "tide"
local mtl = tide.multitask
local opt = tide.options {solver = {"", default = "cg"}, at_first = {"", default = ""}, later = {"", default = ""}}
local function list(text)
  local numbers = {}
  for word in text:gmatch "%d+" do numbers[#numbers + 1] = math.tointeger(tonumber(word)) end
  return numbers
end
local data = tide.data.libsvm {generate = {tasks = 6, rows = 15, columns = 8, seed = 2, test = 50}}
local job = mtl.job {name = "tasks", data = data, solver = opt.solver, relation = {"mean", 0.5}, rounds = 2000,
  lambdas = {0.2, 0.1, 0.05}, standardise = false, bias = false, tolerance = 1e-10, without = list(opt.at_first)}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3}
  local run, last = cluster:start(job), nil
  for r in run:events "report" do
    if r.n == 2 and opt.later ~= opt.at_first then run:set {without = list(opt.later)} end
    last = r
  end
  run:wait()
  local model = mtl.model(run)
  local norm = 0
  for k = 1, 8 do norm = norm + model.w[16 + k] ^ 2 end
  assert(norm > 0.01, "a task that is left out has no parameters")
  print(("found %.6f %.2f"):format(last.primal, model:errors "test"[3].squares))
end)
