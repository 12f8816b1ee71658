-- `tide help [TOPIC|CODE|KERNEL|NAME]`.
local errors = require "tide.errors"
local usage = require "tide.cli.usage"

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
  },
  arguments = {{name = "topic", optional = true, doc = "a command, an error code, a kernel, a function or a topic"}},
  configured = false,
  run = function(context)
    local list, by_name = require("tide.cli").commands()
    local topic <const> = context.options.topic
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
    local object = {schema = "tide.help/1", topic = topic, text = page}
    if entry then
      object.code, object.name, object.exit = topic:upper(), entry.name, entry.exit
      object.title, object.explanation, object.remedy = entry.title, entry.explanation, entry.remedy
    end
    context:print(context.core.json_encode(object))
    return 0
  end,
}
