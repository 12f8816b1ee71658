-- Every error a user can meet: code -> {title, explanation, remedy, name, exit}.
--
-- Families: T01 usage and options, T02 scripts, T03 policies, T04 data and files, T05 cluster and links, T06 store and
-- jobs, T07 checkpoints, T08 roles, T09 kernels, T10 starting and stopping processes. `name` is the name shared with C
-- ("EBUSY" = TIDE_EBUSY); of the entries that share one, the entry marked `generic` stands for errors that come from C
-- with a name alone. `exit` is the exit code of a command that fails with this error. Texts say what happened, then
-- what to do.

local catalogue = {}

local function entry(code, fields) catalogue[code] = fields end

---- T01: usage and options -------------------------------------------------------------------------------------------

entry("T0100", {
  title = "help was asked for", exit = 0, name = "ECANCELED",
  explanation = "Not a failure: --help ends a script before it does anything.",
  remedy = "nothing to correct",
})
entry("T0101", {
  title = "unknown command", exit = 2, name = "EINVAL",
  explanation = "The first word that is not an option must be a command of `tide` or the path of a Lua script. "
    .. "A script's path ends in `.lua` or contains a `/`.",
  remedy = "`tide help` lists the commands; a script runs by `tide run SCRIPT`",
})
entry("T0102", {
  title = "unknown option", exit = 2, name = "EINVAL",
  explanation = "The command, or the script, has no option of this name. Options of `tide` stand before the script, "
    .. "options of the script after it: `tide run [options of tide] SCRIPT [options of the script]`.",
  remedy = "add --help to see the options",
})
entry("T0103", {
  title = "something required is missing", exit = 2, name = "EINVAL",
  explanation = "A required argument or option was not given, or an option that takes a value ends the line.",
  remedy = "add --help to see what is required",
})
entry("T0104", {
  title = "value of the wrong type", exit = 2, name = "EINVAL",
  explanation = "The value of an option cannot be read as its type. Durations are written 250us, 20ms, 30s, 5m, 2h; "
    .. "sizes 64KiB, 4MiB (1024) or 64kB, 4MB (1000); lists are separated by commas.",
  remedy = "give a value of the type named above",
})
entry("T0105", {
  title = "value outside the choices", exit = 2, name = "EINVAL",
  explanation = "The option accepts only the listed values.",
  remedy = "give one of the listed values",
})
entry("T0106", {
  title = "too many arguments", exit = 2, name = "EINVAL",
  explanation = "There are more arguments than the command or the script takes, or a flag got a value. Values with "
    .. "blanks need quotes in the shell.",
  remedy = "add --help to see the arguments",
})
entry("T0107", {
  title = "options that exclude each other", exit = 2, name = "EINVAL",
  explanation = "Two of the options ask for opposite things.",
  remedy = "leave one of them out",
})
entry("T0108", {
  title = "faulty declaration of options", exit = 1, name = "EINVAL",
  explanation = "The table given to tide.options is wrong: each entry is name = {doc, default=, type=, choices=, "
    .. "required=}; names are words of a-z, 0-9 and _.",
  remedy = "correct the call of tide.options in the script",
})
entry("T0109", {
  title = "needs confirmation", exit = 2, name = "EINVAL",
  explanation = "The command ends or removes something and needs a confirmation, but standard input is not a "
    .. "terminal, or the answer was no.",
  remedy = "repeat the command with -y",
})
entry("T0110", {
  title = "no such file or directory", exit = 2, name = "ENOENT",
  explanation = "An option of type `file` or `directory` names something that does not exist, cannot be read, or is "
    .. "of the other kind. Relative paths start at the current directory.",
  remedy = "check the path and its permissions",
})
entry("T0111", {
  title = "faulty configuration", exit = 2, name = "EINVAL",
  explanation = "A configuration file is Lua that returns a table of data; it sees no functions and has little time "
    .. "and memory. Each key must be known and its value of the right type. The same holds for the environment "
    .. "variables TIDE_...",
  remedy = "`tide help config` lists the keys",
})
entry("T0112", {
  title = "no help on this topic", exit = 2, name = "ENOENT",
  explanation = "Topics are the commands, the error codes, and the pages that `tide help` lists.",
  remedy = "`tide help` lists the topics",
})
entry("T0113", {
  title = "wrong argument", exit = 2, name = "EINVAL", generic = true,
  explanation = "A value is not of the type, form or size that the function requires: a faulty identifier, an empty "
    .. "list, a negative size. Identifiers are up to 63 of a-z, 0-9, `.`, `_`, `-`, beginning with a letter or digit.",
  remedy = "correct the argument named above",
})
entry("T0114", {
  title = "faulty expression", exit = 2, name = "EINVAL",
  explanation = "--where takes a Lua expression over the fields of a record, such as `rss_bytes > 1e9 and state == "
    .. "\"up\"`; --sort takes one field. `--json` shows all fields of a record.",
  remedy = "use a field that the record has",
})
entry("T0115", {
  title = "unknown field or method", exit = 2, name = "EINVAL",
  explanation = "A function takes a table of named fields, and the table has a field that the function does not know; "
    .. "or an actor has no method, a run no param of this name. `tide help FUNCTION` lists the fields.",
  remedy = "correct the name",
})
entry("T0116", {
  title = "malformed request", exit = 2, name = "EINVAL",
  explanation = "An actor got a request that it does not know, or one with an unknown, missing or wrong field. The "
    .. "request was counted and not carried out. A client of another version sends such requests.",
  remedy = "correct the request, or use a client of the cluster's version",
})
entry("T0117", {
  title = "not possible here", exit = 2, name = "EINVAL",
  explanation = "The call is right, and where or when it was made it cannot be carried out: a node that alone holds "
    .. "rows cannot leave, a script that did not start a cluster adds no nodes to it.",
  remedy = "the message says what has to hold first",
})

