/* Which server a connection leads to: whether two of them are independent, as RedLock requires. */
#ifndef LOCKCTL_IDENTITY_H
#define LOCKCTL_IDENTITY_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "base/words.h"

#define IDENTITY_ID 41

/* Empty when zeroed: nothing is known. To be emptied by identityForget. What a user may not request
 * stays unknown; HELLO is permitted to all. */
struct identity {
    bool is_replica, is_cluster;
    char run_id[IDENTITY_ID];
    char node_id[IDENTITY_ID]; /* in a cluster */
    char *nodes;               /* the reply of CLUSTER NODES, or NULL */
};

void identityForget(struct identity *identity);

/* Three requests, and what their replies say. `words` is overwritten. The third one is for a server
 * that is_cluster. */
void identityRequestHello(struct words *words);
void identityRequestInfo(struct words *words);
void identityRequestNodes(struct words *words);
void identityTakeHello(struct identity *identity, const redisReply *reply);
void identityTakeInfo(struct identity *identity, const redisReply *reply);
void identityTakeNodes(struct identity *identity, const redisReply *reply);

bool identityIsSameServer(const struct identity *one, const struct identity *other);
bool identityIsSameCluster(const struct identity *one, const struct identity *other);

#endif
