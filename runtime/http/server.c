/*
 * Connections and answers. libmicrohttpd runs one thread; it calls `handle` for each request, first with its head, then
 * with pieces of its body, then without, and here that thread meets the program's under one lock.
 *
 * A request for the program suspends its connection until it is answered. Heads that do not come to an end are cut off
 * by `sweep`: the library's own time-out begins anew with every byte.
 */
#include "inside.h"
#include "tide.h"

#include "base/base.h"
#include "port/real.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { WRONG_TOKENS = 5, WRONG_DELAY_MS = 1000, WRONG_DELAY_MAX_MS = 60000, BODY_MS = 10000, POOL_BYTES = 32768 };

static const char json_type[] = "application/json", text_type[] = "text/plain; charset=utf-8";

/* Scripts and styles of this server alone, and no page around this one. */
static const char *const security[][2] = {
    {"Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "
                                "'self'; frame-ancestors 'none'; "
                                "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cache-Control", "no-store"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
};

uint64_t tide__http_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- answers ---- */

static struct MHD_Response *respond(const void *data, size_t size, const char *type) {
    union {
        const void *in;
        void *out;
    } cast = {.in = data}; /* it is copied */
    struct MHD_Response *response = MHD_create_response_from_buffer(size, cast.out, MHD_RESPMEM_MUST_COPY);
    if (response) {
        MHD_add_response_header(response, "Content-Type", type);
        for (size_t i = 0; i < sizeof security / sizeof security[0]; i++) {
            MHD_add_response_header(response, security[i][0], security[i][1]);
        }
    }
    return response;
}

static enum MHD_Result deliver(struct MHD_Connection *connection, unsigned status, struct MHD_Response *response) {
    if (!response) {
        return MHD_NO;
    }
    enum MHD_Result done = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return done;
}

static void add_retry(struct MHD_Response *response, unsigned wait_s) {
    char text[16];
    (void)snprintf(text, sizeof text, "%u", wait_s);
    if (wait_s > 0) {
        MHD_add_response_header(response, "Retry-After", text);
    }
}

/* A refusal ends the connection: what follows it on the wire may be anything. */
static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status, const char *why, unsigned wait_s) {
    char text[256];
    int size = snprintf(text, sizeof text, "{\"error\":\"%s\"}\n", why);
    struct MHD_Response *response = respond(text, (size_t)size, json_type);
    if (response) {
        MHD_add_response_header(response, "Connection", "close");
        if (status == 405) {
            MHD_add_response_header(response, "Allow", "GET, HEAD, POST");
        }
        if (status == 401) {
            MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
        }
        add_retry(response, wait_s);
    }
    return deliver(connection, status, response);
}

/* ---- the head ---- */

struct listing {
    struct tide_http_header items[TIDE_HTTP_HEADERS_MAX + 1];
    size_t count;
};

static enum MHD_Result collect(void *arg, enum MHD_ValueKind kind, const char *name, size_t name_size,
                               const char *value, size_t value_size) {
    struct listing *all = arg;
    (void)kind;
    if (all->count <= TIDE_HTTP_HEADERS_MAX) { /* one more than there may be: the guard sees it */
        all->items[all->count++] = (struct tide_http_header){
            .name = name, .name_size = name_size, .value = value ? value : "", .value_size = value ? value_size : 0};
    }
    return MHD_YES;
}

/* Wrong tokens: five a second are answered at once; then the delay doubles. The right one is always let in. Under the
 * lock. */
static unsigned wrong_token(struct tide_http *http) {
    uint64_t now = tide__http_now();
    if (now < http->wrong_until) {
        return (unsigned)((http->wrong_until - now + 999) / 1000);
    }
    if (now - http->wrong_since > 1000) {
        if (now - http->wrong_since > 2 * WRONG_DELAY_MAX_MS) {
            http->wrong_delay = 0;
        }
        http->wrong_since = now;
        http->wrong = 0;
    }
    if (++http->wrong <= WRONG_TOKENS) {
        return 0;
    }
    http->wrong_delay = http->wrong_delay == 0 ? WRONG_DELAY_MS : 2 * http->wrong_delay;
    if (http->wrong_delay > WRONG_DELAY_MAX_MS) {
        http->wrong_delay = WRONG_DELAY_MAX_MS;
    }
    http->wrong_until = now + http->wrong_delay;
    return (unsigned)(http->wrong_delay / 1000);
}

