/* Mistakes on purpose in packages, for builds that test the tests; see base/base.h. */
#ifndef TIDE_PACKAGES_MUTANT_H
#define TIDE_PACKAGES_MUTANT_H

#ifdef TIDE_MUTANTS
#include <string.h>
extern const char *tide__mutant;
#define TIDE_MUTANT(name) (tide__mutant && strcmp(tide__mutant, #name) == 0)
#else
#define TIDE_MUTANT(name) 0
#endif

#endif
