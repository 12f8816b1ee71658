-- Progress of long work on stderr: one redrawn line per bar on a terminal, now and then a plain line elsewhere.
--
--   mf  42%|████▏     | 8.4k/20k [00:12<00:17, 702 ex/s, loss=0.91, local=99.2%]
--
-- On a terminal the lines are redrawn at most ten times a second and cleared at the end. Without a terminal a bar
-- prints one line per 10 % of its total or per 30 s. The rate is an exponential mean over 5 s, of samples from one
-- change of the count to the next; at the end it is that of the whole work. A total that the count exceeds is not shown
-- any more. At most eight bars are shown. Nothing here reads a clock or a stream by itself: both are given, so that
-- tests decide what time it is.

local text = require "tide.text"
local units = require "tide.units"

local REDRAW_S <const> = 0.1
local PLAIN_S <const> = 30
local PLAIN_SHARE <const> = 0.1
local RATE_MEAN_S <const> = 5
local BARS_MAX <const> = 8
local BAR_CELLS <const> = 10
local EIGHTHS <const> = {"▏", "▎", "▍", "▌", "▋", "▊", "▉"}

---@class tide.progress.bar
---@field name string
---@field total? number
---@field unit? string what is counted: "ex"
local bar = {}
bar.__index = bar

---@class tide.progress
---@field terminal boolean
local progress = {}
progress.__index = progress

---@class tide.progress.options
---@field write fun(text: string)
---@field now fun(): number monotonic seconds
---@field terminal? boolean
---@field unicode? boolean
---@field width? integer
---@field quiet? boolean prints nothing at all

---A group of bars that share the foot of the terminal.
---@param o tide.progress.options
---@return tide.progress
function progress.new(o)
  return setmetatable({
    write = o.write, now = o.now, terminal = o.terminal or false, unicode = o.unicode or false,
    width = o.width or 100, quiet = o.quiet or false, bars = {}, lines_shown = 0, drawn_at = -math.huge,
  }, progress)
end

-- A bar that is not done gets a line, however many were done before it.
local function make_room(self)
  local i = 1
  while #self.bars >= BARS_MAX and self.bars[i] do
    if self.bars[i].done then table.remove(self.bars, i) else i = i + 1 end
  end
end

