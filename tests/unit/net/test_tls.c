/* TLS between nodes: which certificates are believed, what damage to a handshake does, links under it in the simulator,
 * and that one seed is one run. */
#include "net/tls/tls.h"
#include "net_echo.h"

#include <malloc.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

static struct tide_port *disk; /* a real port, for its files */
static char root[] = "/tmp/tide-tls-XXXXXX";
static const int64_t DAY = 86400;

/* ---- making keys ---- */

static void write_file(const char *directory, const char *name, const char *text) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    chmod(path, 0600);
}

struct authority {
    char cluster[64];
    char *certificate, *key;
};

static int64_t wall_s(void) {
    return (int64_t)(disk->ops->wall(disk) / TIDE_SECOND);
}

enum { SIMULATED_S = 1700000000, DAYS = 7300 }; /* the date of simulated worlds; valid there and here */

static void make_authority(struct authority *a, const char *cluster) {
    struct tide_random random; /* the same keys in every run */
    tide_random_seed(&random, 7);
    snprintf(a->cluster, sizeof a->cluster, "%s", cluster);
    assert_int_equal(tide_keys_make_authority(cluster, SIMULATED_S, &random, &a->certificate, &a->key), 0);
}

/* A credential in a directory of that name; returns its path, which lives as long as the program. */
static const char *make_keys(const struct authority *a, const char *name, enum tide_right right, const char *who,
                             int64_t now, unsigned days, const char *revoked, struct tide_identity *out) {
    static char paths[64][128];
    static unsigned used;
    char *path = paths[used++ % 64], *certificate, *key;
    struct tide_random random;
    tide_random_seed(&random, used);
    struct tide_identity identity = {.right = (uint8_t)right};
    snprintf(identity.cluster, sizeof identity.cluster, "%s", a->cluster);
    snprintf(identity.name, sizeof identity.name, "%s", who);
    assert_int_equal(tide_keys_issue(a->certificate, a->key, &identity, now, days, &random, &certificate, &key), 0);
    snprintf(path, sizeof paths[0], "%s/%s", root, name);
    mkdir(path, 0700);
    write_file(path, "ca.pem", a->certificate);
    write_file(path, "cert.pem", certificate);
    write_file(path, "key.pem", key);
    if (revoked != NULL) {
        write_file(path, "revoked", revoked);
    }
    tide_free(certificate);
    tide_free(key);
    if (out != NULL) {
        *out = identity;
    }
    return path;
}

static struct authority lab, other;
static const char *node_keys, *admin_keys, *reader_keys, *n2_keys;

/* ---- two sessions without a net ---- */

struct pair {
    struct tide_tls *credential[2];
    struct tide_tls_session *end[2]; /* 0 the client */
    int state[2];
};

static void pair_open(struct pair *p, const char *client, const char *server) {
    memset(p, 0, sizeof *p);
    assert_int_equal(tide__tls_open(disk, client, "lab", &p->credential[0]), 0);
    assert_int_equal(tide__tls_open(disk, server, "lab", &p->credential[1]), 0);
    for (int i = 0; i < 2; i++) {
        p->end[i] = tide__tls_begin(p->credential[i], i == 1);
        assert_non_null(p->end[i]);
    }
}

static void pair_close(struct pair *p) {
    for (int i = 0; i < 2; i++) {
        tide__tls_end(p->end[i]);
        tide__tls_close(p->credential[i]);
    }
}

/* Carries what one has to say to the other, `damage` applied to the `flight`-th piece. Returns how many bytes. */
static size_t carry(struct pair *p, int from, unsigned *flights, unsigned flight, size_t at, uint8_t damage) {
    static uint8_t bytes[256 << 10];
    size_t size;
    const uint8_t *output = tide__tls_output(p->end[from], &size);
    if (size == 0) {
        return 0;
    }
    memcpy(bytes, output, size);
    if ((*flights)++ == flight) {
        bytes[at % size] ^= damage;
    }
    tide__tls_written(p->end[from], size);
    int to = 1 - from;
    tide__tls_feed(p->end[to], bytes, size);
    if (p->state[to] == 0) {
        p->state[to] = tide__tls_handshake(p->end[to]);
    }
    for (uint8_t plain[64]; p->state[to] == 1;) {
        ssize_t n = tide__tls_read(p->end[to], plain, sizeof plain);
        p->state[to] = n < 0 ? (int)n : p->state[to];
        if (n <= 0) {
            break;
        }
    }
    tide__tls_feed(p->end[to], NULL, 0);
    return size;
}