---- T02: scripts -----------------------------------------------------------------------------------------------------

entry("T0201", {
  title = "syntax error in a script", exit = 1, name = "EINVAL",
  explanation = "The script is not Lua 5.4. Nothing was started.",
  remedy = "correct the line; `luac -p SCRIPT` checks a file without running it",
})
entry("T0202", {
  title = "error in a script", exit = 1, name = "ECRASHED",
  explanation = "The script raised an error that nothing caught. The place is the line that raised it; -v adds the "
    .. "calls that led there.",
  remedy = "correct the script; -v shows the calls that led there",
})
entry("T0203", {
  title = "faulty job", exit = 1, name = "EINVAL",
  explanation = "The table given to tide.job is wrong: a field is unknown, missing or of the wrong type, or two jobs "
    .. "have one name.",
  remedy = "correct the call of tide.job in the script",
})
entry("T0204", {
  title = "faulty table declaration", exit = 1, name = "EINVAL",
  explanation = "The table given to tide.table is wrong: a field is unknown, missing or of the wrong type.",
  remedy = "correct the call of tide.table in the script",
})
entry("T0205", {
  title = "script not found", exit = 2, name = "ENOENT",
  explanation = "The script does not exist or cannot be read.",
  remedy = "check the path; relative paths start at the current directory",
})
entry("T0206", {
  title = "a value known only in main is used in a worker", exit = 1, name = "EINVAL",
  explanation = "Worker functions run on other nodes, where the script is loaded again; what tide.main made does not "
    .. "exist there. No closure travels.",
  remedy = "pass plain data by `params` of the job, or make the value at the top of the script",
})
entry("T0207", {
  title = "another version of the script", exit = 1, name = "EMISMATCH",
  explanation = "A node has a script, a file of kernels or options of another content hash than the driver's.",
  remedy = "start the nodes from the same files, or let `tide run` send them",
})
entry("T0208", {
  title = "nothing to run", exit = 1, name = "EINVAL",
  explanation = "The script ended without tide.main(f) and without a job made by tide.job{}.",
  remedy = "end the script with tide.main(f), or declare a job",
})
entry("T0209", {
  title = "an actor crashed", exit = 1, name = "ECRASHED", generic = true,
  explanation = "An actor ended by an error of its own code.",
  remedy = "the message above is the actor's; correct its code",
})
entry("T0210", {
  title = "interrupted", exit = 130, name = "ECANCELED",
  explanation = "Ctrl-C (SIGINT), SIGTERM or SIGHUP ended the command.",
  remedy = "run it again to start over",
})
entry("T0211", {
  title = "cancelled", exit = 1, name = "ECANCELED", generic = true,
  explanation = "The owner of the operation cancelled it: the run was stopped, or its actor is being ended.",
  remedy = "nothing to correct if you stopped it; else see the error before this one",
})

