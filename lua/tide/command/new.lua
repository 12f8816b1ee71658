-- `tide new`: the files of a package to begin with.
local errors = require "tide.errors"

-- Of a package NAME; $ stands for the name.
local FILES <const> = {
  {"$/init.lua", [[
-- $: sums of squares by a kernel of its own. Put what the package is for in its place.
local package = require "tide.package"
local tensor = require "tide.tensor"
local tide = require "tide"

local kernels <const> = tide.kernel.load "$/$.so"

local $ = {}

---A job that adds up the squares of 1 .. count.
---@param o {name: string, count: integer}
---@return tide.job
function $.job(o)
  package.check_fields("T0203", "$.job", o, {name = true, count = true})
  if math.type(o.count) ~= "integer" or o.count < 1 then
    package.fail "$.job: `count` is a whole number from 1"
  end
  return tide.job {
    name = o.name,
    tables = {sum = tide.table {keys = tide.dense(1), width = 1, update = "add"}},
    worker = function(w)
      local own = {}
      for i = w.rank, o.count, w.workers do own[#own + 1] = i end
      local found <const> = kernels.$_squares {values = tensor.from("f32", own)}
      w.tables.sum:push({0}, tensor.from("f32", {found.sum}))
      w:barrier "all have pushed"
      w:report {examples = #own}
    end,
  }
end

---The sum that a run found.
---@param run tide.run
---@return number
function $.sum(run) return run.tables.sum:pull({0})[1] end

return $
]]},
  {"$/$.c", [[
/* The kernels of the package $: see tide/kernel.h. */
#include <tide/kernel.h>

enum { VALUES };
static const struct tide_parameter parameters[] = {
    [VALUES] = {"values", TIDE_TENSOR, TIDE_F32, true, 0, "f32, any shape"},
};

static int squares(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    const struct tide_tensor *t = &arguments[VALUES].tensor;
    const float *values = t->data;
    double sum = 0;
    (void)error;
    for (size_t i = 0; i < t->rows * t->columns; i++) {
        sum += (double)values[i] * (double)values[i];
    }
    results[0] = (struct tide_result){"sum", sum};
    return 1;
}

static const struct tide_kernel kernels[] = {
    {"$_squares", "Adds up squares.", parameters, TIDE_COUNT(parameters), squares},
};

const struct tide_kernel_module *tide_kernel_module(const struct tide_kernel_host *host) {
    static const struct tide_kernel_module module = {
        .abi = TIDE_KERNEL_ABI, .version = "1", .kernels = kernels, .kernel_count = TIDE_COUNT(kernels)};
    (void)host;
    return &module;
}
]]},
  {"test.lua", [[
-- The test of $: make test
local tide = require "tide"
local $ = require "$"

local job = $.job {name = "squares", count = 10}

tide.main(function()
  local ok, err = pcall($.job, {name = "wrong", cuont = 10})
  assert(not ok and tostring(err):find("cuont", 1, true), "a misspelt field is accepted")
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  run:wait()
  assert($.sum(run) == 385, ("the sum is %g, not 385"):format($.sum(run)))
  print "ok"
end)
]]},
  {"Makefile", [[
# make: builds the kernels; make test: runs test.lua on two processes, and in the simulator.
TIDE ?= tide
CFLAGS ?= -O3 -Wall -Wextra
TIDE_CFLAGS ?= $(shell pkg-config --cflags tide)

$/$.so: $/$.c
	$(CC) $(CFLAGS) $(TIDE_CFLAGS) -shared -fPIC $< -o $@

test: $/$.so
	$(TIDE) run test.lua
	$(TIDE) sim test.lua

.PHONY: test
]]},
}

---@return string
local function filled(text, name) return (text:gsub("%$([^(<@])", name .. "%1")) end

return {
  name = "new",
  brief = "the files of a new package",
  summary = "Makes a directory with a package that has a kernel in C and a test: `cd NAME && make test`.",
  examples = {
    {"tide new package words", "words/ with words/init.lua, words/words.c, test.lua, Makefile"},
  },
  arguments = {
    {name = "what", doc = "package"},
    {name = "name", doc = "of the package: small letters, digits and _"},
  },
  configured = false,
  run = function(context)
    local o <const>, core <const> = context.options, context.core
    if o.what ~= "package" then
      return nil, errors.new("T0105", {message = ("`%s` is not package"):format(o.what)})
    end
    if not o.name:find "^[a-z][a-z0-9_]*$" or #o.name > 40 then
      return nil, errors.new("T0105", {message = ("`%s` is no name of a package"):format(o.name),
        help = "a name has small letters, digits and _, and begins with a letter"})
    end
    if core.file_list(o.name) then
      return nil, errors.new("T0105", {message = ("`%s` is there already"):format(o.name),
        help = "give another name, or move the directory away"})
    end
    local ok, err = core.mkdir(("%s/%s"):format(o.name, o.name))
    local paths <const> = {}
    for _, file in ipairs(FILES) do
      paths[#paths + 1] = ("%s/%s"):format(o.name, filled(file[1] .. " ", o.name):sub(1, -2))
      if ok then ok, err = core.file_write(paths[#paths], filled(file[2], o.name)) end
    end
    if not ok then return nil, errors.from(err) end
    return context:tell("tide.new/1", {name = o.name, files = paths},
      ("%s\nnext: cd %s && make test"):format(table.concat(paths, "\n"), o.name))
  end,
}
