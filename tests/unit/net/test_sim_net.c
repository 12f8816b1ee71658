/*
 * The network of the simulator: cases computed by hand, and flows against an oracle that fills all
 * links drop by drop.
 */
#include "port/sim_fabric.h"
#include "port/port.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)
enum { MB = 1000000 };

/* ---- flows over links ---- */

static void nothing_changed(void *arg, struct fabric_flow *flow, double rate) {
    (void)arg;
    (void)flow;
    (void)rate;
}

static void near(double is, double wanted) {
    if (fabs(is - wanted) > 1e-6 * wanted) {
        fail_msg("%.9g instead of %.9g", is, wanted);
    }
}

static struct fabric fabric_of(const double *capacities, uint32_t count) {
    struct fabric f = {.changed = nothing_changed};
    for (uint32_t i = 0; i < count; i++) {
        tide__fabric_resize(&f, &i, &capacities[i], 1);
    }
    return f;
}

static void two_flows_share_a_link_and_the_one_that_stays_gets_all_of_it(void **state) {
    (void)state;
    struct fabric f = fabric_of((double[]){100, 30}, 2);
    struct fabric_flow a, b;
    tide__fabric_start(&f, &a, (uint32_t[]){0}, 1, 1e9);
    near(a.rate, 100);
    tide__fabric_start(&f, &b, (uint32_t[]){0, 1}, 2, 1e9);
    near(b.rate, 30); /* held up elsewhere: what it leaves is the other's */
    near(a.rate, 70);
    near(f.links[0].load, 100);
    tide__fabric_resize(&f, (uint32_t[]){1}, (double[]){80}, 1);
    near(a.rate, 50);
    near(b.rate, 50);
    tide__fabric_stop(&f, &a);
    near(b.rate, 80);
    tide__fabric_stop(&f, &b);
    assert_int_equal(f.flow_count, 0);
    tide__fabric_deinit(&f);
}

/* The parking lot: one flow over all three links, one over each. */
static void a_long_flow_gets_the_share_of_its_tightest_link(void **state) {
    (void)state;
    struct fabric f = fabric_of((double[]){100, 60, 80}, 3);
    struct fabric_flow all, one[3];
    tide__fabric_start(&f, &all, (uint32_t[]){0, 1, 2}, 3, 1e9);
    near(all.rate, 60);
    for (uint32_t i = 0; i < 3; i++) {
        tide__fabric_start(&f, &one[i], &i, 1, 1e9);
    }
    near(all.rate, 30);
    near(one[0].rate, 70);
    near(one[1].rate, 30);
    near(one[2].rate, 50);
    tide__fabric_stop(&f, &one[1]);
    near(all.rate, 40);
    near(one[2].rate, 40);
    near(one[0].rate, 60);
    tide__fabric_deinit(&f);
}

static void no_flow_exceeds_its_cap(void **state) {
    (void)state;
    struct fabric f = fabric_of((double[]){100}, 1);
    struct fabric_flow a, b, c;
    tide__fabric_start(&f, &a, (uint32_t[]){0}, 1, 10);
    tide__fabric_start(&f, &b, (uint32_t[]){0}, 1, 1e9);
    tide__fabric_start(&f, &c, (uint32_t[]){0}, 1, 40);
    near(a.rate, 10);
    near(b.rate, 50);
    near(c.rate, 40);
    tide__fabric_deinit(&f);
}

static void a_change_leaves_flows_that_share_no_link_alone(void **state) {
    (void)state;
    struct fabric f = fabric_of((double[]){100, 100}, 2);
    struct fabric_flow a, b;
    tide__fabric_start(&f, &a, (uint32_t[]){0}, 1, 1e9);
    uint64_t visit = a.visit;
    tide__fabric_start(&f, &b, (uint32_t[]){1}, 1, 1e9);
    assert_true(a.visit == visit && b.visit != visit);
    tide__fabric_deinit(&f);
}

