/*
 * The line editor of the prompt, on libedit's native interface: the module `tide.line` of the
 * programs (not of the library). One editor a process, on the process's terminal.
 *
 * libedit asks for characters by EL_GETCFN, and the function here suspends the calling fiber until
 * there is one: messages, timers and the keyboard share the actor's thread. A thread of its own
 * does nothing but wait for the terminal and wake that fiber. Lines that other fibers print
 * meanwhile are put above the line that is being typed, which is drawn again. A bracketed paste
 * becomes part of one entry, newlines included.
 */
#include "line.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

enum { HISTORY_MAX = 10000, PASTE_MAX = 1 << 20, ABOVE_MAX = 64 << 10 };

static const int signals[] = {SIGWINCH, SIGTERM, SIGHUP};

struct line {
    EditLine *el;
    History *history;
    lua_State *L; /* of the fiber in line.read */
    int on_tab;   /* registry reference */
    char *prompt;
    pthread_t watcher;
    sem_t armed;
    int wake[2]; /* a byte wakes the watcher: a signal came, or the editor closes */
    struct tide_fiber *reader;
    atomic_bool watching; /* release by the watcher: pairs with the reader's acquire */
    atomic_bool closing;
    char *above; /* to be printed above the line */
    size_t above_size;
    struct sigaction before[TIDE_COUNT(signals)];
    bool interrupted, bracketed, ended, reading;
};

static struct line *editor;
/* Of the signals' handlers, which run on whichever thread. Relaxed: they carry nothing else. */
static atomic_bool resized;
static atomic_int ended_by; /* SIGTERM, SIGHUP; 0 */
static atomic_int wake_pipe = -1;

/* ---- waiting for the keyboard ---- */

static void on_signal(int signal) {
    int error = errno;
    if (signal == SIGWINCH) {
        atomic_store_explicit(&resized, true, memory_order_relaxed);
    } else {
        atomic_store_explicit(&ended_by, signal, memory_order_relaxed);
    }
    int pipe_end = atomic_load_explicit(&wake_pipe, memory_order_relaxed);
    if (pipe_end >= 0) {
        (void)!write(pipe_end, "r", 1);
    }
    errno = error;
}

static void *watch(void *arg) {
    struct line *e = arg;
    for (;;) {
        while (sem_wait(&e->armed) != 0) { /* EINTR */
        }
        struct pollfd fds[2] = {{.fd = 0, .events = POLLIN}, {.fd = e->wake[0], .events = POLLIN}};
        while (poll(fds, 2, -1) < 0 && errno == EINTR) {
        }
        char bytes[64]; /* signals that came without a reader: what is left wakes once more */
        if (fds[1].revents != 0) {
            (void)!read(e->wake[0], bytes, sizeof bytes);
        }
        if (atomic_load_explicit(&e->closing, memory_order_acquire)) { /* with line_close */
            return NULL;
        }
        struct tide_fiber *reader = e->reader;
        atomic_store_explicit(&e->watching, false, memory_order_release);
        tide_fiber_wake(reader);
    }
}

static bool readable(void) {
    struct pollfd fd = {.fd = 0, .events = POLLIN};
    return poll(&fd, 1, 0) > 0;
}

static void print_above(struct line *e) {
    if (e->above_size > 0) {
        (void)fputs("\r\033[K", stdout);
        (void)fwrite(e->above, 1, e->above_size, stdout);
        e->above_size = 0;
        (void)fflush(stdout);
        (void)el_set(e->el, EL_REFRESH);
    }
}

/* Suspends the fiber until a byte is there; false: the actor ends. */
static bool await_byte(struct line *e) {
    while (!readable()) {
        if (atomic_load_explicit(&ended_by, memory_order_relaxed) != 0) {
            e->ended = true;
            return false;
        }
        if (atomic_exchange_explicit(&resized, false, memory_order_relaxed)) {
            el_resize(e->el);
            (void)fputs(e->bracketed ? "\r\033[J" : "\n", stdout); /* what has become of the line */
            (void)fflush(stdout);
            (void)el_set(e->el, EL_REFRESH);
        }
        print_above(e);
        if (!atomic_exchange_explicit(&e->watching, true, memory_order_acq_rel)) {
            e->reader = tide_fiber_current();
            (void)sem_post(&e->armed);
        }
        if (tide_fiber_suspend(TIDE_NEVER, "the keyboard") == TIDE_ECANCELED) {
            e->ended = true;
            return false;
        }
    }
    return true;
}