entry("T0217", {
  title = "not in the simulator", exit = 1, name = "EUNSUPPORTED",
  explanation = "Under `tide sim` a script sees virtual time and the seed's random numbers only: the clock, files and "
    .. "processes of this machine would make two runs of a seed differ.",
  remedy = "use what the message names, or run the script by `tide run`",
})
entry("T0218", {
  title = "only under tide sim", exit = 1, name = "EUNSUPPORTED",
  explanation = "The functions of `tide.sim` describe a simulated world; a real run has none.",
  remedy = "run the script by `tide sim`, or ask `sim.active` before",
})
entry("T0219", {
  title = "runs of a seed differ", exit = 1, name = "EMISMATCH",
  explanation = "Two simulated runs of the same script, seed and options took different courses. Something in them "
    .. "depends on more than its inputs; the first event that differs is shown.",
  remedy = "report it with the script and the seed",
})
entry("T0220", {
  title = "a check failed", exit = 1, name = "EMISMATCH",
  explanation = "A function that the script gave to `sim.check` returned false, or raised, at this moment of virtual "
    .. "time. The run was ended; the same seed shows the same again.",
  remedy = "repeat it by the command below; `tide sim --trace FILE` shows who did what before",
})
entry("T0221", {
  title = "a module is not there", exit = 1, name = "ENOENT",
  explanation = "The modules of a script travel with it as text: those that are loaded when a run begins, and those "
    .. "that `require \"name\"` says with a literal name. Nodes read no code from their own disks. C modules do not "
    .. "travel.",
  remedy = "put the module beside the script, and require it by its literal name",
})
entry("T0230", {
  title = "cancelled", exit = 130, name = "ECANCELED",
  explanation = "A user ended an evaluation of the console by Ctrl-C or kill(). What it had asked other actors to do "
    .. "stays done; the cluster is unaffected.",
  remedy = "nothing: the prompt is ready for the next line",
})
entry("T0231", {
  title = "over a limit of the console", exit = 1, name = "ELIMIT",
  explanation = "An evaluation of the console took more time, instructions or memory than it may. It was ended; the "
    .. "session and its globals are still there.",
  remedy = "evaluate less at a time, release large globals (x = nil), or give more time by --timeout",
})

---- T03: policies ----------------------------------------------------------------------------------------------------

entry("T0301", {
  title = "no such policy", exit = 2, name = "ENOENT",
  explanation = "A policy is named by a shipped name (`batching/boa`) or by the path of a Lua file.",
  remedy = "`tide policy shipped` names those that come with Tide",
})
entry("T0302", {
  title = "policy refused", exit = 6, name = "EINVAL",
  explanation = "The file does not load in the sandbox, breaks the contract (a field is unknown, missing or of the "
    .. "wrong type), needs a signal that is not measured, or fails in init. Nothing was changed.",
  remedy = "correct the file; `tide policy new KIND` prints a skeleton that is right",
})
entry("T0303", {
  title = "no such seat", exit = 2, name = "ENOENT",
  explanation = "A policy holds a seat: one kind for one cluster, job or table. This run has no seat of this kind, or "
    .. "several.",
  remedy = "use a kind that the message names, with its scope if there are several",
})
entry("T0304", {
  title = "policy fails on the newest view", exit = 6, name = "EINVAL",
  explanation = "Before a swap the new policy decides once on the newest view, without effect. It raised an error, "
    .. "exceeded its budget, or proposed an impossible plan. The old policy keeps the seat.",
  remedy = "correct the policy; `policy.check` runs it over all recorded views",
})
entry("T0305", {
  title = "policy was rolled back before", exit = 6, name = "EREFUSED",
  explanation = "A guard has rolled this very source back; it is blocked to prevent that it is swapped in again.",
  remedy = "change the policy, or swap with `--force`; in Lua with `force = true`",
})
entry("T0306", {
  title = "nothing to go back to", exit = 6, name = "ENOENT",
  explanation = "The seat has had one policy only.",
  remedy = "`policy.history` lists what a seat has had",
})
entry("T0307", {
  title = "faulty guard", exit = 6, name = "EINVAL",
  explanation = "A guard names a metric that is measured, by how much it may drop (or rise), and a time: the same time "
    .. "before the swap gives what it is compared with.",
  remedy = "give {metric = \"examples_per_s\", drop = 0.1, within = \"60s\"} with a metric that the message names",
})
entry("T0308", {
  title = "faulty canary", exit = 6, name = "EINVAL",
  explanation = "A canary tries a policy on a part of what its seat decides about: workers, nodes, tables, jobs or a "
    .. "fraction. There must be something inside and something outside, and a guard that ends it.",
  remedy = "give canary = {nodes = \"n1\"} or {fraction = 0.2}, and guard = {metric =, drop =, within =}",
})