static void a_thousand_and_one_connected_flows_split_equally(void **state) {
    (void)state;
    enum { COUNT = FABRIC_FAIR_MAX + 1 };
    struct fabric f = fabric_of((double[]){1e6}, 1);
    struct fabric_flow *flows = tide_alloc(COUNT * sizeof *flows);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_true(f.split == 0);
        tide__fabric_start(&f, &flows[i], (uint32_t[]){0, 1 + i % 3}, 2, i == 0 ? 10 : 1e9);
    }
    assert_true(f.split == 1);
    near(flows[0].rate, 10);
    near(flows[1].rate, 1e6 / COUNT); /* nobody gets what the first leaves */
    tide__fabric_stop(&f, &flows[COUNT - 1]);
    assert_true(f.split == 1);
    near(flows[1].rate, (1e6 - 10) / (COUNT - 2));
    tide_free(flows);
    tide__fabric_deinit(&f);
}

enum { LINKS = 6, FLOWS = 9 };

/* All rates rise together by tiny drops; who meets a full link, or its cap, stays. */
static void fill_by_drops(const struct fabric_flow *flows, const double *capacity, double drop,
                          double *rate) {
    bool open[FLOWS];
    double used[LINKS] = {0};
    for (int i = 0; i < FLOWS; i++) {
        rate[i] = 0;
        open[i] = flows[i].hop_count > 0;
    }
    for (bool any = true; any;) {
        any = false;
        for (int i = 0; i < FLOWS; i++) {
            bool room = open[i] && rate[i] + drop <= flows[i].cap;
            for (unsigned k = 0; k < flows[i].hop_count; k++) {
                uint32_t link = flows[i].hops[k].link;
                room = room && (capacity[link] == 0 || used[link] + drop <= capacity[link]);
            }
            open[i] = open[i] && room;
            for (unsigned k = 0; open[i] && k < flows[i].hop_count; k++) {
                used[flows[i].hops[k].link] += drop;
            }
            rate[i] += open[i] ? drop : 0;
            any = any || open[i];
        }
    }
}

static void start_drawn(struct fabric *f, struct fabric_flow *flow, struct tide_random *random) {
    uint32_t links[FABRIC_HOPS], first = (uint32_t)tide_random_below(random, LINKS);
    unsigned count = 1 + (unsigned)tide_random_below(random, FABRIC_HOPS);
    for (uint32_t k = 0; k < count; k++) {
        links[k] = (first + 2 * k) % LINKS; /* two components, often */
    }
    tide__fabric_start(f, flow, links, count, 10 + (double)tide_random_below(random, 400));
}

static void rates_are_those_of_water_filled_in_drop_by_drop(void **state) {
    (void)state;
    const double drop = 0.01;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct tide_random random;
        struct fabric_flow flows[FLOWS];
        double capacity[LINKS], wanted[FLOWS];
        tide_random_seed(&random, seed);
        for (int i = 0; i < LINKS; i++) {
            capacity[i] = 50 * (double)tide_random_below(&random, 8); /* 0: no limit */
        }
        struct fabric f = fabric_of(capacity, LINKS);
        for (int i = 0; i < FLOWS; i++) {
            start_drawn(&f, &flows[i], &random);
        }
        for (int step = 0; step < 6; step++) {
            fill_by_drops(flows, capacity, drop, wanted);
            for (int i = 0; i < FLOWS; i++) {
                if (fabs(flows[i].rate - wanted[i]) > 30 * drop) {
                    fail_msg("seed %d step %d flow %d: %g instead of %g", (int)seed, step, i,
                             flows[i].rate, wanted[i]);
                }
            }
            struct fabric_flow *other = &flows[tide_random_below(&random, FLOWS)];
            tide__fabric_stop(&f, other);
            if (step % 2 == 0) {
                start_drawn(&f, other, &random);
            } else {
                uint32_t link = (uint32_t)tide_random_below(&random, LINKS);
                capacity[link] = 50 * (double)tide_random_below(&random, 8);
                tide__fabric_resize(&f, &link, &capacity[link], 1);
                start_drawn(&f, other, &random);
            }
        }
        tide__fabric_deinit(&f);
    }
}

/* ---- over connections ---- */