/* Whether both ends are done and nothing went wrong. */
static bool shake(struct pair *p, unsigned flight, size_t at, uint8_t damage) {
    unsigned flights = 0;
    p->state[0] = tide__tls_handshake(p->end[0]);
    for (unsigned i = 0; i < 20; i++) {
        size_t moved = carry(p, 0, &flights, flight, at, damage);
        moved += carry(p, 1, &flights, flight, at, damage);
        if (moved == 0) {
            break;
        }
    }
    return p->state[0] == 1 && p->state[1] == 1;
}

static void nodes_believe_each_other_and_know_who_it_is(void **state) {
    (void)state;
    struct pair p;
    pair_open(&p, n2_keys, node_keys);
    assert_true(shake(&p, 999, 0, 0));
    assert_string_equal(tide__tls_peer(p.end[1])->name, "n2");
    assert_int_equal(tide__tls_peer(p.end[1])->right, TIDE_RIGHT_NODE);
    assert_string_equal(tide__tls_peer(p.end[0])->name, "*");
    pair_close(&p);
    pair_open(&p, reader_keys, node_keys);
    assert_true(shake(&p, 999, 0, 0));
    assert_int_equal(tide__tls_peer(p.end[1])->right, TIDE_RIGHT_READ);
    pair_close(&p);
}

/* One side does not believe the other: its reason, and what the other one hears. */
static void expect_refusal(const char *client, const char *server, int who_refuses, const char *reason,
                           const char *told) {
    struct pair p;
    pair_open(&p, client, server);
    assert_false(shake(&p, 999, 0, 0));
    assert_true(p.state[who_refuses] < 0);
    if (strstr(tide__tls_reason(p.end[who_refuses]), reason) == NULL) {
        fail_msg("\"%s\" instead of \"%s\"", tide__tls_reason(p.end[who_refuses]), reason);
    }
    if (told != NULL && strstr(tide__tls_reason(p.end[1 - who_refuses]), told) == NULL) {
        fail_msg("told \"%s\" instead of \"%s\"", tide__tls_reason(p.end[1 - who_refuses]), told);
    }
    pair_close(&p);
}

static void certificates_that_are_not_good_are_refused_in_words(void **state) {
    (void)state;
    const int64_t now = wall_s();
    struct tide_identity gone;
    char line[128];
    /* the other authority calls its cluster by the same name: nothing but its key tells them apart */
    const char *foreign = make_keys(&other, "foreign", TIDE_RIGHT_NODE, "*", now, 10, NULL, NULL);
    const char *expired = make_keys(&lab, "expired", TIDE_RIGHT_NODE, "*", now - 20 * DAY, 10, NULL, NULL);
    const char *early = make_keys(&lab, "early", TIDE_RIGHT_NODE, "*", now + 5 * DAY, 10, NULL, NULL);
    const char *taken = make_keys(&lab, "taken", TIDE_RIGHT_NODE, "n9", now, 10, NULL, &gone);
    snprintf(line, sizeof line, "# those of n9\n%s node n9\n", gone.serial);
    const char *careful = make_keys(&lab, "careful", TIDE_RIGHT_NODE, "*", now, 10, line, NULL);
    expect_refusal(foreign, node_keys, 0, "not of this cluster's authority", "not of its cluster's authority");
    expect_refusal(expired, node_keys, 1, "has expired (this clock says 20", "has expired");
    expect_refusal(early, node_keys, 1, "is not valid yet (this clock says 20", "does not accept");
    expect_refusal(taken, careful, 1, "was revoked", "was revoked");
    expect_refusal(node_keys, reader_keys, 0, "a person's, not a node's", "certificate");
    expect_refusal(careful, taken, 0, "was revoked", NULL);
}

