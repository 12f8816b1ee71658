/*
 * A client of a running cluster: rows of its tables and calls to its actors, from any program and any thread, without a
 * node, Lua or BLAS (libtide-client). docs/guides/clients.md is the guide.
 *
 *   struct tide_client *client;
 *   struct tide_client_table *factors;
 *   struct tide_client_options options = {TIDE_CLIENT_OPTIONS_INIT, .cluster = "lab", .right = TIDE_RIGHT_OPERATE};
 *   tide_client_open(&options, &client);
 *   tide_client_table(client, "factors", 0, &factors);
 *   tide_client_pull(factors, keys, 100, rows, 0, NULL);
 *
 * Functions that can fail return 0 or a negative TIDE_E... code; tide_client_error() is its text, of the calling
 * thread. `timeout` is in ns from now; 0: the client's. With `op` not NULL a function starts an operation and returns
 * at once; every operation is freed once. A client belongs to the process that opened it: in a forked child all calls
 * return ECLOSED, and tide_client_close only frees. The library installs no signal handlers and raises no SIGPIPE.
 */
#ifndef TIDE_PUBLIC_CLIENT_H
#define TIDE_PUBLIC_CLIENT_H

#include "tide/actor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tide_client;
struct tide_client_table;
struct tide_client_op;

enum { TIDE_CLIENT_ABI = 1, TIDE_CLIENT_OUTSTANDING_MAX = 1024 };
/* The TIDE_CLIENT_ABI of the library. */
unsigned tide_client_abi(void);

#define TIDE_CLIENT_OPTIONS_INIT .size = sizeof(struct tide_client_options)
struct tide_client_options {
    size_t size;              /* of this struct (tide/actor.h); 0: its first layout */
    const char *cluster;      /* name; NULL: of the credential, or whatever the cluster at the endpoint is called */
    const char *endpoints;    /* of members, separated by commas; NULL: the cluster of this name on this machine */
    const char *keys;         /* directory of a credential; NULL: this machine only */
    unsigned right;           /* enum tide_right that it asks for; 0: read */
    unsigned outstanding;     /* operations at one time; 0: 64 */
    uint64_t connect_timeout; /* ns; 0: 5 s */
    uint64_t timeout;         /* ns, of operations that name none; 0: 30 s */
    uint64_t memory;          /* bytes of requests and expected rows at one time; 0: 64 MiB */
};

/* Connects. EUNREACHABLE, EPERM, EVERSION, EMISMATCH, ENOENT (no such cluster here), ETIMEDOUT. */
int tide_client_open(const struct tide_client_options *options, struct tide_client **out);
/* Ends what is outstanding, in other threads too, and hangs up: from now on calls return ECLOSED. Any thread, any
 * number of times. */
void tide_client_shut(struct tide_client *client);
/* The same, and frees the client, its tables and operations. No other thread is in a call.
 * NULL is fine. */
void tide_client_close(struct tide_client *client);

/* Text of the calling thread's last failure; never NULL. */
const char *tide_client_error(void);
/* "EBUSY" for TIDE_EBUSY. */
const char *tide_client_error_name(int code);
/* Of the last failure, if it was EBUSY: after so many milliseconds another try is worth it. Else 0. */
unsigned tide_client_retry_after_ms(void);

/* A table by its name; the client owns it. ENOENT, EPERM. */
int tide_client_table(struct tide_client *client, const char *name, uint64_t timeout, struct tide_client_table **out);
unsigned tide_client_width(const struct tide_client_table *table);     /* floats of a row */
uint64_t tide_client_key_count(const struct tide_client_table *table); /* of a dense table; 0: hashed */
const char *tide_client_update(const struct tide_client_table *table); /* "add", "sgd" .. */

/* rows[i] = the row of keys[i]. `keys` and `rows` live until the operation ends; after that nothing writes to `rows`,
 * also when it ended by its deadline. ERANGE, ELOST, ETIMEDOUT, EBUSY (with op: all places are taken), ELIMIT. */
int tide_client_pull(struct tide_client_table *table, const uint64_t *keys, size_t count, float *rows, uint64_t timeout,
                     struct tide_client_op **op);
/* Applies rows[i] to keys[i] by the table's rule; keys and rows are copied. tide_client_outcome says what became of one
 * that failed. ERANGE, ENAN, EFULL, EPERM and those of pull. */
int tide_client_push(struct tide_client_table *table, const uint64_t *keys, size_t count, const float *rows,
                     uint64_t timeout, struct tide_client_op **op);
/* Brings the rows to the node that serves this client (technique "relocate"). */
int tide_client_localize(struct tide_client_table *table, const uint64_t *keys, size_t count, uint64_t timeout,
                         struct tide_client_op **op);

/* The address of an actor: "node/name", or "name" at the node that serves this client, then at the others. ENOENT. */
int tide_client_find(struct tide_client *client, const char *name, uint64_t timeout, uint64_t *actor);
/* A call; body: one msgpack value, copied. Read the answer by tide_client_answer. At most once: EDIED if the connection
 * was lost meanwhile. EREFUSED and the callee's own codes, EPERM, ETIMEDOUT. */
int tide_client_call(struct tide_client *client, uint64_t actor, const void *body, size_t size, uint64_t timeout,
                     struct tide_client_op **op);
