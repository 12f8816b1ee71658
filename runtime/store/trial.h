/*
 * Does acting on intents pay? What a row costs that is brought here, and what one that stays
 * elsewhere, depends on processors, network, sizes and how keys are shared; so a worker measures
 * it: now and then its intents are acted on for some of its clocks and left alone for others, and
 * what was quicker stays, acting if there is no clear difference.
 *
 * Clocks go in blocks of a power of two: at least 50 ms, and no less than what a worker says ahead.
 * A trial takes seven blocks and begins at a multiple of eight: one that leads in, so that what is
 * said ahead is for the trial, then acting and resting in turn, three times. Workers of one job are
 * nearly at the same clock and have blocks of one length, so all try the same at the same time, and
 * what counts is not what is good for one at the others' cost. Of each three blocks the quickest
 * counts, without its first clock: a pause is no verdict. A trial ends at once when resting takes
 * more than five times as long.
 *
 * Nothing is tried while few keys are intended: they cost next to nothing. Pure functions, of one
 * worker each.
 */
#ifndef TIDE_STORE_TRIAL_H
#define TIDE_STORE_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

struct tide__trial { /* zero at first */
    uint32_t block;  /* clocks; 0: not known yet */
    uint32_t ahead;  /* most clocks between an intent and its first clock */
    uint32_t first;  /* block of the trial that goes on */
    uint32_t next;   /* block before which none begins */
    uint32_t hold;   /* blocks that the last verdict holds */
    bool tries, rests;
    uint64_t block_at;        /* when the first clock of this block that counts began */
    uint64_t looked_at, keys; /* since when these keys were intended */
    uint64_t least[2];        /* of resting and of acting: the quicker block, ns; 0: none yet */
};

/* An intent of `keys` keys for clocks begin to end - 1 is made in `clock`: is it acted on? */
bool tide__trial_intent(struct tide__trial *trial, uint32_t clock, uint32_t begin, uint32_t end,
                        uint64_t keys);
/* `clock` has ended; now: ns. */
void tide__trial_clock(struct tide__trial *trial, uint32_t clock, uint64_t now);

#endif
