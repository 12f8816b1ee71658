/*
 * Options of tables between Lua and C, by the rows of store/core/option.def: what core.table reads, what `spec` of a
 * handle has, and core.table_options, from which tide.table checks its fields.
 */
#include "lua/host/host.h"
#include "store/core/options.h"
#include "store/core/store.h"
#include "store/rows/rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows that stand in a field {kind, ...}: at a position, or by a name. All others are fields of their own name. */
static const struct nested {
    const char *row, *within, *name;
    lua_Integer position;
} nested[] = {
    {"keys", "keys", NULL, 1},
    {"key_count", "keys", NULL, 2},
    {"key_limit", "keys", NULL, 2},
    {"admit_after", "keys", "admit_after", 0},
    {"unused_ns", "keys", "unused_ns", 0},
    {"evict", "keys", "evict", 0},
    {"init", "init", NULL, 1},
    {"init_a", "init", NULL, 2},
    {"init_b", "init", NULL, 3},
    {"update", "update", NULL, 1},
};
static const char *const others[] = {"name", "seed", "consistency", "dtype"};

static const struct nested *nested_in(const char *row, const char *within) {
    for (size_t i = 0; i < TIDE_COUNT(nested); i++) {
        if (strcmp(row ? nested[i].row : nested[i].within, row ? row : within) == 0) {
            return &nested[i];
        }
    }
    return NULL;
}

/* Rows of the rule's numbers and its module: they stand in `update`, and are called as the rule calls them. */
static bool is_of_rule(const struct tide__option *option) {
    const bool kind = strcmp(option->name, "update") == 0, init = strncmp(option->name, "init_", 5) == 0;
    return kind || (option->real && !init) || (option->text && strncmp(option->name, "rule", 4) == 0);
}

/* Whether the row means something beside the kind that was read: keys have a count or a limit, init 0 to 2 numbers. */
static bool matters(const char *row, const struct tide_table_options *o) {
    static const uint8_t numbers[] = {
        [TIDE_INIT_ZERO] = 0, [TIDE_INIT_UNIFORM] = 2, [TIDE_INIT_NORMAL] = 1, [TIDE_INIT_XAVIER] = 2};
    const unsigned count = o->init < TIDE_COUNT(numbers) ? numbers[o->init] : 0;
    return strcmp(row, "key_count") == 0   ? o->keys == TIDE_KEYS_DENSE
           : strcmp(row, "key_limit") == 0 ? o->keys == TIDE_KEYS_HASHED
           : strcmp(row, "init_a") == 0    ? count > 0
           : strcmp(row, "init_b") == 0    ? count > 1
                                           : true;
}

static const struct tide__option *option_of(const char *row) {
    const struct tide__option *option = tide__options;
    while (option->name && strcmp(option->name, row) != 0) {
        option++;
    }
    return option;
}

const char *tide__lua_option_word(const char *row, uint64_t value) {
    const struct tide__option *option = option_of(row);
    return option->words && value <= option->most ? option->words[value] : "?";
}

uint64_t tide__lua_option_check(lua_State *L, int at, const char *row) {
    const struct tide__option *option = option_of(row);
    const char *given = luaL_checkstring(L, at);
    uint64_t value = 0;
    while (value <= option->most && strcmp(option->words[value], given) != 0) {
        value++;
    }
    return value <= option->most ? value : (uint64_t)luaL_argerror(L, at, lua_pushfstring(L, "no %s '%s'", row, given));
}

/* ---- from Lua ---- */

/* Pushes what the spec at 1 says of a row, or nil. */
static void push_given(lua_State *L, const char *row) {
    const struct nested *n = nested_in(row, NULL);
    const int type = lua_getfield(L, 1, n ? n->within : row);
    if (n && type == LUA_TTABLE) {
        (void)(n->name ? lua_getfield(L, -1, n->name) : lua_rawgeti(L, -1, n->position));
        lua_remove(L, -2);
    } else if (n && n->position != 1) { /* a name alone */
        lua_pop(L, 1);
        lua_pushnil(L);
    }
}

static void read_word(lua_State *L, const struct tide__option *option, struct tide_table_options *o) {
    const char *given = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : luaL_typename(L, -1);
    for (uint64_t i = 0; i <= option->most; i++) {
        if (strcmp(option->words[i], given) == 0) {
            tide__option_set(option, o, i);
            return;
        }
    }
    luaL_error(L, "table: %s = \"%s\" is not one of its values", option->name, given);
}

