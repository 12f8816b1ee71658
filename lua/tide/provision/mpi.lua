-- A cluster of processes that mpirun starts all at once: its size is fixed, and it ends with mpirun.
local commands = require "tide.provision.commands"

local kind = {name = "mpi"}

---@param o {count: integer, address: string, keys?: string, workers?: integer, program?: string, root?: boolean}
---@return string[]
function kind.command(o)
  local argv <const> = {"mpirun", "-n", tostring(o.count), "--oversubscribe"}
  local function add(...) table.move({...}, 1, select("#", ...), #argv + 1, argv) end
  if o.root then add "--allow-run-as-root" end
  add("--mca", "orte_abort_on_non_zero_status", "0") -- a node that is lost is no end of the others
  add(o.program or commands.program(), "node", "--gang", o.address, "--cluster", o.cluster, "--workers",
    tostring(o.workers or 1))
  if o.silence then add("--silence", ("%gs"):format(o.silence)) end
  if o.keys then add("--keys", o.keys) end
  return argv
end

return kind
