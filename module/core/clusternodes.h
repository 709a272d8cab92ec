/* Which node of a cluster serves a slot, read from the text that CLUSTER NODES answers.
 *
 * One line a node:
 *
 *   id ip:port@busport[,hostname[,name=value …]] flags master ping pong epoch link slot slot …
 *
 * with the node's slots as `n`, `first-last` and, on the line of the node that was asked, which is
 * flagged `myself`, `[n->-id]` for one that it gives away and `[n-<-id]` for one that it gets.
 * https://redis.io/docs/latest/commands/cluster-nodes/
 */
#ifndef LOCK_CLUSTERNODES_H
#define LOCK_CLUSTERNODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the text, which is the caller's. */
struct clusternodesPiece {
    const char *at;
    size_t length;
};

/* By what a node is called, as cluster-preferred-endpoint-type has it. */
enum clusternodesName {
    CLUSTERNODES_IP,
    CLUSTERNODES_HOSTNAME, /* "?" for a node that has none, as the server says it */
    CLUSTERNODES_NO_NAME   /* the client is to stay with the host that it has asked */
};

struct clusternodesRoute {
    bool asks; /* ASK: the slot is still the asked node's, but given away. Else MOVED. */
    struct clusternodesPiece host, port; /* without a port: nobody knows where to */
};

/* Where a client that asks for this slot is to be sent by the node whose text this is. A node that
 * serves the slot, and does not give it away, knows nowhere to send anybody. A line that is not as
 * above is passed over. */
struct clusternodesRoute clusternodesFind(const char *text, size_t length, int slot,
                                          enum clusternodesName name);

/* A set of slots, a bit for each. */
struct clusternodesSlots {
    uint8_t bits[16384 / 8];
};

/* The slots that the node serves whose text this is: none for a replica. */
void clusternodesOwn(const char *text, size_t length, struct clusternodesSlots *slots);

#endif
