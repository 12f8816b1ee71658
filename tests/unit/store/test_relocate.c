/*
 * The protocol core of relocation (store/adaptive/relocate.h) and of location caches (store/adaptive/location_cache.h) under random interleavings: four nodes, one
 * key, asynchronous workers, one FIFO lane per pair of nodes. The tiny node around the core does
 * what owner.c does. Each planted bug must be caught.
 *
 * `astray`: wishes may go by a former home that dies. It has passed them on, or not; who wished asks again,
 * or gives up. Each worker has one operation: in which order they run when a row comes that was given up
 * is not promised. The trail of the home (relocate_outbox.c) says whether it has heard a wish before.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/adaptive/location_cache.h"
#include "store/adaptive/owner.h"

#include <stdio.h>

enum { NODES = 4, OPS = 6, LOCALIZES = 3, INTENTS = 2, LANE = 128, QUEUE = 64, HOPS = 8, SEEDS = 20000 };

enum bug {
    NO_BUG,
    RECORD_AFTER_SEND,        /* the home records the new owner when the row has left */
    FORWARD_INSTEAD_OF_QUEUE, /* the requester passes early operations back to the home */
    TWO_SUCCESSORS,           /* HAND goes to an older owner again, not to the owner of record */
    STALE_XFER,         /* a row is accepted whatever its term and state (duplicated messages) */
    OVERTAKING_CONTROL, /* HAND and LOC go ahead of operations */
    QUEUE_AFTER_GIVE,   /* the row continues before the queue has run */
    WAY_CHANGES,        /* location caches: whatever is unanswered */
    WISH_OVERTAKES,     /* LOC does not wait for what went straight */
    ANY_TERM,           /* what comes straight runs whenever the row is there */
    STAY_FORGETS,       /* a row that stays: what waited for it is not passed on */
    STAY_TURNS,         /* ... is passed on last first */
    WISH_ONCE,          /* astray: who wished does not ask again */
    WISH_TWICE,         /* the home does not look whether it heard the wish before */
    UNASKED_DROPPED,    /* a row for which nobody waits is dropped */
    BUGS
};

enum message_kind { OP, LOC, HAND, XFER, REPLY, PASSED, BACK, STAY };
struct message {
    uint8_t kind, hops;
    bool straight; /* OP: to where the row was under `term` */
    bool passed_on; /* OP: by the home, to the owner of record */
    bool intended; /* LOC: the home may answer STAY */
    uint16_t node; /* OP, LOC: origin; HAND: new owner; PASSED: owner */
    uint16_t op;   /* number of the origin's operation */
    uint32_t term; /* LOC: the last under which its origin had the row */
    uint64_t row; /* XFER: 8 bits a node: number of its newest push in it; XFER and pushes are in
                     order */
    uint32_t count[NODES];
};
struct lane {
    struct message m[LANE];
    unsigned head, count;
};

struct node {
    struct tide__relocation k;
    uint32_t row[NODES + 1]; /* newest operation of each origin that ran: order is a sequence */
    uint32_t ran[NODES + 1];
    struct message queue[QUEUE];
    unsigned queued;
    unsigned ops_left, localizes_left, intents_left;
    bool intended, wanted; /* COMING: asked for on an intent; and a localize waits too */
    bool repeats;          /* its wish went by a former home that died */
    uint16_t next_op;
    struct tide__location where; /* of other nodes, as this one knows */
    uint32_t unanswered;         /* bit of each of its operations */
    bool late_record; /* planted */
    uint16_t late_owner;
    uint32_t late_term;
};

struct world {
    struct node nodes[NODES + 1]; /* ids from 1; node 1 is home */
    struct lane lanes[NODES + 1][NODES + 1];
    struct tide_random random;
    enum bug bug;
    bool duplicate; /* control messages come twice now and then */
    bool astray;
    unsigned ops; /* of each worker */
    unsigned transfers, longest, straight, back, stayed, unasked, repeated;
    uint16_t handed_to;
    const char *verdict;
};

static struct tide__owners owners_part; /* of the home */
static struct tide_table the_table = {.parts[TIDE__PART_OWNERS] = &owners_part};
enum { KEY = 7 };

static void blame(struct world *w, const char *what) {
    w->verdict = w->verdict ? w->verdict : what;
}

