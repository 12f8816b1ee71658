/*
 * Phi accrual failure detector of one peer: how unlikely is the present silence, given the peer's
 * usual rhythm? Pure arithmetic on times that are handed in.
 */
#ifndef TIDE_NET_DETECTOR_H
#define TIDE_NET_DETECTOR_H

#include <stdint.h>

enum { TIDE_DETECTOR_WINDOW = 200 };

#define TIDE_PHI_SUSPECT 8.0 /* one false alarm in 10^8 silences of that length */

struct tide_detector {
    uint64_t last;         /* when the peer was last heard, ns */
    uint64_t sampled;      /* end of the last interval that entered the window */
    uint64_t sum, squares; /* of the window, in us and us^2: integers, so that taking out what went
                              in is exact */
    uint32_t count, next;
    uint32_t window_us[TIDE_DETECTOR_WINDOW];
};

/* Starts as if a few beats `interval` apart had been heard, the last one now. */
void tide__detector_init(struct tide_detector *detector, uint64_t now, uint64_t interval);
/* The peer was heard. Traffic denser than half an interval refreshes `last` but is no sample of the
 * rhythm. */
void tide__detector_beat(struct tide_detector *detector, uint64_t now, uint64_t interval);
/* This process itself stalled for `duration`: no silence during it counts. */
void tide__detector_excuse(struct tide_detector *detector, uint64_t now, uint64_t duration);
/* Suspicion now, with so much silence granted; TIDE_PHI_SUSPECT and more: it is silent. */
double tide__detector_phi(const struct tide_detector *detector, uint64_t now, uint64_t grace);

#endif
