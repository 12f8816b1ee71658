-- Speed-up of data-parallel training with published nets, in the simulator:
--   tide sim bench/speedup.lua --net vgg19-22k --nodes 16 --gbit 10
--
-- What travels is real: the exchange's actors, messages and queues. What is computed is not: a layer's passes take the
-- time that the net's published rate of images on one Titan X gives, shared out by multiply-adds (a third forward, two
-- thirds backward). Sizes are scaled: matrices have a quarter of their rows and columns, batches a quarter of their
-- images; all other values, the network's rate and its windows are a 16th. So times are those of the full size, but for
-- the heads of frames.
local tide = require "tide"
local core = require "tide.core"
local sim = require "tide.sim"

local SIDE <const> = 4            -- of a matrix
local SCALE <const> = SIDE * SIDE -- of all else
local WINDOW <const> = 1 << 18   -- bytes that a connection holds between two nodes
local UNDER_WAY <const> = 8 << 20 -- bytes that an exchange gives all links together
local STEPS <const> = 6
local PRODUCT_FLOPS <const> = 5e12 -- of a Titan X (peak 6.1e12), for the products of the others' factors

local opt = tide.options {
  net = {"the net", default = "all",
         choices = {"all", "alexnet", "vgg19", "vgg19-22k", "googlenet", "inception-v3", "resnet-152"}},
  nodes = {"numbers of nodes, separated by commas", default = "1,2,4,8,16,32"},
  gbit = {"rate of each node's card", default = 10},
  methods = {"how gradients travel, separated by commas", default = "no overlap,ps,ring,sfb,bytes,hybrid,overlap"},
  share = {"of what a card carries in a step, that `hybrid` and `overlap` use", default = 0.6},
  images = {"images/s of one node, in place of the net's published rate on a Titan X", type = "number"},
  format = {"of dense values on the wire", default = "f32", choices = {"f32", "bf16", "f16"}},
}

local FIXED <const> = {ps = true, ring = true, sfb = true}
local POLICIES <const> = {}
for method, name in pairs {bytes = "hybrid", hybrid = "hybrid", overlap = "overlap", sfb = "always-sfb"} do
  local text <const> = assert(require("tide.policy.source").find("comm/" .. name)).text
  POLICIES[method] = assert(load(text, "@comm/" .. name .. ".lua"))()
end

---- nets: layers {name, values, flops of an image, rows, columns (fully connected)} ---------------------------------

-- One entry of convolutions {in, out, height, width of the window, positions, groups}.
local function convolutions(name, list)
  local layer = {name = name, values = 0, flops = 0}
  for _, c in ipairs(list) do
    local weights <const> = c[1] // (c[6] or 1) * c[2] * c[3] * c[4]
    layer.values = layer.values + weights + c[2]
    layer.flops = layer.flops + 2 * weights * c[5]
  end
  return layer
end

local function full(name, rows, columns)
  return {name = name, values = (rows + 1) * columns, flops = 2 * rows * columns, rows = rows, columns = columns}
end

local function alexnet()
  return {
    convolutions("conv1", {{3, 96, 11, 11, 55 * 55}}), convolutions("conv2", {{96, 256, 5, 5, 27 * 27, 2}}),
    convolutions("conv3", {{256, 384, 3, 3, 13 * 13}}), convolutions("conv4", {{384, 384, 3, 3, 13 * 13, 2}}),
    convolutions("conv5", {{384, 256, 3, 3, 13 * 13, 2}}),
    full("fc6", 9216, 4096), full("fc7", 4096, 4096), full("fc8", 4096, 1000),
  }
end

