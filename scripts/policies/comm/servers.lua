-- Every tensor by the parameter servers, in f32.
return {
  api = 1, kind = "comm", name = "servers", version = 1, every = 3600, on = { "grant" },
  needs = { "tensor.sizes" },
  init = function() return {} end,
  decide = function(_, view)
    local path, format = {}, {}
    for _, t in ipairs(view.tensors or {}) do path[t.id], format[t.id] = "ps", "f32" end
    return { path = path, format = format }
  end,
}
