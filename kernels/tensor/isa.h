/* The instruction set that Tide's own kernels use; tide_isa is set before main, and constant afterwards. */
#ifndef TIDE_KERNEL_ISA_H
#define TIDE_KERNEL_ISA_H

#include "tide/package.h"

/* Returns an error if TIDE_ISA names no set, or one that this processor lacks. */
int tide_isa_check(void);

#endif
