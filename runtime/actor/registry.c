/* Names of actors: a map under a lock (lookups are rare), and the actor that answers other nodes' lookups. */
#include "actor/internal.h"

#include <string.h>

#define HASH_NONFATAL_OOM 1
#define uthash_malloc(size) tide_alloc(size)
#define uthash_free(memory, size) tide_free(memory)
#define HASH_FUNCTION(key, length, hash) (hash) = (unsigned)tide_hash(key, length, 0)
#include <uthash.h>

struct name_entry {
    char name[64];
    tide_address who;
    UT_hash_handle hh;
};

static int name_insert(struct tide_system *system, const char *name, tide_address who) {
    struct name_entry *entry = NULL;
    HASH_FIND_STR(system->names, name, entry);
    if (entry) {
        return TIDE_EEXIST;
    }
    entry = tide_alloc_zero(1, sizeof *entry);
    if (!entry) {
        return TIDE_ENOMEM;
    }
    snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->who = who;
    HASH_ADD_STR(system->names, name, entry);
    return 0;
}

int tide_register(struct tide_node *node, const char *name, tide_address who) {
    struct tide_system *system = tide_system_of(node);
    if (!tide_identifier_valid(name)) {
        return tide_fail(TIDE_EINVAL, "'%s' is not a name: lower-case letters, digits and . _ -, at most 63", name);
    }
    struct scheduler *s = is_local(system, who) ? scheduler_of(system, who) : NULL;
    struct actor *actor = !s ? NULL : actor_find(s, who);
    if (!actor) {
        return tide_fail(TIDE_ENOENT, "no such actor on this node to name '%s'", name);
    }
    tide_lock(&system->names_lock);
    int rc = name_insert(system, name, who);
    tide_unlock(&system->names_lock);
    if (rc < 0) {
        return tide_fail(rc, rc == TIDE_EEXIST ? "the name '%s' is taken on this node" : "no memory for '%s'", name);
    }
    tide_lock(&s->slots_lock);
    if (!actor->name) {
        actor->name = tide_strdup(name);
    }
    tide_unlock(&s->slots_lock);
    return 0;
}

void registry_remove(struct tide_system *system, tide_address who) {
    struct name_entry *entry;
    struct name_entry *next;
    tide_lock(&system->names_lock);
    HASH_ITER(hh, system->names, entry, next) {
        if (tide_address_id(entry->who) == tide_address_id(who)) {
            HASH_DEL(system->names, entry);
            tide_free(entry);
        }
    }
    tide_unlock(&system->names_lock);
}

static int find_here(struct tide_system *system, const char *name, tide_address *out) {
    struct name_entry *entry = NULL;
    tide_lock(&system->names_lock);
    HASH_FIND_STR(system->names, name, entry);
    *out = entry == NULL ? TIDE_NOBODY : entry->who;
    tide_unlock(&system->names_lock);
    if (!entry) {
        return tide_fail(TIDE_ENOENT, "nobody is named '%s' on this node", name);
    }
    uint64_t node = atomic_load_explicit(&system->node_id, memory_order_relaxed);
    *out = node << 48 | tide_address_id(*out);
    return 0;
}

int tide_whereis(struct tide_node *node, const char *name, tide_address *out) {
    struct tide_system *system = tide_system_of(node);
    const char *slash = strchr(name, '/');
    if (!slash) {
        return find_here(system, name, out);
    }
    char node_name[64];
    uint16_t id;
    snprintf(node_name, sizeof node_name, "%.*s", (int)(slash - name), name);
    /* acquire: with tide_system_set_route */
    if (!atomic_load_explicit(&system->routed, memory_order_acquire)) {
        return tide_fail(TIDE_ENOENT, "no node is named '%s': this one has no others", node_name);
    }
    int rc = system->route.resolve(system->route.arg, node_name, &id);
    if (rc < 0) {
        return rc;
    }
    if (is_local(system, tide_address_make(id, TIDE_ID_REGISTRY))) {
        return find_here(system, slash + 1, out);
    }
    uint8_t buffer[80];
    struct tide_writer w;
    tide_writer_init(&w, buffer, sizeof buffer);
    tide_write_text(&w, slash + 1);
    struct tide_reply *reply;
    rc = tide_call(tide_address_make(id, TIDE_ID_REGISTRY), w.data, w.size, tide_limit(actor_call_timeout), &reply);
    tide_writer_release(&w);
    if (rc < 0) {
        return rc;
    }
    struct tide_reader r;
    size_t size;
    const void *data = tide_reply_data(reply, &size);
    tide_reader_init(&r, data, size);
    *out = tide_read_uint(&r);
    tide_reply_free(reply);
    return r.error;
}

static int answer_lookup(void *state, const struct tide_message *m) {
    struct tide_system *system = state;
    if (m->kind != TIDE_CALL) {
        return 0;
    }
    char name[64];
    tide_address who;
    struct tide_reader r;
    tide_reader_init(&r, m->data, m->size);
    tide_read_text(&r, name, sizeof name);
    int rc = r.error != 0 ? tide_fail(TIDE_EPROTO, "a lookup carries one name") : find_here(system, name, &who);
    if (rc < 0) {
        tide_answer_error(m->from, m->call, rc, tide_error_message());
        return 0;
    }
    uint8_t buffer[16];
    struct tide_writer w;
    tide_writer_init(&w, buffer, sizeof buffer);
    tide_write_uint(&w, who);
    tide_answer(m->from, m->call, w.data, w.size);
    return 0;
}

int registry_create(struct tide_system *system) {
    tide_address address;
    int rc = tide_spawn(
        system->node,
        &(struct tide_actor_options){
            .name = "registry", .type = "registry", .handle = answer_lookup, .state = system, .opens = TIDE_RIGHT_READ},
        &address);
    TIDE_ASSERT(rc < 0 || tide_address_id(address) == TIDE_ID_REGISTRY);
    return rc;
}

void registry_release(struct tide_system *system) {
    struct name_entry *entry;
    struct name_entry *next;
    HASH_ITER(hh, system->names, entry, next) {
        HASH_DEL(system->names, entry);
        tide_free(entry);
    }
}
