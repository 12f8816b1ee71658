-- nn.vertex: programs of vertices. A function of one vertex of a graph, traced once; a batch is the graphs of its
-- samples, all of whose vertices are computed level by level (docs/guides/dynamic-networks.md).
local vertex = {}

---The vertex as its function sees it.
---@class tide.nn.vertex
---@field program tide.nn.program
---@field kind? string of vertices whose function is being traced
local v = {}
v.__index = v

local tools ---@type table of tide.nn: wrap, checked, place, refuse, operand, whole
local wrap, checked, place, refuse, whole

local function own(self) return self.program end

---The values that children publish under this name: one row a child.
---@param name string
---@param columns integer
function v:state(name, columns)
  local p <const> = own(self)
  local known <const> = self.states[name]
  whole(("state %q"):format(name), columns)
  if known then
    if known:columns() ~= columns then
      refuse("state %q has %d columns, and is requested with %d", name, known:columns(), columns)
    end
    return known
  end
  place(p)
  self.states[name] = wrap(p, checked(p.core:child_state(name, columns)))
  return self.states[name]
end

local function over(what)
  return function(self, x)
    local p <const> = own(self)
    self.reads_all = true
    place(p)
    return wrap(p, checked(p.core:over(what, tools.operand(p, x))))
  end
end
---The sum over all children of a value of children or edges; of none: zeros.
v.sum = over "sum"
---The largest of all children, column by column; of none: zeros.
v.max = over "max"

---The value of the j-th child, from 1, or of the one that `children` names; zeros where there is none.
---@param j integer|string
function v:child(j, x)
  local p <const> = own(self)
  local most <const> = self.named
  if type(j) == "string" then
    local number <const> = self.names[j]
    if not number then refuse("child %q: this program's children have the names %s", j, self.known) end
    j = number
  end
  whole("the number of a child", j)
  if most and j > most then refuse("child %d: vertices of this program have %d named children", j, most) end
  self.reads = math.max(self.reads or 0, j)
  place(p)
  return wrap(p, checked(p.core:nth(j, tools.operand(p, x))))
end

---Sets every state that parents read; called once.
---@param values table<string, tide.nn.value>
function v:publish(values)
  local p <const> = own(self)
  if self.published then
    refuse("publish is called once%s, with all states", self.kind and (" by kind %q"):format(self.kind) or "")
  end
  self.published = true
  local names = {}
  for name in pairs(values) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    if not self.states[name] and self.kind then self:state(name, values[name]:columns()) end -- other kinds may ask
    if not self.states[name] then refuse("%q is published, but no state of that name is requested", name) end
    place(p)
    checked(p.core:publish(name, tools.operand(p, values[name])))
  end
  names = {}
  for name in pairs(self.states) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    if not values[name] then refuse("state %q is not published", name) end
  end
end

---An integer of this vertex, -1: none.
function v:index(name)
  local made <const> = self.inputs[name] or self.program:index(name)
  made.is_index, self.inputs[name] = true, made
  return made
end

---Numbers of this vertex.
function v:input(name, columns)
  self.inputs[name] = self.inputs[name] or self.program:input(name, columns)
  return self.inputs[name]
end

local function edge(self, name, kind, columns)
  local p <const> = own(self)
  place(p)
  self.inputs[name] = self.inputs[name] or wrap(p, checked(p.core:edge_input(name, kind, columns)))
  return self.inputs[name]
end

---An integer of each edge to a child.
function v:edge_index(name) return edge(self, name, "index", 0) end
---Numbers of each edge to a child.
function v:edge_input(name, columns) return edge(self, name, "f32", whole("an edge's input", columns)) end

---Rows of a table by an index of this vertex; of -1: zeros.
---@param rows tide.nn.value made by p:table
---@param index tide.nn.value
function v:embed(rows, index) return tools.apply(own(self), "embed", {rows, index}) end