int tide__http_judge(struct tide_http *http, struct MHD_Connection *connection, const struct tide_http_head *request,
                     struct tide_http_person *who, const char **why) {
    struct listing all = {.count = 0};
    struct tide_http_head head = *request;
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, collect, &all);
    head.headers = all.items;
    head.header_count = all.count;
    struct tide_http_person certificate;
    const bool known = tide__http_certificate(http, connection, &certificate);
    const struct tide_http_rules rules = {.host = http->host,
                                          .host_name = http->host_name,
                                          .served_as = http->served_as[0] ? http->served_as : NULL,
                                          .secure = http->secure,
                                          .tokens = http->tokens,
                                          .token_count = http->token_count,
                                          .now = (int64_t)time(NULL),
                                          .certificate = known ? &certificate : NULL,
                                          .open = http->open};
    return tide_http_guard(&rules, &head, who, why);
}

static int judge(struct tide_http *http, struct MHD_Connection *connection, struct request *r, const char *method,
                 const char *version, const char **why, unsigned *wait_s) {
    const struct tide_http_head head = {
        .method = method, .target = r->target, .target_size = r->target_size, .version = version};
    pthread_mutex_lock(&http->lock);
    int status = tide__http_judge(http, connection, &head, &r->person, why);
    *wait_s = status == 401 ? wrong_token(http) : 0;
    pthread_mutex_unlock(&http->lock);
    if (*wait_s > 0) {
        *why = "too many wrong tokens";
        status = 429;
    }
    return status;
}

/* ---- what is asked for ---- */

static bool is_path(const struct request *r, const char *path) {
    size_t size = tide_http_path(r->target, r->target_size);
    return strlen(path) == size && memcmp(path, r->target, size) == 0;
}

static enum MHD_Result answer_page(struct tide_http *http, struct MHD_Connection *connection, const struct request *r,
                                   bool *found) {
    struct MHD_Response *response = NULL; /* until the server is closed */
    pthread_mutex_lock(&http->lock);
    for (size_t i = 0; i < http->page_count && !response; i++) {
        response = is_path(r, http->pages[i].path) ? http->pages[i].response : NULL;
    }
    pthread_mutex_unlock(&http->lock);
    *found = response != NULL;
    return response ? MHD_queue_response(connection, 200, response) : MHD_NO;
}

static enum MHD_Result answer_stream(struct tide_http *http, struct MHD_Connection *connection,
                                     const struct request *r) {
    char text[24];
    uint64_t after = 0;
    long size = tide_http_query(r->target, r->target_size, "after", text, sizeof text);
    for (long i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9' || size > 15) {
            size = -2;
            break;
        }
        after = after * 10 + (uint64_t)(text[i] - '0');
    }
    if (size == -2 || size == 0) {
        return refuse(connection, 400, "after requires a number", 0);
    }
    pthread_mutex_lock(&http->lock);
    struct MHD_Response *response = http->closing ? NULL : tide__http_stream(http, connection, after);
    pthread_mutex_unlock(&http->lock);
    if (!response) {
        return refuse(connection, 503, "too many streams", 1);
    }
    MHD_add_response_header(response, "Content-Type", "text/event-stream");
    for (size_t i = 0; i < sizeof security / sizeof security[0]; i++) {
        MHD_add_response_header(response, security[i][0], security[i][1]);
    }
    return deliver(connection, 200, response);
}

static enum MHD_Result answer_state(struct tide_http *http, struct MHD_Connection *connection) {
    pthread_mutex_lock(&http->lock);
    struct MHD_Response *response =
        http->state ? respond(http->state->text + http->state->data, http->state->data_size, json_type) : NULL;
    pthread_mutex_unlock(&http->lock);
    return response ? deliver(connection, 200, response) : refuse(connection, 503, "nothing was collected yet", 1);
}