local function vgg19(classes)
  local layers, before = {}, 3
  for stage, shape in ipairs {{64, 2, 224}, {128, 2, 112}, {256, 4, 56}, {512, 4, 28}, {512, 4, 14}} do
    for i = 1, shape[2] do
      layers[#layers + 1] = convolutions(("conv%d_%d"):format(stage, i),
        {{before, shape[1], 3, 3, shape[3] * shape[3]}})
      before = shape[1]
    end
  end
  layers[#layers + 1] = full("fc6", 25088, 4096)
  layers[#layers + 1] = full("fc7", 4096, 4096)
  layers[#layers + 1] = full("fc8", 4096, classes)
  return layers
end

local function googlenet()
  local layers = {convolutions("stem", {{3, 64, 7, 7, 112 * 112}, {64, 64, 1, 1, 56 * 56}, {64, 192, 3, 3, 56 * 56}})}
  for _, m in ipairs {
    {"3a", 28, 192, 64, 96, 128, 16, 32, 32}, {"3b", 28, 256, 128, 128, 192, 32, 96, 64},
    {"4a", 14, 480, 192, 96, 208, 16, 48, 64}, {"4b", 14, 512, 160, 112, 224, 24, 64, 64},
    {"4c", 14, 512, 128, 128, 256, 24, 64, 64}, {"4d", 14, 512, 112, 144, 288, 32, 64, 64},
    {"4e", 14, 528, 256, 160, 320, 32, 128, 128}, {"5a", 7, 832, 256, 160, 320, 32, 128, 128},
    {"5b", 7, 832, 384, 192, 384, 48, 128, 128},
  } do
    local at <const>, n <const> = m[2] * m[2], m[3]
    layers[#layers + 1] = convolutions("inception" .. m[1], {
      {n, m[4], 1, 1, at}, {n, m[5], 1, 1, at}, {m[5], m[6], 3, 3, at}, {n, m[7], 1, 1, at}, {m[7], m[8], 5, 5, at},
      {n, m[9], 1, 1, at}})
  end
  layers[#layers + 1] = full("fc", 1024, 1000)
  return layers
end

local function inception_v3()
  local layers = {convolutions("stem", {
    {3, 32, 3, 3, 149 * 149}, {32, 32, 3, 3, 147 * 147}, {32, 64, 3, 3, 147 * 147}, {64, 80, 1, 1, 73 * 73},
    {80, 192, 3, 3, 71 * 71}})}
  local function add(name, list) layers[#layers + 1] = convolutions(name, list) end
  local a <const>, b <const>, c <const> = 35 * 35, 17 * 17, 8 * 8
  for i, m in ipairs {{192, 32}, {256, 64}, {288, 64}} do
    local n <const> = m[1]
    add("a" .. i, {{n, 64, 1, 1, a}, {n, 48, 1, 1, a}, {48, 64, 5, 5, a}, {n, 64, 1, 1, a}, {64, 96, 3, 3, a},
                   {96, 96, 3, 3, a}, {n, m[2], 1, 1, a}})
  end
  add("a to b", {{288, 384, 3, 3, b}, {288, 64, 1, 1, a}, {64, 96, 3, 3, a}, {96, 96, 3, 3, b}})
  for i, w in ipairs {128, 160, 160, 192} do
    add("b" .. i, {{768, 192, 1, 1, b}, {768, w, 1, 1, b}, {w, w, 1, 7, b}, {w, 192, 7, 1, b}, {768, w, 1, 1, b},
                   {w, w, 7, 1, b}, {w, w, 1, 7, b}, {w, w, 7, 1, b}, {w, 192, 1, 7, b}, {768, 192, 1, 1, b}})
  end
  add("b to c", {{768, 192, 1, 1, b}, {192, 320, 3, 3, c}, {768, 192, 1, 1, b}, {192, 192, 1, 7, b},
                 {192, 192, 7, 1, b}, {192, 192, 3, 3, c}})
  for i, n in ipairs {1280, 2048} do
    add("c" .. i, {{n, 320, 1, 1, c}, {n, 384, 1, 1, c}, {384, 384, 1, 3, c}, {384, 384, 3, 1, c}, {n, 448, 1, 1, c},
                   {448, 384, 3, 3, c}, {384, 384, 1, 3, c}, {384, 384, 3, 1, c}, {n, 192, 1, 1, c}})
  end
  layers[#layers + 1] = full("fc", 2048, 1000)
  return layers
end

local function resnet_152()
  local layers, before = {convolutions("conv1", {{3, 64, 7, 7, 112 * 112}})}, 64
  for stage, s in ipairs {{3, 64, 56}, {8, 128, 28}, {36, 256, 14}, {3, 512, 7}} do
    local width <const>, at <const> = s[2], s[3] * s[3]
    for i = 1, s[1] do
      local list = {{before, width, 1, 1, at}, {width, width, 3, 3, at}, {width, 4 * width, 1, 1, at}}
      if i == 1 then list[4] = {before, 4 * width, 1, 1, at} end
      layers[#layers + 1] = convolutions(("conv%d_%d"):format(stage + 1, i), list)
      before = 4 * width
    end
  end
  layers[#layers + 1] = full("fc", 2048, 1000)
  return layers
end

-- images_per_s: on one Titan X, of Zhang et al., "Poseidon" (USENIX ATC 2017), figures 5 to 8, read off the text and
-- charts; AlexNet's is an assumption.
local NETS <const> = {
  {name = "alexnet", layers = alexnet(), batch = 128, images_per_s = 400},
  {name = "vgg19", layers = vgg19(1000), batch = 32, images_per_s = 35.5},
  {name = "vgg19-22k", layers = vgg19(21841), batch = 32, images_per_s = 34.2},
  {name = "googlenet", layers = googlenet(), batch = 128, images_per_s = 257},
  {name = "inception-v3", layers = inception_v3(), batch = 32, images_per_s = 43.2},
  {name = "resnet-152", layers = resnet_152(), batch = 32, images_per_s = 40},
}

for _, net in ipairs(NETS) do net.images_per_s = opt.images or net.images_per_s end

---- a worker --------------------------------------------------------------------------------------------------------

---How each layer travels, and as what. The policies see the net at full size: comm/hybrid goes by bytes, as published,
---when it knows no rate ("bytes"), else by seconds; comm/overlap by the card's rate and the time of a step's computing.
---Cards work beside the processor here, and memory takes no time.
local function plan_of(net, method, workers)
  local paths, formats, policy = {}, {}, POLICIES[method]
  local view = {workers = {}, tensors = {}, job = {}, net = {}}
  for i = 1, workers do view.workers[i] = {id = i} end
  for i, layer in ipairs(net.layers) do
    local matrix = layer.rows and layer.rows * layer.columns or 0
    paths[i], formats[i] = method == "ring" and "ring" or "ps", opt.format
    view.tensors[i] = {id = i, values = layer.values, rest = layer.values - matrix, rank = net.batch, path = paths[i],
                       row_values = layer.rows and layer.rows + layer.columns or 0}
  end
  if not policy then return {path = paths, format = formats} end
  local step_s <const> = net.batch / net.images_per_s
  if method == "overlap" or method == "hybrid" then
    view.net.bytes_per_s, view.job.compute_s = opt.gbit * 1e9 / 8, step_s
  end
  local flops, below = 0, 0
  for _, layer in ipairs(net.layers) do flops = flops + layer.flops end
  for i, layer in ipairs(net.layers) do
    view.tensors[i].window_s = below / flops * step_s
    below = below + layer.flops
  end
  policy.params.share, policy.params.format = opt.share, opt.format
  policy.params.flops_per_s = PRODUCT_FLOPS
  policy.params.memory_bytes_per_s, policy.params.wire_bytes_per_s = 1e18, 1e18
  return policy.decide(policy.init(policy.params), view)
end

---Layers as the exchange takes them, scaled.
local function scaled(layers)
  local list, first = {}, 0
  for i, layer in ipairs(layers) do
    local entry = {first = first, matrices = {}}
    if layer.rows then
      local rows <const>, columns <const> = layer.rows // SIDE, layer.columns // SIDE
      entry.count = rows * columns + math.max(1, layer.columns // SCALE)
      entry.matrices[1] = {parameter = i, first = first, rows = rows, columns = columns}
    else
      entry.count = math.max(1, layer.values // SCALE)
    end
    list[i], first = entry, first + entry.count
  end
  return list, first
end

local function zeros(rows, columns) return core.tensor("f32", rows, columns) end

local function train(w)
  local net <const>, method <const> = NETS[w.params.net], w.params.method
  local layers <const> = net.layers
  local exchanged, elements = scaled(layers)
  local x <const> = assert(core.exchange {rank = w.rank, workers = w.workers, elements = elements, layers = exchanged,
                                          under_way = UNDER_WAY // SCALE})
  x:connect(w:barrier("exchange", x:address()))
  local travels <const> = plan_of(net, method, w.workers)
  local plan = {epoch = 0, paths = travels.path, formats = {}, fanouts = {}}
  local flops = 0
  for i, layer in ipairs(layers) do
    plan.formats[i], plan.fanouts[i] = plan.paths[i] == "factor" and "f32" or travels.format[i], 0
    flops = flops + layer.flops
  end
  x:plan(plan)
  w:barrier "connected"
  local rows <const> = math.max(1, net.batch // SIDE)
  local step_s <const> = net.batch / net.images_per_s

  local taken = {} -- steps, by layer
  local function arrive(l, step)
    while taken[l] ~= step do
      local m <const> = x:next(l, step)
      x:need(m, step, false)
      taken[m] = step
      if plan.paths[m] == "factor" then
        sim.work(2 * (w.workers - 1) * net.batch * layers[m].rows * layers[m].columns)
      end
    end
  end
  local function leave(l, step)
    if plan.paths[l] == "factor" then
      local m <const> = exchanged[l].matrices[1]
      x:factors(l, 1, zeros(rows, m.rows), zeros(rows, m.columns), rows)
    end
    x:ready(l, step)
  end

  local times = {}
  for step = 1, STEPS do
    local began <const> = core.now()
    if step > 1 then
      x:sums(step - 1)
      if method == "no overlap" then for l = 1, #layers do arrive(l, step - 1) end end
    end
    for l = 1, #layers do
      if step > 1 and method ~= "no overlap" then arrive(l, step - 1) end
      sim.work(step_s / 3 * layers[l].flops / flops * PRODUCT_FLOPS)
    end
    for l = #layers, 1, -1 do
      sim.work(2 * step_s / 3 * layers[l].flops / flops * PRODUCT_FLOPS)
      if method ~= "no overlap" then leave(l, step) end
    end
    if method == "no overlap" then for l = #layers, 1, -1 do leave(l, step) end end
    x:share(step, {1})
    times[step] = core.now() - began
  end
  x:sums(STEPS)
  for l = 1, #layers do x:need(l, STEPS, false) end
  table.remove(times, 1)
  table.sort(times)
  w:report {step_s = w.rank == 1 and times[#times // 2 + 1] or 0,
            bytes = w.rank == 1 and x:stats().bytes * SCALE / STEPS or 0}
end

local job = tide.job {name = "speedup", worker = train, params = {net = 1, method = ""}}

---- the driver ------------------------------------------------------------------------------------------------------

local function measure(number, nodes, method)
  local cluster <close> = tide.cluster {nodes = nodes, workers = 1}
  local run = cluster:start(job, {net = number, method = method})
  local report
  for r in run:events "report" do report = r end
  run:wait()
  local net <const> = NETS[number]
  return nodes * net.batch / net.images_per_s / report.step_s, report
end

tide.main(function()
  if not sim.active then error("speedup.lua is for `tide sim`: tide sim bench/speedup.lua", 0) end
  sim.compute {flops = PRODUCT_FLOPS}
  sim.net {nic = ("%gMbit"):format(opt.gbit * 1000 / SCALE), latency = "20us", window = WINDOW // SCALE}
  for i, net in ipairs(NETS) do
    if opt.net == "all" or opt.net == net.name then
      local values = 0
      for _, layer in ipairs(net.layers) do values = values + layer.values end
      print(("%s: %.1f M values, batch %d, %g images/s on one, %g Gbit/s"):format(net.name, values / 1e6, net.batch,
        net.images_per_s, opt.gbit))
      for nodes in opt.nodes:gmatch "%d+" do
        local best = 0 -- of the methods that are the same for all layers
        for method in opt.methods:gmatch "[^,]+" do
          local speedup, report = measure(i, math.tointeger(tonumber(nodes)), method)
          best = FIXED[method] and math.max(best, speedup) or best
          local of_best <const> = not FIXED[method] and best > 0 and speedup / best or nil
          if tide.output.json then
            print(core.json_encode {net = net.name, nodes = math.tointeger(tonumber(nodes)), gbit = opt.gbit,
                                    method = method, speedup = speedup, of_best = of_best, step_s = report.step_s,
                                    bytes_step = report.bytes})
          else
            print(("  %3s nodes  %-10s  %6.2fx  step %7.3f s  out %7.1f MB%s"):format(nodes, method, speedup,
              report.step_s, report.bytes / 1e6, of_best and ("  %5.1f %% of best"):format(100 * of_best) or ""))
          end
        end
      end
    end
  end
end)
