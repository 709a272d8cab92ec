/* The queues of replies that wait until replicas have acknowledged a write. There is one queue for
 * each number of replicas that a reply waits for.
 *
 * A reply is *fresh* until the next check of the replicas, because the write that it reports may
 * not be in the replication stream yet. The check sets the offset of the reply to the length of the
 * stream at that moment.
 */
#ifndef LOCK_ACKLINES_H
#define LOCK_ACKLINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/list.h"

struct ackline;

/* The position of a reply in a queue. It is in the caller's memory, and all zero while it is in no
 * queue. */
struct ackplace {
    struct link in_list;
    struct list *list;    /* the list of its queue that it is in: fresh replies, or waiting ones */
    struct ackline *line; /* its queue */
    int64_t offset;       /* up to where the replicas must acknowledge the stream */
};

/* Adds the position at the end of the queue for `replicas` replicas. */
void acklinesEnter(struct ackplace *place, size_t replicas);

/* Removes the position from its queue, fresh or not; does nothing if it is in no queue. */
void acklinesLeave(struct ackplace *place);

/* Sets the offset of all fresh positions. It must not be lower than in an earlier call. */
void acklinesPlaceFresh(int64_t offset);

/* A position whose offset has been acknowledged, as of the last check (common/replicas.h), by as
 * many replicas as its reply waits for; NULL if there is none. */
struct ackplace *acklinesFirstAcknowledged(void);

/* How many positions are in queues, and how many of these are fresh. */
size_t acklinesCount(void);
size_t acklinesFresh(void);

#endif
