/*
 * Lua's patterns for sandboxes: string.find, match, gmatch and gsub as section 6.4.1 of the Lua 5.4
 * manual describes them, with every step charged to the budget (a pattern of 10 bytes can take
 * hours on a subject of 100 KiB) and a bound on the subject. The matcher backtracks by recursion,
 * at most DEPTH_MAX deep.
 */
#include "sandbox.h"

#include <ctype.h>
#include <string.h>

enum { CAPTURES_MAX = 32, DEPTH_MAX = 150, CHARGE_STEPS = 512 };

#define OPEN ((ptrdiff_t)-1)
#define POSITION ((ptrdiff_t)-2)

struct matcher {
    lua_State *L;
    struct tide_sandbox *sandbox;
    const char *subject, *subject_end, *pattern_end;
    int level, depth;
    unsigned steps;
    struct {
        const char *start;
        ptrdiff_t size; /* or OPEN, POSITION */
    } captures[CAPTURES_MAX];
};

static const char *match(struct matcher *m, const char *s, const char *p);

static void count_step(struct matcher *m) {
    if (++m->steps >= CHARGE_STEPS) {
        m->steps = 0;
        tide__sandbox_charge(m->L, m->sandbox, CHARGE_STEPS);
    }
}

/* ---- single characters ---- */

/* The end of the single-character item that begins at p. */
static const char *item_end(struct matcher *m, const char *p) {
    if (*p == '%') {
        if (p + 1 >= m->pattern_end) {
            luaL_error(m->L, "malformed pattern (ends with '%%')");
        }
        return p + 2;
    }
    if (*p != '[') {
        return p + 1;
    }
    p++;
    if (p < m->pattern_end && *p == '^') {
        p++;
    }
    bool first = true; /* a ']' that stands first is itself */
    for (;; first = false) {
        if (p >= m->pattern_end) {
            luaL_error(m->L, "malformed pattern (missing ']')");
        }
        if (*p == ']' && !first) {
            return p + 1;
        }
        p += *p == '%' && p + 1 < m->pattern_end ? 2 : 1;
    }
}

static bool in_class(int c, int class) {
    bool in;
    switch (tolower(class)) {
    case 'a':
        in = isalpha(c);
        break;
    case 'c':
        in = iscntrl(c);
        break;
    case 'd':
        in = isdigit(c);
        break;
    case 'g':
        in = isgraph(c);
        break;
    case 'l':
        in = islower(c);
        break;
    case 'p':
        in = ispunct(c);
        break;
    case 's':
        in = isspace(c);
        break;
    case 'u':
        in = isupper(c);
        break;
    case 'w':
        in = isalnum(c);
        break;
    case 'x':
        in = isxdigit(c);
        break;
    default:
        return class == c;
    }
    return isupper(class) ? !in : in;
}

/* p: the '['; last: its ']'. */
static bool in_set(int c, const char *p, const char *last) {
    bool inside = true;
    p++;
    if (*p == '^') {
        inside = false;
        p++;
    }
    for (; p < last; p++) {
        if (*p == '%') {
            p++;
            if (in_class(c, (unsigned char)*p)) {
                return inside;
            }
        } else if (p + 2 < last && p[1] == '-') {
            if ((unsigned char)p[0] <= c && c <= (unsigned char)p[2]) {
                return inside;
            }
            p += 2;
        } else if ((unsigned char)*p == c) {
            return inside;
        }
    }
    return !inside;
}

static bool single(struct matcher *m, const char *s, const char *p, const char *end) {
    count_step(m);
    if (s >= m->subject_end) {
        return false;
    }
    int c = (unsigned char)*s;
    switch (*p) {
    case '.':
        return true;
    case '%':
        return in_class(c, (unsigned char)p[1]);
    case '[':
        return in_set(c, p, end - 1);
    default:
        return (unsigned char)*p == c;
    }
}

/* ---- captures and other items ---- */

