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
    MODE_SEMAPHORE, /* permits, of which there are so many */
    MODE_COUNT
};

/* A hold count never exceeds this: the 2^31-1 of Redis's own counters of this kind. */
#define RULES_MAX_HOLDS INT32_MAX

/* What is asked of a semaphore: `count` permits, if then at most `limit` are taken. The limit is
 * each request's own; both are 1 to RULES_MAX_HOLDS. All zero of any other lock. */
struct permits {
    int64_t count, limit;
};

/* What is asked for. */
struct rulesRequest {
    enum lockMode mode;
    struct permits permits; /* of MODE_SEMAPHORE */
    bool once;              /* the owner is to have this, not this more */
};

/* A lock's holds as one owner sees them: its own count in each mode, and in which modes anybody
 * else holds; of a semaphore how many permits are taken, the owner's own included. `foreign` says
 * that the key holds something that the module did not write. */
struct holdsView {
    int64_t own[MODE_COUNT];
    bool others[MODE_COUNT];
    int64_t permits_taken;
    bool foreign;
};

enum verdict {
    VERDICT_GRANT, /* a new hold of an owner that had none */
    VERDICT_ADD, /* more permits for an owner that has some: it stands behind others all the same */
    VERDICT_REENTER,     /* another hold of an owner that has one */
    VERDICT_HELD,        /* by ONCE: the owner has all of it, and nothing is added */
    VERDICT_WAIT,        /* somebody else's hold is in the way */
    VERDICT_UPGRADE,     /* likewise, and the owner already has a hold: it waits at the head */
    VERDICT_SELF_BLOCKED /* the owner's own hold is in the way: of the other kind of lock */
};

/* Whether holds of two different owners in these modes exclude each other. */
bool rulesConflict(enum lockMode one, enum lockMode other);

/* Whether who asks for `mode` stands behind somebody else who waits for `other`: where their holds
 * would exclude each other, or may, by their number. */
bool rulesStandsBehind(enum lockMode mode, enum lockMode other);

/* Whether the owner has a hold in any mode. */
bool rulesOwnsAny(const struct holdsView *view);

/* How many holds, or permits, the request adds: by ONCE those that the owner lacks, 0 or less if it
 * has them all. */
int64_t rulesLacks(const struct rulesRequest *request, const struct holdsView *view);

/* Whether the request fits the holds (rules 1 and 2 of docs/design.md). */
enum verdict rulesDecide(const struct rulesRequest *request, const struct holdsView *view);

/* Whether it does, by this verdict. */
bool rulesFits(enum verdict verdict);

#endif
