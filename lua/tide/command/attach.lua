-- `tide attach`: a console in a running cluster.
local arguments = require "tide.cli.arguments"
local cluster_view = require "tide.cluster.view"
local errors = require "tide.errors"
local roles = require "tide.console.roles"
local targets = require "tide.console.targets"

local EXPRESSION_S <const> = 30

-- The words behind the options: a cluster, targets, or both.
local function read_words(o)
  local cluster, where = o.cluster, nil
  for _, word in ipairs(o.words or {}) do
    if targets.is(word) then
      where = where and where .. "," .. word or word
    elseif cluster and cluster ~= word and o.named then
      return nil, nil, errors.new("T0104", {message = ("`%s`: a cluster is named already"):format(word),
        help = ("tide attach %s"):format(word)})
    else
      cluster, o.named = word, true
    end
  end
  return cluster, where
end

local function code_of(context)
  local o <const> = context.options
  if o.eval then return o.eval end
  if context.terminal.stdin and context.terminal.stdout then return nil end
  return io.stdin:read "a"
end

return {
  name = "attach",
  stays = function(options) return options.eval == nil end, -- there it is what an evaluation may take
  brief = "a console in a running cluster",
  summary = "Opens a Lua prompt in a running cluster; -e evaluates one line there. Never starts one.",
  examples = {
    {"tide attach", "the one cluster that runs"},
    {"tide attach lab -e '#core.actors()' @all", "on every node of `lab`"},
    {"tide attach --json -e 'nodes()'", "JSON, a line for each answer"},
    {"tide attach < script.lua", "a script, not on the terminal"},
    {"tide attach --role read", "a prompt that can only look"},
  },
  arguments = {{name = "words", many = true, optional = true,
                doc = "the cluster (name or endpoint), and targets: @all @role:worker @n3 @n[2-5] @job:mf "
                  .. "@actor:agent"}},
  options = {
    arguments.shared.cluster,
    {name = "eval", short = "e", type = "string", value = "CODE", doc = "evaluate this and end"},
    {name = "role", type = "string", choices = roles.NAMES, value = "ROLE",
     doc = "read: look; operate: swap shipped policies too; admin: any Lua (default: as much as your keys give)"},
  },
  run = function(context)
    local cluster, where, wrong = read_words(context.options)
    if wrong then return nil, wrong end
    context.options.cluster = cluster
    local code <const> = code_of(context)
    return cluster_view.attached(context, function()
      return require("tide.console.attach").run("inside", {
        code = code, targets = where, role = context.options.role or context.core.right(),
        json = context.json, width = context.terminal.width,
        utf8 = context.terminal.utf8, color = context:colored(code and "stderr" or "stdout"),
        interactive = code == nil, quiet = context.quiet,
        seconds = context.timeout_s or (code and EXPRESSION_S) or nil, limited = context.timeout_s ~= nil,
      })
    end)
  end,
}
