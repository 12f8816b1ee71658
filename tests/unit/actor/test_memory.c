/* What happens when there is no memory: who asks hears of it, and can continue; where the runtime
 * cannot continue the process ends with a message, and a simulated node crashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "actor_world.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGE = 8000 }; /* a message that no slab has room for */

static atomic_bool scarce;

static bool refuse(enum tide_memory_use use) {
    return use == TIDE_MEMORY_ASKED && atomic_load(&scarce);
}

static bool refuse_all(enum tide_memory_use use) {
    (void)use;
    return true;
}

static int forget(void **state) {
    (void)state;
    atomic_store(&scarce, false);
    tide__memory_refuses = NULL;
    return 0;
}

static void who_asks_hears_that_there_is_none(void **state) {
    (void)state;
    char *kept = tide_alloc(10);
    tide__memory_refuses = refuse;
    atomic_store(&scarce, true);
    assert_null(tide_alloc(1));
    assert_string_equal(tide_error_message(), "out of memory: 1 bytes");
    assert_null(tide_alloc_zero(3, 5));
    assert_string_equal(tide_error_message(), "out of memory: 15 bytes");
    assert_null(tide_alloc_zero(SIZE_MAX / 2, 4));
    assert_null(tide_alloc_aligned(64, 64));
    assert_null(tide_map(4096, false));
    assert_null(tide_strdup("x"));
    assert_null(tide_realloc(kept, 20)); /* which leaves what there is */
    memset(kept, 1, 10);
    enum tide_memory_use use = tide__memory_swap(TIDE_MEMORY_TOOL);
    assert_int_equal(use, TIDE_MEMORY_ASKED);
    kept = tide_realloc(kept, 20);
    assert_non_null(kept);
    assert_int_equal(tide__memory_swap(use), TIDE_MEMORY_TOOL);
    tide_free(kept);
}

static void the_process_ends_where_the_runtime_cannot_go_on(void **state) {
    (void)state;
    int ends[2], status;
    char said[200] = "";
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dup2(ends[1], 2);
        (void)signal(SIGABRT, SIG_DFL); /* not cmocka's */
        tide__memory_refuses = refuse_all;
        (void)tide__memory_swap(TIDE_MEMORY_VITAL);
        (void)tide_alloc(77);
        _exit(0);
    }
    close(ends[1]);
    assert_true(read(ends[0], said, sizeof said - 1) > 0);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(said, "out of memory: 77 bytes"));
}

/* ---- actors ---- */

struct talk {
    tide_address callee;
    int refused, answered, got, slept;
    size_t size;
    atomic_int done;
};

static int answer(void *state, const struct tide_message *m) {
    struct talk *talk = state;
    static const char zeros[LARGE];
    if (m->kind == TIDE_CALL) {
        atomic_store(&scarce, true);
        talk->refused = tide_answer(m->from, m->call, zeros, sizeof zeros);
        atomic_store(&scarce, false);
        talk->answered = tide_answer(m->from, m->call, zeros, sizeof zeros);
    }
    return 0;
}

static int ask(void *state) {
    struct talk *talk = state;
    struct tide_reply *reply;
    talk->got = tide_call(talk->callee, "x", 1, 10 * TIDE_SECOND, &reply);
    if (talk->got == 0) {
        (void)tide_reply_data(reply, &talk->size);
        tide_reply_free(reply);
    }
    atomic_store(&talk->done, 1);
    return 0;
}

static void answer_again(bool simulated) {
    struct talk talk = {0};
    tide__memory_refuses = refuse; /* before there are threads */
    struct tide_node *node = world_open(simulated, 1);
    struct tide_actor_options o = {
        .type = "answerer", .handle = answer, .state = &talk, .role = TIDE_ROLE_COMPUTE};
    assert_int_equal(tide_spawn(node, &o, &talk.callee), 0);
    o = (struct tide_actor_options){
        .type = "asker", .run = ask, .state = &talk, .role = TIDE_ROLE_COMPUTE};
    assert_int_equal(tide_spawn(node, &o, NULL), 0);
    assert_true(world_wait(node, &talk.done, 1));
    assert_int_equal(talk.refused, TIDE_ENOMEM);
    assert_int_equal(talk.answered, 0);
    assert_int_equal(talk.got, 0);
    assert_int_equal(talk.size, LARGE);
    world_close(node);
}

static void an_answer_that_got_no_memory_can_be_given_again(void **state) {
    (void)state;
    answer_again(true);
    answer_again(false);
}

/* More than the heap of timers begins with, while nobody gets memory. */
static int sleep_all(void *state) {
    struct talk *talk = state;
    uint64_t id;
    atomic_store(&scarce, true);
    for (unsigned i = 0; i < 100 && talk->slept == 0; i++) {
        talk->slept = tide_sleep(1000);
    }
    talk->refused = tide_timer_start(TIDE_SECOND, &id);
    atomic_store(&scarce, false);
    atomic_store(&talk->done, 1);
    return 0;
}