static void post(struct world *w, unsigned from, unsigned to, struct message m) {
    struct lane *lane = &w->lanes[from][to];
    bool twice = w->duplicate && (m.kind == HAND || m.kind == XFER);
    unsigned copies = twice && tide_random_below(&w->random, 8) == 0 ? 2 : 1;
    for (; copies > 0; copies--) {
        if (lane->count == LANE) {
            blame(w, "a lane overflows");
            return;
        }
        unsigned at = lane->head + lane->count++;
        lane->m[at % LANE] = m;
        while (w->bug == OVERTAKING_CONTROL && m.kind != OP && at > lane->head) { /* to the front */
            struct message other = lane->m[(at - 1) % LANE];
            if (other.kind != OP) {
                break;
            }
            lane->m[(at - 1) % LANE] = m;
            lane->m[at % LANE] = other;
            at--;
        }
    }
}

static void execute(struct world *w, struct node *n, uint16_t origin, uint16_t op) {
    if (n->row[origin] + 1 != op) {
        blame(w, n->row[origin] + 1 > op ? "an operation ran twice"
                                         : "operations of a worker ran out of order");
    }
    n->row[origin] = op;
    n->ran[origin]++;
    post(w, n->k.self, origin, (struct message){.kind = REPLY, .op = op});
}

static bool answered(const struct world *w, const struct node *n) {
    return w->bug == WAY_CHANGES || !(n->unanswered >> n->where.last & 1);
}

/* A new operation, or a wish for a row that is not here, has to wait. */
static bool waits(const struct world *w, struct node *n, bool wish) {
    return (!wish || (n->k.state == TIDE__GONE && w->bug != WISH_OVERTAKES)) &&
           tide__location_waits(&n->where, answered(w, n), true, wish);
}

static void send_row(struct world *w, unsigned self, uint16_t to, uint32_t term) {
    struct node *n = &w->nodes[self];
    struct message m = {.kind = XFER, .term = term};
    memcpy(m.count, n->row + 1, sizeof m.count);
    memset(n->row, 0xff, sizeof n->row); /* whoever uses it now is found out */
    w->transfers++;
    if (!n->k.home) {
        tide__location_learn(&n->where, to == 1 ? 0 : to, term);
    }
    post(w, self, to, m);
}

/* A wish goes to the home; or first to a former one, behind all that this node sent there before. */
static void wish(struct world *w, unsigned self, bool intended) {
    struct node *n = &w->nodes[self];
    const struct message m = {
        .kind = LOC, .node = (uint16_t)self, .intended = intended, .term = n->k.term};
    if (!w->astray || tide_random_below(&w->random, 3) == 0) {
        post(w, self, 1, m);
        return;
    }
    n->repeats = true;
    if (tide_random_below(&w->random, 3) > 0) {
        post(w, self == NODES ? 2 : self + 1, 1, m);
    }
}

static void operation(struct world *w, unsigned self, struct message m);

static void queue_run(struct world *w, unsigned self) {
    struct node *n = &w->nodes[self];
    for (unsigned i = 0; i < n->queued; i++) {
        execute(w, n, n->queue[i].node, n->queue[i].op);
    }
    n->queued = 0;
}

