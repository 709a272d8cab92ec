/* Whether any optional feature is in use.
 *
 * Most locks are acquired and released while no client waits, no connection has a session, no reply
 * is on its way, and so on. So that such a command asks one question, and not one of each feature,
 * each feature counts here what it has: a key that clients wait for, a hold in flight, a hold that
 * is bound to a connection, a grant that is not confirmed, a quarantine.
 *
 * A feature that must see every grant or release calls featuresBegin for each thing that it has,
 * and featuresEnd when it no longer has it.
 */
#ifndef LOCK_FEATURES_H
#define LOCK_FEATURES_H

#include <stdbool.h>
#include <stddef.h>

/* How many things there are. Only for the functions below. */
extern size_t features_count;

static inline void featuresBegin(void) {
    features_count++;
}

static inline void featuresEnd(void) {
    features_count--;
}

/* Begins or ends one thing, of which `*is_counted` is whether it has begun. */
static inline void featuresCount(bool *is_counted, bool is_in_use) {
    features_count += (size_t)is_in_use - (size_t)*is_counted;
    *is_counted = is_in_use;
}

/* Whether there is anything, in any feature. */
static inline bool featuresInUse(void) {
    return features_count > 0;
}

#endif