static void read_row(lua_State *L, const struct tide__option *option, struct tide_table_options *o) {
    int number = 0;
    push_given(L, option->name);
    const lua_Number value = lua_tonumberx(L, -1, &number);
    if (lua_isnil(L, -1) || !matters(option->name, o)) {
        lua_pop(L, 1);
        return;
    }
    size_t size = 0;
    const char *text = option->text && lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &size) : NULL;
    if (option->words) {
        read_word(L, option, o);
    } else if (option->text && (!text || size >= option->size)) {
        luaL_error(L, "table: %s is a string of at most %d bytes", option->name, (int)option->size - 1);
    } else if (text) {
        memcpy(tide__option_room(option, o), text, size + 1);
    } else if (lua_isboolean(L, -1) && option->most == 1) {
        tide__option_set(option, o, (uint64_t)lua_toboolean(L, -1));
    } else if (!number) {
        luaL_error(L, "table: %s is %s, not a number", option->name, luaL_typename(L, -1));
    } else if (option->real) {
        tide__option_set_real(option, o, (float)value);
    } else if (!(value >= 0 && value < 0x1p63 && value <= (lua_Number)option->most && value == floor(value))) {
        luaL_error(L, "table: %s is out of range", option->name);
    } else {
        tide__option_set(option, o, (uint64_t)value);
    }
    lua_pop(L, 1);
}

/* Of the table on top; raises where it is none. */
static float number_of(lua_State *L, const char *name, double otherwise) {
    int number = 1;
    const double value = lua_getfield(L, -1, name) == LUA_TNIL ? otherwise : lua_tonumberx(L, -1, &number);
    if (!number) {
        luaL_error(L, "table: '%s' is not a number", name);
    }
    lua_pop(L, 1);
    return (float)value;
}

/* update = "sgd", or {"sgd", lr = 0.1}. */
static void read_update(lua_State *L, struct tide_table_options *o) {
    lua_newtable(L); /* a name alone has no numbers */
    if (lua_getfield(L, 1, "update") == LUA_TTABLE) {
        lua_replace(L, -2);
        lua_rawgeti(L, -1, 1);
    }
    const char *kind = luaL_optstring(L, -1, tide__rules[TIDE_UPDATE_ADD].name);
    const struct tide_update_rule *rule = tide__rules;
    while (rule->name && strcmp(rule->name, kind) != 0) {
        rule++;
    }
    o->update = (uint8_t)(rule - tide__rules);
    lua_insert(L, -2); /* the name stays below */
    if (!rule->name) {
        lua_getfield(L, -1, "version");
        const char *version = luaL_optstring(L, -1, "");
        rule = tide__rule_find(kind, version);
        if (!rule) {
            luaL_error(L, "table: update = \"%s\" is not one of its values", kind);
            return;
        }
        (void)snprintf(o->rule, sizeof o->rule, "%s", kind);
        (void)snprintf(o->rule_version, sizeof o->rule_version, "%s", version);
        lua_pop(L, 1);
    }
    o->lr = number_of(L, "lr", 0);
    for (size_t i = 0; i < rule->number_count; i++) {
        const struct tide_parameter *number = &rule->numbers[i];
        o->numbers[1 + i] = number->name ? number_of(L, number->name, number->number) : 0;
    }
    lua_pop(L, 2);
}

