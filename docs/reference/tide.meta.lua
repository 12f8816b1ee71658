---@meta tide
-- Definitions for editors, made from the annotations of the source.

---@class tide
---@field tensor tide.tensor_module
---@field data tide.data_module
---@field kernel tide.kernel_module
---@field json tide.json_module
---@field units tide.units_module
---@field show tide.show_module
---@field chart tide.chart_module
---@field factors tide.factors_module
---@field lda tide.lda_module
---@field descent tide.descent_module
---@field multitask tide.multitask_module
---@field policy tide.policy_module
---@field package tide.package_module
---@field compute tide.compute_module
---@field formats tide.formats_module
---@field k tide.k
---@field sim tide.sim
---@field trials tide.trials_module
local tide = {}

---Declares and reads the script's flags.
---@param spec table<string, table> name = {doc, default=, type=, choices=, min=, above=, max=, required=}
---@return table<string, any> values
function tide.options(spec) end

---The function that runs on the driver once the script has loaded; elsewhere it is ignored.
---@param f fun()
function tide.main(f) end

---Makes a job: what is trained, on what data, by which code. The fields are those of the class `tide.job_fields`.
---@param fields tide.job_fields
---@return tide.job
function tide.job(fields) end

---Declares a class of actors, which cluster:group spawns on nodes: docs/guides/actors.md.
---@param fields table {name=, start=, ended=, <method>=}
---@return tide.actor_class
function tide.actor(fields) end

---The group that a reference means.
---@param ref table of group:ref()
---@return tide.group
function tide.group(ref) end

---The actor that is registered under a name on some node of the cluster, such as one written in C or a published group:
---docs/guides/embedding.md.
---@param name string
---@return tide.named_actor
function tide.lookup(name) end

---A table of the cluster by its name, such as "mf-1.factors": for actors, which belong to no run.
---@param name string
---@return tide.table_handle
function tide.open(name) end

---A table that is only read, from the checkpoints of a run: docs/guides/large-tables.md.
---@param o {dir: string, table: string, every?: string|number} every: follows newer generations by itself
---@return tide.reader
function tide.reader(o) end

---Features of several fields with widths of their own: docs/guides/large-tables.md.
---@param widths table<string, integer>
---@return tide.fields
function tide.fields(widths) end

---A native kernel by its name: a function of named arguments. `tide help kernels` lists them; `tide.kernel.load` adds
---others.
---@param name string
---@return fun(arguments: table): table<string, number>
function tide.kernel(name) end

---The integers a..b as an array.
---@param a integer
---@param b integer
---@return integer[]
function tide.range(a, b) end

---Monotonic seconds.
---@return number
function tide.now() end

---Calls f, as a span of this name in the trace of the cluster, if one is recorded; returns what f returns.
---@param name string
---@param f function
function tide.span(name, f, ...) end

---Writes a line to the log of this process.
---@param level "debug"|"info"|"warn"|"error"
function tide.log(level, ...) end

---Starts node processes on this machine; with `tide run --cluster C` the nodes are those of C.
---@param o? {nodes?: integer, workers?: integer}
---@return table cluster, to be closed: `local cluster <close> = tide.cluster {}`
function tide.cluster(o) end

---Runs f(...) concurrently in this script.
---@return table handle with wait, cancel, done
function tide.spawn(f, ...) end

---Runs all functions, waits for all, gives their first results in order. One that fails cancels the rest.
---@param functions function[]
---@return any[]
function tide.all(functions) end

---Runs f with a deadline.
---@param time string|number "2s"
---@param f function
---@return any ... of f; raises when the time is over
function tide.within(time, f) end

---Lets the calling fiber wait; others continue.
---@param time string|number
function tide.sleep(time) end

---A generator of random numbers: :next() a 64-bit integer, :uniform() in [0, 1), :below(n) in 0..n-1.
---@param seed integer
function tide.random(seed) end

---Numeric tools, the `k` of policies: see docs/guides/policy-contract.md.
tide.k = nil

---Times and sizes as text.
tide.units = nil

---"stays": worker 1 is slow from beginning to end. "moves": at any clock one worker is slow, drawn anew every `clocks`
---clocks (the slow worker may be drawn again). Each worker counts by its own clocks, so one that is behind is still
---slow in a clock which the others have left.
---@param o {workers: integer, kind?: "moves"|"stays"|"none", factor?: number, clocks?: integer, seed?: integer}
---@return fun(rank: integer, clock: integer): number factor of the worker in its clock; 1: not slow
function tide.straggler(o) end

---@class tide.fiber
local tide_fiber = {}

---Waits until the function has returned.
---@param timeout_s? number
---@return any ... what the function returned; raises what it raised
function tide_fiber:wait(timeout_s) end

---Ends the function where it waits.
function tide_fiber:cancel() end

---Whether the function has returned, failed or been canceled.
---@return boolean whether it has ended
function tide_fiber:done() end

---@class tide.job_fields
---@field name string identifier
---@field worker fun(w: tide.worker) runs once on every worker
---@field data? tide.data.set|integer|any[] a data set, how many examples there are, or a list of them
---@field chunks? integer into how many chunks a pass over the data is cut for w:chunks() (8 a worker)
---@field on_worker_loss? "replay"|"stop" what a lost worker means; default: replay if the data is cut into chunks
---@field on_loss? "stop" what lost rows of a table mean
---@field tables? table<string, table>|fun(data: tide.data.set): table<string, table> tables by their names
---@field params? table handed to the workers as w.params
---@field on_report? fun(run: table, sum: table): table|nil, string? once per report of all workers; its answer changes params, a second one ends the run, as stopped for that reason
---@field evaluate? table<string, fun(w: tide.worker): number|table, number> sum (or table of sums) and count
---@field stop? tide.job_stop when the run ends
---@field checkpoint? tide.job_checkpoint written now and then
---@field progress? {total?: integer, unit?: string} what the progress line counts up to
---@field seed? integer of random numbers
---@field workers? integer slots that it takes where none are said
---@field memory? string|integer memory cap of a run's tables on each node: "256MB"
---@field batch? integer|{total: integer, min?: integer, max?: integer} examples of a step over all workers, and of one
---@field prepare? fun(w: tide.worker) what a worker does before it says that it is ready
---@field policies? table<string, string|table> the policy of each kind: {batching = "batching/boa"}
local tide_job_fields = {}

---@class tide.job_stop
---@field epochs? integer after so many reports
---@field loss? number when the loss is at most this
---@field time? string|number after so much time
---@field metric? string a number of the reports: after `patience` reports in which it got no better
---@field per? string divided by this number of the reports (examples)
---@field patience? integer reports without a better one
---@field better? "less"|"more" which way is better (less)
---@field by? number the least that counts as better
local tide_job_stop = {}

---@class tide.job_checkpoint
---@field dir string the directory
---@field every? string|number time between two (60s)
---@field keep? integer generations that stay (3)
---@field cut? "clock"|"fuzzy" what tables with clocks are cut by
local tide_job_checkpoint = {}

---@class tide.job
local tide_job = {}

---@class tide.worker
---@field rank integer 1..workers
---@field workers integer how many there were when it began
---@field crowded boolean a machine has fewer processors than workers, as of the beginning of the run
---@field node string name of the node it runs on
---@field seed integer the job's seed; the same on all workers
---@field rng table generator seeded by job and rank
---@field tables table<string, table>
---@field data tide.data.set|integer|any[]|nil of a data set its own part; else what the job has
---@field params table
---@field batch integer|nil examples of its next step, of a job that declares `batch`
---@field comm table|nil newest plan of how gradients travel, of a job that declares `comm`: {epoch=, paths=, formats=}
---@field work table|nil newest batch and passes of a step, of a job whose batch changes: {total=, accum=}
---@field meet integer how often all of a job that meets were asked to
---@field begun integer reports of all before it began, where it joined
---@field suspends boolean|nil it was asked to leave together with all others
---@field clocks integer intervals ended so far; not 0 at the start of a resumed run
---@field passes integer passes over the data in chunks that are complete; not 0 at the start of a resumed run
---@field state table what the worker keeps for a resumed run: numbers, strings, tables of them
local tide_worker = {}

---Meets with all other workers: then they can send each other typed arrays, see tide.peers. Called again, it makes a
---view of those that run then: after one was lost, and where workers may have joined.
---@param value? any a value for all: `values` of the result has those of all, by rank
---@return tide.peers
function tide_worker:peers(value) end

---Reports numbers of this worker. Waits until every worker has reported: the numbers are summed, and the answer of
---on_report becomes w.params. With `wait = false` the numbers only move the progress line, and nothing waits. Numbers
---in `alike` are the same on all workers: the controller takes them from one worker in place of sums. Names that
---reports use themselves (n, clock, kind, elapsed_s, workers, rank, node, ...) are refused. A text or a boolean stays
---in the worker's entry of the report.
---@param fields table {loss=, examples=, ..., alike={...}, wait=false}
---@return table params
function tide_worker:report(fields) end

---Iterates over chunks of the data, one pass a call: `for chunk in w:chunks() do ... end`. The controller hands the
---next free chunk to each request; the loop ends for all workers when every chunk of the pass is complete. A chunk is
---complete when its worker comes for the next one: wait for its asynchronous operations before. What a lost worker had
---not completed another one does again. When the run is asked to stop, the loop ends behind the chunk in hand.
---@return fun(): tide.chunk|nil
function tide_worker:chunks() end

---Waits until every worker that still runs is at a barrier of this name. After it all workers read the same values.
---With `async` the worker continues, with what the others do not touch, and waits later, or looks whether they have
---come: `local arrival = w:barrier("block", nil, {async = true})`, `arrival:done()`, `arrival:wait()`. What was done
---before the arrival is seen by all behind the wait. Barriers pass in the order in which a worker comes to them, and so
---do reports: all workers come to the same ones in the same order.
---@param name? string
---@param value? any something that all are to know
---@param o? {async?: boolean}
---@return table|tide.arrival values by rank, if there are any
function tide_worker:barrier(name, value, o) end

---This worker will use keys of a table in its clocks `from` to `to` - 1 (w:clock() counts them): rows come here, or
---copies of those that others use too, when that is near. Nothing depends on it but speed.
---@param handle table of a table with technique "intent" or "relocate"
---@param keys integer[]|tensor
---@param from integer
---@param to? integer default from + 1
---@return boolean|nil ok nil: too many intents are queued already
function tide_worker:intent(handle, keys, from, to) end

---Ends this worker's clock interval: what it pushed is in flight, and others need not wait for it any more.
---@return integer clock
function tide_worker:clock() end

---Whether to leave the loop: looks for what has come meanwhile.
---@return boolean whether the run is asked to stop, or this node to leave: leave the loop after this step
function tide_worker:stopping() end

---Writes a record to the run's log.
---@param record table|string
function tide_worker:log(record) end

---Keeps a file with the run, on the disk of its controller: `tide job artifacts`, `tide runs artifacts`. A name that is
---kept again replaces the file. Raises what cannot be kept, and nothing of it is there then.
---@param name string letters, digits and . _ -; for tensors it ends in .npy, .npz, .safetensors or .csv
---@param value string|tide.tensor|table<string, tide.tensor> the path of a file, a tensor, or tensors by name
---@return tide.artifact {name, bytes, sha256, time, rank, node}
function tide_worker:artifact(name, value) end

---A value as it is now, such as a learning rate or a norm. The next report has it, as the mean over the workers that
---gave one; a later value takes the place of an earlier one.
---@param name string
---@param value number
function tide_worker:gauge(name, value) end

---Seconds until the value is closed are added to the next report as `<name>_s`.
---@param name string
function tide_worker:span(name) end

---@class tide.chunk
---@field pass integer 1 is the first pass over the data
---@field index integer which part of the data it is
---@field first integer its first example, from 1
---@field count integer
---@field last integer
local tide_chunk = {}

---Numbers of this chunk. They are added to the next report of all workers when the chunk is complete, once, whatever
---happens to workers: so the sums of a pass hold every example.
---@param fields table<string, number>
function tide_chunk:report(fields) end

---Iterates over this chunk in parts of `n` examples: `for first, last in chunk:steps(100) do ... end`. In a worker
---whose node is asked to leave the loop ends behind the part in hand: what was done counts, once, and others get the
---rest. Say by chunk:report what was done in each part, inside the loop.
---@param n integer
---@return fun(): integer?, integer?
function tide_chunk:steps(n) end

---@class tide.arrival a worker has come to a barrier
local tide_arrival = {}

---Whether all workers have come to the barrier.
---@return boolean whether all workers have come; looks for messages, as w:stopping() does
function tide_arrival:done() end

---Waits until all workers have come. What they did before they came is seen behind it.
---@return table values by rank, if there are any
function tide_arrival:wait() end

---@class tide.peers
---@field ranks integer[] of the workers in this view, in order
---@field index integer which of them this worker is, from 1
---@field view integer number of the view, the same on all; grows with every w:peers()
---@field values table<integer, any> by rank: what each gave to w:peers(value)
local tide_peers = {}

---Begins to send a value to a worker; it may be changed at once. Values of a pair and tag arrive in order.
---@param rank integer of this view; the own one too
---@param tag string|integer
---@param value any tensor of any size, or what core.send takes
---@param o? {give?: boolean} give: the tensor is not copied, and has no rows afterwards
---@return true|nil
---@return "lost"|nil
function tide_peers:send(rank, tag, value, o) end

---Waits for the next value of a worker with this tag.
---@param rank integer
---@param tag string|integer
---@return any value nil when that worker is gone and has not sent one
---@return "lost"|nil
function tide_peers:receive(rank, tag) end

