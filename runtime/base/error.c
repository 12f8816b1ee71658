/*
 * Error codes and error slots. A slot holds the code and text of the last failure of one fiber; the
 * scheduler points the thread at the slot of the fiber it runs. A thread that runs no fiber has a
 * slot of its own, so that tide_error_message never returns the text of another thread.
 */
#include "base/base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

enum { OPTIONS_MAX = 64 << 10 }; /* bytes of an option struct */

/* libuv's code for "end of file", the only one of its own numbers that streams meet; the others
 * are -errno. */
enum { LIBUV_EOF = -4095, LIBUV_EAI_FIRST = -3014, LIBUV_EAI_LAST = -3000, ERRNO_LAST = -4095 };

#ifdef TIDE_MUTANTS
const char *tide__mutant;

__attribute__((constructor)) static void mutant_of_environment(void) {
    tide__mutant = getenv("TIDE_MUTANT");
}
#endif

static _Thread_local struct tide_error_slot own_slot;
static _Thread_local struct tide_error_slot *current_slot;

static struct tide_error_slot *slot(void) {
    return current_slot ? current_slot : &own_slot;
}

struct tide_error_slot *tide__error_slot_swap(struct tide_error_slot *next) {
    struct tide_error_slot *previous = current_slot;
    current_slot = next;
    return previous;
}

const char *tide_error_message(void) {
    return slot()->text;
}

uint32_t tide_error_retry_after_ms(void) {
    return slot()->retry_after_ms;
}

/* Formatted aside first: a caller may pass the slot's own text as an argument ("saving: %s"). */
static void set(int code, uint32_t retry_after_ms, const char *format, va_list arguments) {
    struct tide_error_slot *s = slot();
    char text[sizeof s->text];
    if (vsnprintf(text, sizeof text, format, arguments) < 0) {
        text[0] = '\0';
    }
    s->code = code;
    s->retry_after_ms = retry_after_ms;
    for (size_t i = 0; i < sizeof text; i++) {
        s->text[i] = text[i];
        if (text[i] == '\0') {
            break;
        }
    }
}

int tide_fail(int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    set(code, 0, format, arguments);
    va_end(arguments);
    return code;
}

int tide_fail_busy(uint32_t retry_after_ms, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    set(TIDE_EBUSY, retry_after_ms, format, arguments);
    va_end(arguments);
    return TIDE_EBUSY;
}

void tide__assert_failed(const char *expression, const char *file, int line) {
    fprintf(stderr, "tide: assertion failed: %s (%s:%d)\n", expression, file, line);
    fflush(stderr);
    abort();
}

const char *tide_error_name(int code) {
    static const char *const names[] = {
        "EINVAL",   "ENOMEM",   "EBUSY",     "ETIMEDOUT",  "EUNREACHABLE", "EDIED",   "EREFUSED",     "ECANCELED",
        "ENOENT",   "EEXIST",   "EFULL",     "EPROTO",     "ELIMIT",       "ERANGE",  "EIO",          "ENOSPC",
        "EPERM",    "EVERSION", "EMISMATCH", "ENAN",       "EADDRINUSE",   "ECLOSED", "EUNSUPPORTED", "EKILLED",
        "ECRASHED", "ELOST",    "EFENCED",   "ENOREPLICA", "EACCES",       "EMFILE",
    };
    if (code > TIDE_EINVAL || code < TIDE_EMFILE) {
        return code == 0 ? "OK" : "E?";
    }
    return names[TIDE_EINVAL - code];
}

int tide__error_from_errno(int negative_errno) {
    if (negative_errno >= 0 || negative_errno < ERRNO_LAST) {
        return negative_errno; /* success, or already one of ours */
    }
    if (negative_errno == LIBUV_EOF) {
        return TIDE_ECLOSED;
    }
    if (negative_errno >= LIBUV_EAI_FIRST && negative_errno <= LIBUV_EAI_LAST) {
        return TIDE_EUNREACHABLE; /* a name that does not resolve */
    }
    switch (-negative_errno) {
    case ENOMEM:
    case ENOBUFS:
        return TIDE_ENOMEM;
    case EAGAIN:
    case EBUSY:
    case EINTR:
        return TIDE_EBUSY;
    case ETIMEDOUT:
        return TIDE_ETIMEDOUT;
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
        return TIDE_EUNREACHABLE;
    case ECONNRESET:
    case EPIPE:
    case ECONNABORTED:
    case ENOTCONN:
        return TIDE_ECLOSED;
    case EACCES:
    case EPERM:
    case EROFS:
        return TIDE_EACCES;
    case EINVAL:
    case EBADF:
    case EISDIR:
    case ENOTDIR:
    case ENAMETOOLONG:
    case EADDRNOTAVAIL:
        return TIDE_EINVAL;
    case ENOENT:
    case ESRCH:
        return TIDE_ENOENT;
    case EEXIST:
    case ENOTEMPTY:
        return TIDE_EEXIST;
    case ENOSPC:
    case EFBIG: /* a file over the size this process, or the file system, may write */
    case EDQUOT:
        return TIDE_ENOSPC;
    case EMFILE:
    case ENFILE:
        return TIDE_EMFILE;
    case EMSGSIZE:
    case E2BIG:
    case ELOOP:
        return TIDE_ELIMIT;
    case ERANGE:
    case EOVERFLOW:
        return TIDE_ERANGE;
    case EADDRINUSE:
        return TIDE_EADDRINUSE;
    case ECANCELED:
        return TIDE_ECANCELED;
    case ENOSYS:
    case EOPNOTSUPP:
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT:
        return TIDE_EUNSUPPORTED;
    case EPROTO:
        return TIDE_EPROTO;
    default:
        return TIDE_EIO;
    }
}

int tide__layout_read(const char *what, const void *given, size_t first, void *out, size_t own) {
    size_t size;
    memcpy(&size, given, sizeof size);
    size = size == 0 ? first : size;
    if (size < first || size > OPTIONS_MAX) {
        return tide_fail(TIDE_EINVAL, "%s options: %zu is no size of them; set it by TIDE_..._OPTIONS_INIT", what,
                         size);
    }
    for (size_t i = own; i < size; i++) {
        if (((const unsigned char *)given)[i] != 0) {
            return tide_fail(
                TIDE_EVERSION,
                "%s options: this library is %s and has no option at byte %zu: it is older than the program", what,
                TIDE_VERSION, i);
        }
    }
    memset(out, 0, own);
    memcpy(out, given, size < own ? size : own);
    memcpy(out, &own, sizeof own);
    return 0;
}
