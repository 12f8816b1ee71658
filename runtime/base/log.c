/*
 * Log: one record is one line. Records go to a sink (the node's, a test's, the simulator's ring) or
 * to stderr; the newest are kept in memory for later requests. The clock belongs to the port:
 * the real one hands it in, the simulator leaves it out so that no record carries wall time. Lines
 * are cut at 1,000 bytes and control characters replaced, so that no peer's text forges a second
 * line.
 */
#include "base/base.h"
#include "base/log.h"

#include <stdarg.h>

enum { LINE_MAX_BYTES = 1000 };

static struct tide_lock sink_lock;
/* under sink_lock */
static tide_log_sink sink_function;
static void *sink_arg;
/* any thread, atomic */
static _Atomic int least_level = TIDE_LOG_INFO;
static _Atomic(tide_log_clock) wall_clock;

/* The newest records, by number; an entry is copied in and out whole. */
static struct tide_lock kept_lock;
/* under kept_lock */
static struct tide_log_line kept[TIDE_LOG_KEPT];
static uint64_t kept_count; /* of all that ever were */

static void keep(enum tide_level level, const char *text) {
    tide_log_clock clock = atomic_load_explicit(&wall_clock, memory_order_relaxed);
    struct tide_log_line line = {.wall_ns = clock ? clock() : 0, .level = level};
    (void)snprintf(line.text, sizeof line.text, "%s", text);
    tide_lock(&kept_lock);
    line.number = ++kept_count;
    kept[line.number % TIDE_LOG_KEPT] = line;
    tide_unlock(&kept_lock);
}

size_t tide_log_recent(struct tide_log_line *out, size_t limit) {
    tide_lock(&kept_lock);
    uint64_t newest = kept_count;
    tide_unlock(&kept_lock);
    uint64_t most = limit < TIDE_LOG_KEPT ? limit : TIDE_LOG_KEPT;
    size_t count = 0;
    for (uint64_t number = newest > most ? newest - most + 1 : 1; number <= newest; number++) {
        tide_lock(&kept_lock); /* one at a time: a writer does not wait for all of them */
        bool there = kept[number % TIDE_LOG_KEPT].number == number;
        if (there) {
            out[count] = kept[number % TIDE_LOG_KEPT];
        }
        tide_unlock(&kept_lock);
        count += there;
    }
    return count;
}

void tide_log_set(enum tide_level least, tide_log_sink sink, void *arg) {
    tide_lock(&sink_lock);
    sink_function = sink;
    sink_arg = arg;
    tide_unlock(&sink_lock);
    atomic_store_explicit(&least_level, (int)least, memory_order_relaxed);
}

void tide__log_set_clock(tide_log_clock clock) {
    atomic_store_explicit(&wall_clock, clock, memory_order_relaxed);
}

/* any thread, atomic */
static _Atomic bool as_json;

void tide_log_json(bool on) {
    atomic_store_explicit(&as_json, on, memory_order_relaxed);
}

/* Year, month and day of a day since 1970, after Hinnant, chrono-Compatible Low-Level Date
 * Algorithms. */
static void civil_of(uint64_t days, unsigned *year, unsigned *month, unsigned *day) {
    uint64_t z = days + 719468;
    unsigned era_day = (unsigned)(z % 146097);
    unsigned era_year = (era_day - era_day / 1460 + era_day / 36524 - era_day / 146096) / 365;
    unsigned year_day = era_day - (365 * era_year + era_year / 4 - era_year / 100);
    unsigned shifted = (5 * year_day + 2) / 153;
    *day = year_day - (153 * shifted + 2) / 5 + 1;
    *month = shifted < 10 ? shifted + 3 : shifted - 9;
    *year = (unsigned)(z / 146097 * 400) + era_year + (*month <= 2);
}