static const char *match_balance(struct matcher *m, const char *s, const char *p) {
    if (p + 1 >= m->pattern_end) {
        luaL_error(m->L, "malformed pattern (missing arguments to '%%b')");
    }
    if (s >= m->subject_end || *s != p[0]) {
        return NULL;
    }
    int open = 1;
    for (const char *at = s + 1; at < m->subject_end; at++) {
        count_step(m);
        if (*at == p[1]) {
            if (--open == 0) {
                return at + 1;
            }
        } else if (*at == p[0]) {
            open++;
        }
    }
    return NULL;
}

static const char *start_capture(struct matcher *m, const char *s, const char *p, ptrdiff_t what) {
    if (m->level >= CAPTURES_MAX) {
        luaL_error(m->L, "too many captures");
    }
    m->captures[m->level].start = s;
    m->captures[m->level].size = what;
    m->level++;
    const char *found = match(m, s, p);
    m->level -= found ? 0 : 1;
    return found;
}

static const char *end_capture(struct matcher *m, const char *s, const char *p) {
    int index = m->level;
    while (index-- > 0 && m->captures[index].size != OPEN) {
    }
    if (index < 0) {
        luaL_error(m->L, "invalid pattern capture");
    }
    m->captures[index].size = s - m->captures[index].start;
    const char *found = match(m, s, p);
    if (!found) {
        m->captures[index].size = OPEN;
    }
    return found;
}

static const char *match_back(struct matcher *m, const char *s, int digit) {
    int index = digit - '1';
    if (index < 0 || index >= m->level || m->captures[index].size == OPEN) {
        luaL_error(m->L, "invalid capture index %%%d", index + 1);
    }
    if (m->captures[index].size == POSITION) {
        return NULL;
    }
    size_t size = (size_t)m->captures[index].size;
    tide__sandbox_charge(m->L, m->sandbox, size / 16);
    bool same = (size_t)(m->subject_end - s) >= size && memcmp(m->captures[index].start, s, size) == 0;
    return same ? s + size : NULL;
}

/* %f[set]: between a character that is not in the set and one that is. */
static const char *match_frontier(struct matcher *m, const char *s, const char *p) {
    if (p >= m->pattern_end || *p != '[') {
        luaL_error(m->L, "missing '[' after '%%f' in pattern");
    }
    const char *end = item_end(m, p);
    int before = s == m->subject ? 0 : (unsigned char)s[-1], here = s < m->subject_end ? (unsigned char)*s : 0;
    return !in_set(before, p, end - 1) && in_set(here, p, end - 1) ? match(m, s, end) : NULL;
}

/* ---- repetition ---- */

static const char *match_most(struct matcher *m, const char *s, const char *p, const char *end) {
    ptrdiff_t count = 0;
    while (single(m, s + count, p, end)) {
        count++;
    }
    for (; count >= 0; count--) {
        const char *found = match(m, s + count, end + 1);
        if (found) {
            return found;
        }
    }
    return NULL;
}

static const char *match_least(struct matcher *m, const char *s, const char *p, const char *end) {
    for (;; s++) {
        const char *found = match(m, s, end + 1);
        if (found) {
            return found;
        }
        if (!single(m, s, p, end)) {
            return NULL;
        }
    }
}

/* One item of a single character with what follows it. *next: where to continue, or NULL when the
 * answer is final. */
static const char *match_item(struct matcher *m, const char *s, const char *p, const char **next) {
    const char *end = item_end(m, p);
    char suffix = end < m->pattern_end ? *end : 0;
    *next = NULL;
    switch (suffix) {
    case '*':
        return match_most(m, s, p, end);
    case '+':
        return single(m, s, p, end) ? match_most(m, s + 1, p, end) : NULL;
    case '-':
        return match_least(m, s, p, end);
    case '?': {
        const char *found = single(m, s, p, end) ? match(m, s + 1, end + 1) : NULL;
        if (found) {
            return found;
        }
        *next = end + 1;
        return s;
    }
    default:
        if (!single(m, s, p, end)) {
            return NULL;
        }
        *next = end;
        return s + 1;
    }
}