---The values of all, by rank: all workers of the view call it with the same tag.
---@param tag string|integer
---@param value any
---@param o? {async?: boolean} async: gives a ticket with done() and wait()
---@return table<integer, any>|tide.peers.ticket|nil
---@return "lost"|nil
function tide_peers:gather(tag, value, o) end

---The sum of all workers' tensors, element by element, added in the order of ranks: the same bits on all.
---@param tag string|integer
---@param tensor table of the same type and size on all workers
---@return table|nil tensor a new one
---@return "lost"|nil
function tide_peers:sum(tag, tensor) end

---All to all: gives each worker its value of `map`, and gets what each has for this one. All workers of the view call
---it with the same tag; ranks outside of the map get nothing.
---@param tag string|integer
---@param map table<integer, any> by rank
---@return table<integer, any>|nil by rank
---@return "lost"|nil
function tide_peers:swap(tag, map) end

---Whether all that was done in this view reached all: all come here, at the end of a stretch that all have done
---or one has lost, and all get the same answer. Reports and barriers come behind it.
---@param value? any something that all are to know
---@return table<integer, any>|nil values by rank; nil: call w:peers() and do the stretch again
---@return "lost"|nil
function tide_peers:agree(value) end

---@class tide.peers.ticket what comes of an asynchronous gather
local tide_peers_ticket = {}

---Whether the values of all are here.
---@return boolean wait() would not wait
function tide_peers_ticket:done() end

---Waits until the values of all are here.
---@return table|nil values by rank
---@return "lost"|nil
function tide_peers_ticket:wait() end

---@class tide.run
---@field id string of the run's directory under .tide/runs
---@field name string "mf-1": what the cluster calls it
---@field number integer of the cluster's runs
---@field params table params of the workers as of the newest report
---@field history table[] the newest reports
---@field tables table<string, table> handles by the job's names of them
---@field policy table its policies: list, check, shadow, report, swap, set, rollback, history, why, replay
local tide_run = {}

---Keeps a file with the run, as w:artifact of its workers does. Raises what cannot be kept.
---@param name string letters, digits and . _ -; for tensors it ends in .npy, .npz, .safetensors or .csv
---@param value string|tide.tensor|table<string, tide.tensor> the path of a file, a tensor, or tensors by name
---@return tide.artifact {name, bytes, sha256, time}
function tide_run:artifact(name, value) end

---Lets workers come or go until there are `count`: new ones start on nodes of their own and begin after a report of
---all, the newest leave after one. For jobs whose work is bound to no rank.
---@param count integer
function tide_run:set_workers(count) end

---Lets a worker leave after its next report. The last one stays.
---@param rank integer
function tide_run:drop_worker(rank) end

---Iterates over what happens: "report" (once a report of all workers: the sums of its numbers, and n, clock,
---elapsed_s, workers; `stop`, the reason, where the run stops at this report) or "started". While the body runs, the
---workers wait in their report, so that run:evaluate there sees the parameters of exactly that report.
---@param kind "report"|"started"
---@return function iterator, nil, nil, table closing
function tide_run:events(kind) end

---Runs job.evaluate[name] on every worker, where the job stands at a report or barrier or has returned.
---@param name string
---@return number|table mean sum / count, 0/0 if nothing was counted; for a table of sums a table of means, with count
function tide_run:evaluate(name) end

---Waits until every worker has returned.
---@return tide.summary
function tide_run:wait() end

---What the run did so far, over all nodes.
---@return tide.summary
function tide_run:summary() end

---Asks the workers to stop at their next report or w:stopping().
---@param rule? string the script's own rule that ends it: then the run is done, and not stopped
function tide_run:stop(rule) end

---Writes a checkpoint while the workers continue, and waits until it is on disk.
---@param o? {dir?: string, cut?: "clock"|"fuzzy"} default: as the job's field `checkpoint` says
---@return table info {generation, clock, cut, full, rows, bytes, took_s}
function tide_run:checkpoint(o) end

---Changes params from the next report on.
---@param params table of those that the job has
function tide_run:set(params) end

---Lets all workers wait in their next report, or for their next chunk; true when they do. With `release` they leave
---there: their slots are free, the tables stay, and the run continues when it is resumed.
---@param o? {release?: boolean}
---@return true|nil, table? err
function tide_run:pause(o) end

---Resumes after a pause; one that released its slots waits for others first.
---@return true|nil, table? err
function tide_run:resume() end

---How far it is.
---@return string state running, paused, suspended, stopping, done, stopped, failed
---@return string? why
function tide_run:state() end

---A test aid, to see what stragglers do to a run: from its next report or chunk on this worker takes `factor` times as
---long as its work does. What it needs more it sleeps, so it does not matter how many cores there are; a `compute_s`
---that it reports is multiplied likewise.
---@param rank integer
---@param factor number 1: no longer
function tide_run:slow_worker(rank, factor) end

---Ends the workers now, and drops the run's tables: nothing of it stays on any node.
function tide_run:cancel() end

---Done with a run: what it holds on nodes is freed, its tables too. An active run is ended.
---`local run <close> = cluster:start(job)` does it at the end of the block; the end of the cluster does it for all.
function tide_run:close() end

---Writes the sums of the newest 1,000 reports or more, a line a report: `.csv`, or `.json`, an object a line; `.npz`
---has an array for each field.
---@param path string
---@param fields? string[] default: all numbers of reports
function tide_run:save_reports(path, fields) end

---Writes tables, one file each: `path` for a single one, `<path>.<name>.<ending>` for several. `.safetensors` has keys
---and what update rules remember, for t:load; `.npy` and `.csv` have the rows of dense tables, `.npz` those of all
---named ones in one file, by their names.
---@param path string
---@param names string[] the job's names of tables
---@return string[] paths
function tide_run:dump(path, names) end

---@class tide.summary
---@field run string
---@field reports integer
---@field elapsed_s number
---@field epoch_s number|nil mean time between reports
---@field examples number
---@field examples_per_s number
---@field loss number|nil of the newest report, per example
---@field pulls_local integer keys pulled from the worker's own node
---@field pulls_remote integer
---@field pushes_local integer
---@field pushes_remote integer
---@field local_share number|nil share of all accesses that stayed on the node
---@field remote_share number|nil
---@field queued integer accesses that waited for a row or slot on the move
---@field forwarded integer accesses that a home passed on to the owner
---@field relocated integer rows that changed their node
---@field relocations_per_s number
---@field relocate_p50_s number|nil from the request of a row to its arrival: quantiles, within a fifth
---@field relocate_p99_s number|nil
---@field location_used integer accesses that went straight to where the key was last
---@field location_stale integer those that did not find it there
---@field hottest table<string, tide.hot_key[]> by name of the table: its ten hottest keys
---@field not_finite integer pushed rows with a NaN or an infinity
---@field wire_bytes integer bytes between processes
---@field wire_messages integer frames between processes
---@field comm_bytes integer|nil sent by the exchange of gradients, of all workers
---@field comm_bytes_step number|nil of a worker in a step
---@field comm_s number|nil some gradient was in flight: sum over the workers
---@field comm_skew_s number|nil of which workers waited for others to end their step
---@field comm_wait_s number|nil of which workers waited for gradients that all had ready
---@field overlap number|nil share of comm_s without comm_skew_s that was hidden behind computing
---@field workers_lost integer workers that were lost in mid-run
---@field chunks_redone integer chunks that were done again for them
---@field nodes table[] the same figures by node
---@field staleness table<string, tide.staleness>|nil of tables with clocks, by their name in the job
local tide_summary = {}

---A printable table of one row.
---@param fields? string[] of the summary
---@return table printable by print and tostring; .rows has the exact values
function tide_summary:table(fields) end

---A printable table of one row a node.
---@param fields? string[]
---@return table
function tide_summary:by_node(fields) end

---Accesses on the nodes and elsewhere, as a chart: tide.chart.write("locality.svg", {summary:locality()}).
---@return tide.chart.bars
function tide_summary:locality() end

---Plain data for --json.
---@return table
function tide_summary:to_data() end

---@class tide.remote_run
---@field name string "mf-17"
---@field n integer
---@field job string
---@field state string queued, starting, running, paused, suspended, stopping, done, stopped, failed, lost
---@field why? string
---@field slots integer that it has
---@field wanted? integer slots that it asked for
---@field params? table
---@field progress table {report, loss, examples, rate, total} of its newest report
local tide_remote_run = {}

---Brings the fields of this handle up to date.
---@return tide.remote_run|nil self, table? err
function tide_remote_run:refresh() end

---Lets all workers wait in their next report, or for their next chunk; true when they do. With `release` they leave
---there: their slots are free, and the run continues when it is resumed.
---@param o? {release?: boolean, timeout?: string|number}
---@return true|nil, table? err
function tide_remote_run:pause(o) end

---Resumes; one that released its slots waits for others first. One that has ended, but is not done, begins anew from
---its newest checkpoint, as a run of its own.
---@param o? {timeout?: string|number}
---@return true|tide.remote_run|nil, table? err the new run, if this one has ended
function tide_remote_run:resume(o) end

---Changes params from the next report on. Unknown names are refused, unless `new`.
---@param params table
---@param o? {new?: boolean}
---@return true|nil, table? err
function tide_remote_run:set(params, o) end

---Workers join or leave until there are `count`. Those that join need free slots.
---@param count integer
---@return true|nil, table? err
function tide_remote_run:set_workers(count) end

---Asks the workers to stop at their next report; with `within` what has not stopped then is cancelled.
---@param o? {within?: string|number}
---@return true|nil, table? err
function tide_remote_run:stop(o) end

---Ends the workers now.
---@return true|nil, table? err
function tide_remote_run:cancel() end

---Waits until the run has ended.
---@param o? {timeout?: string|number}
---@return string|nil state done, stopped, failed or lost
---@return table? err
function tide_remote_run:wait(o) end

---What the script and its workers printed, and the error that ended the run: read by the run's host while it lives,
---else from its file on this machine. At most 64 KiB.
---@param o? {after?: integer} the position to begin at; default: the newest 64 KiB
---@return string|nil text, integer|table size of the log in bytes, or err, integer? next position behind the text
function tide_remote_run:log(o) end

---Files that the run keeps: read by the run's host while it lives, else from its directory on this machine.
---@return tide.artifact[]|nil, table? err
function tide_remote_run:artifacts() end

---Some of an artifact.
---@param name string
---@param at integer position
---@return string|nil text, integer|table size of the file, or err
function tide_remote_run:artifact_part(name, at) end

---One of its tables.
---@param key string the job's name of it
---@return table|nil handle, table? err
function tide_remote_run:table(key) end

---@class tide.cluster_options
---@field nodes? integer node processes (default 2)
---@field workers? integer workers of each node (default 1)
---@field servers? integer so many nodes of their own hold the rows (s1, s2, ...), and the nodes of workers none: their loss then costs no rows
---@field queue_limit? string|integer bound on a node's operations in flight (default: 4 MiB for each home)
---@field memory? string|integer memory cap of tables and queues on a node, at least 32MiB (default: none)
---@field rate? {operations?: integer, bytes?: string|integer} what each node may ask of others in a second
---@field controllers? 3|5 3 or 5 nodes keep the controller's decisions, and another one takes over if it ends (default: 1)
---@field silence? string|number how long a node may give no sign of life before it is declared dead (default: 10s; of a process of this machine that is gone 0.8s)
local tide_cluster_options = {}

---@class tide.start_options
---@field slots? integer worker slots of a run on a shared cluster (default: the job's `workers`, else all that are free)
---@field memory? string|integer memory cap of a run's tables on each node (at least 1MiB; default: the job's `memory`, else none)
---@field min? integer with a scheduling policy: slots that it needs at least
---@field max? integer slots that it takes at most
---@field sizes? "pow2"|integer[] the only numbers of slots that it takes: pow2, or 1,2,6
---@field weight? number how much its speed counts among others (default 1)
---@field preemptible? boolean false: it keeps its slots until it ends
local tide_start_options = {}

---@class tide.submit_options
---@field slots? integer worker slots of a run on a shared cluster (default: the job's `workers`, else all that are free)
---@field memory? string|integer memory cap of a run's tables on each node (at least 1MiB; default: the job's `memory`, else none)
---@field min? integer with a scheduling policy: slots that it needs at least
---@field max? integer slots that it takes at most
---@field sizes? "pow2"|integer[] the only numbers of slots that it takes: pow2, or 1,2,6
---@field weight? number how much its speed counts among others (default 1)
---@field keep? boolean its tables stay when the run is closed; `tide table drop` removes them
---@field grace? string|number after Ctrl-C or SIGTERM: workers that have not come to a report then are ended (default 30s)
---@field resume? string continue from the newest intact checkpoint in this directory
---@field time? string|number stop it when it has had its slots for so long: 90m, 12h (default: any time)
---@field priority? integer its place among the runs of its person that wait: higher ones first (default 0)
---@field args? string[] options of the script
local tide_submit_options = {}

---@class tide.cluster
local tide_cluster = {}

---Records what the nodes do until the trace is closed, which writes `path` for ui.perfetto.dev:
---`local trace <close> = cluster:trace "out.json"`. One at a time.
---@param path string
---@return table trace
function tide_cluster:trace(path) end

---Whether runs wait for their slots here, and may get others later.
---@return boolean
function tide_cluster:is_shared() end