/* "YYYY-MM-DD HH:MM:SS.mmm" in UTC, with T for the blank in JSON. */
static void format_time(char *out, size_t size, tide_log_clock clock, char between) {
    uint64_t ms = clock() / 1000000;
    unsigned second = (unsigned)(ms / 1000 % 86400), year, month, day;
    civil_of(ms / 86400000, &year, &month, &day);
    snprintf(out, size, "%04u-%02u-%02u%c%02u:%02u:%02u.%03u", year, month, day, between, second / 3600,
             second / 60 % 60, second % 60, (unsigned)(ms % 1000));
}

/* Bytes that are no part of valid UTF-8 become '?': a JSON text holds none. */
static size_t utf8_size(const unsigned char *c) {
    size_t size = c[0] < 0x80                   ? 1
                  : c[0] >= 0xc2 && c[0] < 0xe0 ? 2
                  : (c[0] & 0xf0) == 0xe0       ? 3
                  : c[0] >= 0xf0 && c[0] < 0xf5 ? 4
                                                : 0;
    for (size_t i = 1; i < size; i++) {
        if ((c[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (size == 3 && c[0] == 0xe0 && c[1] < 0xa0) || (size == 4 && c[0] == 0xf0 && c[1] < 0x90);
    bool beyond = (size == 3 && c[0] == 0xed && c[1] >= 0xa0) || (size == 4 && c[0] == 0xf4 && c[1] >= 0x90);
    return overlong || beyond ? 0 : size;
}

static void json_text(char *out, size_t size, const char *text) {
    size_t at = 0;
    const unsigned char *c = (const unsigned char *)text;
    while (*c != '\0' && at + 6 < size) {
        size_t n = utf8_size(c);
        if (*c == '"' || *c == '\\') {
            out[at++] = '\\';
        }
        if (n == 0) {
            out[at++] = '?';
            c++;
        }
        for (size_t i = 0; i < n; i++) {
            out[at++] = (char)*c++;
        }
    }
    out[at] = '\0';
}

static void to_stderr(enum tide_level level, const char *node, const char *text) {
    static const char *const names[] = {"debug", "info", "warn", "error"};
    bool json = atomic_load_explicit(&as_json, memory_order_relaxed);
    char when[64] = "";
    tide_log_clock clock = atomic_load_explicit(&wall_clock, memory_order_relaxed);
    if (clock) {
        format_time(when, sizeof when, clock, json ? 'T' : ' ');
    }
    /* One call of stdio a line: it locks the stream, so that lines of several threads do not
     * mix. */
    if (json) {
        char escaped[2 * LINE_MAX_BYTES], who[256] = "";
        json_text(escaped, sizeof escaped, text);
        json_text(who, sizeof who, node ? node : "");
        fprintf(stderr, "{\"time\":\"%s%s\",\"level\":\"%s\",\"node\":\"%s\",\"text\":\"%s\"}\n", when,
                clock ? "Z" : "", names[level], who, escaped);
        return;
    }
    fprintf(stderr, "%s%s%-5s %s%s%s\n", when, clock ? " " : "", names[level], node ? node : "", node ? ": " : "",
            text);
}

void tide_log(enum tide_level level, const char *node, const char *format, ...) {
    TIDE_ASSERT(level >= TIDE_LOG_DEBUG && level <= TIDE_LOG_ERROR);
    if ((int)level < atomic_load_explicit(&least_level, memory_order_relaxed)) {
        return;
    }
    char text[LINE_MAX_BYTES];
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(text, sizeof text, format, arguments) < 0) {
        text[0] = '\0';
    }
    va_end(arguments);
    for (char *c = text; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 127) {
            *c = *c == '\n' || *c == '\t' ? ' ' : '?';
        }
    }
    keep(level, text);
    tide_lock(&sink_lock);
    tide_log_sink sink = sink_function;
    void *arg = sink_arg;
    tide_unlock(&sink_lock);
    if (sink) {
        sink(arg, level, node, text);
    } else {
        to_stderr(level, node, text);
    }
}
