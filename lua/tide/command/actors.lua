-- `tide actors`: what runs on the nodes, and what it waits for.
local cluster_view = require "tide.cluster.view"
local listing = require "tide.command.listing"
local stacks = require "tide.cluster.stacks"

return listing.command {
  name = "actors",
  brief = "the actors of a cluster and what they wait for",
  summary = "Lists the actors of all nodes: name, type, the line that a worker is at, what each waits for and "
    .. "since when, mailbox.",
  examples = {
    {"tide actors", "all actors"},
    {"tide actors --sort waits_s", "those that wait longest first"},
    {"tide actors --where 'mailbox_messages > 100'", "those that fall behind"},
  },
  schema = "tide.actor/1",
  columns = {
    {key = "address"}, {key = "node"}, {key = "name"}, {key = "type"},
    {key = "waits_for", title = "waits for"}, {key = "waits_s", title = "since", format = "duration"},
    {key = "mailbox_messages", title = "mail", format = "count"},
    {key = "mailbox_bytes", title = "bytes", format = "size"},
    {key = "messages_handled", title = "handled", format = "count"},
    {key = "handling_s", title = "busy", format = "duration"}, {key = "line"},
  },
  collect = function(context, client)
    local view, err = cluster_view.collect(context, client)
    local lines <const> = view and stacks.by_address(stacks.ask() or {}) or {}
    for _, row in ipairs(view and view.actors or {}) do row.line = lines[row.address] end
    return view, err
  end,
  rows = function(view) return view.actors end,
}
