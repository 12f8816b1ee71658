-- The folds of cross-validation: of each example the one that leaves it out.
local folds = {}

---Examples of weight 0 are in no fold. With classes each fold has its share of each of them.
---@param order integer[] the examples from 1, shuffled
---@param count integer folds
---@param o {weights?: number[], class?: fun(i: integer): integer} class of an example, 1 or 2
---@return integer[] fold by example, from 1; 0: in none
---@return string|nil note what a class means that has fewer examples than there are folds
function folds.of(order, count, o)
  local fold_of <const>, groups <const>, at, note = {}, {{}, {}}, 0, nil
  for _, i in ipairs(order) do
    fold_of[i] = 0
    if not o.weights or o.weights[i] > 0 then table.insert(groups[o.class and o.class(i) or 1], i) end
  end
  for _, own in ipairs(groups) do
    local alone <const> = o.class and #own == 1
    if o.class and #own < count then
      note = ("warning: a class has %d example%s for %d folds: %s"):format(#own, alone and "" or "s", count,
        alone and "every fold is fitted with it and none is judged by it" or "some folds are judged without it")
    end
    for _, i in ipairs(alone and {} or own) do
      fold_of[i] = at % count + 1
      at = at + 1
    end
  end
  return fold_of, note
end

return folds
