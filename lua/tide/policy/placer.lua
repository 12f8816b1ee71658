-- Where the slots of a scheduling plan are: from "job 7 gets 4 slots" to nodes. Pure; the job simulator and live
-- clusters place by it.
--
-- Machines are nodes with one `machine` (a node without one is a machine of its own). `pack` keeps what is unchanged,
-- gives a job that fits on one machine no second one, and lets no two jobs that span machines share one. `emptiest`
-- takes from the machine with most free slots, as the published simulators of Tiresias and Optimus do.
local placer = {}

---@class tide.placer.node
---@field id integer
---@field machine? string|integer
---@field slots integer
---@field free? integer of those that none of `jobs` holds, the free ones; nil: all
---@field state? string up, draining, down; nil: up

---@class tide.placer.job
---@field id integer
---@field slots integer now
---@field nodes table<integer, integer> slots by node, now
---@field min? integer
---@field sizes? string|integer[]
---@field preemptible? boolean

---- machines ------------------------------------------------------------------------------------------------------

local function is_up(node) return node.state == nil or node.state == "up" end

-- Machines that are up, in order of their first node, with what `holders` leave free.
local function machines_of(nodes, jobs, holders)
  local list, of_node, by_name, by_id = {}, {}, {}, {}
  local held = {}
  for _, job in ipairs(jobs) do
    for node, n in pairs(job.nodes or {}) do held[node] = (held[node] or 0) + n end
  end
  for _, node in ipairs(nodes) do
    by_id[node.id] = node
    if is_up(node) then
      local name = node.machine or node.id
      local m = by_name[name]
      if not m then
        m = {index = #list + 1, nodes = {}, slots = 0, free = 0, jobs = {}}
        list[#list + 1], by_name[name] = m, m
      end
      local outside = node.free and math.max(node.slots - node.free - (held[node.id] or 0), 0) or 0
      m.nodes[#m.nodes + 1] = {id = node.id, free = node.slots - outside}
      m.slots, m.free = m.slots + node.slots - outside, m.free + node.slots - outside
      of_node[node.id] = m
    end
  end
  local world = {list = list, of_node = of_node, nodes = by_id}
  for _, job in ipairs(holders) do placer.hold(world, job, job.nodes) end
  return world
end

local function machines_under(world, places)
  local seen, list = {}, {}
  for node in pairs(places) do
    local m = world.of_node[node]
    if m and not seen[m] then
      seen[m] = true
      list[#list + 1] = m
    end
  end
  table.sort(list, function(a, b) return a.index < b.index end)
  return list
end

local function change(world, job, places, sign)
  for _, m in ipairs(machines_under(world, places)) do
    local sum = 0
    for _, node in ipairs(m.nodes) do
      local n = places[node.id] or 0
      node.free, sum = node.free - sign * n, sum + n
    end
    m.free = m.free - sign * sum
    m.jobs[job.id] = sign > 0 and {job = job, slots = sum} or nil
  end
end

-- A job takes its places; `drop` gives them back.
function placer.hold(world, job, places) change(world, job, places, 1) end
function placer.drop(world, job, places) change(world, job, places, -1) end

-- `count` slots of a machine by node: where the job was, then where most is free.
local function take(m, count, was, places)
  local nodes = table.move(m.nodes, 1, #m.nodes, 1, {})
  table.sort(nodes, function(a, b)
    local x, y = was[a.id] ~= nil, was[b.id] ~= nil
    if x ~= y then return x end
    if a.free ~= b.free then return a.free > b.free end
    return a.id < b.id
  end)
  for _, node in ipairs(nodes) do
    local n = math.min(node.free, count)
    if n > 0 then places[node.id] = (places[node.id] or 0) + n end
    count = count - n
    if count == 0 then break end
  end
end

---- emptiest ------------------------------------------------------------------------------------------------------

local function place_emptiest(world, size, was)
  local places, left, used = {}, size, {}
  while left > 0 do
    local best
    for _, m in ipairs(world.list) do
      if not used[m] and m.free > 0 and (not best or m.free > best.free) then best = m end
    end
    if not best then return nil end
    used[best] = true
    local n = math.min(best.free, left)
    take(best, n, was, places)
    left = left - n
  end
  return places
end

---- pack ----------------------------------------------------------------------------------------------------------

-- Slots of most machines; of several answers the larger.
local function usual_size(world)
  local counts, best = {}, 0
  for _, m in ipairs(world.list) do counts[m.slots] = (counts[m.slots] or 0) + 1 end
  for _, m in ipairs(world.list) do
    local n, most = counts[m.slots], counts[best] or 0
    if n > most or n == most and m.slots > best then best = m.slots end
  end
  return math.max(best, 1)
end

local function on_one(world, size, was)
  local best
  for _, m in ipairs(world.list) do
    if m.free >= size then
      local here = false
      for _, node in ipairs(m.nodes) do here = here or was[node.id] ~= nil end
      if not best or here and not best.here or here == best.here and m.free < best.m.free then
        best = {m = m, here = here}
      end
    end
  end
  if not best then return nil end
  local places = {}
  take(best.m, size, was, places)
  return places
end

-- Whole machines; the last one may be used in part.
local function on_several(world, size, was)
  local empty = {}
  for _, m in ipairs(world.list) do
    if m.free == m.slots and m.free > 0 then empty[#empty + 1] = m end
  end
  local function here(m)
    for _, node in ipairs(m.nodes) do
      if was[node.id] then return true end
    end
    return false
  end
  table.sort(empty, function(a, b)
    local x, y = here(a), here(b)
    if x ~= y then return x end
    if a.slots ~= b.slots then return a.slots > b.slots end
    return a.index < b.index
  end)
  local places, left = {}, size
  for _, m in ipairs(empty) do
    local n = math.min(m.free, left)
    if n > 0 then take(m, n, was, places) end
    left = left - n
  end
  return left == 0 and places or nil
end

-- The smallest jobs of a machine whose going makes `need` slots free; nil: there are not enough that may move.
local function movable(m, need, size)
  local list = {}
  for _, held in pairs(m.jobs) do
    if held.slots == held.job.placed and held.slots < size and held.job.job.preemptible ~= false
      and not held.job.fixed then
      list[#list + 1] = held.job
    end
  end
  table.sort(list, function(a, b)
    if a.placed ~= b.placed then return a.placed < b.placed end
    return a.id < b.id
  end)
  local out, sum = {}, 0
  for _, job in ipairs(list) do
    if sum >= need then break end
    out[#out + 1], sum = job, sum + job.placed
  end
  if sum < need then return nil end
  for i = #out, 1, -1 do -- who need not go
    if sum - out[i].placed >= need then sum = sum - table.remove(out, i).placed end
  end
  return out, sum
end

-- Makes room for `size` slots: `count` machines empty, or one with so many free. Returns the jobs that have to go.
local function make_room(world, size, usual)
  local wanted = size <= usual and 1 or math.ceil(size / usual)
  local options = {}
  for _, m in ipairs(world.list) do
    local need = (wanted == 1 and size or m.slots) - m.free
    local out, cost = {}, 0
    if need > 0 then out, cost = movable(m, need, size) end
    if out and (wanted > 1 or m.slots >= size) then options[#options + 1] = {m = m, out = out, cost = cost} end
  end
  table.sort(options, function(a, b)
    if a.cost ~= b.cost then return a.cost < b.cost end
    return a.m.index < b.m.index
  end)
  if #options < wanted then return nil end
  local list = {}
  for i = 1, wanted do
    for _, job in ipairs(options[i].out) do list[#list + 1] = job end
  end
  return list
end

local function larger_first(a, b)
  if a.want ~= b.want then return a.want > b.want end
  return a.number < b.number
end

local function allowed(job, size)
  if job.min and size < job.min then return false end
  if type(job.sizes) == "table" then
    for _, s in ipairs(job.sizes) do
      if s == size then return true end
    end
    return false
  end
  return job.sizes ~= "pow2" or size & (size - 1) == 0
end

-- The next smaller size that places well: a power of two of a machine, or whole machines.
local function smaller(job, size, usual)
  for s = size - 1, 1, -1 do
    if allowed(job, s) and (s > usual and s % usual == 0 or s <= usual and (s & (s - 1) == 0 or s == usual)) then
      return s
    end
  end
  return 0
end

local function place_packed(world, entry, usual)
  local was = entry.was
  if entry.want <= usual then return on_one(world, entry.want, was) end
  return on_several(world, entry.want, was)
end

-- Places what waits, largest first; a job that has to make room waits again.
local function pack(world, waiting)
  local usual = usual_size(world)
  while #waiting > 0 do
    table.sort(waiting, larger_first)
    local entry = table.remove(waiting, 1)
    local places = place_packed(world, entry, usual)
    if not places then
      local going = make_room(world, entry.want, usual)
      for _, other in ipairs(going or {}) do
        placer.drop(world, other, other.places)
        other.want, other.was, other.placed = other.placed, other.places, 0
        waiting[#waiting + 1] = other
      end
      places = going and place_packed(world, entry, usual)
    end
    if places then
      entry.places, entry.placed = places, entry.want
      placer.hold(world, entry, places)
    else
      entry.want = smaller(entry.job, entry.want, usual)
      entry.places, entry.placed = {}, 0
      if entry.want > 0 then waiting[#waiting + 1] = entry end
    end
  end
end

---- both ----------------------------------------------------------------------------------------------------------

local function asked(request)
  if not request.nodes then return request.slots or 0 end
  local sum = 0
  for _, n in pairs(request.nodes) do sum = sum + n end
  return sum
end

local function on_lost_node(world, job)
  for node in pairs(job.nodes or {}) do
    if not world.nodes[node] or not is_up(world.nodes[node]) then return true end
  end
  return false
end

-- Whose turn it is: those in `order`, then the others by size and submission.
local function in_order(entries, order)
  local rank = {}
  for i, id in ipairs(order or {}) do rank[id] = rank[id] or i end
  table.sort(entries, function(a, b)
    local x, y = rank[a.id] or math.huge, rank[b.id] or math.huge
    if x ~= y then return x < y end
    return larger_first(a, b)
  end)
end

---Places a plan.
---@param nodes tide.placer.node[]
---@param jobs tide.placer.job[] in order of submission
---@param alloc table<integer, {slots?: integer, nodes?: table<integer, integer>}> of jobs whose slots change
---@param order? integer[] ids: which are placed first
---@param kind? "pack"|"emptiest"
---@return table<integer, table<integer, integer>> places of each job whose places change
---@return {id: integer, wanted: integer, got: integer}[] what could not be placed as requested
function placer.place(nodes, jobs, alloc, order, kind)
  local keeping, waiting, given = {}, {}, {}
  local bare = {nodes = {}}
  for _, node in ipairs(nodes) do bare.nodes[node.id] = node end
  for number, job in ipairs(jobs) do
    local request = alloc[job.id]
    local entry = {id = job.id, job = job, number = number, was = job.nodes or {}, nodes = job.nodes or {},
                   places = job.nodes or {}, placed = job.slots or 0}
    if request and request.nodes then
      entry.fixed, entry.places, entry.nodes = true, request.nodes, request.nodes
      entry.placed, entry.wanted = asked(request), asked(request)
      given[#given + 1] = entry
    elseif request or on_lost_node(bare, job) then
      entry.want = request and asked(request) or job.slots
      entry.wanted, entry.places, entry.placed = entry.want, {}, 0
      waiting[#waiting + 1] = entry
    elseif entry.placed > 0 then
      keeping[#keeping + 1] = entry
    end
  end
  local all = {}
  for _, list in ipairs {keeping, given, waiting} do table.move(list, 1, #list, #all + 1, all) end
  local world = machines_of(nodes, jobs, keeping)
  for _, entry in ipairs(given) do placer.hold(world, entry, entry.places) end
  local unplaced = {}
  for _, entry in ipairs(waiting) do
    if entry.want > 0 then unplaced[#unplaced + 1] = entry end
  end
  if kind == "emptiest" then
    in_order(unplaced, order)
    for _, entry in ipairs(unplaced) do
      local places = place_emptiest(world, entry.want, entry.was)
      if places then
        entry.places, entry.placed = places, entry.want
        placer.hold(world, entry, places)
      end
    end
  else
    pack(world, unplaced)
  end
  local out, unfit = {}, {}
  table.sort(all, function(a, b) return a.number < b.number end)
  for _, entry in ipairs(all) do
    if entry.wanted or entry.want then out[entry.id] = entry.places end
    local wanted = entry.wanted or entry.job.slots
    if entry.placed ~= wanted then unfit[#unfit + 1] = {id = entry.id, wanted = wanted, got = entry.placed} end
  end
  return out, unfit
end

return placer
