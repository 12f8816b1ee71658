/* The instruction set that Tide's own kernels use: the widest of the processor, or a narrower one that TIDE_ISA names.
 */
#ifndef TIDE_KERNEL_ISA_H
#define TIDE_KERNEL_ISA_H

enum tide_isa {
    TIDE_ISA_PLAIN,
    TIDE_ISA_AVX2,   /* with FMA and F16C */
    TIDE_ISA_AVX512, /* F, BW, DQ and VL */
};

/* Set before main, constant afterwards. */
extern enum tide_isa tide_isa;

/* Returns an error if TIDE_ISA names no set, or one that this processor lacks. */
int tide_isa_check(void);

#endif
