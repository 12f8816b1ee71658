#!/bin/bash
# Workers send each other typed arrays (docs/guides/peers.md): in order per pair and tag, whole, the same sums on all, under
# delays, with senders faster than receivers, with workers that die, join and are dropped, and with words about misuse.
. "$(dirname "$0")/harness.sh"

cat >rounds.lua <<'LUA'
local tide = require "tide"
local sim = require "tide.sim"
local core = require "tide.core"
local opt = tide.options {crashes = {"nodes that die", default = 0}, join = {"workers come and go", default = false}}
local ROUNDS <const>, REPORTS <const> = 3, 3

-- Of a round everything is known: what each rank gives is a function of (rank, round).
local function given(rank, round, size)
  local t <const> = tide.tensor.zeros("f64", size)
  for i = 1, size, 7 do t[i] = 1 / (rank * 1000 + round * 10 + i) end
  return t
end

local function play(w, peers, round)
  local me <const>, ranks <const> = w.rank, peers.ranks
  local total <const> = peers:sum("sum", given(me, round, 40))
  if not total then return false end
  local large <const> = peers:sum("large", given(me, round, 4200))
  if not large then return false end
  for i = 1, 4200, 7 do
    local sum = 0.0
    for _, r in ipairs(ranks) do sum = sum + 1 / (r * 1000 + round * 10 + i) end
    assert(large[i] == sum, "a sum is not the one in the order of ranks")
  end
  -- Three values of a tag to each, of which one goes in pieces, while others are still at the sum.
  for _, r in ipairs(ranks) do
    for n = 1, 3 do
      local t <const> = tide.tensor.zeros("u16", n == 2 and round % 3 == 0 and 500000 or 3)
      t[1], t[#t] = me, round * 10 + n
      local give <const> = n == 2
      if not peers:send(r, "pair", t, {give = give}) then return false end
      assert(#t == 0 == give, "a tensor that was given has no rows, another one keeps them")
      t:fill(0)
    end
  end
  local map <const> = {}
  for _, r in ipairs(ranks) do map[r] = {from = me, to = r, round = round} end
  local theirs <const> = peers:swap("swap", map)
  if not theirs then return false end
  if w.rng:below(3) == 0 then tide.sleep(w.rng:uniform() * 0.02) end
  for _, r in ipairs(ranks) do
    assert(theirs[r].from == r and theirs[r].to == me and theirs[r].round == round)
    for n = 1, 3 do
      local t <const> = peers:receive(r, "pair")
      if not t then return false end
      assert(t:type() == "u16" and t[1] == r and t[#t] == round * 10 + n and #t == (n == 2 and round % 3 == 0 and 500000 or 3))
    end
  end
  local digests <const> = peers:gather("digest", core.digest(total) .. core.digest(large), {async = true})
  tide.sleep(0.001)
  local all <const> = digests:wait()
  if not all then return false end
  for _, r in ipairs(ranks) do assert(all[r] == all[me], "sums differ") end
  return true
end

local job = tide.job {
  name = "rounds", stop = {epochs = REPORTS}, on_worker_loss = "replay",
  worker = function(w)
    local round, redone = 1, 0
    while not w:stopping() do
      local peers = w:peers(round)
      for _, r in ipairs(peers.ranks) do round = math.max(round, peers.values[r]) end
      local last <const> = round + ROUNDS
      while round < last do
        local whole = play(w, peers, round)
        -- Who is through may find that another one is not: then all do the round again.
        if whole and not peers:agree() then whole = false end
        if whole then
          round = round + 1
        else
          redone = redone + 1
          peers = w:peers(round)
        end
      end
      w:report {here = 1, redone = redone, alike = {round = round}}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 4, servers = 1}
  for i = 1, opt.crashes do
    sim.fault("crash", {node = "n" .. i + 1, at = ("%dms"):format(40 + sim.rng:below(80))})
  end
  local run = cluster:start(job)
  local here = {}
  for r in run:events "report" do
    here[#here + 1] = ("%d:%d"):format(r.here, r.round)
    if opt.join and r.n == 1 then run:set_workers(5) end
    if opt.join and r.n == 2 then run:drop_worker(1) end
    assert(r.here == 1 or r.peers_bytes > 0 and r.peers_wait_s > 0)
  end
  print("lost", run:wait().workers_lost, table.concat(here, " "))
end)
LUA
for seed in 1 2 3 4 5 6 7 8; do
    run 0 sim --seed $seed rounds.lua -- --crashes $((seed % 3))
    says out.txt "^lost.$((seed % 3)).[0-9]:4 [0-9]:7 $((4 - seed % 3)):10$"
done
first=$(hash_of err.txt)
run 0 sim --seed 8 rounds.lua -- --crashes 2
same "$first" "$(hash_of err.txt)" "a run of peers"
run 0 sim --seed 1 rounds.lua -- --join
says out.txt '^lost.0.4:4 [45]:7 [345]:10$'

cat >fast.lua <<'LUA'
-- One worker sends 100 MB while the other computes, and waits at a barrier before it receives.
local tide = require "tide"
local job = tide.job {
  name = "fast", stop = {epochs = 1},
  worker = function(w)
    local peers = w:peers()
    local other = 3 - w.rank
    if w.rank == 1 then
      for i = 1, 25 do
        local t = tide.tensor.zeros("f32", 1000000)
        t:fill(i)
        peers:send(other, "x", t)
      end
    else
      tide.sleep "300ms"
      peers:send(other, "early", {1, 2})
    end
    if w.rank == 2 then
      for i = 1, 25 do assert(peers:receive(1, "x")[1000000] == i) end
    else
      assert(#peers:receive(2, "early") == 2)
    end
    w:report {}
    -- Whose function returns leaves: what it sent is here, more does not come.
    if w.rank == 1 then
      peers:send(2, "last", {true})
    else
      assert(peers:receive(1, "last")[1])
      local value, lost = peers:receive(1, "never")
      assert(value == nil and lost == "lost")
      print "left"
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  run:wait()
end)
LUA
run 0 sim --seed 1 fast.lua
says err.txt 'left'

# The page's program.
awk '/^```lua$/ { n++; inside = n == 1; next } /^```$/ { inside = 0 } inside' "$root/docs/guides/peers.md" >page.lua
run 0 run page.lua
says err.txt '3.0.10.2$'

# wrong LINE PATTERN: misuse ends the run with words.
wrong() {
    cat >wrong.lua <<LUA
local tide = require "tide"
local job = tide.job {name = "wrong", stop = {epochs = 1}, worker = function(w)
  local peers = w:peers()
  $1
  w:report {}
end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  cluster:start(job):wait()
end)
LUA
    "$TIDE" sim --seed 1 wrong.lua >out.txt 2>err.txt && fail "$1 passes"
    says err.txt "$2"
}
wrong 'peers:send(3, "x", {})' 'worker 3 is not in this view \(1 2\)'
wrong 'peers:send(1, {}, {})' 'a tag is a string or an integer, not table'
wrong 'peers:sum("x", {})' 'peers:sum adds tensors'
wrong 'peers:sum("x", tide.tensor.zeros("f64", w.rank))' 'sum .x.: . elements, slices of f64, at wrong.lua:4 on worker'
wrong 'if w.rank == 1 then peers:gather("x", 1) else peers:receive(1, "x") end' 'tag .x. is of (gather|send) at wrong.lua:4'
wrong 'w:peers() peers:send(1, "x", {})' 'these peers are of a former view'
wrong 'peers:send(2, "x", {1}, {give = true})' 'give is for tensors, not for a table'
wrong 'peers:send(2, "x", {1}, {gave = true})' 'peers:send has no option .gave.'
wrong 'peers:send(2, "x", print)' 'a function cannot travel'
finish
