/* Which optional features are in use.
 *
 * Most locks are acquired and released while no client waits, no connection has a session, no reply
 * is on its way, and so on. So that such a command asks one question (featuresInUse), and not one
 * of each feature, each feature counts here what it has. Where something is in use, the code that
 * reports to a feature asks featuresHas first, so that a path runs only through the features that
 * take part in it.
 *
 * A feature that must see every grant or release calls featuresBegin for each thing that it has,
 * and featuresEnd when it no longer has it.
 */
#ifndef LOCK_FEATURES_H
#define LOCK_FEATURES_H

#include <stdbool.h>
#include <stddef.h>

enum feature {
    FEATURE_WAITERS,         /* a lock that clients wait for */
    FEATURE_LATCH_WAITS,     /* a latch that clients wait for */
    FEATURE_WATCHES,         /* a lock that clients watch */
    FEATURE_CANCELLATIONS,   /* a cancellation whose waits have not all been ended */
    FEATURE_PENDING_REPLIES, /* a hold whose reply is on its way */
    FEATURE_UNCONFIRMED,     /* a grant that its client has not confirmed */
    FEATURE_SESSIONS,        /* a hold that is bound to a connection */
    FEATURE_QUARANTINE,      /* a quarantine is on, or configured */
    FEATURE_RESTORED,        /* positions of a fair queue may be in keys only */
    FEATURE_COUNT
};

/* How many things there are. Only for the functions below. */
extern struct features {
    size_t all;
    size_t of[FEATURE_COUNT];
} features_counts;

static inline void featuresBegin(enum feature feature) {
    features_counts.all++;
    features_counts.of[feature]++;
}

static inline void featuresEnd(enum feature feature) {
    features_counts.all--;
    features_counts.of[feature]--;
}

/* Begins or ends the one thing of a feature that has only one, if `is_in_use` has changed. */
static inline void featuresSet(enum feature feature, bool is_in_use) {
    features_counts.all += (size_t)is_in_use - features_counts.of[feature];
    features_counts.of[feature] = is_in_use;
}

/* Whether there is anything, in this feature. */
static inline bool featuresHas(enum feature feature) {
    return features_counts.of[feature] > 0;
}

/* How many things there are in this feature. */
static inline size_t featuresCount(enum feature feature) {
    return features_counts.of[feature];
}

/* Whether there is anything, in any feature. */
static inline bool featuresInUse(void) {
    return features_counts.all > 0;
}

#endif