/* The program answers: the connection rests until then. */
static enum MHD_Result ask_program(struct tide_http *http, struct MHD_Connection *connection, struct request *r) {
    pthread_mutex_lock(&http->lock);
    bool room = !http->closing && http->waiting_count < TIDE_HTTP_WAITING;
    if (room) {
        r->id = ++http->request_id;
        r->connection = connection;
        r->waits = true;
        r->call = strncmp(r->target, "/api/call/", 10) == 0;
        r->next = NULL;
        *http->waiting_end = r;
        http->waiting_end = &r->next;
        http->waiting_count++;
        MHD_suspend_connection(connection);
        pthread_cond_signal(&http->news);
    }
    pthread_mutex_unlock(&http->lock);
    if (room && r->call && http->call_waits) {
        http->call_waits(http->arg);
    }
    return room ? MHD_YES : refuse(connection, 503, "too many requests wait", 1);
}

static enum MHD_Result route(struct tide_http *http, struct MHD_Connection *connection, struct request *r) {
    bool found, post = strcmp(r->method, "POST") == 0;
    if (r->answer) { /* the program has answered */
        struct MHD_Response *response = r->answer;
        r->answer = NULL;
        return deliver(connection, r->status, response);
    }
    if (!post) {
        enum MHD_Result done = answer_page(http, connection, r, &found);
        if (found) {
            return done;
        }
        if (is_path(r, "/healthz")) {
            return deliver(connection, 200, respond("ok\n", 3, text_type));
        }
        if (is_path(r, "/api/state")) {
            return answer_state(http, connection);
        }
        if (is_path(r, "/api/stream")) {
            return strcmp(r->method, "GET") == 0 ? answer_stream(http, connection, r)
                                                 : refuse(connection, 405, "a stream has no head alone", 0);
        }
    }
    if (strncmp(r->target, "/api/", 5) == 0 || is_path(r, "/metrics")) {
        return ask_program(http, connection, r);
    }
    return refuse(connection, post ? 405 : 404, post ? "nothing takes a POST here" : "there is no such page", 0);
}

/* ---- requests, by callbacks of the library ---- */

static void *begin(void *arg, const char *target, struct MHD_Connection *connection) {
    (void)arg;
    (void)connection;
    struct request *r = tide_alloc_zero(1, sizeof *r);
    size_t size = strlen(target);
    r = r && (r->target = tide_alloc(size + 1)) ? r : (tide_free(r), NULL);
    if (r) {
        memcpy(r->target, target, size + 1);
        r->target_size = size;
    }
    return r;
}

static bool body_more(struct request *r, const char *data, size_t size) {
    if (r->body_size + size > TIDE_HTTP_BODY_MAX) {
        return false;
    }
    char *grown = tide_realloc(r->body, r->body_size + size + 1);
    if (!grown) {
        return false;
    }
    memcpy(grown + r->body_size, data, size);
    r->body = grown;
    r->body_size += size;
    grown[r->body_size] = '\0';
    return true;
}

static struct connection *connection_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static void set_deadline(struct tide_http *http, struct connection *owner, uint64_t deadline) {
    if (owner) {
        pthread_mutex_lock(&http->lock);
        owner->deadline = deadline;
        pthread_mutex_unlock(&http->lock);
    }
}

static void copy_header(struct MHD_Connection *connection, const char *name, char *out, size_t capacity) {
    const char *value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
    (void)snprintf(out, capacity, "%s", value ? value : "");
}

static enum MHD_Result handle(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *size, void **context) {
    struct tide_http *http = arg;
    struct request *r = *context;
    (void)url;
    if (!r) {
        return MHD_NO; /* without memory */
    }
    if (!r->judged) {
        const char *why = "";
        unsigned wait_s;
        r->judged = true;
        r->owner = connection_of(connection);
        (void)snprintf(r->method, sizeof r->method, "%s", method);
        int status = judge(http, connection, r, method, version, &why, &wait_s);
        pthread_mutex_lock(&http->lock);
        http->stats.requests++;
        http->stats.refused += status != 0;
        pthread_mutex_unlock(&http->lock);
        copy_header(connection, "Content-Type", r->type, sizeof r->type);
        copy_header(connection, "Accept", r->accept, sizeof r->accept);
        if (status != 0) {
            set_deadline(http, r->owner, tide__http_now() + TIDE_HTTP_HEAD_MS);
            return refuse(connection, (unsigned)status, why, wait_s);
        }
        set_deadline(http, r->owner, strcmp(method, "POST") == 0 ? tide__http_now() + BODY_MS : UINT64_MAX);
        return MHD_YES;
    }
    if (*size > 0) {
        r->overflow = r->overflow || !body_more(r, data, *size);
        *size = 0;
        return MHD_YES;
    }
    set_deadline(http, r->owner, UINT64_MAX);
    return r->overflow ? refuse(connection, 413, "a body of more than 64 KiB", 0) : route(http, connection, r);
}

