/* Which lock to hold, and how. */
#ifndef LOCKCTL_WISH_H
#define LOCKCTL_WISH_H

#include <stdbool.h>
#include <stdint.h>

enum wishKind { WISH_PLAIN, WISH_FAIR, WISH_SHARED, WISH_SEMAPHORE };

struct wish {
    const char *key;
    const char *owner;
    bool is_own_owner; /* no other client uses this name */
    enum wishKind kind;
    int64_t limit;       /* of a semaphore */
    int64_t lease_ms;    /* 0: as long as the connection is open */
    int64_t at_least_ms; /* keep it for so long after it was acquired, by its lease; 0: no */
    int64_t wait_ms;     /* -1: no limit */
    int64_t replicas;    /* the number that must acknowledge; 0: none */
    int64_t silence_ms;  /* a server that does not reply for this long counts as gone */
};

#endif