/* One way; returns when it is written or queued. */
int tide_client_cast(struct tide_client *client, uint64_t actor, const void *body, size_t size);

/* Waits for an operation; its code. ETIMEDOUT with tide_client_is_done false, and ECANCELED (tide_client_interrupt, or
 * a signal's handler ran on this thread), leave it running. */
int tide_client_wait(struct tide_client_op *op, uint64_t timeout);
bool tide_client_is_done(const struct tide_client_op *op);
/* The value that a call was answered with, until the operation is freed. NULL: it is not done, or failed. */
const void *tide_client_answer(const struct tide_client_op *op, size_t *size);
/* Of a failed push: was it applied? */
enum tide_client_outcome {
    TIDE_CLIENT_APPLIED, /* whole */
    TIDE_CLIENT_NONE,    /* rejected whole, or never sent */
    TIDE_CLIENT_UNKNOWN, /* each key 0 or 1 times: the node that had it died, or the deadline passed */
};
int tide_client_outcome(const struct tide_client_op *op);
/* Cancels it if it is not done. NULL is fine. */
void tide_client_free(struct tide_client_op *op);

/* Operations that ended since the last call, at most `most`; reads what has arrived. For event loops: */
size_t tide_client_done(struct tide_client *client, struct tide_client_op **ops, size_t most);
/* A descriptor that is readable when tide_client_done is worth a call. Negative: error. */
int tide_client_fd(struct tide_client *client);
/* Waits of all threads return ECANCELED. Async-signal-safe. */
void tide_client_interrupt(struct tide_client *client);

/* What happens in the cluster, as it happens: "events" that its nodes see, "log" lines that they write. `whole`: from
 * the oldest ones that the nodes still have; else from now on. An event that several nodes see appears once. A stream
 * is for one thread at a time, and asks at most 14 nodes. Closed before its client. EINVAL, EPERM. */
struct tide_client_stream;
struct tide_client_line {
    double time;                        /* seconds since 1970, of the clock of that node */
    uint64_t number;                    /* of that node, rising */
    char node[64], kind[32], text[400]; /* kind: of the event, or the level of the line */
};
int tide_client_stream(struct tide_client *client, const char *what, bool whole, struct tide_client_stream **out);
/* The next lines, oldest first: 1 to `most`. ETIMEDOUT: there was none; ECANCELED (tide_client_interrupt). */
int tide_client_stream_next(struct tide_client_stream *stream, struct tide_client_line *out, size_t most,
                            uint64_t timeout, size_t *count);
void tide_client_stream_close(struct tide_client_stream *stream); /* NULL is fine */

/* ---- runs ---- */
struct tide_client_run {
    size_t size; /* of this struct, set by the caller */
    char name[64], job[64], user[64];
    char state[16]; /* queued, starting, running, paused, suspended, stopping, done, stopped, failed, lost */
    char why[200];  /* it waits, or has ended; "": nothing to say */
    bool ended;     /* done, stopped, failed or lost */
    bool closed;    /* and its script, which may write results then, has done with it, or 10 s have passed */
    int exit;       /* of a run that has ended; 0: well */
    unsigned slots; /* that it has */
    uint64_t reports;
    double examples, loss;                     /* of the newest report; loss NAN: none */
    double submitted_at, started_at, ended_at; /* seconds since 1970; 0: not yet */
};
/* One run: by its name ("mf-1"), its number, or its job where one run of that is active. EREFUSED: there is none. */
int tide_client_run(struct tide_client *client, const char *name, uint64_t timeout, struct tide_client_run *out);
/* Runs of the cluster, oldest first, with `ended` also those that have ended; *count of them, of which out has `most`.
 * The first of `out` has its size set. */
int tide_client_runs(struct tide_client *client, bool ended, uint64_t timeout, struct tide_client_run *out, size_t most,
                     size_t *count);
/* Waits until a run is closed, however it ended (out->exit). timeout TIDE_NEVER: as long as that takes. ETIMEDOUT,
 * ECANCELED (tide_client_interrupt). */
int tide_client_run_wait(struct tide_client *client, const char *name, uint64_t timeout, struct tide_client_run *out);
/* Steers a run: "set" with its params, "stop" ("within_s=30": by force then), "pause" ("release=true": its slots are
 * free), "resume", "cancel". params: "NAME=VALUE", where VALUE is true, false, a number or text. Right operate.
 * EREFUSED: the run does not take it; the text says why. */
int tide_client_run_do(struct tide_client *client, const char *name, const char *verb, const char *const *params,
                       size_t count, uint64_t timeout);
/* Starts a script by `tide submit WORDS`: options of submit, the script, options of the script; `out` is the run. Uses
 * the program `tide`, or the one that the environment's TIDE_PROGRAM names. ENOENT, EREFUSED (its error). */
int tide_client_submit(struct tide_client *client, const char *const *words, size_t count, uint64_t timeout,
                       struct tide_client_run *out);

struct tide_client_info {
    size_t size; /* of this struct, set by the caller */
    bool up;     /* is there a node that serves it? */
    char cluster[64], node[64];
    uint16_t id;
    unsigned right, outstanding;
    uint64_t bytes, connects, resent;
    uint64_t direct, redirected; /* requests straight to the home of their rows; those whose rows had moved */
};
int tide_client_info(struct tide_client *client, struct tide_client_info *out);

#ifdef __cplusplus
}
#endif
#endif
