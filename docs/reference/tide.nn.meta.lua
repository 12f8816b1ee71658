---@meta tide.nn
-- Definitions for editors, made from the annotations of the source.

---@class tide.nn
local tide_nn = {}

---Where condition is not 0 the first, else the second.
function tide_nn.select(condition, a, b) end

---A program of tensor operations: `build(p)` runs once, with symbolic values.
---@param name string
---@param build fun(p: tide.nn.program) declares inputs, values, outputs and loss; runs once
---@param o? {inputs?: boolean} inputs: gradients(batch) has those of the float inputs, too: g:input "x"
---@return tide.nn.program
function tide_nn.program(name, build, o) end

---A layer of one's own: build(program, x, layer) declares parameters by layer.param(what, dims, init).
---@param kind string named in errors
---@param prefix string of its name, which is numbered
---@param build function
---@param name? string in place of prefix and number
function tide_nn.layer(kind, prefix, build, name) end

---y = x W + b
---@param n integer outputs
---@param o? {bias?: boolean, name?: string}
function tide_nn.linear(n, o) end

---Convolution of NHWC images.
---@param n integer output channels
---@param k integer height and width of the window
---@param o? {stride?: integer, pad?: integer, bias?: boolean, name?: string} pad: k // 2 unless given
function tide_nn.conv(n, k, o) end

---Layer: each column with mean 0 and variance 1 over the batch, then scaled and shifted by parameters.
---@param o? {eps?: number, rate?: number, name?: string} rate: of the running statistics
function tide_nn.batchnorm(o) end

---Layer: each row with mean 0 and variance 1, then scaled and shifted by parameters.
---@param o? {eps?: number, name?: string}
function tide_nn.layernorm(o) end

---Rows of a table by ids: [B] or [B x k] of an index to [.. x width].
---@param n integer rows of the table
---@param width integer
function tide_nn.embedding(n, width, o) end

---Layer: the greatest of each k x k window.
---@param k integer window and, unless given, stride
function tide_nn.maxpool(k, o) end

---Layer: the mean of each k x k window.
function tide_nn.avgpool(k, o) end

---The mean over all pixels of an image.
function tide_nn.mean_pixels(x) end

---Images as rows.
function tide_nn.flatten(x) end

---Layer: sets a share of the elements to 0 in training and scales the rest up.
---@param share number of elements that become 0 in training
function tide_nn.dropout(share) end

---Softmax and cross-entropy with labels 0 .. K-1, one a row: of [B x T x K] they are [B x T]. Rows of label -1 do not
---count. `weights`, one a row, multiply losses, and the count by which sums are divided; a row of weight 0 does not
---count, whatever is in it. `smoothing` = e: the label's share is 1 - e, all classes share e.
---@param z? tide.nn.value one column a class; without z and labels a loss for nn.sequential
---@param labels? tide.nn.value
---@param o? {weights?: tide.nn.value, smoothing?: number}
function tide_nn.xent(z, labels, o) end

---Logistic loss, each column with its target in 0..1.
---@param z? tide.nn.value without it a loss for nn.sequential
---@param target? tide.nn.value
function tide_nn.sigmoid_xent(z, target) end

---Half the squared distance.
---@param z? tide.nn.value without it a loss for nn.sequential
---@param target? tide.nn.value
function tide_nn.mse(z, target) end

---max(0, 1 - z t), t = -1 or 1.
---@param z? tide.nn.value without it a loss for nn.sequential
---@param target? tide.nn.value
function tide_nn.hinge(z, target) end

---A net of layers in a row: inputs "x" and "y", output "logits". `y` is a label a row of nn.xent(), and of the other
---losses as many numbers a row as the last layer gives.
---@param o table {input = dims, label? = "index"|dims, loss = nn.xent(), name?, layer, layer, ...}
---@return tide.nn.program
function tide_nn.sequential(o) end

---Plain gradient descent: w -= lr g. In all rules g is the mean gradient plus `decay` times the weights of matrices.
---`lr` may be a function of the step's number and the job's params: `run:set` then changes it during the run.
---@param o {lr: tide.nn.rate, decay?: number}
function tide_nn.sgd(o) end

---v = mu v + g, w -= lr v.
---@param o {lr: tide.nn.rate, decay?: number, mu?: number} mu: 0.9
function tide_nn.momentum(o) end

