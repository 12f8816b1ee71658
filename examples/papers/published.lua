-- Published points, by name: name for legends, mark, source, points {x, y, low, high}. Scripts draw y, and read it for
-- nothing else.
--
-- mark: where the value was read. "paper", "abstract", "deck" (the authors' slides, rounded labels), "script" (their
-- plotting script), "artefact" (their repository), "docs" (their documentation). No value was read off a picture.
local function points(list)
  local out = {}
  for i, p in ipairs(list) do out[i] = {x = p[1], y = p[2], low = p[3], high = p[4]} end
  return out
end

-- Seconds of 20 steps of batch 32 with VGG19-22K, as speed-up over the 18.5 s of one Caffe node.
local VGG <const> = "Poseidon v2's plotting script, 40GbE, Titan X"

return {
  ["psld.speedup"] = {name = "PSLD", mark = "abstract", points = points {{4, 2.86}},
                      source = "up to so many times as fast as a static assignment"},
  ["poseidon2.poseidon"] = {name = "Poseidon", mark = "script", source = VGG,
                            points = points {{2, 1.96}, {4, 3.83}, {8, 7.63}, {16, 15.0}, {32, 29.5}}},
  ["poseidon2.wfbp"] = {name = "Caffe+WFBP", mark = "script", source = VGG,
                        points = points {{2, 1.78}, {4, 3.28}, {8, 6.12}, {16, 11.6}, {32, 21.4}}},
  ["poseidon2.ps"] = {name = "Caffe+PS", mark = "script", source = VGG,
                      points = points {{2, 1.01}, {4, 1.47}, {8, 2.16}, {16, 2.82}, {32, 4.42}}},
  ["poseidon2.16"] = {name = "VGG19-22K on 16 nodes, 10GbE", mark = "abstract", points = points {{16, 15.5}},
                      source = "Poseidon v2"},
  ["poseidon2.inception"] = {name = "Inception-V3 on 32 nodes", mark = "abstract", points = points {{32, 31.5}},
                             source = "Poseidon v2"},
  ["poseidon1.alexnet"] = {name = "AlexNet, Poseidon v1", mark = "abstract", points = points {{8, 4.5}},
                           source = "8 nodes, K20, 40GbE"},
  ["poseidon1.googlenet"] = {name = "GoogLeNet, Poseidon v1", mark = "abstract", points = points {{8, 4.0}},
                             source = "8 nodes, K20, 40GbE"},
  ["strads.lasso"] = {name = "STRADS, lasso", mark = "abstract", points = points {{1, 5}},
                      source = "EuroSys 2016: faster convergence than without model parallelism"},
  ["pollux.pollux"] = {name = "Pollux", mark = "artefact", source = "mean completion in s of 6 workloads, by load",
                       points = points {{0.5, 1633}, {1.0, 2769}, {1.5, 3596}, {2.0, 5077}}},
  ["pollux.tiresias"] = {name = "Tiresias", mark = "artefact", source = "the same, tuned jobs",
                         points = points {{0.5, 2227}, {1.0, 4254}, {1.5, 6175}, {2.0, 9759}}},
  ["pollux.optimus"] = {name = "Optimus", mark = "artefact", source = "the same",
                        points = points {{0.5, 2611}, {1.0, 5639}, {1.5, 7049}, {2.0, 9271}}},
  ["pollux.cloud_cost"] = {name = "Pollux", mark = "paper", source = "section 5.4.1, over autoscaling by throughput",
                           points = points {{1, 0.75}}},
  ["pollux.cloud_time"] = {name = "Pollux", mark = "paper", source = "the same", points = points {{1, 1.06}}},
  ["lapse.classic"] = {name = "PS-Lite", mark = "deck", source = "RESCAL d = 100, hours an epoch, nodes x 4 threads",
                       points = points {{1, 4.5}, {2, 4.0}, {4, 2.4}, {8, 1.5}}},
  ["lapse.lapse"] = {name = "Lapse", mark = "deck", source = "the same; a label of 0.2 is 0.15 to 0.25",
                     points = points {{1, 1.2, 1.15, 1.25}, {2, 0.6, 0.55, 0.65}, {4, 0.4, 0.35, 0.45},
                                      {8, 0.2, 0.15, 0.25}}},
  ["lapse.mf"] = {name = "Lapse, MF 10^9", mark = "deck", source = "8x4 over 1x4", points = points {{8, 8.4}}},
  ["nups.over"] = {name = "NuPS over existing servers", mark = "abstract", points = points {{8, 10}},
                   source = "up to"},
}