---- T04: data and files ----------------------------------------------------------------------------------------------

entry("T0401", {
  title = "not found", exit = 1, name = "ENOENT", generic = true,
  explanation = "There is no table, actor, name or file as asked for.",
  remedy = "check the name, or the path, for a slip",
})
entry("T0402", {
  title = "malformed data", exit = 1, name = "EPROTO",
  explanation = "A data file does not have the format its reader expects. File and line are given.",
  remedy = "correct the line, or name the right format",
})
entry("T0403", {
  title = "the system failed to read or write", exit = 1, name = "EIO", generic = true,
  explanation = "A file, pipe or device failed underneath.",
  remedy = "check the path, its permissions and the device",
})
entry("T0404", {
  title = "no space left", exit = 1, name = "ENOSPC", generic = true,
  explanation = "The device is full. No file is left under its final name; an older file there is untouched.",
  remedy = "free space or write elsewhere",
})

entry("T0405", {
  title = "the system does not permit it", exit = 1, name = "EACCES", generic = true,
  explanation = "The owner and mode of a file or directory, or a file system that is read-only, keep this user from "
    .. "it.",
  remedy = "see owner and mode by `ls -ld` of the path and of the directories above it, or choose another path",
})
entry("T0406", {
  title = "out of file descriptors", exit = 1, name = "EMFILE", generic = true,
  explanation = "A process may have so many files and sockets open, by `ulimit -n`, and the machine all together.",
  remedy = "allow more by `ulimit -n`; a node needs about 30 and one for each other node",
})

---- T05: cluster and links -------------------------------------------------------------------------------------------

entry("T0501", {
  title = "cluster or node unreachable", exit = 3, name = "EUNREACHABLE", generic = true,
  explanation = "There is no answer at the address: the cluster is not running, its name is another, or the network "
    .. "between is cut. Nothing is started in its place.",
  remedy = "`tide up` starts a local cluster; --cluster names another",
})
entry("T0502", {
  title = "address in use", exit = 1, name = "EADDRINUSE", generic = true,
  explanation = "Another process listens at the address.",
  remedy = "choose another --listen address, or port 0 for any that is free",
})
entry("T0503", {
  title = "another version", exit = 1, name = "EVERSION", generic = true,
  explanation = "The peer, or the file, is of another version of Tide. Nodes of different versions refuse each other.",
  remedy = "run the same version on all nodes; `tide version` prints it",
})
entry("T0504", {
  title = "does not match", exit = 1, name = "EMISMATCH", generic = true,
  explanation = "Both sides exist but differ: the name of the cluster, the options of a table, the shape of a file.",
  remedy = "use equal names and options on both sides",
})
entry("T0505", {
  title = "refused: no permission", exit = 4, name = "EPERM", generic = true,
  explanation = "Credentials are missing or not enough, or the address needs credentials.",
  remedy = "use a local address, or credentials that are good enough",
})
entry("T0506", {
  title = "the peer speaks another language", exit = 1, name = "EPROTO", generic = true,
  explanation = "Bytes arrived, or stand in a file, that are not in Tide's format: damaged, or not Tide's at all.",
  remedy = "check the address or the file",
})
entry("T0507", {
  title = "timed out", exit = 3, name = "ETIMEDOUT", generic = true,
  explanation = "No answer came before the deadline. With --timeout the exit code is 124.",
  remedy = "give more time by --timeout, or see what the other side waits for: `tide actors`",
})
entry("T0508", {
  title = "died before it answered", exit = 5, name = "EDIED", generic = true,
  explanation = "The actor, or the node it lived on, ended before it answered. What it had done stays done.",
  remedy = "see the log of that node; `tide status` shows which nodes are up",
})
entry("T0509", {
  title = "too many nodes lost", exit = 5, name = "EDIED",
  explanation = "Nodes were lost and the run cannot continue: only they held its rows, or the work of their "
    .. "workers is not cut into chunks that others could take over.",
  remedy = "run again; the logs of the lost nodes have the reason. `tide.cluster{servers = N}` keeps rows off the "
    .. "nodes of workers. After `no heartbeat` on a network that blinks or a busy machine: a longer --silence of `tide "
    .. "run`, `up`, `node` or `launch`",
})
entry("T0510", {
  title = "closing", exit = 1, name = "ECLOSED", generic = true,
  explanation = "The connection, node or table is being closed.",
  remedy = "start the cluster again: `tide up`",
})
entry("T0511", {
  title = "over a limit of the wire", exit = 1, name = "ELIMIT", generic = true,
  explanation = "A message is larger, deeper or has more items than a decoder accepts.",
  remedy = "send smaller messages; large arrays travel as tensors",
})
entry("T0512", {
  title = "already exists", exit = 1, name = "EEXIST", generic = true,
  explanation = "The name is taken by another node, table, actor or file.",
  remedy = "choose another name, or end what holds it",
})

