-- The model that the table declares.
return {
  api = 1, kind = "sync", name = "fixed", version = 1, every = 3600, on = {},
  init = function() return {} end,
  decide = function() return {} end,
}