static void event(struct world *w, unsigned self, struct tide__relocate_event e,
                  const struct message *m) {
    struct node *n = &w->nodes[self];
    struct tide__relocation before = n->k;
    struct tide__relocate_result r;
    if (w->bug == STALE_XFER && e.kind == TIDE__EVENT_XFER) {
        n->k.state = TIDE__COMING;
        n->k.term = (e.term - 1) & TIDE__TERM_MASK;
    }
    r = tide__relocate(&n->k, e);
    if (w->bug == RECORD_AFTER_SEND && n->k.home && n->k.owner != before.owner && !n->late_record) {
        n->late_record = true;
        n->late_owner = n->k.owner;
        n->late_term = n->k.owner_term;
        n->k.owner = before.owner;
        n->k.owner_term = before.owner_term;
    }
    switch (r.act) {
    case TIDE__RUN:
        execute(w, n, m->node, m->op);
        break;
    case TIDE__QUEUE:
        if (m && w->bug == FORWARD_INSTEAD_OF_QUEUE && self != 1) {
            struct message again = *m;
            again.hops++;
            post(w, self, 1, again);
        } else if (m && n->queued < QUEUE) {
            n->queue[n->queued++] = *m;
        }
        break;
    case TIDE__TO_HOME:
    case TIDE__TO_OWNER: {
        struct message on = *m;
        on.passed_on = r.act == TIDE__TO_OWNER;
        unsigned to = r.act == TIDE__TO_HOME ? 1 : r.node;
        if (m->kind == OP && r.act == TIDE__TO_OWNER && m->node != self) {
            post(w, self, m->node,
                 (struct message){.kind = PASSED, .node = r.node, .term = n->k.owner_term});
        } else if (m->kind == OP && r.act == TIDE__TO_HOME && m->node == self && m->hops == 0) {
            to = tide__location_way(&n->where, m->op, answered(w, n), true);
            on.straight = to != 0;
            on.term = n->where.term;
            to = to ? to : 1;
        }
        if (to == self) {
            blame(w, "a node forwards to itself");
        } else if (++on.hops > HOPS && !w->astray) { /* else it goes between the home and who is to get it */
            blame(w, "a message does not arrive");
        } else {
            post(w, self, to, on);
        }
        break;
    }
    case TIDE__ASK:
        n->intended = m && m->intended;
        n->wanted = !n->intended;
        wish(w, self, n->intended);
        break;
    case TIDE__SEND_HAND:
        if (r.to == self) {
            blame(w, "the home hands to itself");
            break;
        }
        if (w->bug == TWO_SUCCESSORS && w->handed_to && w->handed_to != r.node) {
            r.to = w->handed_to;
        }
        w->handed_to = r.to;
        tide__trail_add(&the_table, KEY, r.to, (r.term - 1) & TIDE__TERM_MASK, r.node);
        post(w, self, r.to, (struct message){.kind = HAND, .node = r.node, .term = r.term});
        break;
    case TIDE__GIVE:
        send_row(w, self, r.node, r.term);
        if (n->k.home) {
            tide__trail_passed(&the_table, KEY, 1);
        }
        break;
    case TIDE__NOTED:
        if (n->k.home) {
            tide__trail_add(&the_table, KEY, 1, (r.term - 1) & TIDE__TERM_MASK, r.node);
        }
        break;
    case TIDE__INSTALL:
    case TIDE__INSTALL_AND_GIVE:
        memcpy(n->row + 1, m->count, sizeof m->count);
        if (w->bug == QUEUE_AFTER_GIVE && r.act == TIDE__INSTALL_AND_GIVE) {
            send_row(w, self, r.node, r.term);
            r.act = TIDE__DROP;
        }
        queue_run(w, self);
        if (r.act == TIDE__INSTALL_AND_GIVE) {
            send_row(w, self, r.node, r.term);
        }
        if (n->k.home && r.act == TIDE__INSTALL) {
            tide__trail_end(&the_table, KEY);
        } else if (n->k.home) {
            tide__trail_passed(&the_table, KEY, 1);
        }
        break;
    case TIDE__SURPRISE:
        blame(w, "a surprise");
        break;
    default:
        break;
    }
}

static void operation(struct world *w, unsigned self, struct message m) {
    const bool called = m.node == self && m.hops == 0;
    event(w, self,
          (struct tide__relocate_event){.kind = TIDE__EVENT_OPERATION,
                                        .node = called || m.passed_on ? 0 : m.node},
          &m);
}

static void run_or_return(struct world *w, unsigned self, struct message m) {
    struct node *n = &w->nodes[self];
    w->straight++;
    if (n->k.state == TIDE__HELD && (n->k.term == m.term || w->bug == ANY_TERM)) {
        execute(w, n, m.node, m.op);
        return;
    }
    w->back++;
    m.kind = BACK;
    m.straight = false;
    post(w, self, m.node, m);
}

static void came_back(struct world *w, unsigned self, struct message m) {
    struct node *n = &w->nodes[self];
    tide__location_returned(&n->where);
    m.kind = OP;
    operation(w, self, m);
    (void)tide__location_resent(&n->where, m.op);
}

/* Nobody else's interest is modelled: the home refuses now and then. */
static bool refuses(struct world *w, unsigned self, struct message m) {
    const struct node *n = &w->nodes[self];
    const bool stays = m.kind == LOC && m.intended && n->k.owner != m.node &&
                       tide_random_below(&w->random, 2) == 0;
    if (stays) {
        w->stayed++;
        post(w, self, m.node, (struct message){.kind = STAY});
    }
    return stays;
}

