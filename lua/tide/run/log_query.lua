-- Chooses lines of the log of a run (run_log.lua) by rank, time, text and stream. Pure.
local log_lines = require "tide.show.log_lines"

local log_query = {}

---@class tide.log_query
---@field rank? integer of the worker; 0: the script itself and Tide
---@field since? number seconds since 1970
---@field search? string lines that contain it, whatever the case of its letters
---@field err? boolean only what was written to standard error

-- Of commands that print a log.
---@type tide.option[]
log_query.OPTIONS = {
  {name = "rank", of = "logs", type = "integer", min = 0, value = "N",
   doc = "of this worker only; 0: of the script itself"},
  {name = "since", of = "logs", type = "duration", doc = "lines of this last time only"},
  {name = "search", of = "logs", type = "string", value = "TEXT",
   doc = "lines with this text only, in any case of letters"},
  {name = "stderr", of = "logs", doc = "only what was written to standard error"},
}

---@param options table of a command that has OPTIONS
---@param now number seconds since 1970
---@return tide.log_query
function log_query.of(options, now)
  return {rank = options.rank, since = options.since and now - options.since, search = options.search,
          err = options.stderr}
end

---@return boolean whether everything fits
function log_query.is_empty(o) return not (o.rank or o.since or o.search or o.err) end

---A function that keeps the lines of chunks which fit. Chunks are whole lines, in the order of the log. A line that
---continues another one fits where that does; where it alone has the text the other is kept too.
---@param o tide.log_query
---@return fun(chunk: string): string
function log_query.filter(o)
  if log_query.is_empty(o) then return function(chunk) return chunk end end
  local since <const> = o.since and os.date("!%F %T", o.since // 1 | 0) .. (".%03d"):format(o.since % 1 * 1000 // 1 | 0)
  local search <const> = o.search and o.search:lower()
  local by_head = false -- the newest head fits but for what is searched
  local found, head = false, nil -- head: it was not kept yet
  return function(chunk)
    local kept = {}
    for line in chunk:gmatch "([^\n]*)\n" do
      local e <const> = log_lines.entry(line)
      if e then
        by_head = (not o.rank or e.rank == o.rank) and (not since or e.time >= since) and (not o.err or e.err)
        found, head = false, line
      end
      found = found or not search or line:lower():find(search, 1, true) ~= nil
      if by_head and found then
        if head and head ~= line then kept[#kept + 1] = head .. "\n" end
        kept[#kept + 1], head = line .. "\n", nil
      end
    end
    return table.concat(kept)
  end
end

return log_query
