-- Every tensor by the parameter servers, in one format.
return {
  api = 1, kind = "comm", name = "always-ps", version = 1, every = 3600, on = { "grant" },
  params = { format = "f32" }, needs = { "tensor.sizes" },
  init = function(params) return params end,
  decide = function(st, view)
    local path, format = {}, {}
    for _, t in ipairs(view.tensors or {}) do path[t.id], format[t.id] = "ps", st.format end
    return { path = path, format = format }
  end,
}
