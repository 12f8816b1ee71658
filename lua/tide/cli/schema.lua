-- What a configuration file or the environment may set: one entry per key, for checking and for `tide help config`.
--
-- `project`: may ./tide.lua set it? A cloned repository must not decide where we listen or what is started.

---@class tide.setting
---@field key string in files; TIDE_<KEY> in the environment
---@field type string see tide.options
---@field default any
---@field doc string
---@field choices? string[]
---@field min? number
---@field max? number
---@field project boolean
---@field refused? string pattern of values that ./tide.lua may not set, and `refusal`: why

---@type tide.setting[]
return {
  {key = "cluster", type = "string", project = true, refused = "[:/]",
   refusal = "a project's file names a cluster, never an endpoint",
   doc = "cluster that commands talk to; without it the one that runs, and `local` for new ones"},
  {key = "color", type = "string", default = "auto", choices = {"auto", "always", "never"}, project = true,
   doc = "colours in what is printed"},
  {key = "keys", type = "string", project = false,
   doc = "directory of keys, for clusters on other machines"},
  {key = "log", type = "string", default = "text", choices = {"text", "json"}, project = true,
   doc = "form of log lines on stderr and in the logs of nodes"},
  {key = "nodes", type = "integer", default = 2, min = 1, max = 256, project = true,
   doc = "node processes of a local cluster"},
  {key = "timeout", type = "duration", project = true, doc = "time after which commands time out; default: never"},
  {key = "workers", type = "integer", default = 1, min = 1, max = 256, project = true,
   doc = "workers of each node of a local cluster"},
}