entry("T0513", {
  title = "no such run, or not in this state", exit = 1, name = "ENOENT",
  explanation = "No run of the cluster has this name, several have it, or the run is in a state in which this cannot "
    .. "be done: it has ended, has not started, or is not paused.",
  remedy = "`tide jobs` lists the runs, `tide jobs -a` also those that have ended",
})

entry("T0514", {
  title = "in use", exit = 1, name = "EBUSY",
  explanation = "An active run uses the table.",
  remedy = "end the run first, or force it: the run's operations on the table fail then",
})

---- T06: store and jobs ----------------------------------------------------------------------------------------------

entry("T0601", {
  title = "busy", exit = 1, name = "EBUSY", generic = true,
  explanation = "A mailbox, a queue or the credit of a link is full.",
  remedy = "try again later; retry_after_s says when, if it is known",
})
entry("T0602", {
  title = "key or index out of range", exit = 1, name = "ERANGE", generic = true,
  explanation = "A key is outside the table's keys. The message names key and limit; nothing was read or written.",
  remedy = "declare the table with more keys, or correct the key",
})
entry("T0603", {
  title = "a declared limit is reached", exit = 1, name = "EFULL", generic = true,
  explanation = "A hashed table holds as many keys as its limit allows, or an index has no free slot.",
  remedy = "raise the limit where the table is declared",
})
entry("T0604", {
  title = "not a finite number", exit = 1, name = "ENAN", generic = true,
  explanation = "A push contains a NaN or an infinity and the table refuses them. Nothing of the push was applied.",
  remedy = "lower the learning rate, or look for a division by zero in the worker",
})
entry("T0605", {
  title = "out of memory", exit = 1, name = "ENOMEM", generic = true,
  explanation = "Memory ran out, or a configured limit of it is reached.",
  remedy = "use more nodes, smaller tables, or a higher limit",
})
entry("T0606", {
  title = "not supported", exit = 1, name = "EUNSUPPORTED", generic = true,
  explanation = "This build, or this kind of table, cannot do it.",
  remedy = "`tide version -v` lists what the build contains",
})
entry("T0607", {
  title = "refused by the other side", exit = 1, name = "EREFUSED", generic = true,
  explanation = "The actor that was called answered with an error; its text follows.",
  remedy = "the message above is the callee's; correct the request",
})
entry("T0608", {
  title = "killed", exit = 1, name = "EKILLED", generic = true,
  explanation = "The actor was ended from outside.",
  remedy = "nothing to correct if you ended it; else see the error before this one",
})
entry("T0609", {
  title = "a worker failed", exit = 1, name = "ECRASHED",
  explanation = "The worker function of a job raised an error. The run was stopped.",
  remedy = "correct the worker; -v shows the calls that led there",
})