static void completed(void *arg, struct MHD_Connection *connection, void **context,
                      enum MHD_RequestTerminationCode code) {
    struct tide_http *http = arg;
    struct request *r = *context;
    (void)connection;
    (void)code;
    if (!r) {
        return;
    }
    pthread_mutex_lock(&http->lock);
    if (r->owner) {
        r->owner->deadline = tide__http_now() + TIDE_HTTP_IDLE_MS;
    }
    if (r->waits) {
        struct request **at = &http->waiting;
        while (*at && *at != r) {
            at = &(*at)->next;
        }
        if (*at) {
            *at = r->next;
            http->waiting_end = *at ? http->waiting_end : at;
            http->waiting_count--;
        }
    }
    pthread_mutex_unlock(&http->lock);
    if (r->answer) {
        MHD_destroy_response(r->answer);
    }
    tide_free(r->body);
    tide_free(r->target);
    tide_free(r);
    *context = NULL;
}

/* ---- connections ---- */

/* Is the process at the other end another user's? If the kernel cannot say, no; of other machines all are. */
static bool is_stranger(const struct tide_http *http, const struct sockaddr *client, socklen_t size) {
    if (http->far) {
        return true;
    }
    struct sockaddr_storage theirs = {0}, ours = {0};
    const struct sockaddr_in here = {
        .sin_family = AF_INET, .sin_port = htons(http->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint32_t uid;
    memcpy(&theirs, client, size < sizeof theirs ? size : sizeof theirs);
    memcpy(&ours, &here, sizeof here);
    return tide__real_owner(&theirs, &ours, false, &uid) && uid != geteuid() && uid != 0;
}

/* Other users of this machine have a part of the places, so that the owner finds one whatever they hold. */
static enum MHD_Result admit(void *arg, const struct sockaddr *client, socklen_t size) {
    struct tide_http *http = arg;
    pthread_mutex_lock(&http->lock);
    http->stranger_comes = is_stranger(http, client, size);
    enum MHD_Result may = http->stranger_comes && http->strangers >= TIDE_HTTP_STRANGERS ? MHD_NO : MHD_YES;
    pthread_mutex_unlock(&http->lock);
    return may;
}

static void connection_changed(void *arg, struct MHD_Connection *connection, void **context,
                               enum MHD_ConnectionNotificationCode code) {
    struct tide_http *http = arg;
    struct connection *own = *context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        own = info ? tide_alloc_zero(1, sizeof *own) : NULL;
        if (!own) {
            return; /* the library's time-out alone ends it */
        }
        own->socket = info->connect_fd;
        own->deadline = tide__http_now() + TIDE_HTTP_HEAD_MS;
        pthread_mutex_lock(&http->lock);
        own->stranger = http->stranger_comes;
        http->strangers += own->stranger;
        own->next = http->connections;
        if (own->next) {
            own->next->previous = own;
        }
        http->connections = own;
        http->stats.connections++;
        pthread_mutex_unlock(&http->lock);
        *context = own;
        return;
    }
    if (own) {
        pthread_mutex_lock(&http->lock);
        *(own->previous ? &own->previous->next : &http->connections) = own->next;
        if (own->next) {
            own->next->previous = own->previous;
        }
        http->stats.connections--;
        http->strangers -= own->stranger;
        pthread_mutex_unlock(&http->lock);
        tide_free(own);
        *context = NULL;
    }
}

/* Closes connections whose request is late. Under the lock: a socket in the list is open. */
static void sweep(struct tide_http *http) {
    uint64_t now = tide__http_now();
    for (struct connection *at = http->connections; at; at = at->next) {
        if (at->deadline < now) {
            (void)shutdown(at->socket, SHUT_RDWR);
            at->deadline = UINT64_MAX;
        }
    }
}

/* ---- the program's side ---- */

static size_t raw(void *arg, struct MHD_Connection *connection, char *text) {
    (void)arg;
    (void)connection;
    return strlen(text); /* escapes stay: the guard reads the target as it was sent */
}

static void silent(void *arg, const char *format, va_list arguments) {
    (void)arg;
    (void)format;
    (void)arguments;
}

/* ---- opening ---- */

/* The numeric address that is listened on: `size` of `out`; 0: it is none. */
static socklen_t address_of(const struct tide_http_options *options, struct sockaddr_storage *out) {
    struct sockaddr_in *four = (struct sockaddr_in *)out;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, options->address ? options->address : "127.0.0.1", &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(options->port);
        return sizeof *four;
    }
    if (inet_pton(AF_INET6, options->address, &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(options->port);
        return sizeof *six;
    }
    return 0;
}

/* What cannot be served, before anything is made. */
static int check_options(const struct tide_http_options *options, char *reason, size_t capacity) {
    struct sockaddr_storage address;
    const bool local =
        !options->address || strncmp(options->address, "127.", 4) == 0 || strcmp(options->address, "::1") == 0;
    if (strlen(options->token) != TIDE_HTTP_TOKEN || address_of(options, &address) == 0) {
        (void)snprintf(reason, capacity, "the token is not of 64 digits, or the address is not numeric");
        return TIDE_EINVAL;
    }
    if (!local && !options->certificate) {
        (void)snprintf(reason, capacity, "an address of other machines is served over TLS alone");
        return TIDE_EPERM;
    }
    if (options->certificate) {
        const int64_t until = tide__http_valid_until(options->certificate);
        const time_t end = (time_t)until;
        struct tm date;
        if (until < 0 || until < (int64_t)time(NULL)) {
            (void)snprintf(reason, capacity, "cert.pem %s", until < 0 ? "is no certificate" : "expired on ");
            const size_t size = strlen(reason);
            if (until >= 0 && gmtime_r(&end, &date)) {
                (void)strftime(reason + size, capacity - size, "%Y-%m-%d", &date);
            }
            return TIDE_EPERM;
        }
    }
    return 0;
}

static struct tide_http *make_server(const struct tide_http_options *options) {
    struct tide_http *http = tide_alloc_zero(1, sizeof *http);
    if (!http) {
        return NULL;
    }
    (void)snprintf(http->tokens[0].digits, sizeof http->tokens[0].digits, "%s", options->token);
    http->tokens[0].person.right = TIDE_RIGHT_ADMIN;
    http->token_count = 1;
    http->secure = options->certificate != NULL;
    http->far = options->address && strncmp(options->address, "127.", 4) != 0 && strcmp(options->address, "::1") != 0;
    (void)snprintf(http->cluster, sizeof http->cluster, "%s",
                   options->authority && options->cluster ? options->cluster : "");
    http->call_waits = options->call_waits;
    http->arg = options->arg;
    http->first = 1;
    http->waiting_end = &http->waiting;
    http->open[0] = "/healthz";
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&http->lock, NULL);
    pthread_cond_init(&http->news, &attributes);
    pthread_condattr_destroy(&attributes);
    return http;
}