---v = mu v + g, w -= lr (g + mu v).
---@param o {lr: tide.nn.rate, decay?: number, mu?: number} mu: 0.9
function tide_nn.nesterov(o) end

---a += g g, w -= lr g / (sqrt(a) + eps).
---@param o {lr: tide.nn.rate, decay?: number, eps?: number} eps: 1e-10
function tide_nn.adagrad(o) end

---a = mu a + (1 - mu) g g, w -= lr g / (sqrt(a) + eps).
---@param o {lr: tide.nn.rate, decay?: number, mu?: number, eps?: number} mu: 0.99, eps: 1e-8
function tide_nn.rmsprop(o) end

---Adam with corrected bias; `mu` is beta1.
---@param o {lr: tide.nn.rate, decay?: number, mu?: number, beta2?: number, eps?: number} mu: 0.9,
--- beta2: 0.999, eps: 1e-8
function tide_nn.adam(o) end

---Adam whose decay acts apart from the gradient: w -= lr decay w.
---@param o {lr: tide.nn.rate, decay?: number, mu?: number, beta2?: number, eps?: number} as adam
function tide_nn.adamw(o) end

---Lion (arXiv 2302.06675): w -= lr (sign(beta1 m + (1 - beta1) g) + decay w), m = beta2 m + (1 - beta2) g. Its rate is
---3 to 10 times smaller than AdamW's, its decay as many times larger.
---@param o {lr: tide.nn.rate, decay?: number, beta1?: number, beta2?: number} beta1: 0.9, beta2: 0.99
function tide_nn.lion(o) end

---LAMB (arXiv 1904.00962): Adam's step of each parameter, made as long as the parameter.
---@param o {lr: tide.nn.rate, decay?: number, beta1?: number, beta2?: number, eps?: number} beta1: 0.9, beta2: 0.999,
--- eps: 1e-6
function tide_nn.lamb(o) end

---Adafactor (arXiv 1804.04235) without momentum: a matrix has one number a row and one a column as its state. `lr` is
---relative to a parameter's size, by default min(0.01, 1 / sqrt(step)).
---@param o? {lr?: tide.nn.rate, decay?: number, eps?: number, clip?: number, power?: number} eps: 1e-3, the least size;
--- clip: 1; power: -0.8
function tide_nn.adafactor(o) end

---Muon (github.com/KellerJordan/Muon) for hidden matrices: the momentum, made nearly orthogonal. The last matrix,
---embeddings and vectors have the rule `rest`.
---@param o {lr: tide.nn.rate, decay?: number, mu?: number, rest?: table, rest_lr?: number,
--- only?: fun(name: string, rows: integer, columns: integer): boolean} mu: 0.95; rest: nn.adamw {lr = rest_lr,
--- beta2 = 0.95}, rest_lr 3e-4; only: which matrices are Muon's
function tide_nn.muon(o) end

---An update rule of one's own: a formula of symbolic values, traced once a shape.
---@param o tide.nn.own_rule
---@return table optimizer
function tide_nn.optimizer(o) end

---Another update rule for each parameter: `nn.each(function(p) return p.rows > 1 and nn.muon {...} or nn.adamw {...}
---end)`; p is {name, rows, columns, count, number}. Make the rules outside of the function: a rule has one program.
---@param rule fun(p: table): table
---@return table optimizer
function tide_nn.each(rule) end

