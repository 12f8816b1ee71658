-- Values in flight between workers: queues, windows, pieces. What scripts call is tide.peers.
--
-- A message goes from one worker's actor to the other's, in the bulk lane, in order. A value is cut into pieces; the
-- receiver puts them together and keeps the value by sender and tag until it is asked for. All that a worker has not
-- taken out of its mailbox fits half of it, so that the controller's messages always find room: each sender has its
-- share of that, its window, and sends on when the receiver has acknowledged. The receiver acknowledges what it takes
-- while it keeps less than 32 MiB, and always what comes from the peer that it waits for. Sends run in fibers of their
-- own; a worker that waits for anything takes what comes and so lets others send.
--
-- Everything belongs to a *view*: the workers that met last. Messages of a former view are dropped, those of the next
-- one wait until this worker has formed it too. A worker that leaves a view says so behind its last value (`over`);
-- the death of one arrives by its monitor. Then nothing is waited for any more that it has not sent.
local core = require "tide.core"

local SIZES <const> = {f32 = 4, f64 = 8, i32 = 4, i64 = 8, u64 = 8, u8 = 1, u32 = 4, u16 = 2}

---@class tide.peers.mail
---@field view integer 0: none yet
---@field ranks integer[] of the view, this worker among them
---@field bytes integer sent since the last report
---@field wait_s number waited since the last report
local mail = {}
mail.__index = mail

---@param w tide.worker
---@param attend fun(w: tide.worker) waits for a message and handles it
---@param look fun(w: tide.worker) handles what has come
---@return tide.peers.mail
function mail.new(w, attend, look)
  return setmetatable({w = w, attend = attend, look = look, view = 0, ranks = {}, links = {}, early = {}, kept = 0,
                       bytes = 0, wait_s = 0, monitors = {}}, mail)
end

---@param value any
---@return boolean
function mail.is_tensor(value) return type(value) == "userdata" end

local function size_of(data) return type(data) == "string" and #data or #data * SIZES[data:type()] end

---- a view ------------------------------------------------------------------------------------------------------------

local function new_link(rank, address)
  return {rank = rank, address = address, queue = {}, head = 1, tail = 0, queued = 0, unacked = 0, unacked_bytes = 0,
          owed = 0, owed_bytes = 0, came = {}}
end

---Says to all of the view that nothing comes any more, behind what they are still to get.
function mail:leave()
  if self.left then return end
  self.left = true
  for _, rank in ipairs(self.ranks) do
    if rank ~= self.w.rank then self:enqueue(self.links[rank], {over = true, bytes = 0}) end
  end
end