static void keys_that_cannot_be_used_are_named(void **state) {
    (void)state;
    struct tide_tls *tls;
    const char *keys = make_keys(&lab, "wrong", TIDE_RIGHT_NODE, "*", wall_s(), 10, NULL, NULL);
    char path[300];
    snprintf(path, sizeof path, "%s/key.pem", keys);
    assert_int_equal(tide__tls_open(disk, "/tmp/nowhere-at-all", "lab", &tls), TIDE_ENOENT);
    assert_non_null(strstr(tide_error_message(), "tide keys init"));
    assert_int_equal(tide__tls_open(disk, keys, "mill", &tls), TIDE_EMISMATCH);
    assert_non_null(strstr(tide_error_message(), "cluster 'lab', not 'mill'"));
    chmod(path, 0640);
    assert_int_equal(tide__tls_open(disk, keys, "lab", &tls), TIDE_EPERM);
    chmod(path, 0644);
    assert_int_equal(tide__tls_open(disk, keys, "lab", &tls), TIDE_EPERM);
    assert_non_null(strstr(tide_error_message(), "key.pem can be read by others (mode 0644"));
    write_file(keys, "key.pem", "-----BEGIN PRIVATE KEY-----\nMC4CAQ");
    assert_int_equal(tide__tls_open(disk, keys, "lab", &tls), TIDE_EINVAL);
    assert_non_null(strstr(tide_error_message(), "key.pem is damaged"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(tide__tls_open(disk, keys, "lab", &tls), TIDE_EINVAL);
    assert_non_null(strstr(tide_error_message(), "is a directory"));
    assert_int_equal(rmdir(path), 0);
    write_file(keys, "key.pem", other.key); /* of another certificate */
    assert_int_equal(tide__tls_open(disk, keys, "lab", &tls), TIDE_EINVAL);
    write_file(keys, "revoked", "no number\n");
    keys = make_keys(&lab, "wrong", TIDE_RIGHT_NODE, "*", wall_s(), 10, "12ab node n1\nno number\n", NULL);
    assert_int_equal(tide__tls_open(disk, keys, "lab", &tls), TIDE_EINVAL);
    assert_non_null(strstr(tide_error_message(), "revoked, line 2"));
}

static void names_in_certificates_are_read_strictly(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",          "tide://",          "tide://lab",         "tide://lab/node",      "tide://lab/node/",
        "tide:/lab", "http://lab/a/b",   "tide://lab/root/n1", "tide://lab/read/*",    "tide://LAB/node/n1",
        "tide:///node/n1", "tide://lab//n1", "tide://lab/node/n1/", "tide://lab/node/n1/x", "tide://lab/node/a b",
        "tide://lab/node/0123456789012345678901234567890123456789012345678901234567890123456789"};
    struct tide_identity who;
    for (size_t i = 0; i < TIDE_COUNT(bad); i++) {
        if (tide_identity_parse(bad[i], strlen(bad[i]), &who) != TIDE_EPROTO) {
            fail_msg("taken: %s", bad[i]);
        }
    }
    assert_int_equal(tide_identity_parse("tide://lab/node/n\0001", 18, &who), TIDE_EPROTO);
    assert_int_equal(tide_identity_parse("tide://lab/operate/ann", 22, &who), 0);
    assert_int_equal(who.right, TIDE_RIGHT_OPERATE);
}

/* ---- a peer that is not ours, by OpenSSL's own means ---- */

/* Its bytes and ours go back and forth; whether it, and we, think the handshake done. */
static bool alien_shakes(SSL_CTX *context, struct tide_tls *server, const char **reason) {
    static char text[200];
    SSL *ssl = SSL_new(context);
    BIO *to = BIO_new(BIO_s_mem()), *from = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, from, to);
    SSL_set_connect_state(ssl);
    struct tide_tls_session *s = tide__tls_begin(server, true);
    int ours = 0;
    for (int i = 0; i < 10 && ours == 0; i++) {
        (void)SSL_do_handshake(ssl);
        uint8_t bytes[16384];
        int n = BIO_read(to, bytes, sizeof bytes);
        if (n > 0) {
            tide__tls_feed(s, bytes, (size_t)n);
            ours = tide__tls_handshake(s);
        }
        size_t size;
        const uint8_t *output = tide__tls_output(s, &size);
        if (size > 0) {
            BIO_write(from, output, (int)size);
            tide__tls_written(s, size);
        }
    }
    snprintf(text, sizeof text, "%s", tide__tls_reason(s));
    *reason = text;
    tide__tls_end(s);
    SSL_free(ssl);
    ERR_clear_error();
    return ours == 1;
}