---Adds a bar.
---@param o {name: string, total?: number, unit?: string, count?: number} count: what was done before
---@return tide.progress.bar
function progress:add(o)
  local made = setmetatable({group = self, name = o.name, unit = o.unit or "it", metrics = "", done = false,
                             count = o.count or 0, plain_at = self.now(), plain_step = 0}, bar)
  made:aim(o.total)
  made:begin()
  make_room(self)
  self.bars[#self.bars + 1] = made
  return made
end

---The work begins now: until now it was prepared.
function bar:begin()
  local now <const> = self.group.now()
  self.started_at, self.started_count = now, self.count
  self.rate_at, self.rate_count, self.rate_sum, self.rate_weight, self.rate_delta = now, self.count, 0, 0, 0
end

---How much there is to do, and in what it is counted.
---@param total? number
---@param unit? string
function bar:aim(total, unit)
  self.total = total and total > 0 and total or nil
  self.unit = unit or self.unit
end

local function format_metric(value)
  if type(value) == "number" then
    if math.type(value) == "integer" then return tostring(value) end
    return ("%.3g"):format(value)
  end
  return text.clean(value)
end

-- An array of {name, value} keeps its order; a map is sorted by name.
local function format_metrics(metrics)
  local parts = {}
  if #metrics > 0 then
    for i, pair in ipairs(metrics) do parts[i] = text.clean(pair[1]) .. "=" .. format_metric(pair[2]) end
  else
    for i, name in ipairs(text.sorted_keys(metrics)) do
      parts[i] = text.clean(name) .. "=" .. format_metric(metrics[name])
    end
  end
  return table.concat(parts, ", ")
end

-- Exponential mean of the rate: a sample of dt seconds weighs 1 - exp(-dt / 5 s). Divided by the sum of weights it is
-- the plain mean at first. A sample is from one change of the count to the next.
local function update_rate(self, now)
  local dt <const>, delta <const> = now - self.rate_at, self.count - self.rate_count
  if dt < REDRAW_S or delta == 0 then return end
  local weight <const> = 1 - math.exp(-dt / RATE_MEAN_S)
  self.rate_sum = self.rate_sum + weight * (delta / dt - self.rate_sum)
  self.rate_weight = self.rate_weight + weight * (1 - self.rate_weight)
  self.rate_at, self.rate_count, self.rate_delta = now, self.count, delta
end

---What is done a second.
---@param now number
---@return number|nil
function bar:rate(now)
  local elapsed <const> = now - self.started_at
  if self.finished_at or self.rate_weight == 0 or self:share() == 1 then
    return elapsed > 0 and (self.count - self.started_count) / elapsed or nil
  end
  local rate <const>, silent <const> = self.rate_sum / self.rate_weight, now - self.rate_at
  if rate * silent <= self.rate_delta then return rate end
  return self.rate_delta / silent -- the next change is overdue
end

---Sets how much is done, and figures to show.
---@param count number
---@param metrics? table<string, any>|{[1]:string,[2]:any}[]
function bar:update(count, metrics)
  local group <const> = self.group
  local now <const> = group.now()
  self.count = count
  if metrics then self.metrics = format_metrics(metrics) end
  update_rate(self, now)
  if group.quiet then return end
  if group.terminal then
    group:draw(now)
  else
    self:report(now)
  end
end

---Marks the bar as done; its line stays until the group is closed, or another bar needs the place.
function bar:finish()
  self.done = true
  local now <const> = self.group.now()
  self.finished_at = now
  if not self.group.quiet and not self.group.terminal and self.printed_count ~= self.count then
    self:print_plain(now)
  end
end

---Takes the bar out of its group, without a last line.
function bar:remove()
  for i, one in ipairs(self.group.bars) do
    if one == self then table.remove(self.group.bars, i) end
  end
end

-- Nil where it is not known how much there is to do.
function bar:share()
  return self.total and self.count <= self.total * (1 + 1e-9) and math.max(0, self.count / self.total) or nil
end

local function drawn_bar(share, unicode)
  if not unicode then
    local full <const> = math.floor(share * BAR_CELLS + 1e-9)
    return ("#"):rep(full) .. ("-"):rep(BAR_CELLS - full)
  end
  local eighths <const> = math.floor(share * BAR_CELLS * 8 + 1e-9)
  local full, part <const> = eighths // 8, eighths % 8
  local cells <const> = ("█"):rep(full) .. (EIGHTHS[part] or "")
  return cells .. (" "):rep(BAR_CELLS - full - (part > 0 and 1 or 0))
end

---The bar as one line.
---@param now number
---@param with_bar boolean the drawn bar, for terminals
---@return string
function bar:line(now, with_bar)
  now = self.finished_at or now
  local elapsed <const> = now - self.started_at
  local share <const> = self:share()
  local rate <const> = self:rate(now)
  local head = text.clean(self.name) .. "  "
  local times = units.format_clock(elapsed)
  if share then
    head = head .. ("%d%%"):format(math.floor(share * 100 + 1e-9))
    head = head .. (with_bar and "|" .. drawn_bar(share, self.group.unicode) .. "| " or " ")
    head = head .. units.format_count(self.count) .. "/" .. units.format_count(self.total)
    if share < 1 then
      local left <const> = rate and rate > 0 and (self.total - self.count) / rate or -1
      times = times .. "<" .. units.format_clock(left)
    end
  else
    head = head .. units.format_count(self.count) .. " " .. self.unit
  end
  local inside = times .. ", " .. (rate and units.format_rate(rate, self.unit) or "? " .. self.unit .. "/s")
  if self.metrics ~= "" then inside = inside .. ", " .. self.metrics end
  return head .. " [" .. inside .. "]"
end

function bar:print_plain(now)
  self.plain_at = now
  self.printed_count = self.count
  self.group.write(self:line(now, false) .. "\n")
end

-- Without a terminal: a line when another tenth is reached or 30 s have passed.
function bar:report(now)
  local share <const> = self:share()
  local step <const> = share and math.floor(share / PLAIN_SHARE + 1e-9) or self.plain_step
  if step > self.plain_step or now - self.plain_at >= PLAIN_S then
    self.plain_step = math.max(step, self.plain_step)
    self:print_plain(now)
  end
end

local function erase(self)
  if self.lines_shown == 0 then return "" end
  local up <const> = self.lines_shown > 1 and ("\27[%dA"):format(self.lines_shown - 1) or ""
  self.lines_shown = 0
  return "\r" .. up .. "\27[J"
end

---Draws all bars if the last drawing is old enough.
---@param now? number
---@param force? boolean
function progress:draw(now, force)
  if self.quiet or not self.terminal then return end
  now = now or self.now()
  if not force and now - self.drawn_at < REDRAW_S then return end
  self.drawn_at = now
  local lines = {}
  for i, one in ipairs(self.bars) do
    if i > BARS_MAX then
      lines[#lines + 1] = ("and %d more"):format(#self.bars - BARS_MAX)
      break
    end
    lines[#lines + 1] = text.cut(one:line(now, true), self.width - 1, self.unicode)
  end
  local start <const> = erase(self)
  self.lines_shown = #lines
  self.write(start .. table.concat(lines, "\n"))
end

---Prints a line of talk above the bars.
---@param line string
function progress:say(line)
  if self.quiet then return end
  if not self.terminal then return self.write(line .. "\n") end
  self.write(erase(self) .. line .. "\n")
  if #self.bars > 0 then self:draw(nil, true) end
end

---Clears the lines until the next drawing, so that something else may be printed there.
function progress:hide()
  local clear <const> = erase(self)
  if clear ~= "" and not self.quiet then self.write(clear) end
end

---Ends all bars and clears their lines.
function progress:close()
  for _, one in ipairs(self.bars) do
    if not one.done then one:finish() end
  end
  if self.terminal and not self.quiet then
    local clear <const> = erase(self)
    if clear ~= "" then self.write(clear) end
  end
  self.bars = {}
end

return progress
