-- `tide completion SHELL`: completion scripts, written by argparse from the same declarations that parse.
local arguments = require "tide.cli.arguments"
local commands = require "tide.command"

local WRITERS <const> = {bash = "get_bash_complete", zsh = "get_zsh_complete", fish = "get_fish_complete"}

return {
  name = "completion",
  brief = "completion script for bash, zsh or fish",
  summary = "Prints a script that teaches a shell to complete commands and options of tide.",
  examples = {
    {"source <(tide completion bash)", "for this shell"},
    {"tide completion fish > ~/.config/fish/completions/tide.fish", "for every fish"},
  },
  arguments = {{name = "shell", choices = {"bash", "zsh", "fish"}, doc = "bash, zsh or fish"}},
  configured = false,
  schema = "tide.completion/1",
  run = function(context)
    local shell <const> = context.options.shell
    local tree <const> = arguments.tree((commands.all()))
    local script <const> = tree[WRITERS[shell]](tree)
    if context.json then
      context:record({shell = shell, script = script})
    else
      context.write_out(script)
    end
    return 0
  end,
}
