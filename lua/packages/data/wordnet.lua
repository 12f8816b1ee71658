-- tide.data.wordnet: the WordNet 3.0 database as a knowledge graph of synsets, split without leaks. Read by the core.
local formats = require "tide.formats"

return function(data)
  ---The WordNet database as a knowledge graph of synsets, split without leaks.
  ---@param directory? string default: the place of Debian's package wordnet-base
  ---@param options? table passed to the reader
  ---@return tide.data.set as tide.data.triples; note names the rule of the split
  return function(directory, options)
    return data.lazy(function()
      local read, err = formats.wordnet(directory or "/usr/share/wordnet", options or {})
      if not read then return nil, err end
      local parts = {}
      for i, part in ipairs {"train", "valid", "test"} do parts[part] = read.parts[part] or read.parts[i] end
      return {
        entities = read.entities, relations = read.relations, parts = parts, note = read.note,
        entity_count = #read.entities, relation_count = #read.relations, count = parts.train:rows(),
      }
    end)
  end
end