/* core.rule_check({update =}) -> true | nil, err: do these numbers go with the rule? */
static int core_rule_check(lua_State *L) {
    struct tide_table_options o = {.name = "?"};
    luaL_checktype(L, 1, LUA_TTABLE);
    read_update(L, &o);
    const int code = tide__rule_numbers(&o);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

static void check_fields(lua_State *L) {
    lua_pushnil(L);
    while (lua_next(L, 1)) {
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
        bool found = nested_in(NULL, name) != NULL;
        for (size_t i = 0; i < TIDE_COUNT(others); i++) {
            found = found || strcmp(others[i], name) == 0;
        }
        for (const struct tide__option *option = tide__options; option->name; option++) {
            found = found || (strcmp(option->name, name) == 0 && !nested_in(name, NULL) && !is_of_rule(option));
        }
        if (!found) {
            luaL_error(L, "table: unknown field '%s'", luaL_tolstring(L, -2, NULL));
        }
        lua_pop(L, 1);
    }
}

static const char *text_field(lua_State *L, const char *name) {
    const int type = lua_getfield(L, 1, name); /* stays on the stack */
    if (type != LUA_TNIL && type != LUA_TSTRING) {
        luaL_error(L, "table: field '%s' is %s, not a string", name, lua_typename(L, type));
    }
    return type == LUA_TNIL ? NULL : lua_tostring(L, -1);
}

void tide__lua_options_read(lua_State *L, struct tide_table_options *o) {
    luaL_checktype(L, 1, LUA_TTABLE);
    check_fields(L);
    *o = (struct tide_table_options){.name = text_field(L, "name")};
    if (!o->name) {
        luaL_error(L, "table: it needs a name");
    }
    const char *consistency = text_field(L, "consistency");
    if (consistency && tide_consistency_parse(consistency, &o->consistency) < 0) {
        luaL_error(L, "table: %s", tide_error_message());
    }
    lua_getfield(L, 1, "seed");
    o->seed = (uint64_t)luaL_optinteger(L, -1, 0);
    for (const struct tide__option *option = tide__options; option->name; option++) {
        if (!is_of_rule(option)) {
            read_row(L, option, o);
        }
    }
    read_update(L, o);
}

/* ---- to Lua ---- */

void tide__lua_push_short(lua_State *L, float value) {
    char text[32];
    (void)snprintf(text, sizeof text, "%.6g", (double)value);
    lua_pushnumber(L, strtof(text, NULL) == value ? strtod(text, NULL) : (double)value);
}

static void push_value(lua_State *L, const struct tide__option *option, const struct tide_table_options *o) {
    const float real = option->real ? tide__option_real(option, o) : 0;
    if (option->words) {
        lua_pushstring(L, option->words[tide__option_get(option, o)]);
    } else if (option->text) {
        lua_pushstring(L, tide__option_text(option, o));
    } else if (option->most == 1) {
        lua_pushboolean(L, tide__option_get(option, o) != 0);
    } else if (!option->real) {
        lua_pushinteger(L, (lua_Integer)tide__option_get(option, o));
    } else if (real == floorf(real) && fabsf(real) < 1e9f) {
        lua_pushinteger(L, (lua_Integer)real);
    } else {
        tide__lua_push_short(L, real);
    }
}

static bool is_unset(const struct tide__option *option, const struct tide_table_options *o) {
    return option->text   ? *tide__option_text(option, o) == 0
           : option->real ? tide__option_real(option, o) == 0
                          : tide__option_get(option, o) == 0;
}

/* Into the table on top. */
static void push_row(lua_State *L, const struct tide__option *option, const struct tide_table_options *o) {
    const struct nested *n = nested_in(option->name, NULL);
    if (!n && !(option->text && is_unset(option, o))) {
        push_value(L, option, o);
        lua_setfield(L, -2, option->name);
    }
    if (!n) {
        return;
    }
    if ((n->name && is_unset(option, o)) || !matters(option->name, o)) {
        return;
    }
    if (lua_getfield(L, -1, n->within) == LUA_TNIL) {
        lua_createtable(L, 3, 0);
        lua_pushvalue(L, -1);
        lua_setfield(L, -4, n->within);
        lua_remove(L, -2);
    }
    push_value(L, option, o);
    if (n->name) {
        lua_setfield(L, -2, n->name);
    } else {
        lua_rawseti(L, -2, n->position);
    }
    lua_pop(L, 1);
}

static void push_update(lua_State *L, const struct tide_table_options *o) {
    const struct tide_update_rule *rule = tide__rule_of(o);
    lua_createtable(L, 1, 4);
    lua_pushstring(L, tide__rule_name(o));
    lua_rawseti(L, -2, 1);
    if (o->rule_version[0]) {
        lua_pushstring(L, o->rule_version);
        lua_setfield(L, -2, "version");
    }
    for (size_t i = 0; i <= rule->number_count; i++) {
        const char *name = i == 0 ? "lr" : rule->numbers[i - 1].name;
        if (name && o->numbers[i] != 0) {
            tide__lua_push_short(L, o->numbers[i]);
            lua_setfield(L, -2, name);
        }
    }
    lua_setfield(L, -2, "update");
}

void tide__lua_push_options(lua_State *L, const struct tide_table_options *o) {
    char consistency[TIDE_CONSISTENCY_TEXT];
    lua_createtable(L, 0, 24);
    lua_pushstring(L, o->name);
    lua_setfield(L, -2, "name");
    tide__lua_set_integer(L, "seed", o->seed);
    tide_consistency_print(&o->consistency, consistency);
    lua_pushstring(L, consistency);
    lua_setfield(L, -2, "consistency");
    push_update(L, o);
    for (const struct tide__option *option = tide__options; option->name; option++) {
        if (!option->of_run && !is_of_rule(option)) {
            push_row(L, option, o);
        }
    }
}

/* core.table_options() -> {{name =, words = | most =, flag =, doc =}, ...}: the fields of tide.table that are rows */
static int core_table_options(lua_State *L) {
    lua_newtable(L);
    for (const struct tide__option *option = tide__options; option->name; option++) {
        if (!option->doc) {
            continue;
        }
        lua_createtable(L, 0, 4);
        lua_pushstring(L, option->name);
        lua_setfield(L, -2, "name");
        lua_pushstring(L, option->doc);
        lua_setfield(L, -2, "doc");
        if (option->words) {
            lua_createtable(L, (int)option->most + 1, 0);
            for (uint64_t i = 0; i <= option->most; i++) {
                lua_pushstring(L, option->words[i]);
                lua_rawseti(L, -2, (lua_Integer)i + 1);
            }
            lua_setfield(L, -2, "words");
        } else {
            tide__lua_set_integer(L, "most", option->most < INT64_MAX ? option->most : INT64_MAX);
        }
        lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    }
    return 1;
}

void tide__lua_open_options(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"table_options", core_table_options}, {"rule_check", core_rule_check}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
