/* Mistakes that the emulation must show. */
#ifndef TIDE_PLANTED_H
#define TIDE_PLANTED_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif
/* A number made by threads that read what their neighbours write, after a barrier or without. */
float planted_neighbours(bool barrier);
/* 3, by way of a copy on one stream and one on another that waits for it, or does not: then NaN. */
float planted_copy(bool wait);
#ifdef __cplusplus
}
#endif

#endif
