-- No model: every path is tried for a while, then each tensor takes the one that was quickest with it, from its
-- gradient to the sum. The chosen path is measured further; another path must be quicker by `gain` to win.
local PATHS = { "ps", "ring", "factor" }

local function quickest(st, t)
  local best = t.path
  for _, p in ipairs(PATHS) do
    local now, other = t.seconds[best], t.seconds[p]
    if other and p ~= best and (not now or other * st.params.gain < now) then best = p end
  end
  return best
end

return {
  api = 1, kind = "comm", name = "measured", version = 1, every = 1, on = { "grant" },
  params = { gain = 1.1, format = "f32", tries = 1 }, -- decisions for which each path is tried
  needs = { "tensor.sizes", "worker.times" },
  init = function(params, saved)
    return { params = params, decisions = type(saved) == "table" and saved.decisions or 0 }
  end,
  decide = function(st, view)
    local trial = PATHS[st.decisions // st.params.tries + 1]
    st.decisions = st.decisions + 1
    local path, format = {}, {}
    for _, t in ipairs(view.tensors or {}) do
      path[t.id], format[t.id] = trial or quickest(st, t), st.params.format
      if path[t.id] == "factor" and t.row_values == 0 then path[t.id] = "ps" end
    end
    return { path = path, format = format, why = trial and "tries " .. trial or "takes what was quickest" }
  end,
  export = function(st) return { decisions = st.decisions } end,
}