static int next_character(EditLine *el, wchar_t *out) {
    struct line *e = editor;
    (void)el;
    mbstate_t state;
    memset(&state, 0, sizeof state);
    for (;;) {
        char byte;
        if (!await_byte(e) || read(0, &byte, 1) != 1) {
            e->ended = true;
            return 0;
        }
        size_t got = mbrtowc(out, &byte, 1, &state);
        if (got == (size_t)-1) {
            memset(&state, 0, sizeof state);
            *out = L'?';
            return 1;
        }
        if (got != (size_t)-2) {
            return 1;
        }
    }
}

/* ---- keys ---- */

static unsigned char key_interrupt(EditLine *el, int key) {
    (void)key;
    editor->interrupted = true;
    el_push(el, "\n"); /* the key that ends a line also leaves its last row */
    return CC_NORM;
}

static void bracket(struct line *e, bool on) {
    if (e->bracketed) {
        (void)fputs(on ? "\033[?2004h" : "\033[?2004l", stdout);
        (void)fflush(stdout);
    }
}

static unsigned char key_suspend(EditLine *el, int key) {
    (void)key;
    bracket(editor, false);
    (void)el_set(el, EL_PREP_TERM, 0);
    (void)raise(SIGTSTP);
    (void)el_set(el, EL_PREP_TERM, 1);
    bracket(editor, true);
    return CC_REDISPLAY;
}

/* What comes between the brackets of a paste goes into the line as it is. */
static unsigned char key_paste(EditLine *el, int key) {
    static const wchar_t end[] = L"\033[201~";
    (void)key;
    size_t count = 0, capacity = 4096, matched = 0;
    wchar_t *text = tide_alloc(capacity * sizeof *text), c;
    while (text && el_wgetc(el, &c) == 1) {
        if (count + 1 >= capacity && capacity < PASTE_MAX) {
            wchar_t *grown = tide_realloc(text, 2 * capacity * sizeof *text);
            if (!grown) {
                break;
            }
            text = grown;
            capacity *= 2;
        }
        matched = c == end[matched] ? matched + 1 : c == end[0] ? 1 : 0;
        if (count + 1 < capacity) { /* the rest of a paste over 1 Mi characters is dropped */
            text[count++] = c == L'\r' ? L'\n' : c == L'\t' ? L' ' : c;
        }
        if (matched == TIDE_COUNT(end) - 1) {
            count -= count < matched ? count : matched;
            break;
        }
    }
    while (text && count > 0 && text[count - 1] == L'\n') {
        count--;
    }
    if (text && count > 0) {
        text[count] = 0;
        (void)el_winsertstr(el, text);
    }
    tide_free(text);
    return CC_REFRESH;
}

/* on_tab(line, cursor) -> text to insert | nil, text to show above | nil */
static unsigned char key_complete(EditLine *el, int key) {
    (void)key;
    lua_State *L = editor->L;
    const LineInfo *info = el_line(el);
    int top = lua_gettop(L);
    lua_rawgeti(L, LUA_REGISTRYINDEX, editor->on_tab);
    lua_pushlstring(L, info->buffer, (size_t)(info->lastchar - info->buffer));
    lua_pushinteger(L, info->cursor - info->buffer);
    unsigned char effect = CC_REFRESH;
    if (lua_pcall(L, 2, 2, 0) == LUA_OK) {
        if (lua_type(L, -2) == LUA_TSTRING && lua_rawlen(L, -2) > 0) {
            (void)el_insertstr(el, lua_tostring(L, -2));
        }
        if (lua_type(L, -1) == LUA_TSTRING) {
            (void)fprintf(stdout, "\n%s\n", lua_tostring(L, -1));
            (void)fflush(stdout);
            effect = CC_REDISPLAY;
        }
    }
    lua_settop(L, top);
    return effect;
}

static char *prompt_text(EditLine *el) {
    (void)el;
    return editor->prompt;
}

/* ---- the module ---- */

