-- Every slot stays where its table was made.
return {
  api = 1, kind = "placement", name = "static", version = 1, every = 3600, on = {},
  init = function() return {} end,
  decide = function() return {} end,
}
