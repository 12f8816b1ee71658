-- Peers: typed arrays from worker to worker, without the controller and without a table.
--
--   local peers = w:peers()                         -- all workers call it: they meet, and form a view
--   peers:send(rank, tag, tensor)                   -- begins; tensors or plain tables, in order per pair and tag
--   local value, lost = peers:receive(rank, tag)
--   local values, lost = peers:gather(tag, value)   -- of all, by rank
--   local total, lost = peers:sum(tag, tensor)      -- the same bits for all
--   local theirs, lost = peers:swap(tag, {[rank] = value})
--   local values, lost = peers:agree(value)         -- did all of that reach all? the same answer for all
--
-- A call that waits for a worker that is gone (dead, left the view, or returned) gives nil, "lost" on all that wait for
-- it; what came of it before counts. A worker that has seen "lost", or gets it from agree, calls w:peers() again; so do
-- all others then. docs/guides/peers.md has the whole contract. How messages travel is mail.lua.
local core = require "tide.core"
local data_sets = require "tide.run.data_sets"
local mail = require "tide.run.mail"
local script = require "tide.script"

local SMALL_ELEMENTS <const> = 4096 -- sums of so many at most are made by all, in one step instead of two

---@class tide.peers
---@field ranks integer[] of the workers in this view, in order
---@field index integer which of them this worker is, from 1
---@field view integer number of the view, the same on all; grows with every w:peers()
---@field values table<integer, any> by rank: what each gave to w:peers(value)
local peers = {}
peers.__index = peers

---- views -------------------------------------------------------------------------------------------------------------