static void free_server(struct tide_http *http) {
    pthread_cond_destroy(&http->news);
    pthread_mutex_destroy(&http->lock);
    tide_free(http->revoked);
    memset(http->tokens, 0, sizeof http->tokens);
    tide_free(http);
}

static struct MHD_Daemon *start(struct tide_http *http, const struct tide_http_options *options) {
    struct sockaddr_storage address;
    const bool six = address_of(options, &address) == sizeof(struct sockaddr_in6);
    const unsigned flags = MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                           (six ? MHD_USE_IPv6 : 0) | (http->secure ? MHD_USE_TLS : 0);
    union {
        const char *in;
        void *out;
    } certificate = {.in = options->certificate}, key = {.in = options->key}, authority = {.in = options->authority};
    struct MHD_OptionItem secure[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, certificate.out},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, key.out},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (char[]){"NORMAL:-VERS-ALL:+VERS-TLS1.3"}},
        {http->cluster[0] ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0, authority.out},
        {MHD_OPTION_END, 0, NULL}};
    errno = 0;
    return MHD_start_daemon(flags, options->port, admit, http, handle, http, MHD_OPTION_EXTERNAL_LOGGER, silent, NULL,
                            MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address, MHD_OPTION_STRICT_FOR_CLIENT, 1,
                            MHD_OPTION_CONNECTION_LIMIT, (unsigned)TIDE_HTTP_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
                            (unsigned)TIDE_HTTP_STALLED_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
                            MHD_OPTION_UNESCAPE_CALLBACK, raw, NULL, MHD_OPTION_URI_LOG_CALLBACK, begin, NULL,
                            MHD_OPTION_NOTIFY_COMPLETED, completed, http, MHD_OPTION_NOTIFY_CONNECTION,
                            connection_changed, http, MHD_OPTION_ARRAY, http->secure ? secure : &secure[4],
                            MHD_OPTION_END);
}

