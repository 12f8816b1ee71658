---@meta
-- Handles of tables, which C provides (lua/host/table). docs/guides/tables.md is the guide, docs/guides/techniques.md
-- and docs/guides/consistency.md go further. Calls suspend the fiber that makes them; what fails is raised, but of
-- `localize` and `intent`, which are hints.

---@class tide.table_handle A table of a run, `w.tables.NAME` in workers and `run.tables.NAME` on the driver.
---@field name string
---@field width integer numbers in a row
---@field spec table what it was made of
local handle = {}

---Reads rows, one for each key.
---@param keys integer[]|tide.tensor
---@param o? {async?: boolean, into?: tide.tensor} async: a ticket at once; into: f32 tensor to write to
---@return tide.tensor|tide.ticket rows f32, keys x width
function handle:pull(keys, o) end

---Applies rows by the table's update rule.
---@param keys integer[]|tide.tensor
---@param rows tide.tensor|number[]|number[][] f32 tensor, array of rows, or flat array
---@param o? {async?: boolean} async: a ticket at once
---@return true|tide.ticket
function handle:push(keys, rows, o) end

---Reads only what this node holds; does not suspend.
---@param keys integer[]|tide.tensor
---@return tide.tensor rows
---@return tide.tensor hits u8: 1 where the row is here
function handle:pull_local(keys) end

---Brings rows to this node, where access is then as fast as to one's own. Of a table with technique "relocate". Nothing
---depends on it but speed: it is not raised when there is no room.
---@param keys integer[]|tide.tensor
---@param o? {async?: boolean}
---@return true|tide.ticket|nil ok
---@return tide.error? err
function handle:localize(keys, o) end

---Draws keys, for negative sampling. The level says what draws must promise, and chooses the scheme:
---docs/guides/tables.md.
---@param o {dist?: "uniform"|number[]|fun(): integer, level?: "conform"|"bounded"|"long_term"|"none", scheme?: string, first?: integer, count?: integer, group?: integer, reuse?: integer, seed?: integer}
---@return tide.sampler
function handle:sampler(o) end

---The consistency, or a new bound of the same model on all nodes; ssp and essp change into each other.
---@param bound? string "essp:4"
---@return string|true consistency
function handle:consistency(bound) end

---The learning rate in force, or another one for all nodes, also those that join later: pushes that reach their row
---after this returns are applied by it. docs/guides/tables.md.
---@param rate? number
---@return number|true|nil rate nil: the rule has none; nil, err: it cannot be changed
---@return tide.error? err
function handle:rate(rate) end

---Gives slots to a node, waits until no node uses their old homes.
---@param slots integer[] 0 to 4095
---@param node integer id
---@return true
function handle:move(slots, node) end

---Writes all rows of all nodes, and what the update rule remembers, as safetensors.
---@param path string
---@return true
function handle:save(path) end

---Reads rows that were saved, or the rows of a file that another program wrote: then `tensor` names the one with the
---rows, and `keys` says whose they are.
---@param path string
---@param o? {tensor?: string, keys?: "rows"|string|integer|tide.tensor, add?: boolean} keys: "rows" (default): row i of the tensor is key i, from 0; the name of an integer tensor in the file; a first key; or a tensor of keys; add: pushed by the update rule, else assigned
---@return true
function handle:load(path, o) end

---The values of rows become these, whatever the update rule; what the rule remembers stays. For rows that come from
---elsewhere: workers push.
---@param keys integer[]|tide.tensor
---@param rows tide.tensor f32, keys x width
---@return true
function handle:assign(keys, rows) end

---The technique of keys, on all nodes: "relocate" to "replicate" and back. docs/guides/techniques.md.
---@param keys integer[]|tide.tensor
---@param technique "static"|"relocate"|"replicate"|"intent"
---@param o? {nodes?: integer[], rate?: number, threshold?: number, clip?: number}
---@return true
function handle:manage(keys, technique, o) end

---The calling worker will use keys in its clocks `from` to `to` - 1; `w:intent` counts the worker's own clocks. Nothing
---depends on it but speed: it is not raised when too many are known already.
---@param keys integer[]|tide.tensor
---@param from integer
---@param to integer
---@return true|nil ok
---@return tide.error? err
function handle:intent(keys, from, to) end

---What was pushed to copies on this node is in the rows when it returns.
---@return true
function handle:flush() end

---How a key is managed.
---@param key integer
---@return string technique
---@return boolean copy this node has a copy
function handle:technique(key) end

---The node that has the key, as far as this one knows.
---@param key integer
---@return integer id
function handle:where(key) end

---The slot by which the key has its home.
---@param key integer
---@return integer slot 0 to 4095
function handle:slot(key) end

---Counters of this node: accesses, bytes, rows, and of tables with clocks `staleness`.
---@return table
function handle:stats() end

---The keys that this node's workers access most, estimated from 1 access in 64.
---@param n? integer default 10
---@return {key: integer, reads: integer, writes: integer, doubt: integer}[]
---@return integer total accesses to all keys
function handle:hottest(n) end

---Prints its state on all nodes.
---@param o? {chart?: string} chart: a file for an SVG
function handle:show(o) end

---How long fibers waited for other nodes: counts of less than 1, 2, 4, .. us.
---@return {pull: integer[], push: integer[]}
function handle:waits() end

---Slots by the node that has them.
---@return table<integer, integer>
function handle:homes() end

---How safe the rows are; does not suspend. docs/guides/faults.md.
---@return {mode: string, under_replicated: integer, lost: integer[], leases: string, unreplicated: integer, lost_updates: integer}
function handle:health() end

---The home of each slot.
---@return tide.tensor u32
function handle:slot_homes() end

---Keys served to other nodes, by slot.
---@return tide.tensor u64
function handle:slot_served() end

---@class tide.ticket What an operation with `async = true` returns.
local ticket = {}

---Waits until the operation is done.
---@param timeout_s? number
---@return tide.tensor|true|nil result
---@return tide.error? err
function ticket:wait(timeout_s) end

---Whether it is done.
---@return boolean
function ticket:done() end

---@class tide.sampler What `t:sampler` returns.
local sampler = {}

---Announces a sample of n draws, the earlier the better.
---@param n integer
---@return any sample
function sampler:prepare(n) end

---The next m draws of a sample.
---@param sample any
---@param m integer
---@return tide.tensor keys u64
---@return tide.tensor rows f32, m x width
function sampler:pull(sample, m) end

---Ends a sample.
---@param sample any
function sampler:finish(sample) end

---Its scheme, level and counts.
---@return table
function sampler:stats() end

return {handle, ticket, sampler}