static void strangers_without_a_certificate_or_of_older_tls_stay_outside(void **state) {
    (void)state;
    struct tide_tls *server;
    const char *reason;
    assert_int_equal(tide__tls_open(disk, node_keys, "lab", &server), 0);
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    assert_false(alien_shakes(context, server, &reason));
    assert_string_equal(reason, "it has shown no certificate");
    SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
    assert_false(alien_shakes(context, server, &reason));
    assert_string_equal(reason, "what it sends is not TLS 1.3");
    SSL_CTX_free(context);
    static const char plain[] = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    struct tide_tls_session *s = tide__tls_begin(server, true);
    tide__tls_feed(s, (const uint8_t *)plain, sizeof plain);
    assert_true(tide__tls_handshake(s) < 0);
    assert_string_equal(tide__tls_reason(s), "what it sends is not TLS 1.3");
    tide__tls_end(s);
    tide__tls_close(server);
}

static void damaged_handshakes_let_nobody_in(void **state) {
    (void)state;
    struct tide_random random;
    tide_random_seed(&random, 5);
    const char *rounds = getenv("TIDE_TEST_ROUNDS");
    unsigned count = rounds != NULL ? (unsigned)atoi(rounds) : 500;
    for (unsigned i = 0; i < count; i++) {
        struct pair p;
        pair_open(&p, n2_keys, node_keys);
        uint8_t damage = (uint8_t)(1 + tide_random_below(&random, 255));
        unsigned flight = (unsigned)tide_random_below(&random, 3); /* hello, the server's, the client's */
        if (shake(&p, flight, tide_random_below(&random, 4000), damage)) {
            fail_msg("round %u: flight %u with damage goes through", i, flight);
        }
        pair_close(&p);
    }
}

static char last_reason[2][200]; /* of the last that were not done */
static int64_t later_base, later_s;

/* Two sessions of credentials that may have believed each other before; whether they are done. */
static bool shake_again(struct pair *p, unsigned flight, size_t at, uint8_t damage) {
    for (int i = 0; i < 2; i++) {
        p->state[i] = 0;
        p->end[i] = tide__tls_begin(p->credential[i], i == 1);
        assert_non_null(p->end[i]);
    }
    bool done = shake(p, flight, at, damage);
    for (int i = 0; i < 2; i++) {
        if (!done) {
            snprintf(last_reason[i], sizeof last_reason[i], "%s", tide__tls_reason(p->end[i]));
        }
        tide__tls_end(p->end[i]);
    }
    return done;
}

static uint64_t later_wall(struct tide_port *port) {
    (void)port;
    return (uint64_t)(later_base + later_s) * TIDE_SECOND;
}

/* A certificate whose chain was verified before is believed again, but not damaged, not after its time, and not once it
 * was revoked. */