/* Sends `wanted` bytes to its destination once it is connected, in pieces of `piece`. */
struct sender {
    struct tide_port *port;
    struct tide_executor *executor;
    struct tide_stream *stream;
    const char *to;
    size_t wanted, sent, piece;
    uint64_t begin; /* not before */
    bool connected;
};

/* Notes when how much has come from whom. */
struct sink {
    struct tide_port *port;
    struct tide_executor *executor;
    struct tide_listener *listener;
    struct heard {
        struct sink *sink;
        struct tide_stream *stream;
        size_t count;
        uint64_t last;
    } heard[4]; /* from a0..a3 */
    char endpoint[32];
    uint8_t buffer[1 << 16];
};

enum { SENDERS = 4, SINKS = 2 };
struct net {
    struct tide_sim *sim;
    struct sender senders[SENDERS];
    struct sink sinks[SINKS];
};

static const uint8_t bytes[256 << 10];

static void on_connected(void *arg, struct tide_stream *stream) {
    (void)stream;
    ((struct sender *)arg)->connected = true;
}

static void on_writable(void *arg) {
    (void)arg;
}

static void no_buffer(void *arg, void **data, size_t *size) {
    (void)arg;
    *data = NULL;
    *size = 0;
}

static void no_bytes(void *arg, size_t size) {
    (void)arg;
    (void)size;
}

static void sender_closed(void *arg, int reason) {
    struct sender *s = arg;
    (void)reason;
    s->connected = false;
    s->stream = NULL;
}

static const struct tide_stream_events sender_events = {.connected = on_connected,
                                                        .buffer = no_buffer,
                                                        .received = no_bytes,
                                                        .writable = on_writable,
                                                        .closed = sender_closed};

static uint64_t sender_turn(void *arg) {
    struct sender *s = arg;
    const struct tide_port_ops *ops = s->port->ops;
    if (s->wanted == 0) {
        return TIDE_NEVER;
    }
    if (s->stream == NULL && s->sent == 0) {
        assert_int_equal(ops->connect(s->executor, s->to, &sender_events, s, &s->stream), 0);
    }
    if (tide_port_now(s->port) < s->begin) {
        return s->begin;
    }
    while (s->connected && s->sent < s->wanted) {
        size_t left = s->wanted - s->sent;
        struct tide_iovec iov = {bytes, left < s->piece ? left : s->piece};
        ssize_t n = ops->stream_write(s->stream, &iov, 1);
        assert_true(n >= 0);
        s->sent += (size_t)n;
        if ((size_t)n < iov.size) {
            break;
        }
    }
    return TIDE_NEVER;
}

static void sink_buffer(void *arg, void **data, size_t *size) {
    struct heard *h = arg;
    *data = h->sink->buffer;
    *size = sizeof h->sink->buffer;
}

static void sink_received(void *arg, size_t size) {
    struct heard *h = arg;
    h->count += size;
    h->last = tide_port_now(h->sink->port);
}

static void sink_closed(void *arg, int reason) {
    (void)reason;
    ((struct heard *)arg)->stream = NULL;
}

static const struct tide_stream_events sink_events = {.buffer = sink_buffer,
                                                      .received = sink_received,
                                                      .writable = on_writable,
                                                      .closed = sink_closed};

static void sink_accepted(void *arg, struct tide_stream *stream) {
    struct sink *s = arg;
    struct tide_peer_identity who;
    s->port->ops->stream_peer(stream, &who);
    struct heard *h = &s->heard[who.address[5] - '0']; /* sim:a2 */
    *h = (struct heard){.sink = s, .stream = stream};
    s->port->ops->stream_accept(stream, &sink_events, h);
}

static uint64_t sink_turn(void *arg) {
    struct sink *s = arg;
    if (s->listener == NULL) {
        assert_int_equal(
            s->port->ops->listen(s->executor, s->endpoint, sink_accepted, s, &s->listener), 0);
    }
    return TIDE_NEVER;
}