local function ranks_of(values)
  local ranks <const> = {}
  for rank in pairs(values) do ranks[#ranks + 1] = rank end
  table.sort(ranks)
  return ranks
end

---Meets with all workers that run, and forms a view of them.
---@param w tide.worker
---@param box tide.peers.mail
---@param value? any something that all are to know
---@return tide.peers
---@package
function peers.form(w, box, value)
  box:leave()
  local met, ranks, all
  repeat
    met = w:barrier("peers", {form = true, view = box.view, address = core.self(), value = value})
    ranks, all = ranks_of(met), true
    for _, rank in ipairs(ranks) do all = all and met[rank].form end
  until all -- others may have come to agree about the former view
  local view = 0
  local addresses <const>, values <const> = {}, {}
  for _, rank in ipairs(ranks) do
    view = math.max(view, met[rank].view)
    addresses[rank], values[rank] = met[rank].address, met[rank].value
  end
  box:open(view + 1, ranks, addresses)
  local self <const> = setmetatable({w = w, box = box, view = view + 1, ranks = ranks, values = values, others = {},
                                     broken = false}, peers)
  for i, rank in ipairs(ranks) do
    if rank == w.rank then self.index = i else self.others[#self.others + 1] = rank end
  end
  return self
end

---Where the script has called: the first line outside of this module and the worker's.
local function place()
  for level = 3, 16 do
    local info <const> = debug.getinfo(level, "Sl")
    if not info then break end
    if info.currentline > 0 and not info.short_src:find("tide/run/peers", 1, true) then
      return info.short_src .. ":" .. info.currentline
    end
  end
  return "?"
end

local function misuse(message, fields) error(script.error("T0113", message, fields), 3) end

local function check(self, tag)
  if self.view ~= self.box.view then
    misuse("these peers are of a former view", {help = "use what the last w:peers() returned"})
  end
  if type(tag) ~= "string" and math.type(tag) ~= "integer" then
    misuse(("a tag is a string or an integer, not %s"):format(type(tag)))
  end
end

local function check_rank(self, rank)
  if not self.box.links[rank] then
    misuse(("worker %s is not in this view (%s)"):format(tostring(rank), table.concat(self.ranks, " ")))
  end
end

local function lost(self)
  self.broken = true
  return nil, "lost"
end

---The next value of a rank with this tag, which the other side has to have given to the same kind of call.
---@return table|nil taken
local function take(self, kind, rank, tag, where)
  local taken <const> = self.box:await(("peers %s %s"):format(kind, tag), rank, tag)
  if taken and taken.kind ~= kind then
    error(script.error("T0504", ("tag `%s` is of %s at %s on worker %d, and of %s at %s here"):format(tag,
      taken.kind, taken.where, rank, kind, where), {help = "give each use a tag of its own"}), 0)
  end
  return taken
end

---- pairs -------------------------------------------------------------------------------------------------------------

---Begins to send a value to a worker; it may be changed at once. Values of a pair and tag arrive in order.
---@param rank integer of this view; the own one too
---@param tag string|integer
---@param value any tensor of any size, or what core.send takes
---@param o? {give?: boolean} give: the tensor is not copied, and has no rows afterwards
---@return true|nil
---@return "lost"|nil
function peers:send(rank, tag, value, o)
  check(self, tag)
  check_rank(self, rank)
  for key in pairs(o or {}) do
    if key ~= "give" then
      misuse(("peers:send has no option `%s`"):format(tostring(key)), {help = "it has `give`"})
    end
  end
  local give <const> = o and o.give
  if give and not mail.is_tensor(value) then misuse(("give is for tensors, not for a %s"):format(type(value))) end
  if self.box.links[rank].ended then return lost(self) end
  self.box:post({rank}, {tag = tag, kind = "send", where = place()}, value, give)
  return true
end

---Waits for the next value of a worker with this tag.
---@param rank integer
---@param tag string|integer
---@return any value nil when that worker is gone and has not sent one
---@return "lost"|nil
function peers:receive(rank, tag)
  check(self, tag)
  check_rank(self, rank)
  local taken <const> = take(self, "send", rank, tag, place())
  if not taken then return lost(self) end
  return taken.value
end

---- all ---------------------------------------------------------------------------------------------------------------

---@class tide.peers.ticket what comes of an asynchronous gather
local ticket_methods = {}
ticket_methods.__index = ticket_methods

---Whether the values of all are here.
---@return boolean wait() would not wait
function ticket_methods:done()
  local self_ <const> = self.peers
  if self.result then return true end
  self_.box.look(self_.w)
  for _, rank in ipairs(self_.others) do
    if not self_.box:has(rank, self.tag) and not self_.box.links[rank].ended then return false end
  end
  return true
end

---Waits until the values of all are here.
---@return table|nil values by rank
---@return "lost"|nil
function ticket_methods:wait()
  if not self.result then self.result = table.pack(self.peers:collect("gather", self.tag, self.own, self.where)) end
  return table.unpack(self.result, 1, self.result.n)
end

---The values of a call in which all take part.
---@return table|nil values by rank
---@return "lost"|nil
---@package
function peers:collect(kind, tag, own, where)
  local values <const> = {[self.w.rank] = own}
  for _, rank in ipairs(self.others) do
    local taken <const> = take(self, kind, rank, tag, where)
    if not taken then return lost(self) end
    values[rank] = taken.value
  end
  return values
end

---The values of all, by rank: all workers of the view call it with the same tag.
---@param tag string|integer
---@param value any
---@param o? {async?: boolean} async: gives a ticket with done() and wait()
---@return table<integer, any>|tide.peers.ticket|nil
---@return "lost"|nil
function peers:gather(tag, value, o)
  check(self, tag)
  local where <const> = place()
  self.box:post(self.others, {tag = tag, kind = "gather", where = where}, value)
  local own <const> = mail.is_tensor(value) and value:copy() or value
  if o and o.async then
    return setmetatable({peers = self, tag = tag, own = own, where = where}, ticket_methods)
  end
  return self:collect("gather", tag, own, where)
end

---One slice of a sum: of all ranks in order, so that it has the same bits wherever it is made.
local function add_up(self, tag, own, count, where)
  local parts <const> = {[self.w.rank] = own}
  for _, rank in ipairs(self.others) do
    local taken <const> = take(self, "sum", rank, tag, where)
    if not taken then return nil end
    if taken.count ~= count or taken.value:type() ~= own:type() then
      error(script.error("T0504", ("sum `%s`: %d elements, slices of %s, at %s on worker %d; %d, of %s, at %s here")
        :format(tag, taken.count, taken.value:type(), taken.where, rank, count, own:type(), where)), 0)
    end
    parts[rank] = taken.value
  end
  local order <const> = self.ranks
  local total <const> = parts[order[1]]:copy()
  for i = 2, #order do total:add(parts[order[i]]) end
  return total
end

---The sum of all workers' tensors, element by element, added in the order of ranks: the same bits on all.
---@param tag string|integer
---@param tensor table of the same type and size on all workers
---@return table|nil tensor a new one
---@return "lost"|nil
function peers:sum(tag, tensor)
  check(self, tag)
  if not mail.is_tensor(tensor) then misuse("peers:sum adds tensors") end
  local where <const>, count <const>, many <const> = place(), #tensor, #self.ranks
  local head <const> = {tag = tag, kind = "sum", where = where, count = count}
  if count <= SMALL_ELEMENTS or many == 1 then
    self.box:post(self.others, head, tensor)
    local total <const> = add_up(self, tag, tensor, count, where)
    if not total then return lost(self) end
    return total
  end
  local flat <const> = tensor:view(1, count, 1)
  local own
  for i, rank in ipairs(self.ranks) do
    local first <const>, size <const> = data_sets.piece(count, i, many)
    local slice <const> = flat:slice(first, size)
    if rank == self.w.rank then own = slice else self.box:post({rank}, head, slice) end
  end
  local mine <const> = add_up(self, tag, own, count, where)
  if not mine then return lost(self) end
  self.box:post(self.others, head, mine)
  local total <const> = tensor:copy()
  local out <const> = total:view(1, count, 1)
  for i, rank in ipairs(self.ranks) do
    local slice = mine
    if rank ~= self.w.rank then
      local taken <const> = take(self, "sum", rank, tag, where)
      if not taken then return lost(self) end
      slice = taken.value
    end
    out:put((data_sets.piece(count, i, many)), slice)
  end
  return total
end

---All to all: gives each worker its value of `map`, and gets what each has for this one. All workers of the view call
---it with the same tag; ranks outside of the map get nothing.
---@param tag string|integer
---@param map table<integer, any> by rank
---@return table<integer, any>|nil by rank
---@return "lost"|nil
function peers:swap(tag, map)
  check(self, tag)
  for rank in pairs(map) do check_rank(self, rank) end
  local where <const> = place()
  local head <const> = {tag = tag, kind = "swap", where = where}
  for _, rank in ipairs(self.others) do self.box:post({rank}, head, map[rank]) end
  return self:collect("swap", tag, map[self.w.rank], where)
end

---Whether all that was done in this view reached all: all come here, at the end of a stretch that all have done
---or one has lost, and all get the same answer. Reports and barriers come behind it.
---@param value? any something that all are to know
---@return table<integer, any>|nil values by rank; nil: call w:peers() and do the stretch again
---@return "lost"|nil
function peers:agree(value)
  check(self, "agree")
  local met <const> = self.w:barrier("peers", {intact = not self.broken, value = value})
  local values <const> = {}
  for _, rank in ipairs(self.ranks) do
    if not (met[rank] and met[rank].intact) then return lost(self) end
    values[rank] = met[rank].value
  end
  return values
end

return peers
