/* Loads against one another: in server CPU, interleaved, and in instructions. */

#ifndef BENCH_LOAD_COMPARISON_H
#define BENCH_LOAD_COMPARISON_H

#include "load/load.h"

enum {
    COMPARISON_LOADS = 8,
    COMPARISON_PAIRINGS = 6,
};

/* One row of the table: two of the comparison's loads by index. */
typedef struct Pairing {
    const char *label;
    unsigned ours;
    unsigned theirs;
    double target; /* of the ratio; 0 = none */
} Pairing;

typedef struct Comparison {
    const Load *loads[COMPARISON_LOADS];   /* up to the first NULL */
    Pairing pairings[COMPARISON_PAIRINGS]; /* up to the first without a label */
    Conditions conditions;
    unsigned times; /* of the load in one slice: long enough to last some 50 ms */
} Comparison;

/* In each round every load gets a fresh server, so that the luck of one process's memory is no
 * bias; then they take turns (A B C, C B A, and so on) in short slices. A round's figure is the
 * middle of its slices, a row's the median of its rounds. */
void compareCpu(const Comparison *comparison, const Options *options);

/* By callgrind, one server after another: nothing needs to be interleaved where noise does not
 * count. Prints a remark instead where there is no valgrind. */
void compareInstructions(const Comparison *comparison, const Options *options);

#endif