static void sleep_on(bool simulated) {
    struct talk talk = {0};
    tide__memory_refuses = refuse; /* before there are threads */
    struct tide_node *node = world_open(simulated, 1);
    struct tide_actor_options o = {
        .type = "sleeper", .run = sleep_all, .state = &talk, .role = TIDE_ROLE_COMPUTE};
    assert_int_equal(tide_spawn(node, &o, NULL), 0);
    assert_true(world_wait(node, &talk.done, 1));
    assert_int_equal(talk.slept, 0);
    assert_int_equal(talk.refused, TIDE_ENOMEM);
    world_close(node);
}

static void waiting_takes_no_memory_that_could_be_refused(void **state) {
    (void)state;
    sleep_on(true);
    sleep_on(false);
}

/* ---- simulated nodes ---- */

struct eater {
    struct tide_port *port;
    struct tide_executor *executor;
    enum tide_memory_use use;
    unsigned turns, refused;
};

static uint64_t eat(void *arg) {
    struct eater *e = arg;
    enum tide_memory_use use = tide__memory_swap(e->use);
    void *memory = tide_alloc(10);
    e->turns++;
    e->refused += memory == NULL;
    tide_free(memory);
    tide__memory_swap(use);
    return tide_port_now(e->port) + 1000;
}

static void crashed(void *arg, const char *name) {
    assert_string_equal(name, "n1");
    ++*(unsigned *)arg;
}

/* n0 and n1 eat for a millisecond, then n1 is short of memory for one. */
static unsigned feast(struct eater eaters[2], enum tide_memory_use use,
                      struct tide_sim_memory memory) {
    struct tide_sim *sim;
    unsigned crashes = 0;
    assert_int_equal(tide_sim_create(&(struct tide_sim_options){.seed = 5}, &sim), 0);
    tide_sim_on_crash(sim, crashed, &crashes);
    for (unsigned i = 0; i < 2; i++) {
        eaters[i] = (struct eater){.use = use};
        assert_int_equal(tide_sim_port(sim, i == 0 ? "n0" : "n1", &eaters[i].port), 0);
        struct tide_executor_options o = {.turn = eat, .arg = &eaters[i], .core = -1};
        assert_int_equal(
            eaters[i].port->ops->executor_start(eaters[i].port, &o, &eaters[i].executor), 0);
    }
    (void)tide_sim_run(sim, 1000000, NULL, NULL);
    tide_sim_set_memory(sim, "n1", &memory);
    (void)tide_sim_run(sim, 2000000, NULL, NULL);
    if (crashes == 0) {
        tide_sim_set_memory(sim, "n1", &(struct tide_sim_memory){0});
    }
    unsigned turns = eaters[1].turns, refused = eaters[1].refused;
    (void)tide_sim_run(sim, 3000000, NULL, NULL);
    assert_int_equal(eaters[1].refused, refused);
    assert_int_equal(eaters[1].turns > turns, crashes == 0);
    assert_int_equal(eaters[0].refused, 0);
    for (unsigned i = 0; i < 2; i++) {
        eaters[i].port->ops->executor_stop(eaters[i].executor);
        eaters[i].port->ops->destroy(eaters[i].port);
    }
    tide_sim_destroy(sim);
    return crashes;
}

static void a_node_that_is_short_of_memory_refuses_or_crashes(void **state) {
    (void)state;
    struct eater eaters[2], again[2];
    const struct tide_sim_memory asked = {.asked = 0.3}, vital = {.vital = 0.1};
    assert_int_equal(feast(eaters, TIDE_MEMORY_ASKED, asked), 0);
    assert_true(eaters[1].refused > 50 && eaters[1].refused < 500);
    assert_int_equal(feast(again, TIDE_MEMORY_ASKED, asked), 0);
    assert_int_equal(again[1].refused, eaters[1].refused);
    assert_int_equal(feast(eaters, TIDE_MEMORY_VITAL, asked), 0);
    assert_int_equal(eaters[1].refused, 0);
    assert_int_equal(feast(eaters, TIDE_MEMORY_VITAL, vital), 1);
    assert_int_equal(eaters[1].refused, 0); /* it is dead, and harms nobody */
    assert_int_equal(feast(eaters, TIDE_MEMORY_TOOL, (struct tide_sim_memory){1, 1}), 0);
    assert_int_equal(eaters[1].refused, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(who_asks_hears_that_there_is_none, forget),
        cmocka_unit_test(the_process_ends_where_the_runtime_cannot_go_on),
        cmocka_unit_test_teardown(an_answer_that_got_no_memory_can_be_given_again, forget),
        cmocka_unit_test_teardown(waiting_takes_no_memory_that_could_be_refused, forget),
        cmocka_unit_test_teardown(a_node_that_is_short_of_memory_refuses_or_crashes, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
