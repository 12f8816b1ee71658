-- `tide completion SHELL`: completion scripts, written by argparse from the same declarations that parse.
local arguments = require "tide.cli.arguments"
local errors = require "tide.errors"
local text = require "tide.text"

local WRITERS <const> = {bash = "get_bash_complete", zsh = "get_zsh_complete", fish = "get_fish_complete"}

return {
  name = "completion",
  brief = "completion script for bash, zsh or fish",
  summary = "Prints a script that teaches a shell to complete commands and options of tide.",
  examples = {
    {"source <(tide completion bash)", "for this shell"},
    {"tide completion fish > ~/.config/fish/completions/tide.fish", "for every fish"},
  },
  arguments = {{name = "shell", doc = "bash, zsh or fish"}},
  configured = false,
  run = function(context)
    local shell <const> = context.options.shell
    if not WRITERS[shell] then
      return nil, errors.new("T0105", {
        message = ("`%s` is not one of bash, fish, zsh"):format(shell), help = text.did_you_mean(shell,
          {"bash", "fish", "zsh"}) or "give one of the three",
      })
    end
    local tree <const> = arguments.tree((require("tide.cli").commands()))
    local script <const> = tree[WRITERS[shell]](tree)
    if context.json then
      context:print(context.core.json_encode {schema = "tide.completion/1", shell = shell, script = script})
    else
      context.write_out(script)
    end
    return 0
  end,
}
