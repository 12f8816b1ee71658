#include "base/watch.h"
#include "base/base.h"

#include <stdarg.h>
#include <stdlib.h>

bool tide__watch_on;
static tide_watch_verdict tell;
static void *tell_arg;

void tide__watch_set(bool on, tide_watch_verdict verdict, void *arg) {
    tide__watch_on = on;
    tell = verdict;
    tell_arg = arg;
}

void tide__watch_found(const char *checker, const char *format, ...) {
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!tell) {
        tide__assert_failed(text, checker, 0);
    }
    tell(tell_arg, checker, text);
}

static _Thread_local const struct tide_serving *thread_serving;

const struct tide_serving *tide__watch_thread(const struct tide_serving *serving) {
    const struct tide_serving *before = thread_serving;
    thread_serving = serving;
    return before;
}

void tide__watch_aside(void (*work)(void *arg), void *arg) {
    const struct tide_serving *serving = tide__watch_thread(NULL);
    work(arg);
    thread_serving = serving;
}

bool tide__watch_serves(void) {
    return thread_serving && !thread_serving->files;
}

void tide__watch_blocks(const char *call, const char *path) {
    if (!thread_serving || (thread_serving->files && strcmp(call, "sync") != 0)) {
        return;
    }
    const char *serves = thread_serving->whom;
    if (TIDE_WATCHED) {
        tide__watch_found("blocks", "%s%s%s on a thread that serves %s", call, path ? " " : "", path ? path : "",
                          serves);
        return;
    }
#ifndef NDEBUG
    static atomic_flag told = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&told)) {
        tide_log(TIDE_LOG_WARN, NULL, "%s%s%s blocks a thread that serves %s", call, path ? " " : "", path ? path : "",
                 serves);
    }
#endif
}

/* The linker's, around the section that TIDE_SOMETIMES fills. */
extern struct tide_sometimes *__start_tide_sometimes[] __attribute__((weak, visibility("hidden")));
extern struct tide_sometimes *__stop_tide_sometimes[] __attribute__((weak, visibility("hidden")));

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct tide_sometimes *)a)->name, ((const struct tide_sometimes *)b)->name);
}

size_t tide__sometimes_list(struct tide_sometimes *out, size_t limit) {
    size_t count = 0;
    for (struct tide_sometimes **at = __start_tide_sometimes; at < __stop_tide_sometimes; at++) {
        size_t i = 0;
        while (i < count && strcmp(out[i].name, (*at)->name) != 0) {
            i++;
        }
        if (i == limit) {
            break;
        }
        out[i] = (struct tide_sometimes){(*at)->name, (i < count ? out[i].count : 0) + (*at)->count};
        count += i == count;
    }
    if (count > 1) {
        qsort(out, count, sizeof *out, by_name);
    }
    return count;
}
