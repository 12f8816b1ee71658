-- What a script prints, by stream: print, io.write, io.stdout:write and io.stderr:write of this Lua state go to a sink.
-- The files of a Lua state share one metatable, so its method `write` looks at which file it is called with.
local output = {}

local PARTIAL_MAX <const> = 64 << 10 -- bytes of a line without an end that are kept back

local function joined(...)
  local parts <const> = table.pack(...)
  for i = 1, parts.n do parts[i] = tostring(parts[i]) end
  return table.concat(parts, "", 1, parts.n)
end

---@param sink fun(chunk: string, err: boolean): ... err: it was written to standard error. What it returns is what
---  the script's call returns; nothing means that the write succeeded.
function output.capture(sink)
  local files <const> = getmetatable(io.stderr).__index
  local write <const>, write_default <const> = files.write, io.write
  local function told(file, ...)
    local ok <const>, why <const>, number <const> = sink(joined(...), file == io.stderr)
    if ok == nil and why ~= nil then return nil, why, number end
    return file
  end
  rawset(_G, "print", function(...)
    local texts <const> = table.pack(...)
    for i = 1, texts.n do texts[i] = tostring(texts[i]) end
    sink(table.concat(texts, "\t") .. "\n", false)
  end)
  rawset(io, "write", function(...)
    if io.output() ~= io.stdout then return write_default(...) end
    return told(io.stdout, ...)
  end)
  files.write = function(file, ...)
    if file ~= io.stdout and file ~= io.stderr then return write(file, ...) end
    return told(file, ...)
  end
end

---Makes whole lines of chunks.
---@param tell fun(lines: string) gets one line or several, without the last line end
---@return fun(chunk: string) put
---@return fun() flush passes on a line without an end
function output.lines(tell)
  local partial = ""
  local function flush()
    local rest <const> = partial
    partial = ""
    if rest ~= "" then tell(rest) end
  end
  return function(chunk)
    local whole <const>, rest <const> = (partial .. chunk):match "^(.*)\n([^\n]*)$"
    partial = rest or partial .. chunk
    if whole then tell(whole) end
    if #partial >= PARTIAL_MAX then flush() end
  end, flush
end

return output