static void certificates_that_were_believed_are_judged_again(void **state) {
    (void)state;
    struct tide_random random;
    struct tide_identity who;
    tide_random_seed(&random, 6);
    const char *client = make_keys(&lab, "known", TIDE_RIGHT_NODE, "n7", wall_s() - 10 * DAY + 1200, 10, NULL, &who);
    const char *server = make_keys(&lab, "knows", TIDE_RIGHT_NODE, "*", wall_s(), 40, NULL, NULL);
    struct pair p = {0};
    assert_int_equal(tide__tls_open(disk, client, "lab", &p.credential[0]), 0);
    assert_int_equal(tide__tls_open(disk, server, "lab", &p.credential[1]), 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(shake_again(&p, 999, 0, 0));
    }
    for (unsigned i = 0; i < 200; i++) {
        uint8_t damage = (uint8_t)(1 + tide_random_below(&random, 255));
        unsigned flight = (unsigned)tide_random_below(&random, 3);
        if (shake_again(&p, flight, tide_random_below(&random, 4000), damage)) {
            fail_msg("round %u: flight %u with damage goes through", i, flight);
        }
    }
    assert_true(shake_again(&p, 999, 0, 0));
    const struct tide_port_ops *ops = disk->ops;
    struct tide_port_ops shifted = *ops;
    later_base = wall_s();
    shifted.wall = later_wall;
    disk->ops = &shifted;
    later_s = 600; /* within the hour, and the client's time */
    assert_true(shake_again(&p, 999, 0, 0));
    later_s = 1800; /* its time is over, and the hour is not */
    assert_false(shake_again(&p, 999, 0, 0));
    assert_non_null(strstr(last_reason[1], "has expired"));
    later_s = -2 * DAY;
    assert_false(shake_again(&p, 999, 0, 0));
    disk->ops = ops;
    assert_true(shake_again(&p, 999, 0, 0));
    char line[128];
    snprintf(line, sizeof line, "%s node n7\n", who.serial);
    write_file(server, "revoked", line);
    assert_true(tide__tls_refresh(p.credential[1], "test"));
    assert_false(shake_again(&p, 999, 0, 0));
    assert_non_null(strstr(last_reason[1], "was revoked"));
    tide__tls_close(p.credential[0]);
    tide__tls_close(p.credential[1]);
}

/* Keys begun anew in the same directory: certificates of the former authority are strangers', believed before or not. */
static void a_new_authority_believes_none_of_the_former(void **state) {
    (void)state;
    struct authority fresh;
    struct tide_random random;
    const char *client = make_keys(&lab, "renewed", TIDE_RIGHT_NODE, "n8", wall_s(), 10, NULL, NULL);
    const char *server = make_keys(&lab, "former", TIDE_RIGHT_NODE, "n9", wall_s(), 10, NULL, NULL);
    struct pair p = {0};
    assert_int_equal(tide__tls_open(disk, client, "lab", &p.credential[0]), 0);
    assert_int_equal(tide__tls_open(disk, server, "lab", &p.credential[1]), 0);
    assert_true(shake_again(&p, 999, 0, 0));
    tide_random_seed(&random, 99);
    snprintf(fresh.cluster, sizeof fresh.cluster, "lab");
    assert_int_equal(tide_keys_make_authority("lab", SIMULATED_S, &random, &fresh.certificate, &fresh.key), 0);
    (void)make_keys(&fresh, "renewed", TIDE_RIGHT_NODE, "n8", wall_s(), 10, NULL, NULL);
    assert_true(tide__tls_refresh(p.credential[0], "test"));
    assert_false(shake_again(&p, 999, 0, 0));
    assert_string_equal(last_reason[0], "its certificate is not of this cluster's authority");
    tide__tls_close(p.credential[0]);
    tide__tls_close(p.credential[1]);
    tide_free(fresh.certificate);
    tide_free(fresh.key);
}

static void handshakes_leave_memory_as_it_was(void **state) {
    (void)state;
    struct tide_tls *credential;
    assert_int_equal(tide__tls_open(disk, node_keys, "lab", &credential), 0);
    size_t before = 0;
    const char *rounds = getenv("TIDE_TEST_ROUNDS");
    unsigned count = rounds != NULL ? (unsigned)atoi(rounds) : 600;
    for (unsigned i = 0; i < count; i++) {
        struct pair p = {.credential = {credential, credential}};
        p.end[0] = tide__tls_begin(credential, false);
        p.end[1] = tide__tls_begin(credential, true);
        assert_true(shake(&p, 999, 0, 0));
        tide__tls_end(p.end[0]);
        tide__tls_end(p.end[1]);
        if (i == count / 2) {
            before = mallinfo2().uordblks;
        }
    }
    assert_true(mallinfo2().uordblks <= before + 4096);
    tide__tls_close(credential);
}

