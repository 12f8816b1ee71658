-- Nodes that a launcher starts all at once, mpirun or srun: which one this is, by what the launcher leaves in the
-- environment. No library of MPI is needed.
local errors = require "tide.errors"

local gang = {JOIN_S = 60} -- how long the others look for the first one

local RANKS <const> = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"}

---@param getenv? fun(name: string): string?
---@return integer|nil
function gang.rank(getenv)
  for _, name in ipairs(RANKS) do
    local rank <const> = math.tointeger(tonumber((getenv or os.getenv)(name) or ""))
    if rank and rank >= 0 then return rank end
  end
  return nil
end

---@param address string where rank 0 leads the cluster
---@param rank? integer instead of the launcher's
---@return {name: string, join: string?, listen: string?}|nil place
---@return table? err
function gang.place(address, rank)
  rank = rank or gang.rank()
  if not rank then
    return nil, errors.new("T0103", {
      message = "--gang finds no rank: none of " .. table.concat(RANKS, ", ") .. " is set",
      help = "start it by mpirun or srun, or say --rank"})
  end
  if rank == 0 then return {name = "r0", listen = address} end
  return {name = "r" .. rank, join = address}
end

return gang
