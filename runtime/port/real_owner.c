/*
 * Whose process is at the other end of a loopback connection? The kernel answers: by one request of
 * sock_diag with the four-tuple of that end, or by its line in /proc/net/tcp where sock_diag is not
 * to be had. Neither needs a privilege.
 *
 * A socket that no process holds any more is reported with user 0 and no inode: that is no answer. Nor
 * is a connection that its listener has not accepted yet; it belongs to the listener.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* SOCK_CLOEXEC */
#endif
#include "port/real.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_BYTES = 4096, ANSWER_MS = 200 };

/* One end of a connection, as the kernel writes it. */
struct end {
    uint16_t port; /* network order, as the address */
    uint32_t address[4];
};

static void end_of(const struct sockaddr_storage *address, struct end *out) {
    memset(out, 0, sizeof *out);
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *a = (const struct sockaddr_in *)address;
        out->port = a->sin_port;
        memcpy(out->address, &a->sin_addr, sizeof a->sin_addr);
    } else {
        const struct sockaddr_in6 *a = (const struct sockaddr_in6 *)address;
        out->port = a->sin6_port;
        memcpy(out->address, &a->sin6_addr, sizeof a->sin6_addr);
    }
}

/* 1: *uid is the owner; 0: no process holds such a socket; negative: it cannot be asked. */
static int ask_diag(int family, const struct end *near, const struct end *far, uint32_t *uid) {
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 body;
    } question = {
        .head = {.nlmsg_len = sizeof question, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
        .body = {.sdiag_family = (uint8_t)family,
                 .sdiag_protocol = IPPROTO_TCP,
                 .idiag_states = UINT32_MAX,
                 .id = {.idiag_sport = near->port,
                        .idiag_dport = far->port,
                        .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}}};
    memcpy(question.body.id.idiag_src, near->address, sizeof near->address);
    memcpy(question.body.id.idiag_dst, far->address, sizeof far->address);
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd < 0) {
        return -errno;
    }
    union {
        struct nlmsghdr head;
        char bytes[ANSWER_BYTES];
    } answer;
    const struct timeval patience = {.tv_usec = ANSWER_MS * 1000};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    int result = -EIO;
    ssize_t n = send(fd, &question, sizeof question, 0);
    n = n < 0 ? n : recv(fd, &answer, sizeof answer, 0);
    if (n < (ssize_t)sizeof answer.head || answer.head.nlmsg_len > (size_t)n) {
        result = n < 0 ? -errno : -EIO;
    } else if (answer.head.nlmsg_type == NLMSG_ERROR) {
        const struct nlmsgerr *error = NLMSG_DATA(&answer.head);
        result = error->error; /* ENOENT: no such socket, or no module that could answer */
    } else if (answer.head.nlmsg_len >= NLMSG_LENGTH(sizeof(struct inet_diag_msg))) {
        const struct inet_diag_msg *found = NLMSG_DATA(&answer.head);
        *uid = found->idiag_uid;
        result = found->idiag_inode != 0;
    }
    close(fd);
    return result;
}

/* The same of the table that the kernel prints: addresses are words of this machine's order. */
static int look_up(int family, const struct end *near, const struct end *far, uint32_t *uid) {
    const size_t words = family == AF_INET ? 1 : 4;
    char name[2][48], line[512];
    const struct end *ends[] = {near, far};
    for (size_t i = 0; i < 2; i++) {
        size_t at = 0;
        for (size_t w = 0; w < words; w++) {
            at += (size_t)snprintf(name[i] + at, sizeof name[i] - at, "%08X", ends[i]->address[w]);
        }
        (void)snprintf(name[i] + at, sizeof name[i] - at, ":%04X", (unsigned)ntohs(ends[i]->port));
    }
    FILE *table = fopen(family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6", "re");
    if (!table) {
        return -errno;
    }
    int result = 0;
    while (result == 0 && fgets(line, sizeof line, table)) {
        char ours[64], theirs[64];
        unsigned owner;
        unsigned long inode;
        if (sscanf(line, " %*[^:]: %63s %63s %*s %*s %*s %*s %u %*s %lu", ours, theirs, &owner, &inode) == 4 &&
            strcmp(ours, name[0]) == 0 && strcmp(theirs, name[1]) == 0) {
            *uid = owner;
            result = inode != 0;
        }
    }
    (void)fclose(table);
    return result;
}

static bool owner_of(int family, const struct end *near, const struct end *far, uint32_t *uid) {
    const int told = ask_diag(family, near, far, uid);
    return told >= 0 ? told == 1 : look_up(family, near, far, uid) == 1;
}

bool tide__real_owner(const struct sockaddr_storage *theirs, const struct sockaddr_storage *ours, bool listens,
                      uint32_t *uid) {
    struct end near, far;
    end_of(theirs, &near);
    end_of(ours, &far);
    if (owner_of(theirs->ss_family, &near, &far, uid)) {
        return true;
    }
    memset(&far, 0, sizeof far);
    return listens && owner_of(theirs->ss_family, &near, &far, uid);
}
