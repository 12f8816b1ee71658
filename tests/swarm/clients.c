/*
 * Profile `clients`: programs that are no members read and write rows by the client library, on machines of their own.
 * Each push adds 1 to some tokens, keys that nobody has pushed to before, so a row tells how often a push was applied.
 * Clients are cut off, reset and paused; they move: they hang up and connect by another node.
 *
 *   exactly_once  a token of a push that returned 0 is in the table once, of one that was rejected (NONE) never, of one
 *                 whose outcome is UNKNOWN at most once; a pull sees every push that had returned
 *   deadline      a call ends by its deadline, and nothing is written to its rows after that
 *   answers       a call fails by what faults explain, and every client is served again when they are over
 */
#include "posix.h"
#include "tide/client.h"
#include "world.h"

#include <math.h>

enum {
    CLIENTS_MAX = 4,
    DEPTH = 8, /* operations that a client has outstanding */
    TOKENS = 30000,
    PER_PUSH = 48,
    LOOK = 512,
    CLIENT_TABLES = 2, /* with a copy of each row, and without */
};
static const uint64_t slack = 100 * MS; /* the library's thread looks at deadlines every 50 ms */
static const float unwritten = -7;

enum token { TOKEN_NEW, TOKEN_PENDING, TOKEN_APPLIED, TOKEN_NONE, TOKEN_UNKNOWN };

struct call {
    struct tide_client_op *op; /* NULL: unused */
    bool push;
    unsigned table;
    size_t count;
    uint64_t keys[PER_PUSH], deadline;
    uint8_t before[PER_PUSH]; /* enum token, when it began */
    float rows[PER_PUSH];
};

struct client {
    struct world *world;
    struct posix_host *host;
    char name[16];
    struct tide_client *client; /* NULL: not connected */
    struct tide_client_table *tables[CLIENT_TABLES];
    struct call calls[DEPTH];
    struct tide_random random;
    const char *doing;
    uint64_t paused_until, served;
    bool ended;
};

static const char *const names[CLIENT_TABLES] = {"kept", "plain"};
static struct client *clients[CLIENTS_MAX];
static unsigned client_count;
static uint8_t *tokens[CLIENT_TABLES];
static size_t token_count[CLIENT_TABLES];

/* ---- judging ---- */

/* May acknowledged pushes of the table be gone? */
static bool is_lossy(const struct world *w, unsigned table) {
    return w->report->lost_nodes > 0 && (table == 1 || w->lost_too_many);
}

static void judge(struct world *w, const char *who, unsigned table, uint64_t key, enum token token, float value) {
    static const char *const words[] = {"not pushed", "being pushed", "applied", "rejected", "of unknown outcome"};
    const bool once = value == 1 && token != TOKEN_NEW && token != TOKEN_NONE;
    const bool never = value == 0 && (token != TOKEN_APPLIED || is_lossy(w, table));
    if (!once && !never) {
        swarm_fail(w, "exactly_once", "%s sees token %llu of table %s, which is %s, %g times", who,
                   (unsigned long long)key, names[table], words[token], (double)value);
    }
}

/* It came back in time, unless its machine was paused. */
static void judge_time(const struct client *c, const char *what, uint64_t deadline) {
    const uint64_t now = tide_sim_now(c->world->sim), latest = deadline > c->paused_until ? deadline : c->paused_until;
    if (now > latest + slack) {
        swarm_fail(c->world, "deadline", "a %s of %s ended %.3f s after its deadline", what, c->name,
                   (double)(now - deadline) / 1e9);
    }
}

static bool is_explained(int code) {
    return code == TIDE_ETIMEDOUT || code == TIDE_EDIED || code == TIDE_EUNREACHABLE || code == TIDE_ECLOSED ||
           code == TIDE_ELOST || code == TIDE_EBUSY;
}

/* ---- calls ---- */

static void end_pull(struct client *c, const struct call *a, int code) {
    for (size_t i = 0; i < a->count && code == 0; i++) {
        const uint8_t now = tokens[a->table][a->keys[i]];
        const enum token token = a->before[i] == TOKEN_NEW && now != TOKEN_NEW ? TOKEN_PENDING : (enum token)a->before[i];
        judge(c->world, c->name, a->table, a->keys[i], token, a->rows[i]);
    }
}

