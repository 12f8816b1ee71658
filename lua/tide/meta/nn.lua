---@meta
-- Elementwise operations of programs, which lua/packages/nn/init.lua makes in a loop.

local nn, value = {}, {}

---|x|, element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function nn.abs(x) end

---x x, element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function nn.sqr(x) end

---Square root, element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function nn.sqrt(x) end

---1 / sqrt(x), element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function nn.rsqrt(x) end

---1 / x, element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function nn.recip(x) end

---e to the power of x, element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function nn.exp(x) end

---Natural logarithm, element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function nn.log(x) end

---log(1 + x), element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function nn.log1p(x) end

---1 / (1 + exp(-x)), element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function nn.sigmoid(x) end

---Hyperbolic tangent, element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function nn.tanh(x) end

---max(x, 0), element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function nn.relu(x) end

---log(1 + exp(x)), element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function nn.softplus(x) end

---Sign (-1, 0 or 1), element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function nn.sign(x) end

---The error function, element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function nn.erf(x) end

---|x|, element by element.
---@return tide.nn.value
function value:abs() end

---x x, element by element.
---@return tide.nn.value
function value:sqr() end

---Square root, element by element.
---@return tide.nn.value
function value:sqrt() end

---1 / sqrt(x), element by element.
---@return tide.nn.value
function value:rsqrt() end

---1 / x, element by element.
---@return tide.nn.value
function value:recip() end

---e to the power of x, element by element.
---@return tide.nn.value
function value:exp() end

---Natural logarithm, element by element.
---@return tide.nn.value
function value:log() end

---log(1 + x), element by element.
---@return tide.nn.value
function value:log1p() end

---1 / (1 + exp(-x)), element by element.
---@return tide.nn.value
function value:sigmoid() end

---Hyperbolic tangent, element by element.
---@return tide.nn.value
function value:tanh() end

---max(x, 0), element by element.
---@return tide.nn.value
function value:relu() end

---log(1 + exp(x)), element by element.
---@return tide.nn.value
function value:softplus() end

---Sign (-1, 0 or 1), element by element.
---@return tide.nn.value
function value:sign() end

---The error function, element by element.
---@return tide.nn.value
function value:erf() end

---The lesser of both, element by element.
---@param other tide.nn.value|number
---@return tide.nn.value
function value:min(other) end

---The greater of both, element by element.
---@param other tide.nn.value|number
---@return tide.nn.value
function value:max(other) end

---1 where both are equal, else 0, element by element.
---@param other tide.nn.value|number
---@return tide.nn.value
function value:eq(other) end

---1 where it is greater than the other, else 0, element by element.
---@param other tide.nn.value|number
---@return tide.nn.value
function value:gt(other) end

---1 where it is not less than the other, else 0, element by element.
---@param other tide.nn.value|number
---@return tide.nn.value
function value:ge(other) end

return {nn, value}