static void stays(struct world *w, unsigned self) {
    struct node *n = &w->nodes[self];
    if (!n->intended || n->k.state != TIDE__COMING) {
        if (!w->astray) { /* a wish that was repeated is answered twice */
            blame(w, "an answer to no wish");
        }
    } else if (n->wanted) {
        n->intended = false;
        post(w, self, 1,
             (struct message){.kind = LOC, .node = (uint16_t)self, .term = n->k.term});
    } else {
        event(w, self, (struct tide__relocate_event){.kind = TIDE__EVENT_STAY}, NULL);
        const unsigned queued = n->queued;
        n->queued = 0;
        for (unsigned i = 0; i < queued && w->bug != STAY_FORGETS; i++) {
            operation(w, self, n->queue[w->bug == STAY_TURNS ? queued - 1 - i : i]);
        }
    }
}

static void receive(struct world *w, unsigned from, unsigned self) {
    struct lane *lane = &w->lanes[from][self];
    struct message m = lane->m[lane->head % LANE];
    lane->head++;
    lane->count--;
    static const uint8_t kinds[] = {
        [LOC] = TIDE__EVENT_LOC, [HAND] = TIDE__EVENT_HAND, [XFER] = TIDE__EVENT_XFER};
    w->longest = m.hops > w->longest ? m.hops : w->longest;
    struct node *n = &w->nodes[self];
    if (m.kind == OP && m.straight) {
        run_or_return(w, self, m);
    } else if (m.kind == OP) {
        operation(w, self, m);
    } else if (m.kind == REPLY) {
        n->unanswered &= ~(1u << m.op);
    } else if (m.kind == PASSED) {
        if (m.node != self) {
            tide__location_learn(&n->where, m.node, m.term);
        }
    } else if (m.kind == BACK) {
        came_back(w, self, m);
    } else if (m.kind == STAY) {
        stays(w, self);
    } else if (m.kind == LOC) {
        if ((w->bug == WISH_TWICE || !tide__trail_awaits(&the_table, KEY, m.node, m.term)) &&
            !refuses(w, self, m)) {
            event(w, self, (struct tide__relocate_event){TIDE__EVENT_LOC, m.node, 0}, &m);
        }
    } else {
        const struct tide__relocate_event e = {kinds[m.kind], m.node, m.term};
        if (w->bug != UNASKED_DROPPED && tide__is_unasked(&n->k, e)) {
            n->k.state = TIDE__COMING;
            n->intended = false;
            n->wanted = true;
            w->unasked++;
        }
        event(w, self, e, &m);
    }
}

/* The former home is dead. */
static void ask_again_or_give_up(struct world *w, unsigned self) {
    struct node *n = &w->nodes[self];
    n->repeats = false;
    if (n->k.state != TIDE__COMING) {
        return;
    }
    w->repeated++;
    if (!n->k.next && n->queued == 0 && tide_random_below(&w->random, 3) == 0) {
        event(w, self, (struct tide__relocate_event){.kind = TIDE__EVENT_LOST}, NULL);
    } else if (w->bug != WISH_ONCE) {
        post(w, self, 1,
             (struct message){
                 .kind = LOC, .node = (uint16_t)self, .intended = n->intended, .term = n->k.term});
    }
}

/* One random thing happens; false: nothing is left to happen. */
static bool step(struct world *w) {
    struct {
        uint8_t what, a, b;
    } choices[NODES * NODES + 5 * NODES];
    size_t count = 0;
    for (unsigned a = 1; a <= NODES; a++) {
        struct node *n = &w->nodes[a];
        for (unsigned b = 1; b <= NODES; b++) {
            if (w->lanes[a][b].count) {
                choices[count].what = 0;
                choices[count].a = (uint8_t)a;
                choices[count++].b = (uint8_t)b;
            }
        }
        bool possible[] = {false, n->ops_left > 0, n->localizes_left > 0, n->intents_left > 0,
                           n->late_record, n->repeats};
        for (uint8_t what = 1; what < TIDE_COUNT(possible); what++) {
            if (possible[what]) {
                choices[count].what = what;
                choices[count].b = 0;
                choices[count++].a = (uint8_t)a;
            }
        }
    }
    if (count == 0) {
        return false;
    }
    size_t which = (size_t)tide_random_below(&w->random, count);
    unsigned a = choices[which].a;
    struct node *n = &w->nodes[a];
    switch (choices[which].what) {
    case 0:
        receive(w, a, choices[which].b);
        break;
    case 1:
        if (!n->k.home && waits(w, n, false)) {
            break;
        }
        n->ops_left--;
        n->unanswered |= 1u << (n->next_op + 1);
        operation(w, a, (struct message){.kind = OP, .node = (uint16_t)a, .op = ++n->next_op});
        break;
    case 2:
        if (!n->k.home && waits(w, n, true)) {
            break;
        }
        n->localizes_left--;
        n->wanted = true;
        event(w, a, (struct tide__relocate_event){.kind = TIDE__EVENT_LOCALIZE}, NULL);
        break;
    case 3:
        if (!n->k.home && waits(w, n, true)) {
            break;
        }
        n->intents_left--;
        if (n->k.state == TIDE__GONE) {
            const struct message intent = {.kind = LOC, .intended = true};
            event(w, a, (struct tide__relocate_event){.kind = TIDE__EVENT_LOCALIZE}, &intent);
        }
        break;
    case 5:
        ask_again_or_give_up(w, a);
        break;
    default:
        n->late_record = false;
        n->k.owner = n->late_owner;
        n->k.owner_term = n->late_term;
        break;
    }
    return true;
}