---@param given table tools of tide.nn
function vertex.install(given, program)
  tools = given
  wrap, checked, place, refuse, whole = tools.wrap, tools.checked, tools.place, tools.refuse, tools.whole

  ---Rows that lie in a table outside of the parameters: see `tables` of compile and nn.job.
  ---@param name string
  ---@param rows integer
  ---@param columns integer
  ---@param init? table initial values; uniform from -0.1 to 0.1 without them; or `vectors` of a data set: rows in
  ---it begin with its values, the others uniform from -0.1 to 0.1
  function program:table(name, rows, columns, init)
    whole(("the rows of table %q"):format(name), rows)
    whole(("the columns of table %q"):format(name), columns)
    local shared <const> = self.vertex and self.vertex.tables -- by all kinds
    local known <const> = shared and shared[name]
    if known and known.rows == rows and known.columns == columns then return known.value end
    local from <const> = type(init) == "table" and init.ids and init.values and init or nil
    if from and (from.columns ~= columns or rows < from.most) then
      refuse("table %q is %d x %d, the vectors of %s have %d columns, for words up to %d", name, rows, columns,
        from.path, from.columns, from.most)
    end
    local kind, number = tools.initial(name, not from and init or {"uniform", -0.1, 0.1})
    place(self)
    local value <const> = wrap(self, checked(self.core:table(name, rows, columns, kind, number)))
    self.vectors[name] = from
    if shared then shared[name] = {value = value, rows = rows, columns = columns} end
    return value
  end

  ---@return string|nil the index that says which vertices count; nil: all
  function program:label() return self.core:label() end

  ---@return table[] {label=, kind=}: indices that say which vertices count, and of which kind, without it of all
  function program:counting() return self.core:counted_kinds() or {{label = self.core:label()}} end

  ---@return table[] {name=, rows=, columns=, vectors=} of p:table
  function program:tables()
    local all <const> = self.core:tables()
    for _, t in ipairs(all) do t.vectors = self.vectors[t.name] end
    return all
  end
end

local OPTIONS <const> = {children = true}

-- The number of named children, their numbers by name, and the names as a text.
local function children_of(what, o)
  for key in pairs(o) do
    if not OPTIONS[key] then tools.refuse("%s has no option `%s`", what, tostring(key)) end
  end
  if type(o.children) ~= "table" then
    if o.children ~= nil then tools.whole(("`children` of %s"):format(what), o.children) end
    return o.children, {}, "1, 2, .."
  end
  local names = {}
  for i, name in ipairs(o.children) do
    if type(name) ~= "string" or names[name] then tools.refuse("%s: `children` are names, each once", what) end
    names[name] = i
  end
  return #o.children, names, table.concat(o.children, ", ")
end

-- The most children that a vertex may have: all that are named, or the largest number read. A child that the function
-- never reads is a mistake of the data.
local function bound(self)
  local most <const> = self.named or not self.reads_all and self.reads
  if most then self.program.core:children(most) end
end

---@param name string
---@param build fun(p: tide.nn.program, v: tide.nn.vertex)
---@param o? {children?: integer|string[]} children: the number of named children, or their names; no vertex has others
---@return tide.nn.program
function vertex.new(name, build, o)
  local named <const>, names <const>, known <const> = children_of("nn.vertex", o or {})
  return tools.trace(name, function(p)
    tools.checked(p.core:vertex())
    local self <const> = setmetatable({program = p, states = {}, inputs = {}, named = named, names = names,
                                       known = known}, v)
    p.vertex = self
    build(p, self)
    if not self.published then tools.refuse("vertex %q publishes nothing: v:publish {h = ...}", name) end
    bound(self)
  end)
end

---Vertices of several kinds, each with a function of its own; states, inputs and layers are the same for all.
---@param name string
---@param kinds table<string, fun(p: tide.nn.program, v: tide.nn.vertex)>
---@param o? {children?: integer|string[]}
---@return tide.nn.program
function vertex.kinds(name, kinds, o)
  local named <const>, names <const>, known <const> = children_of("nn.vertices", o or {})
  local order = {}
  if type(kinds) ~= "table" or not next(kinds) then
    tools.refuse "nn.vertices requires a function for each kind: {leaf = function(p, v) .. end, inner = ..}"
  end
  for kind, build in pairs(kinds) do
    if type(kind) ~= "string" or type(build) ~= "function" then
      tools.refuse("nn.vertices requires functions by the names of kinds, not %s = %s", tostring(kind), type(build))
    end
    order[#order + 1] = kind
  end
  table.sort(order)
  return tools.trace(name, function(p)
    tools.checked(p.core:vertex())
    local self <const> = setmetatable({program = p, states = {}, inputs = {}, named = named, names = names,
                                       known = known, tables = {}}, v)
    p.vertex = self
    for _, kind in ipairs(order) do
      tools.place(p)
      tools.checked(p.core:kind(kind))
      self.kind, self.published = kind, false
      kinds[kind](p, self)
      if not self.published then
        tools.refuse("vertices of kind %q publish nothing: v:publish {h = ...}", kind)
      end
    end
    bound(self)
  end)
end

return vertex
