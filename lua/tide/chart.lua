-- Charts as SVG text: lines and grouped bars, with axes, grid and legend. `tide.chart` in scripts.
--
-- A chart is data: {title=, x=label, y=label, series={...}}; several can stand below each other in one picture. Colours
-- are distinct for people with red-green blindness (Okabe and Ito's).

local core = require "tide.core"

local chart = {}

local WIDTH <const>, HEIGHT <const> = 640, 320
local LEFT <const>, RIGHT <const>, TOP <const>, BOTTOM <const> = 64, 150, 38, 46
local COLOURS <const> = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666"}
local STEPS <const> = {1, 2, 2.5, 5, 10}

local function escape(s)
  return (tostring(s):gsub("[&<>\"']", {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;",
                                        ["'"] = "&#39;"}))
end

local function colour(i) return COLOURS[(i - 1) % #COLOURS + 1] end

-- Lines beyond the colours are dashed, each round of them otherwise.
local DASHES <const> = {"", "7 4", "2 3", "9 3 2 3"}
local function dashes(i)
  local pattern <const> = DASHES[(i - 1) // #COLOURS % #DASHES + 1]
  return pattern == "" and "" or (' stroke-dasharray="%s"'):format(pattern)
end

local function is_number(v) return type(v) == "number" and v == v and v > -math.huge and v < math.huge end

---Round values that cover low..high in about `count` steps.
local function round_ticks(low, high, count)
  if high <= low then high = low + (low == 0 and 1 or math.abs(low) * 0.1) end
  local rough <const> = (high - low) / count
  local power <const> = 10 ^ math.floor(math.log(rough, 10))
  local step = power * 10
  for _, s in ipairs(STEPS) do
    if s * power >= rough then
      step = s * power
      break
    end
  end
  local list = {}
  local first <const> = math.floor(low / step + 1e-9)
  for i = first, math.ceil(high / step - 1e-9) do list[#list + 1] = i * step end
  return list
end

---Powers of ten that cover 10^low..10^high, as exponents; 2 and 5 times these too where they are few.
local function power_ticks(low, high, count)
  local first <const> = math.floor(low + 1e-9)
  local last <const> = math.max(math.ceil(high - 1e-9), first + 1)
  local list, every <const> = {}, math.max(1, (last - first + count - 1) // count)
  for e = first, last, every do
    list[#list + 1] = e
    if last - first <= 2 and e < last then
      list[#list + 1], list[#list + 2] = e + math.log(2, 10), e + math.log(5, 10)
    end
  end
  if list[#list] < last then list[#list + 1] = list[#list] + every end
  return list
end

local function label(value)
  local a <const> = math.abs(value)
  if a ~= 0 and (a < 1e-3 or a >= 1e6) then return ("%.0e"):format(value):gsub("e%+?(-?)0*(%d)", "e%1%2") end
  return (("%.4f"):format(value):gsub("%.?0+$", ""))
end

local function text(x, y, s, attributes)
  return ('<text x="%.1f" y="%.1f" %s>%s</text>'):format(x, y, attributes or "", escape(s))
end

-- Outlines of marks of radius 4 around 0, 0; after the last one comes the first again.
local MARKS <const> = {"M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0", "M-4 -4H4V4H-4z", "M0 -5L5 4H-5z", "M0 -5L5 0L0 5L-5 0z",
                       "M0 5L5 -4H-5z"}

local function mark(x, y, i)
  return ('<path d="%s" transform="translate(%.1f %.1f)" fill="%s"/>'):format(MARKS[(i - 1) % #MARKS + 1], x, y,
    colour(i))
end

---Title, labels and legend; `marked`: series of marks alone.
local function frame(out, c, names, marked)
  local inner_w <const>, inner_h <const> = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
  out[#out + 1] = text(LEFT, 22, c.title or "", 'font-size="15" font-weight="600"')
  out[#out + 1] = text(LEFT + inner_w / 2, HEIGHT - 10, c.x or "", 'text-anchor="middle" class="axis"')
  out[#out + 1] = text(0, 0, c.y or "", ('text-anchor="middle" class="axis" transform="translate(16 %.1f) rotate(-90)"')
    :format(TOP + inner_h / 2))
  if c.note then out[#out + 1] = text(WIDTH - 8, HEIGHT - 10, c.note, 'text-anchor="end" class="note"') end
  for i, name in ipairs(names) do
    local y <const> = TOP + 8 + (i - 1) * 18
    out[#out + 1] = marked and marked[i] and mark(WIDTH - RIGHT + 23, y, i) or
      ('<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="4"%s/>'):format(
        WIDTH - RIGHT + 16, y, WIDTH - RIGHT + 30, y, colour(i), dashes(i))
    out[#out + 1] = text(WIDTH - RIGHT + 34, y + 4, name, 'class="legend"')
  end
end

---An axis from `from` to `to` in the picture: where a value lies, and its ticks {place, label}. Values of a logarithmic
---one are exponents.
local function axis(low, high, log, count, from, to)
  local list <const> = (log and power_ticks or round_ticks)(low, high, count)
  local least <const>, most <const> = math.min(low, list[1]), math.max(high, list[#list])
  local function place(v) return from + (v - least) / (most - least) * (to - from) end
  local ticks <const> = {}
  for i, v in ipairs(list) do ticks[i] = {place(v), label(log and 10 ^ v or v)} end
  return place, ticks
end

local function y_axis(out, low, high, log)
  local place <const>, ticks <const> = axis(low, high, log, 5, HEIGHT - BOTTOM, TOP)
  for _, tick in ipairs(ticks) do
    out[#out + 1] = ('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" class="grid"/>'):format(LEFT, WIDTH - RIGHT, tick[1],
      tick[1])
    out[#out + 1] = text(LEFT - 8, tick[1] + 4, tick[2], 'text-anchor="end" class="tick"')
  end
  return place
end

local function x_axis(out, low, high, log)
  local place <const>, ticks <const> = axis(low, high, log, 6, LEFT, WIDTH - RIGHT)
  for _, tick in ipairs(ticks) do
    out[#out + 1] = text(tick[1], HEIGHT - BOTTOM + 16, tick[2], 'text-anchor="middle" class="tick"')
  end
  return place
end

---A point {x, y[, low, high]} on the axes' scales; nil if a number of it has no place there.
local function scaled(p, c)
  local function on(v, log)
    if not is_number(v) or log and v <= 0 then return nil end
    return log and math.log(v, 10) or v
  end
  local x <const>, y <const> = on(p[1], c.log_x), on(p[2], c.log_y)
  if not (x and y) then return nil end
  local low <const>, high <const> = on(p[3], c.log_y), on(p[4], c.log_y)
  return {x, y, low or y, high or y, wide = (low or high) ~= nil}
end

---The points of all series on the axes' scales, and what they cover.
local function gather(c)
  local series, x_low, x_high, y_low, y_high = {}, math.huge, -math.huge, math.huge, -math.huge
  for i, s in ipairs(c.series) do
    series[i] = {}
    for _, given in ipairs(s.points) do
      local p <const> = scaled(given, c)
      if p then
        series[i][#series[i] + 1] = p
        x_low, x_high = math.min(x_low, p[1]), math.max(x_high, p[1])
        y_low, y_high = math.min(y_low, p[3], p[2]), math.max(y_high, p[4], p[2])
      end
    end
  end
  if x_low > x_high then return series, 0, 1, 0, 1 end
  return series, x_low, x_high, y_low, y_high
end

---What lies between low and high: a band behind a line, a bar at a mark.
local function draw_range(out, points, i, marks)
  local ahead, back = {}, {}
  for _, p in ipairs(points) do
    if p.wide and marks then
      out[#out + 1] = ('<path d="M%.1f %.1fV%.1fm-3 0h6M%.1f %.1fh6" stroke="%s" fill="none"/>'):format(p[1], p[3],
        p[4], p[1] - 3, p[3], colour(i))
    end
    ahead[#ahead + 1] = ("%.1f,%.1f"):format(p[1], p[4])
    table.insert(back, 1, ("%.1f,%.1f"):format(p[1], p[3]))
  end
  if not marks and #points > 1 and points[1].wide then
    out[#out + 1] = ('<polygon points="%s %s" fill="%s" opacity="0.2"/>'):format(table.concat(ahead, " "),
      table.concat(back, " "), colour(i))
  end
end

local function draw_series(out, points, i, marks)
  draw_range(out, points, i, marks)
  if not marks then
    local path = {}
    for j, p in ipairs(points) do path[j] = ("%.1f,%.1f"):format(p[1], p[2]) end
    out[#out + 1] = ('<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-linejoin="round"%s/>')
      :format(table.concat(path, " "), colour(i), dashes(i))
  end
  for _, p in ipairs((marks or #points <= 30) and points or {}) do
    out[#out + 1] = marks and mark(p[1], p[2], i) or
      ('<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>'):format(p[1], p[2], colour(i))
  end
end

local function line_chart(out, c)
  local names, marked = {}, {}
  for i, s in ipairs(c.series) do names[i], marked[i] = s.name, s.marks end
  local series <const>, x_low <const>, x_high <const>, y_low <const>, y_high <const> = gather(c)
  frame(out, c, names, marked)
  local place_y <const>, place_x <const> = y_axis(out, y_low, y_high, c.log_y), x_axis(out, x_low, x_high, c.log_x)
  for _, event in ipairs(c.events or {}) do
    local at <const> = scaled({event[1], 1}, {log_x = c.log_x})
    if at and at[1] >= x_low and at[1] <= x_high then
      out[#out + 1] = ('<path d="M%.1f %dV%d" class="event"><title>%s</title></path>'):format(place_x(at[1]), TOP,
        HEIGHT - BOTTOM, escape(event[2] or ""))
    end
  end
  for i, points in ipairs(series) do
    for _, p in ipairs(points) do
      p[1], p[2], p[3], p[4] = place_x(p[1]), place_y(p[2]), place_y(p[3]), place_y(p[4])
    end
    draw_series(out, points, i, marked[i])
  end
end

---Blue for `low`, white for the middle, orange for `high`.
local function shade(v, low, high)
  local at <const> = math.max(-1, math.min(1, 2 * (v - low) / (high - low) - 1))
  local to <const> = at < 0 and {0, 114, 178} or {213, 94, 0}
  local by <const> = math.abs(at)
  return ("#%02x%02x%02x"):format(255 - math.floor((255 - to[1]) * by), 255 - math.floor((255 - to[2]) * by),
    255 - math.floor((255 - to[3]) * by))
end

---c.heat: rows of numbers between c.low and c.high.
local function heat_map(out, c)
  local rows <const>, low <const>, high <const> = #c.heat, c.low or -1, c.high or 1
  local size <const> = HEIGHT - TOP - BOTTOM
  frame(out, c, {})
  local step <const> = size / math.max(rows, 1)
  for i, row in ipairs(c.heat) do
    for j, v in ipairs(row) do
      if is_number(v) then
        out[#out + 1] = ('<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" fill="%s"/>'):format(
          LEFT + (j - 1) * step, TOP + (i - 1) * step, step + 0.05, step + 0.05, shade(v, low, high))
      end
    end
  end
  local right <const> = LEFT + size + 16
  for k = 0, 4 do
    local v <const> = high - (high - low) * k / 4
    out[#out + 1] = ('<rect x="%d" y="%.1f" width="12" height="12" fill="%s"/>'):format(right, TOP + 18 * k,
      shade(v, low, high))
    out[#out + 1] = text(right + 18, TOP + 18 * k + 10, label(v), 'class="legend"')
  end
end

local function bar_chart(out, c)
  local high, names = 0, {}
  for i, s in ipairs(c.series) do
    names[i] = s.name
    for g in ipairs(c.groups) do high = math.max(high, is_number(s.values[g]) and s.values[g] or 0) end
  end
  frame(out, c, names)
  local place <const> = y_axis(out, 0, high)
  local group_w <const> = (WIDTH - LEFT - RIGHT) / math.max(#c.groups, 1)
  local bar_w <const> = group_w * 0.8 / math.max(#c.series, 1)
  for g, name in ipairs(c.groups) do
    local x <const> = LEFT + (g - 1) * group_w
    out[#out + 1] = text(x + group_w / 2, HEIGHT - BOTTOM + 16, name, 'text-anchor="middle" class="tick"')
    for i, s in ipairs(c.series) do
      local v <const> = is_number(s.values[g]) and math.max(s.values[g], 0) or 0
      out[#out + 1] = ('<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="1.5" fill="%s">' ..
        '<title>%s: %s</title></rect>'):format(
        x + group_w * 0.1 + (i - 1) * bar_w, place(v), math.max(bar_w - 1, 0.5), place(0) - place(v), colour(i),
          escape(s.name), label(v))
    end
  end
end

---@class tide.chart.lines
---@field title? string
---@field x? string label
---@field y? string
---@field log_x? boolean
---@field log_y? boolean
---@field events? {[1]: number, [2]: string}[] vertical lines at an x, with what happened there
---@field note? string below the right corner: a source, a seed
---@field series {name: string, points: number[][], marks?: boolean}[] points {x, y} or {x, y, low, high}: a band behind
---  a line, a bar at a mark; marks: points alone, with no line through them. What is no number, or not above 0 on a
---  logarithmic axis, is left out

---@class tide.chart.bars
---@field groups string[] along x
---@field series {name: string, values: number[]}[] one value a group

---Charts below each other: those with `heat` are maps of numbers, those with `groups` bars, others lines.
---@param charts (tide.chart.lines|tide.chart.bars)[]
---@return string svg
function chart.svg(charts)
  local out = {([[<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif">
<style>text{fill:#222}.axis{font-size:12px}.tick,.legend{font-size:11px;fill:#444}.note{font-size:10px;fill:#777}
.grid{stroke:#ddd}.event{stroke:#888;stroke-dasharray:3 3}</style>
<rect width="100%%" height="100%%" fill="#fff"/>]]):format(WIDTH, HEIGHT * math.max(#charts, 1))}
  for i, c in ipairs(charts) do
    out[#out + 1] = ('<g transform="translate(0 %d)">'):format((i - 1) * HEIGHT);
    (c.heat and heat_map or c.groups and bar_chart or line_chart)(out, c)
    out[#out + 1] = "</g>"
  end
  out[#out + 1] = "</svg>\n"
  return table.concat(out, "\n")
end

---Writes charts below each other as an SVG file, and creates its directories if they are missing.
---@param path string
---@param charts table as of chart.svg
---@return true|nil, table? err
function chart.write(path, charts)
  local directory <const> = path:match "^(.+)/"
  if directory then
    local ok, err = core.mkdir(directory)
    if not ok then return nil, err end
  end
  return core.file_write(path, chart.svg(charts))
end

return chart