static void changed_files_are_taken_and_damaged_ones_are_not(void **state) {
    (void)state;
    struct tide_tls *tls;
    const char *keys = make_keys(&lab, "rotated", TIDE_RIGHT_NODE, "n5", wall_s(), 10, NULL, NULL);
    assert_int_equal(tide__tls_open(disk, keys, "lab", &tls), 0);
    struct tide_identity first = *tide__tls_self(tls), second;
    assert_false(tide__tls_refresh(tls, "test"));
    (void)make_keys(&lab, "rotated", TIDE_RIGHT_NODE, "n5", wall_s(), 20, NULL, &second);
    assert_true(tide__tls_refresh(tls, "test"));
    assert_string_equal(tide__tls_self(tls)->serial, second.serial);
    assert_string_not_equal(first.serial, second.serial);
    write_file(keys, "cert.pem", "half a file");
    assert_false(tide__tls_refresh(tls, "test"));
    assert_string_equal(tide__tls_self(tls)->serial, second.serial);
    assert_null(tide__tls_objects(tls, &first));
    (void)make_keys(&lab, "rotated", TIDE_RIGHT_NODE, "n5", wall_s(), 30, first.serial, NULL);
    assert_true(tide__tls_refresh(tls, "test"));
    assert_string_equal(tide__tls_objects(tls, &first), "its certificate was revoked");
    tide__tls_close(tls);
}

/* ---- nodes in the simulator ---- */

static void open_world(struct world *w, uint64_t seed) {
    world_open_reading(w, seed, disk);
    w->keys = node_keys;
}

static void members_talk_under_tls_whatever_the_size(void **state) {
    (void)state;
    struct world w;
    open_world(&w, 21);
    struct echo echoes[2] = {0};
    assert_non_null(world_add(&w, "c0"));
    assert_non_null(world_add(&w, "n2"));
    assert_non_null(world_add(&w, "n3"));
    tide_address a = spawn_echo(&w.nodes[0], &echoes[0]);
    static const size_t sizes[] = {0, 1, 500, 16383, 16384, 16385, 70000, 300000, 8 << 20};
    for (size_t i = 0; i < TIDE_COUNT(sizes); i++) {
        assert_int_equal(call(&w, &w.nodes[1 + i % 2], a, sizes[i]), 0);
    }
    world_close(&w);
}

static void small_batches_and_short_writes_lose_nothing(void **state) {
    (void)state;
    struct world w;
    world_open_reading(&w, 22, disk);
    w.keys = node_keys;
    tide_sim_set_window(w.sim, 3000); /* a socket that takes little */
    uint64_t records = tide__tls_records_max;
    tide__tls_records_max = 3; /* and keys that change all the time */
    struct echo echoes[2] = {0};
    assert_non_null(world_add(&w, "c0"));
    assert_non_null(world_add(&w, "n2"));
    tide_address a = spawn_echo(&w.nodes[0], &echoes[0]), b = spawn_echo(&w.nodes[1], &echoes[1]);
    struct caller there = {.to = b, .size = 200000, .calls = 4}, back = {.to = a, .size = 90000, .calls = 9};
    struct caller small = {.to = b, .size = 100, .calls = 200};
    start_caller(&w.nodes[0], &there);
    start_caller(&w.nodes[1], &back);
    start_caller(&w.nodes[0], &small);
    assert_int_equal(await_caller(&w, &there), 0);
    assert_int_equal(await_caller(&w, &back), 0);
    assert_int_equal(await_caller(&w, &small), 0);
    tide__tls_records_max = records;
    world_close(&w);
}

static void a_session_goes_on_over_connections_that_break(void **state) {
    (void)state;
    struct world w;
    open_world(&w, 23);
    struct echo echo = {0};
    assert_non_null(world_add(&w, "c0"));
    assert_non_null(world_add(&w, "n2"));
    struct caller c = {.to = spawn_echo(&w.nodes[0], &echo), .size = 40000, .calls = 300};
    start_caller(&w.nodes[1], &c);
    for (unsigned i = 0; i < 12; i++) {
        world_pause(&w, 7 * MS);
        tide_sim_reset(w.sim, "c0", "n2");
    }
    assert_int_equal(await_caller(&w, &c), 0);
    assert_true(await_member(&w.nodes[0], 2, TIDE_MEMBER_UP, MS) != TIDE_NEVER);
    world_close(&w);
}