/* Names as wide strings: libedit keeps these, and leaks its own copies of others. */
static void bind_keys(EditLine *el) {
    (void)el_set(el, EL_EDITOR, "emacs");
    (void)el_wset(el, EL_ADDFN, L"tide-interrupt", L"give the line up", key_interrupt);
    (void)el_wset(el, EL_ADDFN, L"tide-suspend", L"stop the process", key_suspend);
    (void)el_wset(el, EL_ADDFN, L"tide-paste", L"insert a paste", key_paste);
    (void)el_wset(el, EL_ADDFN, L"tide-complete", L"complete the word", key_complete);
    (void)el_set(el, EL_BIND, "^C", "tide-interrupt", NULL);
    (void)el_set(el, EL_BIND, "^Z", "tide-suspend", NULL);
    (void)el_set(el, EL_BIND, "^I", "tide-complete", NULL);
    (void)el_set(el, EL_BIND, "\033[200~", "tide-paste", NULL);
    (void)el_set(el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    (void)el_set(el, EL_BIND, "^W", "ed-delete-prev-word", NULL);
    (void)el_set(el, EL_BIND, "\033[3~", "ed-delete-next-char", NULL);
    (void)el_set(el, EL_BIND, "\033[1;5C", "em-next-word", NULL);
    (void)el_set(el, EL_BIND, "\033[1;5D", "ed-prev-word", NULL);
    (void)el_set(el, EL_SETTY, "-d", "-isig", NULL);
}

static void line_close(struct line *e) {
    bracket(e, false);
    atomic_store_explicit(&e->closing, true, memory_order_release); /* with watch */
    (void)!write(e->wake[1], "q", 1);
    (void)sem_post(&e->armed);
    (void)pthread_join(e->watcher, NULL);
    for (size_t i = 0; i < TIDE_COUNT(signals); i++) {
        (void)sigaction(signals[i], &e->before[i], NULL);
    }
    atomic_store_explicit(&wake_pipe, -1, memory_order_relaxed);
    el_end(e->el);
    history_end(e->history);
    (void)close(e->wake[0]);
    (void)close(e->wake[1]);
    (void)sem_destroy(&e->armed);
    tide_free(e->prompt);
    tide_free(e->above);
    tide_free(e);
    editor = NULL;
}

static int module_close(lua_State *L) {
    if (editor) {
        luaL_unref(L, LUA_REGISTRYINDEX, editor->on_tab);
        line_close(editor);
    }
    return 0;
}

static void use_locale(void) {
    (void)setlocale(LC_CTYPE, "");
    if (MB_CUR_MAX == 1) { /* what is typed is UTF-8 wherever it is not ASCII */
        (void)setlocale(LC_CTYPE, "C.UTF-8");
    }
}

static bool line_start(struct line *e) {
    HistEvent event;
    if (pipe(e->wake) != 0) {
        return false;
    }
    (void)fcntl(e->wake[1], F_SETFL, O_NONBLOCK); /* a signal's handler must not wait */
    (void)sem_init(&e->armed, 0, 0);
    e->el = el_init("tide", stdin, stdout, stderr);
    e->history = history_init();
    if (!e->el || !e->history || pthread_create(&e->watcher, NULL, watch, e) != 0) {
        return false;
    }
    (void)history(e->history, &event, H_SETSIZE, HISTORY_MAX);
    (void)el_set(e->el, EL_PROMPT_ESC, prompt_text, '\1');
    (void)el_set(e->el, EL_GETCFN, next_character);
    (void)el_set(e->el, EL_HIST, history, e->history);
    (void)el_set(e->el, EL_SIGNAL, 0);
    bind_keys(e->el);
    return true;
}

/* line.open(on_tab, bracketed) -> true | nil, err; once at a time in a process */
static int module_open(lua_State *L) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    if (editor) {
        return luaL_error(L, "the line editor is open");
    }
    use_locale();
    struct line *e = tide_alloc_zero(1, sizeof *e);
    if (!e) {
        return tide__lua_failure(L, tide_fail(TIDE_ENOMEM, "out of memory"));
    }
    e->bracketed = lua_toboolean(L, 2);
    atomic_init(&e->watching, false);
    atomic_init(&e->closing, false);
    editor = e;
    if (!line_start(e)) {
        editor = NULL; /* the process aborts: nothing of this is worth untangling */
        return tide__lua_failure(L, tide_fail(TIDE_EIO, "the terminal cannot be used"));
    }
    lua_settop(L, 1);
    e->on_tab = luaL_ref(L, LUA_REGISTRYINDEX);
    atomic_store_explicit(&wake_pipe, e->wake[1], memory_order_relaxed);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    for (size_t i = 0; i < TIDE_COUNT(signals); i++) {
        (void)sigaction(signals[i], &action, &e->before[i]);
    }
    bracket(e, true);
    lua_pushboolean(L, true);
    return 1;
}

