-- `tide new`: the files of a package to begin with, which are those of examples/packages/squares under another name.
local errors = require "tide.errors"

local FILES <const>, NAME <const> = "package/", "squares"

return {
  name = "new",
  brief = "the files of a new package",
  summary = "Makes a directory with a package that has a kernel in C and a test: `cd NAME && make test`.",
  examples = {
    {"tide new package words", "words/ with words/init.lua, words/words.c, test.lua, Makefile"},
  },
  arguments = {
    {name = "what", choices = {"package"}, doc = "package"},
    {name = "name", doc = "of the package: small letters, digits and _"},
  },
  configured = false,
  schema = "tide.new/1",
  run = function(context)
    local o <const>, core <const> = context.options, context.core
    if not o.name:find "^[a-z][a-z0-9_]*$" or #o.name > 40 then
      return nil, errors.new("T0105", {message = ("`%s` is no name of a package"):format(o.name),
        help = "a name has small letters, digits and _, and begins with a letter"})
    end
    if core.file_list(o.name) then
      return nil, errors.new("T0105", {message = ("`%s` is there already"):format(o.name),
        help = "give another name, or move the directory away"})
    end
    local ok, err = core.mkdir(("%s/%s"):format(o.name, o.name))
    local paths <const> = {}
    for _, file in ipairs(core.embedded_names(FILES)) do
      paths[#paths + 1] = ("%s/%s"):format(o.name, (file:sub(#FILES + 1):gsub(NAME, o.name)))
      if ok then ok, err = core.file_write(paths[#paths], (core.embedded(file):gsub(NAME, o.name))) end
    end
    if not ok then return nil, errors.from(err) end
    return context:tell({name = o.name, files = paths},
      ("%s\nnext: cd %s && make test"):format(table.concat(paths, "\n"), o.name))
  end,
}
