-- core.table_options of a fake core: the rows of the source that are fields of tide.table.
local function read_rows()
  local list = {}
  local file <close> = assert(io.open "runtime/store/core/option.def")
  for kind, arguments in file:read "a":gsub("/%*.-%*/", ""):gmatch "TIDE__(%u+)(%b())" do
    local doc <const> = arguments:match '"([^"]*)"%)$'
    if kind == "WORD" and doc then
      local row = {name = arguments:match "^%(%u+, ([%w_]+)", words = {}, doc = doc}
      for word in arguments:match("%b()", 2):gmatch '"([^"]*)"' do row.words[#row.words + 1] = word end
      list[#list + 1] = row
    elseif kind == "UINT" and doc and select(2, arguments:gsub('"', "")) == 4 then
      local bits <const>, name <const> = arguments:match "^%(%u+, (%d+), ([%w_]+)"
      list[#list + 1] = {name = name, doc = doc, most = bits == "64" and math.maxinteger or (1 << tonumber(bits)) - 1}
    end
  end
  return list
end

---@param fake table gets core.table_options
return function(fake)
  local rows <const> = read_rows()
  function fake.table_options() return rows end
end
