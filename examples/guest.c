/*
 * A node of actors alone, on libtide-actor, in a cluster whose other nodes have tables and scripts. Its handler `area` is
 * called by scripts, and asks a published group of script actors itself (docs/guides/embedding.md). Build and run:
 *   cc guest.c $(pkg-config --cflags --libs tide-actor) -o guest && ./guest CLUSTER ENDPOINT
 */
#include <stdatomic.h>
#include <stdio.h>
#include <tide/message.h>
#include <time.h>

static atomic_bool over;

struct area {
    tide_address group, from; /* whom it asks; for whom */
    uint64_t call, asked;     /* of `from`; of the group, 0: nothing is asked */
};

/* A script calls with two numbers: the group multiplies them. */
static int ask(struct area *a, const struct tide_message *message) {
    struct tide_view view;
    int rc = a->asked ? tide_fail(TIDE_EBUSY, "one area at a time") : tide_view_open(message->data, message->size, &view);
    if (rc < 0) {
        return tide_answer_error(message->from, message->call, rc, tide_error_message());
    }
    const msgpack_object_array *sides = &view.object.via.array;
    if (view.object.type != MSGPACK_OBJECT_ARRAY || sides->size != 2) {
        rc = tide_fail(TIDE_EINVAL, "an area has two sides");
    } else {
        struct tide_body body;
        tide_body_init(&body);
        tide_body_ask(&body, "times", 2);
        msgpack_pack_object(&body.packer, sides->ptr[0]);
        msgpack_pack_object(&body.packer, sides->ptr[1]);
        rc = tide_call_start(a->group, body.bytes.data, body.bytes.size, 10 * TIDE_SECOND, &a->asked);
        tide_body_release(&body);
    }
    tide_view_release(&view);
    a->from = message->from;
    a->call = message->call;
    return rc < 0 ? tide_answer_error(message->from, message->call, rc, tide_error_message()) : 0;
}

static int area(void *state, const struct tide_message *message) {
    struct area *a = state;
    int rc = 0;
    if (message->kind == TIDE_CALL) {
        return ask(a, message);
    }
    if (message->kind == TIDE_CAST) { /* a script casts when it needs this node no more */
        atomic_store(&over, true);
    } else if (message->kind == TIDE_REPLY && message->call == a->asked) { /* {value = ..} or {err = ..} */
        rc = tide_answer(a->from, a->call, message->data, message->size);
        a->asked = 0;
    } else if (message->kind == TIDE_ERROR && message->call == a->asked) {
        rc = tide_answer_error(a->from, a->call, message->code, "the group does not answer");
        a->asked = 0;
    }
    return rc == TIDE_ENOENT ? 0 : rc; /* the caller has ended */
}

/* A fiber: a name on another node is looked up by a call. */
static int starter(void *node) {
    static struct area state;
    int rc = tide_lookup(node, "times", &state.group);
    while (rc == TIDE_ENOENT && (rc = tide_sleep(TIDE_SECOND / 20)) == 0) {
        rc = tide_lookup(node, "times", &state.group);
    }
    rc = rc < 0 ? rc : tide_spawn(node, &(struct tide_actor_options){.name = "area", .handle = area, .state = &state}, NULL);
    puts(rc < 0 ? tide_error_message() : "area answers");
    fflush(stdout);
    atomic_store(&over, rc < 0);
    return rc;
}

int main(int count, char **arguments) {
    struct tide_node *node;
    const struct tide_node_options o = {
        TIDE_NODE_OPTIONS_INIT, .cluster = arguments[1], .name = "guest", .join = count > 2 ? arguments[2] : NULL};
    if (tide_node_create(&o, &node) < 0 ||
        tide_spawn(node, &(struct tide_actor_options){.run = starter, .state = node, .role = TIDE_ROLE_CONTROL}, NULL) < 0) {
        fprintf(stderr, "guest: %s\n", tide_error_message());
        return 1;
    }
    while (!atomic_load(&over)) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    tide_node_destroy(node, 5 * TIDE_SECOND);
    return 0;
}
