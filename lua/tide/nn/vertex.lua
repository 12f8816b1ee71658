-- nn.vertex: programs of vertices. A function of one vertex of a graph, traced once; a batch is the graphs of its
-- samples, all of whose vertices are computed level by level (docs/dynamic-networks.md).
local vertex = {}

---What the function sees of its vertex.
---@class tide.nn.vertex
---@field program tide.nn.program
local v = {}
v.__index = v

---@param tools table of tide.nn: wrap, checked, place, refuse, operand, whole
function vertex.install(tools, program)
  local wrap <const>, checked <const>, place <const> = tools.wrap, tools.checked, tools.place
  local refuse <const>, whole <const> = tools.refuse, tools.whole

  local function own(self) return self.program end

  ---What children publish under this name: one row a child, seen from its parent.
  ---@param name string
  ---@param columns integer
  function v:state(name, columns)
    local p <const> = own(self)
    local known <const> = self.states[name]
    whole(("state %q"):format(name), columns)
    if known then
      if known:columns() ~= columns then
        refuse("state %q has %d columns, and is asked for with %d", name, known:columns(), columns)
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
      place(p)
      return wrap(p, checked(p.core:over(what, tools.operand(p, x))))
    end
  end
  ---The sum over all children of a value of children or edges; of none: zeros.
  v.sum = over "sum"
  ---The largest of all children, column by column; of none: zeros.
  v.max = over "max"

  ---The value of the j-th child, from 1; zeros where there is none.
  ---@param j integer
  function v:child(j, x)
    local p <const> = own(self)
    local most <const> = self.named
    whole("the number of a child", j)
    if most and j > most then refuse("child %d: vertices of this program have %d named children", j, most) end
    place(p)
    return wrap(p, checked(p.core:nth(j, tools.operand(p, x))))
  end

  ---What parents see: once, every state.
  ---@param values table<string, tide.nn.value>
  function v:publish(values)
    local p <const> = own(self)
    if self.published then refuse "publish is called once, with all states" end
    self.published = true
    local names = {}
    for name in pairs(values) do names[#names + 1] = name end
    table.sort(names)
    for _, name in ipairs(names) do
      if not self.states[name] then refuse("%q is published, but no state of that name is asked for", name) end
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

  ---Rows that lie in a table outside of the parameters: see `tables` of compile and nn.job.
  ---@param name string
  ---@param rows integer
  ---@param columns integer
  ---@param init? table initial values; uniform from -0.1 to 0.1 without them
  function program:table(name, rows, columns, init)
    whole(("the rows of table %q"):format(name), rows)
    whole(("the columns of table %q"):format(name), columns)
    local kind, number = tools.initial(name, init or {"uniform", -0.1, 0.1})
    place(self)
    return wrap(self, checked(self.core:table(name, rows, columns, kind, number)))
  end

  ---@return string|nil the index that says which vertices count; nil: all
  function program:label() return self.core:label() end

  ---@return table[] {name=, rows=, columns=} of p:table
  function program:tables() return self.core:tables() end
end

---@param name string
---@param build fun(p: tide.nn.program, v: tide.nn.vertex)
---@param o? {children?: integer} children: so many are named, and no vertex has others
---@return tide.nn.program
function vertex.new(tools, name, build, o)
  o = o or {}
  for key in pairs(o) do
    if key ~= "children" then tools.refuse("nn.vertex has no option `%s`", tostring(key)) end
  end
  return tools.trace(name, function(p)
    tools.checked(p.core:vertex())
    local self <const> = setmetatable({program = p, states = {}, inputs = {}, named = o.children}, v)
    p.vertex = self
    build(p, self)
    if not self.published then tools.refuse("vertex %q publishes nothing: v:publish {h = ...}", name) end
  end)
end

return vertex
