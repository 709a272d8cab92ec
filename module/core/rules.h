/* The rules for which owners may hold a lock at the same time: the modes, the conflict table, and
 * the decision that is made for every acquisition.
 *
 * All functions are pure and use neither keys nor clients. To add a mode, add it to the enum, give
 * it a row and a column in rules.c, and make holds.c store it in the key.
 */
#ifndef LOCK_RULES_H
#define LOCK_RULES_H

#include <stdbool.h>
#include <stdint.h>

enum lockMode {
    MODE_READ,      /* shared */
    MODE_WRITE,     /* the exclusive side of a read-write lock */
    MODE_EXCLUSIVE, /* the plain lock */
    MODE_SEMAPHORE, /* permits, limited in number */
    MODE_COUNT
};

/* The largest hold count: 2^31-1, as for Redis's own counters of this kind. */
#define RULES_MAX_HOLDS INT32_MAX

/* What is requested from a semaphore: `count` permits, if at most `limit` permits are taken after
 * the grant. Each request has its own limit. Both are 1 to RULES_MAX_HOLDS. For any other lock all
 * is zero. */
struct permits {
    int64_t count, limit;
};

/* What is requested. */
struct lockRequest {
    enum lockMode mode;
    struct permits permits; /* only for MODE_SEMAPHORE */
    bool once;              /* ONCE: only adds the holds that the owner does not have yet */
};

/* A lock's holds as one owner sees them: its own count in each mode, and the modes in which other
 * owners hold the lock. For a semaphore also how many permits are taken, including the owner's own.
 * `foreign` is whether the key contains something that the module has not written. */
struct holdsView {
    int64_t own[MODE_COUNT];
    bool others[MODE_COUNT];
    int64_t permits_taken;
    bool foreign;
};

enum verdict {
    VERDICT_GRANT,       /* the first hold of an owner */
    VERDICT_ADD,         /* more permits for an owner that has some; it still waits behind others */
    VERDICT_REENTER,     /* another hold of an owner that has one */
    VERDICT_HELD,        /* ONCE: the owner already has all of these holds, and nothing is added */
    VERDICT_WAIT,        /* existing holds conflict with the request */
    VERDICT_UPGRADE,     /* as VERDICT_WAIT, but the owner has a hold, so it waits at the head */
    VERDICT_SELF_BLOCKED /* the owner holds the key as another kind of lock */
};

/* Whether holds of two different owners are compatible. */
enum rulesCompatibility {
    RULES_CONFLICTING, /* never */
    RULES_COMPATIBLE,  /* always */
    RULES_COUNTED      /* as long as their permits are within the limit */
};

/* One row for each requested mode, one column for each mode that another owner holds. */
extern const enum rulesCompatibility rules_compatibility[MODE_COUNT][MODE_COUNT];

/* Whether holds of two different owners in these modes exclude each other. */
static inline bool rulesConflict(enum lockMode one, enum lockMode other) {
    return rules_compatibility[one][other] == RULES_CONFLICTING;
}

/* Whether a request for `mode` waits behind another owner's request for `other`. It does if their
 * holds would exclude each other, or may do so depending on the number of permits. */
bool rulesStandsBehind(enum lockMode mode, enum lockMode other);

/* Whether the owner has a hold in any mode. */
bool rulesOwnsAny(const struct holdsView *view);

/* How many holds, or permits, the request adds. With ONCE this is the number that the owner does
 * not have yet, which is 0 or less if the owner has all of them. */
int64_t rulesLacks(const struct lockRequest *request, const struct holdsView *view);

/* Whether the request fits the holds (rules 1 and 2 of docs/design.md). */
enum verdict rulesDecide(const struct lockRequest *request, const struct holdsView *view);

/* Whether the request fits, according to this verdict. */
static inline bool rulesFits(enum verdict verdict) {
    return verdict == VERDICT_GRANT || verdict == VERDICT_ADD || verdict == VERDICT_REENTER ||
           verdict == VERDICT_HELD;
}

#endif