---@param view integer higher than the last one
---@param ranks integer[]
---@param addresses table<integer, string> by rank
function mail:open(view, ranks, addresses)
  for id in pairs(self.monitors) do core.demonitor(id) end
  self.view, self.ranks, self.links, self.monitors, self.kept, self.left = view, ranks, {}, {}, 0, false
  local others <const> = math.max(#ranks - 1, 1)
  self.window = math.max(core.limit "run_peers_mailbox_bytes" // others, core.limit "run_peers_window_bytes")
  self.window_messages = math.max(core.limit "run_peers_mailbox_messages" // others, 8)
  self.piece = math.min(core.limit "run_peers_piece_bytes", self.window // 2)
  self.kept_most, self.queued_most = core.limit "run_peers_kept_bytes", core.limit "run_peers_queued_bytes"
  for _, rank in ipairs(ranks) do
    local link <const> = new_link(rank, addresses[rank])
    self.links[rank] = link
    if rank ~= self.w.rank then
      local id <const> = core.monitor(link.address)
      if id then self.monitors[id] = link else link.ended = true end
    end
  end
  local early <const> = self.early
  self.early = {}
  for _, message in ipairs(early) do self:take(message) end
end

---The worker's function has returned: what still comes is dropped.
function mail:finish()
  self:leave()
  self.finished = true
  self:acknowledge_all()
end

---- sending -----------------------------------------------------------------------------------------------------------

---The next message of what is first in a queue, and its size; its last piece takes it out of the queue.
local function next_message(self, link)
  local item <const> = link.queue[link.head]
  local message <const> = {op = "peer", v = self.view, r = self.w.rank, t = item.tag, k = item.kind, w = item.where,
                           c = item.count}
  local size = 0
  local last = true
  if item.over then
    message.op = "peer_over"
  elseif item.text then
    local at <const> = item.at or 1
    message.d = item.text:sub(at, at + self.piece - 1)
    size = #message.d
    item.at = at + size
    last = item.at > #item.text
    message.e = true
  else
    local element <const> = SIZES[item.tensor:type()]
    local at <const>, count <const> = item.at or 1, #item.tensor
    local most <const> = self.piece // element
    if at == 1 and count <= most then
      message.d, size = item.tensor, count * element
    else
      local here <const> = math.min(most, count - at + 1)
      message.d, size = item.tensor:view(at, here, 1), here * element
      item.at = at + here
      last = item.at > count
      message.s = {item.tensor:rows(), item.tensor:columns()}
    end
  end
  message.m = not last or nil -- more comes
  if last then
    link.queue[link.head] = nil
    link.head, link.queued = link.head + 1, link.queued - item.bytes
  end
  return message, size
end

local function may_send(self, link)
  if link.head > link.tail or link.ended then return false end
  local room <const> = link.unacked_bytes == 0 or link.unacked_bytes + self.piece <= self.window
  return room and link.unacked < self.window_messages
end

---Sends what the window admits, beside the worker.
function mail:pump(link)
  if link.sending or not may_send(self, link) then return end
  link.sending = true
  core.fiber(function()
    while self.links[link.rank] == link and may_send(self, link) do
      local message <const>, size <const> = next_message(self, link)
      link.unacked, link.unacked_bytes = link.unacked + 1, link.unacked_bytes + size
      self.bytes = self.bytes + size
      if not core.send(link.address, message, "bulk") then link.ended = true end
    end
    link.sending = false
  end)
end

---@param item table {tag=, kind=, where=, count=, tensor= or text= or over=, bytes=}; tensors are the mail's own
function mail:enqueue(link, item)
  if link.ended then return end
  link.tail = link.tail + 1
  link.queue[link.tail], link.queued = item, link.queued + item.bytes
  self:pump(link)
end

---Gives a value to the queue of each of these ranks; waits while one of the queues is full.
---@param ranks integer[]
---@param head {tag: any, kind: string, where: string, count?: integer}
---@param value any a tensor is copied, unless it is given
---@param give? boolean
function mail:post(ranks, head, value, give)
  local tensor, text
  if mail.is_tensor(value) then
    tensor = give and core.moved(value) or value:copy()
  else
    text = core.encode(value)
  end
  local bytes <const> = size_of(tensor or text)
  for _, rank in ipairs(ranks) do
    local link <const> = self.links[rank]
    if rank == self.w.rank then
      self:deliver(link, head, tensor and tensor:copy() or core.decode(text), 0)
    else
      self:enqueue(link, {tag = head.tag, kind = head.kind, where = head.where, count = head.count, tensor = tensor,
                          text = text, bytes = bytes})
      if link.queued > self.queued_most and not link.ended then
        self:while_waiting("peers send", nil, function() return link.ended or link.queued <= self.queued_most end)
      end
    end
  end
  core.sleep(0) -- the fibers begin
end

---- receiving ---------------------------------------------------------------------------------------------------------

local function may_acknowledge(self, link)
  return self.kept < self.kept_most or self.finished or self.waits_for == link.rank or self.waits_for == 0
end

local function acknowledge(self, link)
  if link.owed_bytes < self.window // 4 and link.owed < self.window_messages // 4 then return end
  if not may_acknowledge(self, link) then return end
  core.send(link.address, {op = "peer_ack", v = self.view, r = self.w.rank, n = link.owed, b = link.owed_bytes})
  link.owed, link.owed_bytes = 0, 0
end

function mail:acknowledge_all()
  for _, rank in ipairs(self.ranks) do
    local link <const> = self.links[rank]
    if link.owed > 0 then acknowledge(self, link) end
  end
end

---A whole value has come.
function mail:deliver(link, head, value, bytes)
  if self.finished then return end
  local list = link.came[head.tag]
  if not list then
    list = {head = 1, tail = 0}
    link.came[head.tag] = list
  end
  list.tail = list.tail + 1
  list[list.tail] = {value = value, kind = head.kind, where = head.where, count = head.count, bytes = bytes}
  self.kept = self.kept + bytes
end

---Puts a piece to those before it; the value when it is whole.
---@return boolean whole
---@return any value
local function assemble(link, message)
  local data <const> = message.d
  if message.e then
    link.texts = link.texts or {}
    link.texts[#link.texts + 1] = data
    if message.m then return false end
    local text <const> = table.concat(link.texts)
    link.texts = nil
    return true, core.decode(text)
  end
  if not message.s then return true, data end
  if not link.part then
    link.part, link.at = core.tensor(data:type(), message.s[1], message.s[2]), 1
    link.flat = link.part:view(1, #link.part, 1)
  end
  link.flat:put(link.at, data)
  link.at = link.at + #data
  if message.m then return false end
  local whole <const> = link.part
  link.part, link.flat = nil, nil
  return true, whole
end

---A message of another worker. Called wherever this one looks into its mailbox.
---@param message table
function mail:take(message)
  if message.v > self.view then
    self.early[#self.early + 1] = message
    return
  end
  local link <const> = self.links[message.r]
  if message.v < self.view or not link then return end
  if message.op == "peer_ack" then
    link.unacked, link.unacked_bytes = link.unacked - message.n, link.unacked_bytes - message.b
    return self:pump(link)
  end
  local size <const> = message.d and size_of(message.d) or 0
  link.owed, link.owed_bytes = link.owed + 1, link.owed_bytes + size
  if message.op == "peer_over" then
    link.ended = true
    return
  end
  local whole <const>, value <const> = assemble(link, message)
  link.partial = (link.partial or 0) + size
  if whole then
    self:deliver(link, {tag = message.t, kind = message.k, where = message.w, count = message.c}, value, link.partial)
    link.partial = 0
  end
  acknowledge(self, link)
end

---A monitored worker has ended.
---@param message table {call=}
function mail:exited(message)
  local link <const> = self.monitors[message.call]
  if link then link.ended = true end
end

---- waiting -----------------------------------------------------------------------------------------------------------

---Handles messages until `ready`.
---@param name string of the span
---@param rank integer|nil for whose value; nil: for nothing of others, which all may send
---@param ready fun(): boolean
function mail:while_waiting(name, rank, ready)
  if ready() then return end
  local since <const> = core.now()
  self.waits_for = rank or 0
  self:acknowledge_all()
  core.span(name, function()
    while not ready() do self.attend(self.w) end
  end)
  self.waits_for = nil
  self.wait_s = self.wait_s + core.now() - since
end

---@return boolean a value with this tag has come of this rank
function mail:has(rank, tag)
  local list <const> = self.links[rank].came[tag]
  return list ~= nil and list.head <= list.tail
end

---Waits until a value with this tag has come of a rank, and takes it.
---@return table|nil {value=, kind=, where=, count=}; nil: that rank is gone and has not sent it
function mail:await(name, rank, tag)
  local link <const> = self.links[rank]
  self:while_waiting(name, rank, function() return self:has(rank, tag) or link.ended end)
  if not self:has(rank, tag) then
    self.look(self.w) -- what came of it before it was gone may lie behind the word of that
    if not self:has(rank, tag) then return nil end
  end
  local list <const> = link.came[tag]
  local taken <const> = list[list.head]
  list[list.head], list.head = nil, list.head + 1
  if list.head > list.tail then link.came[tag] = nil end
  local was <const> = self.kept
  self.kept = was - taken.bytes
  if was >= self.kept_most and self.kept < self.kept_most then self:acknowledge_all() end
  return taken
end

return mail
