-- tide.data.triples: knowledge graphs as text, one `head TAB relation TAB tail` a line. Read by the core.
local formats = require "tide.formats"
local package = require "tide.package"

local PARTS <const> = {"train", "valid", "test"}
local ENDINGS <const> = {".txt", ".tsv", ".del"}

local function exists(path)
  local file <close> = io.open(path, "rb")
  return file ~= nil
end

---Files of a directory by the names that such sets have: train.txt, valid.txt, test.txt (or .tsv, .del).
local function files_of(directory)
  local paths = {}
  for i, part in ipairs(PARTS) do
    for _, ending in ipairs(ENDINGS) do
      local path = directory .. "/" .. part .. ending
      if not paths[i] and exists(path) then paths[i] = path end
    end
    if not paths[i] then
      return nil, package.error("T0401", ("%s has no %s.txt"):format(directory, part), {
        where = directory, help = "a directory of triples holds train.txt, valid.txt and test.txt"})
    end
  end
  return paths
end

return function(data)
  ---A knowledge graph: train.txt, valid.txt, test.txt with one `head TAB relation TAB tail` a line.
  ---@param where string|table a directory, or {train=, valid=, test=}
  ---@param options? {ids?: boolean} ids: the fields are numbers from 0 on, not names
  ---@return tide.data.set entities, relations (names), entity_count, relation_count, parts train, valid, test
  return function(where, options)
    options = options or {}
    package.check_fields("T0115", "tide.data.triples", options, {ids = true})
    return data.lazy(function()
      local paths, err
      if type(where) == "table" then
        paths = {where.train or where[1], where.valid or where[2], where.test or where[3]}
      else
        paths, err = files_of(where)
        if not paths then return nil, err end
      end
      err = data.check_pipes(paths)
      if err then return nil, err end
      local read
      read, err = formats.triples(paths, options)
      if not read then return nil, err end
      local parts = {}
      for i, part in ipairs(PARTS) do
        parts[part] = read.parts[part] or read.parts[i]
        if not parts[part] or #parts[part] == 0 then
          return nil, package.error("T0402", "expected at least one triple, the file has none", {where = paths[i]})
        end
      end
      local note = ("%s: %d train, %d valid, %d test triples over %d entities and %d relations"):format(
        type(where) == "string" and where or paths[1], parts.train:rows(), parts.valid:rows(), parts.test:rows(),
        #read.entities, #read.relations) .. data.oddities {
          {read.repeated, "training triples are duplicates of earlier ones"},
          {read.leaked_valid, "valid triples are training triples too"},
          {read.leaked_test, "test triples are training triples too"},
          {read.unseen, "entities of valid and test are never in train"},
          {read.unseen_relations, "relations of valid and test are never in train"}}
      return {
        entities = read.entities, relations = read.relations, parts = parts, note = note,
        entity_count = #read.entities, relation_count = #read.relations, count = parts.train:rows(),
      }
    end)
  end
end
