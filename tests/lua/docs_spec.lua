-- What the pages of docs/ show is true: lua blocks are Lua, lines of shell blocks that call tide name commands and
-- options that there are, and links lead to pages.
package.path = "tests/lua/?.lua;" .. package.path
local support = require "support"
local arguments = require "tide.cli.arguments"
local commands = require "tide.command"

assert(support)

local function pages()
  local list = {"README.md"}
  local found <const> = assert(io.popen "find docs -name '*.md' -not -path 'docs/reference/*'")
  for path in found:lines() do list[#list + 1] = path end
  return list
end

local function text_of(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

-- Blocks of a page: {language, first line, text}.
local function blocks(path)
  local list, open, number = {}, nil, 0
  for line in text_of(path):gmatch "([^\n]*)\n" do
    number = number + 1
    local fence <const> = line:match "^%s*```(.*)$"
    if fence and open then
      list[#list + 1] = open
      open = nil
    elseif fence then
      open = {language = fence, line = number + 1, text = ""}
    elseif open then
      open.text = open.text .. line .. "\n"
    end
  end
  return list, open
end

-- Words of a line of shell, up to what ends a command; nil: it is no plain command.
local function words_of(line)
  local words, word, quote, at = {}, nil, nil, 1
  while at <= #line do
    local c <const> = line:sub(at, at)
    if quote then
      if c == quote then quote = nil else word = word .. c end
    elseif c == "'" or c == '"' then
      quote, word = c, word or ""
    elseif c == " " then
      if word then words[#words + 1], word = word, nil end
    elseif c == "#" and not word then
      break
    elseif c:find "[|&;<>]" then
      break
    else
      word = (word or "") .. c
    end
    at = at + 1
  end
  if word then words[#words + 1] = word end
  return words
end

local function parse(words)
  local split <const> = arguments.split(words)
  if not split.name then
    if arguments.has_flag(split.leading, "help") or arguments.has_flag(split.leading, "version") then return true end
    return nil, "no command"
  end
  local _, by_name = commands.all()
  local command = by_name[split.name]
  if not command then return nil, "no command " .. split.name end
  local rest = split.rest
  local within <const> = command.within and command.within[rest[1]]
  if within then command, rest = require(within), table.move(rest, 2, #rest, 1, {}) end
  local own <const> = arguments.own_words(command, rest)
  if arguments.has_flag(own, "help", "h") then return true end
  local row <const>, more = arguments.chosen(command, rest)
  if not row then return nil, more.message end
  local values, err = arguments.parse(row, split.leading, more)
  return values ~= nil, err and err.message
end

describe("the documentation", function()
  it("has closed blocks", function()
    for _, path in ipairs(pages()) do
      local _, open = blocks(path)
      assert(not open, path .. ": a block is not closed")
    end
  end)

  it("shows Lua that is Lua", function()
    local count = 0
    for _, path in ipairs(pages()) do
      for _, block in ipairs(blocks(path)) do
        if block.language == "lua" then
          local name <const> = ("@%s:%d"):format(path, block.line)
          local f, why = load(block.text, name, "t", {})
          if not f then f = load("return " .. block.text, name, "t", {}) end -- a value
          if not f then f = load("return {\n" .. block.text .. "}", name, "t", {}) end -- fields of one
          assert(f, why)
          count = count + 1
        end
      end
    end
    assert(count > 20)
  end)

  it("calls commands and options that there are", function()
    local count = 0
    for _, path in ipairs(pages()) do
      for _, block in ipairs(blocks(path)) do
        if block.language == "sh" then
          local joined <const> = block.text:gsub("\\\n%s*", " ")
          for line in joined:gmatch "[^\n]+" do
            local call <const> = line:match "^%$? *b?u?i?l?d?/?tide (.*)$"
            local words <const> = call and words_of(call)
            local elided = false
            for _, word in ipairs(words or {}) do
              if word:find "^%.%.%.$" or word:find "…" then elided = true end
            end
            if words and not elided then
              local ok, why = parse(words)
              assert(ok, ("%s:%d: tide %s: %s"):format(path, block.line, call, tostring(why)))
              count = count + 1
            end
          end
        end
      end
    end
    assert(count > 50, count)
  end)

  it("names what each command prints as JSON", function()
    local page <const> = text_of "docs/guides/cli.md"
    for _, command in ipairs((commands.all())) do
      for _, row in ipairs {command, table.unpack(command.verbs or {})} do
        local there <const> = not row.schema or page:find("`" .. row.schema .. "`", 1, true)
        assert(there, ("docs/guides/cli.md has no line of %s (tide %s)"):format(row.schema, row.name))
      end
    end
  end)

  it("links to pages that there are", function()
    for _, path in ipairs(pages()) do
      local directory <const> = path:match "^(.*)/[^/]*$" or "."
      for target in text_of(path):gmatch "%]%(([^)#%s]+)[^)]*%)" do
        if not target:find "^%w+:" then
          local file <const> = io.open(directory .. "/" .. target)
          assert(file, ("%s: a link to %s"):format(path, target))
          file:close()
        end
      end
    end
  end)
end)
