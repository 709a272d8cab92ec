/* Who may hold a lock together with whom: the modes, the conflict table, and the one decision that
 * every acquisition asks for.
 *
 * Pure functions: they know neither keys nor clients. To add a mode, add it to the enum, give it a
 * row and a column in rules.c, and teach holds.c how the key records it.
 */
#ifndef LOCK_RULES_H
#define LOCK_RULES_H

#include <stdbool.h>
#include <stdint.h>

enum lockMode {
    MODE_READ,      /* shared */
    MODE_WRITE,     /* the exclusive side of a read-write lock */
    MODE_EXCLUSIVE, /* the plain lock */
    MODE_COUNT
};

/* A hold count never exceeds this: the 2^31-1 of Redis's own counters of this kind. */
#define RULES_MAX_HOLDS INT32_MAX

/* A lock's holds as one owner sees them: its own count in each mode, and in which modes anybody
 * else holds. `foreign` says that the key holds something that the module did not write. */
struct holdsView {
    int64_t own[MODE_COUNT];
    bool others[MODE_COUNT];
    bool foreign;
};

enum verdict {
    VERDICT_GRANT,       /* a new hold of an owner that had none */
    VERDICT_REENTER,     /* another hold of an owner that has one */
    VERDICT_WAIT,        /* somebody else's hold is in the way */
    VERDICT_UPGRADE,     /* likewise, and the owner already has a hold: it waits at the head */
    VERDICT_SELF_BLOCKED /* the owner's own hold is in the way: of the other kind of lock */
};

/* Whether holds of two different owners in these modes exclude each other. */
bool rulesConflict(enum lockMode one, enum lockMode other);

/* Whether the owner has a hold in any mode. */
bool rulesOwnsAny(const struct holdsView *view);

/* Whether a request for `mode` fits the holds (rules 1 and 2 of docs/design.md). */
enum verdict rulesDecide(enum lockMode mode, const struct holdsView *view);

#endif
