#!/bin/bash
# Every request of the agent, of the control actor, of the keeper of runs and of a run's policies, asked for real with
# every right: who may gets an answer or an error
# of its own, who may not is refused for the right alone. And what a session of another's does: nothing.
. "$(dirname "$0")/harness.sh"

mkdir -p "$work/lua/tide/command"
cp -r "$root/lua/tide" "$work/lua/"
cat >"$work/lua/tide/command/version.lua" <<'LUA'
local core = require "tide.core"
local INSIDE <const> = [[
local core = require "tide.core"
local requests = require "tide.requests"
local service = require "tide.service"
return function(a)
  local wrong, asked = {}, 0
  local session
  local function ask(actor, address, request)
    local answer, err = core.call(address, request, 3)
    local refused = err ~= nil and err.code == "T0801"
    local may = service.at_least(a.right, requests[actor][request.op].right)
    if request.op == "console.open" and request.role then may = may and service.at_least(a.right, request.role) end
    asked = asked + 1
    if refused == may then
      wrong[#wrong + 1] = ("%s %s as %s: %s"):format(actor, request.op, a.right, err and err.message or "an answer")
    end
    return answer
  end
  local agent, control, runs, policies
  for _, member in ipairs(core.members()) do
    agent = agent or core.whereis(member.name .. "/agent")
    control = control or core.whereis(member.name .. "/control")
    runs = runs or core.whereis(member.name .. "/runs")
    policies = policies or core.whereis(member.name .. "/policies")
  end
  for op in pairs(requests.agent) do
    local ends <const> = op == "quit" or op == "drain" -- they would be obeyed
    if not (ends and service.at_least(a.right, requests.agent[op].right)) then ask("agent", agent, {op = op}) end
  end
  for op in pairs(requests.control) do
    if op ~= "quit" or not service.at_least(a.right, "admin") then
      local _, err = core.call(control, {op = op}, 3)
      local refused = err ~= nil and (err.code == "T0801" or err.name == "EPERM")
      asked = asked + 1
      if refused == service.at_least(a.right, requests.control[op].right) then
        wrong[#wrong + 1] = ("control %s as %s: %s"):format(op, a.right, err and err.message or "an answer")
      end
    end
  end
  for op in pairs(requests.runs) do ask("runs", runs, {op = op}) end
  for op in pairs(requests.run) do ask("run", policies, {op = op}) end
  for verb in pairs(requests.policies) do
    local _, err = core.call(policies, {op = "policy", verb = verb, arguments = core.plain_encode {}}, 3)
    local refused <const> = err ~= nil and err.code == "T0801"
    asked = asked + 1
    if refused == service.at_least(a.right, requests.policies[verb].right) then
      wrong[#wrong + 1] = ("policies %s as %s: %s"):format(verb, a.right, err and err.message or "an answer")
    end
  end
  local known = 0
  for _, actor in ipairs {"agent", "control", "runs", "run", "policies"} do
    for _ in pairs(requests[actor]) do known = known + 1 end
  end
  for _, role in ipairs {"read", "operate", "admin"} do
    local opened = ask("agent", agent, {op = "console.open", session = a.id .. role:byte(1), role = role})
    if role == "read" then session = opened end
  end
  if not session then wrong[#wrong + 1] = "no session of read" end
  -- who does not know a session's name, and has not opened it, is not answered
  if a.other then
    local answer, err = core.call(a.other, {op = "console.eval", id = 1, text = "1"}, 3)
    if answer or not (err.code == "T0801" or err.name == "EPERM") then
      wrong[#wrong + 1] = "another's session answers " .. a.right
    end
  end
  return {wrong = wrong, asked = asked, known = known, session = session and session.address}
end
]]
return {
  name = "version", brief = "a test", summary = "A test.",
  options = {{name = "cluster", type = "string", doc = "of the test"}},
  run = function(context)
    local endpoint = require("tide.cluster.client").resolve(context.options.cluster)
    local other
    local bad = 0
    for i, right in ipairs {"read", "operate", "admin"} do
      assert(core.node_start {client = true, join = endpoint, cluster = "rights", right = right, workers = 0,
                              no_store = true})
      local result = assert(core.node_run("return (function(...) " .. INSIDE .. " end)()(...)", "@matrix",
        {right = right, other = other, id = ("%x"):format(0xabc0 + i)}))
      core.node_stop(0)
      for _, line in ipairs(result.wrong) do print(line) end
      bad, other = bad + #result.wrong, other or result.session
      print(("%s: %d requests, %d known"):format(right, result.asked, result.known))
      -- all but up to three that would end the node are asked, and three sessions more are opened
      if result.asked < result.known then bad = bad + 1 end
    end
    return bad == 0 and 0 or 1
  end,
}
LUA
run 0 up --cluster rights -n 1
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/rights/pids"); do started+=("$pid"); done
cat >steps.lua <<'LUA'
local tide = require "tide"
local job = tide.job {name = "steps", batch = 8, policies = {batching = "batching/equal"}, worker = function(w)
  while not w:stopping() do
    tide.sleep(0.01)
    w:report {loss = 1, examples = w.batch, compute_s = 0.01}
  end
end}
tide.main(function()
  local cluster <close> = tide.cluster {}
  cluster:start(job):wait()
end)
LUA
"$TIDE" run --cluster rights steps.lua >steps.txt 2>&1 </dev/null &
started+=("$!")
has_policies() { "$TIDE" policy list --cluster rights >/dev/null 2>&1; }
wait_for 20 has_policies || cat steps.txt
TIDE_LUA_PATH="$work/lua" run 0 version --cluster rights
cat out.txt err.txt
says out.txt 'read: [0-9]+ requests'
says out.txt 'admin: [0-9]+ requests'
run 0 attach rights --role read -e 'nodes()'
run 4 attach rights --role read -e 'core.actors()'

# A table goes by the right admin alone. A tap shows what is in the messages to admin alone: among them are the lines that
# an admin types.
[ "$(cd "$root" && lua5.4 -e 'package.path = "lua/?.lua;" .. package.path
  package.loaded["tide.core"] = {} print(require "tide.requests".runs["table.drop"].right)')" = admin ] ||
    fail "a table is dropped by less than admin"
(while "$TIDE" nodes --cluster rights >/dev/null 2>&1; do sleep 0.2; done) &
started+=("$!")
run 0 attach rights --role read -e 'tap("n1/agent", {count = 1})'
says out.txt '\(contents: role admin\)$'
run 0 attach rights -e 'tap("n1/agent", {count = 1})'
says out.txt ' B  \{.*op'
run 4 attach rights --role read -e 'tap("n1/store", {count = 1, match = "find(text, \"x\")"})'
says err.txt 'T0801.*`text` of a tap needs role admin'

# Sessions below admin share 64 MiB on a node, and free them when they end. An endless line holds what it made until it is cancelled.
hold='local t = {} for i = 1, %d do t[i] = ("x"):rep(1000) .. i end'
holds() { [ "$("$TIDE" attach rights -e 'print(core.console_bytes() >> 20)' 2>/dev/null)" "$1" "$2" ]; }
"$TIDE" attach rights --role read --timeout 100s -e "$(printf "$hold" 53000) while true do end" >/dev/null 2>holder.txt &
holder=$!
started+=("$holder")
wait_for 20 holds -ge 57
refused() { "$TIDE" attach rights --role read -e '1 + 1' >out.txt 2>err.txt </dev/null; [ $? = 1 ]; }
wait_for 20 refused # what it holds rises and falls while it grows
says err.txt 'T0603.*sessions below admin on this node hold [0-9]+ of their 64 MiB: end one'
run 0 attach rights -e '1 + 1'
kill -INT "$holder"
wait_for 20 holds -lt 30
run 1 attach rights --role read -e "$(printf "$hold" 100000)"
says err.txt 'T0231.*sessions below admin \(64 MiB together\) is used up'
run 0 down rights -y
finish