/* Senders a0..a3, sinks b0 and b1, 10 MB/s cards, no latency, turns that take next to no time. */
static void net_open(struct net *n, struct tide_sim_options o) {
    memset(n, 0, sizeof *n);
    o.seed = o.seed != 0 ? o.seed : 1;
    o.latency_ns_min = o.latency_ns_min != 0 ? o.latency_ns_min : 1;
    o.latency_ns_max = o.latency_ns_min;
    o.nic_bytes_per_s = o.nic_bytes_per_s != 0 ? o.nic_bytes_per_s : 10 * MB;
    o.turn_cost_ns = 1;
    assert_int_equal(tide_sim_create(&o, &n->sim), 0);
    for (int i = 0; i < SINKS; i++) {
        struct sink *s = &n->sinks[i];
        char name[8];
        snprintf(name, sizeof name, "b%d", i);
        snprintf(s->endpoint, sizeof s->endpoint, "sim:%s", name);
        assert_int_equal(tide_sim_port(n->sim, name, &s->port), 0);
        struct tide_executor_options e = {.turn = sink_turn, .arg = s, .core = -1};
        assert_int_equal(s->port->ops->executor_start(s->port, &e, &s->executor), 0);
    }
    for (int i = 0; i < SENDERS; i++) {
        struct sender *s = &n->senders[i];
        char name[8];
        snprintf(name, sizeof name, "a%d", i);
        assert_int_equal(tide_sim_port(n->sim, name, &s->port), 0);
    }
    tide_sim_run(n->sim, MS, NULL, NULL);
}

/* At 100 ms, sender i begins to send. */
static void net_send(struct net *n, int i, const char *to, size_t size, size_t piece) {
    struct sender *s = &n->senders[i];
    s->to = to;
    s->wanted = size;
    s->piece = piece;
    s->begin = 100 * MS;
    struct tide_executor_options e = {.turn = sender_turn, .arg = s, .core = -1};
    assert_int_equal(s->port->ops->executor_start(s->port, &e, &s->executor), 0);
}

static void net_run(struct net *n, uint64_t until_ms) {
    tide_sim_run(n->sim, until_ms * MS, NULL, NULL);
}

static void net_close(struct net *n) {
    for (int i = 0; i < SENDERS; i++) {
        n->senders[i].port->ops->destroy(n->senders[i].port);
    }
    for (int i = 0; i < SINKS; i++) {
        n->sinks[i].port->ops->destroy(n->sinks[i].port);
    }
    tide_sim_destroy(n->sim);
}

/* `count` bytes were there at 100 ms + ms, to 2 % */
static void came_after(const struct heard *h, size_t count, double ms) {
    assert_int_equal(h->count, count);
    double took = ((double)h->last - 100e6) * 1e-6;
    if (fabs(took - ms) > 0.02 * ms) {
        fail_msg("the last of %d bytes after %.3f ms, not %.3f", (int)count, took, ms);
    }
}

/* 4 x 100 KB at once into a card of 10 MB/s: 10 ms each, in a queue. */
static void messages_to_one_node_queue_at_its_card(void **state) {
    (void)state;
    struct net n;
    net_open(&n, (struct tide_sim_options){0});
    for (int i = 0; i < SENDERS; i++) {
        net_send(&n, i, "sim:b0", 100000, 100000);
    }
    net_run(&n, 1000);
    double sum = 0, last = 0;
    for (int i = 0; i < SENDERS; i++) {
        double took = ((double)n.sinks[0].heard[i].last - 100e6) * 1e-6;
        assert_int_equal(n.sinks[0].heard[i].count, 100000);
        sum += took;
        last = took > last ? took : last;
    }
    assert_true(fabs(last - 40) < 0.5 && fabs(sum - 100) < 2);
    net_close(&n);
}

static void a_slow_card_takes_its_time_for_the_first_message_too(void **state) {
    (void)state;
    struct net n;
    net_open(&n, (struct tide_sim_options){0});
    tide_sim_set_nic(n.sim, "b0", 1 * MB);
    net_send(&n, 0, "sim:b0", 100000, 100000);
    net_send(&n, 1, "sim:b1", 100000, 100000);
    net_run(&n, 1000);
    came_after(&n.sinks[0].heard[0], 100000, 100);
    came_after(&n.sinks[1].heard[1], 100000, 10); /* cut-through: not 20 */
    net_close(&n);
}

