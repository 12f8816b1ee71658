-- Streams: what one actor produces, numbered, for readers in other actors that ask for it.
--
-- A reader asks for what comes behind a number. It is answered at once if there is something, else when there is: with
-- items and the number of the last one, which its next request names. So nothing is sent without a request, and
-- what travels takes the credit of the link as every answer does. A reader that retries, since an answer was lost,
-- names the same number and misses nothing.
--
-- A stream is bounded. Of what is too much the oldest items go, unless `shed` chooses others, and a reader that had not
-- had them gets their number. Items that its only reader has had go with its next request (`once`).
--
-- docs/internals/stream.md is the guide.
local core = require "tide.core"
local service = require "tide.service"

local stream = {}
stream.__index = stream

---@class tide.stream
---@field first integer number of the oldest item that is kept
---@field last integer number of the newest one
---@field bytes integer of what is kept
---@field sent integer number of the last item that a reader was sent
---@field items table<integer, {item: any, bytes: integer, tag: any}|false> by number; false: it was shed
---@field readers {message: table, after: integer}[] that wait

---@class tide.stream.options
---@field items_max? integer (256)
---@field bytes_max? integer of the sizes given to `put`; default: no limit
---@field once? boolean|fun() it has one reader, which has each item once; a function: called when it has had the last
---@field shed? fun(self: tide.stream) makes room by self:drop(number)
---@field with? fun(answer: {items: any[], last: integer}) adds to each answer before it is sent

---@param o? tide.stream.options
---@return tide.stream
function stream.new(o)
  o = o or {}
  return setmetatable({first = 1, last = 0, sent = 0, bytes = 0, items = {}, readers = {}, once = o.once,
                       shed = o.shed, with = o.with, items_max = o.items_max or 256,
                       bytes_max = o.bytes_max or math.huge}, stream)
end

---One item goes, before it was read perhaps.
---@param number integer
function stream:drop(number)
  local kept <const> = self.items[number]
  if kept then self.bytes = self.bytes - kept.bytes end
  self.items[number] = number > self.first and false or nil
  while self.first <= self.last and not self.items[self.first] do
    self.items[self.first] = nil
    self.first = self.first + 1
  end
end

local function make_room(self)
  if self.shed then return self.shed(self) end
  while self.last - self.first + 1 > self.items_max or self.bytes > self.bytes_max and self.first < self.last do
    self:drop(self.first)
  end
end

-- What a reader gets that has had all up to a number.
local function answer_of(self, after)
  local list, bytes, last = {}, 0, after
  local items_most <const>, bytes_most <const> = core.limit "run_stream_items", core.limit "run_stream_bytes"
  local skipped = math.max(self.first - 1 - after, 0)
  for number = math.max(after + 1, self.first), self.last do
    local kept <const> = self.items[number]
    if kept and list[1] and (#list >= items_most or bytes + kept.bytes > bytes_most) then break end
    last = number
    if kept then
      list[#list + 1], bytes = kept.item, bytes + kept.bytes
    else
      skipped = skipped + 1
    end
  end
  local is_end <const> = self.closed and last >= self.last or nil
  return {items = list, last = math.max(last, self.first - 1), lost = skipped > 0 and skipped or nil, over = is_end}
end

-- Answers readers for which there is something, or all.
local function serve(self, all)
  for i = #self.readers, 1, -1 do
    local reader <const> = self.readers[i]
    if all or reader.after < self.last or self.closed then
      table.remove(self.readers, i)
      local answer <const> = answer_of(self, reader.after)
      self.sent = math.max(self.sent, answer.last)
      if self.with then self.with(answer) end
      core.answer(reader.message, answer)
      if answer.over and self.once and self.once ~= true then self.once() end
    end
  end
end

---@param item any
---@param bytes? integer about what it takes in a message
---@param tag? any by which `shed` and `with` know it
---@return integer number
function stream:put(item, bytes, tag)
  self.last = self.last + 1
  self.items[self.last] = {item = item, bytes = bytes or 0, tag = tag}
  self.bytes = self.bytes + (bytes or 0)
  make_room(self)
  serve(self)
  return self.last
end

---A reader asks, as the answer to its request.
---@param message table the request
---@param after? integer number of the last item that it has had; default: of the newest
---@return table service.LATER
function stream:read(message, after)
  after = math.min(after or self.last, self.last)
  if self.once then
    while self.first <= after do self:drop(self.first) end
    self.readers = {}
  end
  self.readers[#self.readers + 1] = {message = message, after = after}
  serve(self)
  return service.LATER
end

---@return boolean whether a reader waits
function stream:is_awaited() return self.readers[1] ~= nil end

---Answers readers that wait, with nothing if there is nothing.
function stream:flush() serve(self, true) end

---An actor is dead: its requests are not answered.
---@param address string
function stream:forget(address)
  for i = #self.readers, 1, -1 do
    if self.readers[i].message.from == address then table.remove(self.readers, i) end
  end
end

---Nothing follows: readers are notified when they have had the last item.
function stream:close()
  self.closed = true
  serve(self)
end

---The items of another actor's stream, one after the other; nil: it has ended, or nil and why it cannot be asked.
---@param ask fun(after: integer?): table?, table? sends the request that the stream answers
---@param after? integer number of the last item that was had; nil: items from now on
---@return fun(): any, table?
function stream.reader(ask, after)
  local batch, at = {items = {}}, 0
  return function()
    while true do
      at = at + 1
      if batch.items[at] ~= nil then return batch.items[at] end
      if batch.over then return nil end
      local answer <const>, err = ask(after)
      if not answer then return nil, err end
      batch, after, at = answer, answer.last, 0
    end
  end
end

return stream