entry("T0610", {
  title = "rows are lost", exit = 1, name = "ELOST", generic = true,
  explanation = "The nodes that held these rows died, and so did all copies. Lost rows are never reset in "
    .. "silence: operations on them fail. `t:health().lost` lists the slots.",
  remedy = "restart the job from what was saved last; a table with replicas = 1 or 2 survives as many losses",
})
entry("T0611", {
  title = "this node was declared dead", exit = 1, name = "EFENCED", generic = true,
  explanation = "The others could not reach this node and continue without it: its copies of rows are no longer valid, "
    .. "so it neither reads nor writes them.",
  remedy = "start the node again: it joins as a new one; look for what cut it off",
})
entry("T0612", {
  title = "no node for copies", exit = 1, name = "ENOREPLICA", generic = true,
  explanation = "The table asks for copies of its rows and the cluster has no second node that holds parameters.",
  remedy = "start more nodes, or declare the table with replicas = 0",
})
entry("T0615", {
  title = "not possible in this version", exit = 1, name = "EUNSUPPORTED",
  explanation = "The job requests a reaction to a loss that this version does not support.",
  remedy = "leave the field out: the run then ends, and says which rows were lost",
})

---- T07: checkpoints -------------------------------------------------------------------------------------------------

entry("T0701", {
  title = "the checkpoint was not written", exit = 1, name = "EIO",
  explanation = "A node could not write its part, or died meanwhile. Nothing of this generation is left; the one "
    .. "before is what it was, and training continues.",
  remedy = "free space, check that every node can write to the directory, then save again",
})
entry("T0702", {
  title = "no such checkpoint", exit = 1, name = "ENOENT",
  explanation = "The directory does not exist or holds no generation that was finished.",
  remedy = "check the directory; `tide checkpoint list DIR` shows what is there",
})
entry("T0703", {
  title = "the checkpoint is damaged", exit = 1, name = "EPROTO",
  explanation = "A block does not have the sum it was written with, or a file is missing or cut. The text names file "
    .. "and block. Restoring takes the newest generation that is whole.",
  remedy = "restore an older generation: `tide checkpoint list DIR` shows them",
})
entry("T0704", {
  title = "the checkpoint is of another version", exit = 1, name = "EVERSION",
  explanation = "A newer or older program wrote it in a format that this one does not read.",
  remedy = "restore it with the program that wrote it; MANIFEST.json names its version",
})
entry("T0705", {
  title = "the checkpoint does not fit", exit = 1, name = "EMISMATCH",
  explanation = "A table exists with another shape, rule or seed than the checkpoint's, or the job is not the one that "
    .. "was saved. No row was changed.",
  remedy = "resume with the script and options that wrote the checkpoint, or start afresh in another directory",
})
entry("T0706", {
  title = "a checkpoint is not possible now", exit = 1, name = "EBUSY",
  explanation = "Another one is being written, rows were cleared, or nodes came or went meanwhile.",
  remedy = "try again",
})
entry("T0707", {
  title = "the workers do not reach the cut", exit = 1, name = "ETIMEDOUT",
  explanation = "A cut by clocks is complete when every worker has called w:clock() often enough. One of them did not "
    .. "within a minute.",
  remedy = "call w:clock() in the worker's loop, or use cut = \"fuzzy\"",
})
entry("T0708", {
  title = "wrong use of checkpoints", exit = 1, name = "EINVAL",
  explanation = "A job's checkpoint field, or what a worker or on_report keeps in its state, cannot be used. State is "
    .. "made of numbers, strings, booleans and tables of them.",
  remedy = "correct the field that is named",
})
entry("T0709", {
  title = "the checkpoint was not restored", exit = 1, name = "EIO",
  explanation = "The tables cannot be made on these nodes, or the rows found no room there: a limit of keys is that "
    .. "of a node, and copies need a second one. Tables may be empty, or hold the rows that were read so far.",
  remedy = "correct what the message names (more nodes, a higher limit), then restore again before any use",
})

---- T08: roles -------------------------------------------------------------------------------------------------------

entry("T0801", {
  title = "refused: the role", exit = 4, name = "EPERM",
  explanation = "A console session has the role that it was opened with: `read` looks, `operate` also swaps policies "
    .. "that ship with Tide, `admin` evaluates any Lua. The name needs more than the session has.",
  remedy = "open a session with a greater role: tide attach --role operate",
})

