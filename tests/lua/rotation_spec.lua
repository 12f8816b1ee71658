-- The schedule of DSGD and how column blocks pass from worker to worker, with workers as coroutines in a drawn order.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path

-- P and row blocks of a worker
local CASES <const> = {{4, 4}, {4, 2}, {4, 1}, {8, 4}, {6, 2}, {6, 3}, {12, 4}, {12, 6}, {12, 3}, {16, 4}, {9, 3}}

local schedule, tournament, rotation, random

setup(function()
  random = require "tests.lua.fresh"().core.random
  schedule, tournament, rotation = require "tide.data.schedule", require "tide.data.tournament",
    require "tide.data.rotation"
end)

---All workers, their visits in the order in which they were done, by a scheduler that draws whose turn it is. `plan`
---makes a plan: each worker has its own.
---@return table[] done visits, each with its epoch, rank, round and whether its block continues with another
---@return integer ahead columns that were asked for in the midst of a round
local function run(plan, epochs, seed, moves, leave_at, joins)
  local workers <const>, rng <const> = plan().workers, random(seed)
  local came, users, homes, asked, done, ahead = {}, {}, {}, {}, {}, 0

  local function worker_of(rank)
    local w = {rank = rank, seed = 5, barriers = 0}
    function w.barrier(self, _, _, o)
      self.barriers = self.barriers + 1
      local number <const> = self.barriers
      came[number] = (came[number] or 0) + 1
      local arrival = {done = function() return came[number] == workers end}
      function arrival.wait()
        while not arrival.done() do coroutine.yield "barrier" end
      end
      return o and o.async and arrival or arrival.wait()
    end
    return w
  end

  local function table_of(rank, w)
    return {localize = function(_, columns)
      for _, column in ipairs(columns) do
        assert.is_true(users[column] == nil or users[column] == rank, "asked for while another one uses it")
        if homes[column] ~= rank then asked[column] = {} end -- rows of former stays are elsewhere
        homes[column] = rank
        for _, name in ipairs(columns.visits[column]) do asked[column][name] = true end
        if w.midst then ahead = ahead + 1 end
      end
      local waited, here = false, false
      local function look()
        here = here or rng:below(2) == 0
        return here
      end
      return {done = look, wait = function()
        assert.is_false(waited)
        waited = true
        while not look() do coroutine.yield "columns" end
        return true
      end}
    end}
  end

  local function name_of(visit) return visit.joined and table.concat(visit.joined, "-") or visit.row end

  local function use(rank, block)
    for _, visit in ipairs(block) do
      for _, column in ipairs(moves and (visit.joined or visit.columns) or {}) do
        assert.is_true(asked[column][name_of(visit)], "not asked for what the visit uses")
      end
      for _, column in ipairs(visit.columns) do
        assert.is_true(users[column] == nil or users[column] == rank, "two workers use a column")
        assert.is_true(not moves or homes[column] == rank)
        users[column] = rank
      end
    end
    coroutine.yield "works"
    for _, visit in ipairs(block) do
      for _, column in ipairs(visit.columns) do users[column] = nil end
    end
  end

  local function body(rank)
    local w <const> = worker_of(rank)
    local r <const> = rotation.new(w, {
      plan = plan(), epochs = epochs, columns = moves and table_of(rank, w) or nil,
      keys = function(columns, visits_of)
        local visits = {}
        for _, column in ipairs(columns) do
          visits[column] = {}
          for i, visit in ipairs(visits_of(column)) do visits[column][i] = name_of(visit) end
        end
        columns.visits = visits
        return columns
      end, joins = joins,
      block = function(epoch, visits)
        local block = {}
        for i, visit in ipairs(visits) do
          block[i] = setmetatable({epoch = epoch, rank = rank, goes_on = i < #visits}, {__index = visit})
        end
        return block
      end})
    for epoch = 1, epochs do
      local n, round = 0, nil
      for block in r:epoch(epoch) do
        use(rank, block)
        for _, visit in ipairs(block) do
          visit.round = r.current.round
          done[#done + 1] = visit
        end
        n = n + 1
        w.midst = r.current == round
        round = r.current
        if n == leave_at then break end
      end
    end
    w:barrier "end"
  end

  local all = {}
  for rank = 1, workers do all[rank] = coroutine.create(body) end
  local started, idle, left = {}, 0, workers
  while left > 0 do
    local rank <const> = rng:below(workers) + 1
    if coroutine.status(all[rank]) ~= "dead" then
      local ok, what = coroutine.resume(all[rank], not started[rank] and rank or nil)
      if not ok then error(what, 0) end
      started[rank], idle = true, what == "barrier" and idle + 1 or 0
      if coroutine.status(all[rank]) == "dead" then left = left - 1 end
      assert.is_true(idle < 1000 * workers, "nobody goes on")
    end
  end
  return done, ahead
end

---DSGD with so many row blocks of each worker.
local function run_dsgd(blocks, own, ...)
  return run(function() return schedule.plan(blocks, own, 5) end, ...)
end

---Which blocks touched each row and each column, in order: factors are the same bit for bit where these are.
local function histories(done)
  local rows, columns = {}, {}
  for _, block in ipairs(done) do
    local name <const> = ("%d:%d:%d"):format(block.epoch, block.row, block.column)
    rows[block.row] = (rows[block.row] or "") .. " " .. name
    columns[block.column] = (columns[block.column] or "") .. " " .. name
  end
  return {rows = rows, columns = columns}
end

---The same, one sub-epoch after the other.
local function histories_of_sub_epochs(blocks, epochs)
  local done = {}
  for epoch = 1, epochs do
    local plan <const> = schedule.new(blocks, epoch, 5)
    for e = 0, blocks - 1 do
      for row = 0, blocks - 1 do done[#done + 1] = {epoch = epoch, row = row, column = plan:column(e, row)} end
    end
  end
  return histories(done)
end

describe("the schedule of blocks", function()
  it("has every block once in an epoch, and no two of a sub-epoch in a row or column", function()
    for _, blocks in ipairs {1, 2, 6, 7, 8, 12} do
      local plan <const>, seen = schedule.new(blocks, 1, 3), {}
      for e = 0, blocks - 1 do
        local columns = {}
        for row = 0, blocks - 1 do
          local column <const> = plan:column(e, row)
          assert.is_nil(columns[column])
          assert.is_nil(seen[row * blocks + column])
          columns[column], seen[row * blocks + column] = true, true
        end
      end
    end
  end)

  it("is another one in each epoch and with each seed, and the same again", function()
    local function first(epoch, seed) return table.concat(schedule.new(12, epoch, seed).lines, " ") end
    assert.equal(first(1, 1), first(1, 1))
    assert.not_equal(first(1, 1), first(2, 1))
    assert.not_equal(first(1, 1), first(1, 2))
  end)

  it("keeps a worker's columns for a group of sub-epochs, and then gives all of them to one other", function()
    for _, case in ipairs {{8, 2, 2}, {8, 4, 4}, {6, 2, 2}, {12, 4, 4}, {12, 6, 2}, {6, 3, 1}, {9, 3, 3}, {8, 8, 8}} do
      local blocks, own, stay = table.unpack(case)
      assert.equal(stay, (schedule.stay(blocks, own)))
      local plan <const> = schedule.new(blocks, 1, 2)
      for at = 0, blocks - 1 do
        for first = 0, blocks - 1, own do
          local mine <const> = plan:columns(at, first, own)
          if at % stay ~= 0 then assert.same(plan:columns(at - 1, first, own), mine) end
          if own == stay then assert.equal(own - 1, mine[own] - mine[1]) end -- sets of all groups are the same ones
        end
      end
    end
  end)

  it("is done with a third of a group left with the first of a worker's columns", function()
    for _, case in ipairs {{16, 4, 11}, {16, 8, 43}, {64, 16, 171}} do
      local blocks, own, at = table.unpack(case)
      local last = {}
      for n, visit in ipairs(schedule.new(blocks, 1, 9):visits(0, 0, own)) do last[visit.column] = n end
      local least, order = math.huge, {}
      for column, n in pairs(last) do
        least = math.min(least, n)
        order[#order + 1] = column
      end
      assert.equal(at, least)
      table.sort(order)
      for i = 2, #order do assert.is_true(last[order[i - 1]] < last[order[i]]) end
    end
  end)
end)

describe("column blocks that pass from worker to worker", function()
  it("are one worker's at a time, and are used in the order of the sub-epochs by whoever has them", function()
    for _, case in ipairs(CASES) do
      local blocks, own = table.unpack(case)
      local expected <const> = histories_of_sub_epochs(blocks, 3)
      for seed = 1, 3 do
        for _, moves in ipairs {false, true} do
          assert.same(expected, histories((run_dsgd(blocks, own, 3, seed, moves))))
        end
      end
    end
  end)

  it("are asked for while their worker still works on others", function()
    local _, ahead = run_dsgd(16, 4, 2, 1, true)
    assert.is_true(ahead > 0)
  end)

  it("pass on when all leave an epoch early", function()
    for seed = 1, 5 do
      local done <const> = run_dsgd(16, 4, 2, seed, true, 21)
      assert.equal(2 * 4 * 21, #done)
    end
  end)
end)

describe("the tournament of buckets", function()
  local function plan_of(workers, whole)
    return function() return tournament.new(workers, 5, whole) end
  end

  it("brings each two columns together once an epoch, in the hands of one worker", function()
    for case = 2, 19 do
      local workers <const>, whole <const> = case // 2, case % 2 == 1
      local done <const>, times = run(plan_of(workers, whole), 3, workers, true, nil, workers % 2 == 0), {}
      for _, visit in ipairs(done) do
        local a, b = table.unpack(visit.joined)
        local here = {}
        for _, column in ipairs(visit.columns) do here[column] = true end
        assert.is_true(here[a] and here[b])
        local pair <const> = ("%d:%d:%d"):format(visit.epoch, math.min(a, b), math.max(a, b))
        assert.is_nil(times[pair], "twice: " .. pair)
        times[pair] = true
      end
      local n <const> = tournament.new(workers, 5, whole).column_count
      assert.equal(workers == 1 and 1 or whole and 2 * workers or 4 * workers, n)
      assert.equal(3 * n * (n + 1) // 2, #done)
    end
  end)

  it("makes visits at once whose columns are there, unless somebody waits for one of these", function()
    local function count(done)
      local blocks, at, last = 0, {}, {}
      for n, visit in ipairs(done) do
        for _, column in ipairs(visit.columns) do last[visit.epoch .. ":" .. visit.round .. ":" .. column] = n end
      end
      for n, visit in ipairs(done) do
        blocks = blocks + (visit.goes_on and 0 or 1)
        at[visit.rank] = at[visit.rank] or tournament.new(4, 5)
        local columns <const>, passed <const> = at[visit.rank]:columns(visit.epoch, visit.round, visit.rank)
        for k = 1, visit.goes_on and passed or 0 do
          assert.not_equal(n, last[visit.epoch .. ":" .. visit.round .. ":" .. columns[k]])
        end
      end
      return blocks
    end
    for seed = 1, 5 do
      local alone <const>, joined <const> = run(plan_of(4), 3, seed, true), run(plan_of(4), 3, seed, true, nil, true)
      assert.equal(#alone, #joined)
      assert.equal(#alone, count(alone))
      assert.is_true(count(joined) < 2 / 3 * #joined)
    end
  end)

  it("lets every worker keep one of its two buckets, from epoch to epoch too", function()
    for case = 4, 19 do
      local workers <const>, whole <const> = case // 2, case % 2 == 1
      local plan <const> = tournament.new(workers, 3, whole)
      local held = {}
      for epoch = 1, 4 do
        for round = 0, plan.rounds - 1 do
          for rank = 1, workers do
            local kept = 0
            local columns <const> = plan:columns(epoch, round, rank)
            for _, column in ipairs(columns) do kept = kept + (held[column] == rank and 1 or 0) end
            assert.is_true(kept >= #columns // 2 or not next(held))
          end
          held = {}
          for rank = 1, workers do
            for _, column in ipairs(plan:columns(epoch, round, rank)) do
              assert.is_nil(held[column])
              held[column] = rank
            end
          end
        end
      end
    end
  end)

  it("says the same whatever was asked before, and draws another order for each epoch and seed", function()
    local function of(plan, epoch)
      local all = {}
      for round = 0, plan.rounds - 1 do all[#all + 1] = table.concat(plan:columns(epoch, round, 2), " ") end
      return table.concat(all, ",")
    end
    local plan <const> = tournament.new(4, 3)
    local late <const>, first <const> = of(tournament.new(4, 3), 7), of(plan, 1)
    for epoch = 2, 6 do of(plan, epoch) end
    assert.equal(late, of(plan, 7))
    assert.equal(first, of(plan, 1))
    assert.not_equal(first, of(plan, 2))
    assert.not_equal(first, of(tournament.new(4, 4), 1))
  end)

  it("has columns travel while others are worked on, and goes on when an epoch is left early", function()
    local _, ahead = run(plan_of(4), 2, 1, true)
    assert.is_true(ahead > 0)
    for seed = 1, 5 do
      local done <const> = run(plan_of(4), 3, seed, false, 9)
      assert.equal(3 * 4 * 9, #done)
    end
  end)
end)