/* An item that begins with '%'; *handled false: it is a class of single characters. */
static const char *match_escape(struct matcher *m, const char *s, const char *p, const char **next, bool *handled) {
    *handled = true;
    *next = NULL;
    char what = p + 1 < m->pattern_end ? p[1] : 0;
    if (what == 'b') {
        const char *after = match_balance(m, s, p + 2);
        *next = p + 4;
        return after;
    }
    if (what == 'f') {
        return match_frontier(m, s, p + 2);
    }
    if (isdigit((unsigned char)what)) {
        const char *after = match_back(m, s, what);
        *next = p + 2;
        return after;
    }
    *handled = false;
    return NULL;
}

/* The end of a match of the pattern from p at s, or NULL. */
static const char *match(struct matcher *m, const char *s, const char *p) {
    if (++m->depth > DEPTH_MAX) {
        luaL_error(m->L, "pattern too complex");
    }
    while (s && p < m->pattern_end) {
        const char *next = NULL;
        bool handled = false;
        count_step(m);
        if (*p == '(') {
            bool position = p + 1 < m->pattern_end && p[1] == ')';
            s = start_capture(m, s, p + (position ? 2 : 1), position ? POSITION : OPEN);
        } else if (*p == ')') {
            s = end_capture(m, s, p + 1);
        } else if (*p == '$' && p + 1 == m->pattern_end) {
            s = s == m->subject_end ? s : NULL;
        } else {
            const char *found = *p == '%' ? match_escape(m, s, p, &next, &handled) : NULL;
            s = handled ? found : match_item(m, s, p, &next);
        }
        if (!next) {
            break; /* the rest was matched, or not, by a deeper call */
        }
        p = next;
    }
    m->depth--;
    return s;
}

/* ---- results ---- */

/* Pushes capture `index`; the whole match when there are none. */
static void push_capture(struct matcher *m, int index, const char *s, const char *e) {
    if (index >= m->level) {
        if (index != 0) {
            luaL_error(m->L, "invalid capture index %%%d", index + 1);
        }
        lua_pushlstring(m->L, s, (size_t)(e - s));
        return;
    }
    ptrdiff_t size = m->captures[index].size;
    if (size == OPEN) {
        luaL_error(m->L, "unfinished capture");
    }
    if (size == POSITION) {
        lua_pushinteger(m->L, m->captures[index].start - m->subject + 1);
    } else {
        lua_pushlstring(m->L, m->captures[index].start, (size_t)size);
    }
}

static int push_captures(struct matcher *m, const char *s, const char *e, bool whole) {
    int count = m->level == 0 && whole ? 1 : m->level;
    luaL_checkstack(m->L, count, "too many captures");
    for (int i = 0; i < count; i++) {
        push_capture(m, i, s, e);
    }
    return count;
}

static void prepare(struct matcher *m, lua_State *L, const char *subject, size_t size, const char *pattern,
                    size_t pattern_size) {
    if (size > TIDE_SANDBOX_SUBJECT_MAX || pattern_size > 4096) {
        luaL_error(L, "patterns of up to 4 KiB work on strings of up to 256 KiB");
    }
    *m = (struct matcher){.L = L,
                          .sandbox = tide__sandbox_of(L),
                          .subject = subject,
                          .subject_end = subject + size,
                          .pattern_end = pattern + pattern_size};
    tide__sandbox_charge(L, m->sandbox, 20);
}

/* The first match at or behind `s`; its end in *e. */
static const char *search(struct matcher *m, const char *s, const char *pattern, bool anchored, const char **e) {
    do {
        m->level = 0;
        m->depth = 0;
        *e = match(m, s, pattern);
        if (*e) {
            return s;
        }
        s++;
    } while (s <= m->subject_end && !anchored);
    return NULL;
}