static void end_push(const struct call *a, int outcome) {
    static const uint8_t of[] = {[TIDE_CLIENT_APPLIED] = TOKEN_APPLIED,
                                 [TIDE_CLIENT_NONE] = TOKEN_NONE,
                                 [TIDE_CLIENT_UNKNOWN] = TOKEN_UNKNOWN};
    for (size_t i = 0; i < a->count; i++) {
        tokens[a->table][a->keys[i]] = of[outcome];
    }
}

static void end_call(struct client *c, struct call *a) {
    const uint64_t now = tide_sim_now(c->world->sim);
    const int code = tide_client_wait(a->op, 0);
    judge_time(c, a->push ? "push" : "pull", a->deadline > now ? a->deadline : now);
    if (!tide_client_is_done(a->op)) {
        swarm_fail(c->world, "deadline", "a call of %s is not done when its wait ends: %s", c->name, tide_client_error());
    }
    if (code != 0 && !is_explained(code)) {
        swarm_fail(c->world, "answers", "a %s of %s failed: %s %s", a->push ? "push" : "pull", c->name,
                   tide_error_name(code), tide_client_error());
    }
    c->served += code == 0;
    if (a->push) {
        end_push(a, code == 0 ? TIDE_CLIENT_APPLIED : tide_client_outcome(a->op));
    } else {
        end_pull(c, a, code);
    }
    tide_client_free(a->op);
    for (size_t i = 0; i < a->count && !a->push; i++) {
        a->rows[i] = unwritten; /* looked at when the place is used again */
    }
    a->op = NULL;
    c->world->report->operations++;
}

static void choose_keys(struct client *c, struct call *a) {
    a->count = chance(&c->random, 0.5) ? 1 : between(&c->random, 1, PER_PUSH); /* one key goes straight to its home */
    for (size_t i = 0; i < a->count; i++) {
        const uint64_t span = token_count[a->table] + 1;
        a->keys[i] = a->push ? token_count[a->table]++ : tide_random_below(&c->random, span);
        a->before[i] = tokens[a->table][a->keys[i]];
        tokens[a->table][a->keys[i]] = a->push ? TOKEN_PENDING : a->before[i];
        if (!a->push && a->before[i] == TOKEN_NEW) {
            a->before[i] = TOKEN_PENDING; /* another client may push it meanwhile */
        }
    }
}

static void begin_call(struct client *c, struct call *a) {
    for (size_t i = 0; i < a->count && !a->push; i++) {
        if (a->rows[i] != unwritten) {
            swarm_fail(c->world, "deadline", "the rows of a pull of %s were written after its end", c->name);
        }
    }
    a->table = (unsigned)tide_random_below(&c->random, CLIENT_TABLES);
    a->push = chance(&c->random, option(c->world, SWARM_PUSHES)) && token_count[a->table] + PER_PUSH < TOKENS;
    choose_keys(c, a);
    for (size_t i = 0; i < a->count; i++) {
        a->rows[i] = a->push ? 1 : unwritten;
    }
    const uint64_t timeout = between(&c->random, 20, 4000) * MS;
    struct tide_client_table *table = c->tables[a->table];
    a->deadline = tide_sim_now(c->world->sim) + timeout;
    const int code = a->push ? tide_client_push(table, a->keys, a->count, a->rows, timeout, &a->op)
                             : tide_client_pull(table, a->keys, a->count, a->rows, timeout, &a->op);
    if (code != 0) {
        swarm_fail(c->world, "answers", "a call of %s did not start: %s", c->name, tide_client_error());
    }
}

/* ---- connecting ---- */

