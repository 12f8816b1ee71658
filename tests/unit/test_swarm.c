/* Swarm testing itself: options that stay as drawn, runs that repeat, checkers that find what they
 * are for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "swarm/swarm.h"

#include <string.h>
static void seeds_pass(void **state) {
    (void)state;
    const char *first = getenv("FIRST"), *last = getenv("LAST");
    for (uint64_t seed = (uint64_t)atoi(first ? first : "1"); seed <= (uint64_t)atoi(last ? last : "5"); seed++) {
        struct swarm_options o;
        struct swarm_report r;
        char text[2000];
        assert_int_equal(swarm_draw(seed, "swarm", &o), 0);
        for (char *s = getenv("SET"); s && *s;) { char one[100]; sscanf(s, "%99s", one); if (swarm_pin(&o, one)) fail_msg("%s", tide_error_message()); s += strlen(one); while (*s == ' ') s++; }
        swarm_print(&o, text, sizeof text);
        print_message("%s\n", text);
        swarm_run(&o, &r, NULL, NULL);
        print_message("seed %d: %s %.1f s, %d events, %d ops, %d lost, %d messages, %d faults, hash %llx\n%s%s", (int)seed, r.failed ? r.checker : "ok", (double)r.virtual_ns/1e9, (int)r.events, (int)r.operations, (int)r.operations_lost, (int)r.messages, (int)r.fault_count, (unsigned long long)r.hash, r.failed? r.faults:"", r.what);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seeds_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
