/* See fuzz.h. */
#include "fuzz.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t fromEnvironment(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static uint64_t seedOfThisMoment(void) {
    struct timespec now = {0};
    timespec_get(&now, TIME_UTC);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

struct fuzz fuzzStart(const char *name, size_t default_steps) {
    uint64_t seed = fromEnvironment("FUZZ_SEED", seedOfThisMoment());
    struct fuzz fuzz = {seed, fromEnvironment("FUZZ_STEPS", default_steps)};
    fprintf(stderr, "%s: FUZZ_SEED=%" PRIu64 " FUZZ_STEPS=%zu\n", name, seed, fuzz.steps);
    return fuzz;
}

/* splitmix64: any seed is valid, also 0. */
uint64_t fuzzNext(struct fuzz *fuzz) {
    uint64_t mixed = fuzz->state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

size_t fuzzBelow(struct fuzz *fuzz, size_t limit) {
    return (size_t)(fuzzNext(fuzz) % limit);
}

bool fuzzOneIn(struct fuzz *fuzz, size_t n) {
    return fuzzBelow(fuzz, n) == 0;
}
