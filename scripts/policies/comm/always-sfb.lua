-- Sufficient factor broadcasting (Xie et al., "Distributed Machine Learning via Sufficient Factor Broadcasting", 2015):
-- every tensor whose gradient comes as factors travels as such, whatever it costs; the others by the parameter servers.
-- fanout: how many others a worker sends its factors to, who pass them on; 0: all (their partial broadcast, but here
-- every worker gets all factors in the end).
return {
  api = 1, kind = "comm", name = "always-sfb", version = 1, every = 3600, on = { "grant" },
  params = { format = "f32", fanout = 0 }, needs = { "tensor.sizes" },
  init = function(params) return params end,
  decide = function(st, view)
    local path, format, fanout = {}, {}, {}
    for _, t in ipairs(view.tensors or {}) do
      local factors = t.row_values > 0
      path[t.id] = factors and "factor" or "ps"
      format[t.id] = (factors or st.format ~= "sparse") and st.format or "f32"
      fanout[t.id] = st.fanout
    end
    return { path = path, format = format, fanout = fanout }
  end,
}