---Rates as functions of the step's number, from 1: `constant(rate)`, `step(rate, every, factor)`, `cosine(rate, steps,
---low)`, `linear(rate, steps, low)`, `inverse(rate, decay)`, `warmup(steps, schedule)`.
tide_nn.schedule = nil

---Columns of a value in n equal parts.
---@param x tide.nn.value
---@param n integer
---@return tide.nn.value ...
function tide_nn.split(x, n) end

---A program of vertices: one function of a vertex, batches of graphs. See docs/guides/dynamic-networks.md.
---@param name string
---@param build fun(p: tide.nn.program, v: tide.nn.vertex)
---@param o? {children?: integer|string[]} named children
---@return tide.nn.program
function tide_nn.vertex(name, build, o) end

---A program of vertices of several kinds: a function for each, with the same states. The data have the kind of each
---vertex; without kinds in them, `leaf` is a vertex without children and `inner` one with.
---@param name string
---@param kinds table<string, fun(p: tide.nn.program, v: tide.nn.vertex)>
---@param o? {children?: integer|string[]} named children
---@return tide.nn.program
function tide_nn.vertices(name, kinds, o) end

---A job that trains a program on all workers.
---@param o tide.nn.job_fields
---@return tide.job
function tide_nn.job(o) end

---|x|, element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function tide_nn.abs(x) end

---x x, element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function tide_nn.sqr(x) end

---Square root, element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function tide_nn.sqrt(x) end

---1 / sqrt(x), element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function tide_nn.rsqrt(x) end

---1 / x, element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function tide_nn.recip(x) end

---e to the power of x, element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function tide_nn.exp(x) end

---Natural logarithm, element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function tide_nn.log(x) end

---log(1 + x), element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function tide_nn.log1p(x) end

---1 / (1 + exp(-x)), element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function tide_nn.sigmoid(x) end

---Hyperbolic tangent, element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function tide_nn.tanh(x) end

---max(x, 0), element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function tide_nn.relu(x) end

---log(1 + exp(x)), element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function tide_nn.softplus(x) end

---Sign (-1, 0 or 1), element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function tide_nn.sign(x) end

---The error function, element by element: of a value, or a layer of nn.sequential.
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function tide_nn.erf(x) end

---@class tide.nn.value
local tide_nn_value = {}

---|x|, element by element.
---@return tide.nn.value
function tide_nn_value:abs() end

---x x, element by element.
---@return tide.nn.value
function tide_nn_value:sqr() end

---Square root, element by element.
---@return tide.nn.value
function tide_nn_value:sqrt() end

---1 / sqrt(x), element by element.
---@return tide.nn.value
function tide_nn_value:rsqrt() end

---1 / x, element by element.
---@return tide.nn.value
function tide_nn_value:recip() end

---e to the power of x, element by element.
---@return tide.nn.value
function tide_nn_value:exp() end

---Natural logarithm, element by element.
---@return tide.nn.value
function tide_nn_value:log() end

---log(1 + x), element by element.
---@return tide.nn.value
function tide_nn_value:log1p() end

---1 / (1 + exp(-x)), element by element.
---@return tide.nn.value
function tide_nn_value:sigmoid() end

---Hyperbolic tangent, element by element.
---@return tide.nn.value
function tide_nn_value:tanh() end

---max(x, 0), element by element.
---@return tide.nn.value
function tide_nn_value:relu() end

---log(1 + exp(x)), element by element.
---@return tide.nn.value
function tide_nn_value:softplus() end

---Sign (-1, 0 or 1), element by element.
---@return tide.nn.value
function tide_nn_value:sign() end

---The error function, element by element.
---@return tide.nn.value
function tide_nn_value:erf() end

---The lesser of both, element by element.
---@param other tide.nn.value|number
---@return tide.nn.value
function tide_nn_value:min(other) end

---The greater of both, element by element.
---@param other tide.nn.value|number
---@return tide.nn.value
function tide_nn_value:max(other) end

---1 where both are equal, else 0, element by element.
---@param other tide.nn.value|number
---@return tide.nn.value
function tide_nn_value:eq(other) end

---1 where it is greater than the other, else 0, element by element.
---@param other tide.nn.value|number
---@return tide.nn.value
function tide_nn_value:gt(other) end

---1 where it is not less than the other, else 0, element by element.
---@param other tide.nn.value|number
---@return tide.nn.value
function tide_nn_value:ge(other) end

---Its dimensions behind the batch.
---@return integer[] dims without the batch
---@return boolean batched
function tide_nn_value:dims() end

---The number of channels: the last dim.
function tide_nn_value:columns() end

---Matrix product over the last dim; o.tb: by the transposed.
function tide_nn_value:mm(other, o) end

---Products of matrices in pairs.
function tide_nn_value:bmm(other, o) end

---Rows by index, of each example its own: of [B x n x c] by [B x m] to [B x m x c], of [B x n] to [B x m]. Index 0 is
---the first row, -1 gives zeros. A value of constant size is a table that all examples read.
---@param index tide.nn.value
function tide_nn_value:gather(index) end

---Rows added up where an index says, in their order: of [B x m x c] by [B x m] to [B x n x c]. -1: nowhere.
---@param index tide.nn.value
---@param n integer rows of the result
function tide_nn_value:scatter_add(index, n) end

---Columns first .. first + count - 1, from 1.
function tide_nn_value:slice(first, count) end

---Columns of another value behind its own.
function tide_nn_value:concat(other) end

---Softmax of each row.
function tide_nn_value:softmax() end

---Sums over the columns ("rows"), over the rows ("columns"), or over an axis behind the batch, from 1, which goes.
---@param over "rows"|"columns"|integer
function tide_nn_value:sum(over) end

---The same elements under other dims (without the batch).
function tide_nn_value:reshape(...) end

---An operation of one's own, of values: `forward(x, ...)` returns y (or a list of values) and optionally the values
---that backward reads; `backward(g, saved, x, ..., y)` returns a gradient for each operand, of its shape, or nil for
---none. Both are built of the operations of tide.nn, from their arguments alone.
---@param o {name: string, forward: function, backward?: function}
---@return tide.nn.operation|fun(...: tide.nn.value): tide.nn.value
function tide_nn.operation(o) end

---Compares the gradients of a function of values with central differences in float64, at some elements of each input.
---Raises where one differs by more than 1e-6 of the input's largest gradient, where the same call gives other bits, or
---where all elements lie at kinks. `f` is an nn.operation or any function of values.
---@param f function
---@param inputs table[] tensors of equally many rows, or {tensor, dims...} for dims behind the rows; i32: an index
---@param o? {samples?: integer, tolerance?: number} samples: elements of each input (20); tolerance: 1e-6
---@return {checked: integer, skipped: integer, worst: number} worst: difference over the input's largest gradient
function tide_nn.check_gradient(f, inputs, o) end

---Where condition is not 0 the first, else the second: nn.select.
function tide_nn.where(condition, a, b) end

---x times the normal distribution's share below x.
---@param x? tide.nn.value without it a layer
---@param form? "tanh" the approximation by tanh
---@return tide.nn.value|function
function tide_nn.gelu(x, form) end

---x sigmoid(x).
---@param x? tide.nn.value without it a layer
---@return tide.nn.value|function
function tide_nn.silu(x) end

---The largest along an axis (behind the batch, from 1; -1: the last), which becomes 1. The gradient goes to the first
---of equals.
---@param x tide.nn.value
---@param axis integer
function tide_nn.max(x, axis) end

---The smallest, likewise.
---@param x tide.nn.value
---@param axis integer
function tide_nn.min(x, axis) end

---log(sum(exp x)) along an axis, which becomes 1.
---@param x tide.nn.value
---@param axis integer
function tide_nn.logsumexp(x, axis) end

---Sums of products by letters, one an axis behind the batch: `nn.einsum("ik,kj->ij", a, b)` is a product of matrices,
---"hic,hjc->hij" scores of heads. Letters that the result lacks are summed over. One operand may be of constant size.
---@param spec string
---@param a tide.nn.value
---@param b tide.nn.value
function tide_nn.einsum(spec, a, b) end

---Of an index: 1 in the column that it names, from 0, else 0; -1: zeros.
---@param index tide.nn.value
---@param k integer columns
function tide_nn.one_hot(index, k) end

---Rows added up by segment: row i of [B x m x c] to row `segment[i]` of [B x n x c]. -1: to none.
---@param x tide.nn.value
---@param segment tide.nn.value an index [B x m]
---@param n integer segments
function tide_nn.segment_sum(x, segment, n) end

---The mean of the rows of each segment; of none: zeros.
---@param x tide.nn.value
---@param segment tide.nn.value an index [B x m]
---@param n integer segments
function tide_nn.segment_mean(x, segment, n) end

---Attention of heads that are blocks of columns: q [B x n x c], k and v [B x m x c']. Scores are made and used in
---tiles; the softmax is never stored. Key j counts for query i if j < lengths[b] and, causal, j <= i + m - n; a query
---without keys gives zeros.
---@param q tide.nn.value
---@param k tide.nn.value
---@param v tide.nn.value
---@param o {heads: integer, kv_heads?: integer, causal?: boolean, lengths?: tide.nn.value, scale?: number} kv_heads:
---heads of k and v, a divisor of heads; lengths: an index, one an example; scale: 1 / sqrt(width of a head)
function tide_nn.attention(q, k, v, o) end

---Loss of sequences of labels that are shorter than their frames and not aligned with them (CTC, Graves 2006): class 0
---is the blank, labels end at -1. Examples whose labels do not fit into their frames do not count. `count` is of
---examples.
---@param z tide.nn.value [B x frames x classes]
---@param labels tide.nn.value an index [B x most labels]
---@param o? {lengths?: tide.nn.value} frames of each example, an index
function tide_nn.ctc(z, labels, o) end

---nn.xent of `x:mm(w)`, for classes by the ten thousand: logits and their gradients are made for some rows at a time,
---so 16 MB of them are in memory at most. Values and gradients are those of nn.xent.
---@param x tide.nn.value [B x .. x c]
---@param w tide.nn.value [c x classes]; tied: [classes x c], such as the table of an embedding
---@param labels tide.nn.value an index, one a row of x
---@param o? {weights?: tide.nn.value, smoothing?: number, tied?: boolean}
function tide_nn.linear_xent(x, w, labels, o) end

---Turns pairs of columns of each head by angles that grow with the position (RoPE, arXiv 2104.09864).
---@param x tide.nn.value [B x n x c]
---@param o {heads: integer, base?: number, positions?: tide.nn.value, pairing?: "half"|"adjacent"} base: 10000;
---positions: an index [B x n] in place of 0 .. n - 1; pairing: columns j and j + d / 2 (default), or 2 j and 2 j + 1
function tide_nn.rotary(x, o) end

---Layer: each row divided by the root of its mean square, then scaled by a parameter.
---@param o? {eps?: number, name?: string}
function tide_nn.rmsnorm(o) end

---1 where the two differ, else 0; NaN differs from all.
function tide_nn_value:ne(other) end

---1 where it is less than the other, else 0.
function tide_nn_value:lt(other) end

---1 where it is at most the other, else 0.
function tide_nn_value:le(other) end

---The mean over the columns ("rows": one number a row) or over an axis behind the batch, from 1.
---@param over "rows"|integer
function tide_nn_value:mean(over) end

---Sums up to each element of an axis behind the batch, from 1; -1: the last.
---@param axis integer
function tide_nn_value:cumsum(axis) end

---An axis of 1 (behind the batch, from 1) repeated n times.
---@param axis integer
---@param n integer
function tide_nn_value:expand(axis, n) end

---Its axes behind the batch in another order: `x:permute(2, 1)` of [B x n x m] is [B x m x n].
---@param ... integer
function tide_nn_value:permute(...) end

---Logarithm of the softmax of each row.
function tide_nn_value:log_softmax() end

---The k largest of each row, largest first, and an index of the columns they are of, from 0. Of equals the first; NaN
---is the largest.
---@param k integer
---@return tide.nn.value values, tide.nn.value index
function tide_nn_value:topk(k) end

---@class tide.nn.program
local tide_nn_program = {}

---An input of numbers: `p:input("x", 28, 28, 1)`, behind B, the examples of a batch.
---@param name string
function tide_nn_program:input(name, ...) end

---Integers: labels, ids of an embedding.
function tide_nn_program:index(name, ...) end

---A parameter: `p:param("W", {784, 10})`.
---@param dims integer[]
---@param init? table tide.zero(), tide.uniform{low=, high=} (symmetric), tide.normal{std=}; {"constant", x}
function tide_nn_program:param(name, dims, init) end

---Numbers that are not trained: `p:buffer("mean", {4})`. Checkpoints and files of the model have them under their name;
---`model:buffer(name)` reads and sets them.
---@param name string
---@param dims integer[]
---@param init? table as of a parameter
function tide_nn_program:buffer(name, dims, init) end

---The numbers of a tensor, as they are now: `p:constant(features)` is [rows x columns], of one row [columns].
---@param numbers table tensor
---@param name? string
function tide_nn_program:constant(numbers, name) end

---Names a value that `model:forward` returns.
function tide_nn_program:output(name, v) end

---Sets the value to minimise: a loss of nn.xent and the like, or any value, whose elements are summed.
function tide_nn_program:loss(v) end

---Its layers as a table: the shape of each result, and the number of parameters.
---@return string text
function tide_nn_program:summary() end

---Its operations as a graph for Graphviz.
function tide_nn_program:dot() end

---A hash of what is computed.
---@return string hash; equal for programs that compute the same
function tide_nn_program:id() end

---The places of parameters and states: {keys, states, parameters, layers}.
---@return table layout of parameters: {keys=, parameters=, layers=}
function tide_nn_program:layout() end

---Writes the parameters of a run of nn.job by their names, as safetensors or `.npz`; with `average` their moving
---averages.
---`net:save(run, "net.safetensors")`; `model:load` of a compiled program reads it.
---@param run tide.run
---@param path string
function tide_nn_program:save(run, path) end

---A model: the program with parameters, an update rule and a device.
---@param o? tide.nn.compile
function tide_nn_program:compile(o) end

---@class tide.nn.model
---@field parameters table tensor keys x 1024: all parameters, in the program's layout. On a device with memory of its
---own they are what the last fetch or parameter(...) saw, unless the model is `staged`
---@field summed table tensor of the same layout: gradients of the last batch, summed over its examples
---@field average? table tensor of the same layout: the moving average of the parameters
---@field states table tensor of rows of 1024: running statistics
---@field layout table see program:layout()
local tide_nn_model = {}

---Copies the device's memory to `parameters` and `states`.
function tide_nn_model:fetch() end

---Copies `parameters` and `states`, with their changes, to the device's memory.
function tide_nn_model:give() end

---One step of training on a batch.
---@return table {loss = sum, count = n, correct = n}
function tide_nn_model:step(batch) end

---Graphs that grow while they are computed: see tide.nn.growing.
---@param o? {vertices?: integer, train?: boolean}
---@return tide.nn.growing
function tide_nn_model:grow(o) end

---Gradients of a batch, summed over its examples, for `update`; nothing changes but running statistics.
---`local g = m:gradients(batch)`: g.loss, g.count, g:norm(), g["fc1.w"]; g:add(another batch's), g:scale(factor).
---@return tide.nn.gradients
function tide_nn_model:gradients(batch) end

---One step with gradients of one batch or several: divides them by their count, and applies clip, schedule and update
---rules, to rows of tables too.
---@param g tide.nn.gradients
function tide_nn_model:update(g) end

---Gradients of a batch by parameter name, summed over its examples.
---@return table<string, table> tensors rows x columns
function tide_nn_model:gradients_of(batch) end

---Current rows of a table, in its order; shares storage.
---@param name string
---@return table tensor
function tide_nn_model:table(name) end

---A parameter: shares storage with the model; on a device with memory of its own with `parameters`, so that changes
---count after give().
---@return table tensor rows x columns
function tide_nn_model:parameter(name) end

---The contents of a program's buffer. On a GPU `model:give()` copies changes to the device.
---@param name string
---@return table tensor rows x columns; shares storage
function tide_nn_model:buffer(name) end

---The moving average of a parameter, a copy.
---@return table tensor rows x columns
function tide_nn_model:averaged(name) end

---Writes the parameters by their names, `fc1.w`, running statistics and rows of tables as safetensors.
---@param path string .npz: as NumPy's archive
function tide_nn_model:save(path) end

---Sets the parameters, and rows of tables, to those of the same names in a file of any writer.
---@param path string .safetensors or .npz
function tide_nn_model:load(path) end

---Loss without dropout and with running statistics. Every input must be fed, labels too.
---@param each? fun() called behind each piece of a batch that was cut
---@return table {loss = sum, count = n, correct = n}
function tide_nn_model:evaluate(batch, each) end

---Outputs by name, computed as in an evaluation.
---@return table<string, table>
function tide_nn_model:forward(batch) end

---Its layers as a table: the shape of each result and the number of parameters; and the bytes that training takes.
---@return string text
function tide_nn_model:summary() end

---Statistics of a batch by layer: of its values, its mean gradient and its weights. The list is run
---once more, operation by operation; nothing changes. `print(m:watch(batch))`.
---@param batch table as of `step`
---@return tide.nn.watched {{name=, values=, gradient=, weights=}}: each {mean=, std=, max=, zeros=, bad=} or nil
function tide_nn_model:watch(batch) end

---The list as it is executed: operations, places in memory, and when layers are needed and ready.
function tide_nn_model:explain() end

return tide_nn