static bool connect_client(struct client *c) {
    struct world *w = c->world;
    char endpoints[400] = "";
    const unsigned first = (unsigned)tide_random_below(&c->random, w->node_count);
    for (unsigned i = 0; i < w->node_count && strlen(endpoints) < 300; i++) {
        const struct node *n = w->nodes[(first + i) % w->node_count];
        if (n->state == NODE_UP) {
            (void)snprintf(endpoints + strlen(endpoints), 64, "%s%s", endpoints[0] ? "," : "", tide_node_endpoint(n->node));
        }
    }
    const uint64_t timeout = between(&c->random, 500, 5000) * MS;
    const struct tide_client_options o = {.size = sizeof o,
                                          .endpoints = endpoints,
                                          .right = TIDE_RIGHT_OPERATE,
                                          .connect_timeout = timeout};
    const uint64_t deadline = tide_sim_now(w->sim) + timeout;
    int code = tide_client_open(&o, &c->client);
    judge_time(c, "connect", deadline);
    for (unsigned t = 0; t < CLIENT_TABLES && code == 0; t++) {
        const uint64_t until = tide_sim_now(w->sim) + TIDE_SECOND;
        code = tide_client_table(c->client, names[t], TIDE_SECOND, &c->tables[t]);
        judge_time(c, "look for a table", until);
    }
    if (code != 0 && !is_explained(code)) {
        swarm_fail(w, "answers", "%s cannot connect: %s %s", c->name, tide_error_name(code), tide_client_error());
    }
    if (code != 0) {
        tide_client_close(c->client);
        c->client = NULL;
    }
    return code == 0;
}

static void hang_up(struct client *c) {
    tide_client_close(c->client);
    c->client = NULL;
}

static void some_calls(struct client *c) {
    const size_t depth = between(&c->random, 1, DEPTH);
    c->doing = "begins calls";
    for (size_t i = 0; i < depth && !c->world->report->failed; i++) {
        begin_call(c, &c->calls[i]);
        if (chance(&c->random, 0.3)) {
            (void)tide_sleep(tide_random_below(&c->random, 5 * MS));
        }
    }
    c->doing = "waits for calls";
    for (size_t i = 0; i < DEPTH && !c->world->report->failed; i++) {
        if (c->calls[i].op) {
            end_call(c, &c->calls[i]);
        }
    }
}

static int client_main(void *state) {
    struct client *c = state;
    struct world *w = c->world;
    while (!w->report->failed) {
        c->doing = "connects";
        if (!c->client && !connect_client(c)) {
            (void)tide_sleep(between(&c->random, 50, 500) * MS);
            continue;
        }
        const uint64_t served = c->served;
        some_calls(c);
        if (w->stopping && c->served > served) { /* served again: it may go */
            break;
        }
        c->doing = "rests";
        if (chance(&c->random, 0.03)) {
            hang_up(c);
        }
        if (chance(&c->random, 0.1)) {
            (void)tide_sleep(tide_random_below(&c->random, 500) * MS);
        }
    }
    c->doing = "hangs up";
    if (c->client && !w->report->failed) {
        hang_up(c);
    }
    c->ended = true;
    return 0;
}

/* ---- the world's side ---- */

int clients_create_tables(struct world *w) {
    for (unsigned t = 0; t < CLIENT_TABLES && option(w, SWARM_CLIENTS) > 0; t++) {
        struct tide_table *table;
        const struct tide_table_options o = {.name = names[t],
                                             .init = TIDE_INIT_ZERO,
                                             .update = TIDE_UPDATE_ADD,
                                             .key_count = TOKENS,
                                             .width = 1,
                                             .replicas = t == 0,
                                             .seed = 1};
        const int code = tide_table_create(w->nodes[0]->node, &o, &table);
        if (code != 0) {
            return code;
        }
    }
    return 0;
}

void clients_start(struct world *w) {
    client_count = (unsigned)option(w, SWARM_CLIENTS);
    for (unsigned t = 0; t < CLIENT_TABLES && client_count > 0; t++) {
        tokens[t] = tide_alloc_zero(TOKENS, 1);
        token_count[t] = 0;
        TIDE_ASSERT(tokens[t] != NULL);
    }
    for (unsigned i = 0; i < client_count; i++) {
        struct client *c = tide_alloc_zero(1, sizeof *c);
        TIDE_ASSERT(c != NULL);
        c->world = w;
        (void)snprintf(c->name, sizeof c->name, "c%u", i + 1);
        tide_random_seed(&c->random, tide_mix64(w->options.seed ^ (0xc11e << 8) ^ i));
        c->host = posix_host_create(w->sim, c->name);
        TIDE_ASSERT(posix_host_spawn(c->host, client_main, c) == 0);
        clients[i] = c;
    }
}

bool clients_ended(char *why, size_t size) {
    for (unsigned i = 0; i < client_count; i++) {
        if (!clients[i]->ended) {
            (void)snprintf(why, size, "client %s %s", clients[i]->name, clients[i]->doing);
            return false;
        }
    }
    return true;
}