static struct line *check_open(lua_State *L) {
    if (!editor) {
        luaL_error(L, "the line editor is not open");
    }
    return editor;
}

/* line.read(prompt[, text]) -> line | false: cancelled by Ctrl-C | nil: the end of the input */
static int module_read(lua_State *L) {
    struct line *e = check_open(L);
    const char *prompt = luaL_checkstring(L, 1), *text = luaL_optstring(L, 2, NULL);
    tide_free(e->prompt);
    e->prompt = tide_strdup(prompt);
    if (!e->prompt) {
        return luaL_error(L, "out of memory");
    }
    e->L = L;
    e->interrupted = false;
    e->reading = true;
    if (text) {
        (void)el_push(e->el, text);
    }
    int count = 0;
    (void)el_set(e->el, EL_PREP_TERM, 1); /* else the prompt shows before keys are the editor's */
    const char *line = el_gets(e->el, &count);
    e->reading = false;
    if (e->interrupted) {
        lua_pushboolean(L, false);
    } else if (!line || count <= 0) {
        lua_pushnil(L);
    } else {
        size_t size = strlen(line);
        size -= size > 0 && line[size - 1] == '\n';
        lua_pushlstring(L, line, size);
    }
    return 1;
}

/* line.remember(text): into the history of this process. */
static int module_remember(lua_State *L) {
    HistEvent event;
    (void)history(check_open(L)->history, &event, H_ENTER, luaL_checkstring(L, 1));
    return 0;
}

/* line.ended_by() -> the signal that asked this process to end | nil */
static int module_ended_by(lua_State *L) {
    int signal = atomic_load_explicit(&ended_by, memory_order_relaxed);
    if (signal == 0) {
        return 0;
    }
    lua_pushinteger(L, signal);
    return 1;
}

/* line.above(text): whole lines; above the line that is being typed, if one is. */
static int module_above(lua_State *L) {
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    struct line *e = editor;
    if (!e || !e->reading) {
        (void)fwrite(text, 1, size, stdout);
        (void)fflush(stdout);
        return 0;
    }
    char *grown = e->above_size + size <= ABOVE_MAX ? tide_realloc(e->above, e->above_size + size) : NULL;
    if (grown) {
        memcpy(grown + e->above_size, text, size);
        e->above = grown;
        e->above_size += size;
        tide_fiber_wake(e->reader);
    }
    return 0;
}

/* ---- single keys, for programs that draw and read no lines ---- */

static struct termios of_terminal;
static bool by_keys;

/* line.keys(on): keys come one by one and are not shown; false: as before. */
static int module_keys(lua_State *L) {
    const bool on = lua_toboolean(L, 1);
    if (on && !by_keys && tcgetattr(STDIN_FILENO, &of_terminal) == 0) {
        struct termios raw = of_terminal;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 1;
        raw.c_cc[VTIME] = 0;
        by_keys = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
    } else if (!on && by_keys) {
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &of_terminal);
        by_keys = false;
    }
    return 0;
}

/* line.key() -> the byte of a key that was pressed | nil: none was. Waits for nothing. */
static int module_key(lua_State *L) {
    char byte;
    if (!by_keys || !readable() || read(STDIN_FILENO, &byte, 1) != 1) {
        return 0;
    }
    lua_pushlstring(L, &byte, 1);
    return 1;
}

int tide__line_open(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"open", module_open},   {"close", module_close},       {"read", module_read},
        {"above", module_above}, {"remember", module_remember}, {"ended_by", module_ended_by},
        {"keys", module_keys},   {"key", module_key},           {NULL, NULL}};
    luaL_newlib(L, functions);
    return 1;
}
