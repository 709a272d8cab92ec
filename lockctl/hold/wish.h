/* What is to be held, and how. */
#ifndef LOCKCTL_WISH_H
#define LOCKCTL_WISH_H

#include <stdbool.h>
#include <stdint.h>

enum wishKind { WISH_PLAIN, WISH_FAIR, WISH_SHARED, WISH_SEMAPHORE };

struct wish {
    const char *key;
    const char *owner;
    bool is_own_owner; /* nobody else uses this name */
    enum wishKind kind;
    int64_t limit;      /* of a semaphore */
    int64_t lease_ms;   /* 0: as long as the connection */
    int64_t wait_ms;    /* -1: for ever */
    int64_t replicas;   /* that have to acknowledge; 0: none */
    int64_t silence_ms; /* for how long a server may say nothing before it counts as gone */
};

#endif