---Lets a policy of the kind `scheduling` decide how many slots each run of this cluster has, from now on and while they
---continue; another one takes its place when it is called again. Without a policy they are given out in the order of
---submission.
---@param policy string|table|false a shipped name, a path, {policy=, params=}; false: none any more
---@param o? {params?: table, guard?: table, nodes?: tide.scheduler.pool} nodes: the policy adds and removes them
---@return true
function tide_cluster:schedule(policy, o) end

---The cluster's scheduling policy: list, swap, set, shadow, report, rollback, history, why, metric, as run.policy.
---@return table functions
function tide_cluster:scheduling() end

---Starts a run of a job on the nodes of this cluster, and returns at once.
---@param job_ tide.job
---@param params? table
---@param o? tide.start_options
---@return tide.run
function tide_cluster:start(job_, params, o) end

---Spawns actors of a class on nodes: docs/guides/actors.md.
---@param class tide.actor_class
---@param arguments any for its `start`
---@param o? {on?: string, each?: integer, restart?: integer, threads?: boolean, link?: boolean, publish?: string}
---@return tide.group to be closed
function tide_cluster:group(class, arguments, o) end

---Runs of this cluster, of all users, oldest first.
---@param o? {job?: string, state?: string, all?: boolean} all: ended ones too
---@return tide.remote_run[]
function tide_cluster:runs(o) end

---One of them by name, number or job: `cluster:run "mf-17":pause()`.
---@param name string|integer
---@return tide.remote_run|nil, table? err T0513
function tide_cluster:run(name) end

---Starts a script on this cluster in a process of its own, which stays when this one ends.
---@param path string
---@param o? tide.submit_options
---@return tide.remote_run|nil, table? err
function tide_cluster:submit(path, o) end

---A table by its name, `work-1.model` of the run work-1; docs/guides/runs.md.
---@param name string
---@return table|nil handle, table? err
function tide_cluster:table(name) end

---All that the cluster's nodes and runs count at this moment: docs/guides/metrics.md.
---@param o? {hot?: boolean} hot: the hottest keys of its tables too
---@return tide.snapshot
function tide_cluster:snapshot(o) end

---The bottleneck of each active run, by what happens in so much time from now: docs/guides/metrics.md.
---@param time? string|number default "2s"
---@return tide.finding[]
function tide_cluster:slowest(time) end

---Writes all tables to a directory while workers continue.
---@param o string|{dir: string, cut?: "clock"|"fuzzy", keep?: integer}
---@return table info {generation, clock, cut, full, rows, bytes, took_s}
function tide_cluster:checkpoint(o) end

---Brings all tables back to what they were; no worker should run.
---@param dir string
---@param generation? integer default: the newest that is whole
---@return table restored {generation, cut, clock, rows, skipped}
function tide_cluster:restore(dir, generation) end

---Ends the runs and, if this process started them, the nodes.
function tide_cluster:close() end

---Starts one more node. Without workers it holds rows; slots go there when they are moved (table:move,
---placement policies). With workers it holds none, and they join the active runs at the next report of all.
---@param name? string default: s1, s2, ... or, with workers, n1, n2, ... whichever is free first
---@param workers? integer
---@return string name
function tide_cluster:add_node(name, workers) end

---Lets a node of this cluster that has no workers leave in order: its rows go to the others.
---@param name string
function tide_cluster:drain(name) end

---Adds or drains nodes without workers until `count` hold rows for the others. One has to hold them.
---@param count integer
function tide_cluster:set_servers(count) end

---A test aid, to see what slow machines do to a run: from now on the process of a node gets at most this share of one
---core, workers and store together. It is stopped while it has had more. Simulated: its turns and kernels take so
---much longer.
---@param name string of a node
---@param share number|string 0.3 or "30%"; 1: all there is
function tide_cluster:cpu_share(name, share) end

---A test aid, to see what slow servers do to a run: from now on each key that a node serves to another takes it so
---much longer, and it does nothing else meanwhile.
---@param name string of a node
---@param time number|string seconds, or "50us"; 0: no longer
function tide_cluster:serve_cost(name, time) end

---Nodes of this cluster from a launcher, as `tide launch` starts them: {kind = "slurm", min = 1, max = 8, ...}, one
---pool a cluster. Waits until `min` have joined. What is lost is replaced; policies that scale ask for more.
---@param o {kind: string, max: integer, min?: integer, workers?: integer, store?: boolean, prefix?: string,
--- keys?: string, program?: string, grace?: string|number, partition?: string, gres?: string, cpus?: integer,
--- time?: string, hosts?: string, ssh_config?: string, simulate?: table}
function tide_cluster:provision(o) end

---Nodes of this cluster; with {want = N} the pool is to have so many.
---@param o? {want: integer}
---@return table[] members
function tide_cluster:nodes(o) end

---Runs a job once for each point of a space of params.
---@param given {cluster: table, job: tide.job, space: table<string, any>, search?: "grid"|"random"|"halving",
--- count?: integer, parallel?: integer, slots?: integer, metric?: string, goal?: "min"|"max", reports?: integer,
--- min_reports?: integer, eta?: integer, seed?: integer, record?: string, score?: fun(run, report): number}
---@return tide.trials.result
function tide.trials(given) end

---@class tide.trials_module
local tide_trials_module = {}

---A number between two, each as likely.
---@param low number
---@param high number
function tide_trials_module.uniform(low, high) end

---A number between two whose logarithm is drawn: for rates.
---@param low number above 0
---@param high number
function tide_trials_module.log_uniform(low, high) end

---A whole number from low to high, both included.
---@param low integer
---@param high integer
function tide_trials_module.whole(low, high) end

---@class tide.trials.result
---@field rows {trial: integer, params: table, state: string, score?: number, best?: number, reports: integer,
--- run?: string, why?: string, took_s: number}[] in the order of the trials
---@field best table the row with the best score
local tide_trials_result = {}

---All trials, for print.
---@return table printable one row a trial; .rows has the values
function tide_trials_result:table() end

