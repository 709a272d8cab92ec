/* Which node of a cluster serves a slot, parsed from the reply of CLUSTER NODES.
 *
 * One line per node:
 *
 *   id ip:port@busport[,hostname[,name=value …]] flags master ping pong epoch link slot slot …
 *
 * The slots of a node are given as `n` or `first-last`. On the line of the node that sent the
 * reply, which has the flag `myself`, `[n->-id]` is a slot that it is migrating and `[n-<-id]` one
 * that it is importing. https://redis.io/docs/latest/commands/cluster-nodes/
 */
#ifndef LOCK_CLUSTERNODES_H
#define LOCK_CLUSTERNODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A piece of a text that belongs to the caller. */
struct clusternodesPiece {
    const char *at;
    size_t length;
};

/* How a client addresses a node. This is the setting cluster-preferred-endpoint-type. */
enum clusternodesName {
    CLUSTERNODES_IP,
    CLUSTERNODES_HOSTNAME, /* "?" for a node that has none, as the server replies */
    CLUSTERNODES_NO_NAME   /* the client keeps the host that it is connected to */
};

/* Where to redirect a client. */
struct clusternodesRoute {
    bool asks; /* true: by ASK, because the slot is being migrated; false: by MOVED */
    struct clusternodesPiece host, port; /* the port is empty if the address is not known */
};

/* Where the node that sent this text redirects a client that requests this slot. If the node
 * migrates the slot, this is the target node. If the node does not serve the slot, it is the node
 * that serves it. The port of the result is empty if the client is not redirected, or if the
 * address of the other node is not known. Lines in any other format are skipped. The pieces of the
 * result are parts of `text` or constants. */
struct clusternodesRoute clusternodesFind(const char *text, size_t length, int slot,
                                          enum clusternodesName name);

/* A set of slots, one bit for each. */
struct clusternodesSlots {
    uint8_t bits[16384 / 8];
};

/* Stores the slots that the node that sent this text serves. A replica serves none. */
void clusternodesOwn(const char *text, size_t length, struct clusternodesSlots *slots);

#endif
