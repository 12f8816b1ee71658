-- The reference manual: one page a module, made of annotations (tide.annotations). `tide help NAME`, `?name` at the
-- console, docs/reference and the editor's definitions show the same entries.
local annotations = require "tide.annotations"
local core = require "tide.core"
local text = require "tide.text"

local manual = {}

-- A source: the module whose text is read, the local name that its functions hang on, what scripts write before the
-- name, the class of the editor's definitions, and names that differ for scripts. `generated`: the module
-- makes the text.
---@type {name: string, title: string, guide: string, sources: table[]}[]
local PAGES <const> = {
  {name = "tide", title = "Scripts, options, fibers", guide = "scripting.md", sources = {
    {module = "tide", own = "tide", prefix = "tide.", class = "tide"},
    {module = "tide.run.straggler", anonymous = "straggler", prefix = "tide.", class = "tide"},
    {module = "tide", own = "fiber", prefix = "fiber:", class = "tide.fiber"}}},
  {name = "job", title = "Jobs", guide = "scripting.md", sources = {
    {module = "tide.declared", rows = "job", prefix = "", class = "tide.job_fields", generated = true},
    {module = "tide.declared", rows = "stop", prefix = "", class = "tide.job_stop", generated = true},
    {module = "tide.declared", rows = "checkpoint", prefix = "", class = "tide.job_checkpoint", generated = true},
    {module = "tide.run.job", own = "job", prefix = "job:", class = "tide.job"}}},
  {name = "worker", title = "Workers", guide = "scripting.md", sources = {
    {module = "tide.run.worker", own = "w_methods", prefix = "worker:", class = "tide.worker"},
    {module = "tide.run.worker", own = "chunk_methods", prefix = "chunk:", class = "tide.chunk"},
    {module = "tide.run.worker", own = "arrival_methods", prefix = "arrival:", class = "tide.arrival"}}},
  {name = "peers", title = "Typed arrays from worker to worker", guide = "peers.md", sources = {
    {module = "tide.run.peers", own = "peers", prefix = "peers:", class = "tide.peers"},
    {module = "tide.run.peers", own = "ticket_methods", prefix = "peers_ticket:", class = "tide.peers.ticket"}}},
  {name = "run", title = "Runs and summaries", guide = "scripting.md", sources = {
    {module = "tide.run", own = "run", prefix = "run:", class = "tide.run"},
    {module = "tide.run.summary", own = "summary", prefix = "summary:", class = "tide.summary"},
    {module = "tide.run.remote", own = "methods", prefix = "remote_run:", class = "tide.remote_run"}}},
  {name = "cluster", title = "Clusters", guide = "scripting.md", sources = {
    {module = "tide.declared", rows = "cluster", prefix = "", class = "tide.cluster_options", generated = true},
    {module = "tide.declared", rows = "start", prefix = "", class = "tide.start_options", generated = true},
    {module = "tide.declared", rows = "submit", prefix = "", class = "tide.submit_options", generated = true},
    {module = "tide.cluster", own = "cluster", prefix = "cluster:", class = "tide.cluster"},
    {module = "tide.cluster.elastic", own = "cluster", prefix = "cluster:", class = "tide.cluster"},
    {module = "tide.cluster.provisioned", own = "cluster", prefix = "cluster:", class = "tide.cluster"}}},
  {name = "trials", title = "Trials", guide = "run-history.md", sources = {
    {module = "tide.run.trials", anonymous = "sweep", prefix = "tide.", class = "tide", rename = {sweep = "trials"}},
    {module = "tide.run.trials", own = "trials", prefix = "tide.trials.", class = "tide.trials_module"},
    {module = "tide.run.trials", own = "result", prefix = "trials_result:", class = "tide.trials.result"}}},
  {name = "table", title = "Tables", guide = "tables.md", sources = {
    {module = "tide.run.table_spec", prefix = "", class = "tide.table_fields", generated = true},
    {module = "tide.run.table_spec", own = "table_spec", prefix = "tide.", class = "tide", rename = {new = "table"}},
    {module = "tide.meta.table", own = "handle", prefix = "table:", class = "tide.table_handle"},
    {module = "tide.meta.table", own = "ticket", prefix = "ticket:", class = "tide.ticket"},
    {module = "tide.meta.table", own = "sampler", prefix = "sampler:", class = "tide.sampler"}}},
  {name = "tensor", title = "Tensors", guide = "tensors.md", sources = {
    {module = "tide.tensor", own = "tensor", prefix = "tide.tensor.", class = "tide.tensor_module"},
    {module = "tide.meta.tensor", own = "tensor", prefix = "tensor:", class = "tide.tensor"}}},
  {name = "data", title = "Data", guide = "data.md", sources = {
    {module = "tide.data", own = "data", prefix = "tide.data.", class = "tide.data_module"},
    {module = "tide.data.triples", anonymous = "triples", prefix = "tide.data.", class = "tide.data_module"},
    {module = "tide.data.wordnet", anonymous = "wordnet", prefix = "tide.data.", class = "tide.data_module"},
    {module = "tide.data.matrix", anonymous = "matrix", prefix = "tide.data.", class = "tide.data_module"},
    {module = "tide.data.text", anonymous = "text", prefix = "tide.data.", class = "tide.data_module"},
    {module = "tide.data.libsvm", anonymous = "libsvm", prefix = "tide.data.", class = "tide.data_module"},
    {module = "tide.data.market", anonymous = "market", prefix = "tide.data.", class = "tide.data_module"},
    {module = "tide.data.dense", anonymous = "dense", prefix = "tide.data.", class = "tide.data_module"},
    {module = "tide.data.bow", anonymous = "bow", prefix = "tide.data.", class = "tide.data_module"},
    {module = "tide.data.forest", anonymous = "forest", prefix = "tide.data.", class = "tide.data_module"},
    {module = "tide.data.images", anonymous = "images", prefix = "tide.data.", class = "tide.data_module"},
    {module = "tide.meta.data", own = "data", prefix = "tide.data.", class = "tide.data_module"},
    {module = "tide.data.matrix", own = "data", prefix = "tide.data.", class = "tide.data_module"},
    {module = "tide.data", own = "set", prefix = "set:", class = "tide.data.set"},
    {module = "tide.data.matrix", own = "set", prefix = "matrix_set:", class = "tide.data.matrix_set"},
    {module = "tide.data.bow", own = "set", prefix = "bow_set:", class = "tide.data.bow_set"},
    {module = "tide.data.libsvm", own = "sparse_rows", prefix = "sparse_rows:", class = "tide.data.sparse_rows"},
    {module = "tide.data.dense", own = "dense_rows", prefix = "dense_rows:", class = "tide.data.dense_rows"},
    {module = "tide.data.forest", own = "part", prefix = "forest_part:", class = "tide.forest_part"},
    {module = "tide.data.rotation", own = "rotation", prefix = "rotation:", class = "tide.data.rotation"},
    {module = "tide.data.groups", own = "groups", prefix = "groups:", class = "tide.data.groups"}}},
  {name = "kernel", title = "Kernels", guide = "kernels.md", sources = {
    {module = "tide.kernel", own = "kernel", prefix = "tide.kernel.", class = "tide.kernel_module"}}},
  {name = "console", title = "Calls at the console", guide = "console.md", sources = {
    {module = "tide.console.rows", own = "console", prefix = "", class = "tide.console", generated = true},
    {module = "tide.console.rows", own = "policy", prefix = "policy.", class = "tide.console", generated = true}}},
  {name = "actors", title = "Actors of scripts", guide = "actors.md", sources = {
    {module = "tide.run.actors", own = "group", prefix = "group:", class = "tide.group"}}},
  {name = "random", title = "Random numbers", guide = "scripting.md", sources = {
    {module = "tide.meta.random", own = "generator", prefix = "generator:", class = "tide.generator"}}},
  {name = "json", title = "JSON", guide = "scripting.md", sources = {
    {module = "tide.json", own = "json", prefix = "tide.json.", class = "tide.json_module"}}},
  {name = "units", title = "Times and sizes as text", guide = "cli.md", sources = {
    {module = "tide.units", own = "units", prefix = "tide.units.", class = "tide.units_module"}}},
  {name = "show", title = "Printing values, charts", guide = "scripting.md", sources = {
    {module = "tide.show", own = "show", prefix = "tide.show.", class = "tide.show_module"},
    {module = "tide.chart", own = "chart", prefix = "tide.chart.", class = "tide.chart_module"}}},
  {name = "nn", title = "Neural networks", guide = "programs.md", sources = {
    {module = "tide.nn", own = "nn", prefix = "nn.", class = "tide.nn"},
    {module = "tide.meta.nn", own = "nn", prefix = "nn.", class = "tide.nn"},
    {module = "tide.meta.nn", own = "value", prefix = "value:", class = "tide.nn.value"},
    {module = "tide.nn", own = "value", prefix = "value:", class = "tide.nn.value"},
    {module = "tide.nn.operation", own = "nn", prefix = "nn.", class = "tide.nn"},
    {module = "tide.nn.sequences", own = "nn", prefix = "nn.", class = "tide.nn"},
    {module = "tide.nn.sequences", own = "value", prefix = "value:", class = "tide.nn.value"},
    {module = "tide.nn", own = "program", prefix = "program:", class = "tide.nn.program"},
    {module = "tide.nn.model", own = "model", prefix = "model:", class = "tide.nn.model"}}},
  {name = "factors", title = "Models of one matrix on sparse rows", guide = "exchange.md", sources = {
    {module = "tide.nn.factors", own = "factors", prefix = "tide.factors.", class = "tide.factors_module"}}},
  {name = "lda", title = "Topic models", guide = "topics.md", sources = {
    {module = "tide.lda", own = "lda", prefix = "tide.lda.", class = "tide.lda_module"},
    {module = "tide.lda.model", own = "model", prefix = "topics:", class = "tide.lda.model"}}},
  {name = "descent", title = "Descent by variables", guide = "descent.md", sources = {
    {module = "tide.descent", own = "descent", prefix = "tide.descent.", class = "tide.descent_module"},
    {module = "tide.descent", own = "model", prefix = "linear_model:", class = "tide.descent.model"}}},
  {name = "multitask", title = "Related tasks", guide = "multitask.md", sources = {
    {module = "tide.multitask", own = "multitask", prefix = "tide.multitask.", class = "tide.multitask_module"},
    {module = "tide.multitask", own = "model", prefix = "tasks_model:", class = "tide.multitask.model"}}},
  {name = "package", title = "What packages use", guide = "own-packages.md", sources = {
    {module = "tide.package", own = "package", prefix = "tide.package.", class = "tide.package_module"}}},
  {name = "compute", title = "Devices, update rules, programs, exchange", guide = "own-packages.md", sources = {
    {module = "tide.compute", own = "compute", prefix = "tide.compute.", class = "tide.compute_module"}}},
  {name = "formats", title = "Readers of files", guide = "own-packages.md", sources = {
    {module = "tide.formats", own = "formats", prefix = "tide.formats.", class = "tide.formats_module"}}},
  {name = "team", title = "Workers that solve one problem together", guide = "own-packages.md", sources = {
    {module = "tide.team", own = "team", prefix = "team:", class = "tide.team"}}},
  {name = "policy", title = "Policies", guide = "policies.md", sources = {
    {module = "tide.policy", own = "policy", prefix = "tide.policy.", class = "tide.policy_module"}}},
  {name = "k", title = "Numeric tools of policies and scripts", guide = "policy-contract.md", sources = {
    {module = "tide.meta.k", own = "k", prefix = "tide.k.", class = "tide.k"}}},
  {name = "sim", title = "The simulator", guide = "simulator.md", sources = {
    {module = "tide.sim", own = "sim", prefix = "tide.sim.", class = "tide.sim"}}},
}