---@class tide.table_fields
---@field keys table tide.dense(n) or tide.hashed {}: which keys there are
---@field width integer numbers of a row
---@field dtype? "f32" what rows are made of
---@field init? table|string tide.zero() (default), tide.uniform, tide.normal or tide.xavier: new rows
---@field update? table|string "add" (default), "assign", {"sgd", lr=}, ..: what a push does
---@field consistency? string "sequential" (default), "bsp", "ssp:N", "essp:N", "async", "vap:V": what pulls see
---@field durability? string|table "none", "strict", "window" or {window=, bytes=}: what an answered push promises
---@field memory? string|integer most bytes of rows in a node's memory; with `disk`
---@field disk? string the directory where the other rows lie; with `memory`
---@field seed? integer of the initial values (default: the job's)
---@field name? string its name in the cluster (default: made of the run's)
---@field keep? boolean it stays when its run is closed
---@field shared? boolean runs share the table of this name
---@field slots? "hash"|"range" how keys are spread over the nodes (default hash)
---@field wire? "f32"|"f16"|"bf16" numbers on the wire (default f32)
---@field technique? "static"|"relocate"|"replicate"|"intent" where rows are, and when they move or get copies (default static)
---@field clients? "write"|"read"|"none" what clients may do, beside their right (default write)
---@field send_order? "clock"|"magnitude"|"age"|"random" ssp and essp tables: what leaves first before a clock ends (default clock)
---@field refuse_nan? boolean fail a push with a NaN or an infinity, instead of counting it
---@field replicas? integer copies of each row on other nodes against loss: 0 (default), 1 or 2
---@field cache_bytes? integer clocked tables: most memory of copies on a node (default 1 GiB)
---@field unsubscribe_after? integer clocked tables: clocks after which a copy that no worker reads is evicted (default 16)
---@field bandwidth? integer ssp and essp tables: bytes a second to each node for early sends (default: as measured)
local tide_table_fields = {}

---Keys 0 .. n-1.
---@param n integer
function tide.dense(n) end

---Any 64-bit keys. A table over its limit refuses new ones, or has them take the place of others (`evict`).
---@param o? {limit?: integer, admit?: {after: integer}, expire?: {unused: string|number}, evict?: "lfu"}
function tide.hashed(o) end

---Rows begin as zeros.
function tide.zero() end

---Rows begin as numbers drawn from [low, high), the same for the same seed and key.
---@param o {low: number, high: number}
function tide.uniform(o) end

---Rows begin as numbers drawn from a normal distribution of mean 0, the same for the same seed and key.
---@param o {std: number}
function tide.normal(o) end

---Rows begin as numbers drawn from +- sqrt(6 / (fan_in + fan_out)).
---@param o {fan_in: number, fan_out: number}
function tide.xavier(o) end

---Describes a table of rows of 32-bit floats; each run makes its own. docs/guides/tables.md has all fields.
---@param fields tide.table_fields
---@return table spec
function tide.table(fields) end

---@class tide.table_handle A table of a run, `w.tables.NAME` in workers and `run.tables.NAME` on the driver.
---@field name string
---@field width integer numbers in a row
---@field spec table what it was made of
local tide_table_handle = {}

---Reads rows, one for each key.
---@param keys integer[]|tide.tensor
---@param o? {async?: boolean, into?: tide.tensor} async: a ticket at once; into: f32 tensor to write to
---@return tide.tensor|tide.ticket rows f32, keys x width
function tide_table_handle:pull(keys, o) end

---Applies rows by the table's update rule.
---@param keys integer[]|tide.tensor
---@param rows tide.tensor|number[]|number[][] f32 tensor, array of rows, or flat array
---@param o? {async?: boolean} async: a ticket at once
---@return true|tide.ticket
function tide_table_handle:push(keys, rows, o) end

---Reads only what this node holds; does not suspend.
---@param keys integer[]|tide.tensor
---@return tide.tensor rows
---@return tide.tensor hits u8: 1 where the row is here
function tide_table_handle:pull_local(keys) end

---Brings rows to this node, where access is then as fast as to one's own. Of a table with technique "relocate". Nothing
---depends on it but speed: it is not raised when there is no room.
---@param keys integer[]|tide.tensor
---@param o? {async?: boolean}
---@return true|tide.ticket|nil ok
---@return tide.error? err
function tide_table_handle:localize(keys, o) end

---Draws keys, for negative sampling. The level says what draws must promise, and chooses the scheme:
---docs/guides/tables.md.
---@param o {dist?: "uniform"|number[]|fun(): integer, level?: "conform"|"bounded"|"long_term"|"none", scheme?: string, first?: integer, count?: integer, group?: integer, reuse?: integer, seed?: integer}
---@return tide.sampler
function tide_table_handle:sampler(o) end

---The consistency, or a new bound of the same model on all nodes; ssp and essp change into each other.
---@param bound? string "essp:4"
---@return string|true consistency
function tide_table_handle:consistency(bound) end

---The learning rate in force, or another one for all nodes, also those that join later: pushes that reach their row
---after this returns are applied by it. docs/guides/tables.md.
---@param rate? number
---@return number|true|nil rate nil: the rule has none; nil, err: it cannot be changed
---@return tide.error? err
function tide_table_handle:rate(rate) end

---Gives slots to a node, waits until no node uses their old homes.
---@param slots integer[] 0 to 4095
---@param node integer id
---@return true
function tide_table_handle:move(slots, node) end

---Writes all rows of all nodes, and what the update rule remembers, as safetensors.
---@param path string
---@return true
function tide_table_handle:save(path) end

---Reads rows that were saved, or the rows of a file that another program wrote: then `tensor` names the one with the
---rows, and `keys` says whose they are.
---@param path string
---@param o? {tensor?: string, keys?: "rows"|string|integer|tide.tensor, add?: boolean} keys: "rows" (default): row i of the tensor is key i, from 0; the name of an integer tensor in the file; a first key; or a tensor of keys; add: pushed by the update rule, else assigned
---@return true
function tide_table_handle:load(path, o) end

---The values of rows become these, whatever the update rule; what the rule remembers stays. For rows that come from
---elsewhere: workers push.
---@param keys integer[]|tide.tensor
---@param rows tide.tensor f32, keys x width
---@return true
function tide_table_handle:assign(keys, rows) end

---The technique of keys, on all nodes: "relocate" to "replicate" and back. docs/guides/techniques.md.
---@param keys integer[]|tide.tensor
---@param technique "static"|"relocate"|"replicate"|"intent"
---@param o? {nodes?: integer[], rate?: number, threshold?: number, clip?: number}
---@return true
function tide_table_handle:manage(keys, technique, o) end

---The calling worker will use keys in its clocks `from` to `to` - 1; `w:intent` counts the worker's own clocks. Nothing
---depends on it but speed: it is not raised when too many are known already.
---@param keys integer[]|tide.tensor
---@param from integer
---@param to integer
---@return true|nil ok
---@return tide.error? err
function tide_table_handle:intent(keys, from, to) end

---What was pushed to copies on this node is in the rows when it returns.
---@return true
function tide_table_handle:flush() end

---How a key is managed.
---@param key integer
---@return string technique
---@return boolean copy this node has a copy
function tide_table_handle:technique(key) end

---The node that has the key, as far as this one knows.
---@param key integer
---@return integer id
function tide_table_handle:where(key) end

---The slot by which the key has its home.
---@param key integer
---@return integer slot 0 to 4095
function tide_table_handle:slot(key) end

---Counters of this node: accesses, bytes, rows, and of tables with clocks `staleness`.
---@return table
function tide_table_handle:stats() end

---The keys that this node's workers access most, estimated from 1 access in 64.
---@param n? integer default 10
---@return {key: integer, reads: integer, writes: integer, doubt: integer}[]
---@return integer total accesses to all keys
function tide_table_handle:hottest(n) end

---Prints its state on all nodes.
---@param o? {chart?: string} chart: a file for an SVG
function tide_table_handle:show(o) end

---How long fibers waited for other nodes: counts of less than 1, 2, 4, .. us.
---@return {pull: integer[], push: integer[]}
function tide_table_handle:waits() end

---Slots by the node that has them.
---@return table<integer, integer>
function tide_table_handle:homes() end

---How safe the rows are; does not suspend. docs/guides/faults.md.
---@return {mode: string, under_replicated: integer, lost: integer[], leases: string, unreplicated: integer, lost_updates: integer}
function tide_table_handle:health() end

---The home of each slot.
---@return tide.tensor u32
function tide_table_handle:slot_homes() end

---Keys served to other nodes, by slot.
---@return tide.tensor u64
function tide_table_handle:slot_served() end

---@class tide.ticket What an operation with `async = true` returns.
local tide_ticket = {}

---Waits until the operation is done.
---@param timeout_s? number
---@return tide.tensor|true|nil result
---@return tide.error? err
function tide_ticket:wait(timeout_s) end

---Whether it is done.
---@return boolean
function tide_ticket:done() end

---@class tide.sampler What `t:sampler` returns.
local tide_sampler = {}

---Announces a sample of n draws, the earlier the better.
---@param n integer
---@return any sample
function tide_sampler:prepare(n) end

---The next m draws of a sample.
---@param sample any
---@param m integer
---@return tide.tensor keys u64
---@return tide.tensor rows f32, m x width
function tide_sampler:pull(sample, m) end

---Ends a sample.
---@param sample any
function tide_sampler:finish(sample) end

---Its scheme, level and counts.
---@return table
function tide_sampler:stats() end

---@class tide.tensor_module
local tide_tensor_module = {}

---A tensor of zeros.
---@param type string f32, f64, i32, i64, u64, u8, u32, u16
---@param rows integer
---@param columns? integer
function tide_tensor_module.zeros(type, rows, columns) end

---A tensor with these values.
---@param type string
---@param values number[] row after row
---@param columns? integer 1
function tide_tensor_module.from(type, values, columns) end

---Rows of all given tensors of one type and width, in order.
---@param parts table[] tensors
---@return table tensor
function tide_tensor_module.join(parts) end

---The f64 tensor that t:split() took apart: split and joined are exact, so f64 numbers can live in tables' f32 rows.
---@param parts table f32 tensor of three numbers an element
---@return table tensor f64
function tide_tensor_module.joined(parts) end

---Reads what NumPy, safetensors or this module wrote: of .npy a tensor, of .npz and .safetensors tensors by name.
---@param path string
---@return table value raises what cannot be read, with the file and the byte
---@return table<string, string>? about metadata of safetensors
function tide_tensor_module.load(path) end

---Writes a tensor as .npy, .npz, .csv or .safetensors, by the path's ending; several by name as .npz, .safetensors or
---.csv.
---@param path string
---@param value tide.tensor|table<string, tide.tensor>
---@param about? table<string, string> metadata of safetensors
function tide_tensor_module.save(path, value, about) end

---@class tide.tensor A flat typed array of rows and columns, row after row. `t[i]` and `#t` count elements; `t[i]` costs as much as a hundred elements of a method, so it is for debugging. `a + b`, `a - b`, `a * b`, `a / b` make new tensors.
local tide_tensor = {}

---How many rows it has.
---@return integer
function tide_tensor:rows() end

---How many numbers a row has.
---@return integer
function tide_tensor:columns() end

---The type of its elements.
---@return "f32"|"f64"|"i32"|"i64"|"u64"|"u8"|"u32"|"u16"
function tide_tensor:type() end

---Some of its rows, in the same memory.
---@param first integer from 1
---@param count integer
---@return tide.tensor
function tide_tensor:slice(first, count) end

---Some of its elements, across rows, in another shape and the same memory.
---@param first integer element, from 1
---@param rows integer
---@param columns integer
---@return tide.tensor
function tide_tensor:view(first, rows, columns) end

---A tensor with memory of its own.
---@return tide.tensor
function tide_tensor:copy() end

---Sets every element; with a step, to v, v + step, v + 2 step, ...
---@param v number
---@param step? number
---@return tide.tensor self
function tide_tensor:fill(v, step) end

---Copies the rows of another tensor to those from `first` on.
---@param first integer from 1
---@param source tide.tensor
function tide_tensor:put(first, source) end

---Row i becomes the row of `source` that the i-th number names.
---@param source tide.tensor
---@param numbers tide.tensor u32, from 0
function tide_tensor:pick(source, numbers) end

---Sum of all elements, in double precision.
---@return number
function tide_tensor:sum() end

---Mean of all elements, in double precision.
---@return number
function tide_tensor:mean() end

---The least element.
---@return number
function tide_tensor:min() end

---The greatest element.
---@return number
function tide_tensor:max() end

---Puts the rows into a random order; the same seed gives the same.
---@param seed integer
---@return tide.tensor self
function tide_tensor:shuffle(seed) end

---Its memory as a string.
---@return string
function tide_tensor:bytes() end

---Its elements as a flat array, row after row.
---@return number[]
function tide_tensor:totable() end

---A tensor of another type. Whole numbers stay what they are and fractions are rounded; what does not fit is an error.
---@param type "f32"|"f64"|"i32"|"i64"|"u64"|"u8"|"u32"|"u16"
---@return tide.tensor
function tide_tensor:convert(type) end

---An element as text that reads as the same number again, as CSV files have it.
---@param i integer from 1
---@return string
function tide_tensor:text(i) end

---An f64 tensor as three f32 numbers an element, whose sum it is exactly: so f64 numbers can lie in tables. tide.tensor.joined puts them together.
---@return tide.tensor
function tide_tensor:split() end

---Adds a number, a tensor of this shape, a row to every row, or a column to every column.
---@param x number|tide.tensor
---@return tide.tensor self
function tide_tensor:add(x) end

---Subtracts, as add.
---@param x number|tide.tensor
---@return tide.tensor self
function tide_tensor:sub(x) end

---Multiplies element by element, as add.
---@param x number|tide.tensor
---@return tide.tensor self
function tide_tensor:mul(x) end

---Divides element by element, as add.
---@param x number|tide.tensor
---@return tide.tensor self
function tide_tensor:div(x) end

---Adds a times x: `w:axpy(-rate, gradient)`.
---@param a number
---@param x tide.tensor of this shape, a row, or a column
---@return tide.tensor self
function tide_tensor:axpy(a, x) end

---Sum of products with another tensor of as many elements, in double precision.
---@param x tide.tensor
---@return number
function tide_tensor:dot(x) end

---Square root of the sum of squares.
---@return number
function tide_tensor:norm() end

---Sum of each row.
---@return tide.tensor column
function tide_tensor:row_sums() end

---Sum of each column.
---@return tide.tensor row
function tide_tensor:column_sums() end

---Product of each row with the row of x, or with x's only row.
---@param x tide.tensor
---@return tide.tensor column
function tide_tensor:row_dots(x) end

---Greatest element of each row.
---@return tide.tensor column
function tide_tensor:row_max() end

---Least element of each row.
---@return tide.tensor column
function tide_tensor:row_min() end

---In which column each row's greatest element is, from 0; the first of equal ones.
---@return tide.tensor u32 column
function tide_tensor:argmax() end

---In which column each row's least element is, from 0; the first of equal ones.
---@return tide.tensor u32 column
function tide_tensor:argmin() end

---The rows that the numbers name.
---@param numbers tide.tensor of whole numbers, from 0
---@return tide.tensor
function tide_tensor:gather(numbers) end

---Row numbers[i] grows by row i of x, or by a number. Numbers may repeat.
---@param numbers tide.tensor of whole numbers, from 0
---@param x tide.tensor|number
---@return tide.tensor self
function tide_tensor:scatter_add(numbers, x) end

---Becomes `scale` a b + `keep` times itself; f32, by OpenBLAS.
---@param a tide.tensor
---@param b tide.tensor
---@param o? {transpose_a?: boolean, transpose_b?: boolean, scale?: number, keep?: number}
---@return tide.tensor self
function tide_tensor:matmul(a, b, o) end

---Rows become columns.
---@return tide.tensor
function tide_tensor:transpose() end

---Draws every element from [low, high); the same seed gives the same numbers.
---@param seed integer
---@param low? number default 0
---@param high? number default 1
---@return tide.tensor self
function tide_tensor:uniform(seed, low, high) end

---Draws every element from a normal distribution; the same seed gives the same numbers.
---@param seed integer
---@param mean? number default 0
---@param std? number default 1
---@return tide.tensor self
function tide_tensor:normal(seed, mean, std) end

---Computes every element anew, in one pass: `t:map("max(x, 0) / (1 + s)", {s = sums})`. `x` is the element, other names are values. There are + - * / ^, comparisons (1 or 0), exp log sqrt abs tanh sigmoid relu floor sign min max.
---@param expression string
---@param values? table<string, number|tide.tensor> tensors of this shape, rows or columns
---@return tide.tensor self
function tide_tensor:map(expression, values) end

---@class tide.data_module
local tide_data_module = {}

---Data that a function of the script's own reads, when something of it is first asked for. It returns a table with
---`parts`, tensors with one example a row by name, and any other fields that workers read from `w.data`; or nil and an
---error. Parts are cut and shuffled as those of files: each worker reads all and keeps its own piece. nn.job takes
---parts "train.x", "train.y", "test.x", "test.y".
---@param reader fun(): table|nil, table? {parts = {train = tensor}, count =, note =}, or nil and an error
---@return tide.data.set
function tide_data_module.lazy(reader) end

---The words of a text, as tide.data.bow finds them.
---@param text string
---@param keep_case? boolean
---@return string[]
function tide_data_module.words(text, keep_case) end

---A byte-pair code, learnt from a text: tokens 0 to 255 are bytes, each further one joins the most frequent pair of
---tokens within words. `code:encode(text)` is a list of tokens of any text, `code:decode(tokens)` that text.
---@param text string
---@param size integer tokens of the code, 256 or more; fewer if no pair occurs twice
---@return tide.data.byte_pairs
function tide_data_module.byte_pairs(text, size) end

---The same as tide.data.matrix, which recognises ratings by the first line.
---@param where string|table
---@param options? table
---@return tide.data.matrix_set
function tide_data_module.ratings(where, options) end

---Data of the script's own that is read piece by piece: `read(first, last)` gives examples first..last (1-based).
---w.data:examples() is a worker's piece at once, w.data:stream block by block.
---@param o {count: integer, read: fun(first: integer, last: integer): any}
function tide_data_module.source(o) end

---A knowledge graph: train.txt, valid.txt, test.txt with one `head TAB relation TAB tail` a line.
---@param where string|table a directory, or {train=, valid=, test=}
---@param options? {ids?: boolean} ids: the fields are numbers from 0 on, not names
---@return tide.data.set entities, relations (names), entity_count, relation_count, parts train, valid, test
function tide_data_module.triples(where, options) end

---The WordNet database as a knowledge graph of synsets, split without leaks.
---@param directory? string default: the place of Debian's package wordnet-base
---@param options? table passed to the reader
---@return tide.data.set as tide.data.triples; note names the rule of the split
function tide_data_module.wordnet(directory, options) end

---Ratings (user, item, rating) or a MatrixMarket coordinate file. `tide.data.ratings` is the same.
---@param where string|table a file, a directory with train.* and test.*, {train=, test=}, or tide.data.generate(...)
---blocks: P, a multiple of all workers. row_bytes instead: of a table's row; then P is chosen by the caches. Neither:
---P = workers.
---@param options? {split?: {test: number, seed?: integer}, blocks?: integer, center?: boolean, names?: boolean,
--- partition?: "rows", row_bytes?: integer, format?: "auto"|"ratings"|"matrixmarket"}
---@return tide.data.matrix_set
function tide_data_module.matrix(where, options) end

---Running text, a sentence a line, as numbers of words.
---@param where? string|string[]|{generate: table} files; "glosses" (default): those of WordNet; "generated": text
--- with known topics, or {generate = {vocabulary=, words=, sentence=, seed=}} of these sizes
---@param options? {min_count?: integer, format?: "text"} words that occur less often are left out; format: a file
--- that looks like another form (MatrixMarket, word:count, JSON) is text all the same
---@return tide.data.text_set
function tide_data_module.text(where, options) end

---Sparse examples, one `label index:value ...` a line.
---@param where string|table a file, {train=, test=}, or {generate={train=, test=, columns=, nonzeros=, classes=,
---seed=}}: classes = 0 gives the lasso's task, labels that are numbers
---several tasks: {generate={tasks=, rows=, columns=, rank=, noise=, seed=}}, or {files={name = path}}, one a task
---@param options? {labels?: "number"|"class", base?: 0|1, columns?: integer, tasks?: "qid"} labels "class": the
---distinct labels, rising, become 0, 1, ..; base: of the indices in the text (else 0 if an index 0 occurs, 1 if none
---does); tasks "qid": the qid of a line is its task
---@return tide.data.set columns, classes (f32 tensor of the labels as written), parts train and test
function tide_data_module.libsvm(where, options) end

---Sparse examples of a MatrixMarket file, one a row, with a file of labels: a number a line, or `matrix array`.
---@param path string `%%MatrixMarket matrix coordinate`
---@param labels string a file with a label for each row
---@param options? {labels?: "number"|"class", tasks?: string} labels "class": the distinct labels, rising, become 0,
---1, ..; tasks: a file with the number of each row's task
---@return tide.data.set columns, classes, part train
function tide_data_module.market(path, labels, options) end

---Dense examples of a safetensors file: a matrix, one example a row, and labels.
---@param path string a safetensors file
---@param names? {x?: string, y?: string} tensors of the examples, one a row, and of their labels; default "x", "y"
---@return tide.data.set columns, part train
function tide_data_module.dense(path, names) end

---Documents for a topic model. Read when first used.
---@param where? string|string[] files; "glosses" (default): those of WordNet; "generated A", "generated B"
---@param options? {format?: "auto"|"uci"|"ldac"|"pairs"|"text"|"counts"|"matrixmarket", base?: 0|1,
--- vocabulary?: string, stop?: string, keep_case?: boolean, skip?: integer, min_count?: integer, max_share?: number,
--- test?: number, test_last?: integer, seed?: integer}
--- vocabulary: a file with a word a line, or lines `id word`, for formats of numbers; base: the number of the first
--- word of "pairs", else 0 if a 0 occurs and 1 if none does. Of text: stop: a file of words that are left out,
--- or "english"; skip: fields of a line before its words; min_count, max_share: rarer words, and words of a larger
--- share of the documents, are left out. test: share of the documents that is kept apart, drawn by seed; test_last:
--- as many of the last ones instead
---@return tide.data.bow_set
function tide_data_module.bow(where, options) end

---Trees, sentences and other graphs for models of `nn.vertex`.
---@param where string|table a directory or file; {train = FILE, dev =, test =}; {generate = "random_trees" |
---"skewed_trees" | "balanced_trees" | "chains" | "lattices", samples =, test =, vocabulary =, seed =, max =,
---leaves =}
---@param o? {format?: string, classes?: integer, vectors?: string} format of files: "sexpr" (default), "parents",
---"lists", "stanford", "sentences"; vectors: a file of word vectors, "word v1 v2 .." a line, perhaps packed by gzip
---@return tide.data.set count (vertices with a label), samples, vocabulary, classes, words (of files with words),
---vectors (those of the file: how a table of words begins), parts train, dev, test
function tide_data_module.forest(where, o) end

---Images in MNIST's format with labels; parts train.x, train.y, test.x, test.y.
---@param directory? string with MNIST's files; nil: generated
---@param o? {test?: number, seed?: integer, count?: integer} test: share held out where there is one pair of files
function tide_data_module.images(directory, o) end

---NumPy's arrays as inputs by name: an array a file, one example a row; `tide.data.npy {x = "x.npy", y = "y.npy"}`. A single path is the input `x`.
---@param where string|table<string, string> path, packed by gzip or not, or paths by name
---@param o? {split?: {test: number, seed?: integer}, wide?: boolean} split: a share is held out; wide: numbers of 64 bits stay, else they become f32 and i32
---@return tide.data.set parts train.NAME and, with a split, test.NAME; dims by name
function tide_data_module.npy(where, o) end

---The arrays of NumPy's .npz, stored or compressed, as inputs by name.
---@param where string
---@param o? {names?: table<string, string>, split?: {test: number, seed?: integer}, wide?: boolean} names: {x = "features"}, default all by their own names
---@return tide.data.set parts train.NAME and, with a split, test.NAME; dims by name
function tide_data_module.npz(where, o) end

---The tensors of a safetensors file of any writer as inputs by name. f16 and bf16 become f32, i8 and i16 i32.
---@param where string
---@param o? {names?: table<string, string>, split?: {test: number, seed?: integer}, wide?: boolean} names: {x = "features"}, default all by their own names
---@return tide.data.set parts train.NAME and, with a split, test.NAME; dims by name
function tide_data_module.safetensors(where, o) end

---A table of text, packed by gzip or not, read piece by piece: a line of names, then an example a line. A column is a number if its first row has one, else a class; `columns` says otherwise.
---@param path string
---@param o? {columns?: table<string, "number"|"integer"|"class"|"text"|"skip">, inputs?: table<string, string|string[]>, separator?: string, decimal?: "."|",", header?: boolean, missing?: number, split?: {test: number, seed?: integer}, wide?: boolean} inputs: {x = {"a", "b"}, y = "label"}, "*" for all other numbers; default each column by its own name; missing: what a cell without a value (empty, NA, null, nan) counts in a column of numbers; header: whether line 1 has names, which have to be texts if it is not said
---@return tide.data.set parts train.NAME and, with a split, test.NAME; classes and texts by the column's name
function tide_data_module.csv(path, o) end

---Sizes of a generated matrix, for tide.data.matrix: nothing is made before it is asked for.
---@param sizes string|{rows: integer, columns: integer, train: integer, test: integer, rank: integer, seed: integer}
---@return tide.data.generated
function tide_data_module.generate(sizes) end

---@class tide.data.set
---@field count integer examples in the training part (on a worker: in its own piece)
---@field note string where the data is from and how it was split, for people
local tide_data_set = {}

---Whole part: "train", "valid", "test".
---@param name string
---@return table tensor one example a row
function tide_data_set:whole(name) end

---The part as this worker sees it: its own piece, in an order that is shuffled once by the job's seed so that pieces
---are alike. On the driver: the whole part.
---@param name string
---@return table tensor
function tide_data_set:part(name) end

---The same data as seen by one of several workers.
---@param rank integer 1..workers
---@param workers integer
---@param seed integer
---@return tide.data.set
function tide_data_set:cut(rank, workers, seed) end

---The part cut so that rows with one value in a column are one worker's, as far as that keeps pieces alike. On the
---driver: the whole part, whose values are all its own.
---@param name string
---@param column integer 1-based
---@return table tensor one example a row, in the order of the file
---@return integer[] own values that no other worker has
---@return integer[] shared values that other workers have as well
function tide_data_set:clustered(name, column) end

---The triples of a part by pairs of buckets of entities, each worker at its turn: `for pair in w.data:buckets(w,
---o):epoch(n) do ... end` with pair.triples and pair.seed; see buckets.lua.
---@param w tide.worker
---@param o? {part?: string, entities?: table, epochs?: integer} part: "train"; entities: the table, if its rows move to
--- who uses them; epochs: number of the last one
---@return tide.data.rotation
function tide_data_set:buckets(w, o) end

---Iterates over a part in batches: first row (from 0, as kernels count) and number of rows.
---@param name string
---@param size integer rows in a batch
function tide_data_set:batches(name, size) end

---Goes through this worker's examples in blocks, in an order that differs from pass to pass and depends on the job's
---seed alone: `for block, pass in w.data:stream(w, {size = 1000, passes = 3}) do ... end`. The place is kept in
---w.state, so a resumed run continues with the next block: let w:clock() or w:report end the body. A block is what the
---source's `read` gives, or rows of a part.
---@param w tide.worker
---@param o {size: integer, passes?: integer, part?: string} passes: 1; part: of data sets that have parts
---@return fun(): any, integer? block, pass
function tide_data_set:stream(w, o) end

---Parts train, validate and test within each task of the part "train"; shares that add up to 1.
---@param o {train: number, validate?: number, test?: number, seed?: integer}
---@return tide.data.set
function tide_data_set:split(o) end

---What the reader of a tide.data.source gives for this worker's examples.
---@return any
function tide_data_set:examples() end

---@class tide.data.matrix_set
---@field rows integer
---@field cols integer
---@field row_limit integer a table key that no row has: where columns may begin
---@field count integer cells to train on (on a worker: in its own blocks)
---@field blocks integer P
---@field mean number what was subtracted from all values, else 0
---@field row_counts table u32 tensor: training cells of every row; column_counts of every column
---@field note string where the data is from, for people
local tide_data_matrix_set = {}

---Reads the data once; raises the reader's error with its file:line.
function tide_data_matrix_set:read() end

---The data as seen by one of several workers: an equal run of row blocks each.
function tide_data_matrix_set:cut(rank, workers) end

---The cells of a part.
---@param name "train"|"test"
---@return {cells: table, values: table} on a worker: of its own row blocks
function tide_data_matrix_set:part(name) end

---The blocks of this worker's rows, whole width: for evaluation. A block's columns are its share of all columns.
---@param name "train"|"test"
---@return fun(): tide.data.block|nil
function tide_data_matrix_set:strips(name) end

---Keys of all rows of this worker.
---@return table u64 tensor
function tide_data_matrix_set:row_keys() end

---This worker's blocks in the order of DSGD: `for block in w.data:rotation(w):epoch(n) do ... end`, with all waiting
---that this takes; see rotation.lua.
---@param w tide.worker
---@param o? {epochs?: integer, columns?: table} columns: the table of columns, if they move to their users
---@return tide.data.rotation
function tide_data_matrix_set:rotation(w, o) end

---All cells of this worker in a random order, in groups: `for group in w.data:groups(w, o):epoch(n) do ... end`; see
---groups.lua.
---@param w tide.worker
---@param o {order: "columnwise"|"plain", size?: integer, columns?: table, fetch?: "localize"|"intent",
--- ahead?: integer}
---@return tide.data.groups
function tide_data_matrix_set:groups(w, o) end

---@class tide.data.bow_set
---@field train tide.data.documents
---@field test tide.data.documents documents kept apart; may have none
---@field vocabulary integer words of the dictionary
---@field counts table u64 tensor: how often each word occurs in all documents
---@field names string[]|nil names[w + 1] is word w; nil: the data has numbers alone
---@field documents integer to train on
---@field tokens integer to train on
---@field note string where the data is from, for people
local tide_data_bow_set = {}

---The same data with the words to train on in a file, which goes with it: `train.words` has #, and slice(first, count)
---that reads. Reading takes memory by documents and words of the dictionary, not by tokens. What has been read stays.
---@param path fun(): string of the file, but for its ending, when it is read; its directory is there then
---@return tide.data.bow_set
function tide_data_bow_set:spooled(path) end

---The word of a number.
---@param word integer from 0
---@return string
function tide_data_bow_set:name(word) end

---Perplexity of the test documents under the words' shares in the training documents alone: what a topic model has to
---beat.
---@param beta? number added to each count; default 0.01
function tide_data_bow_set:unigram(beta) end

---@class tide.data.sparse_rows
---@field offsets table u64 tensor, rows + 1: row i (from 1) has the entries offsets[i] + 1 .. offsets[i + 1] of
---@field indices table u32 tensor, from 0 and rising in a row, and
---@field values table f32 tensor; both belong to all rows that were read, also behind a slice
---@field labels table f32 tensor, or i32 of classes from 0
---@field tasks table|nil u32 tensor: the number of each row's task
---@field columns integer
local tide_data_sparse_rows = {}

---How many examples it has.
---@return integer
function tide_data_sparse_rows:rows() end

---Rows first .. first + count - 1 (from 1); shares storage.
---@return tide.data.sparse_rows
function tide_data_sparse_rows:slice(first, count) end

---These rows (from 1), in this order, in storage of their own.
---@param list integer[]
---@return tide.data.sparse_rows
function tide_data_sparse_rows:take(list) end

---Entries of all rows.
---@return integer
function tide_data_sparse_rows:entries() end

---Shares storage until it is shuffled.
---@return tide.data.sparse_rows
function tide_data_sparse_rows:copy() end

---Puts the rows in an order that depends on the seed alone. Rows that share storage with these stay as they are.
---@param seed integer
function tide_data_sparse_rows:shuffle(seed) end

---Rows first .. first + count - 1 (from 1; default all) with their zeros.
---@return table f32 tensor count x columns
function tide_data_sparse_rows:dense(first, count) end

---The entries of a row (from 1): index (from 0), value.
function tide_data_sparse_rows:row(i) end

---@class tide.data.dense_rows
---@field x table f32 tensor, one example a row
---@field labels table f32 tensor
---@field columns integer
local tide_data_dense_rows = {}

---How many examples it has.
---@return integer
function tide_data_dense_rows:rows() end

---Rows first .. first + count - 1 (from 1); shares storage.
---@return tide.data.dense_rows
function tide_data_dense_rows:slice(first, count) end

---The same rows, with numbers of their own in the order.
---@return tide.data.dense_rows
function tide_data_dense_rows:copy() end

---Puts the rows in an order that depends on the seed alone. Rows that share storage with these stay as they are.
---@param seed integer
function tide_data_dense_rows:shuffle(seed) end

---@class tide.forest_part
local tide_forest_part = {}

---How many samples it has.
---@return integer samples
function tide_forest_part:rows() end

---Samples first .. first + count - 1, from 1, of this part; shares storage.
---@param first integer
---@param count integer
function tide_forest_part:slice(first, count) end

---The same samples as order[1], order[2], .. say (numbers from 0).
---@param order table u32 tensor
function tide_forest_part:reorder(order) end

---Samples of this part in an order of their own.
---@param order table u32 tensor: numbers of samples of this part, from 0
function tide_forest_part:numbered(order) end

---Vertices that count: whose index `label` is not -1; without it all.
---@param label? string
---@param kinds? string[] of vertices that count; all
---@return integer
function tide_forest_part:counted(label, kinds) end

---Iterates over batches, each a part.
---@param size integer samples
---@param o? {shuffle?: integer} seed of the order; without it that of the file
function tide_forest_part:batches(size, o) end

---Vertices of each sample, which is what it costs.
---@return table u32 tensor, in the forest's order
function tide_forest_part:weights() end

---How many vertices its samples have.
---@return integer vertices of the whole forest
function tide_forest_part:vertices() end

---The same samples, labelled at their roots alone.
---@param name? string the index, "label" without it
function tide_forest_part:roots(name) end

---An input of the whole forest: a row a vertex (or an edge).
function tide_forest_part:input(name) end

---@class tide.data.rotation
local tide_data_rotation = {}

---The blocks of one epoch: `for block in rotation:epoch(n) do ... end`. All workers go through the same epochs. At the
---end others may still be at work on their last blocks: w:barrier() waits for all.
---@param epoch integer from 1
---@return fun(): any
function tide_data_rotation:epoch(epoch) end

---@class tide.data.groups
local tide_data_groups = {}

---The groups of one epoch: `for group in groups:epoch(n) do ... end`. Each epoch has an order of its own. At the end
---others may still be at work: w:barrier() waits for all.
---@param epoch integer from 1
---@return fun(): tide.data.group|nil
function tide_data_groups:epoch(epoch) end

---@class tide.kernel_module
local tide_kernel_module = {}

---Loads the kernels, the operations of programs and the update rules of tables of a shared object. At the top of a
---script it runs on every node, and all have to have the same file. A rebuilt file is loaded again;
---active runs keep the old functions.
---@param path string relative to the script
---@return table<string, tide.kernel_function> module kernels and operations by name; `version` is what the module says
function tide_kernel_module.load(path) end

---@class tide.group
---@field size integer members, those that are lost included
local tide_group = {}

---Calls a method of every member and waits for all.
---@param method string
---@return table<integer, any> got answers by rank
---@return table<integer, tide.error>|nil lost why there is none, by rank; nil: all have answered
function tide_group:call(method, ...) end

---Sends to every member, without an answer. A member whose method raises ends.
---@param method string
function tide_group:cast(method, ...) end

---Calls a method of every member: `for rank, value, err in g:each("add", 1) do`, as the answers come.
---@param method string
---@return fun(): integer?, any, tide.error?
function tide_group:each(method, ...) end

---What happens to members from now on, as it happens: `for c in g:changes() do print(c.rank, c.state, c.why) end`. It
---ends with the group, or when nothing has happened for so long.
---@param timeout_s? number default: no limit
---@return fun(): {rank: integer, node: string, state: string, life: integer, why: string?}?
function tide_group:changes(timeout_s) end

---Some members, by rank.
---@param ranks integer[]
---@return tide.group
function tide_group:ranks(ranks) end

---Some members, by their nodes: "n[2-3]", "n1", "@all".
---@param nodes string
---@return tide.group
function tide_group:on(nodes) end

---The same members, whose calls wait so long.
---@param seconds number
---@return tide.group
function tide_group:within(seconds) end

---Its members and how they are.
---@return table[] {rank, node, state, life, address, why}: state is starting, up, restarting, lost or ended
function tide_group:members() end

---Something that travels: `tide.group(ref)` in a worker or member is the same group.
---@return table
function tide_group:ref() end

---Ends the members; each one's `ended` is called first.
function tide_group:close() end

---@class tide.generator Of `tide.random(seed)`, and `w.rng` of a worker. The same seed gives the same numbers.
local tide_generator = {}

---The next 64 random bits.
---@return integer
function tide_generator:next() end

---A number in [0, 1).
---@return number
function tide_generator:uniform() end

---A whole number in 0 .. n - 1, all equally likely.
---@param n integer
---@return integer
function tide_generator:below(n) end

---Draws an image into a row of `x`: a square picture, shifted, each pixel with a brightness of its own and noise.
---@param x tide.tensor f32, a row an image
---@param row integer from 1
---@param picture tide.tensor f64 1 x (size * size)
---@param dx integer columns to shift by
---@param dy integer rows to shift by
function tide_generator:picture(x, row, picture, dx, dy) end

---Where it stands, as text, for `restore`.
---@return string
function tide_generator:state() end

---Continues from a state.
---@param state string
function tide_generator:restore(state) end

---@class tide.json_module
local tide_json_module = {}

---A value as JSON, keys sorted.
---@param value any nil, booleans, numbers, strings, arrays, string-keyed tables
---@return string
function tide_json_module.encode(value) end

---The value that JSON says.
---@param source string
---@return any value
---@return tide.error? err T0402 when the text is not JSON
function tide_json_module.decode(source) end

---The objects of JSON lines. What is none, and a last line without its end, is left out: a kill cut it off.
---@param source? string nil: none
---@return table[]
function tide_json_module.lines(source) end

---An object some of whose fields are arrays that may be empty: an empty table of Lua has no kind of its own.
---@param fields table<string, any>
---@param arrays table<string, any[]>
---@return string
function tide_json_module.object(fields, arrays) end

---@class tide.units_module
local tide_units_module = {}

---Seconds of "250us", "20ms", "30s", "5m", "2h" or a number.
---@param value string|number `250us 20ms 30s 5m 2h`; a bare number is seconds
---@return number? seconds
---@return string? why
function tide_units_module.parse_duration(value) end

---Bytes of "64KiB", "4MB" or a number.
---@param value string|number `64KiB 4MiB 2GiB` (1024), `kB MB GB` (1000); a bare number is bytes
---@return integer? bytes
---@return string? why
function tide_units_module.parse_size(value) end

---Bytes a second of "10Gbit", "1.2GB" or a number.
---@param value string|number `10Gbit 800Mbit 1.2GB` a second (`/s` may follow); a bare number is bytes per second
---@return number? bytes_per_s
---@return string? why
function tide_units_module.parse_rate(value) end

---A fraction of "10%" or a number.
---@param value string|number `10%` or a fraction
---@return number? fraction
---@return string? why
function tide_units_module.parse_share(value) end

---A count with three digits and k, M, G or T.
---@param n number
---@return string `8.4k`
function tide_units_module.format_count(n) end

---Bytes with three digits and KiB, MiB or GiB.
---@param bytes number
---@return string `3.2 MiB`
function tide_units_module.format_size(bytes) end

---A rate with three digits.
---@param per_s number
---@param unit? string what is counted, "ex"
---@return string `702 ex/s`
function tide_units_module.format_rate(per_s, unit) end

---A fraction as percent.
---@param fraction number
---@return string `99.2%`
function tide_units_module.format_share(fraction) end

---Seconds with three digits and their unit.
---@param seconds number
---@return string `250 us`, `20 ms`, `1.5 s`, `2m 05s`, `3h 07m`, `2d 04h`
function tide_units_module.format_duration(seconds) end

---Time as a clock, for progress lines.
---@param seconds number
---@return string `00:12`, `1:02:03`
function tide_units_module.format_clock(seconds) end

---An integer of 64 bits without sign, as keys are: Lua shows those from 2^63 on as negative.
---@param n integer
---@return string
function tide_units_module.format_unsigned(n) end

---@class tide.show_module
local tide_show_module = {}

---A number as the console prints it.
---@param number number
---@return string
function tide_show_module.number(number) end

---A string as the console prints it, cut.
---@param s string
---@param most? integer default 200
---@return string quoted, escaped, cut after so many characters
function tide_show_module.string(s, most) end

---Any value as text.
---@param value any
---@param o? {width?: integer, unicode?: boolean, full?: boolean} default 100 and true; full: 100,000 items a table, 32
--- levels, 1 MiB a string, 8 MiB in all
---@return string
function tide_show_module.value(value, o) end

---@class tide.chart_module
local tide_chart_module = {}

---Charts below each other: those with `heat` are maps of numbers, those with `groups` bars, others lines.
---@param charts (tide.chart.lines|tide.chart.bars)[]
---@return string svg
function tide_chart_module.svg(charts) end

---Writes charts below each other as an SVG file, and creates its directories if they are missing.
---@param path string
---@param charts table as of chart.svg
---@return true|nil, table? err
function tide_chart_module.write(path, charts) end

---@class tide.factors_module
local tide_factors_module = {}

---Multiclass logistic regression by gradients; l2 is the weight of |W|^2 / 2. The data has classes.
---@param o? {lr?: number|fun(step: integer): number, l2?: number}
function tide_factors_module.mlr(o) end

---The same by dual coordinate ascent, which needs no rate. sigma: by how much steps of a batch, which start from the
---same parameters, are taken back; it doubles when an epoch lowers the dual objective.
---@param o {l2: number, sigma?: number}
function tide_factors_module.sdca(o) end

---Distance metric learning: a projection to `width` numbers in which examples of one class are near each other and
---others at a distance of 1 at least; weight: of the latter. Two pairs an example.
---@param o? {lr?: number, l2?: number, width?: integer, weight?: number}
function tide_factors_module.metric(o) end

---Sparse coding: a dictionary of `atoms` rows of length 1 at most, and codes with the weight l1 on their magnitudes.
---@param o? {lr?: number, atoms?: integer, l1?: number}
function tide_factors_module.coding(o) end

---A job that trains a model (factors.mlr, sdca, metric, coding) on sparse rows (tide.data.libsvm).
---Its reports have loss, examples, correct, penalty, entropy, factors (rows of factors), nonzeros (of their values),
---steps, resyncs, and figures of the exchange; run:evaluate "test" gives loss and correct of the part "test".
---@param o table {name, model, data, batch (of all workers together), epochs, seed?, comm?: as in nn.job}
---@return tide.job
function tide_factors_module.job(o) end

---Primal objective of a report, and of factors.sdca its distance from the dual one: the optimum is no further away.
---@return number objective, number gap
function tide_factors_module.objective(report) end

---@class tide.lda_module
local tide_lda_module = {}

---A job that draws topics.
---@param given {name: string, corpus: tide.data.bow_set, topics: integer, passes: integer, alpha?: number|number[],
--- beta?: number, sampler?: "auto"|"gibbs"|"warp"|"light"|"xy", mode?: "auto"|"rotate"|"exchange"|"store",
--- parts?: integer, steps?: integer, doc_move?: "other"|"lightlda", eval_every?: integer, keep?: integer,
--- memory?: string, spill?: string, seed?: integer, consistency?: string, checkpoint?: table, optimize?: "alpha",
--- check?: boolean}
--- alpha: of a document's topics, 0.1; beta: of a topic's words, 0.01; parts: of the documents, into which work is
--- cut; steps: cycles of `light`; eval_every: passes between log-likelihoods, 10; keep: passes between writes of the
--- topics to table `z`, 10; memory: limit of a worker; spill: directory for what is beyond it; optimize: the prior
--- of each topic is fitted every 20 passes from the 50th on; check: test aid, counts
--- are checked
---@return tide.job
function tide_lda_module.job(given) end

---Perplexity of the test documents of a report: nil if it has none.
---@param report table
function tide_lda_module.perplexity(report) end

---The topics that a run has learnt.
---@param run table of a job of tide.lda
---@return tide.lda.model
function tide_lda_module.model(run) end

---A model that model:save has written.
---@param path string file
---@return tide.lda.model
function tide_lda_module.load(path) end

---@class tide.lda.model
---@field topics integer
---@field vocabulary integer
---@field counts table f32 tensor: n_kw, a row a word, padded to 16
---@field totals table f64 tensor: n_k
---@field alpha table f32 tensor
---@field beta number
---@field names string[]|nil
local tide_lda_model = {}

---p(w | k) of all words: rows of words.
---@return table f32 tensor, padded to 16
function tide_lda_model:phi() end

---The word of a number.
function tide_lda_model:name(word) end

---Numbers of the words of each topic, the most probable first: a u32 tensor topics x n.
function tide_lda_model:top(n) end

---The n most probable words of a topic.
---@param topic integer from 1
---@param n? integer default 10
---@return string[]
function tide_lda_model:top_words(topic, n) end

---Topics by how many tokens they have, the largest first.
---@return integer[] from 1
function tide_lda_model:by_size() end

---Word numbers of a text or of a list of words; how many were unknown.
function tide_lda_model:words_of(value) end

---Topics of new documents: a text, or a list of words or word numbers, or an array of these.
---@param documents string|table
---@param o? {steps?: integer}
---@return table theta f32 tensor, documents x topics
---@return integer unknown words, which were left out
function tide_lda_model:theta(documents, o) end

---The same of documents as tide.data.bow has them.
function tide_lda_model:theta_of(documents, o) end

---How well the top words of topics stand together in the training documents.
---@param n? integer words of a topic, 10
---@return {umass: number[], npmi: number[], umass_mean: number, npmi_mean: number}
function tide_lda_model:coherence(n) end

---Writes the model to a directory: model.safetensors (counts, totals, alpha), vocabulary.txt, topics.txt.
---@param path string
function tide_lda_model:save(path) end

---Topics as text, the largest first: number, prior, tokens, words.
---@param n? integer
function tide_lda_model:topics_text(n) end

---Each training document's topics as MALLET writes them: number, name, shares of all topics. Written document by
---document, so that a corpus of any size fits.
---@param path string
function tide_lda_model:save_documents(path) end

---The state of all tokens as MALLET writes it: document, source, position, type index, type, topic.
---@param path string
function tide_lda_model:save_state(path) end

---@class tide.descent_module
local tide_descent_module = {}

---The lasso: 1/2 sum w (y - b - X x)^2 + lambda sum c |x|.
---@param o table {name, data, lambda or share (of the largest that lets a variable in), tolerance = 1e-6 (of the
--- objective), intercept, standardise, positive, penalty = weights c of variables, weights = w of examples,
--- mode = "auto"|"gram"|"sets", gram_most, seed, checkpoint; for sets: set, check, theta, tau, floor, order, ahead}
---@return tide.job
function tide_descent_module.lasso(o) end

---The elastic net: the lasso with ridge/2 sum x^2, or with `mix`: lambda mix |x| + lambda (1 - mix)/2 x^2.
---@param o table as of descent.lasso, and ridge or mix
---@return tide.job
function tide_descent_module.enet(o) end

---L1-penalised logistic regression: sum w log(1 + exp(-y (b + X x))) + lambda sum c |x|; labels of two classes.
---@param o table as of descent.lasso
---@return tide.job
function tide_descent_module.logistic(o) end

---A path of penalties from the largest that lets a variable in, with warm starts, and cross-validation.
---@param o table as of descent.lasso without lambda, and model = "lasso"|"enet"|"logistic", lambdas = how many (100) or
--- a falling list, ratio = the last over the first (1e-3), folds = nil or how many
---@return tide.job
function tide_descent_module.path(o) end

---A model of three small functions: push(w, set, x) gives this worker's part of sums, pull(x, set, sums) the changes of
---the set's variables, apply(w, set, changes, x) makes what follows from them on this worker. divide(w, index, size, x)
---says which part of the examples is this worker's from now on; objective(w, x) is its part of what falls.
---schedule(state, round) gives the candidates of a round (state:active(n), :priority(n), :random(n), :blocks(n), or a
---list); dependency(j, k) how much j and k spoil each other, 0 to 1.
---@param o table {name, variables, push, pull, ..., set, check, theta, tau, floor, order, ahead, rounds, seed}
---@return tide.job
function tide_descent_module.job(o) end

---The variables that a run of descent.job has found, or had come to when it was stopped.
---@param run tide.run
---@return table f64 tensor
---@return boolean stopped
function tide_descent_module.variables(run) end

---Matrix factorisation by cyclic coordinate descent: sum (R - W H)^2 + l2 (|W|^2 + |H|^2) over the cells that are
---there; weighted: a row's and a column's squares count as often as it has cells. Tables w and h have the factors.
---@param o table {name, data = tide.data.matrix(..), rank = 10, l2, weighted, passes = 20, inner = 1, tolerance, seed}
---@return tide.job
function tide_descent_module.ccd(o) end

---What a run has found, or had come to when it was stopped (`stopped`); an error where there is nothing yet.
---@param run tide.run
---@return tide.descent.model
function tide_descent_module.model(run) end

---@class tide.descent.model
---@field coefficients table f64 tensor, one a column
---@field intercept number
---@field stopped boolean whether the run stopped before its end: these are the coefficients it had come to
local tide_descent_model = {}

---How many coefficients are not 0.
---@return table<integer, number> coefficients that are not 0, by column from 1
function tide_descent_model:nonzero() end

---Scores b + x.coefficients of rows; for logistic regression their sign is the class, s(score) its probability.
---@param rows table a part of a data set
---@return table f64 tensor
function tide_descent_model:predict(rows) end

---@class tide.multitask_module
local tide_multitask_module = {}

---A job that learns tasks together: sum_i mean loss of task i + lambda/2 tr(W' S^-1 W).
---@param o table {name, data (rows with tasks), loss = "squared"|"hinge"|"smoothed"|"logistic", relation = "auto"|
--- "learned"|"independent"|{"mean", c}|matrix|{graph =}, lambdas, standardise = true, bias = true, tolerance = 1e-6,
--- solver = "cg" (squared) or "sdca", validate = 0.2, steps = 5 outer ones at most, passes = 1 over the examples a
--- round, deadline = nil or times the median pass at which a round of sdca ends, smooth, seed, checkpoint,
--- rho = nil or "rows", the looser bound by sums of rows, without = numbers of tasks that are left out at first;
--- run:set {without = {..}} lets tasks go and come}
---@return tide.job
function tide_multitask_module.job(given) end

---The examples as a job has them; read once.
function tide_multitask_module.problem(o) end

---What a run has found, or had come to when it was stopped (`stopped`); an error while it still chose lambda and
---relation.
---@param run tide.run
---@return tide.multitask.model
function tide_multitask_module.model(run) end

---@class tide.multitask.model
---@field stopped boolean whether the run stopped before its end: these are the parameters it had come to
local tide_multitask_model = {}

---Predictions for new rows of a task: numbers, or scores whose sign is the class.
---@param task integer as the data numbers it
---@param rows table rows as of a data set
---@return number[]
function tide_multitask_model:predict(task, rows) end

---By task: {task =, count =, squares =, right =, around = squares of the labels around their mean} of a part.
---@param name "train"|"validate"|"test"
---@return table[]
function tide_multitask_model:errors(name) end

---Root of the mean squared error over all examples of a part.
---@param name? "train"|"validate"|"test"
---@return number
function tide_multitask_model:rmse(name) end

---Share of the variance of a part that is explained: 1 - squared error over squared deviation from the mean of all its
---examples.
---@param name? "train"|"validate"|"test"
---@return number
function tide_multitask_model:explained_variance(name) end

---The learnt covariance of tasks.
---@return table f64 tensor m x m, of trace 1
function tide_multitask_model:covariance() end

---The learnt correlation of tasks.
---@return table f64 tensor m x m
function tide_multitask_model:correlation() end

---A chart of the correlations, for tide.chart.
---@return table
function tide_multitask_model:chart() end

---@class tide.package_module
local tide_package_module = {}

---Kernels by name, those of the package's plugin included; each is found when it is first asked for.
---@type table<string, tide.kernel_function>
tide_package_module.kernels = nil

---An error of the catalogue, to be raised or returned: `tide help errors` lists the codes.
---@param code string "T0113" for a wrong argument
---@param message string one sentence
---@param fields? {where?: string, help?: string} where: "file:line"; help: what to do, in place of the catalogue's
---@return tide.error
function tide_package_module.error(code, message, fields) end

---What was raised or returned, as an error of the catalogue.
---@param value any
---@return tide.error
function tide_package_module.error_from(value) end

---Raises a wrong argument (T0113); its place is the line of the script.
---@param message string
---@param help? string what to do
function tide_package_module.fail(message, help) end

---Raises unless `given` is a table that has known fields alone; names the nearest known field.
---@param code string of the catalogue
---@param what string what was called with it: "tide.lda.job"
---@param given any
---@param known table<string, any> by name
function tide_package_module.check_fields(code, what, given, known) end

---What a help says of a word that is not known: "did you mean `x`?", or the known ones.
---@param word string
---@param known table<string, any> by name
---@return string
function tide_package_module.did_you_mean(word, known) end

---The names in a table, in order.
---@param t table<string, any>
---@return string[]
function tide_package_module.sorted_keys(t) end

---Says how the workers of a job work together, at the core's extension points: `communication`, `adaptation`,
---`meeting`, `batch`. Call it where the job is made, on all processes. docs/guides/own-packages.md has the points.
---@param job tide.job
---@param points {communication?: tide.extension.communication, adaptation?: tide.extension.adaptation,
--- meeting?: tide.extension.meeting, batch?: tide.extension.batch}
---@return tide.job
function tide_package_module.extend(job, points) end

---Makes a class of data sets known: its objects have `count`, the examples to train on, and `cut(self, rank, workers,
---seed)`, which returns the set as that worker sees it. A job takes such an object as `data`.
---@param class table metatable of the objects
function tide_package_module.data_set(class) end

---Whether a value is a data set, of any package.
---@param value any
---@return boolean
function tide_package_module.is_data_set(value) end

---First row (from 1) and number of rows of one of `workers` contiguous pieces, whose sizes differ by at most one.
---@param count integer
---@param rank integer 1..workers
---@param workers integer
---@return integer first, integer size
function tide_package_module.piece(count, rank, workers) end

---What this Lua state is: "driver", "controller", "worker" or "actor".
---@return string
function tide_package_module.role() end

---How many copies of its rows a table may have in this cluster, so that what was learnt outlives a node.
---@return integer replicas 0 where one node alone has a store
function tide_package_module.copies() end

---The job that a run is of, with the fields that the package has given it.
---@param run tide.run
---@return tide.job
function tide_package_module.job_of(run) end

---The name of this node.
---@return string
function tide_package_module.node() end

---A name that no other actor of the cluster has: of a scratch file, say.
---@return string
function tide_package_module.own_name() end

---Makes a directory, and those above it; one that is there is fine.
---@param path string
function tide_package_module.make_directory(path) end

---Reads a file.
---@param path string
---@return string bytes; raises what went wrong
function tide_package_module.read_file(path) end

---The names of the files in a directory; nil where it is none.
---@param path string
---@return string[]|nil
function tide_package_module.list_files(path) end

---Writes a file, whole or not at all.
---@param path string
---@param bytes string
function tide_package_module.write_file(path, bytes) end

---A scratch file of tensors at offsets: `f:write(tensor, at)` gives a sum, `f:read(tensor, at, sum)` fills the tensor
---and checks it. Both let other fibers run meanwhile; `f:close()` removes the file.
---@param path string
---@return table file; write and read return nil and an error where the disk failed
function tide_package_module.scratch_file(path) end

---@class tide.compute_module
local tide_compute_module = {}

---Whether there is a device of this name: "cpu", "cuda", "reference" (float64, for tests), "reference32".
---@param name string
---@return true|nil found, table? err
function tide_compute_module.device(name) end

---What operations on a device take in place of a tensor: the tensor itself, or a copy in the device's own memory.
---@param device string
---@param tensor tide.tensor
---@return table place
function tide_compute_module.place(device, tensor) end

---Copies a tensor to its place; nothing where the place is the tensor.
---@param place table
---@param tensor tide.tensor
function tide_compute_module.give(place, tensor) end

---Copies a place to its tensor; nothing where the place is the tensor.
---@param place table
---@param tensor tide.tensor
function tide_compute_module.fetch(place, tensor) end

---The sum of the squares of elements of a place.
---@param device string
---@param first integer
---@param count integer
---@param x table place
---@return number
function tide_compute_module.norm2(device, first, count, x) end

---Statistics of elements of an f32 or f64 tensor: count, bad (not finite), zeros, and of the finite ones mean, std,
---least, greatest.
---@param x tide.tensor
---@param first integer
---@param count integer
---@return table<string, number>
function tide_compute_module.statistics(x, first, count) end

---Applies an update rule to the elements first .. first + count - 1 of places on a device.
---@param device string
---@param rule {rule: string, rate: number, scale?: number, decay?: number, mu?: number, beta2?: number, eps?: number,
--- step?: integer} rule: "sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam" and kin
---@param first integer
---@param count integer
---@param w table place of the parameters
---@param g table place of the gradients
---@param a? table place of what the rule remembers
---@param b? table the second one
function tide_compute_module.update(device, rule, first, count, w, g, a, b) end

---Applies an update rule of tables to some rows of a tensor.
---@param rule {rule: string, rate: number, scale?: number, eps?: number, beta2?: number}
---@param array tide.tensor
---@param state tide.tensor|nil what the rule remembers, a row for each of the array
---@param ids tide.tensor u64
---@param gradients tide.tensor a row for each id
function tide_compute_module.rows_update(rule, array, state, ids, gradients) end

---Copies rows of a tensor: row i of `into` becomes row ids[i] of the array.
---@param into tide.tensor
---@param array tide.tensor
---@param ids tide.tensor u64
function tide_compute_module.rows_get(into, array, ids) end

---Puts rows into a tensor: row ids[i] of the array becomes row i of `from`.
---@param array tide.tensor
---@param ids tide.tensor u64
---@param from tide.tensor
function tide_compute_module.rows_put(array, ids, from) end

---Multiplies a tensor by a number.
---@param array tide.tensor
---@param factor number
function tide_compute_module.rows_scale(array, factor) end

---A program of operations: `p:input`, `p:parameter`, `p:apply`, `p:map`, `p:output` build it and return a value's
---number, `p:differentiate` adds the gradients, `p:plan(device, "train")` makes a run of it.
---@param name string
---@return table program
function tide_compute_module.program(name) end

---The exchange of gradients among the workers of a job: `x:connect(addresses)`, `x:ready(layer, step)`,
---`x:share(step, numbers)`, `x:sums(step)`, `x:need(layer, step, ...)`, `x:stats()`, `x:close()`.
---@param o {rank: integer, workers: integer, elements: integer, layers: table[], under_way?: integer} layers:
--- {first=, count=, matrices={{parameter=, first=, rows=, columns=}}}
---@return table|nil exchange, table? err
function tide_compute_module.exchange(o) end

---Calls a function as a span of this fiber, which `tide stacks` and traces name.
---@param name string
---@param f function
---@param ... any its arguments
---@return any ... what it returns
function tide_compute_module.span(name, f, ...) end

---A short digest of a tensor, equal for equal bytes: to compare replicas.
---@param tensor tide.tensor
---@return string hexadecimal
function tide_compute_module.digest(tensor) end

---SHA-256 of a text, or of a value of numbers, texts, tensors and tables of them.
---@param value any
---@return string hexadecimal
function tide_compute_module.sha256(value) end

---@class tide.formats_module
local tide_formats_module = {}

---The error of a reader as scripts see it: its place becomes `where`.
---@param err any
---@return tide.error
function tide_formats_module.error(err) end

---The arrays of a file of any writer. Arrays of objects and texts are left out; to index one of them is an error.
---@param path string
---@param format? "npy"|"npz"|"safetensors" default: by the path's ending
---@return table<string, tide.tensor>|nil tensors, table dims by name, or an error
---@return table<string, string>? left_out why, by name
---@return table<string, string>? about metadata of safetensors
function tide_formats_module.arrays(path, format) end

---Writes tensors, in the format of the path's ending: .npy, .npz, .csv or .safetensors.
---@param path string
---@param value tide.tensor|table<string, tide.tensor>
---@param about? table<string, string> metadata of safetensors
---@return true|nil, table? err
function tide_formats_module.write_arrays(path, value, about) end

---Writes tensors by name as safetensors, whole or not at all, whatever the path's ending.
---@param path string
---@param tensors table<string, tide.tensor>
---@param about? table<string, string> metadata
---@return true|nil, table? err
function tide_formats_module.write_safetensors(path, tensors, about) end

---Images or labels in MNIST's format.
---@param path string
---@return tide.tensor|nil f32 of 0 .. 1, an example a row; of labels i32
---@return integer[] dims, or an error
function tide_formats_module.idx(path) end

---The columns of a CSV file.
---@param path string
---@param options table columns, separator, decimal, header, missing, others
---@return table[]|nil columns {name=, type=, values=, classes=, absent=, not_finite=}
---@return table form {rows=, separator=, blank_lines=}, or an error
function tide_formats_module.csv(path, options) end

---A line of CSV, with its end.
---@param count integer
---@param value_at fun(i: integer): any
---@return string
function tide_formats_module.csv_line(count, value_at) end

---Sparse rows of files in libsvm's form.
---@param sources table one or two: train, test
---@param options {labels?: "number"|"class", base?: integer, columns?: integer, tasks?: boolean}
---@return table|nil read {parts={{offsets=, indices=, values=, labels=}}, columns=, base=, queries=, classes=}
---@return table? err
function tide_formats_module.libsvm(sources, options) end

---Sparse rows in another order.
---@param rows table offsets, indices, values
---@param seed integer
---@return table rows {offsets=, indices=, values=, order=}: row i was row order[i] (from 0)
function tide_formats_module.sparse_shuffle(rows, seed) end

---Sparse rows as a dense tensor.
---@param rows table
---@param columns integer
---@param first integer
---@param count integer
---@return tide.tensor f32
function tide_formats_module.sparse_dense(rows, columns, first, count) end

---Cells of a matrix, from ratings or MatrixMarket's form.
---@param sources table one or two: train, test
---@param options? {format?: string, test?: number, seed?: integer, center?: boolean, names?: boolean}
---@return table|nil read {rows=, columns=, parts=, row_counts=, column_counts=, mean=, note=}
---@return table? err
function tide_formats_module.matrix(sources, options) end

---Cells block after block of a grid.
---@param part table cells, values
---@param grid {rows: integer, columns: integer, blocks: integer, first: integer, count: integer}
---@return table part, tide.tensor offsets u64: one a block, and the end
function tide_formats_module.matrix_blocks(part, grid) end

---Cells in a random order, and the columns of each group of them.
---@param part table cells, values
---@param o {size: integer, seed: integer}
---@return table part, tide.tensor columns, tide.tensor offsets
function tide_formats_module.matrix_groups(part, o) end

---Text as word numbers.
---@param sources table 1 to 16
---@param options {min_count?: integer}
---@return table|nil read {words=, counts=, tokens=, dropped_words=, dropped_tokens=}
---@return table? err
function tide_formats_module.corpus(sources, options) end

---Documents as bags of words.
---@param sources table
---@param options table format, keep_case, skip, min_count, max_share, stop, vocabulary, test, test_last, seed
---@return table|nil read {train=, test=, names=, counts=, vocabulary=}
---@return table? err
function tide_formats_module.bow(sources, options) end

---The words of a text, as formats.bow finds them.
---@param text string
---@param keep_case? boolean
---@return string[]
function tide_formats_module.words(text, keep_case) end

---The numbers (from 0) of the words that a file of word vectors has, and their vectors.
---@param path string
---@param words string[]
---@return tide.tensor|nil numbers u64
---@return tide.tensor vectors f32, or an error
function tide_formats_module.word_vectors(path, words) end

---WordNet's glosses, a line of lower-case words each.
---@param directory string
---@param whole? boolean a line a gloss, not one a part of it
---@return string|nil text, table? err
function tide_formats_module.glosses(directory, whole) end

---The WordNet database as triples.
---@param directory string
---@param options table
---@return table|nil read {entities=, relations=, parts=, note=}
---@return table? err
function tide_formats_module.wordnet(directory, options) end

---Triples of files of lines `head TAB relation TAB tail`.
---@param paths string[]
---@param options table
---@return table|nil read {entities=, relations=, parts=}
---@return table? err
function tide_formats_module.triples(paths, options) end

---Samples that are graphs: trees, chains, lattices.
---@param sources table
---@param options {format: string, classes?: integer}
---@return table|nil forest, table? err
function tide_formats_module.forest(sources, options) end

---A generated forest.
---@param o table name, samples, vocabulary, seed, max, leaves, skew
---@return table|nil forest, table? err
function tide_formats_module.forest_generate(o) end

---Texts of a generated input.
---@param kind "mf"|"kge"|"text"|"sparse"|"lda"
---@param sizes table
---@return string[]|nil texts, table? err
function tide_formats_module.generate(kind, sizes) end

---@class tide.team
---@field index integer which of the workers that are there this one is, from 1
---@field size integer how many are there
---@field sums integer since the last report
---@field shares number[]|nil speeds by index; nil: all alike
---@field others boolean while the work is divided: because workers came or went, not for their speeds
local tide_team = {}

---The workers of a job, as each of them sees the others; all make one.
---@param w tide.worker
---@return tide.team
function tide_team:new(w) end

---This worker took so long for so much of its work.
---@param seconds number
---@param amount number
function tide_team:took(seconds, amount) end

---How fast this worker is.
---@return {[1]: number, [2]: number}|false work a second and seconds of it, when it is known
function tide_team:speed() end

---What each is to have, by the reported speeds, where that is worth it; the same on all. Speeds change with
---what else a machine does: so it takes two looks in a row, whose mean counts, and after a deal the next one is the
---further off the more there were.
---@param told table[] by index, of team:speed()
---@return boolean whether the work is to be divided anew
function tide_team:balance(told) end

---All meet.
---@return boolean whether others are there than before
function tide_team:enter() end

---The sum of all workers' tensors, the same bits on all; the tensor itself where one worker is alone.
---@param tag string
---@param tensor table f64
function tide_team:sum(tag, tensor) end

---The values of all, by index.
---@param tag string
---@return any[]
function tide_team:gather(tag, value) end

---Begins to gather; the others continue meanwhile.
---@return fun(): any[] waits, returns the values of all by index
function tide_team:begin_gather(tag, value) end

---Tensors to others and from them, by index.
---@param tensors table<integer, table>
---@return table<integer, table>
function tide_team:swap(tag, tensors) end

---This worker's contiguous piece of `count` things: the first, from 1, and how many.
---@param shares? number[] speeds by index; default alike
---@param index? integer another worker's
function tide_team:piece(count, shares, index) end

---Works until the last report is made or the run stops.
---@param part tide.team.part
function tide_team:play(part) end

---@class tide.policy_module
local tide_policy_module = {}

---Names a policy together with parameters, wherever a policy is named.
---@param path string shipped name or path
---@param params? table
function tide_policy_module.file(path, params) end

---The text of a policy that ships, by `kind/name`.
---@return string[] "kind/name" of the shipped policies
tide_policy_module.shipped = nil

---Decides over the views of a journal: with the policies that it holds (report.identical, or the first difference), or
---with another one (report.plans, as bytes for core.plain_decode; open loop: the views do not react).
---@param path string journal of a run
---@param o? {policy?: string|table, params?: table, kind?: string, scope?: string, last?: number} last: only what was
--- decided in so many seconds before the end, by another policy
---@return table|nil report, table? err
function tide_policy_module.replay(path, o) end

---@class tide.k
local tide_k = {}

---The line y = at + per x that fits best, both at least 0.
---@param x number[]
---@param y number[]
---@return {at: number, per: number}
function tide_k.line(x, y) end

---The line of each worker, learnt from samples that come one at a time: `lines:learn(workers)`, `lines:split(total,
---workers, change)`, `lines:line(id)`, `lines:kept()`; docs/guides/policy-contract.md.
---@param o {forget?: number, jump?: number, at?: table<integer, number>}
---@return table lines
function tide_k.lines(o) end

---The coefficients c that make A c - y least.
---@param A number[][]
---@param y number[]
---@return number[]
function tide_k.least_squares(A, y) end

---The same with coefficients of at least 0.
---@param A number[][]
---@param y number[]
---@return number[]
function tide_k.nnls(A, y) end

---Parameters that make the squares of residuals least (Levenberg and Marquardt), between bounds.
---@param o {residuals: fun(p: number[]): number[], start: number[], low?: number[], high?: number[], evaluations?: integer}
---@return {p: number[], error: number, evaluations: integer}
function tide_k.fit(o) end

---The split of a whole number that ends earliest.
---@param total integer
---@param cost table[] {at, per, min, max} of each, or a list of times
---@return {share: integer[], seconds: number}
function tide_k.minmax_split(total, cost) end

---The cheapest column for each row (Hungarian method); `math.huge` forbids a pair.
---@param cost number[][]
---@return integer[] columns
---@return number total
function tide_k.assign(cost) end

---One option a row, most value within a capacity.
---@param rows number[][] values of the options
---@param sizes integer[] of the options
---@param capacity integer
---@param device? string
---@return integer[] options 0: none
---@return number[] best value of each smaller capacity
---@return number value
function tide_k.knapsack(rows, sizes, capacity, device) end

---Weights on machines so that the fullest is least full.
---@param weights number[]
---@param capacity number[]
---@return integer[] machine of each weight
---@return number span largest load / capacity
---@return number bound no division is better
function tide_k.makespan(weights, capacity) end

---A mean that forgets.
---@param old number|nil
---@param new number
---@param weight number of the new one
---@return number
function tide_k.ewma(old, new, weight) end

---A quantile, interpolated between neighbours.
---@param list number[]
---@param q number 0 to 1
---@return number|nil
function tide_k.quantile(list, q) end

---Whether going from one cost to another pays: old > gain * new.
---@param old number
---@param new number
---@param gain number
---@return boolean
function tide_k.hysteresis(old, new, gain) end

---The jobs that run in this round, so that time received follows the shares.
---@param share number[]
---@param received number[]
---@param sizes integer[]
---@param capacity integer
---@return integer[] granted size, or 0
function tide_k.rounds(share, received, sizes, capacity) end

---Fits the seven numbers of the model of throughput. docs/guides/scheduling.md.
---@param rows table[] {n, K, m, t_a, t_o, weight}
---@return table perf
---@return number loss
function tide_k.fit_goodput(rows) end

---Goodput at each size, and at a fair one. docs/guides/scheduling.md.
---@param job table an entry of the view
---@param sizes integer[]
---@param fair integer
---@return table
---@return number
function tide_k.goodput(job, sizes, fair) end

---The batch with most goodput on so many slots.
---@param job table
---@param slots integer
---@param machines? integer
---@return {batch: integer, accum: integer, total: integer, goodput: number, efficiency: number, step_s: number}
function tide_k.best_batch(job, slots, machines) end

---Sizes of jobs that can always be placed.
---@param nodes table[]
---@return integer[]
function tide_k.sizes(nodes) end

---Averages of the noise of gradients.
---@param state table|nil
---@param sample table {count, batch, start, sum, total, biased}
---@return table
function tide_k.noise(state, sample) end

---@class tide.sim
local tide_sim = {}

---Network of all nodes from this line on.
---@class tide.sim.net
---@field latency? string|number|table one, or {least, most}
---@field nic? string|number bandwidth of each node's card
---@field core? string|number of the switch between racks, or between any two nodes where there are none
---@field racks? integer
---@field nodes_per_rack? integer n1, n2, ... fill the racks in order; the driver is in the first
---@field pairs? table[] {{"n1", "n2", "5ms"}}: latency of these
---@field window? string|number bytes of a connection that are sent and not read yet
---@field send? string|number a write takes the sender's I/O thread so long
---@field receive? string|number and a read the receiver's
---@field byte? string|number and each byte both
---@param o tide.sim.net
function tide_sim.net(o) end

---A node's own properties.
---@param name string
---@class tide.sim.node
---@field speed? number of computing, 1 is usual
---@field nic? string|number bandwidth of its card
---@field slow? {p: number, factor: number, mean: string|number} slower for a share `p` of the time
---@field ahead? string|number its clock jumps so far ahead of the others
---@field drift? number and from here on gains so many seconds in a second, or loses them; at most 0.001
---@param o tide.sim.node
function tide_sim.node(name, o) end

---How long computing takes on a node of speed 1. Kernels: {call = "10us", row = "20us"} for all, or each as `file`
---says. Operations of programs, updates, products: flops / `flops` + bytes of their operands / `memory`, both a second.
---@param o {call?: string|number, row?: string|number, flops?: number, memory?: number, file?: string} file: of `tide
---sim --calibrate`
function tide_sim.compute(o) end

---The calling worker computes as long as so much work takes: for what is not computed in the simulation.
---@param flops number
---@param bytes? number
function tide_sim.work(flops, bytes) end

---A fault at a moment of virtual time (default: now).
---@param kind "crash"|"pause"|"partition"|"reset"|"slow"|"nic"|"delay"|"disk"|"flip"|"truncate"
---@param what table of partition and reset: groups of nodes; else {node=, at=, ...}
---@param o? table of partition and reset: {at=, heal=, oneway=}
function tide_sim.fault(kind, what, o) end

---An invariant of the script: a function that returns true, or false and why. It is called now and then on the driver,
---while everything continues, and may pull rows; what it raises is a failure as well.
---@param name string
---@param holds fun(): boolean, string?
---@param o? {every?: string|number} virtual time between two looks; default 100ms
---@return fun() check looks at once, and raises where it does not hold
function tide_sim.check(name, holds, o) end

---The job-level simulator: traces of jobs under scheduling policies. Works in every script.
---@param o tide.sim.jobs
---@return table simulator with :run
function tide_sim.jobs(o) end

return tide