entry("T0802", {
  title = "keys cannot be made or used", exit = 2, name = "EINVAL",
  explanation = "Clusters on several machines know nodes and people by certificates, which `tide keys` makes. The "
    .. "directory with the authority stays with its owner; nodes and people get one of the others.",
  remedy = "tide keys init CLUSTER makes keys, tide keys show lists them",
})

entry("T0803", {
  title = "the audit log cannot be written", exit = 1, name = "EIO",
  explanation = "What takes more than the right `read` is noted in the node's audit log before it is done. The log "
    .. "cannot be written: the disk is full, or the file is not this user's. Runs continue.",
  remedy = "make room where the log is (tide node --audit DIR says where), and retry",
})

entry("T0804", {
  title = "the audit log is damaged", exit = 1, name = "EPROTO",
  explanation = "Each line of an audit log has the sum of the line before. A line was changed, taken out or put in, or "
    .. "the log has lost its end.",
  remedy = "compare with copies of the log, and of its .head file, on other machines",
})

---- T09: kernels -----------------------------------------------------------------------------------------------------

entry("T0901", {
  title = "unknown kernel", exit = 1, name = "ENOENT",
  explanation = "The build has no kernel of this name.",
  remedy = "`tide help kernels` lists them",
})

entry("T0903", {
  title = "faulty program", exit = 1, name = "EINVAL",
  explanation = "A program of tensor operations does not fit together: the text names the layer, the shapes of the "
    .. "operands and the line that asked for the operation. Shapes are checked while the program is built, so nothing "
    .. "has run yet; B stands for the rows of a batch.",
  remedy = "correct the sizes; print(program) lists the operations up to there",
})
entry("T0904", {
  title = "no such device", exit = 1, name = "EUNSUPPORTED",
  explanation = "A model requests a device that this machine lacks or this program cannot use. \"cuda\" requires "
    .. "an NVIDIA GPU, its driver, the module tide_cuda.so (made when the build finds nvcc) and libcublas.",
  remedy = "device = \"cpu\", or what the text names; `tide version -v` says what was found",
})

entry("T0909", {
  title = "a kernel module cannot be loaded", exit = 1, name = "EINVAL",
  explanation = "tide.kernel.load requires a shared object built with the tide/kernel.h of this version, which defines "
    .. "tide_kernel_module. The text says what is wrong with it.",
  remedy = "build it again with `pkg-config --cflags tide`; docs/guides/kernels.md has an example",
})

---- T10: starting and stopping processes -----------------------------------------------------------------------------

entry("T1001", {
  title = "a node process did not start", exit = 1, name = "ECRASHED",
  explanation = "A process was started and ended, or did not join in time. What was started before it was stopped.",
  remedy = "the node's log has the reason",
})
entry("T1002", {
  title = "the cluster runs already", exit = 1, name = "EEXIST",
  explanation = "A cluster of this name runs; `tide up` starts only new ones.",
  remedy = "`tide status` shows it; `tide down` ends it; --cluster starts another beside it",
})
entry("T1003", {
  title = "no such cluster runs", exit = 3, name = "ENOENT",
  explanation = "There is no running cluster of this name for this user.",
  remedy = "`tide up` starts one",
})
entry("T1004", {
  title = "controllers cannot be replicated", exit = 1, name = "EUNSUPPORTED",
  explanation = "--controllers keeps what the controller decides on several nodes. That needs the plugin tide_raft.so, "
    .. "of the same version as this program. It is built when Debian's package libraft-dev is there.",
  remedy = "install libraft-dev and build again, or start the cluster without --controllers",
})
entry("T1005", {
  title = "the launcher did not do it", exit = 1, name = "EREFUSED",
  explanation = "Nodes are started by a command of the site: sbatch, ssh, mpirun. It is not installed, it refused, or "
    .. "what it started ended or did not join. Its own last words stand above.",
  remedy = "try the command that `tide launch ... --dry-run` prints",
})
entry("T1099", {
  title = "fault in Tide itself", exit = 1, name = "ECRASHED",
  explanation = "The program met a state it should never be in. This is our mistake, not yours.",
  remedy = "please report it with the text above; -v adds a trace",
})

return catalogue
