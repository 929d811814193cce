/* mutants.c - the mutants of mutants_night.def, for which check has no time. */
#define MUTANTS "tests/simt/mutants_night.def"
#include "tests/simt/mutants.c"
