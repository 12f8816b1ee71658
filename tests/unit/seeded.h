/* Tests that run many seeds, and can be told which:
 * [--first N] [--seeds N] [--mutant NAME] [FILTER]. */
#ifndef TIDE_TESTS_SEEDED_H
#define TIDE_TESTS_SEEDED_H

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t seeds_wanted, seed_first = 1;

/* The last seed to run. */
static uint64_t seeds(uint64_t usual) {
    return seeds_wanted ? seeds_wanted : usual;
}

static void seeded_options(int argc, char **argv) {
    for (; argc > 2 && strncmp(argv[1], "--", 2) == 0; argc -= 2, argv += 2) {
        if (strcmp(argv[1], "--seeds") == 0) {
            seeds_wanted = strtoull(argv[2], NULL, 10);
        } else if (strcmp(argv[1], "--first") == 0) {
            seed_first = strtoull(argv[2], NULL, 10);
        }
#ifdef TIDE_MUTANTS
        if (strcmp(argv[1], "--mutant") == 0) {
            tide__mutant = argv[2];
        }
#endif
    }
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
}

#endif
