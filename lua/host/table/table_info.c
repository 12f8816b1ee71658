/* State of a node's tables, for Lua: where rows are, counters, hot keys, health, homes. */
#include "lua/host/host.h"
#include "store/core/store.h"
#include "tide/placement.h"
#include "tide/stats.h"

#include <string.h>

enum { NODES_MAX = 1024, HOTTEST_MAX = 1024 };

static int table_where(lua_State *L) {
    struct tide_table *table = tide__lua_check_table(L, 1);
    uint16_t node;
    int code = tide_table_where(table, (uint64_t)luaL_checkinteger(L, 2), &node);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushinteger(L, node);
    return 1;
}

static int table_slot(lua_State *L) {
    const struct tide_table *table = tide__lua_check_table(L, 1);
    const struct tide_table_options *o = tide_table_options(table);
    const uint64_t key = (uint64_t)luaL_checkinteger(L, 2);
    luaL_argcheck(L, o->keys != TIDE_KEYS_DENSE || key < o->key_count, 2, "is no key of the table");
    lua_pushinteger(L, tide_table_slot(table, key));
    return 1;
}

static void push_stats(lua_State *L, struct tide_table *table) {
    struct tide_table_stats s = {0};
    tide_table_stats(table, &s);
    const struct {
        const char *name;
        uint64_t value;
    } fields[] = {
        {"pulls_local", s.pulls_local},
        {"pulls_remote", s.pulls_remote},
        {"pushes_local", s.pushes_local},
        {"pushes_remote", s.pushes_remote},
        {"served_pulls", s.served_pulls},
        {"served_pushes", s.served_pushes},
        {"queued", s.queued},
        {"forwarded", s.forwarded},
        {"messages_out", s.messages_out},
        {"bytes_out", s.bytes_out},
        {"bytes_in", s.bytes_in},
        {"not_finite", s.not_finite},
        {"rows", s.rows},
        {"memory_bytes", s.memory_bytes},
        {"localized", s.localized},
        {"localize_noop", s.localize_noop},
        {"relocated_in", s.relocated_in},
        {"relocated_out", s.relocated_out},
        {"relocate_ns_sum", s.relocate_ns_sum},
        {"relocate_ns_max", s.relocate_ns_max},
        {"location_used", s.location_used},
        {"location_stale", s.location_stale},
        {"surprises", s.surprises},
        {"not_admitted", s.not_admitted},
        {"evicted", s.evicted},
        {"expired", s.expired},
        {"cold_rows", s.cold_rows},
        {"disk_bytes", s.disk_bytes},
        {"frozen", s.frozen},
        {"thawed", s.thawed},
        {"compacted", s.compacted},
        {"unreplicated", s.unreplicated},
        {"unreplicated_most", s.unreplicated_most},
        {"unreplicated_bound", s.unreplicated_bound},
        {"lost_updates", s.lost_updates},
    };
    lua_createtable(L, 0, (int)TIDE_COUNT(fields) + 2);
    for (size_t i = 0; i < TIDE_COUNT(fields); i++) {
        tide__lua_set_integer(L, fields[i].name, fields[i].value);
    }
    size_t buckets = TIDE_RELOCATE_BUCKETS;
    while (buckets > 0 && s.relocate_hist[buckets - 1] == 0) {
        buckets--;
    }
    if (buckets > 0) {
        lua_createtable(L, (int)buckets, 0);
        for (size_t i = 0; i < buckets; i++) {
            lua_pushinteger(L, (lua_Integer)s.relocate_hist[i]);
            lua_rawseti(L, -2, (lua_Integer)i + 1);
        }
        lua_setfield(L, -2, "relocate_hist");
    }
}

/* t:hottest(n) -> {{key=, reads=, writes=, doubt=}, ..}, accesses of all keys: of this node's
 * workers */
static int table_hottest(lua_State *L) {
    struct tide_table *table = tide__lua_check_table(L, 1);
    lua_Integer limit = luaL_optinteger(L, 2, 10);
    luaL_argcheck(L, limit >= 0, 2, "a count of keys");
    limit = limit < HOTTEST_MAX ? limit : HOTTEST_MAX;
    struct tide_hot_key *hot = lua_newuserdatauv(L, (size_t)limit * sizeof *hot + 1, 0);
    uint64_t total;
    const size_t count = tide_table_hottest(table, hot, (size_t)limit, &total);
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        const struct {
            const char *name;
            uint64_t value;
        } fields[] = {{"key", hot[i].key}, {"reads", hot[i].reads}, {"writes", hot[i].writes}, {"doubt", hot[i].doubt}};
        lua_createtable(L, 0, (int)TIDE_COUNT(fields));
        for (size_t f = 0; f < TIDE_COUNT(fields); f++) {
            tide__lua_set_integer(L, fields[f].name, fields[f].value);
        }
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_pushinteger(L, (lua_Integer)total);
    return 2;
}

static int table_stats(lua_State *L) {
    struct tide_table *table = tide__lua_check_table(L, 1);
    push_stats(L, table);
    tide__lua_push_staleness(L, table);
    tide__lua_push_shared(L, table);
    return 1;
}

/* Prints the state of the table on all nodes; options {chart=}. */
static int table_show(lua_State *L) {
    (void)tide__lua_check_table(L, 1);
    lua_settop(L, 2);
    lua_getglobal(L, "require");
    lua_pushliteral(L, "tide.show.table");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "show");
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_call(L, 2, 0);
    return 0;
}

