-- `tide help [TOPIC|CODE|KERNEL|NAME]`.
local arguments = require "tide.cli.arguments"
local commands = require "tide.command"
local errors = require "tide.errors"
local man = require "tide.cli.man"
local usage = require "tide.cli.usage"

-- What packages are made of: a page for man(1), and the names there are.
local function formatted(context, list, by_name, topic, format)
  if format == "names" then
    for _, command in ipairs(list) do context:print(command.name) end
    return 0
  end
  local command <const> = by_name[topic or ""]
  if topic and not command then
    return nil, errors.new("T0105", {message = ("there is no manual page of `%s`"):format(topic),
      help = "manual pages are of commands: `tide help` lists them"})
  end
  local version <const> = context.core.version
  context.write_out(command and man.command(command, version) or man.overview(list, usage.topics(), version))
  return 0
end

return {
  name = "help",
  brief = "help on a command, an error, a kernel, a function or a topic",
  summary = "Explains a command, an error code, a kernel, a function or a topic; without one, lists them.",
  examples = {
    {"tide help", "all commands and topics"},
    {"tide help run", "same as `tide run --help`"},
    {"tide help T0501", "what the error means and what to do"},
    {"tide help tensor.axpy", "a function of scripts; `tide help tensor` lists its module"},
    {"tide help kge_train", "what the kernel computes, and its arguments"},
    {"tide help --format man run | man -l -", "as a manual page"},
  },
  arguments = {{name = "topic", optional = true, doc = "a command, an error code, a kernel, a function or a topic"}},
  options = {
    {name = "format", type = "string", choices = {"text", "man", "names"}, value = "FORM",
     doc = "text (default), man: a manual page, names: of all commands"},
  },
  configured = false,
  schema = "tide.help/1",
  run = function(context)
    local list, by_name = commands.all()
    local topic <const> = context.options.topic
    local format <const> = context.options.format or "text"
    if format ~= "text" then return formatted(context, list, by_name, topic, format) end
    local page, err
    if topic then
      page, err = usage.topic(topic, by_name, context.core.kernels())
      if not page then return nil, err end
    else
      page = usage.overview(list)
    end
    if not context.json then
      context:print(page)
      return 0
    end
    local entry <const> = topic and errors.catalogue[topic:upper()]
    local object = {schema = context.schema, topic = topic, text = page}
    if by_name[topic or ""] then object.command = arguments.data(by_name[topic]) end
    if entry then
      object.code, object.name, object.exit = topic:upper(), entry.name, entry.exit
      object.title, object.explanation, object.remedy = entry.title, entry.explanation, entry.remedy
    end
    context:print(context.core.json_encode(object))
    return 0
  end,
}
