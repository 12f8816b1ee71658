-- `tide actors`: what runs on the nodes, and what it waits for.
local listing = require "tide.show.listing"

return listing.command {
  name = "actors",
  brief = "the actors of a cluster and what they wait for",
  summary = "Lists the actors of all nodes: name, type, mailbox, what each waits for and since when.",
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
    {key = "handling_s", title = "busy", format = "duration"},
  },
  rows = function(view) return view.actors end,
}
