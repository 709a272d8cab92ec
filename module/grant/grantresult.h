/* How an attempt to take, release, renew or free a lock ends; outcome.c turns it into a reply. */
#ifndef LOCK_GRANTRESULT_H
#define LOCK_GRANTRESULT_H

#include <stdint.h>

#include "redismodule.h"

enum grantResult {
    GRANT_DONE,     /* `count` tells how many holds there are */
    GRANT_BUSY,     /* somebody else has it, and the request does not wait */
    GRANT_WAITING,  /* the client is blocked: no reply is to be made now */
    GRANT_NOT_HELD, /* the owner holds no such lock */
    GRANT_WRONG_TYPE,
    GRANT_TOO_MANY_HOLDS,
    GRANT_TOO_MANY_WAITERS,
    GRANT_NO_SIDE_KEYS, /* in a cluster: this name can have none in its slot */
    GRANT_DEADLOCK,     /* the wait would never end; `cycle` tells why */
    GRANT_TRY_AGAIN,    /* in a cluster: the slot moves, and side keys with it, one by one */
    GRANT_BOTH_MODES    /* the owner holds reads and writes, and has to say which to release */
};

struct grantOutcome {
    int64_t count;
    RedisModuleString *cycle; /* of GRANT_DEADLOCK; free it with RedisModule_FreeString */
};

#endif