/* 5 MB/s between racks. */
static void messages_between_racks_share_the_core(void **state) {
    (void)state;
    struct net n;
    net_open(&n, (struct tide_sim_options){0});
    tide_sim_set_core(n.sim, 5 * MB);
    tide_sim_set_rack(n.sim, "a1", 1);
    tide_sim_set_rack(n.sim, "b1", 1);
    tide_sim_set_rack(n.sim, "a3", 2);
    net_send(&n, 0, "sim:b0", 200000, 10000); /* within the first rack */
    net_send(&n, 1, "sim:b1", 200000, 10000); /* within the second */
    net_send(&n, 2, "sim:b1", 200000, 10000);
    net_send(&n, 3, "sim:b0", 200000, 10000);
    net_run(&n, 1000);
    assert_true(n.sinks[0].heard[0].last < 145 * MS && n.sinks[1].heard[1].last < 145 * MS);
    uint64_t one = n.sinks[0].heard[3].last, two = n.sinks[1].heard[2].last;
    assert_in_range(one > two ? one : two, 178 * MS, 182 * MS);
    net_close(&n);
}

static void a_pair_may_be_farther_apart_than_others(void **state) {
    (void)state;
    struct net n;
    net_open(&n, (struct tide_sim_options){.latency_ns_min = 2 * MS});
    tide_sim_set_pair_latency(n.sim, "a1", "b0", 30 * MS);
    net_send(&n, 0, "sim:b0", 10, 10);
    net_send(&n, 1, "sim:b0", 10, 10);
    net_run(&n, 1000);
    came_after(&n.sinks[0].heard[0], 10, 2);
    came_after(&n.sinks[0].heard[1], 10, 30);
    net_close(&n);
}

/* 20 writes of 1 ms and 1,000 bytes of 1 us each: the last leaves after 39 ms and its own. */
static void writes_and_bytes_cost_the_processor_time(void **state) {
    (void)state;
    struct net n;
    net_open(&n, (struct tide_sim_options){.nic_bytes_per_s = 1000 * (uint64_t)MB});
    tide_sim_set_costs(n.sim, &(struct tide_sim_costs){.send_ns = MS, .byte_ns = 1000});
    net_send(&n, 0, "sim:b0", 20000, 1000);
    net_run(&n, 1000);
    came_after(&n.sinks[0].heard[0], 20000, 38);
    net_close(&n);
}

static void a_lone_bulk_goes_at_the_speed_of_the_card(void **state) {
    (void)state;
    struct net n;
    net_open(&n, (struct tide_sim_options){.flows = true});
    net_send(&n, 0, "sim:b0", 20 * MB, 250000);
    net_run(&n, 5000);
    came_after(&n.sinks[0].heard[0], 20 * MB, 2000);
    struct tide_sim_flows flows;
    tide_sim_flows(n.sim, &flows);
    assert_in_range(flows.started, 1, 3);
    net_close(&n);
}

/* 50 and 100 MB into one card, 150 MB into another: half a card each until the first is done. */
static void bulk_into_one_card_shares_it_evenly(void **state) {
    (void)state;
    struct net n;
    net_open(&n, (struct tide_sim_options){.flows = true});
    net_send(&n, 0, "sim:b0", 50 * MB, 250000);
    net_send(&n, 1, "sim:b0", 100 * MB, 250000);
    net_send(&n, 2, "sim:b1", 150 * MB, 250000);
    net_run(&n, 20000);
    came_after(&n.sinks[0].heard[0], 50 * MB, 10000);
    came_after(&n.sinks[0].heard[1], 100 * MB, 15000);
    came_after(&n.sinks[1].heard[2], 150 * MB, 15000);
    net_close(&n);
}

static void a_window_over_a_long_way_caps_a_flow(void **state) {
    (void)state;
    struct net n;
    net_open(&n, (struct tide_sim_options){.flows = true,
                                           .latency_ns_min = 500 * MS,
                                           .nic_bytes_per_s = 1000 * (uint64_t)MB,
                                           .window_bytes = 2 * MB});
    net_send(&n, 0, "sim:b0", 2 * MB, 250000);
    net_run(&n, 9000);
    struct tide_sim_flows flows;
    tide_sim_flows(n.sim, &flows);
    assert_int_equal(flows.started, 1);
    /* connected 900 ms later; 1 MB as small messages; that has come, 1 MB at 2 MB/s, and its way */
    came_after(&n.sinks[0].heard[0], 2 * MB, 900 + 500 + 500 + 500);
    net_close(&n);
}

