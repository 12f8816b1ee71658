/*
 * The net room: connections between nodes (link.c) and the members of the cluster (members.c).
 * Everything here runs on I/O thread 0 unless marked "any thread".
 *
 * One connection per pair of nodes (the higher id dials the lower; a joiner dials the address it was given). It carries
 * a session (session.c), which lasts as long as both incarnations and survives the connection: the dialler redials, and
 * what was in flight arrives once and in order. The end of a session is the peer's death for every layer above.
 */
#ifndef TIDE_NET_H
#define TIDE_NET_H

#include "actor/actor.h"
#include "base/budget.h"
#include "control/control.h"

#define TIDE_MILLISECOND UINT64_C(1000000)

struct tide_net;

enum tide_member_state { TIDE_MEMBER_JOINING, TIDE_MEMBER_UP, TIDE_MEMBER_LEAVING, TIDE_MEMBER_LEFT, TIDE_MEMBER_DEAD };

struct tide_member {
    uint64_t incarnation; /* drawn at start, never reused */
    uint16_t id;          /* 1..; given by the controller, never reused in a cluster's life; clients: 0x8000 and up */
    uint8_t state;        /* enum tide_member_state */
    bool store;           /* may be home of slots */
    uint16_t workers;     /* compute threads */
    int32_t pid;
    char name[64];
    char endpoint[160];
    char reason[120]; /* LEFT, DEAD: why */
};

#define TIDE_SILENCE_MAX (3600 * TIDE_SECOND)

struct tide_net_options {
    const char *cluster, *name, *listen, *join;
    const char *state; /* directory of a controller's decisions, from which it can be started again, or of the logs of
                          several, of joiners too that may hold one; NULL: none */
    unsigned controllers; /* first node: so many members hold them, 3 or 5, and another one takes over; 0: no */
    const char *keys;     /* directory of a credential (keys.h); NULL: none, and this machine only */
    uint64_t silence;     /* as tide_node_options */
    uint16_t workers;
    bool store, client;
    uint8_t right; /* client: that it asks for */
};
/* Creates the listener and the members actor (TIDE_ID_MEMBERS), sets the system's route. Before the threads serve
 * others; errors as tide_node_create. The controller (join NULL) is UP with id 1 at once. When it fails after the
 * listener was tried, *out is set all the same: tide_net_destroy it after tide_system_stop. */
int tide_net_create(struct tide_system *system, const struct tide_net_options *options, struct tide_net **out);
/* Starts dialling; tide_net_state has the progress. No-op on a controller. */
int tide_net_join(struct tide_net *net);
/* Controller that keeps its decisions in memory, I/O thread 0: from now on so many members, 3 or 5, hold them, and one
 * of the others leads once they do. EUNSUPPORTED: no plugin. */
int tide_net_replicate(struct tide_net *net, unsigned controllers);
/* State of this node itself; reason: text of a failed join. Any thread. */
int tide_net_state(struct tide_net *net, int *code, char *reason, size_t capacity);
/* Asks the controller to take this node out in order (members see LEAVING; the store moves its slots away; then LEFT).
 * Any thread; poll tide_net_state for TIDE_MEMBER_LEFT. On a controller: orders all members to end and drops links; one
 * with a state directory only goes: the others wait for it to be started again; one of several hands over first, and
 * leaves as a member. */
void tide_net_leave(struct tide_net *net);
/* This node cannot be a member: its program ends, with the reason. I/O thread 0. */
void tide_net_fail(struct tide_net *net, int code, const char *reason);
/* These members are about to end, with the cluster that they made: one that ends, in whatever way, has left, and
 * its rows have no successor. Sent to the controller, if it is not this node; best effort. I/O thread 0. */
void tide_net_ends(struct tide_net *net, const uint16_t *ids, size_t count);
/* Controller, I/O thread 0: was that said of this member? */
bool tide_net_is_to_end(struct tide_net *net, uint16_t id);
/* After tide_system_stop, while the store is there: waiters for a decision learn that there is none. */
void tide_net_close(struct tide_net *net);
void tide_net_destroy(struct tide_net *net); /* after tide_system_stop */

/* Simulated, between two events: reports queues with work, credit and no sender (base/watch.h). */
void tide__net_watch(struct tide_net *net);

struct tide_net *tide_net_of(struct tide_node *node);
const char *tide_net_endpoint(const struct tide_net *net);
const char *tide_net_cluster(const struct tide_net *net);
uint16_t tide_net_self(const struct tide_net *net); /* own id, 0 until given; any thread */
/* Client: how many of its sessions with members have ended. What was asked before the last one may have no answer, or
 * one of an earlier view. Any thread. */
unsigned tide_net_sessions_lost(const struct tide_net *net);
/* Directory of this node's credential, as it was named; NULL: it has none. Any thread. */
const char *tide_net_keys(const struct tide_net *net);
/* enum tide_right: a client's, as it was granted. Any thread. */
unsigned tide_net_right(const struct tide_net *net);
/* From now on nodes are granted so many ns without a sign of life; nodes that join learn it. EINVAL: over an hour. Any
 * thread. */