/* {mode=, under_replicated=, lost={slots}, leases="ok"|"lapsed", unreplicated=, lost_updates=} */
static int table_health(lua_State *L) {
    struct tide_table *table = tide__lua_check_table(L, 1);
    struct tide_table_health health;
    tide_table_health(table, &health);
    lua_createtable(L, 0, 6);
    lua_pushstring(L, tide__lua_option_word("durability", health.durability));
    lua_setfield(L, -2, "mode");
    lua_pushinteger(L, health.under_replicated);
    lua_setfield(L, -2, "under_replicated");
    lua_createtable(L, (int)health.lost_count, 0);
    for (lua_Integer slot = 0, n = 0; slot < TIDE_SLOTS; slot++) {
        if (health.lost[slot / 64] >> (slot % 64) & 1) {
            lua_pushinteger(L, slot);
            lua_rawseti(L, -2, ++n);
        }
    }
    lua_setfield(L, -2, "lost");
    lua_pushstring(L, health.leases_ok ? "ok" : "lapsed");
    lua_setfield(L, -2, "leases");
    struct tide_table_stats stats;
    tide_table_stats(table, &stats);
    tide__lua_set_integer(L, "unreplicated", stats.unreplicated);
    tide__lua_set_integer(L, "lost_updates", stats.lost_updates);
    return 1;
}

static int table_homes(lua_State *L) {
    struct tide_table *table = tide__lua_check_table(L, 1);
    uint32_t *counts = lua_newuserdatauv(L, NODES_MAX * sizeof *counts, 0);
    memset(counts, 0, NODES_MAX * sizeof *counts);
    uint64_t version;
    tide_table_homes(table, counts, NODES_MAX, &version);
    lua_createtable(L, 0, 8);
    for (int i = 0; i < NODES_MAX; i++) {
        if (counts[i] > 0) {
            lua_pushinteger(L, counts[i]);
            lua_rawseti(L, -2, i);
        }
    }
    return 1;
}

/* u32 tensor: the home of slot s at [s + 1] */
static int table_slot_homes(lua_State *L) {
    struct tide_table *table = tide__lua_check_table(L, 1);
    uint16_t homes[TIDE_SLOTS];
    tide_table_slot_homes(table, homes);
    uint32_t *out = tide__lua_tensor_new(L, TIDE_U32, TIDE_SLOTS, 1)->t.data;
    for (int s = 0; s < TIDE_SLOTS; s++) {
        out[s] = homes[s];
    }
    return 1;
}

/* u64 tensor: keys that slot s has served to other nodes at [s + 1] */
static int table_slot_served(lua_State *L) {
    struct tide_table *table = tide__lua_check_table(L, 1);
    tide_table_slot_served(table, tide__lua_tensor_new(L, TIDE_U64, TIDE_SLOTS, 1)->t.data);
    return 1;
}

/* Counts up to the last that is not 0, as field `name` of the table on top. */
static void push_trimmed(lua_State *L, const uint64_t counts[TIDE_WAIT_BUCKETS], const char *name) {
    int size = TIDE_WAIT_BUCKETS;
    while (size > 0 && counts[size - 1] == 0) {
        size--;
    }
    lua_createtable(L, size, 0);
    for (int i = 0; i < size; i++) {
        lua_pushinteger(L, (lua_Integer)counts[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, name);
}

/* core.tables(waits): with `waits` each has waits = {pull =, push =}, see t:waits(). */
int tide__lua_tables(lua_State *L) {
    struct tide_lua *host = tide__lua_host(L);
    if (!host->node) {
        lua_createtable(L, 0, 0);
        return 1;
    }
    const bool with_waits = lua_toboolean(L, 1);
    struct tide_store *store = tide_store_of(host->node);
    size_t limit = tide_store_tables(store, NULL, 0);
    struct tide_table **tables = lua_newuserdatauv(L, limit * sizeof(struct tide_table *) + 1, 0);
    size_t count = tide_store_tables(store, tables, limit);
    count = count < limit ? count : limit;
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        const struct tide_table_options *o = tide_table_options(tables[i]);
        push_stats(L, tables[i]);
        lua_pushstring(L, o->name);
        lua_setfield(L, -2, "name");
        lua_pushinteger(L, o->width);
        lua_setfield(L, -2, "width");
        if (o->run != 0) {
            tide__lua_set_integer(L, "run", o->run);
        }
        tide__lua_push_staleness(L, tables[i]);
        if (with_waits) {
            struct tide_table_waits waits;
            tide_table_waits(tables[i], &waits);
            lua_createtable(L, 0, 2);
            push_trimmed(L, waits.pull, "pull");
            push_trimmed(L, waits.push, "push");
            lua_setfield(L, -2, "waits");
        }
        lua_rawseti(L, -2, (lua_Integer)i + 1);
        tide_table_release(tables[i]);
    }
    return 1;
}

const luaL_Reg tide__lua_info_methods[] = {
    {"where", table_where},
    {"slot", table_slot},
    {"stats", table_stats},
    {"hottest", table_hottest},
    {"show", table_show},
    {"waits", tide__lua_table_waits},
    {"homes", table_homes},
    {"health", table_health},
    {"slot_homes", table_slot_homes},
    {"slot_served", table_slot_served},
    {NULL, NULL},
};