static void small_messages_take_their_share_of_a_card_from_a_flow(void **state) {
    (void)state;
    struct net n;
    net_open(&n, (struct tide_sim_options){.flows = true});
    net_send(&n, 0, "sim:b0", 20 * MB, 250000);
    net_run(&n, 500);
    uint64_t before = n.sinks[0].heard[0].count;
    /* 4 MB/s of small messages into the same card: 40 KB each 10 ms */
    for (int i = 0; i < 100; i++) {
        struct sender *s = &n.senders[1];
        if (i == 0) {
            net_send(&n, 1, "sim:b0", 1, 40000);
        }
        s->wanted += 40000;
        tide_executor_wake(s->port, s->executor);
        net_run(&n, 510 + 10 * (uint64_t)i);
    }
    double rate = (double)(n.sinks[0].heard[0].count - before);
    assert_true(rate > 5.5e6 && rate < 7e6);
    net_run(&n, 5000);
    assert_int_equal(n.sinks[0].heard[0].count, 20 * MB);
    assert_int_equal(n.sinks[0].heard[1].count, 4 * MB + 1);
    net_close(&n);
}

static void what_is_left_of_a_flow_is_lost_or_comes_in_order_when_a_connection_ends(void **state) {
    (void)state;
    unsigned cut = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct net n;
        net_open(&n, (struct tide_sim_options){.seed = seed, .flows = true});
        net_send(&n, 0, "sim:b0", 5 * MB, 100000);
        net_send(&n, 1, "sim:b0", 5 * MB, 100000);
        net_send(&n, 2, "sim:b1", 5 * MB, 100000);
        net_run(&n, 200 + 20 * seed);
        if (seed % 3 == 0) {
            tide_sim_crash(n.sim, "a0");
        } else if (seed % 3 == 1) {
            tide_sim_reset(n.sim, "a0", "b0");
        } else {
            tide_sim_crash(n.sim, "b0");
        }
        size_t before = n.sinks[0].heard[1].count;
        net_run(&n, 5000);
        cut += n.sinks[0].heard[0].count < 5 * MB;
        assert_int_equal(n.sinks[0].heard[1].count, seed % 3 == 2 ? before : 5 * MB);
        assert_int_equal(n.sinks[1].heard[2].count, 5 * MB); /* theirs continues */
        net_close(&n);
    }
    assert_in_range(cut, 15, 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_flows_share_a_link_and_the_one_that_stays_gets_all_of_it),
        cmocka_unit_test(a_long_flow_gets_the_share_of_its_tightest_link),
        cmocka_unit_test(no_flow_exceeds_its_cap),
        cmocka_unit_test(a_change_leaves_flows_that_share_no_link_alone),
        cmocka_unit_test(a_thousand_and_one_connected_flows_split_equally),
        cmocka_unit_test(rates_are_those_of_water_filled_in_drop_by_drop),
        cmocka_unit_test(messages_to_one_node_queue_at_its_card),
        cmocka_unit_test(a_slow_card_takes_its_time_for_the_first_message_too),
        cmocka_unit_test(messages_between_racks_share_the_core),
        cmocka_unit_test(a_pair_may_be_farther_apart_than_others),
        cmocka_unit_test(writes_and_bytes_cost_the_processor_time),
        cmocka_unit_test(a_lone_bulk_goes_at_the_speed_of_the_card),
        cmocka_unit_test(bulk_into_one_card_shares_it_evenly),
        cmocka_unit_test(a_window_over_a_long_way_caps_a_flow),
        cmocka_unit_test(small_messages_take_their_share_of_a_card_from_a_flow),
        cmocka_unit_test(what_is_left_of_a_flow_is_lost_or_comes_in_order_when_a_connection_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
