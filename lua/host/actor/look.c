/*
 * What a Lua actor does: the stacks of its fibers, as lines of text (core.stack makes tables of them).
 *
 *   fiber <TAB> what it waits for, or nothing
 *   frame <TAB> lua|native|kernel <TAB> file:line <TAB> name
 *
 * A stack is read without a change to its state and without memory, for it may be read in a signal's handler. Of code
 * that runs it is read by a hook, at its next instruction. Native code gets there too late: it is read while it runs,
 * when Lua's own functions have long handed over to it.
 */
#include "lua/host/host.h"
#include "store/rows/rules.h"

#include <string.h>

enum { FRAMES_MAX = 40, TEXT_MAX = 16384 };
#define FIBER "fiber\t"
#define FRAME "frame\t"

struct text {
    char *at, *end;
};

static void add(struct text *t, const char *s) {
    while (*s && t->at < t->end) {
        *t->at++ = *s == '\n' || *s == '\t' ? ' ' : *s;
        s++;
    }
}

static void add_char(struct text *t, char c) {
    if (t->at < t->end) {
        *t->at++ = c;
    }
}

static void add_part(struct text *t, const char *s, size_t size) {
    for (size_t i = 0; i < size; i++) {
        add_char(t, s[i]);
    }
}

static void add_line(struct text *t, int line) {
    char digits[12];
    size_t at = sizeof digits - 1;
    digits[at] = 0;
    do {
        digits[--at] = (char)('0' + line % 10);
        line /= 10;
    } while (line > 0 && at > 0);
    add_char(t, ':');
    add(t, digits + at);
}

static void add_frame(struct text *t, const lua_Debug *ar, const char *kernel) {
    const bool native = ar->what[0] == 'C', chunk = ar->what[0] == 'm';
    add_part(t, FRAME, sizeof FRAME - 1);
    add(t, !native ? "lua" : kernel ? "kernel" : "native");
    add_char(t, '\t');
    if (!native) {
        add(t, ar->short_src);
        add_line(t, ar->currentline > 0 ? ar->currentline : 0);
    }
    add_char(t, '\t');
    if (native && kernel) {
        add(t, kernel);
    } else if (ar->name || chunk) {
        add(t, chunk ? "main chunk" : ar->name);
    } else if (!native) {
        add(t, "function <");
        add(t, ar->short_src);
        add_line(t, ar->linedefined);
        add(t, ">");
    }
    add_char(t, '\n');
}

static void add_stack(struct text *t, lua_State *L, const char *kernel) {
    lua_Debug ar;
    for (int level = 0; level < FRAMES_MAX && lua_getstack(L, level, &ar); level++) {
        const bool known = lua_getinfo(L, "nSl", &ar) && (ar.what[0] != 'C' || ar.name || level == 0);
        if (known) { /* others are calls of Tide's own C code */
            add_frame(t, &ar, level == 0 ? kernel : NULL);
        }
    }
}

static void add_fiber(struct text *t, const struct tide_lua_fiber *f) {
    const bool runs = f->fiber == tide_fiber_current();
    const char *waits = runs || !f->fiber ? NULL : tide_fiber_waits(f->fiber);
    add_part(t, FIBER, sizeof FIBER - 1);
    add(t, waits ? waits : "");
    add_char(t, '\n');
    if (f->running && f->running != f->L) {
        add_stack(t, f->running, f->kernel);
    }
    add_stack(t, f->L, f->running && f->running != f->L ? NULL : f->kernel);
}

/* ---- the text read back: without memory, too ---- */

struct frame {
    const char *kind, *where, *name;
    size_t kind_size, where_size, name_size;
};

static bool starts_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* A field of a line, up to a tab or its end; moves behind it. */
static size_t field(const char **at, const char *end, const char **out) {
    const char *tab = memchr(*at, '\t', (size_t)(end - *at));
    *out = *at;
    *at = tab ? tab + 1 : end;
    return (size_t)((tab ? tab : end) - *out);
}

static bool frame_read(const char *line, const char *end, struct frame *f) {
    const char *at = line + sizeof FRAME - 1;
    if (!starts_with(line, FRAME)) {
        return false;
    }
    f->kind_size = field(&at, end, &f->kind);
    f->where_size = field(&at, end, &f->where);
    f->name_size = field(&at, end, &f->name);
    return true;
}

/* ---- the asking ---- */

/* The hook of a fiber that was asked for its stack: the former one comes back, and what was asked is answered. */
static void look_hook(lua_State *L, lua_Debug *ar) {
    (void)ar;
    struct tide_lua *host = tide__lua_host(L);
    lua_sethook(L, host->look.hook, host->look.mask, host->look.count);
    host->look.pending = false;
    tide_look_here();
}

