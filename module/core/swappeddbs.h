/* Numbers for databases that stay with the data when SWAPDB swaps two databases.
 *
 * Records for many keys of a database are stored under the number that stays, and the current
 * number of the database is looked up. So the records need not be changed at a swap.
 */
#ifndef LOCK_SWAPPEDDBS_H
#define LOCK_SWAPPEDDBS_H

#include <stddef.h>

/* All zero if no database has been swapped. Both numbers of each database are equal then. */
struct swappeddbs {
    int *staying; /* by the current number */
    int *current; /* by the number that stays */
    size_t count; /* databases from this number on have not been swapped */
};

/* The number that stays with the data that is in `db` now. */
static inline int swappeddbsStaying(const struct swappeddbs *dbs, int db) {
    return (size_t)db < dbs->count ? dbs->staying[db] : db;
}

/* The database in which the data with this staying number is now. */
static inline int swappeddbsCurrent(const struct swappeddbs *dbs, int staying) {
    return (size_t)staying < dbs->count ? dbs->current[staying] : staying;
}

/* To be called when these two databases have been swapped. */
void swappeddbsSwap(struct swappeddbs *dbs, int first_db, int second_db);

/* Makes both numbers of each database equal again, and frees the memory. */
void swappeddbsForget(struct swappeddbs *dbs);

/* To be called when no record is stored under any staying number. */
static inline void swappeddbsReset(struct swappeddbs *dbs) {
    if (dbs->count > 0) {
        swappeddbsForget(dbs);
    }
}

/* How many allocations this uses. */
static inline size_t swappeddbsMemory(const struct swappeddbs *dbs) {
    return (dbs->staying != NULL) + (dbs->current != NULL);
}

#endif
