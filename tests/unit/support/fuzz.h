/* Random walks that can be repeated.
 *
 * The seed is a new one in each run, and printed; FUZZ_SEED in the environment repeats a run.
 * FUZZ_STEPS makes the walks longer.
 */
#ifndef LOCK_TESTS_FUZZ_H
#define LOCK_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fuzz {
    uint64_t state;
    size_t steps; /* how many the walk called `name` should take */
};

/* Starts a walk and prints how to repeat it. */
struct fuzz fuzzStart(const char *name, size_t default_steps);

uint64_t fuzzNext(struct fuzz *fuzz);

/* From 0 to `limit` - 1; `limit` must not be 0. */
size_t fuzzBelow(struct fuzz *fuzz, size_t limit);

/* True in one of `n` calls on average. */
bool fuzzOneIn(struct fuzz *fuzz, size_t n);

#endif
