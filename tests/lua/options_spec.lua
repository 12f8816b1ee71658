package.path = "tests/lua/?.lua;" .. package.path
local support = require "support"
local options = require "tide.options"

local SPEC <const> = {
  data = {"ratings: user item value", type = "file", required = true},
  nodes = {"local node processes", default = 4},
  eps = {"step size", default = 0.01},
  ahead = {"move the next block early", default = true},
  verify = {"check each block", default = false},
  batch_size = {"rows of a batch", type = "size", default = "4KiB"},
  every = {"time between checkpoints", type = "duration", default = 30},
  mode = {"consistency", choices = {"bsp", "ssp", "async"}, default = "bsp"},
  layers = {"sizes of the layers", type = "list", of = "integer", default = {16, 8}},
  title = {"name of the run", type = "string"},
}

local function with(fields)
  local spec = {}
  for k, v in pairs(SPEC) do spec[k] = v end
  spec.data = nil
  for k, v in pairs(fields or {}) do spec[k] = v end
  return spec
end

local function parse(args, spec) return options.parse(spec or with(), args) end

describe("tide.options", function()
  it("fills in defaults, converted", function()
    local o = assert(parse {})
    assert.same({nodes = 4, eps = 0.01, ahead = true, verify = false, batch_size = 4096, every = 30, mode = "bsp",
                 layers = {16, 8}}, o)
  end)

  it("reads each type, with a blank or an equals sign", function()
    local o = assert(parse {"--nodes", "8", "--eps=1e-3", "--batch-size", "4MiB", "--every=5m", "--mode", "ssp",
      "--layers", "32, 16,8", "--title=a=b", "--verify", "--no-ahead"})
    assert.same({8, 0.001, 4 << 20, 300, "ssp", "a=b", true, false},
      {o.nodes, o.eps, o.batch_size, o.every, o.mode, o.title, o.verify, o.ahead})
    assert.same({32, 16, 8}, o.layers)
    assert.equal("float", math.type(parse({"--eps", "1"}).eps))
    assert.equal("integer", math.type(parse({"--nodes", "1"}).nodes))
  end)

  it("takes names with _ and -, negative numbers, and repeated lists", function()
    assert.equal(1024, parse({"--batch_size", "1KiB"}).batch_size)
    assert.equal(-0.5, parse({"--eps", "-0.5"}).eps)
    assert.same({1, 2, 3}, parse({"--layers", "1,2", "--layers", "3"}).layers)
    assert.is_false(parse({"--ahead=no"}).ahead)
    assert.same({16, 8}, SPEC.layers.default)
  end)

  it("refuses numbers out of bounds, of lists and of defaults too, and shows the bounds", function()
    local spec <const> = {n = {"nodes", default = 4, min = 1, max = 8}, lr = {"rate", default = 0.1, above = 0},
                          sizes = {"of layers", type = "list", of = "integer", min = 1},
                          every = {"time", type = "duration", min = 60, default = "2m"}}
    for args, fault in pairs {[{"--n", "0"}] = "--n: `0` is not from 1 to 8", [{"--n", "9"}] = "from 1 to 8",
                              [{"--lr", "0"}] = "`0` is not above 0", [{"--sizes", "3,0"}] = "`0` is not from 1 on",
                              [{"--every", "30s"}] = "`30s` is not from 1m 00s on",
                              [{"--lr", "1e999"}] = "not a number"} do
      local o, err = parse(args, spec)
      assert.is_nil(o)
      assert.equal("T0104", err.code)
      assert.matches(fault, err.message, 1, true)
    end
    assert.same({n = 8, lr = 1.0, every = 120}, parse({"--n", "8", "--lr", "1"}, spec))
    assert.matches("from 1 to 8; default 4", select(3, options.parse(spec, {"--help"})), 1, true)
    assert.has_error(function() parse({}, {n = {"nodes", default = 0, min = 1}}) end)
  end)

  it("refuses what is not of the type", function()
    local function code_of(args)
      local o, err = parse(args)
      assert.is_nil(o)
      assert.equal(2, require("tide.errors").exit(err))
      return err.code
    end
    for _, args in ipairs {{"--nodes", "4.5"}, {"--nodes", "four"}, {"--nodes", ""}, {"--eps", "nan"},
                           {"--eps", "x"}, {"--every", "3 weeks"}, {"--batch-size", "-1"}, {"--layers", "1,x"},
                           {"--ahead=maybe"}} do
      assert.equal("T0104", code_of(args), table.concat(args, " "))
    end
    assert.equal("T0105", code_of {"--mode", "strict"})
    assert.equal("T0103", code_of {"--nodes"})
    assert.equal("T0102", code_of {"--rank", "3"})
    assert.equal("T0102", code_of {"--no-nodes"})
    assert.equal("T0106", code_of {"--no-ahead=1"})
    assert.equal("T0106", code_of {"stray"})
    assert.equal("T0106", code_of {"--", "stray"})
    assert.equal("T0102", code_of {"-x"})
  end)

  it("names the nearest option", function()
    local _, err = parse {"--ndoes", "3"}
    assert.equal("the script has no option `--ndoes`", err.message)
    assert.equal("did you mean `--nodes`?", err.help)
    _, err = parse {"--no-ahed"}
    assert.equal("did you mean `--no-ahead`?", err.help)
    _, err = parse {"--mode", "bps"}
    assert.equal("--mode: `bps` is not one of bsp, ssp, async", err.message)
  end)

  it("checks files and directories", function()
    local path <const> = support.temporary("x")
    local spec <const> = {data = {"d", type = "file"}, out = {"o", type = "directory"}}
    assert.equal(path, options.parse(spec, {"--data", path}).data)
    assert.equal("/tmp", options.parse(spec, {"--out", "/tmp"}).out)
    local _, err = options.parse(spec, {"--data", "/nonexistent/u.data"})
    assert.equal("T0110", err.code)
    assert.equal("--data: cannot read `/nonexistent/u.data`: No such file or directory", err.message)
    _, err = options.parse(spec, {"--data", "/tmp"})
    assert.equal("--data: `/tmp` is a directory, not a file", err.message)
    _, err = options.parse(spec, {"--out", path})
    assert.equal("--out: `" .. path .. "` is a file, not a directory", err.message)
    os.remove(path)
  end)

  it("wants what is required", function()
    local _, err = options.parse(SPEC, {})
    assert.equal("T0103", err.code)
    assert.equal("option `--data FILE` is required", err.message)
  end)

  it("writes a help page of at most 80 columns from the declaration and the first comment", function()
    local o, err, page = options.parse(SPEC, {"--nodes", "x", "--help"}, {
      script = "mf.lua",
      source = "#!/usr/bin/tide\n-- Matrix factorisation by blocks.\n--   tide run mf.lua\n\nlocal x",
    })
    assert.is_nil(o)
    assert.is_nil(err)
    assert.equal([[
Matrix factorisation by blocks.
  tide run mf.lua

Usage: tide run mf.lua [options]
Example: tide run mf.lua --data FILE

Options of the script:
  --data FILE        ratings: user item value (required)
  --no-ahead         move the next block early (on by default)
  --batch-size SIZE  rows of a batch (default 4KiB)
  --eps NUMBER       step size (default 0.01)
  --every TIME       time between checkpoints (default 30)
  --layers A,B,..    sizes of the layers (default 16,8)
  --mode TEXT        consistency (one of bsp, ssp, async; default bsp)
  --nodes N          local node processes (default 4)
  --title TEXT       name of the run
  --verify           check each block
  -h, --help         this text]], page)
    for _, line in ipairs(support.lines(page)) do assert.is_true(#line <= 80) end
    local ok <const>, ended <const> = pcall(options.declare, SPEC, {"--help"})
    assert.same({false, "T0100", 0}, {ok, ended.code, ended.exit})
  end)

  it("wraps a script's description by paragraphs and keeps its examples apart", function()
    local long <const> = ("word "):rep(12)
    local comment <const> = {long, long, "  tide run x.lua          all of it",
                             "  tide run x.lua --data d        " .. long, "", "The end."}
    local source <const> = "-- " .. table.concat(comment, "\n-- ")
    local _, _, page = options.parse(SPEC, {"--help"}, {script = "x.lua", source = source})
    local lines <const> = support.lines(page)
    assert.equal(("word "):rep(15) .. "word", lines[1])
    assert.equal(("word "):rep(7) .. "word", lines[2])
    assert.equal("  tide run x.lua           all of it", lines[3])
    assert.equal("  tide run x.lua --data d", lines[4])
    assert.equal("      " .. ("word "):rep(11) .. "word", lines[5])
    assert.same({"", "The end.", ""}, table.move(lines, 6, 8, 1, {}))
  end)

  it("raises the page as an error of exit code 0 from declare", function()
    local ok, err = pcall(options.declare, SPEC, {"-h"}, {})
    assert.is_false(ok)
    assert.equal(0, err.exit)
    assert.truthy(err.page:find("^Usage: "))
    ok, err = pcall(options.declare, SPEC, {"--x"}, {})
    assert.is_false(ok)
    assert.equal("T0102", err.code)
    assert.equal(4, options.declare(with(), {}).nodes)
  end)

  it("refuses a faulty declaration", function()
    local function faulty(spec)
      local ok, err = pcall(options.parse, spec, {})
      assert.is_false(ok)
      assert.equal("T0108", err.code)
      return err.message
    end
    assert.equal("option `n`: unknown field `defualt`; did you mean `default`?", faulty {n = {"x", defualt = 3}})
    assert.equal("option `n`: unknown type `intger`; the types are boolean, directory, duration, file, integer, list, "
      .. "number, size, string", faulty {n = {"x", type = "intger"}})
    assert.truthy(faulty({n = "x"}):find("requires a table", 1, true))
    assert.truthy(faulty({[1] = {"x"}}):find("a name is a word", 1, true))
    assert.truthy(faulty({help = {"x"}}):find("taken", 1, true))
    assert.truthy(faulty({n = {"x", required = true, default = 1}}):find("required and has a default", 1, true))
    assert.truthy(faulty({n = {"x", type = "duration", default = "soon"}}):find("its default", 1, true))
    assert.truthy(faulty({n = {"x", choices = "a"}}):find("`choices` is a string, not a table", 1, true))
    assert.equal("T0108", select(2, pcall(options.parse, nil, {})).code)
  end)
end)