static uint64_t hash_of_a_run(uint64_t seed, uint64_t *events) {
    struct world w;
    open_world(&w, seed);
    struct echo echo = {0};
    assert_non_null(world_add(&w, "c0"));
    assert_non_null(world_add(&w, "n2"));
    assert_non_null(world_add(&w, "n3"));
    tide_address a = spawn_echo(&w.nodes[0], &echo);
    assert_int_equal(call(&w, &w.nodes[1], a, 100000), 0);
    tide_sim_reset(w.sim, "c0", "n3");
    assert_int_equal(call(&w, &w.nodes[2], a, 1000), 0);
    uint64_t hash = tide_sim_hash(w.sim);
    *events = tide_sim_events(w.sim);
    world_close(&w);
    return hash;
}

static void the_same_seed_is_the_same_run(void **state) {
    (void)state;
    uint64_t events[3];
    uint64_t first = hash_of_a_run(31, &events[0]), again = hash_of_a_run(31, &events[1]);
    uint64_t another = hash_of_a_run(32, &events[2]);
    assert_int_equal(events[0], events[1]);
    assert_true(first == again);
    assert_true(first != another);
}

/* Starts a node that is expected to be refused; why. */
static void expect_no_join(struct world *w, const char *keys, const char *name, bool client, const char *why) {
    struct tide_node *node;
    char reason[200];
    int code;
    w->keys = keys;
    int rc = world_start(w, name, !client, "lab", tide_net_endpoint(w->nodes[0].net), client, &node);
    assert_int_equal(rc, 0);
    assert_int_equal(world_await(node, TIDE_MEMBER_UP), TIDE_MEMBER_DEAD);
    world_state(node, &code, reason);
    if (strstr(reason, why) == NULL) {
        fail_msg("%s: \"%s\" instead of \"%s\"", name, reason, why);
    }
}

static void only_whose_keys_allow_it_becomes_a_member(void **state) {
    (void)state;
    struct world w;
    open_world(&w, 41);
    struct tide_node *node;
    assert_int_equal(world_start(&w, "c0", true, "lab", NULL, false, &node), 0);
    assert_int_equal(world_await(node, TIDE_MEMBER_UP), TIDE_MEMBER_UP);
    expect_no_join(&w, reader_keys, "r", false, "its keys give the right read");
    expect_no_join(&w, n2_keys, "n7", false, "its keys are of node 'n2', and it says that it is 'n7'");
    expect_no_join(&w, node_keys, "k", true, "its keys are a node's");
    expect_no_join(&w, admin_keys, "d", false, "its keys give the right admin"); /* it wants to have rows */
    const char *foreign = make_keys(&other, "alien", TIDE_RIGHT_NODE, "*", SIMULATED_S, DAYS, NULL, NULL);
    expect_no_join(&w, foreign, "f", false, "not of this cluster's authority");
    w.keys = reader_keys;
    assert_int_equal(world_start(&w, "look", false, "lab", tide_net_endpoint(w.nodes[0].net), true, &node), 0);
    assert_int_equal(world_await(node, TIDE_MEMBER_UP), TIDE_MEMBER_UP);
    assert_int_equal(tide_net_right(node->net), TIDE_RIGHT_READ); /* it has asked for admin */
    world_close(&w);
}

/* Who answers must be whom its keys name, as who asks must. */
static void nobody_joins_who_answers_in_anothers_name(void **state) {
    (void)state;
    struct world w;
    open_world(&w, 43);
    struct tide_node *node;
    w.keys = n2_keys;
    assert_int_equal(world_start(&w, "c0", true, "lab", NULL, false, &node), 0);
    assert_int_equal(world_await(node, TIDE_MEMBER_UP), TIDE_MEMBER_UP);
    expect_no_join(&w, reader_keys, "look", true,
                   "the keys of who answers are of node 'n2', and it says that it is 'c0'");
    world_close(&w);
}