static void check_rest(struct world *w) {
    unsigned owners = 0, owner = 0;
    for (unsigned i = 1; i <= NODES; i++) {
        const struct node *n = &w->nodes[i];
        bool by_default = i == 1 && n->k.state == TIDE__GONE && n->k.owner == 1;
        if (n->k.state == TIDE__HELD || by_default) {
            owners++;
            owner = i;
        }
        if (n->k.state == TIDE__COMING || n->queued || n->k.next || n->unanswered) {
            blame(w, "something waits at rest");
        }
    }
    if (owners != 1) {
        blame(w, owners ? "two owners at rest" : "no owner at rest");
        return;
    }
    if (w->nodes[1].k.owner != owner) {
        blame(w, "the directory does not name the owner");
    }
    for (unsigned i = 1; i <= NODES; i++) {
        unsigned ran = 0;
        for (unsigned j = 1; j <= NODES; j++) {
            ran += w->nodes[j].ran[i];
        }
        if (w->nodes[owner].row[i] != w->ops || ran != w->ops) {
            blame(w, "a push is lost or doubled");
        }
    }
}

/* NULL: fine. */
static const char *play(enum bug bug, uint64_t seed, bool duplicate, bool astray,
                        struct world *w) {
    memset(w, 0, sizeof *w);
    tide_random_seed(&w->random, seed);
    tide__trail_end(&the_table, KEY);
    w->bug = bug;
    w->duplicate = duplicate;
    w->astray = astray;
    w->ops = astray ? 1 : OPS;
    uint32_t first_term = seed % 4 ? 0 : TIDE__TERM_MASK - 3; /* serial numbers wrap */
    for (unsigned i = 1; i <= NODES; i++) {
        struct node *n = &w->nodes[i];
        n->k = (struct tide__relocation){.self = (uint16_t)i, .home = i == 1, .term = first_term};
        n->k.owner = i == 1;
        n->k.owner_term = i == 1 ? first_term : 0;
        n->ops_left = w->ops;
        n->localizes_left = LOCALIZES;
        n->intents_left = INTENTS;
    }
    for (int i = 0; i < 5000 && !w->verdict; i++) {
        if (!step(w)) {
            check_rest(w);
            return w->verdict;
        }
    }
    blame(w, "it does not come to rest");
    return w->verdict;
}

static void random_interleavings_keep_one_owner_order_and_every_push(void **state) {
    (void)state;
    static struct world w;
    unsigned transfers = 0, longest = 0, straight = 0, back = 0, stayed = 0, unasked = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const char *verdict = play(NO_BUG, seed, false, false, &w);
        if (verdict) {
            fail_msg("seed %llu: %s", (unsigned long long)seed, verdict);
        }
        transfers += w.transfers;
        straight += w.straight;
        back += w.back;
        stayed += w.stayed;
        unasked += w.unasked;
        longest = w.longest > longest ? w.longest : longest;
    }
    assert_true(transfers > SEEDS * 2); /* there was something to go wrong */
    assert_int_equal(unasked, 0);
    assert_true(back > SEEDS / 2 && straight > back && stayed > SEEDS / 2);
    assert_true(longest <= 3); /* two legs, or straight, back and two: one forward each */
}

