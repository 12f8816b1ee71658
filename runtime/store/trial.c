/* Whether a worker's intents are acted on, by what it measures. See trial.h. */
#include "store/trial.h"

enum {
    BLOCK_MIN = 4,
    BLOCK_MAX = 1 << 16,
    BLOCK_NS = 50000000,
    ALIGNED = 8,      /* blocks */
    TRIED = 7,        /* blocks */
    WORSE = 5,        /* times as long: no need to look on */
    HOLD_MIN = 64,    /* blocks: a trial of this many costs a few hundredths of the difference */
    HOLD_MAX = 4096,
    KEYS_A_MS = 16,   /* below, at 3 us a key on all nodes together, acting costs less than 5 % */
    BETTER = 105,     /* in hundredths */
};

/* The place of a clock in the trial that goes on; 0: it leads in, TRIED or more: it is over. */
static uint32_t step_of(const struct tide__trial *t, uint32_t clock) {
    const uint32_t block = clock / t->block;
    return block < t->first ? 0 : block - t->first;
}

static bool acts(const struct tide__trial *t, uint32_t clock) {
    const uint32_t step = t->tries ? step_of(t, clock) : 0;
    return step == 0 || step >= TRIED ? !t->rests : step % 2;
}

bool tide__trial_intent(struct tide__trial *t, uint32_t clock, uint32_t begin, uint32_t end,
                        uint64_t keys) {
    const uint32_t ahead = begin > clock ? begin - clock : 0;
    t->ahead = ahead > t->ahead ? ahead : t->ahead;
    t->keys += keys;
    return t->block == 0 || end - begin > t->block || acts(t, begin);
}

/* The first clocks have shown how long one takes. */
static void choose_block(struct tide__trial *t, uint64_t clock_ns) {
    t->block = BLOCK_MIN;
    while (t->block < BLOCK_MAX && (t->block * clock_ns < BLOCK_NS || t->block < t->ahead)) {
        t->block *= 2;
    }
}

static void settle(struct tide__trial *t, uint32_t block, bool rests) {
    const bool same = rests == t->rests;
    t->hold = !same || t->hold == 0 ? HOLD_MIN : t->hold < HOLD_MAX ? 2 * t->hold : HOLD_MAX;
    t->rests = rests;
    t->tries = false;
    t->next = block + t->hold;
}

/* A clock of the trial has ended; `last`: of its block. */
static void measure(struct tide__trial *t, uint32_t clock, bool last, uint64_t now) {
    const uint32_t step = step_of(t, clock);
    const bool acting = step % 2;
    const uint64_t took = now - t->block_at;
    if (step == 0) {
        return;
    }
    if (!acting && took > WORSE * t->least[true]) {
        settle(t, clock / t->block, false);
        return;
    }
    if (last && (t->least[acting] == 0 || took < t->least[acting])) {
        t->least[acting] = took;
    }
    if (last && step == TRIED - 1) {
        const uint64_t rest = t->least[false], act = t->least[true];
        settle(t, clock / t->block,
               t->rests ? act * BETTER >= rest * 100 : rest * BETTER < act * 100);
    }
}

/* At a block where a trial may begin. */
static void look(struct tide__trial *t, uint32_t block, uint64_t now) {
    if (t->keys * 1000000 >= (now - t->looked_at) * KEYS_A_MS && block >= t->next) {
        t->tries = true;
        t->first = block;
        t->least[false] = t->least[true] = 0;
    }
    t->keys = 0;
    t->looked_at = now;
}

void tide__trial_clock(struct tide__trial *t, uint32_t clock, uint64_t now) {
    const uint32_t next = clock + 1;
    if (t->keys == 0 && t->ahead == 0) { /* a worker without intents */
        return;
    }
    if (t->block == 0) {
        if (t->looked_at == 0) {
            t->looked_at = now;
            t->first = next; /* until the block is known: the first clock that counts */
        } else if (next - t->first == BLOCK_MIN) {
            choose_block(t, (now - t->looked_at) / BLOCK_MIN);
        }
        t->block_at = now;
        return;
    }
    if (t->tries && clock % t->block != 0) {
        measure(t, clock, next % t->block == 0, now);
    }
    if (!t->tries && next % (ALIGNED * t->block) == 0) {
        look(t, next / t->block, now);
    }
    if (clock % t->block == 0) {
        t->block_at = now;
    }
}