static int ask(struct tide_lua *host) {
    const struct tide_lua_fiber *fiber = tide__lua_current(host);
    lua_State *L = fiber->running ? fiber->running : fiber->L;
    if (L && !host->look.pending && !host->killed) {
        host->look.hook = lua_gethook(L);
        host->look.mask = lua_gethookmask(L);
        host->look.count = lua_gethookcount(L);
        host->look.pending = true;
        lua_sethook(L, look_hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
    }
    return TIDE_EBUSY;
}

int tide__lua_look(struct tide_lua *host, enum tide_look_how how, char *out, size_t size) {
    if (how == TIDE_LOOK_ASKS) {
        return ask(host);
    }
    struct text t = {out, out + size};
    const struct tide_lua_fiber *current = tide__lua_current(host);
    if (current->fiber == tide_fiber_current()) { /* first the one that runs */
        add_fiber(&t, current);
    }
    for (const struct tide_lua_fiber *f = host->fibers; f; f = f->next) {
        if (f->fiber != tide_fiber_current() && f->L && !f->done) {
            add_fiber(&t, f);
        }
    }
    return (int)(t.at - out);
}

/* ---- last words ---- */

/* "in kernel crash, at train.lua:31 (worker on n2)": of the frames, the innermost operation and the innermost line
 * that is not of a module of Tide's own. In a signal's handler. */
size_t tide__lua_last_words(char *out, size_t size) {
    static char raw[TEXT_MAX]; /* a process has one crash */
    struct text t = {out, out + size};
    const struct tide_thread_look look = tide_look_at_thread(raw, sizeof raw);
    const char *end = raw + (look.size > 0 ? look.size : 0), *line = raw;
    bool first = true, named = false, placed = false;
    if (!look.node) {
        return 0;
    }
    if (tide__rule_inside()) {
        add(&t, "in update rule ");
        add(&t, tide__rule_inside());
        named = true;
        first = false;
    }
    while (line < end && !placed) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        struct frame f;
        if (!next) {
            break;
        }
        if (frame_read(line, next, &f)) {
            if (first && f.kind[0] != 'l') {
                add(&t, f.kind[0] == 'k' ? "in kernel " : "in ");
                add_part(&t, f.name, f.name_size);
                named = true;
            }
            placed = f.kind[0] == 'l' && !starts_with(f.where, "tide/") && !starts_with(f.where, "tide.lua:");
            if (placed) {
                add(&t, named ? ", at " : "at ");
                add_part(&t, f.where, f.where_size);
            }
            first = false;
        }
        line = next + 1;
    }
    add(&t, named || placed ? " (" : "(");
    add(&t, look.actor ? look.actor : "Tide's own code");
    add(&t, " on ");
    add(&t, look.node);
    add(&t, ")");
    return (size_t)(t.at - out);
}

/* ---- core.stack ---- */

/* The table of fibers is on top. */
static void push_fiber(lua_State *L, const char *waits, size_t size) {
    lua_createtable(L, 0, 2);
    if (size > 0) {
        lua_pushlstring(L, waits, size);
        lua_setfield(L, -2, "waits_for");
    }
    lua_newtable(L);
    lua_setfield(L, -2, "frames");
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

static void set_part(lua_State *L, const char *name, const char *text, size_t size) {
    if (size > 0) {
        lua_pushlstring(L, text, size);
        lua_setfield(L, -2, name);
    }
}

static void push_frame(lua_State *L, const struct frame *f) {
    if (lua_rawgeti(L, -1, (lua_Integer)lua_rawlen(L, -1)) == LUA_TTABLE) {
        lua_getfield(L, -1, "frames");
        lua_createtable(L, 0, 3);
        set_part(L, "kind", f->kind, f->kind_size);
        set_part(L, "where", f->where, f->where_size);
        set_part(L, "name", f->name, f->name_size);
        lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

/* core.stack(address) -> {{waits_for=, frames={{kind=, where=, name=}, ..}}, ..} | nil, err: what the fibers of an
 * actor of this node do, innermost frames first */
static int core_stack(lua_State *L) {
    const tide_address who = tide__lua_check_address(L, 1);
    (void)tide__lua_inside(L);
    char *text = lua_newuserdatauv(L, TEXT_MAX, 0);
    const int size = tide_look(who, text, TEXT_MAX);
    if (tide__lua_resumed(L, size) < 0) {
        return tide__lua_failure(L, size);
    }
    lua_newtable(L);
    for (const char *at = text, *end = text + size, *line; at < end; at = line + 1) {
        struct frame f;
        line = memchr(at, '\n', (size_t)(end - at));
        if (!line) { /* cut off */
            break;
        }
        if (frame_read(at, line, &f)) {
            push_frame(L, &f);
        } else {
            push_fiber(L, at + sizeof FIBER - 1, (size_t)(line - at) - (sizeof FIBER - 1));
        }
    }
    return 1;
}

void tide__lua_open_look(lua_State *L) {
    static const luaL_Reg functions[] = {{"stack", core_stack}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
