/* Numbers for databases that stay with their data when SWAPDB makes two change places.
 *
 * What is kept for many keys of a database need not be walked through at a swap: it is kept under
 * the number that stays, and the database's number of the moment is looked up.
 */
#ifndef LOCK_SWAPPEDDBS_H
#define LOCK_SWAPPEDDBS_H

#include <stddef.h>

/* All zero: none has been swapped, and the numbers are the same. */
struct swappeddbs {
    int *staying; /* by the number of the moment */
    int *current; /* by the number that stays */
    size_t count; /* those from here on have not been swapped */
};

/* The number that stays with the data that is in `db` now. */
int swappeddbsStaying(const struct swappeddbs *dbs, int db);

/* In which database the data of this staying number is now. */
int swappeddbsCurrent(const struct swappeddbs *dbs, int staying);

/* Both have changed places. */
void swappeddbsSwap(struct swappeddbs *dbs, int first_db, int second_db);

/* Nothing is kept under any number: all are the same again, without memory. */
void swappeddbsReset(struct swappeddbs *dbs);

#endif
