-- Small text work shared by everything that prints: display width, cutting, wrapping, escaping, nearest names.
--
-- Widths count code points (wide East Asian characters count as one). Text that came from outside (names of nodes,
-- messages of scripts) goes through `text.clean` before it reaches a terminal: a hostile name must not move the cursor.

local text = {}

---Escapes control characters and invalid UTF-8 as `\xNN`, so that the result is one harmless line.
---@param s string
---@return string
function text.clean(s)
  s = tostring(s)
  if not utf8.len(s) then
    s = s:gsub("[\128-\255]", function(c) return ("\\x%02x"):format(c:byte()) end)
  end
  s = s:gsub("[\0-\31\127]", function(c) return ("\\x%02x"):format(c:byte()) end)
  -- C1 controls (U+0080..U+009F) move cursors too; bidirectional overrides reorder what follows.
  s = s:gsub("\xc2([\x80-\x9f])", function(c) return ("\\u{%02x}"):format(c:byte()) end)
  s = s:gsub("\xe2\x80[\xaa-\xae]", "?"):gsub("\xe2\x81[\xa6-\xa9]", "?")
  return s
end

---The last filter before a terminal: escapes control characters like `text.clean`, except line ends, tabs and colors
---(SGR), which cannot move the cursor.
---@param s string any number of lines
---@return string
function text.harmless(s)
  if not s:find "[\0-\8\11-\31\127-\255]" then return s end
  return (s:gsub("[^\n\t]+", function(piece)
    local out, at = {}, 1
    for color, after in piece:gmatch "()\27%[[%d;]*m()" do
      out[#out + 1] = text.clean(piece:sub(at, color - 1)) .. piece:sub(color, after - 1)
      at = after
    end
    return table.concat(out) .. text.clean(piece:sub(at))
  end))
end

---The same for JSON, whose meaning stays: what could move a cursor becomes an escape of JSON's own.
---@param json string
---@return string
function text.harmless_json(json)
  if not json:find "[\127-\255]" then return json end
  json = json:gsub("\127", "\\u007f"):gsub("\xc2([\x80-\x9f])", function(c) return ("\\u%04x"):format(c:byte()) end)
  return (json:gsub("\xe2[\x80\x81][\xa6-\xae]", function(c)
    local code <const> = utf8.codepoint(c)
    local turns <const> = code >= 0x202a and code <= 0x202e or code >= 0x2066 and code <= 0x2069
    return turns and ("\\u%04x"):format(code) or nil
  end))
end

---The same for text of several lines: line ends and tabs stay.
---@param s string
---@return string
function text.clean_lines(s)
  local lines = {}
  for line in (tostring(s) .. "\n"):gmatch("(.-)\r?\n") do
    lines[#lines + 1] = text.clean((line:gsub("\t", "  ")))
  end
  return table.concat(lines, "\n")
end

---Display width in columns; bytes when `s` is not UTF-8.
---@param s string
---@return integer
function text.width(s)
  return utf8.len(s) or #s
end

---Cuts `s` to `width` columns, marking the cut with `…` (`~` without UTF-8).
---@param s string
---@param width integer
---@param unicode boolean
---@return string
function text.cut(s, width, unicode)
  if text.width(s) <= width then return s end
  if width < 1 then return "" end
  local mark <const> = unicode and "…" or "~"
  local last = utf8.len(s) and utf8.offset(s, width) - 1 or width - 1
  return s:sub(1, last) .. mark
end

---Pads `s` with blanks on the right (or on the left) to `width` columns.
---@param s string
---@param width integer
---@param right? boolean align to the right
---@return string
function text.pad(s, width, right)
  local blanks <const> = (" "):rep(width - text.width(s))
  return right and blanks .. s or s .. blanks
end

---Breaks `s` into lines of at most `width` columns, each after the first indented by `indent`.
---@param s string
---@param width integer
---@param indent? string
---@return string[]
function text.wrap(s, width, indent)
  indent = indent or ""
  local lines, line = {}, nil
  for word in s:gmatch("%S+") do
    if not line then
      line = word
    elseif text.width(line) + 1 + text.width(word) <= width then
      line = line .. " " .. word
    else
      lines[#lines + 1] = line
      line = indent .. word
    end
  end
  lines[#lines + 1] = line or ""
  return lines
end

---Edits (insert, delete, replace, swap of neighbours) between two words.
---@param a string
---@param b string
---@return integer
function text.distance(a, b)
  local before, last, now = {}, {}, {}
  for j = 0, #b do last[j] = j end
  for i = 1, #a do
    now[0] = i
    for j = 1, #b do
      local same <const> = a:byte(i) == b:byte(j)
      local best = math.min(last[j] + 1, now[j - 1] + 1, last[j - 1] + (same and 0 or 1))
      if i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
        best = math.min(best, before[j - 2] + 1)
      end
      now[j] = best
    end
    before, last, now = last, now, before
  end
  return last[#b]
end

---The names nearest to a mistyped word, nearest first, at most three; empty when none is near.
---@param word string
---@param names string[]
---@return string[]
function text.nearest(word, names)
  local found = {}
  local limit <const> = math.min(4, math.max(1, #word // 3))
  for _, name in ipairs(names) do
    local d = text.distance(word:lower():sub(1, 64), name:lower():sub(1, 64))
    if #word >= 3 and name:sub(1, #word) == word then d = math.min(d, 1) end
    if d <= limit then found[#found + 1] = {name = name, d = d} end
  end
  table.sort(found, function(x, y)
    if x.d ~= y.d then return x.d < y.d end
    return x.name < y.name
  end)
  local out = {}
  for i = 1, math.min(3, #found) do out[i] = found[i].name end
  return out
end

---A sentence for a help line: "did you mean `a` or `b`?"; nil when nothing is near.
---@param word string
---@param names string[]|table<string, any> the names, or a table by them
---@return string?
function text.did_you_mean(word, names)
  local near <const> = text.nearest(tostring(word), names[1] ~= nil and names or text.sorted_keys(names))
  if #near == 0 then return nil end
  for i, name in ipairs(near) do near[i] = "`" .. name .. "`" end
  local last <const> = table.remove(near)
  return "did you mean " .. (#near > 0 and table.concat(near, ", ") .. " or " or "") .. last .. "?"
end

local NAMES_MOST <const>, NAMES_FIRST <const> = 16, 6

---Names in one line, n2 before n10; of more than sixteen the first few and the last.
---@param names string[]
---@return string
function text.names(names)
  local sorted, keys = {}, {}
  for i, name in ipairs(names) do
    sorted[i] = name
    keys[name] = name:gsub("%d+", function(digits) return ("%02d%s"):format(#digits, digits) end)
  end
  table.sort(sorted, function(a, b) return keys[a] < keys[b] end)
  if #sorted <= NAMES_MOST then return table.concat(sorted, " ") end
  return table.concat(sorted, " ", 1, NAMES_FIRST) .. " ... " .. sorted[#sorted]
end

---A table of plain values as words: "eps=0.1 rank=8".
---@param t any nil, or no table: no words
---@return string
function text.assignments(t)
  local parts = {}
  for i, key in ipairs(text.sorted_keys(type(t) == "table" and t or {})) do
    parts[i] = ("%s=%s"):format(key, tostring(t[key]))
  end
  return table.concat(parts, " ")
end

---The last lines of a text.
---@param s string
---@param count integer
---@return string without the end of the last one
function text.last_lines(s, count)
  local lines = {}
  for line in s:gmatch "[^\n]+" do lines[#lines + 1] = line end
  return table.concat(lines, "\n", math.max(1, #lines - count + 1))
end

---A word as a shell reads it back.
---@param word string
---@return string
function text.shell_word(word)
  return word:find "^[%w_./:=,+-]+$" and word or "'" .. word:gsub("'", "'\\''") .. "'"
end

---Keys of a table as a sorted list of strings.
---@param t table
---@return string[]
function text.sorted_keys(t)
  local keys = {}
  for k in pairs(t) do keys[#keys + 1] = tostring(k) end
  table.sort(keys)
  return keys
end

return text
