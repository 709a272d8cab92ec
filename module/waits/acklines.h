/* The queues of replies that wait for replicas: one queue, or *line*, for each number of replicas
 * that some reply waits for.
 *
 * A reply is *fresh* until the next check of the replicas, because what it reports may not be in
 * the replication stream yet. That check gives it its offset: how far the stream has come by then.
 */
#ifndef LOCK_ACKLINES_H
#define LOCK_ACKLINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/list.h"

struct ackline;

/* A position in a line; in the caller's memory, all zero while it is in none. */
struct ackplace {
    struct link in_list;
    struct list *list; /* of its line: the fresh ones, or those with an offset */
    struct ackline *line;
    int64_t offset; /* how far that many replicas must acknowledge the stream */
};

/* Adds the position at the end of the line for `replicas` replicas. */
void acklinesEnter(struct ackplace *place, size_t replicas);

/* Removes the position from its line, fresh or not; does nothing if it is in none. */
void acklinesLeave(struct ackplace *place);

/* Gives all fresh positions this offset, which must not be lower than any given earlier. */
void acklinesPlaceFresh(int64_t offset);

/* The first position whose offset as many replicas have acknowledged as it waits for
 * (server/replicas.h, as of the last check), or NULL. */
struct ackplace *acklinesFirstAcknowledged(void);

/* How many positions are in lines, and how many of these are fresh. */
size_t acklinesCount(void);
size_t acklinesFresh(void);

#endif
