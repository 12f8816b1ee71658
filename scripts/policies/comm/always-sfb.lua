-- Sufficient factor broadcasting (Xie et al., "Distributed Machine Learning via Sufficient Factor Broadcasting", 2015):
-- every tensor whose gradient comes as factors travels as such, whatever it costs; the others by the parameter servers.
return {
  api = 1, kind = "comm", name = "always-sfb", version = 1, every = 3600, on = { "grant" },
  params = { format = "f32" }, needs = { "tensor.sizes" },
  init = function(params) return params end,
  decide = function(st, view)
    local path, format = {}, {}
    for _, t in ipairs(view.tensors or {}) do
      path[t.id], format[t.id] = t.row_values > 0 and "factor" or "ps", st.format
    end
    return { path = path, format = format }
  end,
}