/* ---- find, match ---- */

static const char *find_bytes(const char *at, size_t size, const char *what, size_t length) {
    for (const char *end = at + size; (size_t)(end - at) >= length; at++) {
        at = length > 0 ? memchr(at, *what, (size_t)(end - at) - length + 1) : at;
        if (!at || memcmp(at, what, length) == 0) {
            return at;
        }
    }
    return NULL;
}

static int find_plain(lua_State *L, const char *subject, size_t size, const char *what, size_t length, size_t from) {
    double work = (double)(size - from) * (double)(length < 64 ? 1 : length / 64);
    tide__sandbox_charge(L, tide__sandbox_of(L), 4 + (uint64_t)(work / 16));
    const char *found = find_bytes(subject + from, size - from, what, length);
    if (!found) {
        lua_pushnil(L);
        return 1;
    }
    lua_pushinteger(L, found - subject + 1);
    lua_pushinteger(L, found - subject + (lua_Integer)length);
    return 2;
}

static int find_or_match(lua_State *L, bool find) {
    size_t size, length;
    const char *subject = luaL_checklstring(L, 1, &size), *pattern = luaL_checklstring(L, 2, &length);
    lua_Integer first = luaL_optinteger(L, 3, 1);
    first = first < 0 ? first + (lua_Integer)size + 1 : first;
    first = first < 1 ? 1 : first;
    if (first > (lua_Integer)size + 1) {
        lua_pushnil(L);
        return 1;
    }
    bool special = false;
    for (size_t i = 0; i < length; i++) {
        special = special || strchr("^$*+?.([%-", pattern[i] ? pattern[i] : 'x');
    }
    if (find && (lua_toboolean(L, 4) || !special)) {
        return find_plain(L, subject, size, pattern, length, (size_t)first - 1);
    }
    struct matcher m;
    prepare(&m, L, subject, size, pattern, length);
    bool anchored = length > 0 && *pattern == '^';
    const char *e, *s = search(&m, subject + first - 1, pattern + anchored, anchored, &e);
    tide__sandbox_charge(L, m.sandbox, m.steps);
    if (!s) {
        lua_pushnil(L);
        return 1;
    }
    if (!find) {
        return push_captures(&m, s, e, true);
    }
    lua_pushinteger(L, s - subject + 1);
    lua_pushinteger(L, e - subject);
    return 2 + push_captures(&m, s, e, false);
}

static int string_find(lua_State *L) {
    return find_or_match(L, true);
}

static int string_match(lua_State *L) {
    return find_or_match(L, false);
}

/* ---- gmatch ---- */

/* upvalues: subject, pattern, where to continue, end of the last match (both as offsets; -1: none) */
static int gmatch_next(lua_State *L) {
    size_t size, length;
    const char *subject = lua_tolstring(L, lua_upvalueindex(1), &size);
    const char *pattern = lua_tolstring(L, lua_upvalueindex(2), &length);
    lua_Integer from = lua_tointeger(L, lua_upvalueindex(3)), last = lua_tointeger(L, lua_upvalueindex(4));
    struct matcher m;
    prepare(&m, L, subject, size, pattern, length);
    while (from <= (lua_Integer)size) {
        const char *e, *s = search(&m, subject + from, pattern, false, &e);
        tide__sandbox_charge(L, m.sandbox, m.steps);
        m.steps = 0;
        if (!s) {
            break;
        }
        if (e - subject == last) { /* an empty match where the last one ended */
            from = s - subject + 1;
            continue;
        }
        lua_pushinteger(L, e - subject);
        lua_copy(L, -1, lua_upvalueindex(3));
        lua_replace(L, lua_upvalueindex(4));
        return push_captures(&m, s, e, true);
    }
    lua_pushinteger(L, (lua_Integer)size + 1);
    lua_replace(L, lua_upvalueindex(3));
    return 0;
}