static int open_server(const struct tide_http_options *options, struct tide_http **out, char *reason, size_t capacity) {
    int code = check_options(options, reason, capacity);
    struct tide_http *http = code == 0 ? make_server(options) : NULL;
    if (!http) {
        return code != 0 ? code : TIDE_ENOMEM;
    }
    pthread_mutex_lock(&http->lock); /* a connection that arrives before the port is known here waits */
    http->daemon = start(http, options);
    const union MHD_DaemonInfo *info =
        http->daemon ? MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    const char *address = options->address ? options->address : "127.0.0.1";
    if (!info) {
        code = errno == EADDRINUSE ? TIDE_EBUSY : TIDE_EINVAL;
        (void)snprintf(reason, capacity, "%s:%u: %s", address, options->port,
                       errno != 0 ? strerror(errno) : "the server does not start: key.pem does not fit cert.pem?");
        pthread_mutex_unlock(&http->lock);
        free_server(http);
        return code;
    }
    http->port = info->port;
    (void)snprintf(http->host, sizeof http->host, strchr(address, ':') ? "[%s]:%u" : "%s:%u", address, http->port);
    (void)snprintf(http->host_name, sizeof http->host_name, "localhost:%u", http->port);
    (void)snprintf(http->served_as, sizeof http->served_as, "%s", options->served_as ? options->served_as : "");
    pthread_mutex_unlock(&http->lock);
    *out = http;
    return 0;
}

static int set_people(struct tide_http *http, const struct tide_http_token *tokens, size_t count, const char *revoked) {
    const size_t size = revoked ? strlen(revoked) + 1 : 0;
    char *copy = size > 0 ? tide_alloc(size) : NULL;
    if (count > TIDE_HTTP_TOKENS || (size > 0 && !copy)) {
        tide_free(copy);
        return count > TIDE_HTTP_TOKENS ? TIDE_ELIMIT : TIDE_ENOMEM;
    }
    if (copy) {
        memcpy(copy, revoked, size);
    }
    pthread_mutex_lock(&http->lock);
    tide_free(http->revoked);
    http->revoked = copy;
    http->token_count = count + 1;
    memset(&http->tokens[1], 0, TIDE_HTTP_TOKENS * sizeof http->tokens[1]);
    if (count > 0) {
        memcpy(&http->tokens[1], tokens, count * sizeof *tokens);
    }
    pthread_mutex_unlock(&http->lock);
    return 0;
}

static uint16_t port_of(const struct tide_http *http) {
    return http->port;
}

static int add_page(struct tide_http *http, const char *path, const char *type, const void *data, size_t size) {
    struct MHD_Response *response = respond(data, size, type);
    if (!response) {
        return TIDE_ENOMEM;
    }
    pthread_mutex_lock(&http->lock);
    const bool fits = http->page_count < TIDE_HTTP_PAGES && strlen(path) < sizeof http->pages[0].path;
    if (fits) {
        struct page *page = &http->pages[http->page_count];
        (void)snprintf(page->path, sizeof page->path, "%s", path);
        page->response = response;
        http->open[http->page_count + 1] = page->path;
        http->page_count++;
    }
    pthread_mutex_unlock(&http->lock);
    if (!fits) {
        MHD_destroy_response(response);
    }
    return fits ? 0 : TIDE_ELIMIT;
}