static void revoked_keys_cut_a_link_that_is_up(void **state) {
    (void)state;
    struct world w;
    struct tide_identity leaver;
    const char *judge = make_keys(&lab, "judge", TIDE_RIGHT_NODE, "*", SIMULATED_S, DAYS, NULL, NULL);
    const char *leaving = make_keys(&lab, "leaver", TIDE_RIGHT_ADMIN, "bob", SIMULATED_S, DAYS, NULL, &leaver);
    world_open_reading(&w, 42, disk);
    struct tide_node *c0, *client;
    w.keys = judge;
    assert_int_equal(world_start(&w, "c0", true, "lab", NULL, false, &c0), 0);
    assert_int_equal(world_await(c0, TIDE_MEMBER_UP), TIDE_MEMBER_UP);
    w.keys = leaving;
    assert_int_equal(world_start(&w, "bob", false, "lab", tide_net_endpoint(c0->net), true, &client), 0);
    assert_int_equal(world_await(client, TIDE_MEMBER_UP), TIDE_MEMBER_UP);
    struct tide_link_info info;
    world_pause(&w, TIDE_SECOND);
    assert_int_equal(tide_net_links(c0->net, &info, 1), 1);
    assert_true(info.up);
    write_file(judge, "revoked", leaver.serial);
    world_pause(&w, 3 * TIDE_SECOND);
    assert_true(tide_net_links(c0->net, &info, 1) == 0 || !info.up);
    world_close(&w);
}

static int begin(void **state) {
    (void)state;
    make_authority(&lab, "lab");
    assert_int_equal(tide_keys_make_authority("lab", SIMULATED_S, NULL, &other.certificate, &other.key), 0);
    snprintf(other.cluster, sizeof other.cluster, "lab");
    const int64_t now = SIMULATED_S;
    node_keys = make_keys(&lab, "node", TIDE_RIGHT_NODE, "*", now, DAYS, NULL, NULL);
    admin_keys = make_keys(&lab, "admin", TIDE_RIGHT_ADMIN, "ann", now, DAYS, NULL, NULL);
    reader_keys = make_keys(&lab, "reader", TIDE_RIGHT_READ, "alice", now, DAYS, NULL, NULL);
    n2_keys = make_keys(&lab, "n2", TIDE_RIGHT_NODE, "n2", now, DAYS, NULL, NULL);
    return 0;
}

static int end(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", root);
    tide_free(lab.certificate);
    tide_free(lab.key);
    tide_free(other.certificate);
    tide_free(other.key);
    disk->ops->destroy(disk);
    return system(command) == 0 ? 0 : -1;
}

int main(void) {
    if (mkdtemp(root) == NULL || tide_port_real_create(3, &disk) != 0) {
        return 1;
    }
    net_tests_begin();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_believe_each_other_and_know_who_it_is),
        cmocka_unit_test(certificates_that_are_not_good_are_refused_in_words),
        cmocka_unit_test(keys_that_cannot_be_used_are_named),
        cmocka_unit_test(names_in_certificates_are_read_strictly),
        cmocka_unit_test(strangers_without_a_certificate_or_of_older_tls_stay_outside),
        cmocka_unit_test(damaged_handshakes_let_nobody_in),
        cmocka_unit_test(certificates_that_were_believed_are_judged_again),
        cmocka_unit_test(a_new_authority_believes_none_of_the_former),
        cmocka_unit_test(handshakes_leave_memory_as_it_was),
        cmocka_unit_test(changed_files_are_taken_and_damaged_ones_are_not),
        cmocka_unit_test(members_talk_under_tls_whatever_the_size),
        cmocka_unit_test(small_batches_and_short_writes_lose_nothing),
        cmocka_unit_test(a_session_goes_on_over_connections_that_break),
        cmocka_unit_test(the_same_seed_is_the_same_run),
        cmocka_unit_test(only_whose_keys_allow_it_becomes_a_member),
        cmocka_unit_test(nobody_joins_who_answers_in_anothers_name),
        cmocka_unit_test(revoked_keys_cut_a_link_that_is_up),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
