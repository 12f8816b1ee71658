// The CAF rows that stand beside bench_actors.
#include <chrono>
#include <cstdio>
#include <cstring>

#include "caf/all.hpp"

using namespace caf;

static bool json = false;

static void row(const char *what, const char *unit, double value) {
    if (json) {
        std::printf("{\"schema\":\"tide.bench/1\",\"bench\":\"caf\",\"row\":\"%s\",\"unit\":\"%s\",\"value\":%.6g}\n", what, unit, value);
    } else {
        std::printf("%-10s %-48s %12.4g %s\n", "caf", what, value, unit);
    }
}

static double seconds_since(std::chrono::steady_clock::time_point t) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

static behavior pong() {
    return {[](int x) { return x; }};
}

static void ping(event_based_actor *self, int rounds, actor collector) {
    auto peer = self->spawn(pong);
    auto left = std::make_shared<int>(rounds);
    self->become([=](int x) {
        if (--*left == 0) {
            self->send(collector, ok_atom_v);
            self->quit();
        } else {
            self->send(peer, x);
        }
    });
    self->send(peer, 1);
}

static void flood(event_based_actor *self, int count, actor sink) {
    for (int i = 0; i < count; i++) {
        self->send(sink, i);
    }
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        json = json || std::strcmp(argv[i], "--json") == 0;
    }
    actor_system_config config;
    actor_system system{config};
    scoped_actor self{system};
    const int rounds = 2000000;
    auto t = std::chrono::steady_clock::now();
    system.spawn(ping, rounds, actor_cast<actor>(self));
    self->receive([](ok_atom) {});
    row("ping-pong", "M round trips/s", rounds / seconds_since(t) / 1e6);
    const int count = 2000000;
    auto got = std::make_shared<int>(0);
    auto me = actor_cast<actor>(self);
    auto sink = system.spawn([=](event_based_actor *s) -> behavior {
        return {[=](int) {
            if (++*got == 2 * count) {
                s->send(me, ok_atom_v);
            }
        }};
    });
    t = std::chrono::steady_clock::now();
    system.spawn(flood, count, sink);
    system.spawn(flood, count, sink);
    self->receive([](ok_atom) {});
    row("fan-in 2 -> 1", "M messages/s", 2.0 * count / seconds_since(t) / 1e6);
    const int spawns = 200000;
    std::vector<actor> keep;
    keep.reserve(spawns);
    t = std::chrono::steady_clock::now();
    for (int i = 0; i < spawns; i++) {
        keep.push_back(system.spawn(pong));
    }
    row("spawn", "M actors/s", spawns / seconds_since(t) / 1e6);
    for (auto &a : keep) {
        anon_send_exit(a, exit_reason::kill);
    }
    anon_send_exit(sink, exit_reason::kill);
    return 0;
}
