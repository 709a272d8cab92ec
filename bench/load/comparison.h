/* Compares loads: in server CPU, interleaved, and in instructions. */

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
    unsigned times; /* of the load in one slice: enough for some 50 ms */
} Comparison;

/* In each round every load gets a fresh server, so that the memory layout of one process does not
 * bias the result. Then the loads alternate (A B C, C B A, and so on) in short slices. The figure
 * of a round is the mean of the middle half of its slices; that of a row is the median of its
 * rounds. */
void compareCpu(const Comparison *comparison, const Options *options);

/* By callgrind, one server after another: interleaving is not needed because noise does not change
 * the counts. Prints a remark instead if valgrind is not installed. */
void compareInstructions(const Comparison *comparison, const Options *options);

#endif
