package.path = "tests/lua/?.lua;" .. package.path
local support = require "support"
local arguments = require "tide.cli.arguments"
local commands = require "tide.command"
local errors = require "tide.errors"

local tide, core = support.tide, support.core
local decode = core.json_decode

-- A line of words with which each command does its work under the fake cluster.
local WORK <const> = {
  policy = "policy new batching",
  run = "run %s", sim = "sim --seed 1 %s", up = "up",
  down = "down -y", node = "node --join unix:/x", status = "status", nodes = "nodes",
  actors = "actors", tables = "tables", table = "table show factors", links = "links", why = "why n1/agent",
  stack = "stack n1/agent",
  events = "events", move = "move t 0-3 n1 --dry-run",
  checkpoint = "checkpoint list ckpt", config = "config", version = "version", help = "help",
  completion = "completion bash", attach = "attach -e 1+1", repl = "repl", tap = "tap n1/store",
  trace = "trace out.json",
  stat = "stat --count 1", top = "top", submit = "submit %s", jobs = "jobs", job = "job show mf-1",
  dashboard = "dashboard", keys = "keys show", drain = "drain n1 --dry-run", launch = "launch none --dry-run",
  new = "new package words", metrics = "metrics", runs = "runs", log = "log", doctor = "doctor", audit = "audit show",
  models = "models", shares = "shares", accounts = "accounts",
}
-- What these do needs a node, a terminal, or certificates: tests/cluster/test_console.sh, test_trace.sh, test_jobs.sh,
-- test_leaving.sh, test_launchers.sh, test_several_machines.sh, test_metrics.sh, test_history.sh, test_operations.sh,
-- test_dashboard.sh, test_audit.sh, test_packages.sh, test_persons.sh, test_kept.sh.
local ELSEWHERE <const> = {attach = true, repl = true, tap = true, trace = true, submit = true, jobs = true, job = true,
                          keys = true, drain = true, launch = true, metrics = true, runs = true, log = true,
                          doctor = true, dashboard = true, audit = true, stack = true, new = true, shares = true,
                          accounts = true, models = true}
local LATER <const> = {"bench"}