static int next_request(struct tide_http *http, unsigned timeout_ms, bool call, struct tide_http_request *out) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + (uint64_t)timeout_ms * 1000000;
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    pthread_mutex_lock(&http->lock);
    sweep(http);
    struct request *r;
    int waited = 0;
    for (;;) {
        r = http->waiting;
        while (r && (r->taken || r->call != call)) {
            r = r->next;
        }
        if (r || waited != 0 || timeout_ms == 0) {
            break;
        }
        waited = pthread_cond_timedwait(&http->news, &http->lock, &until);
    }
    if (r) {
        r->taken = true;
        *out = (struct tide_http_request){.id = r->id,
                                          .method = r->method,
                                          .target = r->target,
                                          .person = r->person,
                                          .type = r->type,
                                          .accept = r->accept,
                                          .body = r->body,
                                          .target_size = r->target_size,
                                          .body_size = r->body_size};
    }
    pthread_mutex_unlock(&http->lock);
    return r != NULL;
}

/* Out of the list, with its answer; the library requests it when the connection continues. Under the lock. */
static void finish(struct tide_http *http, struct request **at, unsigned status, struct MHD_Response *response) {
    struct request *r = *at;
    *at = r->next;
    if (!*at) {
        http->waiting_end = at;
    }
    http->waiting_count--;
    r->waits = false;
    r->status = status;
    r->answer = response;
    MHD_resume_connection(r->connection);
}

static int answer(struct tide_http *http, uint64_t id, unsigned status, const char *type, const void *data, size_t size,
                  unsigned retry_after_s) {
    struct MHD_Response *response = respond(data, size, type);
    if (!response) {
        return TIDE_ENOMEM;
    }
    add_retry(response, retry_after_s);
    pthread_mutex_lock(&http->lock);
    struct request **at = &http->waiting;
    while (*at && (*at)->id != id) {
        at = &(*at)->next;
    }
    bool found = *at;
    if (found) {
        finish(http, at, status, response);
    }
    pthread_mutex_unlock(&http->lock);
    if (!found) {
        MHD_destroy_response(response);
    }
    return found ? 0 : TIDE_ENOENT;
}

static void abandon_calls(struct tide_http *http) {
    static const char text[] =
        "{\"error\":{\"code\":\"T0501\",\"message\":\"no session with the cluster\",\"retry_after_s\":1}}\n";
    pthread_mutex_lock(&http->lock);
    for (struct request **at = &http->waiting; *at;) {
        if ((*at)->call) {
            struct MHD_Response *response = respond(text, sizeof text - 1, json_type);
            if (response) {
                add_retry(response, 1);
            }
            finish(http, at, 503, response);
        } else {
            at = &(*at)->next;
        }
    }
    pthread_mutex_unlock(&http->lock);
}

static void read_stats(struct tide_http *http, struct tide_http_stats *out) {
    pthread_mutex_lock(&http->lock);
    *out = http->stats;
    out->streams = http->stream_count;
    out->ring_bytes = http->ring_bytes;
    pthread_mutex_unlock(&http->lock);
}

/* The library may be stopped only when no connection rests. */
static void close_server(struct tide_http *http) {
    pthread_mutex_lock(&http->lock);
    http->closing = true;
    while (http->waiting) {
        static const char text[] = "{\"error\":\"the dashboard ends\"}\n";
        finish(http, &http->waiting, 503, respond(text, sizeof text - 1, json_type));
    }
    tide__http_wake(http);
    pthread_mutex_unlock(&http->lock);
    MHD_stop_daemon(http->daemon);
    for (size_t i = 0; i < http->page_count; i++) {
        MHD_destroy_response(http->pages[i].response);
    }
    for (size_t i = 0; i < TIDE_HTTP_SAMPLES; i++) {
        tide__http_drop(http->ring[i]);
    }
    tide__http_drop(http->state);
    free_server(http);
}

extern const struct tide_http_plugin tide_http_plugin;
const struct tide_http_plugin tide_http_plugin = {.version = TIDE_VERSION,
                                                  .open = open_server,
                                                  .port = port_of,
                                                  .page = add_page,
                                                  .publish = tide__http_publish,
                                                  .people = set_people,
                                                  .next = next_request,
                                                  .answer = answer,
                                                  .abandon_calls = abandon_calls,
                                                  .stats = read_stats,
                                                  .close = close_server};