/* Cuts a client off from a node or from all, resets a connection, or pauses its machine. */
bool clients_fault(struct world *w, struct tide_random *random, unsigned *client, uint64_t *lasts) {
    if (client_count == 0) {
        return false;
    }
    *client = (unsigned)tide_random_below(random, client_count);
    struct client *c = clients[*client];
    const struct node *n = w->nodes[tide_random_below(random, w->node_count)];
    const unsigned how = (unsigned)tide_random_below(random, 4);
    *lasts = (uint64_t)(exp2(tide_random_uniform(random) * 8) * 20) * MS; /* 0.02 to 5 s */
    if (how == 0) {
        tide_sim_reset(w->sim, c->name, n->name);
        fault_note(w, "reset %s-%s", c->name, n->name);
        return false;
    }
    if (how == 1) {
        tide_sim_pause(w->sim, c->name, *lasts);
        const uint64_t until = tide_sim_now(w->sim) + *lasts;
        c->paused_until = until > c->paused_until ? until : c->paused_until;
        fault_note(w, "%s sleeps for %.3f s", c->name, (double)*lasts / 1e9);
        return false;
    }
    for (unsigned i = 0; i < w->node_count; i++) {
        if (how == 2 || w->nodes[i] == n) {
            tide_sim_cut(w->sim, c->name, w->nodes[i]->name, true);
            tide_sim_cut(w->sim, w->nodes[i]->name, c->name, true);
        }
    }
    fault_note(w, "cut %s-%s for %.3f s", c->name, how == 2 ? "all" : n->name, (double)*lasts / 1e9);
    return true;
}

void clients_heal(struct world *w, unsigned client) {
    for (unsigned i = 0; i < w->node_count; i++) {
        tide_sim_cut(w->sim, clients[client]->name, w->nodes[i]->name, false);
        tide_sim_cut(w->sim, w->nodes[i]->name, clients[client]->name, false);
    }
}

/* ---- at rest ---- */

static bool looked;

/* Keys together as long as all can be read: what is lost is one key's affair. */
static void look_at(struct world *w, struct tide_table *table, unsigned t, uint64_t first, size_t count) {
    uint64_t keys[LOOK];
    float values[LOOK];
    for (size_t i = 0; i < count; i++) {
        keys[i] = first + i;
    }
    const int code = tide_table_pull(table, keys, count, values, NULL);
    for (size_t i = 0; i < count; i++) {
        if (code == 0) {
            judge(w, "n1, at rest,", t, keys[i], (enum token)tokens[t][keys[i]], values[i]);
        } else if (count > 1) {
            look_at(w, table, t, keys[i], 1);
        } else if (!is_lossy(w, t)) {
            swarm_fail(w, "answers", "n1, at rest: token %llu of table %s: %s", (unsigned long long)first, names[t],
                       tide_error_message());
        }
    }
}

static int look_main(void *state) {
    struct world *w = state;
    for (unsigned t = 0; t < CLIENT_TABLES && !w->report->failed; t++) {
        struct tide_table *table;
        TIDE_ASSERT(tide_table_find(w->nodes[0]->node, names[t], &table) == 0);
        for (uint64_t key = 0; key < token_count[t] && !w->report->failed; key += LOOK) {
            const size_t left = token_count[t] - key;
            look_at(w, table, t, key, left < LOOK ? left : LOOK);
        }
        tide_table_release(table);
    }
    looked = true;
    return 0;
}

/* True: clients_looked becomes true. */
bool clients_look(struct world *w) {
    looked = false;
    if (client_count > 0) {
        saver_spawn(w, look_main);
    }
    return client_count > 0;
}

bool clients_looked(struct world *w) {
    (void)w;
    return looked;
}

void clients_release(struct world *w) {
    for (unsigned i = 0; i < client_count; i++) {
        tide_sim_crash(w->sim, clients[i]->name);
        posix_host_destroy(clients[i]->host);
        tide_free(clients[i]);
    }
    for (unsigned t = 0; t < CLIENT_TABLES; t++) {
        tide_free(tokens[t]);
        tokens[t] = NULL;
    }
    client_count = 0;
}
