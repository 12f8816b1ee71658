/* Actors alone, without tables and Lua: two nodes in one program. The first has a supervised counter, which crashes
 * when it is sent no number; a fiber of the second calls it. Build and run:
 *   cc actors.c $(pkg-config --cflags --libs tide-actor) -o actors && ./actors */
#include <stdatomic.h>
#include <stdio.h>
#include <tide/message.h>

static atomic_int answered;

/* A handler: adds what it is sent and answers with the sum. A negative return is a crash with that reason. */
static int counter(void *state, const struct tide_message *message) {
    int64_t *sum = state;
    struct tide_view view;
    if (message->kind != TIDE_CALL || tide_view_open(message->data, message->size, &view) < 0) {
        return 0;
    }
    int rc = view.object.type == MSGPACK_OBJECT_POSITIVE_INTEGER ? 0 : tide_fail(TIDE_EINVAL, "that is no number");
    if (rc == 0) {
        struct tide_body body;
        tide_body_init(&body);
        msgpack_pack_int64(&body.packer, *sum += view.object.via.i64);
        rc = tide_answer(message->from, message->call, body.bytes.data, body.bytes.size);
        tide_body_release(&body);
    }
    tide_view_release(&view);
    return rc;
}

/* A fiber: calls read like functions. */
static int caller(void *words) {
    for (const char *word = words; *word != 0; word++, tide_sleep(TIDE_SECOND / 5)) {
        tide_address there;
        struct tide_reply *reply = NULL;
        int rc = tide_whereis(tide_node_current(), "first/counter", &there);
        rc = rc < 0 ? rc : tide_call(there, word, 1, TIDE_SECOND, &reply); /* one byte is one small msgpack value */
        printf("sent 0x%02x: %s\n", (unsigned char)*word, rc < 0 ? tide_error_message() : "answered");
        tide_reply_free(reply);
        atomic_fetch_add(&answered, 1);
    }
    return 0;
}

int main(void) {
    static int64_t sum;
    const struct tide_child child = {.actor = {.name = "counter", .handle = counter, .state = &sum}};
    struct tide_node *first, *second;
    if (tide_node_create(&(struct tide_node_options){.cluster = "actors", .name = "first"}, &first) < 0 ||
        tide_supervise(first, &(struct tide_supervisor_options){.children = &child, .child_count = 1}, NULL) < 0 ||
        tide_node_create(&(struct tide_node_options){.cluster = "actors", .join = tide_node_endpoint(first)}, &second) < 0 ||
        tide_spawn(second, &(struct tide_actor_options){.run = caller, .state = "\x02\x28\xc0\x07"}, NULL) < 0) {
        fprintf(stderr, "actors: %s\n", tide_error_message());
        return 1;
    }
    while (atomic_load(&answered) < 4) {
    }
    tide_node_destroy(second, TIDE_SECOND);
    tide_node_destroy(first, TIDE_SECOND);
    return sum == 49 ? 0 : 1;
}
