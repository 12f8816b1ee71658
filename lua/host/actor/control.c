/*
 * The control store for Lua: what the cluster's controller keeps where its end does not take it
 * (control/control.h). Scripts of ours may use some prefixes of keys; tables and members are the
 * runtime's own. Everything happens on I/O thread 0; the calling fiber waits.
 */
#include "lua/host/host.h"
#include "control/control.h"
#include "net/net.h"

#include <string.h>

struct pair {
    struct pair *next;
    void *value;
    size_t size;
    char key[TIDE_CONTROL_KEY_MAX];
};

/* Shared by the fiber that asked and the I/O thread; the last to leave frees it. */
struct request {
    atomic_uint holders;
    atomic_bool done; /* release: pairs with the fiber's acquire; the code is seen */
    struct tide_net *net;
    struct tide_fiber *waiter;
    char key[TIDE_CONTROL_KEY_MAX]; /* of a listing: the prefix */
    void *value;                    /* NULL: the key goes */
    size_t size;
    struct pair *found; /* of a listing */
    bool writes;
    int code;
};

static void leave(void *arg) {
    struct request *r = arg;
    if (atomic_fetch_sub_explicit(&r->holders, 1, memory_order_acq_rel) == 1) {
        while (r->found) {
            struct pair *pair = r->found;
            r->found = pair->next;
            tide_free(pair->value);
            tide_free(pair);
        }
        tide_free(r->value);
        tide_free(r);
    }
}

static void recorded(void *arg, int code) {
    struct request *r = arg;
    r->code = code;
    atomic_store_explicit(&r->done, true, memory_order_release);
    if (r->waiter) {
        tide_fiber_wake(r->waiter);
    }
    leave(r);
}

static int list(struct request *r) {
    const struct tide_control_state *state = tide_net_recorded(r->net);
    const struct tide_control_pair *at = NULL;
    struct pair **end = &r->found;
    while ((at = tide_control_list(state, r->key, at))) {
        struct pair *pair = tide_alloc_zero(1, sizeof *pair);
        void *value = pair ? tide_alloc(at->size + 1) : NULL;
        if (!value) {
            tide_free(pair);
            return TIDE_ENOMEM;
        }
        memcpy(value, at->value, at->size);
        (void)snprintf(pair->key, sizeof pair->key, "%s", at->key);
        pair->value = value;
        pair->size = at->size;
        *end = pair;
        end = &pair->next;
    }
    return 0;
}

/* I/O thread 0. */
static void serve(void *arg) {
    struct request *r = arg;
    atomic_fetch_add_explicit(&r->holders, 1, memory_order_relaxed);
    if (!tide_net_controls(r->net)) {
        recorded(r, TIDE_EBUSY);
    } else if (r->writes) {
        tide_net_record(r->net, &(struct tide_control_put){r->key, r->value, r->size}, 1, recorded, r);
    } else {
        recorded(r, list(r));
    }
}

static bool may_use(const char *key) {
    static const char *const prefixes[] = {"job/", "runs/", "ticket/", "seat/", "shares/", "accounts/"};
    for (size_t i = 0; i < TIDE_COUNT(prefixes); i++) {
        if (strncmp(key, prefixes[i], strlen(prefixes[i])) == 0) {
            return true;
        }
    }
    return false;
}

static struct request *new_request(lua_State *L) {
    struct tide_lua *host = tide__lua_inside(L);
    size_t length;
    const char *key = luaL_checklstring(L, 1, &length);
    luaL_argcheck(L, length < TIDE_CONTROL_KEY_MAX && strlen(key) == length, 1, "a short key");
    luaL_argcheck(L, may_use(key), 1, "a key of job/, runs/, ticket/, seat/, shares/ or accounts/");
    struct request *r = tide_alloc_zero(1, sizeof *r);
    if (r) {
        atomic_init(&r->holders, 1);
        r->net = tide_net_of(host->node);
        r->waiter = tide_fiber_current();
        (void)snprintf(r->key, sizeof r->key, "%s", key);
    }
    return r;
}

/* Until it is done. The request is the caller's to leave, unless this fails before it began. */
static int ask(lua_State *L, struct request *r) {
    struct tide_lua *host = tide__lua_host(L);
    int code = tide_hop(host->node, TIDE_ROLE_IO, serve, r, leave);
    if (code < 0) {
        return code;
    }
    while (!atomic_load_explicit(&r->done, memory_order_acquire)) {
        code = tide_fiber_suspend(TIDE_NEVER, "the control store");
        if (code == TIDE_ECANCELED) {
            leave(r);
            return code;
        }
    }
    if (r->code < 0) {
        code =
            tide_fail(r->code, "%s",
                      r->code == TIDE_EBUSY ? "this node is not the controller" : "the control store did not keep it");
        leave(r);
        return code;
    }
    return 0;
}

/* core.control_put(key, value | nil) -> true | nil, err: kept when it returns */
static int core_control_put(lua_State *L) {
    size_t size = 0;
    const char *value = luaL_optlstring(L, 2, NULL, &size);
    luaL_argcheck(L, size <= TIDE_CONTROL_VALUE_MAX, 2, "a value of 256 KiB at most");
    struct request *r = new_request(L);
    if (r && value) {
        r->value = tide_alloc(size + 1);
    }
    if (!r || (value && !r->value)) {
        if (r) {
            leave(r);
        }
        return tide__lua_failure(L, tide_fail(TIDE_ENOMEM, "no memory for a record"));
    }
    if (value) {
        memcpy(r->value, value, size);
    }
    r->size = size;
    r->writes = true;
    int code = ask(L, r);
    if (code < 0) {
        return tide__lua_failure(L, tide__lua_resumed(L, code));
    }
    leave(r);
    lua_pushboolean(L, true);
    return 1;
}

/* core.control_list(prefix) -> {[key] = value} | nil, err */
static int core_control_list(lua_State *L) {
    struct request *r = new_request(L);
    if (!r) {
        return tide__lua_failure(L, tide_fail(TIDE_ENOMEM, "no memory for a list"));
    }
    int code = ask(L, r);
    if (code < 0) {
        return tide__lua_failure(L, tide__lua_resumed(L, code));
    }
    lua_newtable(L);
    for (const struct pair *pair = r->found; pair; pair = pair->next) {
        lua_pushlstring(L, pair->value, pair->size);
        lua_setfield(L, -2, pair->key);
    }
    leave(r);
    return 1;
}

void tide__lua_open_control(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"control_put", core_control_put}, {"control_list", core_control_list}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