int tide_net_grant_silence(struct tide_net *net, uint64_t silence);
uint16_t tide_net_controller(const struct tide_net *net); /* id; 0: not known at the moment; any thread */
/* May the controller go and be started again? Then requests to it wait. Any thread. */
bool tide_net_durable(const struct tide_net *net);
/* Is this node the controller, and have the others been notified? I/O thread 0. */
bool tide_net_controls(const struct tide_net *net);
/* Of the controller that this node obeys; rises with every other one. I/O thread 0. */
uint64_t tide_net_term(const struct tide_net *net);
/* Controller, I/O thread 0: what it has recorded, and how it records more (control.h) before it announces it. When
 * that fails the controller ends, and `done` hears a code. */
const struct tide_control_state *tide_net_recorded(const struct tide_net *net);
void tide_net_record(struct tide_net *net, const struct tide_control_put *puts, size_t count, tide_control_done done,
                     void *arg);
/* Copies up to `limit` members (the dead and left too, ordered by id); returns how many there are. Any thread. */
size_t tide_net_members(struct tide_net *net, struct tide_member *out, size_t limit, uint64_t *view);
/* Copies up to `limit` members, by id, whose state the caller does not know: known[id] is 1 + its state, or 0. Returns
 * how many it copied. Any thread. */
size_t tide_net_news(struct tide_net *net, const uint8_t *known, struct tide_member *out, size_t limit);
/* The living member of this name. Any thread. */
bool tide_net_find(struct tide_net *net, const char *name, uint16_t *id);
/* Member by id; false if never seen. Any thread. */
bool tide_net_member(struct tide_net *net, uint16_t id, struct tide_member *out);
/* "n3 (7)", for people; the number alone if this node does not know it. Names are used again, numbers are not. */
void tide_net_name(struct tide_net *net, uint16_t id, char out[96]);

/* Called on I/O thread 0, first for every member that is there already, then for every change of a member's state, this
 * node's own included, in view order. */
struct tide_member_watch {
    struct tide_member_watch *next;
    void (*changed)(void *arg, const struct tide_member *member);
    void *arg;
};
void tide_net_watch(struct tide_net *net, struct tide_member_watch *watch); /* any thread */
/* Controller: the store has moved everything off a LEAVING member; it becomes LEFT. */
void tide_net_evacuated(struct tide_net *net, uint16_t id);
/* Watchers that need time to evacuate announce themselves; without any, LEAVING becomes LEFT at once. */
void tide_net_expect_evacuation(struct tide_net *net);

struct tide_link_info {
    uint16_t peer;
    bool up;
    uint64_t bytes_out, bytes_in, frames_out, frames_in, writes; /* writes: system calls */
    uint64_t queue_bytes;
    uint64_t credit_used[TIDE_LANE_COUNT];
    uint64_t round_trip_ns; /* of the last heartbeat */
};
size_t tide_net_links(struct tide_net *net, struct tide_link_info *out, size_t limit); /* any thread */
/* Bytes of a lane that has credit that a node has consumed, as it acknowledged, and that are in flight to it. False: it
 * was never connected. Any thread. */
bool tide_net_flow(const struct tide_net *net, uint16_t id, enum tide_lane lane, uint64_t *consumed,
                   uint64_t *under_way);

/* What a node with a memory cap says of it to its peers, with the credit it returns. `grant`: so many bytes may each of
 * them have in flight to it, over all lanes; UINT64_MAX: it has no cap, and the lanes' windows are all there is. */
struct tide_memory_report {
    uint64_t used, cap, grant;
    enum tide_tier tier;
};
/* This node's own; its peers are notified of changes. I/O thread 0. */
void tide_net_report_memory(struct tide_net *net, const struct tide_memory_report *report);
/* EBUSY, with the time after which it is worth another try: "WHO uses .. of its .. of memory: WHY".
 */
int tide_net_memory_refuse(const char *who, const struct tide_memory_report *report, const char *why);
/* The last word of a node, this one's own included. Any thread. */
void tide_net_memory(const struct tide_net *net, uint16_t id, struct tide_memory_report *out);
/* Called on I/O thread 0 with the id of a node whose memory report changed. One may be set; what was reported before is
 * in tide_net_memory. */
void tide_net_watch_memory(struct tide_net *net, void (*changed)(void *arg, uint16_t id), void *arg);
/* Bytes of messages that wait to be written, to be acknowledged, or for their other fragments. I/O thread 0. */
uint64_t tide_net_queued(const struct tide_net *net);
/* Share of a window that a grant leaves; one message goes whatever is left. */
uint64_t tide_net_scaled(uint64_t window, uint64_t grant);

/* Decoder of the handshake alone, for the fuzzer: body of a hello frame, bounded, no side effects. */
struct tide_hello {
    uint32_t version;
    char cluster[64], name[64], to[64];
    uint64_t incarnation, to_incarnation; /* the latter 0: any incarnation of that name */
    uint16_t id, workers;
    bool store, client;
    int32_t pid;
    char endpoint[160];
    uint64_t session, received; /* to resume and its last frame that came; 0: a new one */
    uint64_t attempt;           /* of this node to reach the other, counted up: a late one is ignored */
    uint64_t term;              /* of a controller; 0: none */
    uint8_t right;              /* enum tide_right that a client asks for, at most; of members NODE */
};
int tide_hello_parse(const void *body, size_t size, struct tide_hello *out);

#endif
