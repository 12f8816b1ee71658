/* What all fuzz targets share: the entry point, and a check that stays on and stops the fuzzer. */
#ifndef TIDE_FUZZ_H
#define TIDE_FUZZ_H

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv); /* not every target has one */

#define FUZZ_CHECK(e)                                                                              \
    do {                                                                                           \
        if (!(e)) {                                                                                \
            fprintf(stderr, "%s:%d: %s does not hold (%s)\n", __FILE__, __LINE__, #e,              \
                    tide_error_message());                                                         \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