/* Not LOC: one that comes again after its node gave the key away is a wish nobody has any more. */
static void duplicated_hands_and_rows_do_no_harm(void **state) {
    (void)state;
    static struct world w;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const char *verdict = play(NO_BUG, seed, true, false, &w);
        if (verdict) {
            fail_msg("seed %llu: %s", (unsigned long long)seed, verdict);
        }
    }
}

static void wishes_that_may_be_lost_or_heard_twice_do_no_harm(void **state) {
    (void)state;
    static struct world w;
    unsigned unasked = 0, repeated = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const char *verdict = play(NO_BUG, seed, false, true, &w);
        if (verdict) {
            fail_msg("seed %llu: %s", (unsigned long long)seed, verdict);
        }
        unasked += w.unasked;
        repeated += w.repeated;
    }
    assert_true(repeated > SEEDS && unasked > SEEDS / 20);
}

static void every_planted_bug_is_caught(void **state) {
    (void)state;
    static struct world w;
    for (int bug = NO_BUG + 1; bug < BUGS; bug++) {
        uint64_t seed = 1;
        while (seed <= 1000 && !play((enum bug)bug, seed, bug == STALE_XFER, bug >= WISH_ONCE, &w)) {
            seed++;
        }
        if (seed > 1000) {
            fail_msg("bug %d was not caught in 1000 seeds", bug);
        }
    }
}

static struct tide__relocation home_of(uint8_t state, uint16_t owner) {
    return (struct tide__relocation){
        .self = 1, .home = true, .state = state, .term = 5, .owner = owner, .owner_term = 5};
}

static void messages_that_cannot_be_are_dropped_or_counted(void **state) {
    (void)state;
    struct tide__relocation k = {.self = 2, .state = TIDE__GONE, .term = 5};
    struct tide__relocate_event hand = {TIDE__EVENT_HAND, 3, 6}, xfer = {TIDE__EVENT_XFER, 0, 7};
    assert_int_equal(tide__relocate(&k, hand).act, TIDE__DROP); /* given already */
    hand.term = 9;
    assert_int_equal(tide__relocate(&k, hand).act, TIDE__SURPRISE); /* neither here nor coming */
    assert_int_equal(tide__relocate(&k, xfer).act, TIDE__DROP);     /* not asked for */
    assert_int_equal(k.state, TIDE__GONE);
    k.state = TIDE__HELD;
    assert_int_equal(tide__relocate(&k, xfer).act, TIDE__DROP);
    assert_int_equal(tide__relocate(&k, hand).act, TIDE__SURPRISE); /* a term was skipped */
    assert_int_equal(k.state, TIDE__HELD);
    k.state = TIDE__COMING;
    xfer.term = 5;
    assert_int_equal(tide__relocate(&k, xfer).act, TIDE__DROP); /* stale */
    assert_int_equal(tide__relocate(&k, hand).act, TIDE__NOTED);
    assert_int_equal(tide__relocate(&k, hand).act, TIDE__DROP); /* the same again */
    hand.node = 4;
    hand.term = 10;
    assert_int_equal(tide__relocate(&k, hand).act, TIDE__SURPRISE); /* a second successor */
    xfer.term = 8;
    struct tide__relocate_result r = tide__relocate(&k, xfer);
    assert_int_equal(r.act, TIDE__INSTALL_AND_GIVE);
    assert_int_equal(r.node, 3);
    assert_int_equal(r.term, 9);
    assert_int_equal(tide__relocate(&k, (struct tide__relocate_event){99, 0, 0}).act,
                     TIDE__SURPRISE);
    const struct tide__relocate_event stay = {.kind = TIDE__EVENT_STAY};
    assert_int_equal(tide__relocate(&k, stay).act, TIDE__SURPRISE); /* no wish is unanswered */
    k.state = TIDE__COMING;
    assert_int_equal(tide__relocate(&k, stay).act, TIDE__STAYS);
    assert_int_equal(k.state, TIDE__GONE);
}

