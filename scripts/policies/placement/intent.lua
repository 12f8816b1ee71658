-- What workers intend decides (AdaPM, 2022): hot keys of tables whose rows move are given back to their intents when
-- something else manages them.
return {
  api = 1, kind = "placement", name = "intent", version = 1, needs = { "key.hot" }, every = 5,

  init = function() return {} end,

  decide = function(_, view)
    local keys, technique, count = {}, {}, 0
    for _, k in ipairs(view.hot or {}) do
      local moves = view.tables[k.table].technique == "relocate" or view.tables[k.table].technique == "intent"
      if moves and k.technique ~= "intent" then
        keys[k.table] = keys[k.table] or {}
        table.insert(keys[k.table], k.key)
        count = count + 1
      end
    end
    for i in ipairs(view.tables) do
      if keys[i] then technique[#technique + 1] = { table = i, keys = keys[i], use = "intent" } end
    end
    return count > 0 and { technique = technique, why = ("%d hot keys go by intents"):format(count) } or {}
  end,
}