describe("tide", function()
  local script

  before_each(function()
    support.reset()
    script = support.temporary("-- does nothing\n", ".lua")
  end)
  after_each(function() os.remove(script) end)

  local function unless(elsewhere, title, f)
    if not elsewhere then it(title, f) end
  end
  local function work(name) return WORK[name]:format(script) end

  for _, name in ipairs(commands.names) do
    describe(name, function()
      it("has help of at most 80 columns with an example, on stdout", function()
        for _, line in ipairs {name .. " --help", "--help " .. name, name .. " -h", "help " .. name} do
          local r = tide(line)
          assert.equal(0, r.code)
          assert.equal("", r.err)
          assert.truthy(r.out:find("\n  tide ", 1, true) or r.out:find("tide completion", 1, true))
          assert.truthy(r.out:find("Usage: tide " .. name, 1, true))
          for _, printed in ipairs(support.lines(r.out)) do
            assert.is_true((utf8.len(printed)) <= 80, printed)
          end
        end
      end)

      unless(ELSEWHERE[name], "works, with nothing but data on stdout", function()
        local r = tide(work(name))
        assert.equal(0, r.code, r.err)
        assert.is_nil(r.out:find("\27", 1, true))
      end)

      unless(ELSEWHERE[name], "prints JSON objects with a schema under --json", function()
        local scripted = name == "run" or name == "sim"
        local words = scripted and work(name):gsub(" ", " --json ", 1) or work(name) .. " --json"
        local r = tide(words)
        assert.equal(0, r.code, r.err)
        assert.equal("", r.err)
        for _, line in ipairs(support.lines(r.out)) do
          local object, err = decode(line)
          assert.is_nil(err)
          assert.truthy(object.schema:find("^tide%.[a-z]+/1$"))
        end
        if name ~= "run" and name ~= "node" then assert.is_true(#r.out > 0) end
      end)

      unless(ELSEWHERE[name], "prints no header and no colour under --plain", function()
        local words = name == "run" and "run --plain " .. script or work(name) .. " --plain"
        local r = tide(words)
        assert.equal(0, r.code, r.err)
        assert.is_nil(r.out:find("\27", 1, true))
      end)

      it("refuses an unknown flag with exit 2 and nothing on stdout", function()
        local r = tide(name .. " --bogus-flag")
        assert.equal(2, r.code)
        assert.equal("", r.out)
        assert.truthy(r.err:find("error[T0102]: `tide " .. name .. "` has no option `--bogus-flag`", 1, true))
        assert.truthy(r.err:find("help:", 1, true))
      end)

      it("reports an unknown flag as JSON on stderr under --json", function()
        local r = tide(name .. " --json --bogus-flag")
        assert.equal(2, r.code)
        assert.equal("", r.out)
        local object = decode(r.err)
        assert.equal("tide.error/1", object.schema)
        assert.equal("T0102", object.code)
        assert.equal(2, object.exit)
      end)

      it("names the nearest flag of a mistyped one", function()
        local r = tide(name .. " --tiemout 3s")
        assert.equal(2, r.code)
        assert.truthy(r.err:find("did you mean `--timeout`?", 1, true))
      end)

      it("is named when it is mistyped", function()
        local typo = name:sub(1, -3) .. name:sub(-1) .. name:sub(-2, -2)
        if name == "up" then typo = "upp" end
        local r = tide(typo)
        assert.equal(2, r.code)
        assert.equal("", r.out)
        assert.truthy(r.err:find("error[T0101]: `" .. typo .. "` is no command", 1, true))
        assert.truthy(r.err:find("`" .. name .. "`", 1, true), r.err)
      end)

      it("refuses a time-out that is none", function()
        local r = tide("--timeout soon " .. work(name))
        assert.equal(2, r.code)
        assert.truthy(r.err:find("T0104", 1, true))
      end)
    end)
  end

  it("without words prints eleven lines with three examples to stderr and exits with 2", function()
    local r = tide {}
    assert.equal(2, r.code)
    assert.equal("", r.out)
    assert.equal(11, #support.lines(r.err))
    local _, examples = r.err:gsub("\n  tide ", "")
    assert.equal(3, examples)
  end)

  it("prints the overview for --help and help, with every command", function()
    local r = tide "--help"
    assert.equal(0, r.code)
    assert.equal(r.out, tide("help").out)
    for _, name in ipairs(commands.names) do assert.truthy(r.out:find("\n  " .. name .. " ", 1, true)) end
    for _, line in ipairs(support.lines(r.out)) do assert.is_true(utf8.len(line) <= 80, line) end
  end)

  it("does not know the commands of later releases", function()
    for _, name in ipairs(LATER) do
      local r = tide(name)
      assert.equal(2, r.code)
      assert.truthy(r.err:find("T0101", 1, true))
      assert.is_nil(tide("--help").out:find("\n  " .. name .. " ", 1, true))
    end
  end)

  it("prints the version for -V, --version and version", function()
    assert.equal("tide 0.1.0\n", tide("-V").out)
    assert.equal("tide 0.1.0\n", tide("--version").out)
    assert.equal("tide 0.1.0\n", tide("version").out)
  end)

  it("lists the build's parts in version --json and -v", function()
    local object = decode(tide("version --json").out)
    assert.same({available = false, reason = "not built"}, object.cuda)
    local text <const> = tide("version -v").out
    assert.truthy(text:find("cuda.reason +not built"))
    assert.truthy(text:find("limit.net_ack_delay +20 ms"))
  end)

  it("names a missing command and a wrong flag before it", function()
    assert.equal(2, tide("-q").code)
    assert.truthy(tide("-q").err:find("T0103", 1, true))
    assert.truthy(tide("--bogus status").err:find("T0102", 1, true))
    assert.truthy(tide("--jsn status").err:find("did you mean `--json`?", 1, true))
  end)

  it("says that a command does not take a global option", function()
    local r = tide "--cluster x version"
    assert.equal(2, r.code)
    assert.truthy(r.err:find("it does not use a running cluster", 1, true))
  end)

  it("has a row that says what --json prints for each command", function()
    local silent <const> = {run = true, repl = true, attach = true, node = true, tap = true, metrics = true,
                            launch = true}
    for _, command in ipairs((commands.all())) do
      local rows = {command}
      for i, verb in ipairs(command.verbs or {}) do rows[i] = arguments.verb(command, verb) end
      for _, row in ipairs(rows) do
        assert.equal(not silent[command.name], type(row.schema) == "string", row.name)
        assert.equal(row.verbs == nil, row.run ~= nil, row.name)
      end
    end
  end)

  describe("verbs", function()
    local function refused(words, code, message, help)
      local r = tide(words)
      assert.equal(2, r.code, words)
      assert.equal("", r.out)
      assert.truthy(r.err:find(("error[%s]: %s"):format(code, message), 1, true), r.err)
      assert.truthy(r.err:find(help, 1, true), r.err)
    end

    it("are checked as their rows say", function()
      refused("job", "T0103", "`tide job`: a verb is missing", "there are show, logs")
      refused("job pausee mf-1", "T0105", "`tide job` has no verb `pausee`", "did you mean `pause`?")
      refused("runs lits", "T0105", "`tide runs` has no verb `lits`", "did you mean `list`?")
      refused("job show", "T0103", "`tide job show`: missing argument `name`", "tide job show --help")
      refused("job show a b", "T0106", "`tide job show`: too many arguments", "tide job show --help")
      refused("job set mf-1", "T0103", "`tide job set`: missing argument `params`", "tide job set --help")
      refused("runs compare a", "T0103", "`tide runs compare`: argument `runs` requires at least 2", "--help")
      refused("job workers mf-1 many", "T0104", "COUNT: `many` is not a whole number", "tide help T0104")
      refused("job stop mf-1 --release", "T0102", "`tide job stop` has no option `--release`: it is for pause",
        "--help")
      refused("job show mf-1 --relaese", "T0102", "`tide job show` has no option `--relaese`", "--help")
    end)

    it("have pages, and are lines of their command's page", function()
      local r = tide "job pause --help"
      assert.truthy(r.out:find("Usage: tide job pause [options] NAME", 1, true))
      assert.truthy(r.out:find("--release", 1, true))
      assert.is_nil(r.out:find("--within", 1, true))
      local page <const> = tide("help job").out
      assert.truthy(page:find("\n  set NAME PARAMS..", 1, true))
      assert.truthy(page:find("pause: the workers leave", 1, true))
      assert.truthy(page:find("--json: objects of tide.job/1", 1, true))
      assert.truthy(tide("help job --format man").out:find("pause NAME", 1, true))
      assert.truthy(tide("completion bash").out:find("forecast", 1, true))
    end)

    it("and options and what is printed are data", function()
      local row = decode(tide("help job --json").out).command
      assert.equal("tide.job/1", row.schema)
      local verbs = {}
      for _, verb in ipairs(row.verbs) do verbs[verb.name] = verb end
      assert.equal("integer", verbs.workers.arguments[2].type)
      assert.equal("tide.forecast/1", verbs.forecast.schema)
      assert.truthy(decode(tide("help nodes --json").out).command.prints:find("rss_bytes", 1, true))
    end)

    it("are told to what carries them out", function()
      local object = decode(tide("checkpoint save ckpt --dry-run --json").out)
      assert.equal("save", object.action)
      local asked
      support.reset()
      support.cluster.run = function(_, request)
        asked = request.verb
        return nil, {message = "enough"}
      end
      tide "policy history scheduling"
      assert.equal("history", asked)
    end)

    it("stand behind options too, and a command may do without", function()
      assert.equal(0, tide("checkpoint --generation 1 verify ckpt").code)
      assert.equal(tide("runs --dir /nowhere").err, tide("runs --dir /nowhere list").err)
    end)
  end)

  it("colours errors only where colour is wanted", function()
    assert.is_nil(tide("bogus").err:find("\27", 1, true))
    assert.truthy(tide("status --color always --watch x").err)
    core.terminal_is.stderr = true
    assert.truthy(tide("bogus").err:find("\27[1;31m", 1, true))
    assert.is_nil(tide("bogus", {env = {NO_COLOR = "1"}}).err:find("\27", 1, true))
    assert.is_nil(tide("bogus", {env = {TERM = "dumb"}}).err:find("\27", 1, true))
  end)

  describe("run", function()
    it("gives the words behind the script to the script", function()
      local r = tide("run --timeout 2m -w 2 " .. script .. " --json --nodes 4 -h -- x")
      assert.equal(0, r.code, r.err)
      local call = support.cluster.calls[1]
      assert.equal("run", call[1])
      assert.same({"--json", "--nodes", "4", "-h", "--", "x"}, call[2].args)
      assert.equal(script, call[2].script)
      assert.equal(120, call[2].timeout_s)
      assert.equal(2, call[2].workers)
      assert.is_nil(call[2].nodes)
      assert.is_false(call[2].json)
    end)

    it("is meant by the path of a script, with our options before it", function()
      local r = tide("-q --json " .. script .. " --rank 3")
      assert.equal(0, r.code, r.err)
      local o = support.cluster.calls[1][2]
      assert.same({"--rank", "3"}, o.args)
      assert.is_true(o.quiet)
      assert.is_true(o.json)
    end)

    it("takes a script behind --", function()
      assert.equal(0, tide("run -- " .. script .. " --a").code)
      assert.same({"--a"}, support.cluster.calls[1][2].args)
      assert.equal(0, tide("-- " .. script .. " --a").code)
    end)

    it("says that a script does not exist", function()
      local r = tide "/nonexistent/x.lua"
      assert.equal(2, r.code)
      assert.truthy(r.err:find("error[T0205]: cannot read `/nonexistent/x.lua`: No such file or directory", 1, true))
      assert.truthy(tide("run /").err:find("T0205", 1, true))
    end)

    it("wants a script", function() assert.truthy(tide("run").err:find("T0103", 1, true)) end)

    it("returns the driver's exit code", function()
      package.loaded["tide.run.driver"].run = function() return 5 end
      assert.equal(5, tide(script).code)
    end)

    it("prints a fault of our own as T1099, with the calls under -v", function()
      package.loaded["tide.run.driver"].run = function() error("oops") end
      local r = tide("-v " .. script)
      assert.equal(1, r.code)
      assert.truthy(r.err:find("error[T1099]", 1, true))
      assert.truthy(r.err:find("stack traceback", 1, true))
      assert.is_nil(tide(script).err:find("stack traceback", 1, true))
    end)
  end)

  describe("up", function()
    it("means nodes by its -n and a dry run by a leading -n", function()
      assert.equal(0, tide("up -n 3").code)
      assert.equal(3, support.cluster.calls[1][2].nodes)
      local r = tide "-n up --nodes 3"
      assert.truthy(r.out:find("would start cluster `local`: a controller and 3 nodes", 1, true))
      assert.equal(1, #support.cluster.calls)
    end)

    it("refuses numbers that are none or out of bounds", function()
      assert.equal(2, tide("up -n 0").code)
      assert.equal(2, tide("up -n many").code)
      assert.equal(2, tide("up -n 257").code)
      assert.truthy(tide("up -n").err:find("T0103", 1, true))
      assert.truthy(tide("up --json=1").err:find("T0106", 1, true))
    end)

    it("passes on why it failed", function()
      support.cluster.up = function() return nil, errors.new("T1002", "cluster `local` runs already") end
      local r = tide "up"
      assert.equal(1, r.code)
      assert.truthy(r.err:find("error[T1002]: cluster `local` runs already", 1, true))
    end)
  end)

  describe("down", function()
    it("wants -y where nobody can be asked", function()
      local r = tide "down"
      assert.equal(2, r.code)
      assert.truthy(r.err:find("error[T0109]", 1, true))
      assert.equal(0, #support.cluster.calls)
    end)

    it("asks on a terminal and takes no for an answer", function()
      core.terminal_is.stdin = true
      assert.equal(2, tide("down", {answer = ""}).code)
      assert.equal(2, tide("down", {answer = nil}).code)
      assert.equal(0, #support.cluster.calls)
      assert.equal(0, tide("down lab", {answer = "y"}).code)
      assert.equal("lab", support.cluster.calls[1][2].cluster)
    end)

    it("takes a name, not a path or an endpoint", function()
      for _, name in ipairs {"../x", "unix:/x", "A B", "--"} do
        local r = tide {"down", "-y", "--cluster=" .. name}
        assert.equal(2, r.code)
        assert.truthy(r.err:find("T0113", 1, true))
      end
      assert.equal(0, #support.cluster.calls)
    end)

    it("only says what it would do under --dry-run", function()
      assert.equal("would end cluster `lab`\n", tide("down -n lab").out)
      support.cluster.runs = function()
        return {{name = "mf-1", state = "running"}, {name = "mf-2", state = "queued"}}
      end
      assert.equal("would end cluster `lab` with mf-1 (running), mf-2 (queued)\n", tide("down -n lab").out)
      support.cluster.runs = function() return nil, errors.new("T0501", "no answer") end
      assert.truthy(tide("down lab").err:find("does not say what runs there (no answer)", 1, true))
      assert.equal(0, #support.cluster.calls)
    end)

    it("exits with 3 when no such cluster runs", function()
      support.cluster.started = function() return nil, errors.new("T1003", "no cluster `x` runs") end
      for _, line in ipairs {"down x -y", "down x", "down x -n"} do assert.equal(3, tide(line).code) end
      assert.equal(0, #support.cluster.calls)
    end)
  end)

  describe("node", function()
    it("passes its options on", function()
      local r = tide "node --controller --nodes 3 --node-workers 2 --cluster lab --no-store --grace 2s --workers 0"
      assert.equal(0, r.code, r.err)
      local o = support.cluster.calls[1][2]
      assert.same({true, 3, 2, "lab", true, 2.0, 0},
        {o.controller, o.nodes, o.node_workers, o.cluster, o.no_store, o.grace_s, o.workers})
    end)

    it("refuses --state where nothing would come of it", function()
      assert.truthy(tide("node --state s").err:find("add --controller or --controllers", 1, true))
      assert.truthy(tide("node --controller --state s --nodes 2").err:find("T0107", 1, true))
    end)
    it("refuses --controller with --join", function()
      assert.truthy(tide("node --controller --join unix:/x").err:find("T0107", 1, true))
    end)
  end)

  describe("commands that look at a cluster", function()
    local names <const> = {"status", "nodes", "actors", "tables", "links"}

    it("exit with 3 when it is unreachable, and print nothing to stdout", function()
      support.cluster.attach = function() return nil, {name = "EUNREACHABLE", message = "no cluster `x` runs here"} end
      for _, name in ipairs(names) do
        for _, form in ipairs {"", " --json", " --plain"} do
          local r = tide(name .. " --cluster x" .. form)
          assert.equal(3, r.code)
          assert.equal("", r.out)
          assert.truthy(r.err:find("T0501", 1, true))
        end
      end
    end)

    it("exit with 124 when --timeout passed, with 3 without it", function()
      support.cluster.attach = function() return nil, {name = "ETIMEDOUT", message = "no answer"} end
      assert.equal(124, tide("status --timeout 1s").code)
      assert.equal(3, tide("status").code)
    end)

    it("exit with 130 after Ctrl-C", function()
      support.cluster.gather = function()
        core.interrupts = 1
        return nil, {name = "ECANCELED", message = "cancelled"}
      end
      local r = tide "nodes"
      assert.equal(130, r.code)
      assert.truthy(r.err:find("T0210", 1, true))
    end)

    it("exit with 4 when refused", function()
      support.cluster.attach = function() return nil, {name = "EPERM", message = "no"} end
      assert.equal(4, tide("nodes").code)
    end)

    it("leave the cluster, also after an error", function()
      for i, name in ipairs(names) do
        tide(name)
        assert.equal(i, core.stopped)
      end
      support.cluster.gather = function() error("broken") end
      tide "nodes"
      assert.equal(#names + 1, core.stopped)
    end)

    it("use the cluster of the flag, else of the environment", function()
      tide("status --cluster a", {env = {TIDE_CLUSTER = "b"}})
      assert.equal("a", support.cluster.calls[1][2].cluster)
      tide("status", {env = {TIDE_CLUSTER = "b"}})
      assert.equal("b", support.cluster.calls[3][2].cluster)
    end)

    it("print the whole status as one object", function()
      local object = decode(tide("status --json").out)
      assert.equal("tide.status/1", object.schema)
      assert.equal("local", object.cluster)
      assert.equal(7, object.view)
      assert.equal(3, #object.nodes)
      assert.equal("factors", object.tables[1].name)
      assert.equal(0.99, object.tables[1].local_share)
    end)

    it("print empty lists as lists", function()
      support.cluster.gather = function() return {} end
      core.members_are = {}
      assert.truthy(tide("status --json").out:find('"tables":[]', 1, true))
      local r = tide "nodes --json"
      assert.equal(0, r.code)
      assert.equal("", r.out)
    end)

    it("print tables for people", function()
      local lines = support.lines(tide("tables").out)
      assert.equal("name     node  width   rows   memory  pulls  remote  pushes  remote  local  wire out", lines[1])
      assert.equal("factors  -        64  1.68k  420 KiB    990      10       0       0  99.0%   2.5 KiB", lines[2])
    end)

    it("show a table with its moves and hot keys", function()
      local svg
      core.file_write = function(path, what)
        svg = path == "chart.svg" and what
        return true
      end
      local r = tide "table show factors --top 2 --svg chart.svg"
      assert.equal("", r.err)
      assert.truthy(r.out:find("\nn1 +99.0%%"))
      assert.truthy(r.out:find("\n +7 +576 +22.5%% +448 +128 +n1 44 %%, n3 56 %%"))
      assert.truthy(r.out:find("\n +9 "))
      assert.truthy(svg:find("Accesses to factors", 1, true))
      local object = decode(tide("table show factors --json").out)
      assert.equal("tide.staleness/1", object.schema)
      assert.equal(7, object.hottest[1].key)
      r = tide "table show factor"
      assert.truthy(r.code ~= 0 and r.err:find("factors", 1, true))
      assert.truthy(tide("table copy factors").err:find("T0105", 1, true))
    end)

    it("print a node that did not answer", function()
      local out = tide("nodes").out
      assert.truthy(out:find("n2%s+3%s+dead"))
    end)

    it("select and sort", function()
      local r = tide {"actors", "--where", "mailbox_messages > 0", "--plain"}
      assert.equal("2:9\tn1\t\tworker\tpull factors\t0.02\t3\t2048\t5\t1e-08\t\n", r.out)
      local first = decode(support.lines(tide({"actors", "--sort", "waits_s", "--json"}).out)[1])
      assert.equal("2:1", first.address)
      first = decode(support.lines(tide({"actors", "--sort", "waits_s", "--reverse", "--json"}).out)[1])
      assert.equal("2:9", first.address)
    end)

    it("name a field that does not exist", function()
      local r = tide {"nodes", "--where", "stat == 'up'"}
      assert.equal(2, r.code)
      assert.truthy(r.err:find("no field `stat`; did you mean `state`?", 1, true))
      assert.truthy(tide("nodes --sort pdi").err:find("did you mean `pid`?", 1, true))
      assert.truthy(tide({"nodes", "--where", "id =="}).err:find("T0114", 1, true))
    end)

    it("print again under --watch until --timeout", function()
      local r = tide "links --plain --watch 1s --timeout 3s"
      assert.equal(124, r.code)
      assert.equal(3, #support.lines(r.out))
    end)

    it("let no name move the cursor", function()
      core.members_are[2].name = "\27[2J<img src=x>\u{202e}"
      for _, form in ipairs {"nodes", "nodes --plain", "status", "status --plain"} do
        local out = tide(form).out
        assert.is_nil(out:find("\27", 1, true))
        assert.truthy(out:find("\\x1b[2J<img src=x>?", 1, true), out)
      end
    end)
  end)

  describe("help", function()
    it("explains every catalogued code in at most 80 columns", function()
      for code in pairs(errors.catalogue) do
        local r = tide("help " .. code:lower())
        assert.equal(0, r.code)
        assert.truthy(r.out:find(code, 1, true))
        for _, line in ipairs(support.lines(r.out)) do assert.is_true(utf8.len(line) <= 80, line) end
      end
    end)

    it("has the topics that it lists, in at most 80 columns with an example", function()
      for _, topic in ipairs {"errors", "kernels", "exit-codes", "units", "output", "config"} do
        local r = tide("help " .. topic)
        assert.equal(0, r.code)
        assert.truthy(r.out:find("tide ", 1, true))
        for _, line in ipairs(support.lines(r.out)) do assert.is_true(utf8.len(line) <= 80, line) end
      end
    end)

    it("names the nearest topic", function()
      local r = tide "help statsu"
      assert.equal(2, r.code)
      assert.truthy(r.err:find("error[T0112]: no help on `statsu`\nhelp: did you mean `status`", 1, true))
      assert.truthy(tide("help T0599").err:find("T05.. is about cluster and links", 1, true))
    end)

    it("lists the kernels of the build and their arguments", function()
      assert.truthy(tide("help kernels").out:find("\n  add_rows  Adds rows.", 1, true))
      local page <const> = tide("help add_rows").out
      assert.truthy(page:find("\n  rows TABLE    the table\n", 1, true))
      assert.truthy(page:find("\n  scale NUMBER  of each (default 0.5)\n", 1, true))
      assert.truthy(page:find("\n  at U64        which (optional)\n", 1, true))
      assert.truthy(tide("help add_row").err:find("did you mean `add_rows`", 1, true))
    end)

    it("gives an error's fields under --json", function()
      local object = decode(tide("help T0501 --json").out)
      assert.equal("EUNREACHABLE", object.name)
      assert.equal(3, object.exit)
    end)
  end)

  describe("completion", function()
    it("knows all commands in each shell", function()
      for _, shell in ipairs {"bash", "zsh", "fish"} do
        local r = tide("completion " .. shell)
        assert.equal(0, r.code, r.err)
        for _, name in ipairs(commands.names) do assert.truthy(r.out:find(name, 1, true)) end
        assert.truthy(r.out:find("no-store", 1, true))
      end
    end)

    it("names its shells", function()
      local r = tide "completion bahs"
      assert.equal(2, r.code)
      assert.truthy(r.err:find("error[T0105]", 1, true))
    end)
  end)

  it("ends quietly with 141 when the reader of stdout goes away", function()
    local runner <const> = support.temporary([[
      package.path = "lua/?.lua;lua/?/init.lua;tests/lua/?.lua;" .. package.path
      package.loaded["tide.core"] = require "fake_core"
      os.exit(require("tide.command").main {"version"})
    ]], ".lua")
    local pipe <const> = io.popen(("trap '' PIPE; { sleep 0.1; lua5.4 %s; echo $? >%s.code; } 2>&1 | true; cat %s.code")
      :format(runner, runner, runner))
    local printed <const> = pipe:read("a")
    pipe:close()
    os.remove(runner)
    os.remove(runner .. ".code")
    assert.equal("141\n", printed)
  end)
end)