static int string_gmatch(lua_State *L) {
    (void)luaL_checkstring(L, 1);
    (void)luaL_checkstring(L, 2);
    lua_settop(L, 2);
    lua_pushinteger(L, 0);
    lua_pushinteger(L, -1);
    lua_pushcclosure(L, gmatch_next, 4);
    return 1;
}

/* ---- gsub ---- */

static void add_text(struct matcher *m, luaL_Buffer *b, const char *s, const char *e) {
    size_t size;
    const char *text = lua_tolstring(m->L, 3, &size);
    for (size_t i = 0; i < size; i++) {
        if (text[i] != '%') {
            luaL_addchar(b, text[i]);
            continue;
        }
        i++;
        if (i < size && text[i] == '%') {
            luaL_addchar(b, '%');
        } else if (i < size && text[i] == '0') {
            luaL_addlstring(b, s, (size_t)(e - s));
        } else if (i < size && isdigit((unsigned char)text[i])) {
            push_capture(m, text[i] - '1', s, e);
            (void)luaL_tolstring(m->L, -1, NULL);
            lua_remove(m->L, -2);
            luaL_addvalue(b);
        } else {
            luaL_error(m->L, "invalid use of '%%' in replacement string");
        }
    }
}

/* Adds what replaces the match s..e; false and nil keep it. */
static void add_replacement(struct matcher *m, luaL_Buffer *b, const char *s, const char *e) {
    lua_State *L = m->L;
    int type = lua_type(L, 3);
    if (type == LUA_TSTRING || type == LUA_TNUMBER) {
        add_text(m, b, s, e);
        return;
    }
    if (type == LUA_TTABLE) {
        push_capture(m, 0, s, e);
        lua_gettable(L, 3);
    } else {
        lua_pushvalue(L, 3);
        lua_call(L, push_captures(m, s, e, true), 1);
    }
    if (!lua_toboolean(L, -1)) {
        lua_pop(L, 1);
        luaL_addlstring(b, s, (size_t)(e - s));
    } else if (lua_isstring(L, -1)) {
        luaL_addvalue(b);
    } else {
        luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
    }
}

static int string_gsub(lua_State *L) {
    size_t size, length;
    const char *subject = luaL_checklstring(L, 1, &size), *pattern = luaL_checklstring(L, 2, &length);
    int type = lua_type(L, 3);
    luaL_argexpected(L, type == LUA_TSTRING || type == LUA_TNUMBER || type == LUA_TTABLE || type == LUA_TFUNCTION, 3,
                     "string/function/table");
    lua_Integer most = luaL_optinteger(L, 4, (lua_Integer)size + 1), count = 0;
    struct matcher m;
    prepare(&m, L, subject, size, pattern, length);
    bool anchored = length > 0 && *pattern == '^';
    const char *at = subject, *last = NULL;
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    while (count < most) {
        m.level = 0;
        m.depth = 0;
        const char *e = match(&m, at, pattern + anchored);
        if (e && e != last) {
            count++;
            tide__sandbox_charge(L, m.sandbox, 10 + luaL_bufflen(&b) / 4096);
            add_replacement(&m, &b, at, e);
            at = last = e;
        } else if (at < m.subject_end) {
            luaL_addchar(&b, *at);
            at++;
        } else {
            break;
        }
        if (luaL_bufflen(&b) > TIDE_SANDBOX_STRING_MAX) {
            luaL_error(L, "a string of more than 1 MiB");
        }
        if (anchored) {
            break;
        }
    }
    luaL_addlstring(&b, at, (size_t)(m.subject_end - at));
    luaL_pushresult(&b);
    lua_pushinteger(L, count);
    tide__sandbox_charge(L, m.sandbox, m.steps + size / 16);
    return 2;
}

void tide__sandbox_open_patterns(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"find", string_find}, {"gmatch", string_gmatch}, {"gsub", string_gsub}, {"match", string_match}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