static void the_home_treats_itself_as_any_node(void **state) {
    (void)state;
    struct tide__relocate_event want = {.kind = TIDE__EVENT_LOCALIZE};
    struct tide__relocation k = home_of(TIDE__GONE, 1);
    assert_int_equal(tide__relocate(&k, want).act, TIDE__HERE);
    k = home_of(TIDE__GONE, 3);
    struct tide__relocate_result r = tide__relocate(&k, want);
    assert_int_equal(r.act, TIDE__SEND_HAND);
    assert_int_equal(r.to, 3);
    assert_int_equal(r.node, 1);
    assert_int_equal(r.term, 6);
    assert_int_equal(k.owner, 1); /* recorded before the message is sent */
    r = tide__relocate(&k, (struct tide__relocate_event){TIDE__EVENT_LOC, 4, 0});
    assert_int_equal(r.act, TIDE__NOTED);
    assert_int_equal(k.owner, 4);
    r = tide__relocate(&k, (struct tide__relocate_event){TIDE__EVENT_LOC, 2, 0});
    assert_int_equal(r.act, TIDE__SEND_HAND); /* not to itself again: to its successor */
    assert_int_equal(r.to, 4);
    r = tide__relocate(&k, (struct tide__relocate_event){TIDE__EVENT_LOC, 2, 0});
    assert_int_equal(r.act, TIDE__DROP);
}

static void a_home_that_waits_passes_on_what_the_owner_in_the_end_is_to_run(void **state) {
    (void)state;
    const struct tide__relocate_event called = {.kind = TIDE__EVENT_OPERATION},
                                      came = {.kind = TIDE__EVENT_OPERATION, .node = 2};
    struct tide__relocation k = home_of(TIDE__COMING, 1);
    assert_int_equal(tide__relocate(&k, came).act, TIDE__QUEUE);
    k.owner = 3; /* it waits as the others do, and asked by the former home */
    assert_int_equal(tide__relocate(&k, called).act, TIDE__QUEUE);
    struct tide__relocate_result r = tide__relocate(&k, came);
    assert_int_equal(r.act, TIDE__TO_OWNER);
    assert_int_equal(r.node, 3);
    const struct tide__relocate_event own_wish = {TIDE__EVENT_LOC, 1, 0};
    k.next = 3; /* its wish was dealt with */
    assert_int_equal(tide__relocate(&k, own_wish).act, TIDE__DROP);
    k.next = 0;
    assert_int_equal(tide__relocate(&k, own_wish).act, TIDE__SEND_HAND);
    k = (struct tide__relocation){.self = 1, .state = TIDE__HELD, .term = 5}; /* home no more */
    assert_int_equal(tide__relocate(&k, called).act, TIDE__RUN);
    assert_int_equal(tide__relocate(&k, came).act, TIDE__TO_HOME);
}

static void an_offer_is_answered_by_the_home_wanting_the_key(void **state) {
    (void)state;
    struct tide__relocation k = home_of(TIDE__GONE, 3);
    struct tide__relocate_event offer = {TIDE__EVENT_OFFER, 4, 0};
    assert_int_equal(tide__relocate(&k, offer).act, TIDE__DROP); /* not its owner any more */
    offer.node = 3;
    assert_int_equal(tide__relocate(&k, offer).act, TIDE__SEND_HAND);
    assert_int_equal(k.state, TIDE__COMING);
    assert_int_equal(tide__relocate(&k, offer).act, TIDE__DROP);
}

static void a_lost_row_ends_the_wait(void **state) {
    (void)state;
    struct tide__relocation k = {
        .self = 2, .state = TIDE__COMING, .term = 5, .next = 3, .next_term = 9};
    struct tide__relocate_result r =
        tide__relocate(&k, (struct tide__relocate_event){.kind = TIDE__EVENT_LOST});
    assert_int_equal(r.act, TIDE__FAILED);
    assert_int_equal(k.state, TIDE__GONE);
    assert_int_equal(k.next, 0);
    assert_int_equal(
        tide__relocate(&k, (struct tide__relocate_event){.kind = TIDE__EVENT_LOST}).act,
        TIDE__DROP);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_interleavings_keep_one_owner_order_and_every_push),
        cmocka_unit_test(duplicated_hands_and_rows_do_no_harm),
        cmocka_unit_test(wishes_that_may_be_lost_or_heard_twice_do_no_harm),
        cmocka_unit_test(every_planted_bug_is_caught),
        cmocka_unit_test(messages_that_cannot_be_are_dropped_or_counted),
        cmocka_unit_test(the_home_treats_itself_as_any_node),
        cmocka_unit_test(a_home_that_waits_passes_on_what_the_owner_in_the_end_is_to_run),
        cmocka_unit_test(an_offer_is_answered_by_the_home_wanting_the_key),
        cmocka_unit_test(a_lost_row_ends_the_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
