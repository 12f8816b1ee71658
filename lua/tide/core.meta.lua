---@meta tide.core
-- What the C side provides as `require "tide.core"`, in every Lua state of a node (driver, worker, agent, console).
-- Expected failures return nil, err; err = {code="T....", name="EBUSY", message=, where=, node=}; misuse raises.
-- Values that travel (send, call, reply, spawn arguments) are nil, booleans, numbers, strings, arrays, string-keyed
-- tables and tensors; functions, userdata and cycles raise with the path of the offending field.

---@class tide.core
local core = {}

-- Times are seconds (floats) in Lua.
core.version = "0.1.0"
function core.run_directory() end        --> path of the directory of this user's clusters, or nil, err
function core.private_directory(path, make) end --> true, or nil, err: EACCES if others may write there; make: it is made
function core.program_name() end         --> of the file that this process runs
function core.sweep_directory(path) end --> removes sockets there that refuse; true: no process has one or is about to
function core.own_process(pid, program) end --> is it of this user and of a program of that name, default this one's?
function core.lock(path) end             --> a lock on that file, to be closed, or nil, err: EBUSY
function core.limit(name) end        --> the value of a limit of runtime/base/limits.def in this process; times are seconds
function core.limits() end           --> {{name=, unit="count|bytes|time", default=, least=, most=, value=, breaks=}, ...}
function core.limit_set(name, value) end --> true | nil, err ; before a node starts
function core.limits_draw(seed, share) end -- as that seed of the simulator draws them, each with that probability
function core.limits_pass(text) end  -- to processes that this one starts, in TIDE_LIMITS
function core.build() end            --> {compiler=, lua=, libuv=, ..., cpu={blas=, core=, rate="60 GFLOP/s", device=}, cuda={available=false, reason=""}} for `tide version`

