/* Random walks that can be repeated.
 *
 * Each run has a new seed and prints it; FUZZ_SEED in the environment repeats a run. FUZZ_STEPS
 * sets the number of steps of a walk.
 */
#ifndef LOCK_TESTS_FUZZ_H
#define LOCK_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fuzz {
    uint64_t state;
    size_t steps; /* how many the walk is to take */
};

/* Starts a walk and prints how to repeat it. */
struct fuzz fuzzStart(const char *name, size_t default_steps);

uint64_t fuzzNext(struct fuzz *fuzz);

/* From 0 to `limit` - 1; `limit` must not be 0. */
size_t fuzzBelow(struct fuzz *fuzz, size_t limit);

/* True in one of `n` calls on average. */
bool fuzzOneIn(struct fuzz *fuzz, size_t n);

#endif
