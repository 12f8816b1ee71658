/*
 * Sockets, threads and clocks of the simulator under the names that the client library uses (runtime/client), which is
 * compiled a second time with this header before each file. A "thread" is a fiber of a simulated host, a descriptor a
 * stream of its port. What blocks looks again and again, after 0.1 to 5 ms.
 */
#ifndef TIDE_SWARM_POSIX_H
#define TIDE_SWARM_POSIX_H

#include "port/real.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct tide_client_options;

/* A machine without a node: an actor system whose fibers are the host's threads. */
struct posix_host;
struct posix_host *posix_host_create(struct tide_sim *sim, const char *name);
int posix_host_spawn(struct posix_host *host, int (*run)(void *state), void *state);
void posix_host_destroy(struct posix_host *host); /* as a crash would */
uint64_t posix_host_now(const struct posix_host *host);

int posix_socket(int domain, int type, int protocol);
int posix_connect(int fd, const struct sockaddr *address, socklen_t size);
ssize_t posix_send(int fd, const void *data, size_t size, int flags);
ssize_t posix_recv(int fd, void *data, size_t size, int flags);
int posix_close(int fd);
int posix_eventfd(unsigned value, int flags);
ssize_t posix_read(int fd, void *data, size_t size);
ssize_t posix_write(int fd, const void *data, size_t size);
int posix_poll(struct pollfd *polls, nfds_t count, int timeout_ms);
int posix_ppoll(struct pollfd *polls, nfds_t count, const struct timespec *timeout, const sigset_t *signals);
int posix_getsockopt(int fd, int level, int name, void *value, socklen_t *size);
int posix_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
int posix_getpeername(int fd, struct sockaddr *address, socklen_t *size);
int posix_clock_gettime(clockid_t clock, struct timespec *out);
pid_t posix_getpid(void);
int posix_thread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg);
int posix_thread_join(pthread_t thread, void **result);
int posix_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock, const struct timespec *until);
int posix_cond_signal(pthread_cond_t *condition);
int posix_address_parse(const char *endpoint, struct tide_real_address *out);
int posix_port_create(uint64_t seed, struct tide_port **out);

#ifdef TIDE_SWARM_CLIENT
#define socket posix_socket
#define connect posix_connect
#define send posix_send
#define recv posix_recv
#define close posix_close
#define eventfd posix_eventfd
#define read posix_read
#define write posix_write
#define poll posix_poll
#define ppoll posix_ppoll
#define getsockopt posix_getsockopt
#define setsockopt posix_setsockopt
#define getpeername posix_getpeername
#define clock_gettime posix_clock_gettime
#define getpid posix_getpid
#define pthread_create posix_thread_create
#define pthread_join posix_thread_join
#define pthread_cond_timedwait posix_cond_timedwait
#define pthread_cond_signal posix_cond_signal
#define tide__real_address_parse posix_address_parse
#define tide__real_address_release(address) ((void)(address))
#define tide_port_real_create posix_port_create
#endif
#endif
