-- `tide tables`: parameter tables and how they are used.
local listing = require "tide.command.listing"

return listing.command {
  name = "tables",
  brief = "parameter tables and how they are used",
  summary = "Lists the parameter tables of a cluster: rows, memory, pulls, pushes, the share served locally.",
  examples = {
    {"tide tables", "all tables, counters of all nodes added up"},
    {"tide tables --by-node", "a line per table and node"},
    {"tide tables --json --sort memory_bytes", "the largest first, as JSON lines"},
  },
  options = {{name = "by-node", doc = "a record per table and node instead of the sum"}},
  schema = "tide.table/1",
  columns = {
    {key = "name"}, {key = "node"}, {key = "width"}, {key = "rows", format = "count"},
    {key = "memory_bytes", title = "memory", format = "size"},
    {key = "pulls_local", title = "pulls", format = "count"},
    {key = "pulls_remote", title = "remote", format = "count"},
    {key = "pushes_local", title = "pushes", format = "count"},
    {key = "pushes_remote", title = "remote", format = "count"},
    {key = "local_share", title = "local", format = "share"},
    {key = "bytes_out", title = "wire out", format = "size"},
  },
  rows = function(view, context) return context.options.by_node and view.table_parts or view.tables end,
}
