/* Numbers for databases that stay with the data when SWAPDB swaps two databases.
 *
 * What is kept for many keys of a database need not be walked at a swap: it is kept under the
 * number that stays, and the current number of the database is looked up.
 */
#ifndef LOCK_SWAPPEDDBS_H
#define LOCK_SWAPPEDDBS_H

#include <stddef.h>

/* All zero: no database has been swapped, and both numbers are the same. */
struct swappeddbs {
    int *staying; /* by the current number */
    int *current; /* by the number that stays */
    size_t count; /* databases from this number on have not been swapped */
};

/* The number that stays with the data that is in `db` now. */
int swappeddbsStaying(const struct swappeddbs *dbs, int db);

/* The database in which the data with this staying number is now. */
int swappeddbsCurrent(const struct swappeddbs *dbs, int staying);

/* These two databases have been swapped. */
void swappeddbsSwap(struct swappeddbs *dbs, int first_db, int second_db);

/* To be called when nothing is kept under any staying number: both numbers are the same again, and
 * the memory is freed. */
void swappeddbsReset(struct swappeddbs *dbs);

#endif
