package.path = "tests/lua/?.lua;" .. package.path
local support = require "support"

local tide = support.tide
local decode = support.core.json_decode

describe("the configuration", function()
  local home
  before_each(function()
    support.reset()
    home = os.tmpname()
    os.remove(home)
    assert(os.execute("mkdir -p " .. home .. "/tide"))
  end)
  after_each(function() os.execute("rm -r " .. home) end)

  local function configure(content)
    local file <const> = assert(io.open(home .. "/tide/config.lua", "w"))
    file:write(content)
    file:close()
  end
  local function run(words, env)
    env = env or {}
    env.XDG_CONFIG_HOME = home
    return tide(words, {env = env})
  end
  local function explain(name, env) return decode(run("config --json --explain " .. name, env).out) end

  it("has defaults", function()
    local one = explain "nodes"
    assert.equal(2, one.value)
    assert.equal("default", one.from)
    assert.equal("nodes = 2\n  from default; type integer; default 2\n  node processes of a local cluster\n",
      run("config --explain nodes").out)
  end)

  it("takes flags before the environment before files", function()
    configure "return {\n  workers = 2,\n  nodes = 5,\n  timeout = '10m',\n}"
    assert.equal(5, explain("nodes").value)
    assert.equal(home .. "/tide/config.lua:3", explain("nodes").from)
    assert.equal(6, explain("nodes", {TIDE_NODES = "6"}).value)
    assert.equal("$TIDE_NODES", explain("nodes", {TIDE_NODES = "6"}).from)
    run("up", {TIDE_NODES = "6"})
    run("up -n 7", {TIDE_NODES = "6"})
    local calls <const> = support.cluster.calls
    assert.equal(6, calls[1][2].nodes)
    assert.equal(7, calls[2][2].nodes)
    assert.equal(2, calls[2][2].workers)
    assert.equal(600, calls[2][2].timeout_s)
  end)

  it("names unknown keys, wrong values and faulty files with their line", function()
    local function message(content)
      configure(content)
      local r = run "up"
      assert.equal(2, r.code)
      assert.equal("", r.out)
      assert.equal(0, #support.cluster.calls)
      return (r.err:gsub(home, "HOME"))
    end
    assert.truthy(message("return {\n  ndoes = 3}"):find(
      "error[T0111]: unknown key `ndoes`\n  --> HOME/tide/config.lua:2\n  |\n2 |   ndoes = 3}\n  |   ^^^^^\n"
      .. "help: did you mean `nodes`? more", 1, true))
    assert.truthy(message("return {nodes = 0}"):find("`nodes`: `0` is not from 1 to 256", 1, true))
    assert.truthy(message("return {nodes = true}"):find("a boolean is no integer", 1, true))
    assert.truthy(message("return {timeout = 'soon'}"):find("is not a duration", 1, true))
    assert.truthy(message("return {color = 'red'}"):find("not one of auto, always, never", 1, true))
    assert.truthy(message("return {"):find("config.lua:1", 1, true))
    assert.truthy(message("return 3"):find("returns a number, not a table", 1, true))
    assert.truthy(message("os.exit(9)"):find("`nil value`", 1, true) or message("os.exit(9)"):find("os", 1, true))
  end)

  it("does not run code that loops or eats memory, and leaves strings as they were", function()
    configure "while true do end"
    assert.truthy(run("up").err:find("takes too long", 1, true))
    configure "local s = 'x' for i = 1, 64 do s = s .. s end return {}"
    assert.truthy(run("up").err:find("too much memory", 1, true))
    configure "return {cluster = ('x'):rep(1e9)}"
    assert.equal(2, run("up").code)
    assert.equal("xx", ("x"):rep(2))
  end)

  it("refuses a bad environment variable by name", function()
    local r = run("up", {TIDE_WORKERS = "lots"})
    assert.equal(2, r.code)
    assert.truthy(r.err:find("error[T0111]: TIDE_WORKERS: `lots` is not a whole number", 1, true))
  end)

  it("does not stand in the way of help and version", function()
    configure "return {"
    assert.equal(0, run("version").code)
    assert.equal(0, run("help up").code)
    assert.equal(0, run("up --help").code)
  end)

  it("names the nearest setting", function()
    local r = run "config --explain worker"
    assert.equal(2, r.code)
    assert.truthy(r.err:find("did you mean `workers`?", 1, true))
  end)
end)
