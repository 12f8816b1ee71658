-- Nodes and workers of a run that are lost: whether the run continues without them, or the error with which it ends.
local ask_all = require "tide.ask_all"
local core = require "tide.core"
local script = require "tide.script"
local text = require "tide.text"

local methods <const> = {}
local losses = {methods = methods}

---@type table<string, boolean> names of errors that a lost node may have caused
losses.NAMES = {EDIED = true, EUNREACHABLE = true, ECLOSED = true}

---@param err table
---@return boolean whether a lost or leaving node may be why a run could not start
function losses.may_be(err) return losses.NAMES[err.name or ""] or err.code == "T0509" end

---@return string|nil reason why a member is no longer up
---@return boolean? in_order it leaves or has left: its rows are handed on
function losses.gone(node)
  for _, member in ipairs(core.members() or {}) do -- a former node of the same name does not count for this one
    if member.id == node.id and member.state ~= "up" and member.state ~= "joining" then
      return (member.reason and member.reason ~= "" and member.reason) or member.state,
        member.state == "leaving" or member.state == "left"
    end
  end
  return nil
end


---@return string[] tables of the run with copies of which some rows have lost all copies
function methods:tables_lost()
  local lost = {}
  for _, key in ipairs(text.sorted_keys(self.a.tables)) do
    local handle <const> = core.table_find(self.a.tables[key])
    if handle and (handle.spec.replicas or 0) > 0 and #handle:health().lost > 0 then
      lost[#lost + 1] = ("`%s`"):format(self.a.tables[key])
    end
  end
  return lost
end

---Copies take over after a node is lost, or it turns out later that there are none.
---@return tide.error|nil
function methods:lost_copies()
  if not self.lost_node then return nil end
  local lost <const> = self:tables_lost()
  if #lost == 0 then return nil end
  return script.error("T0509", ("node %s is lost, and with it the last copy of rows"):format(self.lost_node.name), {
    node = self.lost_node.name,
    state = ("a part of the tables is gone (%s); the run is ended"):format(table.concat(lost, ", "))})
end

---Before the run counts as finished: are all holders of its rows there?
---@return tide.error|nil
function methods:missing()
  local holders, silent = {}, 0
  for _, node in ipairs(self.a.nodes) do
    if not node.lost and node.store then holders[#holders + 1] = node.agent end
  end
  local answers <const> = ask_all(holders, {op = "jobs"}, {timeout_s = core.limit "run_loss_patience"})
  for i = 1, #holders do
    if not answers[i] then silent = silent + 1 end
  end
  local deadline <const> = core.now() + core.limit "run_loss_patience"
  while silent > 0 and not self.failed and core.now() < deadline do
    local node, reason = self:find_lost()
    if node then
      self:lose_node(node, reason)
      silent = silent - 1
    end
    core.sleep(0.05)
  end
  return self.failed or self:lost_copies()
end

---@return string[] tables of the run with rows that died with this node
function methods:tables_on(node)
  local lost = {}
  if node.gone then return lost end
  for _, key in ipairs(text.sorted_keys(self.a.tables)) do
    local handle = core.table_find(self.a.tables[key])
    local gone_here
    if handle and (handle.spec.replicas or 0) > 0 then
      gone_here = #handle:health().lost > 0 -- else its copies take over
    elseif handle then
      -- Rows that relocate live where they are used, whatever their home is.
      local moves = handle.spec.technique == "relocate" or handle.spec.technique == "intent"
      gone_here = (handle:homes()[node.id] or 0) > 0 or (moves and node.workers > 0)
    end
    if gone_here then lost[#lost + 1] = ("`%s`"):format(self.a.tables[key]) end
  end
  return lost
end

---@return tide.error|nil why the run cannot continue without this node
function methods:verdict(node, reason, in_order)
  if in_order then
    if node.workers == 0 or self:may_go_on(node) then return nil end
    return script.error("T0509", ("node %s received a signal to end and leaves"):format(node.name), {
      node = node.name, state = "its rows went to the other nodes, but its workers are gone; the run is ended",
      help = "run again; a node that may go while a run needs it must not have workers of it"})
  end
  local message = ("node %s is lost: %s"):format(node.name, reason)
  local longer <const> = tostring(reason):find "no heartbeat"
    and "; --silence where the cluster starts (tide run, up or node) lets a node be silent for longer" or ""
  local lost = self:tables_on(node)
  if #lost > 0 then
    return script.error("T0509", message, {node = node.name,
      state = ("its part of the tables is gone (%s); the run has ended"):format(table.concat(lost, ", ")),
      help = "run again; `replicas = 1` of a table keeps a copy of its rows on another node" .. longer})
  end
  if node.workers == 0 or self:may_go_on(node) then return nil end
  return script.error("T0509", message, {node = node.name,
    state = "the tables are whole, but the share of its workers is not done; the run has ended",
    help = "cut the data into chunks (w:chunks), which others take over, or say `on_worker_loss = \"replay\"`"
      .. longer})
end

---@return boolean whether the job allows it, and a worker is left for what these leave
function methods:may_go_on(node)
  if not self.job:survives_workers() or self:is_starting() then return false end
  local left, done = 0, 0
  for _, w in ipairs(self.workers) do
    if w.dropped then goto next end -- does no more of it, and has not done it all
    if w.node ~= node and w.state == "running" then left = left + 1 end
    if w.state == "done" then done = done + 1 end
    ::next::
  end
  local undone = self.chunks and not self.chunks:over()
  return left > 0 or (done > 0 and not undone) or done == 0 and self:gets_others()
end

---Takes the workers of a node out of all that the others wait for. reason nil: they have left in order.
function methods:drop_workers(node, reason)
  local count, redone = 0, 0
  for _, w in ipairs(self.workers) do
    if w.node == node then
      self:retire(w)
      count = count + 1
      if self.chunks then redone = redone + self.chunks:release(w.rank) end
      if self.policies then self.policies:ended(w.rank) end
      self:evaluate_without(w)
    end
  end
  if self.suspect and self.suspect.worker and self.suspect.worker.node == node then self.suspect = nil end
  if count == 0 then return end
  self:wait_for_others()
  if reason then
    self.workers_lost = self.workers_lost + count
    self:emit {kind = "lost", node = node.name, reason = reason, workers = count, chunks = redone}
  else
    self:emit {kind = "log", text = ("node %s has left with its %d worker%s; nothing is to be done again"):format(
      node.name, count, count == 1 and "" or "s")}
  end
  self:hand_out()
  self:meet()
  self:look_for_awake()
end

function methods:lose_node(node, reason, in_order)
  if node.lost then return end
  node.lost = true
  if node.store then self.lost_node = node end
  if node.vacant then -- it left when its workers had
    for _, w in ipairs(self.workers) do
      if w.node == node and w.state ~= "lost" then
        self:retire(w)
        self:evaluate_without(w)
      end
    end
    if self.policies then self.policies:left(node) end
    return
  end
  local known, left = losses.gone(node)
  in_order = left or (in_order and not known)
  reason = known or reason
  if self:starts_elsewhere(node, reason) then return end
  local err = self:verdict(node, reason, in_order)
  if err then return self:fail(err) end
  self:drop_workers(node, reason)
  if self.policies then self.policies:left(node) end
end

---@return table|nil node, string? reason the first node of the run that is gone without having been dealt with
function methods:find_lost()
  for _, node in ipairs(self.a.nodes) do
    local reason = not node.lost and (node.gone or losses.gone(node))
    if reason then return node, reason end
  end
  return nil
end

---A failure that may be the consequence of a lost node waits a moment for the cause.
function methods:fail_or_suspect(err, worker)
  if self.failed then return end
  if not losses.NAMES[err.name or ""] then return self:fail(err) end
  if self.life:is "starting" then
    if not self.waits_to_start then self:start_anew("a worker did not start (" .. err.message .. ")", err) end
    return
  end
  self.suspect = self.suspect or {err = err, at = core.now(), worker = worker}
  local node, reason = self:find_lost()
  if node then self:lose_node(node, reason) end
end

return losses
