---@meta
-- Numeric tools, which C provides (lua/host/kernel/numeric.c, goodput.c, lines.c): `k` in policies, `tide.k` in
-- scripts.
local k = {}

---The line y = at + per x that fits best, both at least 0.
---@param x number[]
---@param y number[]
---@return {at: number, per: number}
function k.line(x, y) end

---The line of each worker, learnt from samples that come one at a time: `lines:learn(workers)`, `lines:split(total,
---workers, change)`, `lines:line(id)`, `lines:kept()`; docs/guides/policy-contract.md.
---@param o {forget?: number, jump?: number, at?: table<integer, number>}
---@return table lines
function k.lines(o) end

---The coefficients c that make A c - y least.
---@param A number[][]
---@param y number[]
---@return number[]
function k.least_squares(A, y) end

---The same with coefficients of at least 0.
---@param A number[][]
---@param y number[]
---@return number[]
function k.nnls(A, y) end

---Parameters that make the squares of residuals least (Levenberg and Marquardt), between bounds.
---@param o {residuals: fun(p: number[]): number[], start: number[], low?: number[], high?: number[], evaluations?: integer}
---@return {p: number[], error: number, evaluations: integer}
function k.fit(o) end

---The split of a whole number that ends earliest.
---@param total integer
---@param cost table[] {at, per, min, max} of each, or a list of times
---@return {share: integer[], seconds: number}
function k.minmax_split(total, cost) end

---The cheapest column for each row (Hungarian method); `math.huge` forbids a pair.
---@param cost number[][]
---@return integer[] columns
---@return number total
function k.assign(cost) end

---One option a row, most value within a capacity.
---@param rows number[][] values of the options
---@param sizes integer[] of the options
---@param capacity integer
---@param device? string
---@return integer[] options 0: none
---@return number[] best value of each smaller capacity
---@return number value
function k.knapsack(rows, sizes, capacity, device) end

---Weights on machines so that the fullest is least full.
---@param weights number[]
---@param capacity number[]
---@return integer[] machine of each weight
---@return number span largest load / capacity
---@return number bound no division is better
function k.makespan(weights, capacity) end

---A mean that forgets.
---@param old number|nil
---@param new number
---@param weight number of the new one
---@return number
function k.ewma(old, new, weight) end

---A quantile, interpolated between neighbours.
---@param list number[]
---@param q number 0 to 1
---@return number|nil
function k.quantile(list, q) end

---Whether going from one cost to another pays: old > gain * new.
---@param old number
---@param new number
---@param gain number
---@return boolean
function k.hysteresis(old, new, gain) end

---The jobs that run in this round, so that time received follows the shares.
---@param share number[]
---@param received number[]
---@param sizes integer[]
---@param capacity integer
---@return integer[] granted size, or 0
function k.rounds(share, received, sizes, capacity) end

---Fits the seven numbers of the model of throughput. docs/guides/scheduling.md.
---@param rows table[] {n, K, m, t_a, t_o, weight}
---@return table perf
---@return number loss
function k.fit_goodput(rows) end

---Goodput at each size, and at a fair one. docs/guides/scheduling.md.
---@param job table an entry of the view
---@param sizes integer[]
---@param fair integer
---@return table
---@return number
function k.goodput(job, sizes, fair) end

---The batch with most goodput on so many slots.
---@param job table
---@param slots integer
---@param machines? integer
---@return {batch: integer, accum: integer, total: integer, goodput: number, efficiency: number, step_s: number}
function k.best_batch(job, slots, machines) end

---Sizes of jobs that can always be placed.
---@param nodes table[]
---@return integer[]
function k.sizes(nodes) end

---Averages of the noise of gradients.
---@param state table|nil
---@param sample table {count, batch, start, sum, total, biased}
---@return table
function k.noise(state, sample) end

return k