---- nodes. A process runs at most one.
---@param options {cluster?:string,name?:string,listen?:string,join?:string,state?:string,controllers?:integer,workers?:integer,no_store?:boolean,client?:boolean,seed?:integer,queue_limit?:integer,memory?:integer,rate_operations?:number,rate_bytes?:number}
function core.node_start(options) end --> true | nil, err ; outside actors only (main.c's state)
function core.node_run(source, chunk, argument) end --> starts a Lua actor on the control thread and blocks the calling OS thread until it ends: result | nil, err. SIGINT reaches it as core.interrupted()
function core.node_stop(timeout_s) end
function core.replicate(controllers) end --> true | nil, err ; of the controller: so many members, 3 or 5, hold its log
function core.node() end              --> {id=, name=, endpoint=, cluster=, controller=id, state=, reason=, keys=directory, sessions_lost=count} | nil
function core.member() end            --> this node's own entry in members(), or nil before it has joined
function core.members() end           --> {view=n, {id=,name=,state="up",store=,workers=,pid=,endpoint=,reason=}, ...}
function core.links() end             --> array of tide_link_info fields, snake_case as in net.h
function core.actors() end            --> array of {address="1:77", name=,type=,waits_for=,waits_s=,mailbox_messages=,...}
function core.rss() end               --> bytes
function core.machine() end           --> {id=, processors=}: the id is the same on all nodes of a machine; processors that this process may run on, 0: as many as it has threads (simulated)
function core.memory(run) end         --> {cap_bytes=, used_bytes=, most_bytes=, tier="calm|tight|narrow|full|over", refused=}: the node's memory budget, or that of the run of that number on it; nil without a cap
function core.queue() end             --> {limit_bytes=, bytes=, most_bytes=, waits=}: this node's operations in flight, now and ever, and fibers that had to wait for room; nil without a queue limit
function core.ends(ids) end           --> true | nil, err: these members are about to end with their cluster: one that ends has left, no node takes its rows over; suspends until the controller has heard it, a second at most
function core.leave() end             -- this node hands its slots on and leaves; its entry in members() says when it has
function core.load() end              --> {messages=, keys=, busy_s=}: what this node's store has done for other nodes
function core.slow() end              --> {{type=, role="io"|"control", count=, seconds=, longest_s=}, ...}: actors of these types held an I/O thread longer than the limit actor_slow_io, or the control thread longer than actor_slow_control
function core.waited(id) end          --> seconds that this node has had operations in flight to the store of another one
function core.serve_cost(s) end       -- test aid: each key served to another node takes this node's store so much longer

---- actors. Addresses are strings "node:id".
---@param o {name?:string, source:string, chunk:string, role?:"compute"|"control", thread?:integer, argument?:any, link?:boolean}
function core.spawn(o) end            --> address | nil, err ; on this node; opens = of core.open, from the first message on
function core.self() end              --> address
---@param lane? "control"|"system"|"bulk"|"answer" system: before everything else in the mailbox, for cancels; bulk: behind the others, for large data; answer: blocks neither on credit nor on the mailbox, for what the receiver waits for and for servers that their callers may block on: the protocol has to bound how many there are
function core.send(to, value, lane) end --> true | nil, err
function core.call(to, value, timeout_s) end --> value | nil, err   (err.name EUNREACHABLE, EDIED, EREFUSED, ETIMEDOUT)
---Next message: {kind="cast"|"call"|"exit"|"stop", from=, call=id|nil, value=, code=, text=}; nil: none came in time; nil, err: it was damaged
function core.receive(timeout_s) end
function core.answer(message, value) end       --> true | nil, err
function core.answer_error(message, err) end   --> err table {code,name,message,where,node} travels whole
function core.refused() end                    -- counts a message that this actor refuses
function core.monitor(address) end    --> id ; exit messages then carry call=id
function core.demonitor(id) end
function core.link(address) end
function core.trap_exits(on) end
function core.kill(address) end
function core.grant_silence(s) end     -- to other nodes, before they are declared dead; nodes that join learn it
function core.right() end             --> "read"|"operate"|"admin" that this client has in its cluster; of a node "node"
function core.open(right) end         -- clients of this right or a greater one may send to this actor: "read", "operate", "admin"; "node": none (default)
function core.interrupt(address) end  --> true | nil, err ; of this node: what its fiber computes at this moment ends; once, so repeat it
function core.stack(address) end      --> {{waits_for=, frames={{kind="lua"|"native"|"kernel", where="file:line", name=}, ..}}, ..} | nil, err ; what the fibers of an actor of this node do, innermost frames first
function core.register(name) end      --> true | nil, err
function core.whereis(name) end       --> address | nil, err ; "name" or "node/name"
function core.sleep(s) end
function core.now() end               --> monotonic seconds
function core.wall() end
function core.watch_interrupts() end  -- SIGINT, SIGTERM and SIGHUP are counted from now on, in a process without a node
function core.alarm(seconds, text) end   --> this process writes the text and ends with 124 after so long, whatever its threads do; without a text that of the former one
function core.interrupt_limit(limit) end --> {count=, killed=, patience=, unheeded=}: the count-th interrupt of all gives it 1.5 s to end, then it writes `killed` and ends with 130; a SIGTERM or SIGHUP before that `patience` s until core.heed, with `unheeded`; nil: no limit
function core.heed(seconds) end       -- the interrupts so far are being dealt with: so long from now, 0: any time
function core.interrupted() end       --> number of SIGINT, SIGTERM and SIGHUP seen by this process so far, name of the newest | nil
function core.fiber(f, ...) end       --> handle; runs f(...) concurrently in this state
function core.fiber_wait(handle, timeout_s) end --> true, results... | nil, err (also the error f raised)
function core.fiber_cancel(handle) end
function core.log(level, text) end
function core.log_level(level) end    -- of the whole process: "debug", "info" (at start), "warn", "error"

function core.log_format(format) end  -- of the lines that this process writes to stderr: "text" (at start) or "json"
function core.log_rotate(limit, keep) end --> whether the file behind stderr had `limit` bytes and a new one was begun; at most `keep` older ones | nil, err

---- tensors: flat typed arrays with optional columns, printable, 1-based indexing; row-major
---@param type "f32"|"f64"|"i32"|"i64"|"u64"|"u8"|"u32"|"u16"
function core.tensor(type, rows, columns) end --> zeros ; core.tensor("u64", {1,2,3}) from a Lua array
-- t:add(source): elementwise, same type and size, integers wrap; t:split() of f64: f32 n x 3 whose sums are the elements exactly; core.joined(f32 n x 3) -> f64
-- core.moved(t): a tensor that takes t's storage; t has no rows then
-- t:put(first, source): the rows of `source` become those from `first` on; t:pick(source, numbers): row i becomes the row of `source` (from 0) that the i-th number, u32, names
-- methods: #t (rows*columns), t[i], t[i]=v, t:rows(), t:columns(), t:type(), t:slice(first, count) (rows, shares storage), t:view(first, rows, columns) (elements across rows, shares storage),
-- t:copy(), t:fill(v), t:fill(first, step), t:sum(), t:min(), t:max(), t:shuffle(rng_seed) (rows, Fisher-Yates, deterministic), t:bytes() (string), t:totable()

---- tables
---@param spec table name, seed, consistency, and the rows of store/core/option.def; those of keys, init and update are in {kind, ...}: keys = {"hashed", limit, admit_after=}, init = {"normal", std}, update = {"sgd", lr=}
function core.rule_check(spec) end    --> true | nil, err; spec.update as in core.table: do its numbers go with the rule?
function core.table(spec) end         --> handle | nil, err (creates on all nodes or finds)
function core.table_find(name) end
function core.table_options() end  --> array of {name=, doc=, words= or most=}: the rows of option.def that are fields of tide.table
function core.tables(waits) end       --> array of {name=, run= its run's number, ...stats}; with `waits` also waits={pull={counts}, push={counts}} as of t:waits()
function core.table_drop(name) end    --> true | nil, err ; it is dropped on all nodes, with its rows; suspends
function core.control_put(key, value) end --> true | nil, err ; of the controller, keys of job/ runs/ ticket/ seat/; kept when it returns; nil: the key goes
function core.control_list(prefix) end --> {[key] = value} | nil, err ; of the controller
function core.tables_forget() end     --> true | nil, err: the names of all tables are free again, once this controller is the only member
-- handle methods (suspend): t:pull(keys[, {async=true, into=tensor}]) -> tensor rows x width (or ticket); t:push(keys, rows[, {async=true}]);
-- all raise what fails; rows: f32 tensor, array of rows, or flat array;
-- t:localize(keys[, {async=true}]) -> true (or ticket): the rows come here (technique "relocate"; else counted and nothing done);
-- t:manage(keys, technique[, {nodes={ids}, rate=100, threshold=0, clip=0}]) -> true, raises what fails: the technique of keys, on all nodes; t:technique(key) -> name, has this node a copy;
-- t:intent(keys, first clock, clock after the last) -> true | nil, err: the calling worker will use them (does not suspend); t:flush() -> true, raises what fails: what was pushed to copies is in the rows;
-- t:stats().shared, if keys are: {keys=, copies=, hits=, refused=, updates_out=, rows_in=, notices_out=, updates_failed=, clipped=, unsent_mean_ms=, unsent_max_ms=, behind_mean_ms=, behind_max_ms=};
-- t:move(slots, node id) -> true, raises what fails: gives slots (0..4095) to a node, waits until no node uses the old homes; t:slot_homes() -> u32 tensor; t:slot_served() -> u64 tensor of keys served to other nodes;
-- t:health() -> {mode="none"|"strict"|"window", under_replicated=slots, lost={slot, ...}, leases="ok"|"lapsed", unreplicated=bytes, lost_updates=pushes} (does not suspend); t:save(path), t:load(path);
-- t:pull_local(keys) -> tensor, hits(u8 tensor); t:where(key) -> node id of the owner, as far as known; t:slot(key) -> 0..4095; t:stats() -> table; t:homes() -> {[node id]=slots}; t:save(path), t:load(path);
-- t:hottest(n=10) -> {{key=, reads=, writes=, doubt=}, ..}, total: the keys that this node's workers access most, estimated from 1 access in 64 (1,024 counters), and accesses to all keys; merged over nodes by tide.show.hot_keys;
-- t:consistency() -> "essp:2"; t:consistency("essp:4") -> true, raises what fails: another bound of the same model (ssp and essp change into each other), on all nodes;
-- t:rate() -> number | nil (the rule has none); t:rate(0.01) -> true, raises what fails: another learning rate, on all nodes and those that join;
-- t:stats() of a table with clocks has consistency, staleness={mean=,var=,min=,hist={n of differential -1, of -2, ..},pulls=,clocks=,waited_s=,clock_s=,stopped_s=,
--   stops=,hits=,waits=,fetches=,workers={the same with worker=, ..},copies=,value_bytes=,answer_bytes=,delta_bytes=,
--   early_bytes=,forced_bytes=,confirm_bytes=,excess=,..};
-- t:show{chart=file} prints its state on all nodes;
-- t:waits() -> {pull={counts}, push={counts}}: fibers that waited for other nodes less than 1, 2, 4, .. us; the 28th all longer;
-- t:sampler{dist="uniform"|weights|function() return key end, scheme="naive"|"preloc"|"pool"|"postpone"|"local" or level="conform"|"bounded"|"long_term"|"none",
--   first=0, count= (candidates), group=250, reuse=16, seed=1} -> s; s:prepare(n) -> sample; s:pull(sample, m) -> keys (u64), rows (f32 m x width); s:finish(sample); s:stats();
-- t.name, t.width, t.spec. keys: u64 tensor, Lua array of integers. ticket:wait() -> rows|true | nil, err; ticket:done()

---- clocks of workers
function core.worker_begin(number, clock, domain) end --> true | nil, err ; the calling fiber is worker `number` of the run `domain`, with whose workers it counts clocks
function core.worker_end() end
function core.worker_clock() end      --> the worker's clock | nil; it may begin higher than asked

---Traces: spans of this node's threads and fibers (lua/tide/show/trace.lua makes a file of them).
function core.trace_start(events) end --> true | nil, err ; of each thread; forgets what was recorded before
function core.trace_stop() end
function core.trace_read(cursor, origin) end --> text of whole lines, cursor | nil at the end; 0 and ns to begin with
function core.trace_clock() end       --> ns
function core.span(name, f, ...) end  --> what f returns; a span of this fiber
function core.title(title) end        -- what this actor is called in traces

function core.settle() end            --> true | nil, err ; this node's pushes are at the homes, its copies as new as those
function core.clock() end             --> the worker's new clock; raises what fails

---- checkpoints; lua/tide/run/checkpoint.lua gives their errors codes
---@param o {dir:string,cut?:"auto"|"clock"|"fuzzy",keep?:integer,full_every?:integer,timeout_s?:number,run?:integer}
function core.checkpoint_start(o) end --> handle | nil, err; all parts are on disk. handle:info() -> {generation=,clock=,cut=,full=,rows=,bytes=}; handle:commit(job) -> true | nil, err; handle:abort()
function core.checkpoint_restore(dir, generation, as) end --> {generation=,clock=,..,skipped=text,job=} | nil, err; generation nil: the newest that is whole
function core.checkpoint_list(dir) end --> {{generation=,committed=,full=,cut=,clock=,rows=,bytes=,wall_s=,base=,chain=,nodes=,tables=,program=,problem=}, ..} newest first | nil, err
function core.reader(dir, table) end  --> reader: r:pull(keys) -> rows, found, generation; r:refresh() -> newer; r:info(); r:close() | nil, err
function core.table_patch(dir, table, since) end --> {table=, from=, to=, width=, keys=, values=, gone=} | nil, err
function core.checkpoint_verify(dir, generation) end --> true | nil, err
function core.cut_clock() end         --> clock of the cut of the checkpoint that is being written | nil

---- kernels
function core.kernel(name) end        --> function(arguments table) -> results table | raises; error names unknown/missing/wrong arguments
function core.kernel_module(bytes, path) end --> {version=, sha=, kernels={name = function}, operations={name = {own=, numbers={{name=,default=,doc=}}}}, rules={name = numbers}} | nil, text; a shared object by its content; path: where nodes find it that do not have its rules
function core.kernels() end           --> array of {name=, doc=, parameters={{name=,type=,required=,default=,doc=}}}

---- programs (lua/host/kernel/program.c); scripts use tide.nn. Building functions return a value's number | nil, err
function core.program(name) end       --> program: p:place(kind, layer, at); p:input(name, "f32"|"index", dims); p:parameter(name, dims, "constant"|"uniform"|"normal", number); p:state(same); p:apply(operation, {values}, attributes); p:map(micro, a, b, c) (integers are values, floats constants); p:reshape(value, dims); p:output(name, value); p:count() -> values so far; p:own(operation, {values}, {numbers}) -> first result, how many; p:open(name, {values}), p:close({values}): between them an operation of a script; p:differentiate(of_inputs, function(group, gradients) -> gradients)
-- p:print(), p:dot(), p:id(), p:shape(value) -> text, dims, batched; p:layout() -> {keys=, states=, parameters={{name=,layer=,first=,count=,rows=,columns=}}, layers={{name=,first_key=,key_count=}}}; p:initialise(device, seed, parameters, states)
-- p:plan(device, "train"|"evaluate", seed) -> run | nil, err: r:bind(parameters, gradients|nil, states) (as core.place gave them); r:stage(parameters|nil, gradients|nil): tensors that are copied at need and ready; r:feed(input, tensor, first_row); r:step(rows, step, need|nil, ready|nil, exchange|nil) -> loss sum, count, correct | nil, err; r:output(name) -> copy; r:fold(rate); r:folded(parameter); r:offer(parameter, on) -> whether its gradient comes as factors, to the exchange of r:step; r:explain(); r:figures()
---@param rule table {rule="sgd"|"momentum"|..., rate=, scale=, decay=, mu=, beta2=, eps=, step=}
function core.update(device, rule, first, count, w, g, a, b) end -- elements first (from 0) .. first + count - 1 of all arrays
function core.norm2(device, first, count, x) end --> sum of squares
function core.device(name) end        --> true | nil, err: "cpu", "cuda", "reference" and kin
function core.place(device, tensor) end --> what its operations take: the tensor, or a copy in the device's own memory
function core.give(place, tensor) end -- tensor -> place; nothing if the place is the tensor
function core.fetch(place, tensor) end -- place -> tensor
---Gradients among the workers of a job (lua/host/kernel/exchange.c, docs/guides/exchange.md); scripts use nn.job. Ranks, layers and steps count from 1, elements from 0.
---@param o {rank:integer, workers:integer, elements:integer, layers:table[]} layers = {{first=, count=, matrices={{parameter=, first=, rows=, columns=}}}}
function core.exchange(o) end --> x | nil, err ({rank=, workers=, elements=, layers=, under_way=8388608}): x:address(); x:connect(addresses by rank); x:gradients(columns) -> tensor over its memory, the own ones; x:sum(columns) -> the same of what they add up to; x:took_part(step) -> ranks whose numbers are in the sums of a step; x:close(); x:plan() -> {epoch=, paths={"ps"|"factor"|"ring"}, formats={"f32"|"bf16"|"f16"|"topk"|"onebit"|"sparse"}, fanouts={n: peers that get a worker's factors from itself, 0: all}}; x:plan(plan)
-- x:ready(layer, step); x:share(step, {up to 13 numbers}, plan|nil: rank 1's for the next step); x:sums(step) -> {13 numbers}, whether the plan has changed; x:factors(layer, matrix, A, B, rows): the gradient of a matrix as two f32 tensors, before ready (made to one where the layer travels dense); x:next(layer, step) -> layer: this one, or another that has come and was not needed yet; x:need(layer, step, came as factors, parameters|nil, alpha, beta|nil) -> whether the parameters became beta (1) times themselves plus alpha times the factors' product; x:flush(): what others are to have of the steps so far has been sent; x:stats() -> {messages=, bytes=, payload=, busy_s=, waited_s=, skew_s=, layer_s=}
function core.digest(tensor) end      --> hexadecimal text, equal for equal bytes
function core.idx(path) end           --> f32 tensor 0..1, an example a row (rank 1: i32 labels), dims | nil, err; MNIST's format, gzip or not
---Numeric tools (kernels/decide/numeric.h): line, lines, least_squares, nnls, fit, minmax_split, assign, knapsack, makespan, ewma,
---quantile, hysteresis, rounds. docs/guides/policy-contract.md has their arguments; knapsack runs on a device too.
core.k = {}

function core.embedded(name) end      --> text of a file inside the program, "policies/batching/equal" | nil
function core.embedded_names(prefix) end --> list of their names

---- policies: values as bytes, and states that cannot be broken out of
function core.plain_encode(value) end --> bytes, equal for equal values | nil, err; numbers, strings, booleans, tables of them
function core.plain_decode(bytes) end --> value | nil, err
---@param memory_bytes integer cap
function core.sandbox(memory_bytes) end --> sandbox | nil, err
-- methods; budget = {instructions=, seconds=nil: no deadline}; fault = {kind="error"|"budget"|"memory"|"shape", message=, trace=}
-- s:load(source, chunk, budget) -> the policy table as bytes, functions as true | nil, fault
-- s:init(params, saved, seed, budget) -> true | nil, fault; s:decide(view, seed, budget) -> plan | nil, fault
-- s:export(budget) -> saved, or nil without such a function | nil, fault (all values as bytes)
-- s:usage() -> {instructions=, seconds=, memory_bytes=, memory_peak_bytes=, log=} of the last step; s:close()

---- consoles (lua/host/actor/console.c)
function core.console(memory_bytes, shared) end --> true | nil, err; this actor's state becomes a console's, for good: bounded libraries, a cap
function core.console_bytes() end     --> what the states of consoles that share their cap hold together in this process
function core.evaluate(limits, f, ...) end --> fiber, evaluation | nil, err; f(...) and the fibers it starts can be ended; limits {instructions=}
function core.evaluation(evaluation) end --> {instructions=, seconds=, memory_peak_bytes=, fibers=, over=nil|"instructions"|"time"|"memory"|"cancelled"}
function core.evaluation_cancel(evaluation, reason) end -- "cancelled" (default) or "time"
function core.evaluating() end        --> the evaluation of the calling fiber | nil

---- what people watch (lua/host/actor/watch.c)
function core.event(kind, text) end   -- something happened; this node keeps the newest 512
function core.events(after) end       --> {{number=, time= (s since 1970), kind=, text=}, ..} oldest first, numbers above `after`
function core.logged() end            --> {{number=, time=, level=, text=}, ..} this process's newest log lines, at most 256, oldest first
---@param rate integer samples a second, 1 to 1000
function core.tap(address, rate) end  --> tap | nil, err; of an actor of this node, one at a time
-- t:read() -> {samples={{at= (as core.now), from=, kind=, lane=, bytes=, text=}, ..}, seen=, passed_over=, dropped=, queued={messages by how long they waited for the actor, as waits of tables}, ended=}; t:close()

---- data and small things
function core.sha256(text) end        --> hex
function core.sha256_sum() end        --> sum of a text in pieces: sum:add(text), sum:hex() once
function core.encode(value) end       --> msgpack string ; core.decode(string) -> value
function core.json_encode(value) end  --> string (jansson; sorted keys) ; core.json_decode(text) -> value | nil, err
function core.random(seed) end        --> generator: :next() u64 as integer, :uniform(), :below(n), :state() -> text, :restore(text)
-- r:picture(x, row, picture, dx, dy): row of an f32 tensor = the square f64 picture shifted, dimmed at random, with noise
---The server of `tide dashboard`, from the plugin tide_http.so; of the thread that made it.
function core.http_listen(options) end --> {port=, served_as=, address=, keys=, cluster=}: of 127.0.0.1, or over TLS of the numeric `address`, with the certificate in the directory `keys`; served_as: the origin under which a proxy serves it -> server: s:port(), s:token(), s:page(path, type, text), s:publish(sample, state), s:next(seconds) -> nil | {id=, method=, target=, type=, accept=, body=, person=, right=}, s:people({{token=, name=, right=, until_s=}, ...}, revoked) besides the owner, s:answer(id, status, type, text), s:number(), s:served(), s:stats(), s:close(); nil, err: EBUSY the port is taken, EUNSUPPORTED no plugin
---The calls that a server of this process gets, in an actor: c:take() -> request as s:next gives | nil closed; c:answer as s:answer, with seconds of Retry-After behind it.
function core.http_calls(number) end --> calls | nil, err: EBUSY another actor takes them, ENOENT
---Processes of the local provisioner: dies with this process; output appended to a file.
function core.audit_open(directory, node) end --> true | nil, err: from now on this process has an audit log, begun with the first entry
function core.audit(entry) end        --> true | nil, err: {verb=, right=, subject=, result=, text=, peer=, durable=} is noted, if there is a log
function core.person(address) end     --> name of the person whose client or driver sends from there, or nil; without an address the user of this process
function core.audit_sync() end        --> true | nil, err: the audit log so far is on the disk
function core.harden(secrets) end     --> true | nil, err: no new privileges; secrets: no core dumps, no debuggers
function core.input_ended() end       --> has standard input ended?
function core.process(argv, options) end --> {output=, survive=, input=}; input: a pipe that this process holds; handle: h:pid(), h:signal(n), h:ended() -> nil | {status=, signal=}
function core.file_read(path) end     --> string | nil, err
function core.file_write(path, text, own) end --> atomic: temporary, fsync, rename; own: only this user may read it
function core.mkdir(path, mode) end   -- and those above it; permission bits, default 0777 less the umask; true if it exists
function core.file_list(path) end
function core.disk_room(path) end     --> bytes that this user may still write where it lies | nil, err
function core.file_remove(path) end
function core.terminal() end          --> {stdin=bool, stdout=bool, stderr=bool, width=n, height=n, utf8=bool}
function core.triples(paths, options) end --> data of tab-separated files: {entities={names}, relations={names}, parts={u32 tensor n x 3, ...}} | nil, err with file:line
---@param sources table 1 or 2 (train, test): path or {name=, text=}
---@param options? {format?:"auto"|"ratings"|"matrixmarket", test?:number, seed?:integer, center?:boolean, names?:boolean}
function core.matrix(sources, options) end --> {rows=, columns=, parts={train={cells=u32 tensor n x 2, values=f32 tensor}, test=}, row_counts=, column_counts= (u32 tensors, train), mean=, row_names=, column_names= (ids of ratings, if names), note=} | nil, err with file:line
---@param grid {rows:integer, columns:integer, blocks:integer, first:integer, count:integer} row blocks first (from 0) .. first + count - 1
function core.matrix_blocks(part, grid) end --> {cells=, values=} block after block, offsets (u64 tensor: one a block and the end)
function core.matrix_groups(part, o) end --> {cells=, values=} in a random order, the columns of each group of o.size cells (u64 tensor), offsets into it (u64 tensor: one a group and the end)
---@param sources table 1 or 2 (train, test): path (gzip or not) or {name=, text=}
---@param options {labels?:"number"|"class", base?:integer, columns?:integer, tasks?:boolean} tasks: parts have `tasks`, u32, the qid of each row
function core.libsvm(sources, options) end --> {parts={{offsets=u64, indices=u32, values=f32, labels=f32|i32 tensors}, ..}, columns=, base=, queries=rows with a qid, classes=f32 tensor|nil} | nil, err with file:line:column; row i (from 1) has entries offsets[i]+1 .. offsets[i+1]
function core.sparse_shuffle(rows, seed) end --> {offsets=, indices=, values=, order=u64 tensor}: row i is row order[i] (from 0) of the argument
function core.sparse_dense(rows, columns, first, count) end --> f32 tensor count x columns
---@param kind "mf"|"kge"|"text"|"sparse"|"lda"
function core.generate(kind, sizes) end --> {texts}: generated inputs; mf: rows, columns, train, test, rank, seed; kge: entities, relations, train, valid, test, seed; text: vocabulary, words, sentence, seed; sparse: train, test, columns, nonzeros, classes, seed; lda: vocabulary, topics, documents, length, words_mass, topics_mass, seed
---@param sources table 1 to 16: path or {name=, text=}
function core.corpus(sources, options) end --> {words={names}, counts= (u64 tensor), tokens= (u32 tensor of words from 0), dropped_words=, dropped_tokens=} | nil, err with file:line; options {min_count=}. Word 0 is the end of a line, "</s>"
---@param options {format?:string, keep_case?:boolean, skip?:integer, min_count?:integer, max_share?:number, stop?:any, vocabulary?:any, test?:number, test_last?:integer, seed?:integer} stop, vocabulary: a path or {name=, text=}
function core.bow(sources, options) end --> {train={offsets=u64, words=u32}, test=, names={..}|nil, counts=u64 tensor, vocabulary=, dropped_words=, dropped_tokens=} | nil, err with file:line:column
---A scratch file of tensors at byte offsets, removed when it is closed; waits on the disk thread.
function core.block_file(path) end    --> f | nil, err; f:write(tensor, at) -> sum | nil, err; f:read(tensor, at, sum) -> true | nil, err; f:close()
function core.safetensors_read(path) end --> {[name]=tensor}, {[key]=text}, {[name]=dims}, {[name]=why it is left out} | nil, err; of any writer, dims behind the first are columns
function core.npy(path) end           --> tensor, dims | nil, err; NumPy's, packed by gzip or not
function core.npz(path) end           --> {[name]=tensor}, {[name]=dims} | nil, err
function core.zip_sum(text) end       --> integer: its CRC-32
---@param options {columns?:table<string,string>, separator?:string, header?:boolean, missing?:number, others?:string} types: auto number integer class text skip
function core.words(text, keep_case) end --> its words, as core.bow finds them
function core.csv(path, options) end  --> {{name=, type=, values= (f64, i64, u32 tensor or texts), classes=, absent=, not_finite=}, ..}, {rows=, separator=, blank_lines=} | nil, err with file:line:column
function core.safetensors_write(path, tensors, about) end --> true | nil, err; whole or not at all
function core.glosses(directory, whole) end --> text: WordNet's glosses, a line of lower-case words each part of one | nil, err
function core.wordnet(directory, options) end --> {entities=, relations=, parts={train,valid,test}, note=text of rule and counts}

---- the simulated world (lua/host/sim/simulator.c). Scripts use tide.sim; sim_open, sim_close and sim_report are the program's.
function core.simulated() end         --> whether a world is open, whether this program (tide-sim) could open one
function core.sim_open(world) end     --> true | nil, err; {seed=, latency_min=, latency_max= (s), nic= (bytes/s, 0: none), flows=, trace=path}
function core.sim_files(node) end     --> {[path] = content} of the files on its disk
function core.sim_report() end        --> {seed=, virtual_s=, events=, hash=, faults=, faults_missed=, flows=, flow_computations=, flow_splits=, latency_min=, latency_max=, nic=} | nil
function core.sim_close() end
function core.sim_node(o) end         --> handle; {name=, cluster=, join=, workers=, no_store=, queue_limit=, memory=, rate_operations=, rate_bytes=}: made soon, in place of a process
function core.sim_ended(handle) end   --> nil | {status=, signal=, reason=}
function core.sim_kill(handle) end
---kind: crash restart pause cut reset flip truncate slowness nic latency markov disk; values as in lua/host/sim/simulator.c
function core.sim_fault(kind, at_s, a, b, ...) end
function core.sim_compute(call_s, row_s, kernel) end --> without a kernel: of all that have no cost of their own
function core.sim_rates(flop_s, byte_s) end --> of operations of programs, updates and products
function core.sim_work(flops, bytes) end --> the calling fiber computes as long as that takes on its node
function core.sim_calibrate() end     --> from now on what is computed is measured
---{[kernel] = {call_s=, row_s=, calls=, rows=, seconds=}}, {flop_s=, byte_s=, calls=, seconds=} of programs | nil
function core.sim_calibrated() end
function core.sim_net(net) end        --> {core=, window=, racks={[name]=rack}, pairs={{a, b, s}}, send=, receive=, byte=}
function core.sim_program() end       --> path of tide-sim | nil
function core.sim_become(words) end   --> nil, err; else this process is tide-sim

return core