-- Names that scripts write differently from their class: `tide.tensor` is a module, a tensor is a value.
local MODULES <const> = {
  {"tensor", "tide.tensor_module"}, {"data", "tide.data_module"}, {"kernel", "tide.kernel_module"},
  {"json", "tide.json_module"}, {"units", "tide.units_module"}, {"show", "tide.show_module"},
  {"chart", "tide.chart_module"}, {"factors", "tide.factors_module"}, {"lda", "tide.lda_module"},
  {"descent", "tide.descent_module"}, {"multitask", "tide.multitask_module"}, {"policy", "tide.policy_module"},
  {"package", "tide.package_module"}, {"compute", "tide.compute_module"}, {"formats", "tide.formats_module"},
  {"k", "tide.k"}, {"sim", "tide.sim"}, {"trials", "tide.trials_module"},
}

local state = {}

local function read_source(source)
  local content <const> = source.generated and require(source.module).annotation(source)
    or assert(core.embedded(source.module), source.module)
  local entries = {}
  for _, entry in ipairs(annotations.parse(content, source.own or "%%", source.prefix, source.anonymous)) do
    local short <const> = entry.name:sub(#source.prefix + 1)
    local known = source.rename and source.rename[short]
    if known then entry.name = source.prefix .. known end
    entry.source = {content = content, module = source.module, generated = source.generated}
    if not entry.hidden then entries[#entries + 1] = entry end
  end
  return {source = source, entries = entries, class = annotations.class(content, source.class)}
end

---All pages with their entries, hidden ones left out.
---@return table[] {name, title, guide, parts = {{source, entries, class}}}
function manual.pages()
  if state.pages then return state.pages end
  local pages = {}
  for i, page in ipairs(PAGES) do
    local parts = {}
    for j, source in ipairs(page.sources) do parts[j] = read_source(source) end
    pages[i] = {name = page.name, title = page.title, guide = page.guide, parts = parts}
  end
  state.pages = pages
  return pages
end

---Every entry by its name.
---@return table<string, tide.annotation>
function manual.entries()
  if state.entries then return state.entries end
  local entries = {}
  for _, page in ipairs(manual.pages()) do
    for _, part in ipairs(page.parts) do
      for _, entry in ipairs(part.entries) do
        entries[page.name == "console" and "console." .. entry.name or entry.name] = entry
      end
    end
  end
  state.entries = entries
  return entries
end

---The calls at the console, which have their names there alone.
---@return tide.annotation[]
function manual.console()
  local list = {}
  for _, part in ipairs(manual.page("console").parts) do table.move(part.entries, 1, #part.entries, #list + 1, list) end
  return list
end

-- "tide.tensor:axpy(a)" and "tensor.axpy" are one name.
local function plain(name)
  return (name:gsub("%b()$", ""):gsub(":", "."):gsub("^tide%.(.+)", "%1"):gsub("^w%.", "worker."):lower())
end

---What is meant by a name: "tensor.axpy", "tide.json.encode", "run:wait", or the last part if only one ends in it.
---@param name string
---@return tide.annotation[] found several, when the last part is that of several
function manual.find(name)
  local wanted <const> = plain(name)
  local same, ends = {}, {}
  for _, known in ipairs(text.sorted_keys(manual.entries())) do
    local each <const> = plain(known)
    if each == wanted then same[#same + 1] = manual.entries()[known] end
    if each:match "[^.]+$" == wanted then ends[#ends + 1] = manual.entries()[known] end
  end
  return same[1] and same or ends
end

---A page by its name.
---@param name string
---@return table|nil
function manual.page(name)
  for _, page in ipairs(manual.pages()) do
    if page.name == name then return page end
  end
  return nil
end

local function fields_text(class, columns)
  local lines = {}
  for _, field in ipairs(class and class.fields or {}) do
    local first <const> = ("  .%-14s "):format(field.name)
    for i, line in ipairs(text.wrap(("%s%s %s"):format(field.type, field.optional and " (optional)" or "", field.doc),
      columns - #first)) do
      lines[#lines + 1] = (i == 1 and first or (" "):rep(#first)) .. line
    end
  end
  return lines
end

-- The first sentence of a text.
local function sentence(doc)
  local at = doc:find "[.;:][%s]"
  return at and doc:sub(1, at):gsub("[;:]$", ".") or doc
end

---`tide help tensor`: what a page has, a line each.
---@param page table
---@param columns? integer
---@return string
function manual.listing(page, columns)
  columns = columns or 90
  local lines = {("%s (docs/guides/%s)"):format(page.title, page.guide)}
  for _, part in ipairs(page.parts) do
    if #part.entries > 0 or part.class and #part.class.fields > 0 then
      lines[#lines + 1] = ""
      local about <const> = part.class and part.class.doc or ""
      if about ~= "" then table.move(text.wrap(about, columns), 1, 9, #lines + 1, lines) end
      table.move(fields_text(part.class, columns), 1, 200, #lines + 1, lines)
    end
    for _, entry in ipairs(part.entries) do
      lines[#lines + 1] = "  " .. annotations.hint(entry)
      for _, line in ipairs(text.wrap((sentence(entry.doc)), columns - 6)) do lines[#lines + 1] = "      " .. line end
    end
  end
  lines[#lines + 1] = ""
  lines[#lines + 1] = "`tide help NAME` describes each."
  return table.concat(lines, "\n")
end

---What people ask for by a name: an entry, several that end in it, or a page.
---@param name string
---@param columns? integer
---@return string|nil
function manual.help(name, columns)
  local page <const> = manual.page((name:gsub("^tide%.", "")))
  local found <const> = manual.find(name)
  local is_entry <const> = found[1] and not found[1].source.generated and plain(found[1].name) == plain(name)
  if page and not is_entry then return manual.listing(page, columns) end
  if #found == 0 then return page and manual.listing(page, columns) or nil end
  local texts = {}
  for i, entry in ipairs(found) do texts[i] = annotations.text(entry, columns) end
  return table.concat(texts, "\n\n")
end

---- docs/reference --------------------------------------------------------------------------------------------------

-- A type in a cell of a table.
local function cell(s) return (s:gsub("|", "\\|")) end

local function entry_markdown(entry, lines)
  lines[#lines + 1] = ("### `%s%s`"):format(entry.name, entry.arguments)
  lines[#lines + 1] = ""
  lines[#lines + 1] = entry.doc
  lines[#lines + 1] = ""
  for _, param in ipairs(entry.params) do
    lines[#lines + 1] = ("- `%s`: `%s`%s %s"):format(param.name, param.type, param.optional and ", optional." or "",
      param.doc):gsub("%s+$", "")
  end
  for _, returned in ipairs(entry.returns) do lines[#lines + 1] = "- returns `" .. returned .. "`" end
  if #entry.params + #entry.returns > 0 then lines[#lines + 1] = "" end
end

---A page of docs/reference.
---@param page table
---@return string
function manual.markdown(page)
  local lines = {"# " .. page.title, "",
    ("Made from the annotations of the source by `./dev reference`. The guide is [%s](../guides/%s)."):format(
      page.guide, page.guide), ""}
  for _, part in ipairs(page.parts) do
    local class <const> = part.class
    if class and (class.doc ~= "" or #class.fields > 0) then
      lines[#lines + 1] = ("## `%s`"):format(class.comment[1]:match "^@class ([%w_.]+)")
      lines[#lines + 1] = ""
      if class.doc ~= "" then
        lines[#lines + 1] = class.doc
        lines[#lines + 1] = ""
      end
      if #class.fields > 0 then
        lines[#lines + 1] = "| field | type | |"
        lines[#lines + 1] = "|---|---|---|"
        for _, field in ipairs(class.fields) do
          lines[#lines + 1] = ("| `%s`%s | `%s` | %s |"):format(field.name, field.optional and " (optional)" or "",
            cell(field.type), cell(field.doc))
        end
        lines[#lines + 1] = ""
      end
    end
    for _, entry in ipairs(part.entries) do entry_markdown(entry, lines) end
  end
  return (table.concat(lines, "\n"):gsub("\n+$", "") .. "\n")
end

---The list of pages.
---@return string
function manual.contents()
  local lines = {"# Reference", "",
    "One page a module. `tide help tensor.axpy` and `?tensor.axpy` at the console show the same texts. "
    .. "`tide.meta.lua` and `tide.nn.meta.lua` here are definitions for editors with lua-language-server; they are "
    .. "installed in `share/tide/meta`: name that folder in the setting `workspace.library`.", "",
    "| page | |", "|---|---|"}
  for _, page in ipairs(manual.pages()) do
    local names = {}
    for _, part in ipairs(page.parts) do
      for _, entry in ipairs(part.entries) do names[#names + 1] = "`" .. entry.name:match "[%w_]+$" .. "`" end
    end
    lines[#lines + 1] = ("| [%s](%s.md) | %s: %s |"):format(page.name, page.name, page.title, table.concat(names, " "))
  end
  lines[#lines + 1] = "| [limits](limits.md) | Limits, windows, timeouts and batch sizes |"
  return table.concat(lines, "\n") .. "\n"
end

---- definitions for editors -----------------------------------------------------------------------------------------

local function variable(class) return (class:gsub("[^%w]", "_")) end

local function definitions_of(name, own, others)
  local lines = {"---@meta " .. name, "-- Definitions for editors, made from the annotations of the source.", ""}
  local declared = {}
  for _, page in ipairs(manual.pages()) do
    for _, part in ipairs(page.parts) do
      local source <const> = part.source
      if page.name ~= "console" and own(source) then
        if not declared[source.class] then
          declared[source.class] = true
          local comment <const> = part.class and part.class.comment or {"@class " .. source.class}
          for _, c in ipairs(comment) do lines[#lines + 1] = "---" .. c end
          if source.class == name then
            for _, module in ipairs(others) do lines[#lines + 1] = ("---@field %s %s"):format(module[1], module[2]) end
          end
          lines[#lines + 1] = ("local %s = {}"):format(variable(source.class))
          lines[#lines + 1] = ""
        end
        for _, entry in ipairs(part.entries) do
          for _, c in ipairs(entry.comment) do lines[#lines + 1] = "---" .. c end
          local own_name <const> = variable(source.class)
          local short <const> = entry.name:match "[%w_]+$"
          lines[#lines + 1] = entry.arguments == "" and ("%s.%s = nil"):format(own_name, short)
            or ("function %s%s%s%s end"):format(own_name, source.prefix:sub(-1) == ":" and ":" or ".", short,
              (entry.arguments:gsub("%?", "")))
          lines[#lines + 1] = ""
        end
      end
    end
  end
  lines[#lines + 1] = "return " .. variable(name)
  return table.concat(lines, "\n") .. "\n"
end

---What lua-language-server reads instead of the program.
---@return table<string, string> text by the file's name
function manual.definitions()
  local function of_nn(source) return source.class:find "^tide%.nn" ~= nil end
  return {
    ["tide.meta.lua"] = definitions_of("tide", function(source) return not of_nn(source) end, MODULES),
    ["tide.nn.meta.lua"] = definitions_of("tide.nn", of_nn, {}),
  }
end

---Functions that scripts can reach and that have no documentation: a list of their names.
---@return string[]
function manual.untold()
  local list = {}
  for _, page in ipairs(manual.pages()) do
    for _, part in ipairs(page.parts) do
      for _, entry in ipairs(part.entries) do
        if entry.doc == "" then list[#list + 1] = ("%s (%s:%d)"):format(entry.name, entry.source.module, entry.line) end
      end
    end
  end
  return list
end

return manual
